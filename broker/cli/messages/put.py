"""`evermq put`: one message from the command line or standard input, or a message for each line of it."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Unpack

import click

from broker.cli.conversation import NO_QUEUE_MANAGER, converse, with_url
from broker.cli.messages.bulk_put import BulkPut
from broker.cli.messages.lines import LINE_BYTES_MAX, GroupLines, Lines
from broker.cli.messages.put_options import MessageOptions, about_one, descriptor, with_message_options
from broker.cli.program import COULD_NOT_RUN, DONE, SOME_FAILED
from broker.cli.terminal import streams
from broker.cli.terminal.terminal import say, warn
from broker.mqi import MQMF, MQOO, MQPMO, MQError

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker import Connection
    from broker.cli.messages.lines import InputLine
    from broker.mqi import MessageDescriptor


@click.command()
@click.argument("queue")
@click.argument("text", required=False)
@click.option("--lines", "by_line", is_flag=True, help="Put each line of standard input as a message of its own.")
@click.option("--group", is_flag=True, help="With --lines: one message group, put in one unit of work.")
@click.option("--ack", is_flag=True, help="With --lines: print the number of each line once it is acknowledged.")
@click.option("--quiet", is_flag=True, help="Do not print the MsgId.")
@with_message_options
@with_url
def put(
    queue: str,
    text: str | None,
    *,
    by_line: bool,
    group: bool,
    ack: bool,
    quiet: bool,
    url: str,
    **options: Unpack[MessageOptions],
) -> int:
    """Put a message on QUEUE: TEXT, or standard input as it is; print its MsgId.

    Messages are persistent: they are acknowledged when they are on disk.
    """
    if (ack or group) and not by_line:
        raise click.UsageError(f"{'--ack' if ack else '--group'} goes with --lines")
    if by_line and text is not None:
        raise click.UsageError("--lines reads standard input: leave TEXT out")
    if by_line and (alone := about_one(options)):
        raise click.UsageError(f"{alone[0]} is for one message, and --lines puts many")
    if by_line:
        put_lines = _put_group if group else _put_lines
        describe = partial(descriptor, options)
        return converse(url, lambda connection: put_lines(connection, queue, describe, ack=ack))
    data = _standard_input() if text is None else text.encode("utf-8", "surrogateescape")
    return converse(url, lambda connection: _put_one(connection, queue, data, options, quiet=quiet))


def _standard_input() -> bytes:
    data = sys.stdin.buffer.read(LINE_BYTES_MAX + 1)
    if len(data) > LINE_BYTES_MAX:
        raise click.UsageError(f"a message has at most {LINE_BYTES_MAX} bytes (--lines puts one for each line)")
    return data


async def _put_one(connection: Connection, name: str, data: bytes, options: MessageOptions, *, quiet: bool) -> int:
    md = descriptor(options, data)
    try:
        result = await connection.put1(
            name, data, md, properties=options["properties"], delay=options["delay"], key=options["key"]
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if result.duplicate:
        warn(f"a message with key {options['key']} was put before: nothing is put")
    if not (quiet or streams.output_is_closed()):  # it is put: who closed it does not want to know more
        say(result.md.msg_id.hex())
    return DONE


async def _put_lines(
    connection: Connection, name: str, describe: Callable[[bytes], MessageDescriptor], *, ack: bool
) -> int:
    outcome = _LinesOutcome(ack=ack)
    async with connection.open(name, MQOO.OUTPUT | MQOO.FAIL_IF_QUIESCING) as queue:
        await BulkPut(queue, lambda line: describe(line.data or b""), outcome.settled).put(Lines(sys.stdin.fileno()))
    return outcome.in_words(name)


async def _put_group(
    connection: Connection, name: str, describe: Callable[[bytes], MessageDescriptor], *, ack: bool
) -> int:
    """All lines or none: a line counts as put when the unit of work is committed."""
    outcome = _LinesOutcome(ack=ack)
    lines = GroupLines(Lines(sys.stdin.fileno()))
    put: list[InputLine] = []

    def member(line: InputLine) -> MessageDescriptor:
        md = describe(line.data or b"")
        md.msg_flags = MQMF.LAST_MSG_IN_GROUP if line.number == lines.last else MQMF.MSG_IN_GROUP
        return md

    def settled(line: InputLine, error: MQError | None) -> None:
        if error is None:
            put.append(line._replace(data=None))
        else:
            outcome.settled(line, error)

    async with connection.open(name, MQOO.OUTPUT | MQOO.FAIL_IF_QUIESCING) as queue:
        await BulkPut(queue, member, settled, MQPMO.SYNCPOINT | MQPMO.LOGICAL_ORDER).put(lines)
        if outcome.failed:
            await connection.backout()
        else:
            await connection.commit()
            for line in put:
                outcome.settled(line, None)
    return outcome.in_words(name)


class _LinesOutcome:
    """The fate of the lines."""

    def __init__(self, *, ack: bool) -> None:
        self._ack = ack
        self._acknowledged = 0
        self._failed = 0
        self._first: tuple[InputLine, MQError] | None = None

    @property
    def failed(self) -> bool:
        """True if a line was refused."""
        return self._first is not None

    def settled(self, line: InputLine, error: MQError | None) -> None:
        if error is not None:
            self._failed += 1
            self._first = self._first or (line, error)
            return
        self._acknowledged += 1
        if self._ack:
            print(line.number, flush=True)

    def in_words(self, name: str) -> int:
        """Print the summary; the exit code."""
        warn(f"{self._acknowledged} message{'' if self._acknowledged == 1 else 's'} put on {name}")
        if self._first is None:
            return DONE
        line, error = self._first
        others = f" ({self._failed - 1} lines read after it were not put)" if self._failed > 1 else ""
        warn(f"evermq: line {line.number}: {error}{others}")
        return COULD_NOT_RUN if error.reason in NO_QUEUE_MANAGER else SOME_FAILED
