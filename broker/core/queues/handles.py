"""Connections and handles, as the core knows them: Hconn and Hobj."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.queues.handle_position import AT_REST
from broker.mqi.constants.descriptor import MQAT
from broker.mqi.constants.options import MQOO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.core.calls.puts.put_template import PutTemplate
    from broker.core.message.entry import Entry
    from broker.core.names.routes import Route
    from broker.core.queues.queue import LocalQueue
    from broker.core.queues.shelf.selection import Request
    from broker.core.queues.unit import Unit
    from broker.core.queues.waiters import Waiter
    from broker.core.security.authority import NotAuthorizedError
    from broker.core.security.caller import Caller
    from broker.core.security.rights import Right
    from broker.core.selector import Selector
    from broker.mqi.structures import MessageDescriptor

REMOVING = (MQOO.INPUT_AS_Q_DEF | MQOO.INPUT_SHARED | MQOO.INPUT_EXCLUSIVE).value
_BROWSE = MQOO.BROWSE.value
_SAVE = MQOO.SAVE_ALL_CONTEXT.value
FOR_CO_OP = MQOO.CO_OP.value
_OUTPUT = MQOO.OUTPUT.value
_PUT1S_MAX = 256


class ConnectionLimits(NamedTuple):
    """The limits of one connection, beside those of the queue manager: the longest message that it puts, by its
    channel, and the bytes of its unit of work, by its user. 0: it has none of its own.
    """

    max_length: int = 0
    unit_bytes: int = 0


NO_LIMITS = ConnectionLimits()


class Hconn:
    """A connection: whose messages these are, what it has open, and its unit of work (None until a call starts one)."""

    def __init__(self, appl_name: str = "", user: str = "") -> None:
        self.appl_name = appl_name[:28]
        self.appl_type = MQAT.UNIX.value
        self.user = user[:12]
        self.channel = ""  # where it comes from; empty in the queue manager's own process
        self.caller: Caller | None = None  # None: the owner of the queue manager, who may do everything
        self.refused: tuple[NotAuthorizedError, ...] = ()  # destinations of lists, of which the log is to be told
        self.limits = NO_LIMITS
        self.tag: bytes | None = None  # that programs which may not run beside it have too
        self.handles: dict[int, Handle] = {}
        self.unit: Unit | None = None
        self.put1s: dict[Route, LastCalls] = {}  # what MQPUT1s have left, by their ways
        self.in_lists = 0  # destinations of open distribution lists, but for one of each list
        self._hobj = 0

    @property
    def handle_count(self) -> int:
        """The number of handles that count towards MAXHANDS: each destination of a distribution list is one."""
        return len(self.handles) + self.in_lists

    def require(self, wanted: Right, *q_names: str) -> None:
        """Raise NOT_AUTHORIZED (2035) where its calls are judged, and its user lacks rights on one of these queues."""
        if self.caller is not None:
            for name in q_names:
                self.caller.require(wanted, name)

    def require_manager(self, wanted: Right) -> None:
        """As `require`, for rights on the queue manager itself."""
        if self.caller is not None:
            self.caller.require_manager(wanted)

    def require_administrator(self) -> None:
        """As `require`, for what only administrators may."""
        if self.caller is not None:
            self.caller.require_administrator()

    def enter(self, unit: Unit, now: float) -> None:
        """A call under syncpoint belongs to `unit`, which it begins if there was none."""
        if self.unit is None:
            self.unit, unit.owner, unit.since = unit, self, now

    def last_put1(self, route: Route) -> LastCalls:
        """Return the record of the last MQPUT1 by this way, for the next."""
        found = self.put1s.get(route)
        if found is None:
            if len(self.put1s) >= _PUT1S_MAX:
                self.put1s.clear()
            found = self.put1s[route] = LastCalls()
        return found

    def add(self, handle: Handle) -> None:
        """Give an object handle its number."""
        self._hobj += 1
        handle.hobj = self._hobj
        self.handles[self._hobj] = handle

    def handle(self, hobj: int) -> Handle:
        """The open handle; raises HOBJ_ERROR (2019)."""
        try:
            return self.handles[hobj]
        except KeyError:
            raise MQError(MQRC.HOBJ_ERROR, f"there is no open handle {hobj} on this connection") from None

    def queue(self, hobj: int) -> tuple[Handle, LocalQueue]:
        """The handle and its queue; raises HOBJ_ERROR (2019), Q_DELETED (2052)."""
        handle = self.handles.get(hobj) or self.handle(hobj)
        queue = handle.queue
        if queue is None or queue.deleted or handle.changed:
            queue = handle.usable_queue()  # which says what of it is wrong
        return handle, queue


class Marker(NamedTuple):
    """The owner of browse marks: a handle, or, for None, the co-operating handles of the queue together."""

    handle: Handle | None


CO_OPERATING = Marker(None)


class LastCalls:
    """The caches of a handle, or of the MQPUT1s that a connection makes by one way: what its last calls found out and
    the next like them need not find out again. How a call ends never depends on them, only how much work it is.

    `template` and `put_md` belong to the puts. A put that is made and is not like the last clears `template`, and sets
    it if it is of the plainest kind itself (`put_template.leaves_template`, which alone reads and sets `put_md`). Only
    `Manager.template` reads it, and says whether it still holds.

    `request` and `request_of` belong to the gets. `getting.remember` sets both together; nothing clears them, since
    `getting.remembered` reads them for a get with equal arguments only.

    `search` belongs to `broker.core.queues.shelf.searches`: `begin` sets it when a get is to be looked for in steps,
    `find_view` reads it when that get is made again, `end` clears it when a get of the handle is answered or will wait.
    `look` belongs to the gets that see delayed messages, and is set and cleared likewise (`choosing.select`).
    """

    __slots__ = ("look", "packed_md", "put_md", "request", "request_of", "search", "template")

    def __init__(self) -> None:
        self.put_md: MessageDescriptor | None = None  # of the last put, as the program gave it
        self.template: PutTemplate | None = None  # of the last put, if it was of the plainest kind
        self.packed_md = b""  # of the last put with a delay: messages put together share it
        self.request: Request | None = None  # of a get that may come again with the same arguments
        self.request_of: tuple[object, ...] = ()  # these arguments
        self.search: Request | None = None  # of a get that is being looked for, in steps
        self.look: tuple[Request, int] | None = None  # with delayed messages: for what, and how far


class Handle:
    """An open object. `queue` is the local one where messages go, None for objects that hold no messages."""

    def __init__(self, hconn: Hconn, space: str, name: str, options: int, queue: LocalQueue | None) -> None:
        self.hconn = hconn
        self.hobj = 0
        self.space = space
        self.name = name
        self.options = options
        self.saves_context = options & _SAVE != 0  # of the messages got destructively
        self.queue = queue
        self.route: Route | None = None  # of a queue: how its name leads to `queue`
        self.opened_at = 0.0  # by the monotonic clock, in seconds
        self.changed = False  # the name leads elsewhere now: only MQCLOSE is possible
        self.selector: Selector | None = None  # only messages of which this is true are there for it
        self.position = AT_REST
        self.marked: set[Entry] = set()
        self.waiting: dict[Waiter, None] = {}
        self.last_calls = LastCalls()

    @property
    def marker(self) -> Marker:
        """The owner of its browse marks."""
        return Marker(self)

    def usable_queue(self) -> LocalQueue:
        """Its queue; raises HOBJ_ERROR (2019), Q_DELETED (2052), OBJECT_CHANGED (2041)."""
        queue = self.queue
        if queue is None:
            raise MQError(MQRC.HOBJ_ERROR, f"{self.name} is not a queue: nothing can be put to it or got from it")
        if queue.deleted:
            raise deleted(queue.name)
        if self.changed:
            self.check_unchanged()
        return queue

    def output_route(self) -> Route:
        """The way that a put through it takes; raises HOBJ_ERROR (2019), Q_DELETED (2052), OBJECT_CHANGED (2041),
        NOT_OPEN_FOR_OUTPUT (2039).
        """
        queue = self.queue
        if queue is None or queue.deleted or self.changed:
            self.usable_queue()  # which says what of it is wrong
        if not self.options & _OUTPUT:
            raise MQError(MQRC.NOT_OPEN_FOR_OUTPUT, f"{self.name} was opened without MQOO_OUTPUT")
        assert self.route is not None
        return self.route

    def check_unchanged(self) -> None:
        """Raise OBJECT_CHANGED (2041) when what the handle was opened for is no longer so."""
        if self.changed:
            raise MQError(MQRC.OBJECT_CHANGED, f"the way from {self.name} to its queue was changed after it was opened")

    @property
    def removes(self) -> bool:
        """True if it is open for destructive gets."""
        return bool(self.options & REMOVING)

    @property
    def browses(self) -> bool:
        return bool(self.options & _BROWSE)

    @property
    def puts(self) -> bool:
        return bool(self.options & _OUTPUT)


def deleted(name: str) -> MQError:
    """Q_DELETED (2052) for a handle of an object that has gone."""
    return MQError(MQRC.Q_DELETED, f"{name} was deleted after it was opened")
