"""The systems with shared queues: a group of one or two members, in which the local queues of a text are shared.

Every `DEFINE QLOCAL` that a text gives to `System.mqsc` gets QSGDISP(SHARED). Members have SQQMNAME(IGNORE): a report
to a shared queue of QM1 is put there by any of them. With two members the connections of a text are with one and the
other in turn, but for those that it makes beside another. Texts that differ by the rules, or tell of nothing that can
be shared, are in `tests/conformance/exempt.py`.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from itertools import cycle
from typing import TYPE_CHECKING, Final, Self

from broker.core.message.entry import GET_PENDING
from broker.storage.memory import MemoryStore
from tests.conformance.invariants import check_locks
from tests.conformance.system import System
from tests.conformance.ways import WAYS
from tests.sharing.members import Members

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from broker import Connection, QueueManager
    from broker.mqi.replies import CommandReply
    from tests.conformance.ways import Way
    from tests.sharing.database import GroupDatabase

_ENDS_SECONDS: Final = 60.0
"""Of real time, in which all members have to end."""

_DEFINE: Final = re.compile(r"DEFINE QLOCAL\((?!SYSTEM\.)[\w.]+\)(?!.*(QSGDISP|USAGE\(XMITQ\)))")


_OWN: Final = re.compile(r"(DEFINE|ALTER|DELETE) (?!QLOCAL\((?!SYSTEM\.))")
"""What each member has for itself: everything but queues that are shared."""


def shared(text: str) -> str:
    """The commands, with the local queues that they define shared by the group."""
    return _DEFINE.sub(lambda found: f"{found[0]} QSGDISP(SHARED)", text)


class InTurn:
    """Each new connection is with the next member; commands are for the first."""

    def __init__(self, ways: list[Way]) -> None:
        self._first = ways[0]
        self._turns = cycle(ways)

    def connect(self, appl_name: str, user: str = "") -> AbstractAsyncContextManager[Connection]:
        way = self._first if appl_name == "runmqsc" else next(self._turns)
        return way.connect(appl_name, user)

    def cut(self, connection: Connection) -> None:
        self._first.cut(connection)


class SharedSystem(System):
    """A group whose first member is QM1, in a new database."""

    def __init__(self, group: GroupDatabase, way: str, count: int) -> None:
        super().__init__(MemoryStore, way)
        self._members = Members(group, 0, self._config)
        self._names = [f"QM{number}" for number in range(1, count + 1)]
        self._managers: list[QueueManager] = []
        self.clock = self._members.clock
        self.q_owner = group.name
        self.agents = 1
        self.members = count

    def _way(self, beside: Connection | None) -> Way:
        return self.reached if beside is None else self._ways[beside.q_mgr_name]

    async def mqsc(self, text: str) -> list[CommandReply]:
        replies = await super().mqsc(shared(text))
        own = "\n".join(filter(_OWN.match, text.splitlines()))
        for name in self._names[1:] if own else ():
            await self._members.mqsc(own, name)
        await self.rest()  # until the other members have heard of it
        return replies

    async def rest(self) -> None:
        await self._members.clock.rest()

    async def waiting(self, name: str, getters: int) -> None:
        def count() -> int:
            return sum(manager.core.objects.queues[name].waiters.count for manager in self._managers)

        await self.until(lambda: count() == getters)
        await self.rest()  # a get that waits on a shared queue looks once more

    def depth(self, name: str = "Q") -> int:
        if not self.manager.core.objects.queues[name].shared:
            return super().depth(name)
        ((depth,),) = self._members.group.at_once(f"SELECT depth FROM queue WHERE name = '{name}'")
        return int(depth)

    def held(self, name: str = "Q") -> int:
        sql = f"SELECT count(*) FROM message WHERE queue = '{name}' AND state = {GET_PENDING}"
        ((held,),) = self._members.group.at_once(sql)
        return int(held)

    def check(self) -> None:
        for manager in self._managers:
            manager.core.check_invariants()
        check_locks(self._managers, self._members.group)

    async def __aenter__(self) -> Self:
        await self._members.__aenter__()
        await self._start()
        await self.mqsc("ALTER QMGR SQQMNAME(IGNORE)")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            async with asyncio.timeout(_ENDS_SECONDS):
                await super().__aexit__(kind, error, trace)
        except BaseException as wrong:
            await self._members.__aexit__(type(wrong), wrong, wrong.__traceback__)
            raise
        await self._members.__aexit__(None, None, None)

    async def _start(self) -> None:
        self._connected = []
        async with AsyncExitStack() as stack:
            self._managers = [await self._members.start(name) for name in self._names]
            self.manager = self._managers[0]
            ways = [await stack.enter_async_context(WAYS[self.way](manager)) for manager in self._managers]
            self.reached = InTurn(ways)
            self._ways = dict(zip(self._names, ways, strict=True))
            self._connections = await stack.enter_async_context(AsyncExitStack())
            self._stack = stack.pop_all()

    async def _end(self) -> None:
        await super()._end()
        for name in self._names:
            await self._members.stop(name)
        self.check()

    async def _check_end(self) -> None:
        for manager in self._managers:
            self.manager, self._store = manager, self._members.stores[manager.name]
            await super()._check_end()
