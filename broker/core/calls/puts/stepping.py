"""Messages that are put with steps: dead letters that are put back to where they came from (transactions rule 7.5).

What a program says in a property is not believed by itself: it could say that a step is finished that never was. So
steps are taken from a put that sets all context, as who puts a dead letter back does, and needs a right for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.message.entry import FullEntry
from broker.core.message.headers import properties
from broker.core.message.rows import StepRow
from broker.core.message.stepped import steps_of, with_room
from broker.core.queues.unit_extras import UnitExtras
from broker.mqi.layouts import folders, rfh2
from broker.mqi.step_fields import unpack_steps

if TYPE_CHECKING:
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.queues.unit import Unit

FOLDER: Final = "evermq"
STEPS: Final = "evermq.steps"
_WHY: Final = "evermq.why"
_REPLAYS: Final = "evermq.replays"


def take(manager: Manager, entry: Entry) -> None:
    """Turn the property of a completed message that says its steps into these, unless it is still a dead letter.

    Raises RESOURCE_PROBLEM (2102) where there is no room for them.
    """
    texts = rfh2.unpack(properties.folders_of(entry.properties))
    own = folders.decode(text for text in texts if folders.read(text).name == FOLDER)
    packed = own.pop(STEPS, None)
    if not isinstance(packed, bytes) or _WHY in own or _REPLAYS not in own:
        return
    steps = unpack_steps(packed)
    if steps is None:
        return
    rows = [StepRow(entry.id, place, name, value) for place, (name, value) in enumerate(steps.items(), 1)]
    budget = manager.deliveries.step_budget
    budget.check(len(packed))
    assert isinstance(entry, FullEntry)
    kept = [text for text in texts if folders.read(text).name != FOLDER]
    entry.properties = rfh2.pack([*kept, *folders.encode(own)])
    with_room(entry, budget).load(rows)


def join(entry: Entry, unit: Unit) -> None:
    """A message with steps is placed as part of a unit: they are written with it."""
    unit.extras = unit.extras or UnitExtras()
    unit.extras.stepped.append(entry)


def come_back(entry: Entry, unit: Unit) -> None:
    """A message is put again at its place, with the steps that it may have."""
    steps = steps_of(entry)
    if steps is not None:
        steps.come_back()
        join(entry, unit)
