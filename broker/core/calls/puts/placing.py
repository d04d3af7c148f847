"""MQPUT, the last step: completed messages are placed on their queue and join a unit of work.

A put that is like the last one through its handle, or like the last MQPUT1 by the same name, is completed by the
template of that; any other is prepared (`broker.core.calls.puts.putting`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.core.calls import expiring
from broker.core.calls.gets.granting import check_calls
from broker.core.calls.puts import delaying, keying, putting, stepping
from broker.core.calls.puts.put_template import PutTemplate, leaves_template
from broker.core.message.generated import reports
from broker.core.message.logical_order import AT_ONCE, CLOSED, SEGMENTATION_ALLOWED
from broker.core.queues.handles import NO_LIMITS
from broker.core.queues.unit import Unit
from broker.mqi import checks
from broker.mqi.constants.options import MQPMO
from broker.mqi.delivery_fields import NO_EXTRAS
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.calls.puts.put import PreparedPut, Put
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.message.logical_order import Position
    from broker.core.moment import Moment
    from broker.core.queues.handles import ConnectionLimits

_SYNCPOINT = MQPMO.SYNCPOINT.value
_SET_ALL = MQPMO.SET_ALL_CONTEXT.value


def put(manager: Manager, put: Put, moment: Moment, implicit: Unit | None = None) -> tuple[Entry, Unit | None, int]:
    """MQPUT, or MQPUT1: the entry (the first, of a message that was cut, and as it will be at its destination), the
    implicit unit to freeze (None under syncpoint), and the reason of a warning.

    Outside syncpoint the message becomes part of `implicit`, of a call that puts several, or of a unit of its own;
    under syncpoint of that of the connection, which it begins if there was none. Raises Q_FULL (2053), PUT_INHIBITED
    (2051) and others; `keying.Duplicate` where it was made before.
    """
    hconn, handle = put.hconn, put.handle
    length = len(put.data)
    extras, key, instant = put.extras, b"", AT_ONCE
    if extras is not NO_EXTRAS:
        delaying.check(put)
        if extras.key and not put.route.queue.shared:  # whose keys the group knows
            joined = int(checks.put_options(put.pmo).options) & _SYNCPOINT
            key = keying.check(manager, put, hconn.unit if joined else implicit, moment.wall)
    template = template_of(manager, put, length)
    position: Position | None
    if template is None:
        instant = delaying.instant_of(put, moment)
        prepared = _prepared(manager, put, moment.wall)
        position = prepared.position if instant is AT_ONCE else delaying.delay(put, prepared, instant)
        entries, shown, reason = prepared.entries, prepared.shown, prepared.reason
        takes_steps = bool(shown.properties) and bool(int(put.pmo.options) & _SET_ALL)
    else:
        entries = template.entries((put.data,), manager.ids, moment.wall)
        shown, position, reason, takes_steps = entries[0], CLOSED, 0, False
    in_unit = int(put.pmo.options) & _SYNCPOINT
    unit = (hconn.unit if in_unit else implicit) or Unit()
    if in_unit:
        check_calls(unit, manager.max_calls)
        _check_bytes(manager, unit, length)
    if takes_steps and shown is entries[0] and not shown.queue.shared:
        stepping.take(manager, shown)
    unit.calls += 1
    unit.bytes += length
    place(manager, entries, unit, moment)
    if extras is not NO_EXTRAS or instant is not AT_ONCE:
        delaying.join(unit, entries, instant)
        if key:
            keying.join(manager, put, key, shown, unit, moment.wall)
    if in_unit:
        hconn.enter(unit, moment.wall)
    if handle is not None and position is not None:
        moved = position is not handle.position.last_put
        if in_unit or moved:
            unit.remember_put(handle)
        if moved:
            handle.position = handle.position._replace(last_put=position)
    return shown, None if in_unit else unit, reason


def on_its_way(manager: Manager, put: Put) -> Put:
    """A put on a way by intra-group queuing, as it is with a message so long: it may go by another one. Raises
    MSG_TOO_BIG_FOR_Q (2030).
    """
    route, length = put.route, len(put.data) + len(put.properties)
    if length <= route.igq_length_max():
        return put
    md = None if put.md is None else checks.descriptor(put.md)
    may_cut = md is not None and md.version > 1 and bool(md.msg_flags & SEGMENTATION_ALLOWED)
    return replace(put, route=manager.objects.route_of_long(route, length, may_cut=may_cut))


def template_of(manager: Manager, put: Put, length: int) -> PutTemplate | None:
    """Return the template for a put of so many bytes that differs from the last one like it in its data alone; None
    when it differs in more.
    """
    handle = put.handle
    last = put.last_calls if handle is None else handle.last_calls
    template = None if last is None else last.template
    if template is None or manager.quiescing or (handle is not None and handle.position.last_put is not CLOSED):
        return None
    if put.extras is not NO_EXTRAS:
        return None
    return template if template.fits(put, length, manager.objects.changes) else None


def place(manager: Manager, entries: Sequence[Entry], unit: Unit, moment: Moment) -> None:
    """Let completed messages for one queue join a unit."""
    queue = entries[0].queue
    counts = queue.counts
    counts.last_put = moment.wall
    for entry in entries:
        queue.place(entry, unit)
        counts.puts += 1
        counts.put_bytes += entry.length
        unit.puts.append(entry)
        if entry.handling is not None:
            if entry.delayed:
                queue.delay(entry)
            if entry.handling.steps is not None:
                stepping.join(entry, unit)
        if manager.events.counting:
            manager.events.put(queue, moment.wall)
        if reports.asked(entry, reports.COA):
            unit.confirm(entry, reports.COA)
    if queue.trigger_on:
        manager.triggers.put(queue, entries, unit, moment.tick)


def _prepared(manager: Manager, put: Put, now: float) -> PreparedPut:
    """A put that is not like the last one, once it has passed all checks of its own."""
    if put.hconn.limits is not NO_LIMITS:
        _check_limits(put, put.hconn.limits)
    if put.route.group is not None:
        put = on_its_way(manager, put)
    last = put.last_calls if put.handle is None else put.handle.last_calls
    queue = put.route.queue
    if queue.room() <= 0:
        expiring.expire(manager, queue, now)
    try:
        prepared = putting.prepare(manager, put, now)
    except MQError as error:
        queue.counts.refuse(int(error.reason))
        manager.events.refused(queue, put.route.first.name, int(error.reason), put.hconn, now)
        raise
    if last is not None:
        last.template = None
        limited = put.hconn.limits.unit_bytes  # which each put has to look at
        if not prepared.reason and not limited and put.extras is NO_EXTRAS and leaves_template(last, put, prepared):
            length_max = min(queue.max_length, manager.max_length, put.hconn.limits.max_length or manager.max_length)
            last.template = PutTemplate(put, prepared, length_max, manager.objects.changes)
    return prepared


def _check_limits(put: Put, limits: ConnectionLimits) -> None:
    """Raise MSG_TOO_BIG_FOR_CHANNEL (2218), STORAGE_NOT_AVAILABLE (2071) beyond the limits of a connection."""
    length, unit = len(put.data) + len(put.properties), put.hconn.unit
    if limits.max_length and length > limits.max_length:
        raise MQError(MQRC.MSG_TOO_BIG_FOR_CHANNEL, f"{length} bytes, MAXMSGL of the channel is {limits.max_length}")
    in_unit = int(checks.put_options(put.pmo).options) & _SYNCPOINT
    held = 0 if unit is None else unit.bytes
    if limits.unit_bytes and in_unit and held + length > limits.unit_bytes:
        why = f"the unit of work holds {held} bytes, and MAXUOW of its user is {limits.unit_bytes}"
        raise MQError(MQRC.STORAGE_NOT_AVAILABLE, why)


def _check_bytes(manager: Manager, unit: Unit, length: int) -> None:
    if unit.bytes + length > manager.unit_bytes_max:
        raise MQError(MQRC.STORAGE_NOT_AVAILABLE, f"the unit of work holds {unit.bytes} bytes, its limit is near")
