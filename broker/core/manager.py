"""The queue manager's state, and the entry to every step that changes it.

A call that changes messages goes through three steps. *Call*: it is checked and joins a unit of work; what it puts is
pending, what it gets is out of sight. *Freeze*: `commit` or `backout` turns the unit into rows, once. *Settle*: when
the rows are durable, or could not be made so, `settle` lets all of the unit take effect at once; what follows from it
is among the `effects`. The caller sees to it that units settle in the order in which they were frozen (journal rule 3).

Where the steps are: objects are defined in `defining`, opened in `opening` and `distribution`, closed in `closing`. A
put is checked and completed in `putting` and placed in `placing`; a get is made a request in `getting`, its message is
chosen in `choosing` and given in `granting`. Units of work freeze and settle in `settling`; gets that wait are served
in `dispatch`, or end in `waiting`; expired messages go in `expiring`, those whose data is damaged aside in `damage`.

Nothing here awaits or reads a clock: `now` is the wall clock in seconds, `tick` the monotonic one, a `Moment` both.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from broker.core.calls import closing, damage, defining, expiring, postponing, settling
from broker.core.calls.gets import choosing, dispatch, getting, granting
from broker.core.calls.options import check_open
from broker.core.calls.puts import distribution, placing
from broker.core.claims import consumer as consumers
from broker.core.claims.consumers import Consumers
from broker.core.deliveries.deliveries import Deliveries
from broker.core.identifiers import Identifiers
from broker.core.message.entry import AVAILABLE, CLAIMED, DAMAGED, DELAYED, LOCKED, Entry
from broker.core.names import opening
from broker.core.names.definitions import SHARED, Define, Delete
from broker.core.names.objects import Objects
from broker.core.prepared import branches as prepared_branches
from broker.core.prepared import sink as sinks
from broker.core.prepared import unit as prepared_units
from broker.core.prepared.branches import PreparedBranches
from broker.core.prepared.sinks import Sinks
from broker.core.queues import locking, waiting
from broker.core.queues.delayed.delays import Delays
from broker.core.queues.effects import Effects, Grant
from broker.core.queues.keys import KeyCount
from broker.core.queues.locking import OwnLocks
from broker.core.queues.shelf.views import Search
from broker.core.queues.waiters import Waiter
from broker.core.security_events import SecurityEvents
from broker.core.triggers import Triggers
from broker.mqi.constants.objects import MQOT
from broker.mqi.constants.options import MQOO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from broker.core.message.rows import ObjectRow, Rows
    from broker.core.names.definitions import Change, Definition
    from broker.core.names.routes import Route
    from broker.core.queues.handles import Handle, Hconn
    from broker.core.queues.queue import LocalQueue
    from broker.core.queues.shelf.selection import Request
    from broker.core.queues.unit import Unit
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor, ObjectDescriptor

_QUEUE = MQOT.Q.value
_OUTPUT = MQOO.OUTPUT.value
_OPEN_FAIL_IF_QUIESCING = MQOO.FAIL_IF_QUIESCING.value
INSTANCE = "INSTANCE"
"""The attribute of the queue manager's definition that tells its identifiers from those of others (`Identifiers`). No
command knows it. A queue manager that was created without one goes on as if it were 0.
"""
CHECKED = "CHECKED"
"""The attribute of the queue manager's definition that is 1 once users are checked: it came with the first user, and
stays when the last one goes (security 1.3). No command knows it.
"""
_DATA = UUID("5f2b7a0e-6f0c-4a55-9d0b-0a4f6d1c7e21")
_NO_MSG_LOCKED = int(MQRC.NO_MSG_LOCKED)


def as_checked(q_mgr: Definition) -> Define:
    """The change by which a queue manager of this definition checks its users."""
    return Define(replace(q_mgr, attributes={**q_mgr.attributes, CHECKED: 1}))


class Manager:
    """All that a queue manager knows, but for what is on disk."""

    def __init__(self, definition: Definition, now: float, high_water: int = 0) -> None:
        self.name = definition.name
        self.effects = Effects()
        self.ids = Identifiers(self.name, now, high_water, int(definition.attributes["CCSID"]))
        self.objects = Objects(definition, self.ids, self.effects)
        self.triggers = Triggers(self.objects, self.effects)
        self.events = SecurityEvents(self.ids, self.effects)
        self.consumers = Consumers(self.objects)
        self.sinks = Sinks()
        self.branches = PreparedBranches()
        self.deliveries = Deliveries(self)
        self.delays = Delays()
        self.keys = KeyCount()
        self.quiescing = False
        self.unit_bytes_max = 64 * 1024 * 1024
        self._configure(definition)

    def _configure(self, definition: Definition) -> None:
        """Take over the attributes of the queue manager itself."""
        self.ids.coded_char_set_id = int(definition.attributes["CCSID"])
        self.max_length = int(definition.attributes["MAXMSGL"])
        self.max_properties = int(definition.attributes["MAXPROPL"])
        self.max_calls = int(definition.attributes["MAXUMSGS"])
        self.mark_seconds = _mark_seconds(int(definition.attributes["MARKINT"]))
        self.triggers.interval_ms = int(definition.attributes["TRIGINT"])
        self.events.configure(definition)
        instance = int(definition.attributes.get(INSTANCE, 0))
        self.ids.belong_to(instance)
        self.keys.secret = instance.to_bytes(8, "big")

    @property
    def instance(self) -> str:
        """The UUID of its data, of what it was created with."""
        attributes = self.objects.definition.attributes
        return str(uuid5(_DATA, f"{attributes['QMID']} {attributes.get(INSTANCE, 0)}"))

    @property
    def checked(self) -> bool:
        """True if it is kept with the queue manager that its users are checked."""
        return bool(self.objects.definition.attributes.get(CHECKED, 0))

    @property
    def begins_to_check(self) -> bool:
        """True if there are users, and it is not kept yet that they are checked."""
        return bool(self.objects.authority.users) and not self.checked

    def as_checked(self) -> Define:
        """The change that lets users be checked from now on."""
        return as_checked(self.objects.definition)

    # Handles

    def open(self, hconn: Hconn, od: ObjectDescriptor, options: int, tick: float = 0.0) -> Handle:
        """MQOPEN. Raises OPTIONS_ERROR (2046), Q_MGR_QUIESCING (2161), HANDLE_NOT_AVAILABLE (2017), and what
        `opening.open_object` does, or for a distribution list `distribution.open_list`: UNKNOWN_OBJECT_NAME (2085),
        OBJECT_IN_USE (2042) and others.
        """
        self._check_open(hconn, options)
        if od.records:
            return distribution.open_list(self.objects, hconn, od, options, tick)
        return self._opened(opening.open_object(self.objects, hconn, od, options), tick)

    def _opened(self, handle: Handle, tick: float) -> Handle:
        handle.opened_at = tick
        if handle.removes and handle.queue is not None:
            self.triggers.input_opened(handle.queue, tick)
        return handle

    def route_of_put1(self, hconn: Hconn, od: ObjectDescriptor, options: int) -> Route | None:
        """The way of an MQPUT1, if it is known of an earlier one; None when its queue must be opened, with these
        options. Raises HANDLE_NOT_AVAILABLE (2017), NOT_AUTHORIZED (2035), as `open` does.
        """
        route = self.objects.known_route(od)
        if route is not None:
            self._check_open(hconn, _OUTPUT)
            opening.judge_known(hconn, od, route, options)
        return route

    def make_dynamic(self, hconn: Hconn, od: ObjectDescriptor, options: int, now: float) -> Define:
        """The dynamic queue that MQOPEN makes of a model queue: to be defined, then opened with `open_dynamic`.

        Raises DYNAMIC_Q_NAME_ERROR (2011), OBJECT_ALREADY_EXISTS (2100), NAME_IN_USE (2201), and what `open` would.
        """
        self._check_open(hconn, options)
        return opening.make_dynamic(self.objects, hconn, od, options, now)

    def open_dynamic(self, hconn: Hconn, od: ObjectDescriptor, name: str, options: int, tick: float = 0.0) -> Handle:
        """Open the dynamic queue just made. If it is a temporary one it ends with this handle."""
        return self._opened(opening.open_dynamic(self.objects, hconn, od, name, options), tick)

    def _check_open(self, hconn: Hconn, options: int) -> None:
        check_open(options)
        if self.quiescing and options & _OPEN_FAIL_IF_QUIESCING:
            raise MQError(MQRC.Q_MGR_QUIESCING, f"{self.name} is quiescing")
        if hconn.handle_count >= self.objects.max_handles:
            raise MQError(MQRC.HANDLE_NOT_AVAILABLE, f"{hconn.handle_count} handles are open, MAXHANDS of {self.name}")

    def opens_shared(self, od: ObjectDescriptor, options: int) -> bool:
        """True if MQOPEN would open a shared queue. Raises what it would."""
        if od.records or int(od.object_type) != _QUEUE:
            return False
        return self.objects.route(od.object_name, od.object_q_mgr_name, options).queue.shared

    def close(self, hconn: Hconn, hobj: int, tick: float) -> int:
        """MQCLOSE. The reason is 0, or INCOMPLETE_MSG (2242) or INCOMPLETE_GROUP (2241) as a warning (semantics 3.5).

        Gets that wait on the handle end with HOBJ_ERROR (2019). Raises HOBJ_ERROR (2019).
        """
        return closing.close(self, hconn, hobj, tick)

    # Messages

    put = placing.put

    def get(
        self,
        handle: Handle,
        queue: LocalQueue,
        md: MessageDescriptor | None,
        gmo: GetMessageOptions,
        max_length: int | None,
        now: float,
        *,
        delayed: bool = False,
    ) -> Grant | Request | Search:
        """MQGET: return a grant, or the request to wait with, or the search that must end before the same call is made
        again. Raises NO_MSG_AVAILABLE (2033) and others. `delayed`: delayed messages are seen as if their
        instant had come.
        """
        request = getting.request_for(self, handle, md, gmo, max_length, now, delayed=delayed)
        if request.unlock:
            return Grant([], 0 if locking.unlock(handle, self.effects.to_offer) else _NO_MSG_LOCKED)
        if handle.position.locked:
            with OwnLocks(handle, self.effects.to_offer) as lock:
                grant = self.grant_to(handle, queue, request, now)
                if isinstance(grant, Grant):
                    lock.release = granting.moves_cursor(request, grant)
                else:
                    lock.release = request.browse and grant is None
        else:
            grant = self.grant_to(handle, queue, request, now)
        if grant is not None:
            return grant
        if request.may_wait:
            return request
        raise getting.nothing_found(queue)

    def grant_to(self, handle: Handle, queue: LocalQueue, request: Request, now: float) -> Grant | Search | None:
        """Return the message that a get is given now, None without one, or the search that must end before it is
        known.
        """
        found = choosing.select(self, handle, queue, request, now)
        if found is None or isinstance(found, Search):
            return found
        return granting.grant(self, handle, queue, request, found, now)

    # Locks and marks

    def mark_left(self, queue: LocalQueue, now: float) -> float | None:
        """Return the seconds that the oldest mark of the co-operating set still lasts; None when none ends."""
        made = queue.browse_marks.oldest
        return None if made is None or self.mark_seconds == float("inf") else made + self.mark_seconds - now

    def end_marks(self, queue: LocalQueue, now: float) -> None:
        """Take off the marks whose time is up; the messages are to be offered to those who wait."""
        self.effects.to_offer += queue.browse_marks.drop_old(now - self.mark_seconds)

    def drain(self, now: float) -> Effects:
        """Return the effects of the steps since the last call, to be carried out. If there are none, getters that wait
        are first offered the messages that have come to light: the effects are false when nothing is left at all.
        """
        taken = self.effects.take()
        if self.effects.to_offer and not taken:
            dispatch.offer_again(self, now)
            taken = self.effects.take()
        return taken

    def wait(self, handle: Handle, queue: LocalQueue, request: Request, owner: object) -> Waiter:
        """Let a get wait for what it looks for."""
        waiter = Waiter(handle, request, owner)
        queue.waiters.add(waiter)
        handle.waiting[waiter] = None
        return waiter

    def stop_waiting(self, waiter: Waiter) -> None:
        """The getter no longer waits; harmless when it has been served."""
        waiting.stop_waiting(waiter)

    # Units of work

    commit = settling.commit

    def backout(self, unit: Unit) -> Rows:
        """Freeze a unit for its backout: the counts that were raised."""
        return settling.back_out(unit)

    def give_up(self, unit: Unit) -> Rows:
        """A unit of work that was frozen for its commit could not be written: freeze its backout."""
        return settling.give_up(unit)

    settle = settling.settle

    def give_back(self, entry: Entry, now: float = 0.0) -> None:
        """A get under syncpoint whose answer nobody took: the message leaves its unit, back to its place."""
        settling.give_back(self, entry, now)

    def put_again(self, entry: Entry) -> Unit | None:
        """A get outside syncpoint whose answer nobody took, after its removal: an implicit unit that puts the message
        back at its place, its backout count raised (journal rule 11). None when its queue is gone.
        """
        return settling.put_again(entry)

    def set_aside(self, entry: Entry, why: str) -> bool:
        """A get or browse has found the data of a message damaged: nobody is given it from now on (semantics 5.10).
        Whether that is news.
        """
        return damage.set_aside(self.effects, entry, why)

    # Expiry (semantics 12.1)

    def expiry(self, queues: Iterable[LocalQueue], now: float) -> Iterator[None]:
        """Discard the available messages of these queues whose time is up, a few in each step."""
        return expiring.expire_all(self, queues, now)

    # Definitions

    def freeze(self, change: Change) -> tuple[Change, Rows]:
        """Return the rows of a definition change, and the change to apply once they are durable. (CLEAR is a unit.)"""
        return defining.freeze(self.objects, change)

    def apply(self, change: Change, tick: float = 0.0) -> None:
        """Let a change of definitions take effect, now that it is durable."""
        if isinstance(change, Delete) and change.space == "QUEUE" and change.disposition != SHARED:
            queue = self.objects.own_queue(change.name)
            if queue is not None:
                postponing.forget(self, queue)
        defining.apply(self.objects, self.triggers, change, tick)
        if isinstance(change, Define) and change.definition.kind == "QMGR":
            self._configure(change.definition)

    def load_object(self, row: ObjectRow) -> None:
        """An object as the store kept it."""
        if row.space == consumers.SPACE:
            self.consumers.load(row)
            return
        if row.space in (sinks.SPACE, prepared_units.SPACE):
            self.sinks.load(row)
            return
        if row.space in prepared_branches.SPACES:
            self.branches.load(row)
            return
        defining.load_object(self.objects, self.triggers, row)
        if row.kind == "QMGR":
            self._configure(self.objects.definition)

    def start_triggers(self, tick: float = 0.0) -> None:
        """Everything is loaded: rebuild the trigger counts (R-12)."""
        for queue in self.objects.queues.values():
            self.triggers.recount(queue, tick)

    def sweep_triggers(self) -> Iterator[bool]:
        """Let a start be pending for each queue with messages that nobody is on the way to. Yield True for each."""
        return self.triggers.sweep(list(self.objects.queues.values()), self.deliveries.in_flight)

    def clear(self, queue: LocalQueue, count: int) -> Unit:
        """A unit, not frozen yet, that removes the first available messages of the queue: at most `count`."""
        return defining.clear(self, queue, count)

    # The end

    def quiesce(self) -> None:
        """The queue manager is about to end: gets that asked for it stop waiting with Q_MGR_QUIESCING (2161)."""
        self.quiescing = True
        for queue in self.objects.queues.values():
            asked = [waiter for waiter in queue.waiters if waiter.request.fail_if_quiescing]
            waiting.end_waits(asked, MQRC.Q_MGR_QUIESCING, self.effects)

    def nonpersistent_rows(self) -> Rows:
        """The nonpersistent messages that an orderly stop keeps: those of queues with NPMCLASS(HIGH)."""
        keeping = [queue for queue in self.objects.queues.values() if queue.keeps_nonpersistent]
        kept = (AVAILABLE, DELAYED)
        on_queue = (entry for queue in keeping for entry in queue.shelf.entries.values() if entry.state in kept)
        appearing = (entry for entry in self.sinks.appearing() if entry.queue in keeping)
        return self.deliveries.rows_of(entry for entry in chain(on_queue, appearing) if not entry.persistence)

    def check_invariants(self) -> None:
        """Raise AssertionError when a structure is broken. For tests."""
        self.objects.check_invariants()
        self.consumers.check_invariants()
        self.deliveries.check_invariants(self.objects.queues.values())
        self.sinks.check_invariants(self.objects.queues.values())
        self.delays.check_invariants(sum(len(queue.shelf.delayed) for queue in self.objects.queues.values()))
        held = 0
        for queue in self.objects.queues.values():
            if queue.keys is not None:
                queue.keys.check_invariants()
                held += len(queue.keys)
            if not queue.shared:
                locking.check_invariants(queue)
            assert queue.pending_starts >= 0
            assert (queue in self.triggers.pending()) == self.triggers.startable(queue)
            for entry in queue.shelf.entries.values():
                assert (entry.state in (AVAILABLE, LOCKED, DAMAGED, CLAIMED, DELAYED)) == (entry.unit is None)
        assert self.keys.count == held


def _mark_seconds(interval_ms: int) -> float:
    """Return the seconds that a co-operative browse mark lasts; NOLIMIT is -1."""
    return float("inf") if interval_ms < 0 else interval_ms / 1000
