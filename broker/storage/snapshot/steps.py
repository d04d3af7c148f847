"""The steps of handlers in a snapshot (log rule 6.8): a row each, counted and summed with the definitions.

As long as a snapshot has had none since it was opened, nothing of it is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.storage.snapshot.errors import reading, writing
from broker.storage.snapshot.statements import STEP_ROWS_MAX, flat, in_chunks, statement
from broker.storage.store import StepRow, StoreUnusableError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from broker.storage.snapshot.checks import Checks

STEPS_SINCE: Final = 5
"""The first version of the schema that has steps."""

FIRST_STEP: Final = (-1, 0)
"""Before all steps."""


class SnapshotSteps:
    """A part of `Snapshot`. `_has_steps`: there are some, or were."""

    path: Path
    version: int
    _checks: Checks
    _has_steps: bool

    def load_steps(self, db: sqlite3.Connection, after: tuple[int, int], limit: int) -> list[StepRow]:
        """The next `limit` steps behind one; raises StoreUnusableError, as when one is not what was written."""
        if not self._has_steps:
            return []
        with reading(self.path):
            rows = db.execute(statement("load_steps"), (*after, limit)).fetchall()
            found = [StepRow._make(row[:-1]) for row in rows]
            for each, row in zip(found, rows, strict=True):
                if self._checks.step(each) != row[-1]:
                    raise self._damaged(f"step {each.place} of message {each.id} is not what was written")
        return found

    def store_steps(self, db: sqlite3.Connection, rows: Iterable[StepRow]) -> None:
        """Add steps."""
        checked = [(*row, self._checks.step(row)) for row in rows]
        self._has_steps = self._has_steps or bool(checked)
        with writing():
            for sql, parameters in flat("store_steps", checked):
                db.execute(sql, parameters)
        self._count_objects(len(checked), sum(row[-1] for row in checked))

    def _look_for_steps(self, db: sqlite3.Connection) -> None:
        """The snapshot is opened."""
        if self.version >= STEPS_SINCE:
            (found,) = db.execute(statement("any_step")).fetchone()
            self._has_steps = bool(found)

    def _look_at_steps(self, db: sqlite3.Connection) -> None:
        """Look at all of them; raises StoreUnusableError."""
        after = FIRST_STEP
        while steps := self.load_steps(db, after, STEP_ROWS_MAX):
            after = steps[-1][:2]

    def _sum_steps(self, db: sqlite3.Connection) -> tuple[int, int]:
        """Return the number of all steps, and the sum of their checks."""
        if not self._has_steps:
            return 0, 0
        count, total = db.execute(statement("sum_steps")).fetchone()
        return count, total

    def _drop_steps(self, db: sqlite3.Connection, ids: Sequence[int]) -> None:
        """Drop the steps of messages that are removed."""
        if not self._has_steps:
            return
        for (sql, chunk), (drop, _) in zip(in_chunks("sum_some_steps", ids), in_chunks("drop_steps", ids), strict=True):
            count, total = db.execute(sql, chunk).fetchone()
            if count:
                db.execute(drop, chunk)
                self._count_objects(-count, -total)

    def _count_objects(self, count: int, total: int) -> None:
        raise NotImplementedError

    def _damaged(self, what: str) -> StoreUnusableError:
        raise NotImplementedError


def others_than_written(objects: int, keys: int, steps: int, written: int) -> str:
    """Say that definitions, keys and steps are not those that were written, so many of all together."""
    counted = f"{objects} definitions and {keys} keys of puts"
    if steps:
        counted = f"{objects} definitions, {keys} keys of puts and {steps} steps"
    return f"it has {counted}, and they are not the {written} written"
