"""The ballast on a disk that is nearly full, beside room in the database and in SQLite's log (log rule 9.4)."""

from __future__ import annotations

from errno import ENOSPC
from pathlib import Path

import pytest

from broker.storage.reserve import Reserve

FILE = 1000
CARRIED = 1500  # bytes in the database, at most, of a log file
BALLAST = 4000


class NearlyFull:
    """A disk with room for so many bytes."""

    path = Path("data")

    def __init__(self, room: int) -> None:
        self.room = room

    def occupy(self, _: str, size: int) -> None:
        if size > self.room:
            raise OSError(ENOSPC, "full")


@pytest.mark.parametrize(
    ("room", "free_pages", "log", "expected"),
    [
        (BALLAST, 0, 0, (True, True, True)),
        (BALLAST - 1, CARRIED - 1, CARRIED, (False, False, False)),
        (BALLAST - 1, CARRIED, CARRIED, (False, False, True)),
        (500, CARRIED, CARRIED - 500, (True, False, True)),
        (499, CARRIED, CARRIED - 500, (False, False, False)),
    ],
    ids=["whole", "a byte too few free pages", "just enough of them", "smaller ballast", "not even that"],
)
def test_free_pages_and_the_log_of_sqlite_make_up_for_a_ballast(
    room: int, free_pages: int, log: int, expected: tuple[bool, bool, bool]
) -> None:
    reserve = Reserve(NearlyFull(room), BALLAST, FILE)  # type: ignore[arg-type]  # nothing else is asked of it
    reserve.occupy(free_pages, log)
    assert (reserve.held, reserve.whole, reserve.enough) == expected
