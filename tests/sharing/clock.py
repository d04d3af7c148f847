"""A virtual clock for members of a group: the database tells its time too, and time waits for the database.

`now_seconds()` of the schema is replaced by one that reads a table, which the clock writes whenever it moves. Time goes
on when no task has a call at the database under way, and whatever the database has announced has been heard.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from time import monotonic
from types import AsyncGeneratorType, CoroutineType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import asyncpg

from broker.testing import VirtualClock, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from tests.sharing.database import GroupDatabase

_HANGS_SECONDS: Final = 60.0
"""Of real time: a call at the database that takes longer is not going to end."""

_MARKER: Final = "*"  # no name of a queue begins with it

_VIRTUAL_TIME: Final = """
CREATE UNLOGGED TABLE IF NOT EXISTS virtual_time (seconds double precision NOT NULL);
DELETE FROM virtual_time;
INSERT INTO virtual_time VALUES (0);
CREATE OR REPLACE FUNCTION now_seconds() RETURNS double precision LANGUAGE sql STABLE AS $$
    SELECT seconds FROM virtual_time
$$;
"""


class GroupClock(VirtualClock):
    """The clock of the members of one group, entered with `async with`."""

    def __init__(self, group: GroupDatabase) -> None:
        super().__init__()
        self._group = group
        self._listeners = _Listeners(group.schema)
        self._markers = 0
        self._elsewhere: WeakKeyDictionary[asyncio.Task[Any], object] = WeakKeyDictionary()

    async def __aenter__(self) -> GroupClock:
        self._session = await self._group.session(application_name="clock")
        await self._session.execute(_VIRTUAL_TIME)
        await self._tell()
        self._listeners.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listeners.stop()
        await self._session.close()

    async def rest(self) -> None:
        """Return when all other tasks wait for something other than the database, and have heard what it told them."""
        await self._rest()

    async def _rest(self) -> None:
        gives_up = monotonic() + _HANGS_SECONDS
        marker = 0
        heard = False
        while True:
            await settle(self.quiet_turns)
            under_way = [task for task in asyncio.all_tasks() if self._is_under_way(task)]
            if under_way:
                marker, heard = 0, False  # what they do may be announced
            elif not marker:
                marker = await self._mark()
            elif heard:
                return
            else:
                heard = self._listeners.have_heard(marker)  # who has heard of it only now may have something to do
            if monotonic() > gives_up:
                raise AssertionError(f"still at the database: {[task.get_name() for task in under_way]}")

    def _is_under_way(self, task: asyncio.Task[Any]) -> bool:
        """True if another task is in a call of asyncpg. One that still waits for what it waited for is where it was."""
        waiter = getattr(task, "_fut_waiter", None)
        if task is asyncio.current_task() or (waiter is not None and self._elsewhere.get(task) is waiter):
            return False
        if at_database(task):
            return True
        self._elsewhere[task] = waiter
        return False

    async def _mark(self) -> int:
        """Announce something that comes behind all that was announced before."""
        self._markers += 1
        await self._session.execute("SELECT pg_notify($1, $2)", self._group.schema, f"{_MARKER}{self._markers}")
        return self._markers

    async def _go_to(self, moment: float) -> None:
        await super()._go_to(moment)
        await self._tell()

    async def _tell(self) -> None:
        await self._session.execute("UPDATE virtual_time SET seconds = $1", self.time())


class _Listeners:
    """The sessions that listen to a group, and which marker each has heard last: then it has heard what came before.

    Sessions are met where they begin to listen. One that has ended is not waited for.
    """

    def __init__(self, channel: str) -> None:
        self._channel = channel
        self._heard: dict[asyncpg.Connection, int] = {}

    def start(self) -> None:
        """Meet those who begin to listen from now on."""
        assert self._channel not in _met, self._channel
        if not _met:
            asyncpg.Connection.add_listener = _add_listener
        _met[self._channel] = self

    def stop(self) -> None:
        del _met[self._channel]
        if not _met:
            asyncpg.Connection.add_listener = _ADD_LISTENER

    def meet(self, session: asyncpg.Connection, callback: Callable[..., Any]) -> Callable[..., Any]:
        """A session begins to listen. Return what is to be told instead of `callback`."""
        self._heard[session] = 0
        return self._without_markers(callback)

    def have_heard(self, marker: int) -> bool:
        """True if all have heard this marker."""
        for session in [session for session in self._heard if session.is_closed()]:
            del self._heard[session]
        return all(heard >= marker for heard in self._heard.values())

    def _without_markers(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        def reported(session: asyncpg.Connection, pid: int, channel: str, payload: str) -> None:
            if payload.startswith(_MARKER):
                self._heard[session] = int(payload.removeprefix(_MARKER))
            else:
                callback(session, pid, channel, payload)

        return reported


_met: Final[dict[str, _Listeners]] = {}  # by channel: groups begin and end in any order
_ADD_LISTENER: Final = asyncpg.Connection.add_listener


async def _add_listener(session: asyncpg.Connection, channel: str, callback: Callable[..., Any]) -> None:
    listeners = _met.get(channel)
    await _ADD_LISTENER(session, channel, callback if listeners is None else listeners.meet(session, callback))


def at_database(task: asyncio.Task[Any]) -> bool:
    """True if a task is in a call of asyncpg."""
    return any("/asyncpg/" in file for file in _files(task.get_coro()))


def _files(awaited: object) -> Iterator[str]:
    """Yield the files of the coroutines that a task is in, from the outermost. One that enters an asynchronous context
    manager awaits something that does not say which generator it is a step of; the manager knows.
    """
    enters: object = None
    while True:
        if isinstance(awaited, CoroutineType):
            yield awaited.cr_code.co_filename
            frame = awaited.cr_frame
            enters = frame.f_locals.get("self") if frame is not None else None
            awaited = awaited.cr_await
        elif isinstance(awaited, AsyncGeneratorType):
            yield awaited.ag_code.co_filename
            awaited, enters = awaited.ag_await, None
        elif isinstance(enters, AbstractAsyncContextManager) and isinstance(
            getattr(enters, "gen", None), AsyncGeneratorType
        ):
            awaited, enters = enters.gen, None  # type: ignore[attr-defined]
        else:
            return
