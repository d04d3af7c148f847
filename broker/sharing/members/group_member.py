"""A queue manager as a member of its group: its parts, its life, and how work is done for it in the group.

The engine calls the parts directly (`broker.engine.shared_queues`).
"""

from __future__ import annotations

import logging
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import anyio

from broker.engine.calls.answers import fail_written, succeed
from broker.engine.calls.gets import spoil
from broker.engine.mistakes import contained, mistake
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.claims.claims import GroupClaims
from broker.sharing.claims.holdings import Holdings
from broker.sharing.claims.sinks import GroupSinks
from broker.sharing.database.database import Database
from broker.sharing.database.errors import OutcomeUnknownError
from broker.sharing.database.notifications import Notifications
from broker.sharing.definitions.commands import GroupCommands
from broker.sharing.definitions.copies import Copies
from broker.sharing.definitions.repository import Repository
from broker.sharing.gets.expiry import Expiry
from broker.sharing.gets.explaining import Explaining
from broker.sharing.gets.gets import Gets
from broker.sharing.gets.handles import Handles
from broker.sharing.gets.locks import Locks
from broker.sharing.gets.returned import ReturnedMessages
from broker.sharing.gets.waits import Waits
from broker.sharing.handlers.deliveries import GroupDeliveries
from broker.sharing.handlers.tags import Tags
from broker.sharing.handlers.triggering import Triggering
from broker.sharing.igq import definitions
from broker.sharing.igq.agent import Agent, connect_agent
from broker.sharing.members.call_tasks import CallTasks
from broker.sharing.members.membership import Membership
from broker.sharing.puts.delays import MemberDelays
from broker.sharing.puts.puts import GroupPuts
from broker.sharing.units.units import Units
from broker.storage.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from broker.core.manager import Manager
    from broker.core.queues.shared_queue import SharedQueue
    from broker.engine.calls.call_order import CallOrder
    from broker.engine.context import EngineContext
    from broker.engine.manager import QueueManager
    from broker.engine.shared_queues import GroupWork
    from broker.interface.port import Call
    from broker.sharing.members.group import QueueSharingGroup
    from broker.storage.store import Done

T = TypeVar("T")

logger = logging.getLogger(__name__)


class GroupMember:
    """A queue manager as a member of its group."""

    def __init__(self, manager: QueueManager, group: QueueSharingGroup) -> None:
        self.manager = manager
        self.core: Manager
        self.context: EngineContext
        self.group = group
        self.now = manager.clock.time
        """The wall clock, in seconds since 1970: by this messages expire."""
        self.database = Database(group, manager.name)
        self.membership = Membership(self)
        self.repository = Repository(self)
        self.copies = Copies(self)
        self.handles = Handles(self)
        self.puts = GroupPuts(self)
        self.locks = Locks(self)
        self.returned = ReturnedMessages(self)
        self.expiry = Expiry(self)
        self.delays = MemberDelays(self)
        self.gets = Gets(self)
        self.units = Units(self)
        self.waits = Waits(self)
        self.deliveries = GroupDeliveries(self)
        self.claims = GroupClaims(self)
        self.sinks = GroupSinks(self)
        self.holdings = Holdings(self)
        self.notifications = Notifications(self)
        self.triggering = Triggering(self)
        self.tags = Tags(self)
        self.explaining = Explaining(self)
        self.commands = GroupCommands(self)
        self.agent = Agent(manager, partial(connect_agent, manager))
        self.call_tasks = CallTasks(manager.start_soon)
        self.stopping = False
        self._runs = False  # beside the calls of programs
        self.stopped = anyio.Event()
        self._call_locks: WeakKeyDictionary[CallOrder, anyio.Lock] = WeakKeyDictionary()
        self._on_stop: list[Callable[[], None]] = []

    @property
    def in_group(self) -> bool:
        return self.membership.state == "joined"

    @property
    def waits_for(self) -> str:
        return self.membership.waits_for

    def shared(self, q_name: str) -> SharedQueue | None:
        """The shared queue of this name, if there is one."""
        return self.core.objects.shared_queues.get(q_name)

    def shared_queues(self) -> Iterator[SharedQueue]:
        """All of them."""
        return iter(self.core.objects.shared_queues.values())

    # Life

    async def start(self) -> None:
        self.core, self.context = self.manager.core, self.manager.context
        self.context.figures.group = self.membership.scraped
        await self.membership.start()

    async def joined(self) -> None:
        """A life of this member in the group has begun: take over what is there."""
        await self.handles.forget()
        await definitions.join(self)
        await self.repository.load()
        await self.triggering.start()
        if self._runs:
            self.copies.refresh()
            self.repository.check_users()
            await self.handles.enter_again()
        else:
            await self.copies.make_at_start()
            await self.repository.check_users_at_start()
        await self.units.outcomes.start()

    def life_ended(self) -> None:
        """A life of this member is over, and with it the locks of its handles and the connection tags of its programs:
        others may have them now, so those that counted on tags are cut off. So are those that have named the group: a
        connection that is made again goes to another member.
        """
        self.locks.life_ended()
        for conversation in self.manager.conversations:
            if conversation.by_group:
                conversation.expel(f"{self.manager.name} is out of its queue-sharing group: connect to another member")
            elif conversation.tag_use is not None:
                conversation.break_()

    async def run(self) -> None:
        self._runs = True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.repository.run)
            tasks.start_soon(self.handles.run)
            tasks.start_soon(self.membership.run, name=f"member {self.manager.name}")
            tasks.start_soon(self.notifications.listen)
            tasks.start_soon(self.waits.poll)
            tasks.start_soon(self.delays.run)
            tasks.start_soon(self.agent.run, name=f"intra-group queuing agent of {self.manager.name}")
            tasks.start_soon(self.units.outcomes.serve)
            self.expiry.start()

    def on_stop(self, step: Callable[[], None]) -> None:
        """Take a step when the queue manager ends, now if it does already."""
        if self.stopping:
            step()
        self._on_stop.append(step)

    def stop(self) -> None:
        self.stopping = True
        self.stopped.set()
        self.units.outcomes.stop()
        self.agent.stop()
        self.expiry.stop()
        self.repository.notified()
        self.handles.stop()
        self.membership.stop()
        self.call_tasks.stop()
        for step in self._on_stop:
            contained(step)

    async def leave(self) -> None:
        await self.returned.end()
        await self.units.outcomes.end()
        with suppress(MQError, OutcomeUnknownError):
            await self.handles.sweep()
        await self.membership.leave()
        await self.database.close()

    # Work

    def call_lock(self, call_order: CallOrder) -> anyio.Lock:
        """Return the lock of a connection: its holder works for it in the database, alone. Not all that is done for one
        is in the order of its calls: a wait is served, or the connection ends.
        """
        lock = self._call_locks.get(call_order)
        if lock is None:
            lock = self._call_locks[call_order] = anyio.Lock(fast_acquire=True)
        return lock

    def ask(self, work: GroupWork[None], what: str, then: Done, hold: CallOrder | None = None) -> None:
        go_on = _nothing if hold is None else hold.hold()
        self.call_tasks.start(self._ask(work, what, then, hold, go_on))

    async def _ask(
        self,
        work: GroupWork[None],
        what: str,
        then: Done,
        hold: CallOrder | None,
        go_on: Callable[[], None],
    ) -> None:
        error: Exception | None = None
        try:
            async with nullcontext() if hold is None else self.call_lock(hold):
                await work()
        except (MQError, StoreError) as refused:
            error = refused
        except OutcomeUnknownError:
            error = MQError(MQRC.CF_NOT_AVAILABLE, f"the outcome of {what} is unknown")
        except Exception as wrong:
            error = mistake(wrong, what)
        contained(then, error)
        contained(self.context.perform, hold)
        go_on()

    def make(self, call_order: CallOrder, call: Call[Any], work: GroupWork[None]) -> None:
        """Make a held call, which `work` answers unless it fails."""

        async def unless_ended() -> None:
            if call_order.ended is not None:  # its user may have been disabled while rights were read again
                raise MQError(call_order.ended, "the connection ended before the call was made")
            await work()

        up_to_date = partial(self.repository.up_to_date, unless_ended)
        self.ask(up_to_date, "a call on a shared queue", partial(self._fail, call), call_order)

    def _fail(self, call: Call[Any], error: Exception | None) -> None:
        """Answer a call whose work has failed; what it has got goes back."""
        if isinstance(error, MQError):
            self.context.security_log.failed(error)
            spoil(call, error)
        elif error is not None:
            fail_written(call, error, MQRC.STORAGE_MEDIUM_FULL)

    def answer(self, call_order: CallOrder, call: Call[T], work: GroupWork[T]) -> None:
        async def answer() -> None:
            succeed(call, await work())

        self.make(call_order, call, answer)

    async def refresh(self, *, held: bool = False, lag: bool = False) -> None:
        try:
            await self.repository.refresh()
            if held:
                await self.holdings.refresh(lag=lag)
        except (MQError, OutcomeUnknownError) as away:
            logger.debug("what is on shared queues is not known: %s", away, extra={"event": "shared_queues_not_known"})

    def figures(self) -> Mapping[str, Any]:
        return {
            "group": self.group.name,
            "member": self.membership.figures(),
            "database": self.database.figures.to_dict(),
            "igq": self.agent.all_figures(),
            "in_doubt": len(self.units.outcomes.doubts),
        }


def _nothing() -> None:
    """No calls wait."""
