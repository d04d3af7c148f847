"""MQCLOSE: what ends with a handle, and what its queue no longer counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.calls import defining, postponing
from broker.core.calls.puts.distribution import DistributionList
from broker.core.names.definitions import Delete
from broker.core.queues import locking
from broker.core.queues.handles import FOR_CO_OP
from broker.core.queues.waiting import end_waits
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.core.manager import Manager
    from broker.core.queues.handles import Handle, Hconn
    from broker.core.queues.queue import LocalQueue


def close(manager: Manager, hconn: Hconn, hobj: int, tick: float) -> int:
    """Close a handle, and with a distribution list the handles of its destinations. The reason is that of a warning,
    or 0. Raises HOBJ_ERROR (2019).
    """
    handle = hconn.handle(hobj)
    del hconn.handles[hobj]
    if not isinstance(handle, DistributionList):
        return _close(manager, handle, tick)
    reasons = [_close(manager, each, tick) for each in handle.opened]
    hconn.in_lists -= len(reasons) - 1
    return next(filter(None, reasons), 0)


def _close(manager: Manager, handle: Handle, tick: float) -> int:
    end_waits(handle.waiting, MQRC.HOBJ_ERROR, manager.effects)
    queue = handle.queue
    if queue is not None:
        _leave_queue(handle, queue)
        locking.unlock(handle, manager.effects.to_offer)
        if queue.creator is handle and not queue.deleted:
            postponing.forget(manager, queue)
            defining.delete(manager.objects, manager.triggers, Delete("QUEUE", queue.name))
        elif handle.removes and not queue.deleted:
            manager.triggers.last_input_closed(queue, tick)
    stands = handle.position
    unfinished = (position.unfinished for position in (stands.last_put, stands.last_get) if position.logical)
    return next(filter(None, unfinished), 0)


def _leave_queue(handle: Handle, queue: LocalQueue) -> None:
    """Take a handle off its queue (`opening.enter_queue`). Its waiting gets have been ended before."""
    assert handle.route is not None
    for level in handle.route.levels:
        level.handles.discard(handle)
    if handle.removes:
        queue.input_count -= 1
    if handle.puts:
        queue.output_count -= 1
    if handle.options & FOR_CO_OP:
        queue.browse_marks.co_op_count -= 1
    queue.browse_marks.drop_of(handle)
    if handle.selector is not None:
        queue.shelf.select_by(handle.selector, -1)
    if queue.exclusive is handle:
        queue.exclusive = None
