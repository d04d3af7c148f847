"""Cancelling a batch or a loop, and cutting its line, at every turn: nothing is lost, nothing doubled."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING

import pytest

from broker import MQError
from broker.mqi import MQGMO, MQOO, MQPMO, MQRC
from tests.conformance.expect import inside_unit
from tests.engine.test_cancellation import BEFORE, INTERRUPTIONS, TURNS_MAX, interrupted, trial
from tests.engine.trial import Work, turns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.engine.trial import Program


async def get_many(program: Program) -> None:
    try:
        messages = await program.queue.get_many(2)
    except MQError as error:
        program.account.at_most_once += 2 * (error.reason == MQRC.CONNECTION_BROKEN)
        raise
    program.account.delivered += [message.data for message in messages]


async def get_many_and_commit(program: Program) -> None:
    messages = await program.queue.get_many(2, options=MQGMO.SYNCPOINT)
    program.unit.got += [message.data for message in messages]
    await program.commit()


async def get_many_and_back_out(program: Program) -> None:
    await program.queue.get_many(3, options=MQGMO.SYNCPOINT)
    await program.backout()


async def put_many(program: Program) -> None:
    batch = Work(put=[b"X", b"Y"])
    program.account.unknown.append(batch)
    await program.queue.put_many(batch.put)
    program.account.unknown.remove(batch)
    program.account.there += batch.put


async def move_many(program: Program) -> None:
    """Messages from one queue to the other in a unit of work."""
    messages = await program.queue.get_many(3, options=MQGMO.SYNCPOINT)
    program.unit.got += [message.data for message in messages]
    moved = [data.lower() for data in program.unit.got]
    program.account.interrupted += moved
    await program.second.put_many(moved, options=MQPMO.SYNCPOINT)
    for data in moved:
        program.account.interrupted.remove(data)
    program.unit.put += moved
    await program.commit()


async def loop_and_commit(program: Program) -> None:
    """Two steps, with the third message read ahead."""
    with inside_unit(program.connection):
        async for message in program.queue:
            program.unit.got.append(message.data)
            if len(program.unit.got) == 2:
                break
    await program.commit()


PROGRAMS = [get_many, get_many_and_commit, get_many_and_back_out, put_many, move_many, loop_and_commit]
programs = pytest.mark.parametrize("act", PROGRAMS, ids=lambda act: act.__name__)
kinds = pytest.mark.parametrize("kind", ["nonpersistent", "evicted"])


@pytest.mark.parametrize("way", ["embedded", "tcp"])
@kinds
@programs
async def test_a_cancelled_program_may_go_on_and_commit(
    way: str, kind: str, act: Callable[[Program], Awaitable[None]]
) -> None:
    for after in count():
        async with trial(way, kind, BEFORE) as (_, program, _):
            ended = await interrupted(act(program), INTERRUPTIONS[after % 3](), after)
            await program.commit()
        if ended:
            break
        assert after < TURNS_MAX


@pytest.mark.parametrize("way", ["embedded", "tcp"])
@kinds
async def test_a_waiting_batch_may_be_cancelled_while_its_messages_come(way: str, kind: str) -> None:
    for after in count():
        interruption = INTERRUPTIONS[after % 3]()

        async def wait_and_commit(program: Program) -> None:
            messages = await program.queue.get_many(2, options=MQGMO.SYNCPOINT, wait=float("inf"))
            program.unit.got += [message.data for message in messages]
            await program.commit()

        async with trial(way, kind, []) as (system, program, _):
            task = asyncio.create_task(interruption.run(wait_and_commit(program)))
            await system.waiting("Q", 1)
            async with system.manager.connect() as putter, putter.open("Q", MQOO.OUTPUT) as queue:
                putting = asyncio.create_task(queue.put_many(BEFORE))
                await turns(after)
                ended = task.done()
                if not ended:
                    interruption.strike()
                await asyncio.wait([task, putting])
            program.account.there += BEFORE
        if ended:
            break
        assert after < TURNS_MAX


@pytest.mark.parametrize("end", ["client", "server"])
@kinds
@programs
async def test_the_line_may_be_cut_at_any_turn(end: str, kind: str, act: Callable[[Program], Awaitable[None]]) -> None:
    for after in count():
        async with trial("tcp", kind, BEFORE) as (system, program, _):
            task = asyncio.ensure_future(act(program))
            await turns(after + 1)
            ended = task.done()
            if end == "client":
                system.cut(program.connection)
            else:
                system.reached.hang_up()  # type: ignore[attr-defined]  # the way is tcp
            await asyncio.wait([task])
            error = task.exception()
            assert error is None or (isinstance(error, MQError) and error.reason == MQRC.CONNECTION_BROKEN), error
            await system.until(lambda: len(system.manager.conversations) == 0)
        if ended:
            break
        assert after < TURNS_MAX
