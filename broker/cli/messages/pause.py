"""`evermq pause` and `evermq resume`: whether handlers are started for a queue, durably (handlers rule 6.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from broker.cli.conversation import converse, with_url
from broker.cli.program import SomeFailedError
from broker.cli.terminal.terminal import say
from broker.mqi import MQRC, MQError
from broker.mqi.names import no_local_queue

if TYPE_CHECKING:
    from broker import Connection


@click.command()
@click.argument("queue")
@with_url
def pause(queue: str, *, url: str) -> None:
    """Start no more handlers for QUEUE until it is resumed, whoever serves it and whatever is started again.

    It is the queue's own switch, ALTER QLOCAL(QUEUE) NOTRIGGER. Messages are put as ever, and wait; handlers that run
    go on.
    """
    say(converse(url, lambda connection: switched(connection, queue, on=False)))


@click.command()
@click.argument("queue")
@with_url
def resume(queue: str, *, url: str) -> None:
    """Start handlers for QUEUE again: for all messages that wait there, ALTER QLOCAL(QUEUE) TRIGGER."""
    say(converse(url, lambda connection: switched(connection, queue, on=True)))


async def switched(connection: Connection, queue: str, *, on: bool) -> str:
    """Switch the trigger of a local queue on or off; what has come of it, in a line.

    Raises UNKNOWN_OBJECT_NAME (2085), SomeFailedError for a queue whose messages start no handlers.
    """
    name = queue.replace("'", "''")
    (reply,) = await connection.mqsc(f"DISPLAY QLOCAL('{name}') TRIGGER TRIGTYPE PROCESS CURDEPTH")
    if not reply.attributes:
        raise MQError(MQRC.UNKNOWN_OBJECT_NAME, no_local_queue(queue))
    (shown,) = reply.attributes
    if on and (shown["TRIGTYPE"] == "NONE" or not shown["PROCESS"]):
        raise SomeFailedError(
            f"{queue} starts no handlers: TRIGTYPE({shown['TRIGTYPE']}) PROCESS({shown['PROCESS']}); name a process "
            f"that is defined: ALTER QLOCAL({queue}) TRIGTYPE(EVERY) PROCESS(...)"
        )
    waiting = f"{shown['CURDEPTH']} message{'' if shown['CURDEPTH'] == 1 else 's'} on it"
    state = "resumed" if on else "paused"
    if shown["TRIGGER"] == on:
        return f"{queue} is not paused, {waiting}" if on else f"{queue} is paused already, {waiting}"
    await connection.mqsc(f"ALTER QLOCAL('{name}') {'TRIGGER' if on else 'NOTRIGGER'}", check=True)
    return f"{queue} is {state}, {waiting}"
