"""Steps that handlers finish for the message of a delivery (transactions rules 7.1 to 7.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.message.stepped import with_room
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.step_fields import check_step_name

if TYPE_CHECKING:
    from broker.core.deliveries.delivery import Delivery
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.message.rows import StepRow
    from broker.core.message.steps import KeptSteps


class FinishedStep(NamedTuple):
    """A step that is to be made durable, of a message that is kept as long as the process only unless `written`."""

    steps: KeptSteps
    row: StepRow
    written: bool


def begin(manager: Manager, delivery: Delivery, name: str, value: bytes) -> FinishedStep:
    """A step of the message of a delivery is finished.

    Raises OPTION_NOT_VALID_FOR_TYPE (2045) where the delivery is no single message, or its queue is shared,
    OPTIONS_ERROR (2046) for a name that is none, and what `KeptSteps.begin` does.
    """
    q_name = delivery.service.queue.name
    if delivery.service.queue.shared:
        raise MQError(
            MQRC.OPTION_NOT_VALID_FOR_TYPE,
            f"{q_name} is a shared queue, whose messages the queue-sharing group keeps: it keeps no steps with them",
        )
    if delivery.service.options.groups or len(delivery.parts or delivery.entries) > 1:
        raise MQError(MQRC.OPTION_NOT_VALID_FOR_TYPE, f"a delivery of {q_name} with more than one message has no steps")
    try:
        check_step_name(name)
    except ValueError as error:
        raise MQError(MQRC.OPTIONS_ERROR, str(error)) from None
    entry = delivery.entries[0]
    steps = with_room(entry, manager.deliveries.step_budget)
    return FinishedStep(steps, steps.begin(entry.id, name, value), written=bool(entry.persistence))


def begin_attempt(entries: list[Entry]) -> None:
    """An attempt begins: what the store has refused in one before is its affair."""
    for entry in entries:
        if entry.handling is not None and entry.handling.steps is not None:
            entry.handling.steps.refused = False


def refused(entries: list[Entry]) -> bool:
    """True if the store had no room for a step in this attempt."""
    found = [entry.handling.steps for entry in entries if entry.handling is not None]
    return any(steps is not None and steps.refused for steps in found)
