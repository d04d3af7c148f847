"""The history of a queue: a record of what has become of each message under its handler (transactions rule 6.1).

A record is a put of the unit of work that ends the message: the commit of what its handler has done, its dead letter,
or its removal when it is expired after an attempt. So there is one record of a message that has gone, and none of one
that is there still. One that cannot be put changes nothing else: it is counted (`history_lost`).

Where a group is one delivery, and a logical message one in segments, it is recorded once, by its first MsgId. A record
never has anything of a body.
"""

from __future__ import annotations

import json
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Final

from broker.core.calls.puts import placing, sending
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
    from collections.abc import Iterable, Sequence

    from broker.core.deliveries.counts import HandlerCounts
    from broker.core.deliveries.delivery import Delivery
    from broker.core.deliveries.steps import Ending, Step
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.message.rows import Rows
    from broker.core.moment import Moment
    from broker.core.names.routes import Route
    from broker.core.queues.message_queue import MessageQueue
    from broker.core.queues.unit import Unit
    from broker.mqi.delivery_fields import Returned, ServiceOptions, Settlement

_ENDINGS: Final = {"rejected": "rejected", "unreadable": "unreadable"}
"""The outcomes of dead letters by why they are; all others are `dead_lettered`."""

_EXPIRED: Final = int(MQFB.EXPIRATION)
_HEADS_MAX: Final = 1000
_MICRO: Final = 1_000_000

_text: Final = json.JSONEncoder(ensure_ascii=False).encode


class History:
    """Puts the records of the queues of a queue manager."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._heads: dict[tuple[str, str, str], str] = {}  # of records, by queue, handler and worker
        self._places: dict[str, RecordPlace] = {}  # by the name of a history
        self._places_at = -1  # `changes` of the objects when they were found
        self._tick = -1  # the hundredth of a second in which records have the descriptor `_packed_md`
        self._packed_md = b""

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

    def succeeded(
        self, delivery: Delivery, settlement: Settlement, entries: Sequence[Entry], unit: Unit, moment: Moment
    ) -> list[Entry]:
        """Record in the unit of a delivery that its handler is done with these messages. Return the records."""
        before = len(unit.puts)
        service, ran, returned = delivery.service, settlement.ran, settlement.value
        options = service.options
        value = "" if returned is NOT_RETURNED or options.batch > 1 else _value(returned, options.history_value)
        key = None if delivery.order_value is None else _key(delivery.order_value)
        head = self._head(entries[0].queue.name, options.handler, delivery.worker.name)
        if delivery.parts is not None or options.groups:
            entries = delivery.leads(entries)
        for entry in entries:
            body = _body("succeeded", entry.backout_count + 1, entry, moment.wall - ran, moment.wall, ran, key)
            data = f"{head}{body}{value}}}".encode()
            self._put(options.history, options.history_span, entry, data, unit, moment, service.counts)
        return unit.puts[before:]

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

    def dead_lettered(self, entry: Entry, unit: Unit, moment: Moment) -> list[Entry]:
        """Record with the dead letter that a message, which has a plan for that, has become one. Return the record."""
        before = len(unit.puts)
        why = failure_of(entry).why
        reason = dead_lettering.reason_of(failure_of(entry))
        self._failed(entry, _ENDINGS.get(why, "dead_lettered"), reason, unit, moment)
        return unit.puts[before:]

    def expired(self, entries: Iterable[Entry], unit: Unit, moment: Moment) -> None:
        """Record with their removal that messages have expired after an attempt."""
        for entry in entries:
            self._failed(entry, "expired", _EXPIRED, unit, moment)

    def leave_out(self, end: Ending, step: Step, error: Exception) -> Rows:
        """Take its records out of a step that commits, for which the store has no room. Return the rows of what is
        left: where a handler has put nothing, they need none.
        """
        first = step.entries[0]
        counts = (
            self._manager.deliveries.counts_of(first.queue.name, failure_of(first).handler)
            if end.delivery is None
            else end.delivery.service.counts
        )
        for record in step.records:
            record.queue.withdraw(record)
            step.unit.puts.remove(record)
            self._lost(counts, first.queue.name, record.queue.name, error)
        step.records = []
        return step.unit.commit_rows()

    def _failed(self, entry: Entry, outcome: str, reason: int, unit: Unit, moment: Moment) -> None:
        failure = failure_of(entry)
        plan = failure.history
        if plan is None:
            return
        body = _body(outcome, max(entry.backout_count, 1), entry, plan.began, moment.wall, plan.ran, plan.key)
        why = f',"why":{_text(failure.why)},"reason":{reason}'
        error = f',"exception":{_text(failure.exception)},"error":{_text(failure.error)}'
        data = f"{self._head(entry.queue.name, failure.handler, failure.worker)}{body}{why}{error}}}".encode()
        counts = self._manager.deliveries.counts_of(entry.queue.name, failure.handler)
        self._put(plan.q_name, plan.span, entry, data, unit, moment, counts)

    def _head(self, q_name: str, handler: str, worker: str) -> str:
        head = self._heads.get((q_name, handler, worker))
        if head is None:
            if len(self._heads) >= _HEADS_MAX:
                self._heads.clear()
            head = f'{{"queue":{_text(q_name)},"handler":{_text(handler)},"worker":{_text(worker)}'
            self._heads[q_name, handler, worker] = head
        return head

    # How it is put

    def _put(
        self, q_name: str, span: float, of: Entry, data: bytes, unit: Unit, moment: Moment, counts: HandlerCounts
    ) -> None:
        """Put the record of a message into a unit; where that cannot be, count it."""
        manager, now, length = self._manager, moment.wall, len(data)
        try:
            if self._places_at != manager.objects.changes:
                self._places.clear()
                self._places_at = manager.objects.changes
            place = self._places.get(q_name) or self._found(q_name)
            queue = place.queue
            entry = ExpiringEntry(queue, manager.ids.next(), place.rank, data, length)
            entry.correl_id, entry.persistence = of.msg_id, of.persistence
            deadline = ceil(now + span)
            if deadline != place.deadline:
                place.deadline = float(deadline)
            entry.deadline = place.deadline  # one object for all of a second
            if int(now * 100) != self._tick:
                self._describe(now)
            entry.packed_md = self._packed_md
            if place.open and length <= place.length_max and queue.depth < queue.max_depth and not queue.deleted:
                placing.place(manager, (entry,), unit, moment)
            else:
                sending.join(manager, place.route, entry, unit, moment)
        except MQError as error:
            self._lost(counts, of.queue.name, q_name, error)

    def _lost(self, counts: HandlerCounts, q_name: str, history: str, error: Exception) -> None:
        counts.history_lost += 1
        self._manager.effects.unrecorded[q_name] = history, error

    def _found(self, q_name: str) -> RecordPlace:
        """Find the queue of a history, and remember it. Raises why no record can be put there."""
        route = self._manager.objects.destination(q_name, "")
        if route.remote or route.queue.shared:
            raise not_own(q_name)
        place = self._places[q_name] = RecordPlace(route, self._manager.max_length)
        return place

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
    """The queue of a history, as its definition is now. While it is `open` a record of up to `length_max` bytes needs
    no further checks, but that there is room. `deadline` is that of the record put last.
    """

    __slots__ = ("deadline", "length_max", "open", "queue", "rank", "route")

    def __init__(self, route: Route, length_max: int) -> None:
        queue = route.queue
        self.route = route
        self.queue = queue
        self.rank = queue.rank(0)
        self.length_max = min(length_max, queue.max_length)
        self.open = not (queue.refuses_persistent or any(level.put_inhibited for level in route.levels))
        self.deadline = 0.0


def not_own(q_name: str) -> MQError:
    """OPTION_NOT_VALID_FOR_TYPE (2045) for a history that would lie elsewhere than the messages that it is of."""
    return MQError(
        MQRC.OPTION_NOT_VALID_FOR_TYPE,
        f"{q_name} is no local queue of the queue manager's own: the records of a history are put in the units of work "
        "that end its messages",
    )


def _body(outcome: str, attempts: int, entry: Entry, began: float, ended: float, ran: float, key: object) -> str:
    """The fields that all records have, behind their head."""
    put, put_text = _put_of(entry.packed_md)
    at = round(ended * _MICRO)
    ended_text = f"{at // _MICRO}.{at % _MICRO:06d}"  # `.6f` takes thrice as long for so large a number
    if began:
        at = round(began * _MICRO)
        waited = "null" if not put else f"{began - put:.6f}" if began > put else "0.000000"
        times = f'"began":{at // _MICRO}.{at % _MICRO:06d},"ended":{ended_text},"waited":{waited},"ran":{ran:.6f}'
    else:
        times = f'"began":null,"ended":{ended_text},"waited":null,"ran":null'
    more = "" if key is None else f',"key":{_text(key)}'
    if entry.handling is not None and (steps := steps_of(entry)) is not None and steps.values:
        more = f'{more},"steps":{_text(list(steps.values))}'
    return f',"outcome":"{outcome}","attempts":{attempts},"put":{put_text},{times}{more}'


@lru_cache(maxsize=1024)  # messages that were put within a hundredth of a second share it
def _put_of(packed_md: bytes) -> tuple[float, str]:
    """The time of the put, as `put_at` has it, and its text."""
    put = put_at(packed_md)
    return put, f"{put:.2f}" if put else "null"


def _value(returned: Returned, longest: int) -> str:
    """The field of what the handler has returned. The JSON of it is the worker's: one that is none is told as such."""
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
