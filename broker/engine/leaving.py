"""The end of a connection: its calls end, its handles are closed, its leases go back, its unit of work is settled.

Where there is very much of that it takes more than one turn of the event loop.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from broker.engine import tags
from broker.engine.calls.answers import answer_written, nobody, succeed
from broker.engine.mistakes import contained, mistake
from broker.interface.port import Call
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.core.queues.handles import Handle
    from broker.engine.conversation import Conversation
    from broker.engine.jobs.slices import Work
    from broker.engine.shared_queues import SharedQueues


def disconnect(conversation: Conversation, call: Call[int], commit: bool) -> None:
    """MQDISC: no call is made any more, the unit of work is committed or backed out."""
    unit = conversation.unit_of_work.take()
    conversation.call_order.end(MQRC.HCONN_ERROR)

    sharing = conversation.context.sharing
    if conversation.tag_use is not None or sharing is not None:
        call = _when_gone(conversation, sharing, call)

    def left() -> None:
        if commit:
            conversation.unit_of_work.commit_or_back_out(call, unit)
        elif unit is None:
            succeed(call, 0)
        else:
            conversation.call_order.back_out(unit, partial(answer_written, call, 0, MQRC.STORAGE_MEDIUM_FULL))

    _leave(conversation, MQRC.HCONN_ERROR, left)


def _when_gone(conversation: Conversation, sharing: SharedQueues | None, call: Call[int]) -> Call[int]:
    """A call whose outcome answers the one given, when the connection's tag is free and the group knows that its
    handles are closed.
    """
    ended: Call[int] = Call()

    def answer() -> None:
        if call.done():
            return
        error = ended.exception()
        if error is None:
            call.set_result(ended.result())
        else:
            call.set_exception(error)

    def release(_: object) -> None:
        tags.release(conversation, answer if sharing is None else partial(sharing.handles.when_closed, answer))

    ended.add_done_callback(release)
    return ended


def break_off(conversation: Conversation, reason: MQRC, *, at_once: bool) -> None:
    """Calls end with `reason`, the unit of work is backed out, in slices unless it must be `at_once`."""
    if conversation.broken and not at_once:
        return
    unit = conversation.unit_of_work.take()
    conversation.call_order.end(reason)

    def left() -> None:
        if unit is not None:
            conversation.call_order.back_out(unit, lambda _: tags.release(conversation, _nothing))
        else:
            tags.release(conversation, _nothing)

    if at_once:
        deque(_leaving(conversation, reason), maxlen=0)
        left()
    else:
        _leave(conversation, reason, left)


def _leave(conversation: Conversation, reason: MQRC, left: Callable[[], None]) -> None:
    """Leave the queue manager, in slices; then call `left`."""

    def gone(error: Exception | None) -> None:
        if error is not None:
            mistake(error, "the end of a connection")
        late = conversation.unit_of_work.take()
        if late is not None:  # a wait came to its end in between
            conversation.call_order.back_out(late, nobody)
        contained(left)

    conversation.context.slices.start(_leaving(conversation, reason), gone)


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
    conversation.leases.give_back_all()
    yield from conversation.context.deliveries.leaving(conversation, reason)
    if conversation.context.external is not None:
        conversation.context.external.leaving(conversation, reason)
    conversation.manager.conversations.forget(conversation)
    conversation.tell_expelled = None
    if conversation.proof is not None:
        conversation.proof.conversations.pop(conversation, None)


def _nothing() -> None:
    """Nobody waits for the tag here."""


def ending_waits(handle: Handle, reason: MQRC) -> Work:
    """The gets that wait on a handle end with `reason`."""
    for waiter in list(handle.waiting):
        if waiter in handle.waiting:
            waiter.owner.ended(reason)
        yield
