"""The shared queues of one member of a group: what the engine asks for (`broker.engine.shared_queues`)."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import anyio

from broker.commands.requests import (
    MembersRequest,
    MoveRequest,
    PeerUnitsRequest,
    ResolvePeerUnitRequest,
    ScopedRequest,
)
from broker.core.queues.shared_queue import SharedQueue
from broker.engine.answers import fail, succeed
from broker.engine.calls import spoil
from broker.engine.mistakes import contained, mistake
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.claims import SharedClaims
from broker.sharing.copies import Copies
from broker.sharing.database import Database, OutcomeUnknownError
from broker.sharing.delays import Delays
from broker.sharing.deliveries import Deliveries
from broker.sharing.display_group import displayed
from broker.sharing.expiry import Expiry
from broker.sharing.explaining import explained
from broker.sharing.gets import Gets
from broker.sharing.handles import Handles
from broker.sharing.holdings import Holdings
from broker.sharing.igq import definitions
from broker.sharing.igq.agent import Agent, connect_agent
from broker.sharing.locks import Locks
from broker.sharing.membership import Membership
from broker.sharing.moving import Moving
from broker.sharing.notifications import Notifications
from broker.sharing.orders import Orders
from broker.sharing.peer_units import PeerUnits
from broker.sharing.puts import Puts
from broker.sharing.removals import Removals
from broker.sharing.repository import Repository
from broker.sharing.returns import Returns
from broker.sharing.sinks import SharedSinks
from broker.sharing.structures import Structures
from broker.sharing.tags import Tags
from broker.sharing.triggering import Triggering
from broker.sharing.units import Units
from broker.sharing.waits import Waits
from broker.storage.store import StoreFailedError, StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
    from uuid import UUID

    from broker.commands.requests import GroupRequest, ResolveConsumerRequest
    from broker.core.explain.explaining import Wanted
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.message.rows import Rows
    from broker.core.names.definitions import Change
    from broker.core.names.routes import Route
    from broker.core.queues.handles import Handle
    from broker.core.queues.message_queue import MessageQueue
    from broker.core.queues.unit import Unit
    from broker.engine.batches import GetManyCall
    from broker.engine.call_order import CallOrder
    from broker.engine.calls import GetCall
    from broker.engine.context import EngineContext
    from broker.engine.conversation import Conversation
    from broker.engine.manager import QueueManager
    from broker.engine.shared_queues import PutStep
    from broker.engine.tags import TagUse
    from broker.interface.port import Call, Opened
    from broker.mqi.explanations import Explanation
    from broker.mqi.replies import CommandReply
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor, ObjectDescriptor
    from broker.sharing.group import QueueSharingGroup
    from broker.storage.store import Done

T = TypeVar("T")

logger = logging.getLogger(__name__)


class GroupMember:
    """One member of a group."""

    def __init__(self, manager: QueueManager, group: QueueSharingGroup) -> None:
        self.manager = manager
        self.group = group
        self.database = Database(group, manager.name)
        self.membership = Membership(self)
        self.repository = Repository(self)
        self.copies = Copies(self)
        self.structures = Structures(self)
        self.orders = Orders(self)
        self.handles = Handles(self)
        self.puts = Puts(self)
        self.locks = Locks(self)
        self.returns = Returns(self)
        self.removals = Removals(self)
        self.expiry = Expiry(self)
        self.delays = Delays(self)
        self.gets = Gets(self)
        self.units = Units(self)
        self.peer_units = PeerUnits(self)
        self.waits = Waits(self)
        self.deliveries = Deliveries(self)
        self.claims = SharedClaims(self)
        self.sinks = SharedSinks(self)
        self.moving = Moving(self)
        self.holdings = Holdings(self)
        self.notifications = Notifications(self)
        self.triggering = Triggering(self)
        self.tags = Tags(self)
        self.agent = Agent(manager, partial(connect_agent, manager))
        self.stopping = False
        self._runs = False  # beside the calls of programs
        self.stopped = anyio.Event()
        self._turns: WeakKeyDictionary[CallOrder, anyio.Lock] = WeakKeyDictionary()
        self._on_stop: list[Callable[[], None]] = []

    @property
    def core(self) -> Manager:
        """The core of the member."""
        return self.manager.core

    @property
    def in_group(self) -> bool:
        return self.membership.state == "joined"

    @property
    def context(self) -> EngineContext:
        """What its engine shares."""
        return self.manager.context

    def shared(self, q_name: str) -> SharedQueue | None:
        """The shared queue of this name, if there is one."""
        return self.core.objects.shared_queues.get(q_name)

    def shared_queues(self) -> Iterator[SharedQueue]:
        """All of them."""
        return iter(self.core.objects.shared_queues.values())

    def now(self) -> float:
        """The wall clock, in seconds since 1970: by this messages expire."""
        return self.manager.clock.time()

    def tag_of(self, conversation: Conversation) -> bytes | None:
        """The connection tag of a program."""
        return conversation.hconn.tag

    def turn(self, call_order: CallOrder) -> anyio.Lock:
        """Who has it works for a connection in the database, alone. Not all that is done for one is in the order of its
        calls: a wait is served, or the connection ends.
        """
        turn = self._turns.get(call_order)
        if turn is None:
            turn = self._turns[call_order] = anyio.Lock(fast_acquire=True)
        return turn

    # Life

    async def start(self) -> None:
        await self.membership.start()

    async def joined(self) -> None:
        """A life of this member in the group has begun: take over what is there."""
        await self.handles.forget()
        await definitions.join(self)
        await self.repository.load()
        await self.triggering.start()
        if self._runs:
            self.copies.refresh()
            await self.handles.enter_again()
        else:
            await self.copies.make_at_start()
        await self.units.outcomes.start()

    def life_ended(self) -> None:
        """A life of this member is over, and with it the locks of its handles and the connection tags of its programs:
        others may have them now, so those that counted on tags are cut off.
        """
        self.locks.life_ended()
        for conversation in self.manager.conversations():
            if conversation.tag_use is not None:
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
        self.repository.told()
        self.handles.stop()
        self.membership.stop()
        for step in self._on_stop:
            contained(step)

    async def leave(self) -> None:
        await self.removals.flush()
        await self.units.outcomes.end()
        with suppress(MQError, OutcomeUnknownError):
            await self.handles.sweep()
        await self.membership.leave()
        await self.database.close()

    # Calls

    def answer(self, call_order: CallOrder, call: Call[T], work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        async def make() -> None:
            succeed(call, await work())

        self._hold(call_order, call, make)

    def _hold(self, call_order: CallOrder, call: Call[Any], work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Make a call that takes more than one turn: later calls of its connection wait until it is over."""
        go_on = call_order.hold()

        async def make() -> None:
            try:
                with anyio.CancelScope(shield=True):
                    async with self.turn(call_order):
                        await self.repository.up_to_date(work)
            except MQError as error:
                fail(call, error.reason, error.detail)
            except OutcomeUnknownError:
                fail(call, MQRC.CF_NOT_AVAILABLE, "the outcome of this call is unknown")
            except Exception as error:
                spoil(call, mistake(error, "a call on a shared queue"))
            finally:
                contained(self.context.perform, call_order)
                go_on()

        self.manager.start_soon(make)

    def open(self, conversation: Conversation, call: Call[Opened], descriptor: ObjectDescriptor, options: int) -> None:
        work = partial(self.handles.open, conversation, call, descriptor, options)
        self._hold(conversation.call_order, call, work)

    async def register(self, conversation: Conversation, handle: Handle) -> None:
        await self.handles.register(conversation, handle)

    def close(self, conversation: Conversation, call: Call[int], handle: Handle, options: int) -> None:
        self._hold(conversation.call_order, call, partial(self.handles.close, conversation, call, handle))

    def closed(self, handle: Handle) -> None:
        self.handles.leave(handle)
        if isinstance(handle.queue, SharedQueue):
            self.locks.let_go(handle.queue)

    def when_left(self, then: Callable[[], None]) -> None:
        self.manager.start_soon(self._when_left, then)

    async def _when_left(self, then: Callable[[], None]) -> None:
        try:
            await self.handles.tell()
        except Exception as error:
            mistake(error, "the end of a connection")
        contained(then)

    def put(self, conversation: Conversation, call: Call[Any], step: PutStep) -> None:
        self.puts.put(conversation, call, step)

    def send(self, make: Callable[[], tuple[Unit, Rows]], then: Callable[[Unit, Rows], None]) -> None:
        self.manager.start_soon(self.puts.send, make, then)

    def get(
        self,
        conversation: Conversation,
        call: GetCall,
        handle: Handle,
        queue: SharedQueue,
        arguments: tuple[MessageDescriptor | None, GetMessageOptions, int | None, bool],
    ) -> None:
        queue.structure.check(queue.name)
        self._hold(conversation.call_order, call, partial(self.gets.get, conversation, call, handle, queue, arguments))

    def get_many(
        self,
        conversation: Conversation,
        call: GetManyCall,
        handle: Handle,
        queue: SharedQueue,
        arguments: tuple[MessageDescriptor | None, GetMessageOptions, int],
    ) -> None:
        queue.structure.check(queue.name)
        self._hold(
            conversation.call_order, call, partial(self.gets.get_many, conversation, call, handle, queue, arguments)
        )

    # Units of work

    def commit(self, call_order: CallOrder, unit: Unit, then: Done, rows: Rows | None = None) -> None:
        if self.removals.settle(unit):
            then(None)
            return
        if rows is None:
            rows = self.core.commit(unit, self.context.moment())
        self._end(call_order, partial(self.units.commit, unit, rows, call_order), then)

    def back_out(self, call_order: CallOrder, unit: Unit, then: Done) -> None:
        self._end(call_order, partial(self.units.back_out, unit), then)

    def resolved(self, id: UUID, *, committed: bool) -> None:
        self.units.outcomes.resolved(id, committed=committed)

    def give_back(self, call_order: CallOrder, entries: Sequence[Entry]) -> None:
        self._end(call_order, partial(self.returns.give_back, entries), lambda _: None)

    def put_again(self, entry: Entry) -> None:
        self.returns.put_again(entry)

    def judge(self, queues: Sequence[MessageQueue]) -> None:
        self.manager.start_soon(self.triggering.look_at, [each for each in queues if isinstance(each, SharedQueue)])

    def given_back(self, starts: Mapping[MessageQueue, int]) -> None:
        self.manager.start_soon(self.triggering.given_back, starts)

    async def sweep(self) -> int:
        return await self.triggering.sweep()

    def _end(self, call_order: CallOrder, work: Callable[[], Coroutine[Any, Any, None]], then: Done) -> None:
        go_on = call_order.hold()

        async def end() -> None:
            error: Exception | None = None
            try:
                with anyio.CancelScope(shield=True):
                    async with self.turn(call_order):
                        await work()
            except (MQError, StoreFullError, StoreFailedError) as refused:
                error = refused
            except Exception as wrong:
                error = mistake(wrong, "the end of a unit of work")
            contained(then, error)
            contained(self.context.perform, call_order)
            go_on()

        self.manager.start_soon(end)

    # Connection tags

    def take_tag(self, conversation: Conversation, call: Call[int], use: TagUse) -> None:
        self._hold(conversation.call_order, call, partial(self.tags.take, conversation, call, use))

    def release_tag(self, call_order: CallOrder, use: TagUse, then: Callable[[], None]) -> None:
        self.manager.start_soon(self.tags.release, call_order, use, then)

    # Definitions

    def owns(self, change: Change) -> bool:
        return self.repository.owns(change)

    def change(self, change: Change, then: Done) -> None:
        before = self.repository.known(change)

        async def make() -> None:
            await self.repository.make(change, before)
            self.context.perform()
            await self.copies.make()

        self.ask(make, "a change of shared definitions", then)

    def ask(self, work: Callable[[], Coroutine[Any, Any, None]], what: str, then: Done) -> None:
        async def do() -> None:
            error: Exception | None = None
            try:
                with anyio.CancelScope(shield=True):
                    await work()
            except MQError as refused:
                error = refused
            except OutcomeUnknownError:
                error = MQError(MQRC.CF_NOT_AVAILABLE, f"the outcome of {what} is unknown")
            except Exception as wrong:
                error = mistake(wrong, what)
            then(error)

        self.manager.start_soon(do)

    async def look_up(self) -> None:
        await self.repository.reload()
        made = anyio.Event()
        self.copies.refresh(made.set)
        await made.wait()

    def altered(self) -> None:
        self.agent.altered()

    async def refresh(self, *, held: bool = False, lag: bool = False) -> None:
        try:
            await self.repository.refresh()
            if held:
                await self.holdings.refresh(lag=lag)
        except (MQError, OutcomeUnknownError) as away:
            logger.debug("what is on shared queues is not known: %s", away)

    async def resolve(self, decision: ResolveConsumerRequest) -> tuple[int, int]:
        uuid = await self.claims.find(decision.name)
        if uuid is None:
            raise MQError(MQRC.NO_SUBSCRIPTION, f"there is no consumer {decision.name}")
        return await self.claims.resolve(uuid, commit=decision.commit, pinned=decision.pinned)

    async def carry_out(self, request: ScopedRequest | GroupRequest) -> Sequence[CommandReply]:
        if isinstance(request, ScopedRequest):
            return await self.orders.send(request)
        if isinstance(request, PeerUnitsRequest | ResolvePeerUnitRequest):
            return await self.peer_units.carry_out(request)
        if isinstance(request, MembersRequest):
            return await displayed(self, request)
        if isinstance(request, MoveRequest):
            return [await self.moving.carry_out(request)]
        return [await self.structures.carry_out(request)]

    async def explain(self, route: Route, wanted: Wanted) -> Explanation:
        queue = route.queue
        assert isinstance(queue, SharedQueue)
        return await explained(self, route, queue, wanted)

    # What is told

    def figures(self) -> Mapping[str, Any]:
        return {
            "group": self.group.name,
            "member": self.membership.figures(),
            "database": self.database.figures.to_dict(),
            "igq": self.agent.all_figures(),
            "in_doubt": len(self.units.outcomes.doubts),
        }
