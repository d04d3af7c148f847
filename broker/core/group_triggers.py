"""Trigger events of shared queues (triggers 4): each queue manager of the group judges for itself, when the database
tells of messages that have become available.

On the fast path a trigger EVERY queue is the exception: there only the queue manager that executed the committing put
counts it, so that each message starts one handler in the group (`Triggers.arrived`). What a failed one has put counts
at its recoverer (queue-sharing rule 10.3.10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.message.entry import order_key
from broker.mqi.constants.attribute_values import MQTT

if TYPE_CHECKING:
    from broker.core.queues.shared_queue import SharedQueue
    from broker.core.triggers import Triggers

_FIRST = MQTT.FIRST.value
_EVERY = MQTT.EVERY.value
_DEPTH = MQTT.DEPTH.value


class Arrival(NamedTuple):
    """Counts from the database: so many messages have been put and committed, so many were on the queue before. Of
    those that have been put so many start something of their own: one that the queue manager has cut counts once.
    """

    arrived: int
    before: int
    starting: int


class Census(NamedTuple):
    """The state of a queue now: available messages that qualify (no more are counted than `enough` says), handles for
    input that other members of the group have open, and whether any handle of any member is exclusive.
    """

    qualifying: int
    elsewhere: int
    exclusive: bool


def counted(triggers: Triggers, queue: SharedQueue) -> bool:
    """True if each message counts a start, at the queue manager that has put it."""
    return queue.trigger_on and queue.trigger_type == _EVERY and triggers.fast_path(queue)


def judged(triggers: Triggers, queue: SharedQueue) -> bool:
    """True if arrivals on the queue are judged here: it triggers, and not by counting its own puts."""
    return queue.trigger_on and not counted(triggers, queue)


def may_be_stranded(triggers: Triggers, queue: SharedQueue) -> bool:
    """True if nobody of this queue manager is on the way to the messages that the queue may have (`Triggers.sweep`)."""
    on_the_way = queue.pending_starts or queue.input_count or triggers.leases.running(queue)
    return counted(triggers, queue) and not (on_the_way or queue.get_inhibited)


def boundary(queue: SharedQueue, *, elsewhere: bool) -> int:
    """Before which place messages count: TRIGMPRI, or any while other members have the queue open for input."""
    return order_key((0 if elsewhere else queue.trigger_priority) - 1, 0)


def enough(queue: SharedQueue, arrival: Arrival | None) -> int:
    """Return the largest number of qualifying messages that need be counted."""
    least = queue.trigger_depth if queue.trigger_type == _DEPTH else 1
    return max(least, 1 + (arrival.arrived if arrival is not None else 0))


def arrived(triggers: Triggers, queue: SharedQueue, arrival: Arrival, census: Census, tick: float) -> None:
    """Messages have been put and committed, here or on another member (E1)."""
    if not judged(triggers, queue) or census.exclusive or not census.qualifying:
        return
    type = _FIRST if census.elsewhere else queue.trigger_type
    if type == _EVERY:
        triggers.raise_events(queue, min(arrival.starting, census.qualifying), tick)
    elif not queue.input_count and _reached(triggers, queue, type, arrival, census, tick):
        triggers.raise_events(queue, 1, tick)


def last_input_closed(triggers: Triggers, queue: SharedQueue, census: Census, tick: float) -> None:
    """E3: this queue manager's last handle for input is closed."""
    if queue.trigger_type != _EVERY:
        looked_at(triggers, queue, census, tick)


def looked_at(triggers: Triggers, queue: SharedQueue, census: Census, tick: float) -> None:
    """E4 to E7: something has changed that a condition rests on. For EVERY one message, however many there are."""
    if not judged(triggers, queue) or census.exclusive:
        return
    type = _FIRST if census.elsewhere else queue.trigger_type
    if type != _EVERY and queue.input_count:
        return
    if census.qualifying >= (queue.trigger_depth if type == _DEPTH else 1):
        triggers.raise_events(queue, 1, tick)


def _reached(triggers: Triggers, queue: SharedQueue, type: int, arrival: Arrival, census: Census, tick: float) -> bool:
    """C3: these messages are the first ones, or the depth is reached with them; or E2."""
    if type == _DEPTH:
        return census.qualifying >= queue.trigger_depth
    if arrival.before == 0 or census.qualifying <= arrival.arrived:
        return True
    return triggers.interval_over(queue, tick)
