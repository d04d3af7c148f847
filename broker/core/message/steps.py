"""The steps that handlers have finished for a message (transactions rules 7.1 to 7.6).

A step is kept with its message and goes with it. It counts when it is durable; until then its room is taken, and its
name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.message.rows import StepRow
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.step_fields import STEP_BYTES, STEPS_BYTES, STEPS_MAX, size_of

if TYPE_CHECKING:
    from collections.abc import Iterable

BUDGET: Final = 64 * 1024 * 1024
"""The bytes of all steps, unless the queue manager is told otherwise."""


class StepBudget:
    """The bytes of names and values of all steps of a queue manager, and the most that there may be."""

    __slots__ = ("bytes", "maximum")

    def __init__(self) -> None:
        self.bytes = 0
        self.maximum = BUDGET

    def check(self, size: int) -> None:
        """Raise RESOURCE_PROBLEM (2102) where there is no room for so many bytes more."""
        if self.bytes + size > self.maximum:
            raise MQError(
                MQRC.RESOURCE_PROBLEM,
                f"{self.bytes} bytes of steps are kept, and [limits] steps_bytes is {self.maximum}",
            )


class KeptSteps:
    """The finished steps of a message: `values` by name, in their order. `refused`: one was not, since the store had no
    room for it, and the attempt has not ended since.
    """

    __slots__ = ("_budget", "_coming", "_gone", "_place", "refused", "size", "values")

    def __init__(self, budget: StepBudget) -> None:
        self._budget = budget
        self._gone = False  # its message
        self._coming: set[str] = set()  # names of those that are on their way to the store
        self._place = 0  # the last that was given
        self.size = 0  # of those on their way too
        self.values: dict[str, bytes] = {}
        self.refused = False

    @property
    def coming(self) -> bool:
        """True if a step is on its way to the store."""
        return bool(self._coming)

    def begin(self, id: int, name: str, value: bytes) -> StepRow:
        """A step of the message with this id has been finished: the row to write.

        Raises OBJECT_ALREADY_EXISTS (2100), DATA_LENGTH_ERROR (2010) beyond what one message may have,
        RESOURCE_PROBLEM (2102) beyond what all may.
        """
        if name in self.values or name in self._coming:
            raise MQError(MQRC.OBJECT_ALREADY_EXISTS, f"step {name!r} of this message is finished already")
        size = size_of(name, value)
        count = len(self.values) + len(self._coming) + 1
        if len(value) > STEP_BYTES or self.size + size > STEPS_BYTES or count > STEPS_MAX:
            raise MQError(
                MQRC.DATA_LENGTH_ERROR,
                f"step {name!r} has {len(value)} bytes, the {count - 1} before it {self.size}: a step has at most "
                f"{STEP_BYTES} bytes, a message {STEPS_MAX} steps of {STEPS_BYTES} bytes in all",
            )
        self._budget.check(size)
        self._place += 1
        self.size += size
        self._budget.bytes += size
        self._coming.add(name)
        return StepRow(id, self._place, name, value)

    def finish(self, row: StepRow) -> None:
        """A step is durable."""
        self._coming.discard(row.name)
        self.values[row.name] = row.value

    def refuse(self, row: StepRow) -> None:
        """A step could not be written."""
        self._coming.discard(row.name)
        self.refused = True
        size = size_of(row.name, row.value)
        self.size -= size
        self._budget.bytes -= 0 if self._gone else size

    def load(self, rows: Iterable[StepRow]) -> None:
        """Take in steps that are durable, or come with their message, in their order, whatever room there is."""
        for row in rows:
            size = size_of(row.name, row.value)
            self.values[row.name] = row.value
            self._place = max(self._place, row.place)
            self.size += size
            self._budget.bytes += size

    def rows(self, id: int) -> list[StepRow]:
        """The rows of all steps, of the message with this id."""
        return [StepRow(id, place, name, value) for place, (name, value) in enumerate(self.values.items(), 1)]

    def drop(self) -> None:
        """The message has gone."""
        if not self._gone:
            self._gone = True
            self._budget.bytes -= self.size

    def come_back(self) -> None:
        """The message is put again at its place: nobody took the answer to the get that has removed it."""
        if self._gone:
            self._gone = False
            self._budget.bytes += self.size
