"""The common part of the tests of triggering: kinds of triggered queues, and what is done with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mqi import MQOO, MQTT, MessageDescriptor

if TYPE_CHECKING:
    from broker.core.queues.queue import LocalQueue
    from tests.core.world import Program, World

NONE, FIRST, EVERY, DEPTH = MQTT.NONE.value, MQTT.FIRST.value, MQTT.EVERY.value, MQTT.DEPTH.value
TRIGGERED: dict[str, int | str] = {"TRIGGER": 1, "PROCESS": "P"}
OUT = MQOO.OUTPUT
"""Who only puts does not keep FIRST from firing."""

SWITCHED_OFF: list[dict[str, int | str]] = [
    {"TRIGGER": 0},
    {"TRIGTYPE": MQTT.NONE.value},
    {"INITQ": "I"},
    {"PROCESS": ""},
]
"""Changes that take a queue off the fast path; FIRST needs no process."""


def put(world: World, *priorities: int) -> None:
    """A program that puts messages, each outside syncpoint."""
    access = world.open("Q", OUT)
    for priority in priorities:
        access.put(b"", 0, MessageDescriptor(priority=priority))
    access.close()


def take(world: World, queue: LocalQueue, limit: int = 10, monitor: Program | None = None) -> list[int]:
    """The leases that a monitor gets."""
    hconn = (monitor or world.connect()).hconn
    return [lease for lease, _ in world.manager.triggers.take(queue, hconn, limit)]


def open_and_close(world: World) -> None:
    """A server that looks in."""
    world.open("Q", MQOO.INPUT_SHARED).close()
