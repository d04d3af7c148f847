"""The conditions that do not depend on messages: whether a queue can trigger at all (C5 to C10).

A queue that names an initiation queue triggers by trigger messages, and all of these have to be so when the event
happens. One that names none is on the fast path (R-8): there GET(DISABLED) only holds starts back (R-11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.mqi.constants.attribute_values import MQTT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.names.objects import Objects
    from broker.core.queues.message_queue import MessageQueue
    from broker.core.queues.queue import LocalQueue

_NONE = MQTT.NONE.value
_FIRST = MQTT.FIRST.value
_DEPTH = MQTT.DEPTH.value


class Unmet(NamedTuple):
    """A condition that is not met: its number, and in words what is so instead."""

    number: str
    text: str


def unmet(objects: Objects, queue: MessageQueue) -> Iterator[Unmet]:
    """The conditions that keep a queue from triggering now."""
    if not queue.trigger_on:
        again = ": DEPTH switches it off when it fires, TRIGGER arms it again" if queue.trigger_type == _DEPTH else ""
        yield Unmet("C9", f"it is NOTRIGGER{again}")
    if queue.trigger_type == _NONE:
        yield Unmet("C10", "it is TRIGTYPE(NONE)")
    yield from _unmet_by_objects(objects, queue)


def _unmet_by_objects(objects: Objects, queue: MessageQueue) -> Iterator[Unmet]:
    if queue.get_inhibited:
        yield Unmet("C5", "it has GET(DISABLED)")
    name, fast = queue.process_name, not queue.initiation_q_name
    if name and name not in objects.processes:
        yield Unmet("C6", f"its process {name} does not exist")
    elif not name and not (queue.trigger_type == _FIRST if fast else queue.transmits):
        yield Unmet("C6", "it names no process")
    if not fast:
        yield from _unmet_by_initiation_queue(objects.queues.get(queue.initiation_q_name), queue.initiation_q_name)


def _unmet_by_initiation_queue(queue: LocalQueue | None, name: str) -> Iterator[Unmet]:
    if queue is None or queue.deleted:
        yield Unmet("C7", f"there is no local queue {name}, its initiation queue")
        return
    if queue.transmits:
        yield Unmet("C7", f"its initiation queue {name} is USAGE(XMITQ)")
    if queue.get_inhibited:
        yield Unmet("C7", f"its initiation queue {name} has GET(DISABLED)")
    if queue.put_inhibited:
        yield Unmet("C7", f"its initiation queue {name} has PUT(DISABLED)")
    if not queue.input_count:
        yield Unmet("C8", f"no program has its initiation queue {name} open for input: no trigger monitor serves it")
