"""MQOPEN and MQCLOSE of queues: who may share, and what is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.handles import Handle
from broker.mqi.errors import MQError
from broker.mqi.options import MQOO
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.core.handles import Hconn
    from broker.core.queue import LocalQueue

_INPUT_AS_Q_DEF = MQOO.INPUT_AS_Q_DEF.value
_INPUT_SHARED = MQOO.INPUT_SHARED.value
_INPUT_EXCLUSIVE = MQOO.INPUT_EXCLUSIVE.value


def open_queue(hconn: Hconn, queue: LocalQueue, options: int) -> Handle:
    """Open a local queue (sharing rules: messages.md 9.2). Raises OBJECT_IN_USE (2042)."""
    handle = Handle(hconn, "QUEUE", queue.name, options, queue)
    if handle.removes:
        _admit(handle, queue)
        queue.input_count += 1
    if handle.puts:
        queue.output_count += 1
    queue.handles.add(handle)
    hconn.add(handle)
    return handle


def _admit(handle: Handle, queue: LocalQueue) -> None:
    wanted = queue.default_input if handle.options & _INPUT_AS_Q_DEF else handle.options
    exclusive = bool(wanted & _INPUT_EXCLUSIVE) or not queue.shareable
    if queue.exclusive is not None or (exclusive and queue.input_count):
        how = "exclusive input" if queue.exclusive else "input"
        raise MQError(MQRC.OBJECT_IN_USE, f"{queue.name} is open for {how} already")
    if exclusive:
        queue.exclusive = handle


def close_queue(handle: Handle, queue: LocalQueue) -> None:
    """Take a handle off its queue. Its waiting gets have been ended before."""
    queue.handles.discard(handle)
    if handle.removes:
        queue.input_count -= 1
    if handle.puts:
        queue.output_count -= 1
    if queue.exclusive is handle:
        queue.exclusive = None
