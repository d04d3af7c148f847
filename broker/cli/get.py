"""`evermq get` and `evermq browse`: messages to standard output.

A message is removed for good only when it has been written: the get is under syncpoint, and its unit of work is
committed after the output was flushed. Whatever ends the command earlier puts the message back.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final

import click

from broker.cli.conversation import converse, with_url
from broker.cli.messages import as_json, as_line
from broker.cli.program import DONE
from broker.mqi import MQGMO, MQGS, MQMO, MQOO, MQRC, MQSS, GetMessageOptions, MQError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker import Connection, Message, Queue

UNIT_MESSAGES_MAX: Final = 256
UNIT_BYTES_MAX: Final = 1024 * 1024


@click.command()
@click.argument("queue")
@click.option("--wait", type=click.FloatRange(min=0), default=0.0, metavar="S", help="Wait S seconds for a message.")
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


async def gathered(queue: Queue, limit: int, wait: float) -> list[Message]:
    """Get what is there under syncpoint, up to a limit, waiting only for the first message. Nothing: none came.

    The gets after the first are made together, as many as should fit the bytes of a unit of work: the queue manager
    then writes together what each of them has to write.
    """
    messages = await _got(queue, 1, wait)
    room = UNIT_BYTES_MAX
    while messages and len(messages) < limit and room > 0:
        wanted = min(limit - len(messages), room // max(1, *(message.length for message in messages)) + 1)
        more = await _got(queue, wanted, 0.0)
        messages += more
        room -= sum(message.length for message in more)
        if len(more) < wanted:
            break
    return messages


async def _got(queue: Queue, count: int, wait: float) -> list[Message]:
    """The answers to so many gets at once, those apart that found nothing."""
    options = MQGMO.SYNCPOINT | MQGMO.FAIL_IF_QUIESCING
    gets = [queue.get(options=options, wait=wait or None) for _ in range(count)]
    answers = await asyncio.gather(*gets, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException) and not _is_nothing(answer):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]


def _is_nothing(error: BaseException) -> bool:
    return isinstance(error, MQError) and error.reason == MQRC.NO_MSG_AVAILABLE


async def _browse(connection: Connection, name: str, *, logical: bool, in_json: bool) -> int:
    step = MQGMO.BROWSE_FIRST
    order = MQGMO.LOGICAL_ORDER if logical else MQGMO.NO_WAIT
    message: Message | None = None
    async with connection.open(name, MQOO.BROWSE | MQOO.FAIL_IF_QUIESCING) as queue:
        while True:
            try:
                message = await queue.get(options=_next(step | order))
            except MQError as error:
                if not _is_nothing(error):
                    raise
                if logical and message is not None and _unfinished(message):
                    group = message.md.group_id.hex()
                    print(f"group {group} goes no further: evermq explain {name} --group-id {group}", file=sys.stderr)
                return DONE
            _write([message], in_json=in_json)
            step = MQGMO.BROWSE_NEXT


def _next(options: int) -> GetMessageOptions:
    """Any message: identifiers are not looked at."""
    return GetMessageOptions(options=options | MQGMO.FAIL_IF_QUIESCING, match_options=MQMO.NONE)


def _unfinished(message: Message) -> bool:
    """Whether more of its group or of its logical message should follow."""
    return message.group_status == MQGS.MSG_IN_GROUP or message.segment_status == MQSS.SEGMENT


def _write(messages: Sequence[Message], *, in_json: bool) -> None:
    terminal = sys.stdout.isatty()
    for message in messages:
        sys.stdout.buffer.write(as_json(message) if in_json else as_line(message, terminal=terminal))
