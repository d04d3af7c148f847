"""Putting generated messages: what the queue manager itself has to say.

No program waits for the outcome. A letter that cannot be put where it should go is put to the dead-letter queue, and
is lost if that fails too; the call or the unit of work that caused it succeeds all the same (semantics 12.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core import reports
from broker.core.dead_letter import dead_letter
from broker.core.entry import MAX_PRIORITY, FullEntry
from broker.core.generated import Lost
from broker.core.transmission import transmitted
from broker.core.unit import Unit
from broker.mqi.descriptor import MQPER
from broker.mqi.errors import MQError
from broker.mqi.packing import pack_md
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.entry import Entry
    from broker.core.generated import GeneratedMessage
    from broker.core.manager import Manager
    from broker.core.routes import Route
    from broker.core.rows import Rows

_PERSISTENCE_AS_Q_DEF = MQPER.PERSISTENCE_AS_Q_DEF.value


def send(manager: Manager, message: GeneratedMessage, unit: Unit, now: float, tick: float) -> None:
    """Put a generated message, or the dead letter that is made of it, as part of `unit`. Where neither can be put,
    `manager.lost` tells.
    """
    error = _refusal(manager, message, unit, now, tick)
    if error is None:
        return
    if message.dead_letter:
        dead_q_name = str(manager.objects.definition.attributes["DEADQ"])
        dead = dead_letter(message, dead_q_name, int(error.reason), manager.ids, now)
        if _refusal(manager, dead, unit, now, tick) is None:
            return
    manager.lost.append(Lost(message, error))


def send_reports(manager: Manager, unit: Unit, now: float, tick: float) -> None:
    """Put the reports that a unit causes, as part of it."""
    for entry, kind in unit.reports.items():
        send(manager, reports.report_on(entry, kind, manager.ids, now), unit, now, tick)


def write_off(manager: Manager, expired: Iterable[Entry], now: float, tick: float) -> tuple[Unit, Rows]:
    """Freeze the removal of discarded messages together with the reports on them (journal rule 9): a unit to settle,
    and what it writes.
    """
    unit = Unit()
    unit.reports = {entry: reports.EXPIRATION for entry in expired if reports.asked(entry, reports.EXPIRATION)}
    rows = manager.commit(unit, now, tick)
    rows.removals.extend(entry.id for entry in expired if entry.persistence)
    return unit, rows


def publish(manager: Manager, now: float, tick: float) -> tuple[Unit, Rows]:
    """Freeze the event messages that are still to be put: a unit to settle, and what it writes."""
    unit = Unit()
    generated, manager.events.generated = manager.events.generated, []
    for message in generated:
        send(manager, message, unit, now, tick)
    return unit, manager.commit(unit, now, tick)


def _refusal(manager: Manager, message: GeneratedMessage, unit: Unit, now: float, tick: float) -> MQError | None:
    """Why a generated message cannot be put; None when it has been."""
    try:
        _put(manager, message, unit, now, tick)
    except MQError as error:
        return error
    return None


def _put(manager: Manager, message: GeneratedMessage, unit: Unit, now: float, tick: float) -> None:
    route = manager.objects.destination(message.q_name, message.q_mgr_name)
    if route.queue.depth >= route.queue.max_depth:
        manager.expire(route.queue, now)
    entry = _entry(route, message, manager.ids.next(), now)
    if route.remote:
        entry = transmitted(entry, route, manager.ids, now)
    _check(route, entry, manager.max_length)
    manager.place([entry], unit, now, tick)


def _check(route: Route, entry: Entry, max_length: int) -> None:
    queue, length, inhibited = route.queue, entry.length, route.put_inhibited()
    if queue.deleted:
        raise MQError(MQRC.Q_DELETED, f"{queue.name} is being deleted")
    if inhibited:
        raise MQError(MQRC.PUT_INHIBITED, f"{inhibited} has PUT(DISABLED)")
    if entry.persistence and queue.temporary:
        raise MQError(MQRC.PERSISTENT_NOT_ALLOWED, f"{queue.name} is a temporary dynamic queue")
    if length > max_length:
        raise MQError(MQRC.MSG_TOO_BIG_FOR_Q_MGR, f"{length} bytes, the queue manager's MAXMSGL is {max_length}")
    if length > queue.max_length:
        raise MQError(MQRC.MSG_TOO_BIG_FOR_Q, f"{length} bytes, MAXMSGL of {queue.name} is {queue.max_length}")
    if queue.depth >= queue.max_depth:
        raise MQError(MQRC.Q_FULL, f"{queue.name} holds {queue.depth} messages, its MAXDEPTH is {queue.max_depth}")


def _entry(route: Route, message: GeneratedMessage, number: int, now: float) -> Entry:
    md, queue, first = message.md, route.queue, route.first
    priority = md.priority if md.priority >= 0 else first.default_priority
    rank = queue.default_priority if queue.fifo else min(priority, MAX_PRIORITY)
    entry = FullEntry(queue, number, rank, message.data, len(message.data))
    entry.given_msg_id, entry.correl_id, entry.group_id = md.msg_id, md.correl_id, md.group_id
    entry.msg_seq_number, entry.offset = md.msg_seq_number, md.offset
    entry.msg_flags, entry.original_length = md.msg_flags, md.original_length
    entry.priority = priority
    entry.persistence = first.default_persistence if md.persistence == _PERSISTENCE_AS_Q_DEF else md.persistence
    entry.deadline = now + md.expiry / 10 if md.expiry > 0 else None
    entry.packed_md = pack_md(md)
    entry.properties = message.properties
    return entry
