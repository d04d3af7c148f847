"""The end of a connection: its calls end, its handles are closed, its leases go back, its unit of work is settled.

Where there is very much of that it takes more than one turn of the event loop.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from broker.engine.answers import nobody
from broker.engine.mistakes import contained, mistake

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.core.handles import Handle
    from broker.engine.conversation import Conversation
    from broker.engine.slices import Work
    from broker.mqi.reasons import MQRC


def leave(conversation: Conversation, reason: MQRC, left: Callable[[], None]) -> None:
    """Leave the queue manager, in slices; then call `left`."""

    def done(error: Exception | None) -> None:
        if error is not None:
            mistake(error, "the end of a connection")
        late, conversation.hconn.unit = conversation.hconn.unit, None
        if late is not None:  # a wait came to its end in between
            conversation.call_order.back_out(late, nobody)
        contained(left)

    conversation.context.slices.start(_leaving(conversation, reason), done)


def leave_at_once(conversation: Conversation, reason: MQRC, left: Callable[[], None]) -> None:
    """Leave the queue manager in one step, since it stops; then call `left`."""
    deque(_leaving(conversation, reason), maxlen=0)
    left()


def _leaving(conversation: Conversation, reason: MQRC) -> Work:
    """End all calls with `reason`, close all handles, give back the leases."""
    yield from conversation.call_order.dropping(reason)
    for handle in list(conversation.hconn.handles.values()):
        for _ in ending_waits(handle, reason):
            conversation.call_order.end_reported = True
            yield
        if handle.hobj in conversation.hconn.handles:
            conversation.close_handle(handle)
        yield
    conversation.context.monitors.leave(conversation, reason)
    conversation.trigger_return(conversation.core.triggers.held_by(conversation.hconn))
    conversation.manager.forget(conversation)


def ending_waits(handle: Handle, reason: MQRC) -> Work:
    """The gets that wait on a handle end with `reason`."""
    for waiter in list(handle.waiting):
        if waiter in handle.waiting:
            waiter.owner.ended(reason)
        yield
