"""The queue manager's state, and every step that changes it.

A call that changes messages goes through three steps. *Call*: it is checked and joins a unit of work; what it puts is
pending, what it gets is out of sight. *Freeze*: `commit` or `backout` turns the unit into rows, once. *Settle*: when
the rows are durable, or could not be made so, `settle` lets all of the unit take effect at once and returns what
follows from it. The caller sees to it that units settle in the order in which they were frozen (journal rule 3).

Nothing here awaits or reads a clock: `now` is the wall clock in seconds, `tick` the monotonic one, a `Moment` both.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import msgpack

from broker.core import (
    defining,
    dispatch,
    distribution,
    dynamic,
    getting,
    granting,
    locking,
    opening,
    putting,
    reports,
    sending,
)
from broker.core import unit as units
from broker.core.definitions import Define, Definition, Delete
from broker.core.distribution import DistributionList
from broker.core.effects import Effects, Grant
from broker.core.entry import AVAILABLE, LOCKED, Entry
from broker.core.events import Events
from broker.core.granting import check_room
from broker.core.handles import CO_OPERATING, Handle, Hconn
from broker.core.identifiers import Identifiers
from broker.core.locking import OwnLocks
from broker.core.logical_order import CLOSED
from broker.core.options import check_open
from broker.core.put_template import PutTemplate, leaves_template
from broker.core.resolution import resolve, unknown
from broker.core.routes import Route
from broker.core.rows import ObjectRow, Rows
from broker.core.selection import EXPIRED_AT_ONCE, choose
from broker.core.triggering import Triggers
from broker.core.unit import Unit
from broker.core.views import LOOKS_AT_ONCE, Search
from broker.core.waiters import Waiter
from broker.mqi import checks
from broker.mqi.errors import MQError
from broker.mqi.objects import MQOT
from broker.mqi.options import MQOO, MQPMO
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from broker.core.definitions import Change
    from broker.core.generated import Lost
    from broker.core.indirect_queue import IndirectQueue
    from broker.core.message_queue import MessageQueue
    from broker.core.moment import Moment
    from broker.core.putting import Prepared, Put
    from broker.core.queue import LocalQueue
    from broker.core.resolution import Resolution
    from broker.core.selection import Request
    from broker.core.shelf import Shelf
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor, ObjectDescriptor

_EXPIRED_A_STEP = 50
_SYNCPOINT = MQPMO.SYNCPOINT.value
_OPEN_FAIL_IF_QUIESCING = MQOO.FAIL_IF_QUIESCING.value
INSTANCE = "INSTANCE"
"""The attribute of the queue manager's definition that tells its identifiers from those of others (`Identifiers`). No
command knows it. A queue manager that was created without one goes on as if it were 0.
"""
_NO_MSG_LOCKED = int(MQRC.NO_MSG_LOCKED)
_TRUNCATED_FAILED = int(MQRC.TRUNCATED_MSG_FAILED)
_SPACES = {MQOT.Q.value: "QUEUE", MQOT.PROCESS.value: "PROCESS", MQOT.Q_MGR.value: "QMGR"}
_QUEUE = MQOT.Q.value
_OUTPUT = MQOO.OUTPUT.value
_INQUIRE_ONLY = (MQOO.INQUIRE | MQOO.FAIL_IF_QUIESCING).value


class Manager:
    """All that a queue manager knows, but for what is on disk."""

    def __init__(self, definition: Definition, now: float, high_water: int = 0) -> None:
        self.name = definition.name
        self.definitions: dict[tuple[str, str], Definition] = {}  # in the store, all but temporary dynamic queues
        self.queues: dict[str, LocalQueue] = {}
        self.indirect_queues: dict[str, IndirectQueue] = {}
        self.processes: dict[str, Definition] = {}
        self._leaving: dict[str, LocalQueue] = {}  # deleted dynamic queues that are still open or have open units
        self.ids = Identifiers(self.name, now, high_water, int(definition.attributes["CCSID"]))
        self.triggers = Triggers(self.name, self.processes)
        self.events = Events(self.ids)
        self.expired: list[Entry] = []  # discarded; the engine removes the persistent ones from the store
        self.lost: list[Lost] = []  # letters that could not even be put to the dead-letter queue; the engine logs them
        self.to_offer: list[
            Entry
        ] = []  # no longer locked, or no longer behind another: to be offered to those who wait
        self.quiescing = False
        self.changes = 0  # of definitions: what was found out about one may not hold any more
        self.unit_bytes_max = 64 * 1024 * 1024
        self.configure(definition)

    def configure(self, definition: Definition) -> None:
        """Take over the attributes of the queue manager itself."""
        self.definition = definition
        self.ids.coded_char_set_id = int(definition.attributes["CCSID"])
        self.max_length = int(definition.attributes["MAXMSGL"])
        self.max_properties = int(definition.attributes["MAXPROPL"])
        self.max_calls = int(definition.attributes["MAXUMSGS"])
        self.max_handles = int(definition.attributes["MAXHANDS"])
        self.mark_seconds = _mark_seconds(int(definition.attributes["MARKINT"]))
        self.triggers.interval_ms = int(definition.attributes["TRIGINT"])
        self.events.configure(definition)
        self.ids.belong_to(int(definition.attributes.get(INSTANCE, 0)))

    # Handles

    def open(self, hconn: Hconn, od: ObjectDescriptor, options: int) -> Handle:
        """MQOPEN. Raises OPTIONS_ERROR (2046), UNKNOWN_OBJECT_NAME (2085), OBJECT_IN_USE (2042) and others."""
        self._check_open(hconn, options)
        if od.records:
            return distribution.open_list(self, hconn, od, options)
        space = _SPACES.get(int(od.object_type))
        if space is None:
            raise MQError(MQRC.OBJECT_TYPE_ERROR, f"object_type={od.object_type}: a queue, process or queue manager")
        if space == "QUEUE":
            found = resolve(self.definitions, self.definition, od.object_name, od.object_q_mgr_name)
            opening.check_options(od.object_name, found, options)
            return opening.open_queue(hconn, od.object_name, self.route(found), options, od.selection_string)
        if od.object_q_mgr_name not in ("", self.name):
            raise MQError(MQRC.UNKNOWN_OBJECT_Q_MGR, f"{od.object_q_mgr_name} is not this queue manager, {self.name}")
        if od.selection_string:
            raise MQError(MQRC.SELECTOR_INVALID_FOR_TYPE, f"a selector is for queues, not for a {space.lower()}")
        name = self.name if space == "QMGR" else od.object_name
        if space != "QMGR" and (space, name) not in self.definitions:
            raise MQError(MQRC.UNKNOWN_OBJECT_NAME, unknown(self.definitions, self.name, name, space))
        if options & ~_INQUIRE_ONLY:
            raise MQError(MQRC.OPTION_NOT_VALID_FOR_TYPE, f"{name}: a {space.lower()} can only be opened for INQUIRE")
        handle = Handle(hconn, space, name, options, None)
        hconn.add(handle)
        return handle

    def _check_open(self, hconn: Hconn, options: int) -> None:
        check_open(options)
        if self.quiescing and options & _OPEN_FAIL_IF_QUIESCING:
            raise MQError(MQRC.Q_MGR_QUIESCING, f"{self.name} is quiescing")
        if hconn.handle_count >= self.max_handles:
            raise MQError(MQRC.HANDLE_NOT_AVAILABLE, f"{hconn.handle_count} handles are open, MAXHANDS of {self.name}")

    def close(self, hconn: Hconn, hobj: int, tick: float) -> tuple[int, Effects]:
        """MQCLOSE. The reason is 0, or INCOMPLETE_MSG (2242) or INCOMPLETE_GROUP (2241) as a warning (semantics 3.5).

        Gets that wait on the handle end with HOBJ_ERROR (2019).
        """
        handle = hconn.handle(hobj)
        effects = Effects()
        del hconn.handles[hobj]
        if not isinstance(handle, DistributionList):
            return self._close(handle, tick, effects), effects
        reasons = [self._close(each, tick, effects) for each in handle.opened]
        hconn.in_lists -= len(reasons) - 1
        return next(filter(None, reasons), 0), effects

    def _close(self, handle: Handle, tick: float, effects: Effects) -> int:
        self.end_waits(handle.waiting, MQRC.HOBJ_ERROR, effects)
        queue = handle.queue
        if queue is not None:
            opening.close_queue(handle, queue)
            locking.unlock(handle, self.to_offer)
            if queue.creator is handle and not queue.deleted:
                defining.delete(self, Delete("QUEUE", queue.name), effects)
            elif handle.removes and not queue.deleted:
                self.triggers.last_input_closed(queue, tick)
        stands = handle.position
        unfinished = (position.unfinished for position in (stands.last_put, stands.last_get) if position.logical)
        return next(filter(None, unfinished), 0)

    def destination(self, q_name: str, q_mgr_name: str) -> Route:
        """The way that a message of the queue manager's own for this queue takes; raises UNKNOWN_OBJECT_NAME (2085),
        UNKNOWN_REMOTE_Q_MGR (2087), Q_TYPE_ERROR (2057) and others.
        """
        found = resolve(self.definitions, self.definition, q_name, q_mgr_name)
        opening.check_options(q_name, found, _OUTPUT)
        return self.route(found)

    def opens_model(self, od: ObjectDescriptor) -> bool:
        """Whether this is the name of a model queue, so that MQOPEN makes a dynamic queue first (`make_dynamic`)."""
        found = self.definitions.get(("QUEUE", od.object_name))
        here = od.object_q_mgr_name in ("", self.name) and not od.records
        return here and int(od.object_type) == _QUEUE and found is not None and found.kind == "QMODEL"

    def make_dynamic(self, hconn: Hconn, od: ObjectDescriptor, options: int, now: float) -> Define:
        """The dynamic queue that MQOPEN makes of a model queue: to be defined, then opened with `open_dynamic`.

        Raises DYNAMIC_Q_NAME_ERROR (2011), OBJECT_ALREADY_EXISTS (2100), NAME_IN_USE (2201), and what `open` would.
        """
        self._check_open(hconn, options)
        model = self.definitions.get(("QUEUE", od.object_name))
        if model is None or model.kind != "QMODEL":
            raise MQError(MQRC.UNKNOWN_OBJECT_NAME, f"{self.name} has no model queue {od.object_name!r} any more")
        name = dynamic.name_for(od.dynamic_q_name, self.ids)
        if ("QUEUE", name) in self.definitions:
            raise MQError(MQRC.OBJECT_ALREADY_EXISTS, f"there is a queue {name} already")
        if od.selection_string:
            opening.selector_of(Handle(hconn, "QUEUE", name, options, None), od.selection_string)
        left = self._leaving.get(name)
        if left is not None and (left.handles or left.uncommitted):
            raise MQError(MQRC.NAME_IN_USE, f"the dynamic queue {name} was deleted, but is still open somewhere")
        return Define(dynamic.definition_of(model, name, now))

    def open_dynamic(self, hconn: Hconn, od: ObjectDescriptor, name: str, options: int) -> Handle:
        """Open the dynamic queue just made. If it is a temporary one it ends with this handle."""
        queue = self.queues[name]
        resolution = resolve(self.definitions, self.definition, name, "")
        handle = opening.open_queue(hconn, name, self.route(resolution), options, od.selection_string)
        if queue.temporary:
            queue.creator = handle
        return handle

    def default_routes(self) -> list[Handle]:
        """The open handles whose messages go by the default transmission queue."""
        queue = self.queues.get(str(self.definition.attributes["DEFXMITQ"]))
        handles = queue.handles if queue is not None else ()
        return [handle for handle in handles if handle.route is not None and handle.route.by_default]

    def keep_name_of(self, queue: LocalQueue) -> None:
        """A queue was deleted: while it is open or units of work on it are unfinished, no dynamic queue takes its
        name.
        """
        if queue.handles or queue.uncommitted:
            self._leaving = {name: left for name, left in self._leaving.items() if left.handles or left.uncommitted}
            self._leaving[queue.name] = queue

    def route(self, found: Resolution) -> Route:
        """The way that a name leads."""
        levels = [self.indirect_queues.get(name) or self.queues[name] for name in found.path]
        return Route(levels, found)

    def queue(self, name: str) -> LocalQueue:
        """The local queue of that name; raises UNKNOWN_OBJECT_NAME (2085)."""
        try:
            return self.queues[name]
        except KeyError:
            raise MQError(MQRC.UNKNOWN_OBJECT_NAME, unknown(self.definitions, self.name, name)) from None

    # Messages

    def put(self, put: Put, moment: Moment, implicit: Unit | None = None) -> tuple[Entry, Unit | None, int]:
        """MQPUT, or MQPUT1: the entry (the first, of a message that was cut, and as it will be at its destination), the
        implicit unit to freeze (None under syncpoint), and the reason of a warning.

        Outside syncpoint the message becomes part of `implicit`, of a call that puts several, or of a unit of its own;
        under syncpoint of that of the connection, which it begins if there was none. Raises Q_FULL (2053),
        PUT_INHIBITED (2051) and others.
        """
        hconn, handle = put.hconn, put.handle
        length = len(put.data)
        template = self.template(put, length)
        if template is None:
            prepared = self._prepared(put, moment.wall)
        else:
            prepared = template.prepared(put.data, self.ids, moment.wall)
        in_unit = int(put.pmo.options) & _SYNCPOINT
        unit = (hconn.unit if in_unit else implicit) or Unit()
        if in_unit:
            check_room(unit, self.max_calls)
            self._check_bytes(unit, length)
        unit.calls += 1
        unit.bytes += length
        self.place(prepared.entries, unit, moment)
        if in_unit:
            hconn.enter(unit, moment.wall)
        if handle is not None and prepared.position is not None:
            unit.remember_put(handle)
            if prepared.position is not handle.position.last_put:
                handle.position = handle.position._replace(last_put=prepared.position)
        return prepared.shown, None if in_unit else unit, prepared.reason

    def template(self, put: Put, length: int) -> PutTemplate | None:
        """What completes a put of so many bytes that differs from the last one through its handle in its data alone;
        None when it differs in more.
        """
        handle = put.handle
        template = None if handle is None else handle.last_calls.template
        if handle is None or template is None or self.quiescing or handle.position.last_put is not CLOSED:
            return None
        return template if template.fits(put, length, self.changes) else None

    def _prepared(self, put: Put, now: float) -> Prepared:
        """A put that is not like the last one through its handle, once it has passed all checks of its own."""
        handle, queue = put.handle, put.route.queue
        if queue.room() <= 0:
            self.expire(queue, now)
        try:
            prepared = putting.prepare(self, put, now)
        except MQError as error:
            self.events.refused(queue, put.route.first.name, int(error.reason), put.hconn, now)
            raise
        if handle is not None:
            handle.last_calls.template = None
            if not prepared.reason and leaves_template(handle, put, prepared):
                length_max = min(queue.max_length, self.max_length)
                handle.last_calls.template = PutTemplate(handle, put, prepared, length_max, self.changes)
        return prepared

    def _check_bytes(self, unit: Unit, length: int) -> None:
        if unit.bytes + length > self.unit_bytes_max:
            raise MQError(MQRC.STORAGE_NOT_AVAILABLE, f"the unit of work holds {unit.bytes} bytes, its limit is near")

    def place(self, entries: Iterable[Entry], unit: Unit, moment: Moment) -> None:
        """Let completed messages for one queue join a unit."""
        met = False
        for entry in entries:
            queue = entry.queue
            queue.place(entry, unit)
            unit.puts.append(entry)
            self.events.put(queue, moment.wall)
            if reports.asked(entry, reports.COA):
                unit.confirm(entry, reports.COA)
            met = self.triggers.meets_first(queue, entry, moment.tick) or met
        if met:
            unit.firsts.append(queue)

    def get(
        self,
        handle: Handle,
        queue: LocalQueue,
        md: MessageDescriptor | None,
        gmo: GetMessageOptions,
        max_length: int | None,
        now: float,
    ) -> Grant | Request | Search:
        """MQGET: a grant, or the request to wait with; or what is to be done before the same call is made again. Raises
        NO_MSG_AVAILABLE (2033) and others.
        """
        request = self._request(handle, queue, md, gmo, max_length, now)
        if request.unlock:
            return Grant([], 0 if locking.unlock(handle, self.to_offer) else _NO_MSG_LOCKED)
        with OwnLocks(handle, self.to_offer) as lock:
            found = self._select(handle, queue, request, now)
            if isinstance(found, Search):
                return found
            grant = None if found is None else granting.grant(self, handle, queue, request, found, now)
            lock.release = request.browse and (grant is None or grant.reason != _TRUNCATED_FAILED)
        if grant is not None:
            return grant
        if request.may_wait:
            return request
        raise MQError(MQRC.NO_MSG_AVAILABLE, f"no suitable message on {queue.name}")

    def _request(
        self,
        handle: Handle,
        queue: LocalQueue,
        md: MessageDescriptor | None,
        gmo: GetMessageOptions,
        max_length: int | None,
        now: float,
    ) -> Request:
        """The first step of a get: a request that has passed all checks and says all that the other steps need. These
        choose a message for it (`_select`), which need not be at once, and give that to the getter (`granting.grant`).
        """
        request = getting.remembered(handle, md, gmo, max_length)
        again = request is not None
        if request is None:
            md, gmo = checks.for_get(md, gmo)
            request = getting.make_request(handle, md, gmo, max_length)
        if self.quiescing and request.fail_if_quiescing:
            raise MQError(MQRC.Q_MGR_QUIESCING, f"{self.name} is quiescing")
        if request.unlock:
            return request
        inhibited = handle.route.get_inhibited() if handle.route is not None else ""
        if inhibited:
            self.events.refused(queue, handle.name, int(MQRC.GET_INHIBITED), handle.hconn, now)
            raise MQError(MQRC.GET_INHIBITED, f"{inhibited} has GET(DISABLED)")
        if not (again or request.under_cursor):
            getting.select(request, handle, md, gmo)
            getting.remember(request, handle, md, gmo, max_length)
        return request

    def _select(self, handle: Handle, queue: LocalQueue, request: Request, now: float) -> Entry | Search | None:
        """The message that a get is given now, if there is one; or what is to be done before that is known."""
        shelf = queue.shelf
        if request.under_cursor:
            return granting.under_cursor(handle, shelf, queue.name, request, now)
        shelf.find_view(request, handle)
        entry, discarded = self._choose(queue, request, now, LOOKS_AT_ONCE if request.view is None else None)
        if entry is None and discarded >= EXPIRED_AT_ONCE:
            return Search(self.expiry((queue,), now))
        if entry is None and request.view is None:
            shelf.begin_search(request, handle)
        view = request.view
        if entry is None and view is not None and not view.complete:
            return Search(view.steps(shelf.entries, request.after))
        shelf.end_search(request, handle)
        if entry is None:
            getting.explain_none(shelf, request)
        return entry

    def choose(self, queue: LocalQueue, request: Request, now: float) -> Entry | None:
        """The message that a request may be given now; expired ones that were in its way are discarded."""
        return self._choose(queue, request, now)[0]

    def _choose(
        self, queue: LocalQueue, request: Request, now: float, looks: int | None = None
    ) -> tuple[Entry | None, int]:
        """That message, if it is among so many that are looked at, and how many were discarded: with EXPIRED_AT_ONCE
        there may be more in its way.
        """
        shelf = queue.shelf
        if request.anything:
            first = shelf.first()
            if first is None or first.deadline is None:
                return first, 0
        if request.whole:
            self.expire(queue, now)  # an expired part makes the whole incomplete
        if request.unmarked_by and CO_OPERATING in request.unmarked_by:
            queue.browse_marks.drop_old(now - self.mark_seconds)
        discarded = 0
        while True:
            expired: list[Entry] = []
            entry = choose(islice(shelf.candidates(request), looks), request, shelf, now, expired)
            parts = _expired_parts(shelf, request, entry, now)
            self.discard((*expired, *parts))
            discarded += len(expired) + len(parts)
            if not parts or discarded >= EXPIRED_AT_ONCE:
                return None if parts else entry, discarded

    # Locks and marks

    def mark_left(self, queue: LocalQueue, now: float) -> float | None:
        """How many seconds the oldest mark of the co-operating set still lasts; None when none ends."""
        made = queue.browse_marks.oldest
        return None if made is None or self.mark_seconds == float("inf") else made + self.mark_seconds - now

    def end_marks(self, queue: LocalQueue, now: float) -> None:
        """Take off the marks whose time is up; the messages are to be offered to those who wait."""
        self.to_offer += queue.browse_marks.drop_old(now - self.mark_seconds)

    def offer_again(self, now: float) -> Effects:
        """Offer what is no longer locked, or no longer behind another, to those who wait."""
        return dispatch.offer_again(self, now)

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

    def commit(self, unit: Unit, moment: Moment | None = None) -> Rows:
        """Freeze a unit for its commit: what is to be made durable. The reports it causes become part of it now, and
        only they need a `moment`; the bodies they carry must be in memory (`reports.unread`).
        """
        unit.become(units.COMMITTING)
        if unit.reports:
            assert moment is not None
            sending.send_reports(self, unit, moment)
        return unit.commit_rows()

    def backout(self, unit: Unit) -> Rows:
        """Freeze a unit for its backout: the counts that were raised."""
        unit.become(units.BACKING_OUT)
        unit.restore()
        for entry in unit.gets:
            entry.backout_count += 1
        return unit.backout_rows()

    def give_up(self, unit: Unit) -> Rows:
        """A unit of work that was frozen for its commit could not be written: freeze its backout."""
        for entry in unit.gets:
            entry.backout_count += 1
        return unit.backout_rows()

    def settle(self, unit: Unit, *, committed: bool, now: float = 0.0) -> Effects:
        """Let a frozen unit take effect, all of it in this step. Messages whose time is up at `now` are offered to
        nobody.
        """
        if not committed and unit.state == units.COMMITTING:
            unit.restore()  # as a backout does when it is asked for
        unit.become(units.COMMITTED if committed else units.BACKED_OUT)
        if committed:
            for entry in unit.gets:
                entry.queue.remove(entry)
            for queue, entries in _runs(unit.puts):
                self._arrive(queue, entries)
        else:
            for entry in unit.puts:
                entry.queue.withdraw(entry)
            for entry in unit.gets:
                self._reinstate(entry)
        effects = dispatch.offer(self, unit.puts if committed else unit.gets, now)
        for queue in unit.firsts:
            self.triggers.fire_first(queue)
        return effects

    def give_back(self, entry: Entry, now: float = 0.0) -> Effects:
        """A get under syncpoint whose answer nobody took: the message leaves its unit, back to its place."""
        unit = entry.unit
        if unit is None or unit.state != units.ACTIVE or entry not in unit.gets:
            return Effects()
        unit.forget(entry)
        self._reinstate(entry)
        return dispatch.offer(self, (entry,), now)

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

    def _arrive(self, queue: MessageQueue, entries: Sequence[Entry]) -> None:
        if queue.deleted:
            for entry in entries:
                queue.withdraw(entry)
        else:
            queue.arrive(entries)
            self.triggers.arrived(queue, entries)

    def _reinstate(self, entry: Entry) -> None:
        if entry.queue.deleted:
            entry.queue.remove(entry)
        else:
            entry.queue.reinstate(entry)

    # Expiry (semantics 12.1)

    def expire(self, queue: LocalQueue, now: float) -> None:
        """Discard available messages whose time is up: all, or EXPIRED_AT_ONCE of them. A queue that is being deleted
        takes its own with it.
        """
        if not queue.deleted:
            self.discard(list(islice(queue.shelf.overdue(now), EXPIRED_AT_ONCE)))

    def expiry(self, queues: Iterable[LocalQueue], now: float) -> Iterator[None]:
        """Discard all of them, on these queues, a few in each step."""
        for queue in queues:
            while not queue.deleted and queue.shelf.is_overdue(now):
                self.discard(list(islice(queue.shelf.overdue(now), _EXPIRED_A_STEP)))
                yield

    def discard(self, expired: Iterable[Entry]) -> None:
        """Take expired messages off their queues, and note them for whoever writes that."""
        for entry in expired:
            entry.queue.discard(entry)
            self.expired.append(entry)

    # Definitions

    def freeze(self, change: Change) -> tuple[Change, Rows]:
        """What a change of definitions writes, and the change to apply when that is durable. (Clear is a unit.)"""
        if isinstance(change, Delete):
            queue = self.queues.get(change.name) if change.space == "QUEUE" else None
            gone = [entry.id for entry in queue.shelf.entries.values() if entry.persistence] if queue else []
            return change, Rows(removals=gone, dropped=[(change.space, change.name)])
        assert isinstance(change, Define)
        definition = change.definition
        queue = self.queues.get(definition.name) if definition.space == "QUEUE" else None
        change = replace(change, number=queue.number if queue else self.ids.next(), alters=queue is not None)
        if dynamic.is_temporary(definition):
            return change, Rows()
        before = self.definitions.get((definition.space, definition.name))
        if before is not None and before.same_as(definition):  # as at each start with the same script
            return replace(change, definition=before), Rows()
        attributes: bytes = msgpack.packb(definition.attributes)
        row = ObjectRow(definition.space, definition.name, change.number, definition.kind, attributes)
        return change, Rows(objects=[row])

    def apply(self, change: Change) -> Effects:
        """Let a change of definitions take effect, now that it is durable."""
        self.changes += 1
        effects = Effects()
        if isinstance(change, Define):
            defining.define(self, change, effects)
        elif isinstance(change, Delete):
            defining.delete(self, change, effects)
        else:
            self.triggers.count(self.queues[change.name], 0)
        return effects

    def load_object(self, row: ObjectRow) -> None:
        """A definition as the store kept it."""
        attributes = msgpack.unpackb(row.attributes)
        defining.define(self, Define(Definition(row.kind, row.name, attributes), row.number), Effects())

    def start_triggers(self) -> None:
        """Everything is loaded: rebuild the trigger counts (R-12)."""
        for queue in self.queues.values():
            self.triggers.recount(queue)

    def clear(self, queue: LocalQueue, count: int) -> Unit:
        """A unit, not frozen yet, that removes the first available messages of the queue: at most `count`."""
        unit = Unit()
        for entry in queue.shelf.heads(count):
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
            self.end_waits(asked, MQRC.Q_MGR_QUIESCING, effects)
        return effects

    def nonpersistent_rows(self) -> Rows:
        """The nonpersistent messages that an orderly stop keeps: those of queues with NPMCLASS(HIGH)."""
        keeping = [queue for queue in self.queues.values() if queue.keeps_nonpersistent]
        entries = (entry for queue in keeping for entry in queue.shelf.entries.values())
        return Rows(inserts=[entry.row() for entry in entries if not entry.persistence and entry.state == AVAILABLE])

    def end_waits(self, waiters: Iterable[Waiter], reason: MQRC, effects: Effects) -> None:
        """These gets wait no longer: they end with a reason."""
        for waiter in list(waiters):
            effects.ended.append((waiter, int(reason)))
            self.stop_waiting(waiter)

    def check_invariants(self) -> None:
        """Raise AssertionError when a structure is broken. For tests."""
        for indirect in self.indirect_queues.values():
            assert all(handle.route and indirect in handle.route.levels for handle in indirect.handles)
        for queue in self.queues.values():
            queue.check_invariants()
            assert all(handle.route and handle.route.queue is queue for handle in queue.handles)
            assert queue.input_count == sum(handle.removes for handle in queue.handles)
            assert queue.output_count == sum(handle.puts for handle in queue.handles)
            assert queue.pending_starts >= 0
            assert (queue in self.triggers.pending()) == self.triggers.startable(queue)
            for entry in queue.shelf.entries.values():
                assert (entry.state in (AVAILABLE, LOCKED)) == (entry.unit is None)


def _runs(entries: Sequence[Entry]) -> Iterator[tuple[MessageQueue, Sequence[Entry]]]:
    """Messages by queue, cut where one does not stand behind the one before it."""
    start = 0
    for end in range(1, len(entries) + 1):
        before = entries[end - 1]
        if end == len(entries) or entries[end].queue is not before.queue or entries[end].key < before.key:
            yield before.queue, entries[start:end]
            start = end


def _expired_parts(shelf: Shelf, request: Request, entry: Entry | None, now: float) -> list[Entry]:
    """What is expired of the whole that begins with `entry`, if the get wants a whole."""
    if entry is None or not request.whole or not shelf.is_overdue(now):
        return []
    parts = (shelf.entries[key] for key in shelf.groups.whole_with(entry, request.whole))
    return [part for part in parts if part.expired(now)]


def _mark_seconds(interval_ms: int) -> float:
    """How long a co-operative browse mark lasts; NOLIMIT is -1."""
    return float("inf") if interval_ms < 0 else interval_ms / 1000
