"""The systems with shared queues: a group of one or two members, in which the local queues of a text are shared.

Every `DEFINE QLOCAL` that a text gives to `System.mqsc` gets QSGDISP(SHARED). Members have SQQMNAME(IGNORE): a report
to a shared queue of QM1 is put there by any of them. With two members the connections of a text are with one and the
other in turn, but for those that it makes beside another. Texts that differ by the rules, or tell of nothing that can
be shared, are in `tests/conformance/exempt.py`.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack, suppress
from itertools import cycle
from typing import TYPE_CHECKING, Final, Self

from broker import MQError
from broker.core.message.entry import GET_PENDING
from broker.core.names.definitions import COPY, GROUP, OWN, SHARED
from broker.core.names.sharing_group import TRANSMISSION_QUEUE
from broker.storage.memory import MemoryStore
from tests.conformance.invariants import check_locks
from tests.conformance.system import System, check_queues, columns, kept
from tests.conformance.ways import ENTRANCES
from tests.sharing.database import JOINED
from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from broker import Connection, QueueManager
    from broker.core.names.definitions import Attributes, Definition
    from broker.mqi.replies import CommandReply
    from tests.conformance.ways import Way
    from tests.sharing.database import GroupDatabase

_ENDS_SECONDS: Final = 60.0
"""Of real time, in which all members have to end."""

_DAY_SECONDS: Final = 86_400

_DEFINE: Final = re.compile(r"DEFINE QLOCAL\((?!SYSTEM\.)[\w.]+\)(?!.*(QSGDISP|USAGE\(XMITQ\)))")


_OWN: Final = re.compile(r"(DEFINE|ALTER|DELETE) (?!QLOCAL\((?!SYSTEM\.))")
"""What each member has for itself: everything but queues that are shared."""


_FIGURES: Final = ("connections", "quiescing", "queues", "handlers", "consumers", "prepared_units")
"""Of `QueueManager.status`: those that do not only grow."""

_GROWING: Final = {"puts", "gets"}
"""Of those of a queue: those that do."""

_SUFFIXES: Final = {OWN: "", COPY: " QSGDISP(COPY)", SHARED: " QSGDISP(SHARED)", GROUP: " QSGDISP(GROUP)"}


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
    """A group whose first member is QM1, in a database that is as new. It may be lent to several scenarios, one after
    the other (`tests/conformance/kept.py`): they run in other tasks than it is entered in, which `serve` does for them
    what is to be done there.
    """

    def __init__(self, group: GroupDatabase, way: str, count: int) -> None:
        super().__init__(MemoryStore, way)
        self.group = group
        self._members = Members(group, 0, self._config)
        self._names = [f"QM{number}" for number in range(1, count + 1)]
        self._managers: list[QueueManager] = []
        self.clock = self._members.clock
        self.q_owner = group.name
        self.agents = 1
        self.members = count
        self.persists = count > 1
        """Whether messages are persistent by default: told by who enters it."""
        self._asked: asyncio.Queue[tuple[Callable[[], Awaitable[None]], asyncio.Future[None]]] = asyncio.Queue()

    async def serve(self, ends: asyncio.Event) -> None:
        """Do in this task what is asked for in others, until it is to end."""
        ended = asyncio.ensure_future(ends.wait())
        while not ends.is_set():
            asked = asyncio.ensure_future(self._asked.get())
            await asyncio.wait((asked, ended), return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                asked.cancel()
                continue
            step, done = asked.result()
            try:
                await step()
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(None)

    async def restart(self) -> None:
        """An orderly end of all members, and a new start of each."""
        self.check()
        await self._connections.aclose()
        done = asyncio.get_running_loop().create_future()
        self._asked.put_nowait((super().restart, done))
        await done

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
        ((depth,),) = self.group.at_once(f"SELECT depth_of('{name}')")
        return int(depth)

    def held(self, name: str = "Q") -> int:
        sql = f"SELECT count(*) FROM held WHERE queue = '{name}' AND kind = {GET_PENDING}"
        ((held,),) = self.group.at_once(sql)
        return int(held)

    def check(self) -> None:
        for manager in self._managers:
            manager.core.check_invariants()
        check_locks(self._managers, self._members.group)

    # From one scenario to the next

    async def leave(self) -> None:
        """The programs of a scenario disconnect. The next one begins with the first member."""
        await self._connections.aclose()
        self._connected = []
        self.reached = InTurn(list(self._ways.values()))
        await self.rest()

    async def check_joined(self) -> None:
        """Raise AssertionError for what programs have left behind that have gone, while the members are there: later
        they would free it.
        """
        self.check()
        left = await self.group.leaks(JOINED)
        assert not left, left
        for manager in self._managers:
            status = manager.status()
            assert status["connections"] <= self.agents, manager.name  # none, where it quiesces
            check_queues(status, but=TRANSMISSION_QUEUE)
            assert sorted(_kept_by(self._members.stores[manager.name])) == sorted(kept(manager)), manager.name

    async def tidy(self) -> None:
        """Delete what the scenario has defined, with its messages, and clear the queues that were there."""
        for manager in self._managers:
            commands = [*_deletions(manager, self._defaults[manager.name]), *_clearings(manager)]
            if commands:
                with suppress(MQError):  # it may take no more calls: then it is not as it was
                    async with self._ways[manager.name].connect("runmqsc") as connection:
                        await connection.mqsc("\n".join(commands))
                await self.rest()

    async def standing(self) -> dict[str, object]:
        """All that a scenario may have changed: definitions with their attributes, how many rows there are, which lives
        the members are in, and the day.
        """
        stands: dict[str, object] = {"group": await self.group.standing(), "day": self.clock.time() // _DAY_SECONDS}
        for manager in self._managers:
            objects, status = manager.core.objects, manager.status()
            status["queues"] = [{key: queue[key] for key in queue.keys() - _GROWING} for queue in status["queues"]]
            stands[manager.name] = (
                manager,
                _attributes([objects.definition, *objects.definitions.values(), *objects.group_definitions.values()]),
                {key: status[key] for key in _FIGURES},
            )
        return stands

    async def __aenter__(self) -> Self:
        await self._members.__aenter__()
        await self._start()
        await self.mqsc("ALTER QMGR SQQMNAME(IGNORE)")
        self._defaults = {manager.name: frozenset(manager.core.objects.definitions) for manager in self._managers}
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
            ways = [await stack.enter_async_context(ENTRANCES[self._entrance](manager)) for manager in self._managers]
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


def _deletions(manager: QueueManager, defaults: frozenset[tuple[str, str]]) -> Iterator[str]:
    """The commands that delete what is not among these, queues last: others lead to them."""
    new = [definition for key, definition in manager.core.objects.definitions.items() if key not in defaults]
    for definition in sorted(new, key=lambda each: each.kind == "QLOCAL"):
        purge = " PURGE" if definition.kind == "QLOCAL" else ""
        yield f"DELETE {definition.kind}('{definition.name}'){_SUFFIXES[definition.disposition]}{purge}"


def _clearings(manager: QueueManager) -> Iterator[str]:
    for queue in manager.core.objects.queues.values():
        if queue.name.startswith("SYSTEM.") and queue.depth:
            yield f"CLEAR QLOCAL('{queue.name}')"


def _attributes(definitions: Iterable[Definition]) -> list[tuple[str, str, Attributes]]:
    return sorted((each.kind, each.name, each.attributes) for each in definitions)


def _kept_by(store: MemoryStore) -> list[tuple[int, ...]]:
    """The rows of a store that somebody has open."""
    return [columns(row) for row in store._messages.values()]
