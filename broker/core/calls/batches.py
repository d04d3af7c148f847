"""Many puts, or many gets, of the plainest kind at once.

They come to what they would come to one after the other. What is the same for all of them is found out once, and the
structures of the queue are changed for all of them together. Whatever is not of the plainest kind is left to be put or
got by itself.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from broker.core.calls.gets.getting import remembered
from broker.core.calls.puts import placing
from broker.core.message import context
from broker.core.message.generated import reports
from broker.core.message.headers import properties
from broker.core.message.logical_order import CLOSED, IN_PARTS
from broker.core.queues.effects import Grant
from broker.core.queues.shared_queue import SharedQueue
from broker.core.queues.shelf.selection import ALWAYS, IF_PERSISTENT
from broker.core.queues.unit import Unit
from broker.mqi.constants.options import MQPMO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.calls.puts.put import Put
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.queues.handles import Handle
    from broker.core.queues.shelf.selection import Request
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor

_SYNCPOINT = MQPMO.SYNCPOINT.value


def put_run(manager: Manager, unit: Unit, put: Put, bodies: Sequence[bytes], now: float) -> list[Entry]:
    """Put those first ones of `bodies` as part of `unit` that need nothing but their data to be told apart from the
    last put through the handle; perhaps none. `put` is the first of these puts.
    """
    template = placing.template_of(manager, put, 0)
    if template is None or manager.events.counting or manager.triggers.judges(template.queue):
        return []
    queue = template.queue
    in_unit = bool(int(put.pmo.options) & _SYNCPOINT)
    most = queue.room()
    if in_unit:
        most = max(0, min(most, manager.max_calls - unit.calls))
    size, count = 0, 0
    for data in islice(bodies, most):
        length = len(data)
        if length > template.length_max or (in_unit and unit.bytes + size + length > manager.unit_bytes_max):
            break
        size += length
        count += 1
    if not count:
        return []
    entries = template.entries(bodies[:count], manager.ids, now)
    queue.place_all(entries, unit, size)
    queue.counts.put(count, size, now)
    unit.puts += entries
    unit.calls += count
    unit.bytes += size
    if in_unit:
        put.hconn.enter(unit, now)
    return entries


def get_run(
    manager: Manager,
    handle: Handle,
    md: MessageDescriptor | None,
    gmo: GetMessageOptions,
    count: int,
    room: int,
    now: float,
) -> tuple[list[Entry], Unit | None]:
    """Get the first messages of the queue, for a get that has been made before and takes anything: at most `count`, and
    no further one once they have `room` bytes; perhaps none. With them the implicit unit that got them; None under
    syncpoint.
    """
    queue, request = handle.queue, remembered(handle, md, gmo, None)
    if queue is None or request is None or not _is_plain(handle, request):
        return [], None
    if queue.shelf.views or queue.get_inhibited or queue.deleted:
        return [], None
    hconn, in_unit = handle.hconn, request.syncpoint == ALWAYS
    unit = (hconn.unit or Unit()) if in_unit else Unit()
    entries: list[Entry] = []
    for entry in queue.shelf.heads(min(count, max(0, manager.max_calls - unit.calls))):
        if room <= 0 or entry.deadline is not None or entry.msg_flags & IN_PARTS or reports.asked(entry, reports.COD):
            break
        room -= entry.length
        entries.append(entry)
    if entries:
        if in_unit:
            hconn.enter(unit, now)
        unit.calls += len(entries)
        unit.gets.update(dict.fromkeys(entries, True))
        queue.take_heads(entries, unit)
        queue.counts.got(entries, now)
        if handle.saves_context:
            handle.position = handle.position._replace(saved_context=context.of(entries[-1]))
        manager.events.got(queue, len(entries), now)
    return entries, None if in_unit else unit


def grant_run(manager: Manager, handle: Handle, request: Request, entries: Sequence[Entry], now: float) -> list[Grant]:
    """Grant messages that the database has chosen for a get of a shared queue: the first ones of them that need nothing
    but to be granted; perhaps none. The first grant has the implicit unit of all.
    """
    queue = handle.queue
    assert isinstance(queue, SharedQueue)
    if not _is_plain(handle, request) or queue.browse_marks.places or queue.get_inhibited or queue.deleted:
        return []
    queue.structure.check(queue.name)
    hconn, in_unit = handle.hconn, request.syncpoint == ALWAYS
    unit = (hconn.unit or Unit()) if in_unit else Unit()
    run: list[Entry] = []
    before: bytes | None = None  # messages that were put together share it
    for entry in islice(entries, max(0, manager.max_calls - unit.calls)):
        if entry.msg_flags & IN_PARTS or (entry.packed_md is not before and reports.asked(entry, reports.COD)):
            break
        before = entry.packed_md
        run.append(entry)
    if not run:
        return []
    if in_unit:
        hconn.enter(unit, now)
    unit.calls += len(run)
    unit.gets.update(dict.fromkeys(run, True))
    queue.take_given(run, unit, now)
    if handle.saves_context:
        handle.position = handle.position._replace(saved_context=context.of(run[-1]))
    manager.events.got(queue, len(run), now)
    form = properties.form_of(handle, request.properties)
    grants = [Grant([entry], destructive=True, form=form if entry.properties else 0) for entry in run]
    if not in_unit:
        grants[0].unit = unit
    return grants


def _is_plain(handle: Handle, request: Request) -> bool:
    """True if the answer to a remembered get, and its effects, depend on nothing but the queue."""
    position = handle.position
    return request.syncpoint != IF_PERSISTENT and position.last_get is CLOSED and not position.locked
