"""Giving a chosen message to a getter: cursor, lock and marks for a browse, a unit of work for a destructive get."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgpack

from broker.core.calls import damage, postponing
from broker.core.message import assembly, context, logical_order
from broker.core.message.entry import AVAILABLE, DAMAGED, DELAYED
from broker.core.message.generated import reports
from broker.core.message.headers import properties
from broker.core.message.logical_order import CLOSED, SEGMENTS, Position
from broker.core.queues.effects import Grant, Move
from broker.core.queues.shelf.selection import IF_PERSISTENT, NEVER, Request
from broker.core.queues.shelf.views import START
from broker.core.queues.unit import Unit
from broker.mqi.errors import MQError
from broker.mqi.layouts.packing import PACKED_FIELDS
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.queues.handles import Handle
    from broker.core.queues.queue import LocalQueue
    from broker.core.queues.shelf.shelf import Shelf

_TRUNCATED_ACCEPTED = int(MQRC.TRUNCATED_MSG_ACCEPTED)
_TRUNCATED_FAILED = int(MQRC.TRUNCATED_MSG_FAILED)
_INCONSISTENT_CCSIDS = int(MQRC.INCONSISTENT_CCSIDS)
_INCONSISTENT_ENCODINGS = int(MQRC.INCONSISTENT_ENCODINGS)
_INCONSISTENT_UOW = int(MQRC.INCONSISTENT_UOW)
_CCSID = PACKED_FIELDS.index("coded_char_set_id")
_ENCODING = PACKED_FIELDS.index("encoding")


def under_cursor(handle: Handle, shelf: Shelf, q_name: str, request: Request, now: float) -> Entry:
    """The message under the browse cursor. Raises NO_MSG_UNDER_CURSOR (2034), INVALID_MSG_UNDER_CURSOR (2246),
    OBJECT_DAMAGED (2101).
    """
    cursor = handle.position.cursor
    entry = shelf.entries.get(cursor) if cursor != START else None
    if entry is not None and (entry.state == DAMAGED or cursor in shelf.damaged) and not entry.expired(now):
        raise damage.refusal(entry, shelf.damaged[entry.key])
    seen = (AVAILABLE, DELAYED) if request.delayed else (AVAILABLE,)
    if entry is None or entry.state not in seen or entry.expired(now):
        raise MQError(MQRC.NO_MSG_UNDER_CURSOR, f"no message of {q_name} is under the browse cursor of this handle")
    if request.complete_message:
        if entry.offset:
            raise MQError(MQRC.INVALID_MSG_UNDER_CURSOR, "the segment under the cursor is not the first of its message")
        if not shelf.groups.whole_from(entry):
            raise MQError(MQRC.NO_MSG_UNDER_CURSOR, "not all segments of the message under the cursor are there")
    return entry


def grant(manager: Manager, handle: Handle, queue: LocalQueue, request: Request, entry: Entry, now: float) -> Grant:
    """The last step of a get, be it of a call or of one that waited: give the message that begins with `entry` to the
    getter.

    Raises SYNCPOINT_LIMIT_REACHED (2024), UOW_NOT_AVAILABLE (2255), having changed nothing.
    """
    entries, reason = _whole_message(queue.shelf, entry) if request.complete_message else ([entry], 0)
    form = properties.form_of(handle, request.properties) if entry.properties else 0
    truncated = request.max_length is not None and _length(entries, request, form) > request.max_length
    if truncated and not request.accept_truncated:
        if request.browse_first:
            handle.position = handle.position.rewound()
        return Grant(entries, _TRUNCATED_FAILED, form=form)
    if request.browse:
        _browse(handle, queue, request, entries, reason, now)
        return Grant(entries, _TRUNCATED_ACCEPTED if truncated else reason, form=form)
    in_unit = request.syncpoint != NEVER and (request.syncpoint != IF_PERSISTENT or bool(entry.persistence))
    before = handle.position.last_get
    if request.item is not None or len(entries) > 1:
        _check_unit(handle, request, entries, in_unit=in_unit)
    unit = (handle.hconn.unit or Unit()) if in_unit else Unit()
    if in_unit:
        check_calls(unit, manager.max_calls)
        handle.hconn.enter(unit, now)
    warning = _get_warning(handle, request, entry, in_unit=in_unit) if before.logical else 0
    unit.calls += 1
    for each in entries:
        if each.state == DELAYED:
            postponing.take(manager, each, unit)
        queue.take(each, unit, now)
        unit.gets[each] = each is entry
        if reports.asked(each, reports.COD):
            unit.confirm(each, reports.COD)
    in_parts = entries[-1].msg_flags & logical_order.IN_PARTS
    after = _position(request, entries, reason, in_unit=in_unit) if in_parts else CLOSED
    if in_unit or after is not before:
        unit.remember_get(handle)
    saved = context.of(entry) if handle.saves_context else None
    if after is not before or saved is not None:
        handle.position = handle.position._replace(last_get=after, saved_context=saved)
    move = None if after is before else Move(handle, before, after)
    if manager.events.counting:
        manager.events.got(queue, len(entries), now)
    reason = _TRUNCATED_ACCEPTED if truncated else reason or warning
    return Grant(entries, reason, destructive=True, unit=None if in_unit else unit, move=move, form=form)


def moves_cursor(request: Request, grant: Grant) -> bool:
    """True if a get has browsed a message: then a lock of its handle on another one is released (semantics 5.5)."""
    return request.browse and grant.reason != _TRUNCATED_FAILED


class Outline(NamedTuple):
    """The effect that `grant` would have: on which messages; are they taken, in the connection's unit, or locked?"""

    entries: list[Entry]
    takes: bool = False
    locks: bool = False
    in_unit: bool = False


def outline(manager: Manager, handle: Handle, queue: LocalQueue, request: Request, entry: Entry) -> Outline:
    """Return what `grant` would do with the message that begins with `entry`. Raises what `grant` does."""
    entries = _whole_message(queue.shelf, entry)[0] if request.complete_message else [entry]
    form = properties.form_of(handle, request.properties) if entry.properties else 0
    too_long = request.max_length is not None and _length(entries, request, form) > request.max_length
    if too_long and not request.accept_truncated:
        return Outline(entries)
    if request.browse:
        return Outline(entries, locks=request.lock)
    in_unit = request.syncpoint != NEVER and (request.syncpoint != IF_PERSISTENT or bool(entry.persistence))
    if request.item is not None or len(entries) > 1:
        _check_unit(handle, request, entries, in_unit=in_unit)
    if in_unit and handle.hconn.unit is not None:
        check_calls(handle.hconn.unit, manager.max_calls)
    return Outline(entries, takes=True, in_unit=in_unit)


def _check_unit(handle: Handle, request: Request, entries: list[Entry], *, in_unit: bool) -> None:
    """Raise INCONSISTENT_UOW (2245), UOW_NOT_AVAILABLE (2255)."""
    if request.item is not None:
        handle.position.last_get.check_unit(in_unit=in_unit)
    if not in_unit and len(entries) > 1 and entries[0].persistence and handle.hconn.unit is not None:
        raise MQError(MQRC.UOW_NOT_AVAILABLE, "a persistent message in segments, outside syncpoint beside an open unit")


def _length(entries: list[Entry], request: Request, form: int) -> int:
    """Return the number of bytes that the getter receives, with properties in this form."""
    length = assembly.length_of(entries, with_mqmde=request.with_mqmde)
    packed = entries[0].properties
    if packed:
        length += properties.header_length(packed, form, assembly.length_of(entries, with_mqmde=False))
    return length


def check_calls(unit: Unit, max_calls: int) -> None:
    """Raise SYNCPOINT_LIMIT_REACHED (2024) when the unit of work cannot take another message."""
    if unit.calls >= max_calls:
        raise MQError(
            MQRC.SYNCPOINT_LIMIT_REACHED,
            f"the unit of work holds {unit.calls} messages, the queue manager's MAXUMSGS: commit or back out first",
        )


def _browse(handle: Handle, queue: LocalQueue, request: Request, entries: list[Entry], reason: int, now: float) -> None:
    queue.counts.browses += 1
    first, before = entries[0], handle.position
    looks_again = before.browsed_logically and first.key == before.cursor
    begins = request.logical and request.item is None and not looks_again  # a group or message (semantics 6.4)
    anchor = first.key if begins else before.anchor
    last_browse = _position(request, entries, reason, in_unit=False)
    for marker in request.marks:
        queue.browse_marks.mark(first, marker, now)
    for marker in request.unmarks:
        queue.browse_marks.unmark(first, marker)
    if request.unmarks and queue.waiters.count:
        queue.offer_later((first,))  # to those who wait for what is not marked
    locked = before.locked
    if request.lock:
        locked = tuple(entries)
        for each in entries:
            queue.lock(each)
    handle.position = before.after_browse(last_browse, first.key, anchor, locked, logical=request.logical)


def _position(request: Request, entries: list[Entry], reason: int, *, in_unit: bool) -> Position:
    """The position after this message, of a destructive get or a browse."""
    first = entries[0]
    flags = entries[-1].msg_flags
    if not flags & logical_order.IN_PARTS:
        return CLOSED
    length = sum(each.span for each in entries)
    if request.complete_message and flags & SEGMENTS and not reason:
        flags &= ~SEGMENTS
    return CLOSED.after(first.item, length, flags, first.persistence, in_unit=in_unit, logical=request.logical)


def step_back(handle: Handle, given_back: Entry, kept: Entry) -> None:
    """Messages up to `given_back`, got one by one under syncpoint since `kept`, were not got after all: the handle
    stands where `kept` left it, unless a later get has moved it on.
    """
    position = handle.position
    if position.last_get == _position(Request(), [given_back], 0, in_unit=True):
        handle.position = position._replace(last_get=_position(Request(), [kept], 0, in_unit=True))


def _get_warning(handle: Handle, request: Request, entry: Entry, *, in_unit: bool) -> int:
    """The warning of a get without LOGICAL_ORDER that leaves what one with it has begun (semantics 6.3)."""
    position = handle.position.last_get
    if request.logical or not (position.logical and position.open):
        return 0
    if entry.item != position.next_item():
        return position.unfinished
    return _INCONSISTENT_UOW if in_unit != position.in_unit else 0


def _whole_message(shelf: Shelf, entry: Entry) -> tuple[list[Entry], int]:
    """The segments of a complete logical message, and a warning where they do not agree in character set or encoding:
    then only the first ones that do (semantics 5.7).
    """
    entries = [shelf.entries[key] for key in shelf.groups.segments(entry)]
    if len(entries) == 1:
        return entries, 0
    first = msgpack.unpackb(entry.packed_md)
    for number, each in enumerate(entries):
        fields = msgpack.unpackb(each.packed_md)
        if fields[_CCSID] != first[_CCSID]:
            return entries[:number], _INCONSISTENT_CCSIDS
        if fields[_ENCODING] != first[_ENCODING]:
            return entries[:number], _INCONSISTENT_ENCODINGS
    return entries, 0
