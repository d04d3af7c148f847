"""`evermq get` and `evermq browse`: messages to standard output.

A message is removed for good only when it has been written: the get is under syncpoint, and its unit of work is
committed after the output was flushed. Whatever ends the command earlier puts the message back.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from broker.cli.conversation import converse, with_url
from broker.cli.messages.hexadecimal import in_full
from broker.cli.messages.printing import as_json, as_line
from broker.cli.program import DONE
from broker.cli.terminal.seconds import SecondsType
from broker.cli.terminal.terminal import warn
from broker.mqi import MQGMO, MQGS, MQMO, MQOO, MQRC, MQSS, GetMessageOptions, MQError
from broker.presentation.escaping import escaped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from broker import Connection, Message, Queue

UNIT_MESSAGES_MAX: Final = 256


@click.command()
@click.argument("queue")
@click.option("--wait", type=SecondsType(min=0), default=0.0, metavar="S", help="Wait S seconds for a message.")
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
@click.option(
    "--hex", "in_hex", is_flag=True, help="In full, as amqsbcg: descriptor, headers by fields, data in hexadecimal."
)
@click.option("-n", "--count", type=click.IntRange(1), metavar="N", help="Only the first N messages.")
@with_url
def browse(queue: str, *, logical: bool, in_json: bool, in_hex: bool, count: int | None, url: str) -> int:
    """Print the messages of QUEUE and leave them there."""
    if in_hex and in_json:
        raise click.UsageError("--hex and --json: one of them")
    show = _MessageWriter(in_json=in_json, in_hex=in_hex)
    return converse(url, lambda connection: _browse(connection, queue, show, count, logical=logical))


async def _get(connection: Connection, name: str, wait: float, *, everything: bool, in_json: bool) -> int:
    show = _MessageWriter(in_json=in_json)
    async with connection.open(name, MQOO.INPUT_AS_Q_DEF | MQOO.FAIL_IF_QUIESCING) as queue:
        messages = await gathered(queue, UNIT_MESSAGES_MAX if everything else 1, wait)
        if not messages and not everything:
            raise MQError(MQRC.NO_MSG_AVAILABLE, f"{name} is empty")
        while messages:
            show(messages)
            sys.stdout.flush()
            await connection.commit()
            messages = await gathered(queue, UNIT_MESSAGES_MAX, wait) if everything else []
    return DONE


async def gathered(queue: Queue, limit: int, wait: float, *, options: int = MQGMO.NONE) -> list[Message]:
    """Get what is there under syncpoint, up to a limit, waiting only for the first message. Nothing: none came."""
    options |= MQGMO.SYNCPOINT | MQGMO.FAIL_IF_QUIESCING
    return await _there(queue.get_many(limit, options=options, wait=wait or None))


async def _browse(connection: Connection, name: str, show: _MessageWriter, count: int | None, *, logical: bool) -> int:
    step = MQGMO.BROWSE_NEXT | MQGMO.FAIL_IF_QUIESCING | show.options
    options = GetMessageOptions(options=step | MQGMO.LOGICAL_ORDER if logical else step, match_options=MQMO.NONE)
    last: Message | None = None
    async with connection.open(name, MQOO.BROWSE | MQOO.FAIL_IF_QUIESCING) as queue:
        while count is None or show.number < count:
            most = UNIT_MESSAGES_MAX if count is None else min(UNIT_MESSAGES_MAX, count - show.number)
            messages = await _there(queue.get_many(most, options=options))
            if not messages:
                break
            show(messages)
            last = messages[-1]
    if logical and count is None and last is not None and _unfinished(last):
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
    """True if more of its group or of its logical message should follow."""
    return message.group_status == MQGS.MSG_IN_GROUP or message.segment_status == MQSS.SEGMENT


class _MessageWriter:
    """Writes messages to standard output, in the form asked for. `number` is how many it has written."""

    def __init__(self, *, in_json: bool, in_hex: bool = False) -> None:
        self.number = 0
        self.options = MQGMO.PROPERTIES_FORCE_MQRFH2 if in_hex else MQGMO.NONE
        self._in_json = in_json
        self._in_hex = in_hex
        self._terminal = sys.stdout.isatty()

    def __call__(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.number += 1
            left = memoryview(self._written(message))
            while left:  # one write may take a part, where PYTHONUNBUFFERED is set
                left = left[sys.stdout.buffer.write(left) :]

    def _written(self, message: Message) -> bytes:
        if self._in_hex:
            return "".join(f"{escaped(line)}\n" for line in [*in_full(message, self.number), ""]).encode()
        return as_json(message) if self._in_json else as_line(message, terminal=self._terminal)
