"""The queue manager's state, and every step that changes it.

A call that changes messages goes through three steps. *Call*: it is checked and joins a unit of work; what it puts is
pending, what it gets is out of sight. *Freeze*: `commit` or `backout` turns the unit into rows, once. *Settle*: when
the rows are durable, or could not be made so, `settle` lets all of the unit take effect at once and returns what
follows from it. The caller sees to it that units settle in the order in which they were frozen (journal rule 3).

Nothing here awaits or reads a clock: `now` is the wall clock in seconds, `tick` the monotonic one.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import msgpack

from broker.core import getting, granting, opening, putting
from broker.core import unit as units
from broker.core.definitions import Define, Definition, Delete
from broker.core.effects import Effects, Grant
from broker.core.entry import AVAILABLE, GET_PENDING, Entry
from broker.core.granting import check_room
from broker.core.handles import CO_OPERATING, Handle, Hconn
from broker.core.identifiers import Identifiers
from broker.core.options import check_open
from broker.core.queue import LocalQueue
from broker.core.rows import ObjectRow, Rows
from broker.core.selection import choose
from broker.core.triggering import Triggers
from broker.core.unit import Unit
from broker.core.waiters import Waiter
from broker.mqi.errors import MQError
from broker.mqi.objects import MQOT
from broker.mqi.options import MQOO, MQPMO
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from broker.core.definitions import Change
    from broker.core.selection import Request
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor, ObjectDescriptor, PutMessageOptions

_SYNCPOINT = MQPMO.SYNCPOINT.value
_OPEN_FAIL_IF_QUIESCING = MQOO.FAIL_IF_QUIESCING.value
_NO_MSG_LOCKED = int(MQRC.NO_MSG_LOCKED)
_TRUNCATED_FAILED = int(MQRC.TRUNCATED_MSG_FAILED)
_PUT_FAIL_IF_QUIESCING = MQPMO.FAIL_IF_QUIESCING.value
_SPACES = {MQOT.Q.value: "QUEUE", MQOT.PROCESS.value: "PROCESS", MQOT.Q_MGR.value: "QMGR"}
_INQUIRE_ONLY = (MQOO.INQUIRE | MQOO.FAIL_IF_QUIESCING).value


class Manager:
    """All that a queue manager knows, but for what is on disk."""

    def __init__(self, definition: Definition, now: float, high_water: int = 0) -> None:
        self.name = definition.name
        self.definitions: dict[tuple[str, str], Definition] = {}
        self.queues: dict[str, LocalQueue] = {}
        self.processes: dict[str, Definition] = {}
        self.ids = Identifiers(self.name, now, high_water, int(definition.attributes["CCSID"]))
        self.triggers = Triggers(self.name, self.processes)
        self.expired: list[Entry] = []  # discarded; the engine removes the persistent ones from the store
        self.freed: list[Entry] = []  # no longer locked, to be offered to those who wait
        self.quiescing = False
        self.unit_bytes_max = 64 * 1024 * 1024
        self._configure(definition)

    def _configure(self, definition: Definition) -> None:
        self.definition = definition
        self.definitions["QMGR", self.name] = definition
        self.max_length = int(definition.attributes["MAXMSGL"])
        self.max_calls = int(definition.attributes["MAXUMSGS"])
        self.max_handles = int(definition.attributes["MAXHANDS"])
        self.mark_seconds = _mark_seconds(int(definition.attributes["MARKINT"]))
        self.triggers.interval_ms = int(definition.attributes["TRIGINT"])

    # Handles

    def open(self, hconn: Hconn, od: ObjectDescriptor, options: int) -> Handle:
        """MQOPEN. Raises OPTIONS_ERROR (2046), UNKNOWN_OBJECT_NAME (2085), OBJECT_IN_USE (2042) and others."""
        check_open(options)
        if self.quiescing and options & _OPEN_FAIL_IF_QUIESCING:
            raise MQError(MQRC.Q_MGR_QUIESCING, f"{self.name} is quiescing")
        if len(hconn.handles) >= self.max_handles:
            raise MQError(MQRC.HANDLE_NOT_AVAILABLE, f"{len(hconn.handles)} handles are open, MAXHANDS of {self.name}")
        space = _SPACES.get(int(od.object_type))
        if space is None:
            raise MQError(MQRC.OBJECT_TYPE_ERROR, f"object_type={od.object_type}: a queue, process or queue manager")
        if od.object_q_mgr_name not in ("", self.name):
            raise MQError(MQRC.UNKNOWN_REMOTE_Q_MGR, f"there is no route from {self.name} to {od.object_q_mgr_name}")
        if space == "QUEUE":
            return opening.open_queue(hconn, self.queue(od.object_name), options)
        name = self.name if space == "QMGR" else od.object_name
        if (space, name) not in self.definitions:
            raise MQError(MQRC.UNKNOWN_OBJECT_NAME, f"{self.name} has no process definition {name}")
        if options & ~_INQUIRE_ONLY:
            raise MQError(MQRC.OPTION_NOT_VALID_FOR_TYPE, f"{name}: a {space.lower()} can only be opened for INQUIRE")
        handle = Handle(hconn, space, name, options, None)
        hconn.add(handle)
        return handle

    def close(self, hconn: Hconn, hobj: int, tick: float) -> tuple[int, Effects]:
        """MQCLOSE. The reason is 0, or INCOMPLETE_MSG (2242) or INCOMPLETE_GROUP (2241) as a warning (messages.md 3.5).

        Gets that wait on the handle end with HOBJ_ERROR (2019).
        """
        handle = hconn.handle(hobj)
        effects = Effects()
        self._end_waits(handle.waiting, MQRC.HOBJ_ERROR, effects)
        del hconn.handles[hobj]
        queue = handle.queue
        if queue is not None:
            opening.close_queue(handle, queue)
            self._unlock(handle)
            for entry in handle.marked:
                queue.unmark(entry, handle.marker)
            queue.views.pop(handle.marker, None)
            if handle.removes and not queue.deleted:
                self.triggers.last_input_closed(queue, tick)
        unfinished = (position.unfinished for position in (handle.last_put, handle.last_get) if position.logical)
        return next(filter(None, unfinished), 0), effects

    def queue(self, name: str) -> LocalQueue:
        """The local queue of that name; raises UNKNOWN_OBJECT_NAME (2085)."""
        try:
            return self.queues[name]
        except KeyError:
            raise MQError(MQRC.UNKNOWN_OBJECT_NAME, f"{self.name} has no queue {name!r}") from None

    # Messages

    def put(
        self,
        hconn: Hconn,
        handle: Handle | None,
        queue: LocalQueue,
        md: MessageDescriptor | None,
        pmo: PutMessageOptions,
        data: bytes,
        now: float,
        tick: float,
    ) -> tuple[Entry, Unit | None, int]:
        """MQPUT, or MQPUT1 when `handle` is None: the entry (the first, of a message that was cut), the implicit unit
        to freeze (None under syncpoint), and the reason of a warning.
        """
        options = int(pmo.options)
        if self.quiescing and options & _PUT_FAIL_IF_QUIESCING:
            raise MQError(MQRC.Q_MGR_QUIESCING, f"{self.name} is quiescing")
        if queue.depth >= queue.max_depth:
            self.expire(queue, now)
        put = putting.prepare(hconn, handle, queue, self.ids, md, pmo, data, self.max_length, now)
        implicit = not options & _SYNCPOINT
        unit = Unit() if implicit else hconn.unit or Unit()
        check_room(unit, self.max_calls)
        if unit.bytes + len(data) > self.unit_bytes_max and not implicit:
            raise MQError(MQRC.STORAGE_NOT_AVAILABLE, f"the unit of work holds {unit.bytes} bytes, its limit is near")
        unit.calls += 1
        unit.bytes += len(data)
        for entry in put.entries:
            queue.place(entry, unit)
            unit.puts.append(entry)
        if any(self.triggers.meets_first(queue, entry, tick) for entry in put.entries):
            unit.firsts.append(queue)
        if not implicit:
            hconn.unit = unit
        if handle is not None and put.position is not None:
            if not implicit:
                unit.remember(handle)
            handle.last_put = put.position
        return put.entries[0], unit if implicit else None, put.reason

    def get(
        self,
        handle: Handle,
        queue: LocalQueue,
        md: MessageDescriptor | None,
        gmo: GetMessageOptions,
        max_length: int | None,
        now: float,
    ) -> Grant | Request:
        """MQGET: a grant, or the request to wait with. Raises NO_MSG_AVAILABLE (2033) and others."""
        request = getting.make_request(handle, md, gmo, max_length)
        if self.quiescing and request.fail_if_quiescing:
            raise MQError(MQRC.Q_MGR_QUIESCING, f"{self.name} is quiescing")
        if int(gmo.options) & getting.UNLOCK:
            return Grant([], 0 if self._unlock(handle) else _NO_MSG_LOCKED)
        if queue.get_inhibited:
            raise MQError(MQRC.GET_INHIBITED, f"{queue.name} has GET(DISABLED)")
        with self._own_locks_open(handle, queue, request) as lock:
            entry = self._select(handle, queue, request, gmo, now)
            if entry is not None:
                grant = granting.grant(handle, queue, request, entry, self.max_calls, now)
                lock.release = request.browse and grant.reason != _TRUNCATED_FAILED
                return grant
            lock.release = request.browse
        if getting.waits(gmo):
            return request
        raise MQError(MQRC.NO_MSG_AVAILABLE, f"no suitable message on {queue.name}")

    def _select(
        self, handle: Handle, queue: LocalQueue, request: Request, gmo: GetMessageOptions, now: float
    ) -> Entry | None:
        """The message that a get is given now, if there is one."""
        if int(gmo.options) & getting.UNDER_CURSOR:
            return granting.under_cursor(handle, queue, request, now)
        entry = self._choose(queue, request, now)
        if entry is None and request.item is not None:
            comes_next = queue.groups.first(request.item)
            if comes_next is not None and not request.matches(queue.entries[comes_next]):
                raise MQError(MQRC.MATCH_OPTIONS_ERROR, "the message that comes next has other identifiers")
        return entry

    def _choose(self, queue: LocalQueue, request: Request, now: float) -> Entry | None:
        if request.whole:
            self.expire(queue, now)  # an expired part makes the whole incomplete
        if request.unmarked_by == CO_OPERATING:
            queue.drop_old_marks(now - self.mark_seconds)
        expired: list[Entry] = []
        entry = choose(queue.candidates(request), request, queue, now, expired)
        self._discard(expired)
        return entry

    # Locks

    @contextmanager
    def _own_locks_open(self, handle: Handle, queue: LocalQueue, request: Request) -> Iterator[_Lock]:
        """For the time of a get the messages that its own handle has locked are available. Afterwards they are locked
        again, unless the get released them (messages.md 5.5).
        """
        lock = _Lock()
        locked, handle.locked = handle.locked, []
        for entry in locked:
            queue.unlock(entry)
        try:
            yield lock
        finally:
            taken = any(entry.state == GET_PENDING for entry in locked)
            free = [entry for entry in locked if entry.state == AVAILABLE]
            if lock.release or taken:
                self.freed += free
            elif not handle.locked:
                for entry in free:
                    queue.lock(entry)
                handle.locked = free

    def _unlock(self, handle: Handle) -> bool:
        """Release the lock of a handle; whether there was one."""
        locked, handle.locked = handle.locked, []
        for entry in locked:
            entry.queue.unlock(entry)
        self.freed += locked
        return bool(locked)

    def offer_freed(self, now: float) -> Effects:
        """Offer what is no longer locked to those who wait."""
        freed, self.freed = self.freed, []
        return self._offer([entry for entry in freed if entry.state == AVAILABLE], now)

    def wait(self, handle: Handle, queue: LocalQueue, request: Request, owner: object) -> Waiter:
        """Let a get wait for what it looks for."""
        waiter = Waiter(handle, request, owner)
        queue.waiters.add(waiter)
        handle.waiting[waiter] = None
        return waiter

    def stop_waiting(self, waiter: Waiter) -> None:
        """The getter no longer waits; harmless when it has been served."""
        if waiter.handle.queue is not None:
            waiter.handle.queue.waiters.discard(waiter)
        waiter.handle.waiting.pop(waiter, None)

    # Units of work

    def commit(self, unit: Unit) -> Rows:
        """Freeze a unit for its commit: what is to be made durable."""
        unit.become(units.COMMITTING)
        return unit.commit_rows()

    def backout(self, unit: Unit) -> Rows:
        """Freeze a unit for its backout: the counts that were raised."""
        unit.become(units.BACKING_OUT)
        unit.restore()
        for entry in unit.gets:
            entry.backout_count += 1
        return unit.backout_rows()

    def settle(self, unit: Unit, *, committed: bool, now: float = 0.0) -> Effects:
        """Let a frozen unit take effect, all of it in this step. Messages whose time is up at `now` are offered to
        nobody.
        """
        unit.become(units.COMMITTED if committed else units.BACKED_OUT)
        if committed:
            for entry in unit.gets:
                entry.queue.remove(entry)
            for entry in unit.puts:
                self._arrive(entry)
        else:
            for entry in unit.puts:
                entry.queue.withdraw(entry)
            for entry in unit.gets:
                self._reinstate(entry)
        effects = self._offer(unit.puts if committed else unit.gets, now)
        for queue in unit.firsts:
            self.triggers.fire_first(queue)
        return effects

    def give_back(self, entry: Entry, now: float = 0.0) -> Effects:
        """A get under syncpoint whose answer nobody took: the message leaves its unit, back to its place."""
        unit = entry.unit
        if unit is None or unit.state != units.ACTIVE or entry not in unit.gets:
            return Effects()
        unit.calls -= unit.gets.pop(entry)
        self._reinstate(entry)
        return self._offer((entry,), now)

    def put_again(self, entry: Entry) -> Unit | None:
        """A get outside syncpoint whose answer nobody took, after its removal: an implicit unit that puts the message
        back at its place, its backout count raised (journal rule 11). None when its queue is gone.
        """
        if entry.queue.deleted:
            return None
        unit = Unit()
        entry.backout_count += 1
        entry.queue.place(entry, unit)
        unit.puts.append(entry)
        return unit

    def _arrive(self, entry: Entry) -> None:
        if entry.queue.deleted:
            entry.queue.withdraw(entry)
        else:
            entry.queue.arrive(entry)
            self.triggers.arrived(entry.queue, entry)

    def _reinstate(self, entry: Entry) -> None:
        if entry.queue.deleted:
            entry.queue.remove(entry)
        else:
            entry.queue.reinstate(entry)

    def _offer(self, entries: Iterable[Entry], now: float) -> Effects:
        """Offer what has become available in one step to those who wait, in delivery order whatever the order of the
        calls was.
        """
        effects = Effects()
        awaited = [entry for entry in entries if entry.queue.waiters.count and entry.state == AVAILABLE]
        for entry in sorted(awaited, key=_key):
            self._serve(entry.queue, entry, effects, now)
        return effects

    def _serve(self, queue: LocalQueue, entry: Entry, effects: Effects, now: float) -> None:
        """Offer a message to those who wait (messages.md 5.3); discard it where they would meet it expired."""
        if not queue.waiters.count or queue.get_inhibited:
            return
        served = []
        for waiter in queue.waiters.interested(entry):
            request = waiter.request
            if request.part_of_more:
                found = self._choose(queue, request, now)
            else:
                found = entry if request.accepts(entry, queue) else None
            if found is None:
                continue
            if found.expired(now):
                self._discard((found,))
                break
            served.append(waiter)
            try:
                grant = granting.grant(waiter.handle, queue, request, found, self.max_calls, now)
            except MQError as error:
                effects.ended.append((waiter, int(error.reason)))
                continue
            effects.grants.append((waiter, grant))
            if entry.state != AVAILABLE:
                break
        for waiter in served:
            self.stop_waiting(waiter)

    # Expiry

    def expire(self, queue: LocalQueue, now: float) -> None:
        """Discard every available message whose time is up."""
        self._discard(list(queue.overdue(now)))

    def _discard(self, expired: Iterable[Entry]) -> None:
        for entry in expired:
            entry.queue.discard(entry)
            self.expired.append(entry)

    # Definitions

    def freeze(self, change: Change) -> tuple[Change, Rows]:
        """What a change of definitions writes, and the change to apply when that is durable. (Clear is a unit.)"""
        if isinstance(change, Delete):
            return change, Rows(dropped=[(change.space, change.name)])
        assert isinstance(change, Define)
        definition = change.definition
        queue = self.queues.get(definition.name) if definition.space == "QUEUE" else None
        change = replace(change, number=queue.number if queue else self.ids.next())
        attributes: bytes = msgpack.packb(definition.attributes)
        row = ObjectRow(definition.space, definition.name, change.number, definition.kind, attributes)
        return change, Rows(objects=[row])

    def apply(self, change: Change) -> Effects:
        """Let a change of definitions take effect, now that it is durable."""
        effects = Effects()
        if isinstance(change, Define):
            self._define(change, effects)
        elif isinstance(change, Delete):
            self._delete(change, effects)
        else:
            self.queues[change.name].pending_starts = 0
        return effects

    def load_object(self, row: ObjectRow) -> None:
        """A definition as the store kept it."""
        attributes = msgpack.unpackb(row.attributes)
        self._define(Define(Definition(row.kind, row.name, attributes), row.number), Effects())

    def start_triggers(self) -> None:
        """Everything is loaded: rebuild the trigger counts (R-12)."""
        for queue in self.queues.values():
            self.triggers.recount(queue)

    def _define(self, change: Define, effects: Effects) -> None:
        definition = change.definition
        if definition.kind == "QMGR":
            self._configure(definition)
            return
        self.definitions[definition.space, definition.name] = definition
        if definition.kind == "PROCESS":
            self.processes[definition.name] = definition
            self.triggers.post()
        elif definition.name in self.queues:
            self._redefine(self.queues[definition.name], definition, effects)
        else:
            self.queues[definition.name] = LocalQueue(definition, change.number)

    def _redefine(self, queue: LocalQueue, definition: Definition, effects: Effects) -> None:
        before = _trigger_attributes(queue)
        was_inhibited = queue.get_inhibited
        queue.configure(definition)
        if _trigger_attributes(queue) != before:
            self.triggers.recount(queue)
        if queue.get_inhibited and not was_inhibited:
            self._end_waits(queue.waiters, MQRC.GET_INHIBITED, effects)
        if was_inhibited and not queue.get_inhibited:
            self.triggers.post()

    def _delete(self, change: Delete, effects: Effects) -> None:
        self.definitions.pop((change.space, change.name), None)
        if change.space == "PROCESS":
            self.processes.pop(change.name, None)
        elif change.space == "QUEUE":
            queue = self.queues.pop(change.name)
            queue.deleted = True
            queue.pending_starts = 0
            self._end_waits(queue.waiters, MQRC.Q_DELETED, effects)

    def clear(self, queue: LocalQueue) -> Unit:
        """A unit, not frozen yet, that removes every available message of the queue."""
        unit = Unit()
        for key in list(queue.available):
            entry = queue.entries[key]
            queue.take(entry, unit)
            unit.gets[entry] = True
        return unit

    # The end

    def quiesce(self) -> Effects:
        """The queue manager is about to end: gets that asked for it stop waiting with Q_MGR_QUIESCING (2161)."""
        self.quiescing = True
        effects = Effects()
        for queue in self.queues.values():
            asked = [waiter for waiter in queue.waiters if waiter.request.fail_if_quiescing]
            self._end_waits(asked, MQRC.Q_MGR_QUIESCING, effects)
        return effects

    def _end_waits(self, waiters: Iterable[Waiter], reason: MQRC, effects: Effects) -> None:
        for waiter in list(waiters):
            effects.ended.append((waiter, int(reason)))
            self.stop_waiting(waiter)

    def check_invariants(self) -> None:
        """Raise AssertionError when a structure is broken. For tests."""
        for queue in self.queues.values():
            queue.check_invariants()
            assert queue.input_count == sum(handle.removes for handle in queue.handles)
            assert queue.output_count == sum(handle.puts for handle in queue.handles)
            assert queue.pending_starts >= 0
            for entry in queue.entries.values():
                assert (entry.state == AVAILABLE) == (entry.unit is None)


class _Lock:
    """Whether a get releases the lock of its handle."""

    release = False


def _mark_seconds(interval_ms: int) -> float:
    """How long a co-operative browse mark lasts; NOLIMIT is -1."""
    return float("inf") if interval_ms < 0 else interval_ms / 1000


def _key(entry: Entry) -> int:
    return entry.key


def _trigger_attributes(queue: LocalQueue) -> tuple[object, ...]:
    return (
        queue.trigger_on, queue.trigger_type, queue.trigger_priority, queue.process_name, queue.initiation_q_name,
    )  # fmt: skip
