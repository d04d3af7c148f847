"""Units that wait to be written by the journal, bodies that wait to be read, and the end of those that cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.message.rows import Rows
from broker.engine.mistakes import contained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from broker.storage.store import Done, StoreFullError


class Submission(NamedTuple):
    """A frozen unit on its way: its rows, and who settles it (with None, or the error that undid it). `caller` is the
    connection with whose earlier units it stands or falls when the store is full.
    """

    rows: Rows
    settled: Done
    caller: object | None


class Reading(NamedTuple):
    """Bodies to fetch: the ids of their messages, and who takes them (or the error that left none to take, or those
    that are good and DataDamagedError, which may be about the messages of others).
    """

    ids: Sequence[int]
    fetched: Callable[[dict[int, bytes], Exception | None], None]


def answer_readings(readings: Iterable[Reading], bodies: dict[int, bytes], error: Exception | None) -> None:
    """Hand bodies to those who asked for them."""
    for reading in readings:
        contained(reading.fetched, bodies, error)


def errors_when_full(batch: Iterable[Submission], full: StoreFullError) -> list[Exception | None]:
    """Journal rule 6: the error for the units that hold a put, and for the later ones of their connections."""
    callers: set[object] = set()
    errors: list[Exception | None] = []
    for rows, _, caller in batch:
        falls = rows.grows or caller in callers
        if falls and caller is not None:
            callers.add(caller)
        errors.append(full if falls else None)
    return errors


def undone(submission: Submission, full: StoreFullError) -> Submission:
    """Return what stands for a unit that is not to be written: settled in its turn, with this error."""

    def undo(_: Exception | None) -> None:
        submission.settled(full)

    return Submission(Rows(), undo, submission.caller)
