"""MQPUT, the last step: completed messages are placed on their queue and join a unit of work.

A put that is like the last one through its handle is completed by the template of that; any other is prepared
(`broker.core.calls.putting`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.calls import expiring, putting
from broker.core.calls.granting import check_calls
from broker.core.calls.put_template import PutTemplate, leaves_template
from broker.core.message import reports
from broker.core.message.logical_order import CLOSED
from broker.core.queues.unit import Unit
from broker.mqi.errors import MQError
from broker.mqi.options import MQPMO
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.calls.putting import Prepared, Put
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.moment import Moment

_SYNCPOINT = MQPMO.SYNCPOINT.value


def put(manager: Manager, put: Put, moment: Moment, implicit: Unit | None = None) -> tuple[Entry, Unit | None, int]:
    """MQPUT, or MQPUT1 (`Manager.put`)."""
    hconn, handle = put.hconn, put.handle
    length = len(put.data)
    template = template_of(manager, put, length)
    if template is None:
        prepared = _prepared(manager, put, moment.wall)
    else:
        prepared = template.prepared(put.data, manager.ids, moment.wall)
    in_unit = int(put.pmo.options) & _SYNCPOINT
    unit = (hconn.unit if in_unit else implicit) or Unit()
    if in_unit:
        check_calls(unit, manager.max_calls)
        _check_bytes(manager, unit, length)
    unit.calls += 1
    unit.bytes += length
    place(manager, prepared.entries, unit, moment)
    if in_unit:
        hconn.enter(unit, moment.wall)
    if handle is not None and prepared.position is not None:
        unit.remember_put(handle)
        if prepared.position is not handle.position.last_put:
            handle.position = handle.position._replace(last_put=prepared.position)
    return prepared.shown, None if in_unit else unit, prepared.reason


def template_of(manager: Manager, put: Put, length: int) -> PutTemplate | None:
    """What completes a put of so many bytes that differs from the last one through its handle in its data alone;
    None when it differs in more.
    """
    handle = put.handle
    template = None if handle is None else handle.last_calls.template
    if handle is None or template is None or manager.quiescing or handle.position.last_put is not CLOSED:
        return None
    return template if template.fits(put, length, manager.objects.changes) else None


def place(manager: Manager, entries: Iterable[Entry], unit: Unit, moment: Moment) -> None:
    """Let completed messages for one queue join a unit."""
    met = False
    for entry in entries:
        queue = entry.queue
        queue.place(entry, unit)
        unit.puts.append(entry)
        manager.events.put(queue, moment.wall)
        if reports.asked(entry, reports.COA):
            unit.confirm(entry, reports.COA)
        met = manager.triggers.meets_first(queue, entry, moment.tick) or met
    if met:
        unit.firsts.append(queue)


def _prepared(manager: Manager, put: Put, now: float) -> Prepared:
    """A put that is not like the last one through its handle, once it has passed all checks of its own."""
    handle, queue = put.handle, put.route.queue
    if queue.room() <= 0:
        expiring.expire(manager, queue, now)
    try:
        prepared = putting.prepare(manager, put, now)
    except MQError as error:
        manager.events.refused(queue, put.route.first.name, int(error.reason), put.hconn, now)
        raise
    if handle is not None:
        handle.last_calls.template = None
        if not prepared.reason and leaves_template(handle, put, prepared):
            length_max = min(queue.max_length, manager.max_length)
            handle.last_calls.template = PutTemplate(handle, put, prepared, length_max, manager.objects.changes)
    return prepared


def _check_bytes(manager: Manager, unit: Unit, length: int) -> None:
    if unit.bytes + length > manager.unit_bytes_max:
        raise MQError(MQRC.STORAGE_NOT_AVAILABLE, f"the unit of work holds {unit.bytes} bytes, its limit is near")
