"""Members of a queue-sharing group in the process of a test: up to three queue managers on one clock."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

import anyio

from broker import QueueManager, QueueSharingGroup
from broker.clock import boottime
from broker.config import Config
from broker.engine.conversation import Conversation
from broker.sharing.igq.definitions import MEMBERS_CHANGED
from broker.sharing.members.group import LEASE_SECONDS
from broker.sharing.members.group_member import GroupMember
from broker.storage.memory import MemoryStore
from tests.sharing.clock import GroupClock
from tests.sharing.proxy import Proxy

if TYPE_CHECKING:
    from types import TracebackType

    from anyio.abc import TaskStatus

    from broker import Connection
    from broker.mqi.replies import CommandReply
    from tests.sharing.database import GroupDatabase


_ABANDON_TURNS: Final = 100


@dataclass
class _Life:
    """A member that runs, in a task of its own, and its connections."""

    manager: QueueManager
    connections: AsyncExitStack
    ends: anyio.Event
    ended: anyio.Event


class Members:
    """QM1, QM2 and so on, entered with `async with`: so many are started, in order, with default objects as IBM MQ's.

    Each has a store that outlives it, and a line of its own to the database (`lines`), which can be cut. `clock` is the
    virtual clock of all and of the database: it lets time pass when nobody is at the database.
    """

    def __init__(
        self, group: GroupDatabase, count: int = 1, config: Config | None = None, lease: float = LEASE_SECONDS
    ) -> None:
        self.group = group
        self.lease = lease
        self.clock = GroupClock(group)
        self.lines: dict[str, Proxy] = {}
        self._names = [f"QM{number}" for number in range(1, count + 1)]
        self._config = config or Config()
        self.stores: dict[str, MemoryStore] = {}
        self._lives: dict[str, _Life] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._before = asyncio.all_tasks()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.clock)
            self._stack = stack
            self._tasks = await stack.enter_async_context(anyio.create_task_group())
            for name in self._names:
                await self.start(name)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            await self._abandon()
        async with self._stack:
            for name in list(self._lives):
                await self.stop(name)

    async def _abandon(self) -> None:
        """Cancel whatever has been begun, shielded or not: something is wrong, and no end in order can be had."""
        self._lives.clear()
        for _ in range(_ABANDON_TURNS):
            for task in asyncio.all_tasks() - self._before:
                task.cancel()
            await asyncio.sleep(0)

    def __getitem__(self, name: str) -> QueueManager:
        """The queue manager of this name, which runs."""
        return self._lives[name].manager

    def member(self, name: str) -> GroupMember:
        """Return a queue manager as a member of the group."""
        member = self[name].sharing
        assert isinstance(member, GroupMember)
        return member

    @property
    def running(self) -> list[str]:
        return list(self._lives)

    # Life

    async def start(self, name: str, *, reachable: bool = True) -> QueueManager:
        """Start a member, new or on what its store has kept; where its group is not `reachable` it begins without, if
        it tolerates that, until its line is mended.
        """
        assert name not in self._lives, f"{name} runs"
        if name not in self.lines:
            self.lines[name] = await self._stack.enter_async_context(Proxy(self.group.server))
        if reachable:
            await self.lines[name].mend()
        own = replace(self._config.queue_manager, name=name, data=None, defaults="mq")
        manager = QueueManager.open(
            replace(self._config, queue_manager=own),
            store=self.stores.setdefault(name, MemoryStore()),
            clock=self.clock,
            group=QueueSharingGroup(self.group.name, self.lines[name].dsn, self.lease),
        )
        life = _Life(manager, AsyncExitStack(), anyio.Event(), anyio.Event())
        await self._tasks.start(self._live, life, name=name)
        self._lives[name] = life
        return manager

    async def _live(self, life: _Life, *, task_status: TaskStatus[None]) -> None:
        """From start to end: members end in any order, and task groups only in that of one task."""
        try:
            async with life.manager:
                task_status.started()
                await life.ends.wait()
        finally:
            life.ended.set()

    async def stop(self, name: str) -> None:
        """End a member in order; its connections are disconnected before."""
        life = self._lives.pop(name)
        await life.connections.aclose()
        life.ends.set()
        await life.ended.wait()

    async def crash(self, name: str) -> None:
        """A member is gone from one moment to the next: what it does from now on reaches neither the database nor the
        store that it is started on again.
        """
        self.stores[name] = _as_it_is(self.stores[name])
        await self.lines[name].cut()
        life = self._lives.pop(name)
        for conversation in life.manager.conversations:
            conversation.break_(at_once=True)
        life.ends.set()
        await life.ended.wait()

    async def fail(self, name: str) -> None:
        """A member is gone, and its lease has ended: return when peers have recovered what they could."""
        await self.crash(name)
        await self.end_lease(name)

    async def lapse(self, name: str) -> None:
        """A member is cut off from the database for longer than its lease: its life in the group is over, and peers
        have recovered it. It runs on, where it tolerates that.
        """
        await self.lines[name].cut()
        membership = self.member(name).membership
        while membership.state == "joined":
            membership.lease.begin(boottime() - self.lease)  # its last renewal was so long ago
            await asyncio.sleep(0.01)
        await self.end_lease(name)

    async def end_lease(self, name: str) -> None:
        """The lease of a member, or on its recovery, is over in the eyes of its peers; return when they are done."""
        await self.group.rows("UPDATE member SET lease_until = '-infinity' WHERE name = $1", name)
        await self.group.rows("SELECT pg_notify($1, $2)", self.group.schema, MEMBERS_CHANGED)
        await self.clock.rest()

    # What programs do

    async def connect(self, name: str, appl_name: str = "") -> Connection:
        """A connection to a member, entered; it ends with the member."""
        life = self._lives[name]
        return await life.connections.enter_async_context(life.manager.connect(appl_name))

    async def mqsc(self, text: str, name: str = "QM1") -> list[CommandReply]:
        """Run commands on a member that must succeed; return when all members have heard of it."""
        async with self[name].connect("runmqsc") as connection:
            replies = await connection.mqsc(text)
        assert [reply.text for reply in replies if not reply.ok] == []
        await self.clock.rest()
        return replies


def lose_line(connection: Connection) -> None:
    """The line of a program's connection is lost, as its server finds."""
    assert isinstance(connection.port, Conversation)
    connection.port.break_()


def _as_it_is(store: MemoryStore) -> MemoryStore:
    """A copy that further writes to the store do not change."""
    kept = copy(store)
    for name, value in vars(store).items():
        setattr(kept, name, copy(value))
    return kept
