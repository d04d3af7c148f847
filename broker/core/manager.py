"""The queue manager's state, and every step that changes it.

A call that changes messages goes through three steps. *Call*: it is checked and joins a unit of work; what it puts is
pending, what it gets is out of sight. *Freeze*: `commit` or `backout` turns the unit into rows, once. *Settle*: when
the rows are durable, or could not be made so, `settle` lets all of the unit take effect at once and returns what
follows from it. The caller sees to it that units settle in the order in which they were frozen (journal rule 3).

Nothing here awaits or reads a clock: `now` is the wall clock in seconds, `tick` the monotonic one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgpack

from broker.core import getting, opening, putting
from broker.core import unit as units
from broker.core.definitions import Define, Definition, Delete
from broker.core.effects import Effects, Grant
from broker.core.entry import AVAILABLE, Entry
from broker.core.handles import Handle, Hconn
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
    from collections.abc import Iterable

    from broker.core.definitions import Change
    from broker.core.selection import Request
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor, ObjectDescriptor, PutMessageOptions

_SYNCPOINT = MQPMO.SYNCPOINT.value
_OPEN_FAIL_IF_QUIESCING = MQOO.FAIL_IF_QUIESCING.value
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
        self.quiescing = False
        self.unit_bytes_max = 64 * 1024 * 1024
        self._configure(definition)

    def _configure(self, definition: Definition) -> None:
        self.definition = definition
        self.definitions["QMGR", self.name] = definition
        self.max_length = int(definition.attributes["MAXMSGL"])
        self.max_calls = int(definition.attributes["MAXUMSGS"])
        self.max_handles = int(definition.attributes["MAXHANDS"])
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

    def close(self, hconn: Hconn, hobj: int, tick: float) -> Effects:
        """MQCLOSE. Gets that wait on the handle end with HOBJ_ERROR (2019)."""
        handle = hconn.handle(hobj)
        effects = Effects()
        self._end_waits(handle.waiting, MQRC.HOBJ_ERROR, effects)
        del hconn.handles[hobj]
        if handle.queue is not None:
            opening.close_queue(handle, handle.queue)
            if handle.removes and not handle.queue.deleted:
                self.triggers.last_input_closed(handle.queue, tick)
        return effects

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
        queue: LocalQueue,
        md: MessageDescriptor | None,
        pmo: PutMessageOptions,
        data: bytes,
        now: float,
        tick: float,
    ) -> tuple[Entry, Unit | None, int]:
        """MQPUT: the entry, the implicit unit to freeze (None under syncpoint), and the reason of a warning."""
        options = int(pmo.options)
        md = md or putting.default_descriptor()
        if self.quiescing and options & _PUT_FAIL_IF_QUIESCING:
            raise MQError(MQRC.Q_MGR_QUIESCING, f"{self.name} is quiescing")
        if queue.depth >= queue.max_depth:
            self.expire(queue, now)
        putting.check_put_call(queue, md, options, len(data), self.max_length)
        implicit = not options & _SYNCPOINT
        unit = Unit() if implicit else hconn.unit or Unit()
        getting.check_room(unit, self.max_calls)
        if unit.bytes + len(data) > self.unit_bytes_max and not implicit:
            raise MQError(MQRC.STORAGE_NOT_AVAILABLE, f"the unit of work holds {unit.bytes} bytes, its limit is near")
        entry, reason = putting.complete(queue, hconn, self.ids, md, options, data, now)
        queue.place(entry, unit)
        unit.puts.append(entry)
        unit.bytes += len(data)
        if self.triggers.meets_first(queue, entry, tick):
            unit.firsts.append(queue)
        if implicit:
            return entry, unit, reason
        hconn.unit = unit
        return entry, None, reason

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
        if queue.get_inhibited:
            raise MQError(MQRC.GET_INHIBITED, f"{queue.name} has GET(DISABLED)")
        entry = getting.under_cursor(handle, queue, gmo, now)
        if entry is None:
            expired: list[Entry] = []
            entry = choose(queue.candidates(request), request, now, expired)
            self._discard(expired)
        if entry is not None:
            return getting.grant(handle, queue, request, entry, self.max_calls)
        if getting.waits(gmo):
            return request
        raise MQError(MQRC.NO_MSG_AVAILABLE, f"no suitable message on {queue.name}")

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
        del unit.gets[entry]
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
            if not waiter.request.matches(entry):
                continue
            if entry.expired(now):
                self._discard((entry,))
                break
            served.append(waiter)
            try:
                grant = getting.grant(waiter.handle, queue, waiter.request, entry, self.max_calls)
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
            unit.gets[entry] = None
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


def _key(entry: Entry) -> int:
    return entry.key


def _trigger_attributes(queue: LocalQueue) -> tuple[object, ...]:
    return (
        queue.trigger_on, queue.trigger_type, queue.trigger_priority, queue.process_name, queue.initiation_q_name,
    )  # fmt: skip
