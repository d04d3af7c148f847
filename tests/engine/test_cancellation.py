"""Cancelling a call, and cutting a line, at every turn of the event loop: nothing is lost, nothing doubled.

Each test runs one program again and again, and interrupts it one turn later each time, until it ends before that.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Protocol

import anyio
import pytest

from broker import MQError
from broker.config import Config
from broker.mqi import MQGMO, MQRC
from tests.conformance.system import System
from tests.conformance.ways import Tcp
from tests.engine.trial import Account, Program, Work, found_on, slow_store, turns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from broker.testing import FaultStore

TURNS_MAX = 200  # a program that is not at its end then never will be

BEFORE = [b"A", b"B", b"C"]

KINDS = {
    "nonpersistent": "DEFPSIST(NO)",
    "persistent": "DEFPSIST(YES) NOHARDENBO",
    "hardened": "DEFPSIST(YES) HARDENBO",
    "evicted": "DEFPSIST(YES) HARDENBO",
}


# What the programs do


async def get(program: Program) -> None:
    await program.get()


async def get_two(program: Program) -> None:
    await asyncio.gather(program.get(), program.get())


async def get_in_unit(program: Program) -> None:
    await program.get_in_unit()
    await program.get_in_unit()


async def get_and_commit(program: Program) -> None:
    await program.get_in_unit()
    await program.commit()


async def get_and_back_out(program: Program) -> None:
    await program.get_in_unit()
    await program.backout()


async def put(program: Program) -> None:
    await program.put(b"X")
    await program.put(b"Y")


async def put_and_commit(program: Program) -> None:
    await program.put_in_unit(b"X")
    await program.put_in_unit(b"Y")
    await program.commit()


async def move(program: Program) -> None:
    """A message from one queue to the other in a unit of work."""
    data = await program.get_in_unit()
    await program.put_in_unit(data.lower())
    await program.commit()


async def put_then_get(program: Program) -> None:
    """Pipelined: the get is deferred behind the put."""
    await asyncio.gather(program.put(b"X"), program.get())


async def browse(program: Program) -> None:
    for _ in BEFORE:
        await program.queue.get(options=MQGMO.BROWSE_NEXT)


async def get_and_commit_at_once(program: Program) -> None:
    """The commit covers the get that was made before it, whether the message has reached the program or not.

    So a line that is cut may take the message with it, as with a get outside syncpoint: the commit stands as a whole.
    """
    unit = Work()
    program.account.unknown.append(unit)

    async def take() -> None:
        try:
            unit.got.append((await program.queue.get(options=MQGMO.SYNCPOINT)).data)
        except MQError as error:
            program.account.at_most_once += error.reason == MQRC.CONNECTION_BROKEN
            raise

    await asyncio.gather(take(), program.connection.commit())
    program.account.unknown.remove(unit)
    program.account.delivered += unit.got


PROGRAMS = [
    get,
    get_two,
    get_in_unit,
    get_and_commit,
    get_and_commit_at_once,
    get_and_back_out,
    put,
    put_and_commit,
    move,
    put_then_get,
    browse,
]


async def wait_and_get(program: Program) -> None:
    await program.get(wait=True)


async def wait_and_get_in_unit(program: Program) -> None:
    await program.get_in_unit(wait=True)


async def wait_and_commit(program: Program) -> None:
    await program.get_in_unit(wait=True)
    await program.commit()


WAITING_PROGRAMS = [wait_and_get, wait_and_get_in_unit, wait_and_commit]


# How they are interrupted


class Interruption(Protocol):
    """Runs a program, which may be interrupted."""

    async def run(self, program: Awaitable[None]) -> None: ...
    def strike(self) -> None: ...


class TaskCancel:
    async def run(self, program: Awaitable[None]) -> None:
        self._task = asyncio.current_task()
        await program

    def strike(self) -> None:
        assert self._task is not None
        self._task.cancel()


class Timeout:
    async def run(self, program: Awaitable[None]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as self._timeout:
                await program

    def strike(self) -> None:
        self._timeout.reschedule(asyncio.get_running_loop().time())


class ScopeCancel:
    async def run(self, program: Awaitable[None]) -> None:
        with anyio.CancelScope() as self._scope:
            await program

    def strike(self) -> None:
        self._scope.cancel()


INTERRUPTIONS: list[Callable[[], Interruption]] = [TaskCancel, Timeout, ScopeCancel]


async def interrupted(program: Awaitable[None], interruption: Interruption, after: int) -> bool:
    """Run a program and interrupt it after so many turns; whether it came to its end before."""
    task = asyncio.create_task(interruption.run(program))
    await turns(after + 1)
    ended = task.done()
    if not ended:
        interruption.strike()
    await asyncio.wait([task])
    if not task.cancelled():
        await task
    return ended


@asynccontextmanager
async def trial(way: str, kind: str, before: list[bytes]) -> AsyncIterator[tuple[System, Program, FaultStore]]:
    """A program beside a queue manager that has these messages on Q. Afterwards the account is checked."""
    config = Config()
    if kind == "evicted":
        config = replace(config, limits=replace(config.limits, body_bytes=0))
    store = slow_store()
    account = Account()
    async with System(lambda: store, way, config) as system:
        await system.mqsc(f"DEFINE QLOCAL(Q) {KINDS[kind]}\nDEFINE QLOCAL(R) {KINDS[kind]}")
        async with system.manager.connect() as setter:
            for data in before:
                await setter.put1("Q", data)
        account.there += before
        program = Program(system, await system.connect(), account)
        await program.start()
        yield system, program, store
        store.release()
        if not program.connection.port.broken:
            await program.leave()
        account.check(await found_on(system, "Q", "R"))


ways = pytest.mark.parametrize("way", ["embedded", "tcp"])
kinds = pytest.mark.parametrize("kind", KINDS)
programs = pytest.mark.parametrize("act", PROGRAMS, ids=lambda act: act.__name__)
waiting_programs = pytest.mark.parametrize("act", WAITING_PROGRAMS, ids=lambda act: act.__name__)


@ways
@kinds
@programs
async def test_a_program_may_be_cancelled_at_any_turn(
    way: str, kind: str, act: Callable[[Program], Awaitable[None]]
) -> None:
    for after in count():
        interruption = INTERRUPTIONS[after % 3]()
        async with trial(way, kind, BEFORE) as (_, program, _):
            ended = await interrupted(act(program), interruption, after)
        if ended:
            break
        assert after < TURNS_MAX


@ways
@kinds
@programs
async def test_a_cancelled_program_may_go_on_and_commit(
    way: str, kind: str, act: Callable[[Program], Awaitable[None]]
) -> None:
    for after in count():
        interruption = INTERRUPTIONS[after % 3]()
        async with trial(way, kind, BEFORE) as (_, program, _):
            ended = await interrupted(act(program), interruption, after)
            await program.commit()
        if ended:
            break
        assert after < TURNS_MAX


@ways
@pytest.mark.parametrize("kind", ["persistent", "hardened"])
@programs
async def test_a_program_may_be_cancelled_while_the_store_stalls(
    way: str, kind: str, act: Callable[[Program], Awaitable[None]]
) -> None:
    for after in range(12):
        interruption = INTERRUPTIONS[after % 3]()
        async with trial(way, kind, BEFORE) as (_, program, store):
            store.hold()
            await interrupted(act(program), interruption, after)


@ways
@kinds
@waiting_programs
async def test_a_waiting_program_may_be_cancelled_while_its_message_comes(
    way: str, kind: str, act: Callable[[Program], Awaitable[None]]
) -> None:
    for after in count():
        interruption = INTERRUPTIONS[after % 3]()
        async with trial(way, kind, []) as (system, program, _):
            task = asyncio.create_task(interruption.run(act(program)))
            await system.waiting("Q", 1)
            async with system.manager.connect() as putter:
                putting = asyncio.create_task(putter.put1("Q", b"A"))
                await turns(after)
                ended = task.done()
                if not ended:
                    interruption.strike()
                await asyncio.wait([task, putting])
            program.account.there.append(b"A")
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
                assert isinstance(system.reached, Tcp)
                system.reached.hang_up()
            await asyncio.wait([task])
            error = task.exception()
            assert error is None or (isinstance(error, MQError) and error.reason == MQRC.CONNECTION_BROKEN), error
            await system.until(lambda: len(system.manager.conversations) == 0)
        if ended:
            break
        assert after < TURNS_MAX
