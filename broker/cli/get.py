"""`evermq get` and `evermq browse`: messages to standard output.

A message is removed for good only when it has been written: the get is under syncpoint, and its unit of work is
committed after the output was flushed. Whatever ends the command earlier puts the message back.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from broker.cli.conversation import converse, with_url
from broker.cli.messages import as_json, as_line
from broker.cli.program import DONE
from broker.cli.seconds import Seconds
from broker.cli.terminal import warn
from broker.mqi import MQGMO, MQGS, MQMO, MQOO, MQRC, MQSS, GetMessageOptions, MQError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from broker import Connection, Message, Queue

UNIT_MESSAGES_MAX: Final = 256


@click.command()
@click.argument("queue")
@click.option("--wait", type=Seconds(min=0), default=0.0, metavar="S", help="Wait S seconds for a message.")
@click.option("--all", "everything", is_flag=True, help="Get messages until the queue is empty.")
@click.option("--json", "in_json", is_flag=True, help="One JSON object a message, with its descriptor.")
@with_url
def get(queue: str, *, wait: float, everything: bool, in_json: bool, url: str) -> int:
    """Get a message from QUEUE and print it. An empty queue is exit code 10, with --all it is the end."""
    return converse(url, lambda connection: _get(connection, queue, wait, everything=everything, in_json=in_json))


@click.command()
@click.argument("queue")
@click.option("--logical", is_flag=True, help="In logical order: each group whole, its messages and segments in order.")
@click.option("--json", "in_json", is_flag=True, help="One JSON object a message, with its descriptor.")
@with_url
def browse(queue: str, *, logical: bool, in_json: bool, url: str) -> int:
    """Print the messages of QUEUE and leave them there."""
    return converse(url, lambda connection: _browse(connection, queue, logical=logical, in_json=in_json))


async def _get(connection: Connection, name: str, wait: float, *, everything: bool, in_json: bool) -> int:
    async with connection.open(name, MQOO.INPUT_AS_Q_DEF | MQOO.FAIL_IF_QUIESCING) as queue:
        messages = await gathered(queue, UNIT_MESSAGES_MAX if everything else 1, wait)
        if not messages and not everything:
            raise MQError(MQRC.NO_MSG_AVAILABLE, f"{name} is empty")
        while messages:
            _write(messages, in_json=in_json)
            sys.stdout.flush()
            await connection.commit()
            messages = await gathered(queue, UNIT_MESSAGES_MAX, wait) if everything else []
    return DONE


async def gathered(queue: Queue, limit: int, wait: float, *, options: int = MQGMO.NONE) -> list[Message]:
    """Get what is there under syncpoint, up to a limit, waiting only for the first message. Nothing: none came."""
    options |= MQGMO.SYNCPOINT | MQGMO.FAIL_IF_QUIESCING
    return await _there(queue.get_many(limit, options=options, wait=wait or None))


async def _browse(connection: Connection, name: str, *, logical: bool, in_json: bool) -> int:
    step = MQGMO.BROWSE_NEXT | MQGMO.FAIL_IF_QUIESCING
    options = GetMessageOptions(options=step | MQGMO.LOGICAL_ORDER if logical else step, match_options=MQMO.NONE)
    last: Message | None = None
    async with connection.open(name, MQOO.BROWSE | MQOO.FAIL_IF_QUIESCING) as queue:
        while messages := await _there(queue.get_many(UNIT_MESSAGES_MAX, options=options)):
            _write(messages, in_json=in_json)
            last = messages[-1]
    if logical and last is not None and _unfinished(last):
        group = last.md.group_id.hex()
        warn(f"group {group} goes no further: evermq explain {name} --group-id {group}")
    return DONE


async def _there(gets: Awaitable[list[Message]]) -> list[Message]:
    """The messages that a batch of gets finds, if any."""
    try:
        return await gets
    except MQError as error:
        if error.reason == MQRC.NO_MSG_AVAILABLE:
            return []
        raise


def _unfinished(message: Message) -> bool:
    """Whether more of its group or of its logical message should follow."""
    return message.group_status == MQGS.MSG_IN_GROUP or message.segment_status == MQSS.SEGMENT


def _write(messages: Sequence[Message], *, in_json: bool) -> None:
    terminal = sys.stdout.isatty()
    for message in messages:
        left = memoryview(as_json(message) if in_json else as_line(message, terminal=terminal))
        while left:  # one write may take a part, where PYTHONUNBUFFERED is set
            left = left[sys.stdout.buffer.write(left) :]
