"""Messages for which handlers have finished steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.message.handling import SteppedHandling
from broker.core.message.rows import Rows
from broker.core.message.steps import KeptSteps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.message.entry import Entry
    from broker.core.message.steps import StepBudget


def steps_of(entry: Entry) -> KeptSteps | None:
    """The steps of a message; None where it has none."""
    return None if entry.handling is None else entry.handling.steps


def steps_coming(entry: Entry) -> bool:
    """True if a step of a message is on its way to the store. What becomes of the message comes after it."""
    return entry.handling is not None and entry.handling.steps is not None and entry.handling.steps.coming


def with_room(entry: Entry, budget: StepBudget) -> KeptSteps:
    """The steps of a message, which has room for them from now on."""
    handling = entry.handling
    if handling is not None and handling.steps is not None:
        return handling.steps
    steps = KeptSteps(budget)
    if handling is None:
        entry.handling = SteppedHandling(0.0, None, steps)
    else:
        entry.handling = SteppedHandling(handling.not_before, handling.failure, steps)
    return steps


def rows_of(entries: Iterable[Entry]) -> Rows:
    """The rows that keep messages, with their steps."""
    rows = Rows()
    for entry in entries:
        rows.inserts.append(entry.row())
        steps = steps_of(entry)
        if steps is not None:
            rows.steps += steps.rows(entry.id)
    return rows
