"""Rows of handles over the lives of a member (queue-sharing 7.2): the group knows of the handles that are open, and of
no others, whichever round trip of an MQOPEN, of an MQCLOSE or of a join is lost, and wherever another life begins.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import pytest

from broker import MQError
from broker.mqi import MQOO
from broker.sharing.database import database
from broker.sharing.database.sessions import DatabaseSession
from broker.sharing.members import call_tasks
from broker.sharing.members.call_tasks import CallTasks
from broker.sharing.members.lease_times import LeaseTimes
from tests.conformance.expect import ALL
from tests.sharing.members import Members, lose_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator

    from tests.sharing.database import GroupDatabase

    Fault = Callable[["OneMember", DatabaseSession], Awaitable[None]]
    Call = Coroutine[Any, Any, Any]

pytestmark = pytest.mark.postgres

_watched: ContextVar[bool] = ContextVar("watched", default=False)


@contextmanager
def watched(yes: bool = True) -> Iterator[None]:
    """Round trips of what is begun in the block are watched."""
    before = _watched.set(yes)
    try:
        yield
    finally:
        _watched.reset(before)


class OneMember:
    """A member, and a queue that programs have open there. From number `at` on, each of its round trips that are
    watched meets one of the `faults`, as long as there are any: before it, or with `after` when it has had its effect.
    """

    def __init__(self, members: Members) -> None:
        self.members = members
        self.membership = members.member("QM1").membership
        self.met = 0
        self._count = 0
        self._at = 0
        self._after = False
        self._faults: list[Fault] = []
        self._late: list[asyncio.Future[None]] = []
        self._made = DatabaseSession._make

    async def make(self, session: DatabaseSession, call: Call) -> Any:
        """Stands in for `DatabaseSession._make`."""
        self._count += _watched.get()
        if not _watched.get() or self._count < self._at or not self._faults:
            return await self._made(session, call)
        found = await self._made(session, call) if self._after else None
        try:
            await self._meet(self._faults.pop(0), session)
        except asyncpg.InterfaceError:
            call.close()
            raise
        return found if self._after else await self._made(session, call)

    async def _meet(self, fault: Fault, session: DatabaseSession) -> None:
        """Let a fault happen, all of it unless it waits for the disk behind this very round trip."""
        self.met += 1
        with watched(False):
            task = asyncio.ensure_future(fault(self, session))
        turn = self.members.member("QM1").database._flushes._turn
        while not (task.done() or turn.statistics().tasks_waiting):  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0.001)
        if task.done():
            task.result()
        else:
            self._late.append(task)

    async def each_round_trip(
        self, faults: list[Fault], act: Callable[[], Awaitable[None]], *befores: bool
    ) -> list[str]:
        """Return what is wrong after `faults` at each round trip that is watched of an act, by its number."""
        wrong = []
        for at in count(1):
            for before in befores:
                for _ in range(2):
                    await (await self.members.connect("QM1")).open("Q", MQOO.OUTPUT)
                self.met, self._count, self._at, self._after, self._faults = 0, 0, at, not before, list(faults)
                await act()
                self._faults = []
                late, self._late = self._late, []
                await asyncio.gather(*late)
                opened, known = await self.handles()
                for conversation in self.programs():
                    conversation.break_(at_once=True)
                left = await self.handles()
                if opened != known or left != (0, 0):
                    wrong.append(f"{at} {before}: {opened} are open, {known} known, then {left}")
                if not self.met:
                    assert at > 5
                    return wrong
        return wrong

    def programs(self) -> list[Any]:
        """The connections that have the queue open."""
        return [each for each in self.members["QM1"].conversations if any(_on_queue(each))]

    async def handles(self) -> tuple[int, int]:
        """When all has come to rest: the handles on the queue that are open, and those that the group knows."""
        await self.until_joined(0)
        await self.members.clock.rest()
        await self.members.member("QM1").handles.sweep()
        known = await self.members.group.value("SELECT count(*) FROM handle WHERE queue = 'Q'")
        return sum(not handle.changed for each in self.programs() for handle in _on_queue(each)), known

    async def until_joined(self, lives: int) -> None:
        while self.membership.state != "joined" or self.membership.lives <= lives:  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.001)

    async def live_again(self) -> None:
        """The life of the member ends here, and the next begins."""
        lives = self.membership.lives
        self.membership._life_is_over("the test says so")
        await self.until_joined(lives)


def _on_queue(conversation: Any) -> list[Any]:
    return [handle for handle in conversation.hconn.handles.values() if handle.name == "Q"]


async def cut(_: OneMember, session: DatabaseSession) -> None:
    """The session is lost."""
    session.terminate()
    raise asyncpg.InterfaceError("the test cuts it off")


async def live_again(one: OneMember, _: DatabaseSession) -> None:
    await one.live_again()


async def come_and_go(one: OneMember, _: DatabaseSession) -> None:
    """A program opens the queue, another is gone before it has the answer, and one that has it open goes."""
    stays, goes = await one.members.connect("QM1"), await one.members.connect("QM1")
    opening = (
        asyncio.ensure_future(_if_it_can(stays.open("Q", ALL))),
        asyncio.ensure_future(_if_it_can(goes.open("Q", ALL))),
    )
    await asyncio.sleep(0)
    lose_line(goes)
    one.programs()[0].break_(at_once=True)
    await asyncio.gather(*opening)


async def _if_it_can(call: Awaitable[Any]) -> Any:
    with suppress(MQError):
        return await call


FAULTS: Final[dict[str, list[Fault]]] = {
    "the session is lost": [cut],
    "another life begins": [live_again],
    "the session is lost, and then another life begins": [cut, live_again],
    "nobody learns what has become of it": [cut] * 8,
}
_SLOW: Final = ("the session is lost", "another life begins")


@pytest.fixture
async def one(group: GroupDatabase, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OneMember]:
    monkeypatch.setattr(database, "SETTLE_SECONDS", 0.0)
    for name in ("renew", "again", "watch"):
        monkeypatch.setattr(LeaseTimes, name, 0.05)
    monkeypatch.setattr(call_tasks, "IDLE_MAX", 0)  # whoever works for a call inherits whether it is watched
    monkeypatch.setattr(CallTasks, "start", lambda tasks, work: tasks._start_soon(tasks._run, work))
    async with Members(group) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)\nALTER QMGR CFCONLOS(TOLERATE)")
        one = OneMember(members)
        monkeypatch.setattr(DatabaseSession, "_make", lambda session, call: one.make(session, call))
        yield one


@pytest.mark.parametrize(
    "fault", [pytest.param(each, marks=[pytest.mark.slow] if each in _SLOW else []) for each in FAULTS]
)
async def test_the_group_knows_of_the_handles_that_are_open_whatever_is_lost_of_a_call(
    one: OneMember, fault: str
) -> None:
    async def act() -> None:
        connection = await one.members.connect("QM1")
        with watched():
            queue = await _if_it_can(connection.open("Q", ALL))
            await _if_it_can(connection.open("Q", MQOO.OUTPUT))
            if queue is not None:
                await _if_it_can(queue.close())
            await _if_it_can(connection.disconnect())

    assert await one.each_round_trip(FAULTS[fault], act, True, False) == []


@pytest.mark.parametrize(
    ("fault", "befores"), [(come_and_go, (True,)), pytest.param(cut, (True, False), marks=pytest.mark.slow)]
)
async def test_the_group_knows_of_the_handles_that_are_open_whatever_happens_while_a_member_joins_again(
    one: OneMember, fault: Fault, befores: tuple[bool, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    member = one.members.member("QM1")
    joined = member.joined

    async def join() -> None:
        with watched():
            await joined()

    monkeypatch.setattr(member, "joined", join)
    assert await one.each_round_trip([fault], one.live_again, *befores) == []
