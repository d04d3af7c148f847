"""Putting generated messages: what the queue manager itself has to say.

No program waits for the outcome. A letter that cannot be put where it should go is put to the dead-letter queue, and
is lost if that fails too; the call or the unit of work that caused it succeeds all the same (semantics 12.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.calls import expiring
from broker.core.calls.puts import placing
from broker.core.message.entry import CutSegment, FullEntry
from broker.core.message.generated import reports
from broker.core.message.generated.dead_letter import dead_letter
from broker.core.message.generated.generated import Lost
from broker.core.message.generated.trigger_message import TriggerEvent
from broker.core.message.headers.transmission import transmitted
from broker.core.queues.unit import Unit
from broker.mqi.constants.descriptor import MQFMT
from broker.mqi.errors import MQError
from broker.mqi.layouts.layouts import MQDLH
from broker.mqi.layouts.packing import pack_md

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.message.generated.generated import GeneratedMessage
    from broker.core.message.generated.trigger_message import TriggerMessage
    from broker.core.message.rows import Rows
    from broker.core.moment import Moment
    from broker.core.names.routes import Route

_DEAD = MQFMT.DEAD_LETTER_HEADER.value


def send(manager: Manager, message: GeneratedMessage, unit: Unit, moment: Moment) -> None:
    """Put a generated message, or the dead letter that is made of it, as part of `unit`. Where neither can be put,
    the effects tell.
    """
    error = _refusal(manager, message, unit, moment)
    if error is None:
        return
    if message.dead_letter:
        dead_q_name = str(manager.objects.definition.attributes["DEADQ"])
        dead = dead_letter(message, dead_q_name, int(error.reason), manager.ids, moment.wall)
        before = len(unit.triggers)
        if _refusal(manager, dead, unit, moment) is None:
            unit.triggers[before:] = map(TriggerEvent.of_dead_letter, unit.triggers[before:])
            return
    manager.effects.lost.append(Lost(message, error))


def send_reports(manager: Manager, unit: Unit, moment: Moment) -> None:
    """Put the reports that a unit causes, as part of it."""
    for entry, kind in unit.reports.items():
        send(manager, reports.report_on(entry, kind, manager.ids, moment.wall), unit, moment)


def write_off(manager: Manager, expired: Sequence[Entry], moment: Moment) -> tuple[Unit, Rows]:
    """Freeze the removal of discarded messages together with the reports on them (journal rule 9): a unit to settle,
    and what it writes.
    """
    unit = Unit()
    unit.reports = {entry: reports.EXPIRATION for entry in expired if reports.asked(entry, reports.EXPIRATION)}
    tried = [each for each in expired if each.handling and each.handling.failure and each.handling.failure.history]
    if tried:
        manager.deliveries.history.expired(tried, unit, moment)
    rows = manager.commit(unit, moment)
    rows.removals.extend(entry.id for entry in expired if entry.persistence and not entry.queue.shared)
    return unit, rows


def trigger(manager: Manager, triggered: Iterable[TriggerMessage], moment: Moment) -> tuple[Unit, Rows]:
    """Freeze the put of trigger messages: a unit to settle, and what it writes."""
    return publish(manager, [message.written(manager.ids, moment.wall) for message in triggered], moment)


def publish(manager: Manager, generated: Iterable[GeneratedMessage], moment: Moment) -> tuple[Unit, Rows]:
    """Freeze the put of event messages: a unit to settle, and what it writes."""
    unit = Unit()
    for message in generated:
        send(manager, message, unit, moment)
    return unit, manager.commit(unit, moment)


def _refusal(manager: Manager, message: GeneratedMessage, unit: Unit, moment: Moment) -> MQError | None:
    """Put a generated message; return the error that prevents it, else None."""
    try:
        put(manager, message, unit, moment)
    except MQError as error:
        return error
    return None


def put(manager: Manager, message: GeneratedMessage, unit: Unit, moment: Moment) -> None:
    """Put a generated message as part of `unit`. Raises why it cannot be put."""
    route = manager.objects.destination(message.q_name, message.q_mgr_name)
    length = len(message.data) + len(message.properties)
    if route.group is not None and length > route.igq_length_max():
        route = manager.objects.route_of_long(route, length)
    entry = _entry(route, message, manager.ids.next(), moment.wall)
    if route.remote:
        entry = transmitted(entry, route, manager.ids, moment.wall)
    # A message that the queue manager takes, its dead-letter queue takes too, with the header before it.
    header = MQDLH.SIZE if message.md.format == _DEAD else 0
    join(manager, route, entry, unit, moment, longest=manager.max_length + header, due=message.due)


def join(
    manager: Manager, route: Route, entry: Entry, unit: Unit, moment: Moment, *, longest: int = 0, due: bool = False
) -> None:
    """Place a completed message of the queue manager's own on its queue, as part of `unit`. Raises why that cannot be.
    `longest` is the length that it may have, where that is not the queue manager's.
    """
    if route.queue.room() <= 0:
        expiring.expire(manager, route.queue, moment.wall)
    if not due:
        route.check_put()
    _check(route, entry, longest or manager.max_length)
    placing.place(manager, [entry], unit, moment)


def _check(route: Route, entry: Entry, max_length: int) -> None:
    queue, length = route.queue, entry.length
    queue.check_deleted()
    route.check_persistence(entry.persistence)
    if length > max_length or length > queue.max_length:
        raise route.too_long(length, max_length, of_manager=length > max_length)
    queue.check_room()


def _entry(route: Route, message: GeneratedMessage, number: int, now: float) -> Entry:
    md, queue, priority = message.md, route.queue, route.priority(message.md.priority)
    kind = FullEntry if message.triggers else CutSegment
    entry = kind(queue, number, queue.rank(priority), message.data, len(message.data))
    entry.given_msg_id, entry.correl_id, entry.group_id = md.msg_id, md.correl_id, md.group_id
    entry.msg_seq_number, entry.offset = md.msg_seq_number, md.offset
    entry.msg_flags, entry.original_length = md.msg_flags, md.original_length
    entry.priority = priority
    entry.persistence = route.persistence(md.persistence)
    entry.deadline = now + md.expiry / 10 if md.expiry > 0 else None
    entry.packed_md = pack_md(md)
    entry.properties = message.properties
    return entry
