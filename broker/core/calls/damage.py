"""Messages whose data is damaged: what is kept of it is not what was put (semantics 5.10).

The get or browse that finds it out fails. The message stays on its queue, set aside: nobody who comes by in queue order
meets it again, and whoever asks for just this message is told the same. So the queue goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.message.entry import AVAILABLE, DAMAGED, DELAYED, GET_PENDING, LOCKED
from broker.core.queues import locking
from broker.core.queues.queue import LocalQueue
from broker.core.queues.waiting import end_waits
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.core.message.entry import Entry
    from broker.core.queues.effects import Effects
    from broker.core.queues.shelf.selection import Request
    from broker.core.queues.shelf.shelf import Shelf


def refusal(entry: Entry, why: str) -> MQError:
    """The error of a get or browse that meets the message: OBJECT_DAMAGED (2101). `why` names the file."""
    detail = f"the data of message {entry.msg_id.hex()} on {entry.queue.name} is damaged, so nobody is given it: {why}"
    return MQError(MQRC.OBJECT_DAMAGED, detail)


def set_aside(effects: Effects, entry: Entry, why: str) -> bool:
    """Give the message to nobody from now on. Return False if it was set aside before. One that is in somebody's unit
    of work is set aside when it comes back, a delayed one when its instant comes. Those who wait for just this
    message wait no longer.
    """
    queue = entry.queue
    assert isinstance(queue, LocalQueue)  # only such a queue has its messages in memory
    if entry.key in queue.shelf.damaged or entry.state not in (AVAILABLE, LOCKED, GET_PENDING, DELAYED):
        return False
    if entry.state == LOCKED:
        holder = next(handle for handle in queue.handles if entry in handle.position.locked)
        locking.unlock(holder, effects.to_offer)
    if entry.state == AVAILABLE:
        queue.set_aside(entry, why)
    else:
        queue.shelf.damaged[entry.key] = why
    end_waits([waiter for waiter in queue.waiters if _names(waiter.request, entry)], MQRC.OBJECT_DAMAGED, effects)
    return True


def check(shelf: Shelf, request: Request, now: float) -> None:
    """There is no message for a get: raise OBJECT_DAMAGED (2101) if it asks for just one that is set aside."""
    for key, why in shelf.damaged.items():
        entry = shelf.entries[key]
        if entry.state in (DAMAGED, DELAYED) and _names(request, entry) and not entry.expired(now):
            raise refusal(entry, why)


def _names(request: Request, entry: Entry) -> bool:
    """True if a get asks for just this message: by MsgId or token, or as the next one in logical order."""
    named = request.msg_id is not None or request.token is not None or request.item is not None
    return named and request.matches(entry)
