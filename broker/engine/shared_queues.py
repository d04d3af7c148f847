"""A queue-sharing group as the engine uses it: the calls on shared queues, and what else is decided in the group.

The engine knows shared queues by `queue.shared` alone. A call on one is held: all later calls of its connection wait
until it is over (`CallOrder.hold`), but for puts, which gather. Each part of `SharedQueues` has what the engine asks of
one room of `broker.sharing`, which fills these protocols in; the engine imports nothing of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from uuid import UUID

    from broker.commands.requests import GroupRequest, ResolveConsumerRequest, ScopedRequest
    from broker.core.calls.puts.put import Put
    from broker.core.claims.claiming import Limits
    from broker.core.deliveries.service import Service
    from broker.core.deliveries.steps import Ending, Step
    from broker.core.explain.explaining import ExplainSelection
    from broker.core.message.entry import Entry
    from broker.core.message.rows import Rows
    from broker.core.names.definitions import Change
    from broker.core.names.routes import Route
    from broker.core.prepared.publishing import PublishedUnit
    from broker.core.prepared.staging import StagedPiece
    from broker.core.prepared.unit import UnitName
    from broker.core.queues.handles import Handle
    from broker.core.queues.message_queue import MessageQueue
    from broker.core.queues.shared_queue import SharedQueue
    from broker.core.queues.unit import Unit
    from broker.core.security.caller import Caller
    from broker.engine.calls.batches import GetManyCall
    from broker.engine.calls.call_order import CallOrder
    from broker.engine.calls.gets import GetCall
    from broker.engine.conversation import Conversation
    from broker.engine.tags import TagUse
    from broker.interface.answers import Opened
    from broker.interface.claims.claims import (
        BrowseSelection,
        ConsumerState,
        Cut,
        Publication,
        QueueRange,
        Registration,
        Staged,
    )
    from broker.interface.port import Call
    from broker.mqi.explanations import Explanation
    from broker.mqi.replies import CommandReply
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor, ObjectDescriptor, PutMessageOptions
    from broker.storage.store import Done

T = TypeVar("T")

GroupWork: TypeAlias = "Callable[[], Coroutine[Any, Any, T]]"  # some work in the group, begun when this is called


class PutStep(NamedTuple):
    """A put, made in the core when its time has come: `make` gives the answer, and the implicit unit of one outside
    syncpoint. It may be made again from the same state, as long as `handle` leads where it led. `put` says more of one
    message for one queue; `judge` may raise NOT_AUTHORIZED (2035), each time before it; `length` is that of its data.
    """

    make: Callable[[], tuple[Any, Unit | None]]
    options: PutMessageOptions
    handle: Handle | None = None
    put: Put | None = None
    judge: Callable[[], None] | None = None
    length: int | None = None


class GroupError(Exception):
    """The queue-sharing group cannot be joined, or is lost; the text says why, and what to do."""


class SharedHandles(Protocol):
    """Handles on shared queues."""

    def open(self, conversation: Conversation, call: Call[Opened], descriptor: ObjectDescriptor, options: int) -> None:
        """MQOPEN of a name that leads to a shared queue. OBJECT_IN_USE (2042) holds for the whole group."""

    async def register(self, conversation: Conversation, handle: Handle) -> None:
        """Make it known in the group that a shared dynamic queue, which has just been made, is open; else close it."""

    def close(self, conversation: Conversation, call: Call[int], handle: Handle) -> None:
        """MQCLOSE of a handle on a shared queue, which with MQCO_DELETE goes too if it is a dynamic one."""

    def closed(self, handle: Handle) -> None:
        """A handle on a shared queue is closed, by MQCLOSE or with its connection: let it go in the group too."""

    def when_closed(self, then: Callable[[], None]) -> None:
        """Call `then` when the group knows that the handles closed until now are closed, as far as that can be."""


class SharedPuts(Protocol):
    """Puts to shared queues."""

    def put(self, conversation: Conversation, call: Call[Any], step: PutStep) -> None:
        """A put that reaches a shared queue. Later puts of the connection to shared queues gather behind it."""

    def send(self, make: Callable[[], tuple[Unit, Rows]], then: Callable[[Unit, Rows], None]) -> None:
        """Put messages of the queue manager's own: `make` puts them in the core, maybe more than once, and freezes the
        unit. What is on shared queues is written, or withdrawn where that cannot be; the rest is left to `then`.
        """


class SharedGets(Protocol):
    """Gets from shared queues."""

    def get(
        self,
        conversation: Conversation,
        call: GetCall,
        handle: Handle,
        queue: SharedQueue,
        arguments: tuple[MessageDescriptor | None, GetMessageOptions, int | None, bool],
    ) -> None:
        """MQGET: descriptor, options, buffer length, and whether it sees messages that wait for an instant. What is
        found is given to `GetCall.granted`, as on any queue; a wait is begun with `Conversation.wait`.
        """

    def get_many(
        self,
        conversation: Conversation,
        call: GetManyCall,
        handle: Handle,
        queue: SharedQueue,
        arguments: tuple[MessageDescriptor | None, GetMessageOptions, int],
    ) -> None:
        """Several gets as one call: what is there, up to so many messages."""


class SharedUnits(Protocol):
    """Units of work that touch shared queues (`Unit.shared`)."""

    def commit(self, call_order: CallOrder, unit: Unit, then: Done, rows: Rows | None = None) -> None:
        """Commit and settle a unit; then tell the outcome. `rows` are those of its branch, where it is frozen."""

    def back_out(self, call_order: CallOrder, unit: Unit, then: Done) -> None:
        """Back out and settle a unit that is not frozen, with its private branch; then tell the outcome. Calls of its
        connection may still be at the database.
        """

    def give_up(self, call_order: CallOrder, unit: Unit, then: Done) -> None:
        """Back out a unit that is frozen for its commit; then tell the outcome."""

    def resolved(self, id: UUID, *, committed: bool) -> None:
        """An administrator has decided about the prepared branch of a unit that was in doubt."""


class SharedReturned(Protocol):
    """Messages got from shared queues that go back."""

    def give_back(self, call_order: CallOrder, entries: Sequence[Entry]) -> None:
        """Give back entries got from shared queues, in a unit that is active, to their places, as if not got."""

    def put_again(self, entry: Entry) -> None:
        """A message that was got and removed comes back to its place: nobody has taken it (journal rule 11)."""


class SharedTriggering(Protocol):
    """Trigger events of shared queues."""

    def judge(self, queues: Sequence[MessageQueue]) -> None:
        """Find out in this order if these queues trigger now: something has changed that their conditions rest on."""

    def given_back(self, starts: Mapping[MessageQueue, int]) -> None:
        """So many starts of these queues were taken, and are pending again where there are messages for them."""

    async def sweep(self) -> int:
        """Let starts be pending that are missing, one for each message of trigger EVERY queues that a queue manager has
        put which is gone, else one for each of these queues: so many, 0 without the database.
        """


class SharedTags(Protocol):
    """Connection tags that hold in the whole group."""

    def take(self, conversation: Conversation, call: Call[int], use: TagUse) -> None:
        """Take a tag for a connection. CONN_TAG_IN_USE (2271), CONN_TAG_NOT_USABLE (2350)."""

    def release(self, call_order: CallOrder, use: TagUse, then: Callable[[], None]) -> None:
        """Let it go, after the unit of work of its connection and all that is under way for it; then call `then`."""


class SharedRepository(Protocol):
    """Definitions that the group has together."""

    def change(self, change: Change, then: Done) -> None:
        """Make a change in the shared repository, and let it take effect on this member; then tell the outcome."""

    async def secure(self) -> None:
        """Know users and rights as the group has them now, to judge by them. Raises CF_NOT_AVAILABLE (2345)."""

    async def look_up(self) -> None:
        """Take over what other members have defined until now."""


class SharedClaims(Protocol):
    """Consumers of shared queues, and these queues read by arrival number: what the calls of `ClaimPort` come to."""

    def takes(self, q_names: Sequence[str]) -> bool:
        """True if a consumer of these queues is one of the group. Raises OPTION_NOT_VALID_FOR_TYPE (2045)."""

    async def judge(self, uuid: str, caller: Caller | None) -> None:
        """Raise NOT_AUTHORIZED (2035) where the caller may not get from the queues of a consumer, as `consumer`."""

    async def consumer(self, name: str, q_names: Sequence[str], caller: Caller | None) -> ConsumerState:
        """Look the consumer up, or make it."""

    async def register(self, uuid: str, lineage: str | None, start: int | None, end: int | None) -> Registration:
        """A reader with a checkpoint becomes the one that may read."""

    async def resume(self, uuid: str) -> Registration:
        """A reader without a checkpoint goes on where the consumer stands."""

    async def claim(self, uuid: str, generation: int, start: int, limits: Limits) -> int:
        """Acknowledge up to `start`, then claim: the last sequence."""

    async def pin(self, uuid: str, generation: int, lineage: str, start: int, end: int) -> list[Cut]:
        """A batch is going to be read."""

    async def read_claimed(self, uuid: str, generation: int, after: int, last: int, longest: int) -> bytes:
        """Claims, as many as go into a frame of so many bytes."""

    async def acknowledge(self, uuid: str, generation: int, to: int) -> int:
        """The consumer is done with what it has read."""

    async def release(self, uuid: str, generation: int | None) -> int:
        """The consumer gives all back that it has claimed: how many."""

    async def resolve(self, decision: ResolveConsumerRequest, caller: Caller | None) -> tuple[int, int]:
        """Carry out an administrator's decision about a consumer. Return how many messages are removed, and how many
        are back on their queues. NO_SUBSCRIPTION (2428), SUBSCRIPTION_IN_USE (2429), NOT_AUTHORIZED (2035).
        """

    async def queue_ranges(self, q_names: Sequence[str]) -> list[QueueRange]:
        """Return the ranges of shared queues that can be read now."""

    async def browse_range(self, q_name: str, after: int, last: int, selection: BrowseSelection, longest: int) -> bytes:
        """Messages of a queue, as many as go into a frame of so many bytes."""

    async def browse_cuts(self, q_name: str, after: int, last: int, messages: int, size: int) -> list[Cut]:
        """Return the cuts of the range of a queue."""


class SharedSinks(Protocol):
    """Sinks of shared queues, and their prepared units: what the calls of `ClaimPort` about them come to."""

    async def check_private(self, name: str) -> None:
        """Raise OPTION_NOT_VALID_FOR_TYPE (2045) for a sink of the group."""

    async def ledger(self, name: str, caller: Caller | None) -> tuple[str, int] | None:
        """The query of a sink, and its last batch. Raises NOT_AUTHORIZED (2035), as `publish` and `discard`."""

    async def stage(self, piece: StagedPiece) -> Staged:
        """A piece of a unit, for shared queues."""

    async def publish(
        self, name: str, batch: int, query: str | None, winners: Sequence[PublishedUnit], caller: Caller | None
    ) -> Publication:
        """Decide a batch."""

    async def discard(self, names: Sequence[UnitName], caller: Caller | None) -> int:
        """Discard the units of these names, as far as they are there: how many they were."""

    async def resolve(self, name: UnitName) -> int:
        """Discard the unit that is shown by this name: how many messages. UNKNOWN_OBJECT_NAME (2085)."""

    async def reset(self, name: str, caller: Caller | None) -> int:
        """A sink belongs to no query any more, and has no units: how many messages. UNKNOWN_OBJECT_NAME (2085)."""


class SharedDeliveries(Protocol):
    """Deliveries of shared queues, and of others whose handlers have used shared queues (`DeliveryService`)."""

    def hand_out(self, service: Service) -> None:
        """Take messages for waiting takers of a shared queue, and give them to `DeliveryService.hand_over`."""

    def commit(self, endings: Sequence[Ending], ended: Callable[[Ending, Exception | None], None]) -> None:
        """Carry out ends that remove messages of shared queues, and do nothing else, in one transaction."""

    def end(self, ending: Ending, ended: Callable[[Step, Exception | None], None]) -> None:
        """Carry out the steps of an end, and settle them: `ended` is told of each, with the error where it was backed
        out instead of committed.
        """


class IgqAgent(Protocol):
    """The intra-group queuing agent of this member."""

    def altered(self) -> None:
        """The queue manager's own definition was altered, perhaps to what it was."""


class SharedExplaining(Protocol):
    """Explanations of what becomes of messages of shared queues."""

    async def explain(self, route: Route, selection: ExplainSelection) -> Explanation:
        """Explain why the shared queue of a route gives a message, or does not."""


class SharedCommands(Protocol):
    """Commands that need the group."""

    async def carry_out(self, request: ScopedRequest | GroupRequest, user: str | None) -> Sequence[CommandReply]:
        """Carry out a command for the group, or for members of it, who judge its `user` if it has one; the replies."""


class SharedQueues(Protocol):
    """A queue manager as a member of its group: its life there, the work that it does, and its parts."""

    @property
    def in_group(self) -> bool:
        """True while a life of the member in the group goes on: else what is shared cannot be used now."""

    @property
    def waits_for(self) -> str:
        """The words for what keeps it from the group; "" while it is there."""

    async def start(self) -> None:
        """Join, before any connection: end what the last life has left (queue-sharing 7.5), load shared definitions.
        Raises what keeps the queue manager from starting.
        """

    async def run(self) -> None:
        """The member's own tasks, such as leases and the recovery of peers; returns when `stop` was called."""

    def stop(self) -> None:
        """The queue manager ends: nothing more is begun."""

    async def leave(self) -> None:
        """Leave the group in order: nothing of this member is left in the database. Sessions are closed."""

    def figures(self) -> Mapping[str, Any]:
        """The group, its members and the sessions of this one, for the status."""

    # Work that is done in the group

    def ask(self, work: GroupWork[None], what: str, then: Done, hold: CallOrder | None = None) -> None:
        """Do some work, called `what`, whoever has gone. Tell `then` the outcome: None, or an MQError or StoreError;
        CF_NOT_AVAILABLE (2345) where nobody knows it. Then perform what the work lets happen.

        `hold`: until that is over later calls of this connection wait, and the database does nothing else for it.
        """

    def answer(self, call_order: CallOrder, call: Call[T], work: GroupWork[T]) -> None:
        """Make a call, answered with the result of `work`, and hold the later calls of its connection until then."""

    async def refresh(self, *, held: bool = False, lag: bool = False) -> None:
        """Bring the depths of the shared queues up to date, with `held` what is known of the group's consumers, and
        with `lag` how far behind they are, which is counted message by message: as far as the database can be reached.
        """

    # Parts

    @property
    def handles(self) -> SharedHandles: ...

    @property
    def puts(self) -> SharedPuts: ...

    @property
    def gets(self) -> SharedGets: ...

    @property
    def units(self) -> SharedUnits: ...

    @property
    def returned(self) -> SharedReturned: ...

    @property
    def triggering(self) -> SharedTriggering: ...

    @property
    def tags(self) -> SharedTags: ...

    @property
    def repository(self) -> SharedRepository: ...

    @property
    def claims(self) -> SharedClaims: ...

    @property
    def sinks(self) -> SharedSinks: ...

    @property
    def deliveries(self) -> SharedDeliveries: ...

    @property
    def explaining(self) -> SharedExplaining: ...

    @property
    def commands(self) -> SharedCommands: ...

    @property
    def agent(self) -> IgqAgent: ...
