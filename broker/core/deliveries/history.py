"""The history of a queue: a record of what has become of each message under its handler (transactions rule 6.1).

A record is a put of the unit of work that ends the message: the commit of what its handler has done, its dead letter,
or its removal when it is expired after an attempt. So there is one record of a message that has gone, and none of one
that is there still. One that cannot be put changes nothing else: it is counted (`history_lost`).

Where a group is one delivery, and a logical message one in segments, it is recorded once, by its first MsgId. A record
never has anything of a body.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from itertools import repeat
from math import ceil
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from broker.core.calls.puts import sending
from broker.core.deliveries import dead_lettering
from broker.core.deliveries.failures import TEXT_MAX, failure_of
from broker.core.deliveries.order import WHOLE_QUEUE
from broker.core.message.entry import ExpiringEntry
from broker.core.message.handling import HistoryPlan
from broker.core.message.put_time import put_at
from broker.core.message.stepped import steps_of
from broker.mqi.constants.descriptor import MQAT, MQENC, MQFB, MQFMT, MQMT, UTF_8
from broker.mqi.delivery_fields import HISTORY_VALUE_MAX, NOT_RETURNED, SECONDS_MAX
from broker.mqi.errors import MQError
from broker.mqi.history import is_json
from broker.mqi.layouts.packing import pack_md
from broker.mqi.reasons import MQRC
from broker.mqi.structures import MessageDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.deliveries.counts import HandlerCounts
    from broker.core.deliveries.delivery import Delivery
    from broker.core.deliveries.steps import DoneEnd, PutRecord, Step
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.message.rows import Rows
    from broker.core.moment import Moment
    from broker.core.names.routes import Route
    from broker.core.queues.message_queue import MessageQueue
    from broker.core.queues.unit import Unit
    from broker.mqi.delivery_fields import Returned, ServiceOptions

_ENDINGS: Final = {"rejected": "rejected", "unreadable": "unreadable"}
"""The outcomes of dead letters by why they are; all others are `dead_lettered`."""

_EXPIRED: Final = int(MQFB.EXPIRATION)
_PLACES_MAX: Final = 1000
_LENGTH: Final = attrgetter("length")
_MICRO: Final = 1_000_000

_text: Final = json.JSONEncoder(ensure_ascii=False).encode


class History:
    """Puts the records of the queues of a queue manager."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._places: dict[tuple[str, str, str, str], RecordPlace] = {}  # by history, queue, handler and worker
        self._places_at = -1  # `changes` of the objects when they were found
        self._tick = -1  # the hundredth of a second in which records have the descriptor `_packed_md`
        self._packed_md = b""
        self._moment: Moment | None = None  # of the records made last, which have it as the text `_ended`
        self._ended = ""

    def check(self, queue: MessageQueue, options: ServiceOptions) -> None:
        """Raise why what becomes of the messages of a queue cannot be recorded: OPTION_NOT_VALID_FOR_TYPE (2045) for a
        shared queue, OPTIONS_ERROR (2046) for options that say nothing.
        """
        if queue.shared:
            raise MQError(
                MQRC.OPTION_NOT_VALID_FOR_TYPE,
                f"{queue.name} is a shared queue, and has no history: its messages end in the database of the group, "
                "and a record of that would not be in the same unit of work",
            )
        if options.history == queue.name:
            raise MQError(MQRC.OPTIONS_ERROR, f"{queue.name} cannot be its own history")
        if not 0 < options.history_span <= SECONDS_MAX:
            raise MQError(
                MQRC.OPTIONS_ERROR, f"history_span={options.history_span}: seconds, above 0 and at most ten years"
            )
        if not 0 <= options.history_value <= HISTORY_VALUE_MAX:
            raise MQError(MQRC.OPTIONS_ERROR, f"history_value={options.history_value}: 0 to {HISTORY_VALUE_MAX} bytes")

    # What is recorded

    def succeeded(self, ends: Iterable[DoneEnd], rows: Rows, moment: Moment) -> None:
        """Record that handlers are done with the messages of deliveries, which `rows` commit together. The records join
        the first of their units: nobody has written it yet.
        """
        made: dict[RecordPlace, list[Entry]] = {}
        ended, first, service = self._begin(moment), None, None
        for delivery, settlement, step in ends:
            if first is None:
                first, worker = step, delivery.worker.name  # who ends several is one
            if service is not delivery.service:
                service, options = delivery.service, delivery.service.options
                try:
                    place = self._place(options.history, service.queue.name, options.handler, worker)
                    records = made.setdefault(place, [])
                    refusal = None
                except MQError as error:
                    refusal = error
            entries, ran = step.entries, settlement.ran
            if delivery.parts is not None or options.groups:
                entries = list(delivery.leads(entries))
            if refusal is not None:
                self._lost(service.counts, service.queue.name, options.history, refusal, len(entries))
                continue
            value = "" if options.batch > 1 else _value(settlement.value, options.history_value)
            key = None if delivery.order_value is None else _key(delivery.order_value)
            for entry in entries:
                body = _body("succeeded", entry.backout_count + 1, entry, moment.wall - ran, ended, ran, key)
                data = f"{place.head}{body}{value}}}".encode()
                records.append(self._record(place, options.history_span, entry, data, moment.wall))
        if first is not None:
            put: list[PutRecord] = []
            first.records = put
            self._put(made, first.unit, put, moment)
            rows.inserts += [record.row() for record, _ in put if record.persistence]

    def plan(self, delivery: Delivery, entries: Iterable[Entry], ran: float | None, moment: Moment) -> None:
        """An attempt has come to nothing: keep with its messages what the record of their end needs. Without `ran` it
        has not begun.
        """
        options = delivery.service.options
        for entry in delivery.leads(list(entries)):
            failure = failure_of(entry)
            before = failure.history
            if ran is not None:
                began = moment.wall - ran
                failure.handler, failure.worker = options.handler[:TEXT_MAX], delivery.worker.name
            else:
                began, ran = (0.0, 0.0) if before is None else (before.began, before.ran)
            key = _key(delivery.order_value)
            failure.history = HistoryPlan(options.history, options.history_span, began, ran, key)

    def dead_lettered(self, entry: Entry, unit: Unit, moment: Moment) -> list[PutRecord]:
        """Record with the dead letter that a message, which has a plan for that, has become one. Return the record."""
        why = failure_of(entry).why
        reason = dead_lettering.reason_of(failure_of(entry))
        return self._failed(entry, _ENDINGS.get(why, "dead_lettered"), reason, unit, moment)

    def expired(self, entries: Iterable[Entry], unit: Unit, moment: Moment) -> None:
        """Record with their removal that messages have expired after an attempt."""
        for entry in entries:
            self._failed(entry, "expired", _EXPIRED, unit, moment)

    def leave_out(self, step: Step, error: Exception) -> Rows:
        """Take the records out of a step that puts nothing else, and that the store has no room for. Return the rows of
        what is left, and of the ends that are written with it: they need none.
        """
        for record, place in step.records:
            record.queue.withdraw(record)
            self._lost(place.counts, place.q_name, place.queue.name, error)
        step.unit.puts, step.records = [], ()
        return replace(step.rows, inserts=[])

    def _failed(self, entry: Entry, outcome: str, reason: int, unit: Unit, moment: Moment) -> list[PutRecord]:
        failure = failure_of(entry)
        plan, q_name = failure.history, entry.queue.name
        if plan is None:
            return []
        try:
            place = self._place(plan.q_name, q_name, failure.handler, failure.worker)
        except MQError as refusal:
            self._lost(self._manager.deliveries.counts_of(q_name, failure.handler), q_name, plan.q_name, refusal)
            return []
        ended, attempts = self._begin(moment), max(entry.backout_count, 1)
        body = _body(outcome, attempts, entry, plan.began, ended, plan.ran, plan.key)
        why = f',"why":{_text(failure.why)},"reason":{reason}'
        error = f',"exception":{_text(failure.exception)},"error":{_text(failure.error)}'
        data = f"{place.head}{body}{why}{error}}}".encode()
        put: list[PutRecord] = []
        self._put({place: [self._record(place, plan.span, entry, data, moment.wall)]}, unit, put, moment)
        return put

    # How it is put

    def _record(self, place: RecordPlace, span: float, of: Entry, data: bytes, now: float) -> Entry:
        """Make the record of a message."""
        entry = ExpiringEntry(place.queue, self._manager.ids.next(), place.rank, data, len(data))
        entry.correl_id, entry.persistence = of.msg_id, of.persistence
        deadline = ceil(now + span)
        if deadline != place.deadline:
            place.deadline = float(deadline)
        entry.deadline = place.deadline  # one object for all of a second
        entry.packed_md = self._packed_md
        return entry

    def _put(self, made: dict[RecordPlace, list[Entry]], unit: Unit, put: list[PutRecord], moment: Moment) -> None:
        """Put records into a unit, and tell which; where that cannot be, count them."""
        for place, records in made.items():
            queue = place.queue
            plain = place.open and not (queue.deleted or queue.trigger_on or self._manager.events.counting)
            room = queue.max_depth - queue.depth
            if plain and len(records) <= room and max(map(_LENGTH, records)) <= place.length_max:
                size = sum(map(_LENGTH, records))
                queue.place_all(records, unit, size)
                queue.counts.put(len(records), size, moment.wall)
                unit.puts += records
                put += zip(records, repeat(place), strict=False)
            else:
                for record in records:
                    if self._put_one(place, record, unit, moment):
                        put.append((record, place))

    def _put_one(self, place: RecordPlace, record: Entry, unit: Unit, moment: Moment) -> bool:
        try:
            sending.join(self._manager, place.route, record, unit, moment)
        except MQError as error:
            self._lost(place.counts, place.q_name, place.queue.name, error)
            return False
        return True

    def _lost(self, counts: HandlerCounts, q_name: str, history: str, error: Exception, number: int = 1) -> None:
        counts.history_lost += number
        self._manager.effects.unrecorded[q_name] = history, error

    def _place(self, history: str, q_name: str, handler: str, worker: str) -> RecordPlace:
        """Where the records of a handler go. Raises why none can be put there."""
        objects = self._manager.objects
        if self._places_at != objects.changes or len(self._places) > _PLACES_MAX:
            self._places.clear()
            self._places_at = objects.changes
        found = self._places.get((history, q_name, handler, worker))
        if found is None:
            route = objects.destination(history, "")
            if route.remote or route.queue.shared:
                raise not_own(history)
            head = f'{{"queue":{_text(q_name)},"handler":{_text(handler)},"worker":{_text(worker)}'
            counts = self._manager.deliveries.counts_of(q_name, handler)
            found = RecordPlace(route, self._manager.max_length, q_name, counts, head)
            self._places[history, q_name, handler, worker] = found
        return found

    def _begin(self, moment: Moment) -> str:
        """Records of this moment are made: what all of them have. Return its text."""
        if moment is not self._moment:
            self._moment, self._ended = moment, _instant(moment.wall)
            if int(moment.wall * 100) != self._tick:
                self._describe(moment.wall)
        return self._ended

    def _describe(self, now: float) -> None:
        """Make the packed descriptor of the records of this hundredth of a second."""
        ids = self._manager.ids
        put_date, put_time = ids.stamp(now)
        md = MessageDescriptor(
            msg_type=MQMT.DATAGRAM.value,
            encoding=MQENC.NATIVE.value,
            coded_char_set_id=UTF_8,
            format=MQFMT.STRING.value,
            put_appl_type=MQAT.QMGR.value,
            put_appl_name=ids.q_mgr_name[:28],
            put_date=put_date,
            put_time=put_time,
        )
        self._tick, self._packed_md = int(now * 100), pack_md(md)


class RecordPlace:
    """Where the records of a handler go, and what all of them have: `q_name`, whose messages they are of, the `counts`
    of the handler, the `head` of their text, `deadline` of the one made last. While it is `open` records of up
    to `length_max` bytes need no further checks, but that there is room. All as the definitions are now.
    """

    __slots__ = ("counts", "deadline", "head", "length_max", "open", "q_name", "queue", "rank", "route")

    def __init__(self, route: Route, length_max: int, q_name: str, counts: HandlerCounts, head: str) -> None:
        queue = route.queue
        self.route = route
        self.queue = queue
        self.rank = queue.rank(0)
        self.length_max = min(length_max, queue.max_length)
        self.open = not (queue.refuses_persistent or any(level.put_inhibited for level in route.levels))
        self.deadline = 0.0
        self.q_name, self.counts, self.head = q_name, counts, head


def not_own(q_name: str) -> MQError:
    """OPTION_NOT_VALID_FOR_TYPE (2045) for a history that would lie elsewhere than the messages that it is of."""
    return MQError(
        MQRC.OPTION_NOT_VALID_FOR_TYPE,
        f"{q_name} is no local queue of the queue manager's own: the records of a history are put in the units of work "
        "that end its messages",
    )


def _body(outcome: str, attempts: int, entry: Entry, began: float, ended: str, ran: float, key: object) -> str:
    """The fields that all records have, behind their head."""
    put, put_text = _put_of(entry.packed_md)
    if began:
        waited = "null" if not put else f"{began - put:.6f}" if began > put else "0.000000"
        at = round(began * _MICRO)
        times = f'"began":{at // _MICRO}.{at % _MICRO:06d},"ended":{ended},"waited":{waited},"ran":{ran:.6f}'
    else:
        times = f'"began":null,"ended":{ended},"waited":null,"ran":null'
    more = "" if key is None else f',"key":{_text(key)}'
    if entry.handling is not None and (steps := steps_of(entry)) is not None and steps.values:
        more = f'{more},"steps":{_text(list(steps.values))}'
    return f',"outcome":"{outcome}","attempts":{attempts},"put":{put_text},{times}{more}'


def _instant(seconds: float) -> str:
    """As `.6f` has it, which takes thrice as long for so large a number."""
    at = round(seconds * _MICRO)
    return f"{at // _MICRO}.{at % _MICRO:06d}"


@lru_cache(maxsize=1024)  # messages that were put within a hundredth of a second share it
def _put_of(packed_md: bytes) -> tuple[float, str]:
    """The time of the put, as `put_at` has it, and its text."""
    put = put_at(packed_md)
    return put, f"{put:.2f}" if put else "null"


def _value(returned: Returned, longest: int) -> str:
    """The field of what the handler has returned. The JSON of it is the worker's: one that is none is told as such."""
    if returned is NOT_RETURNED:
        return ""
    data = returned.json
    if data and len(data) <= longest:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return ""
        return f',"value":{text}' if is_json(text) else ""
    if returned == NOT_RETURNED:
        return ""
    length = len(returned.json) or returned.length
    return f',"value_type":{_text(returned.type)},"value_length":{length}'


def _key(value: object) -> str | int | float | bool | None:
    """The value that orders a message, as a record has it; None for a message that is its own key, and for a queue
    whose messages are all of one.
    """
    if type(value) is int or value == WHOLE_QUEUE:
        return None
    if isinstance(value, tuple):
        value = value[1]
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, str | int | float | bool) else None
