"""`evermq delayed`: delayed messages, listed, cancelled, released (handlers rule 3.6)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from broker.cli.administration.status import table
from broker.cli.conversation import converse, with_url
from broker.cli.program import SomeFailedError
from broker.cli.terminal.identifier import identifier
from broker.cli.terminal.terminal import say
from broker.mqi import MQGMO, MQOO, MQRC, MessageDescriptor, MQError
from broker.presentation.moments import instant_in_words

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from broker import Connection, Message, Queue

_EITHER = "name one message by its MsgId with --id, or all that are delayed with --all"


@click.group()
def delayed() -> None:
    """List delayed messages, cancel them, release them before their time.

    A message is delayed when it was put with a delay, and when a handler has failed on it.
    """


@delayed.command("list")
@click.argument("queue")
@click.option("--json", "in_json", is_flag=True, help="One JSON object a message.")
@with_url
def list_delayed(queue: str, *, in_json: bool, url: str) -> None:
    """List the delayed messages of QUEUE, in queue order, with their instants in UTC."""
    found = converse(url, lambda connection: _listed(connection, queue))
    if in_json:
        for each in found:
            print(json.dumps(_reported(each)))
    elif found:
        say("\n".join(table(_in_rows(found))))


@delayed.command("cancel")
@click.argument("queue")
@click.option("--id", "msg_id", callback=identifier, metavar="HEX", help="The message with this MsgId.")
@click.option("--all", "everything", is_flag=True, help="All delayed messages.")
@with_url
def cancel_delayed(queue: str, *, msg_id: bytes | None, everything: bool, url: str) -> None:
    """Remove delayed messages of QUEUE, as if they had never been put: their keys are free.

    What is available meanwhile stays.
    """
    _check_one_of(msg_id, everything=everything)
    count = converse(url, lambda connection: _cancelled(connection, queue, msg_id))
    say(_outcome(queue, count, msg_id, "cancelled"))


@delayed.command("release")
@click.argument("queue")
@click.option("--id", "msg_id", callback=identifier, metavar="HEX", help="The message with this MsgId.")
@click.option("--all", "everything", is_flag=True, help="All delayed messages.")
@with_url
def release_delayed(queue: str, *, msg_id: bytes | None, everything: bool, url: str) -> None:
    """Let delayed messages of QUEUE be available now."""
    _check_one_of(msg_id, everything=everything)
    count = converse(url, lambda connection: connection.release_delayed(queue, msg_id))
    say(_outcome(queue, count, msg_id, "released"))


def _check_one_of(msg_id: bytes | None, *, everything: bool) -> None:
    if (msg_id is None) is not everything:
        raise click.UsageError(_EITHER)


def _outcome(queue: str, count: int, msg_id: bytes | None, done: str) -> str:
    if msg_id is not None and not count:
        raise SomeFailedError(f"no message of {queue} with MsgId {msg_id.hex()} is delayed")
    return f"{count} message{'' if count == 1 else 's'} of {queue} {done}"


async def _listed(connection: Connection, name: str) -> list[Message]:
    async with connection.open(name, MQOO.BROWSE) as queue:
        return [message async for message in _delayed(queue)]


async def _delayed(queue: Queue) -> AsyncIterator[Message]:
    """The delayed messages, one after the other; each is under the browse cursor."""
    async for message in queue.messages(options=MQGMO.BROWSE_NEXT, delayed=True):
        if message.deliver_at:
            yield message


async def _cancelled(connection: Connection, name: str, msg_id: bytes | None) -> int:
    """Remove delayed messages; how many there were. Each goes by itself, and only if it is still delayed then."""
    count = 0
    async with connection.open(name, MQOO.INPUT_SHARED | MQOO.BROWSE) as queue:
        wanted = [message.md.msg_id async for message in _delayed(queue)] if msg_id is None else [msg_id]
        for each in wanted:
            try:
                got = await queue.get(MessageDescriptor(msg_id=each), MQGMO.SYNCPOINT, delayed=True)
            except MQError as error:
                if error.reason != MQRC.NO_MSG_AVAILABLE:
                    raise
                continue
            if got.deliver_at:
                await connection.commit()
                count += 1
            else:
                await connection.backout()
    return count


def _reported(message: Message) -> dict[str, object]:
    """A message as JSON has it."""
    return {
        "msg_id": message.md.msg_id.hex(),
        "deliver_at": message.deliver_at,
        "priority": message.md.priority,
        "attempts": message.backout_count,
        "length": message.length,
    }


def _in_milliseconds(at: datetime) -> str:
    return at.isoformat(" ", "milliseconds").removesuffix("+00:00")


def _in_rows(found: Sequence[Message]) -> list[list[str]]:
    rows = [["MSGID", "DELIVER AT", "PRIORITY", "ATTEMPTS", "BYTES"]]
    for message in found:
        due = instant_in_words(message.deliver_at, _in_milliseconds)
        reported = _reported(message)
        rows.append(
            [
                str(reported["msg_id"]),
                due,
                str(reported["priority"]),
                str(reported["attempts"]),
                str(reported["length"]),
            ]
        )
    return rows
