"""The tick that a periodic function is given for its run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Tick:
    """The instant of a run.

    `scheduled_at` is when it was due, in the zone of the schedule (UTC for `every`), however late it begins and at each
    of its attempts. `missed`: so many instants, this one among them, came while nobody served the schedule, and this
    run is for all of them; 0 for a run on time.
    """

    scheduled_at: datetime
    missed: int = 0
