"""What the workers of `peers_deaths.py` share: the work, what they are told of it, and the place at which they die.

An order becomes a row, and a follow-up with its number. A worker reads what it is told in a variable, and its next
death in a file of its folder, which is gone when it has died: a worker lives on where one process of it dies alone.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple, Self

VARIABLE: Final = "PEERS_DEATHS"
DEATH: Final = "death.json"

ORDERS: Final = "orders"
FOLLOW_UPS: Final = "follow-ups"
"""The names of the queues; nobody serves that of the follow-ups."""

AT_ONCE: Final = 2
"""The number of orders that a worker handles at a time."""


class KillPlace(StrEnum):
    """A place in the work at which a worker dies."""

    BEFORE = "before the row"
    COMMITTED = "behind the row's commit"
    FOLLOWED = "behind the follow-up"
    WORKED = "behind the work, before its acknowledgement"


class PeerDeath(NamedTuple):
    """A death: where, behind how many orders that pass the place, and of all processes of the worker or of one."""

    place: KillPlace
    skipped: int = 0
    whole: bool = True

    def write(self, folder: Path) -> None:
        """Leave it for the worker in a folder, wholly or not at all."""
        (folder / f"{DEATH}.new").write_text(json.dumps(self), "utf-8")
        (folder / f"{DEATH}.new").replace(folder / DEATH)

    @classmethod
    def read(cls) -> Self | None:
        """Return that of the current folder; None where there is none."""
        try:
            place, skipped, whole = json.loads(Path(DEATH).read_text("utf-8"))
        except FileNotFoundError:
            return None
        return cls(KillPlace(place), skipped, whole)


_passed: Counter[PeerDeath] = Counter()


def reached(place: KillPlace) -> None:
    """The work has come to a place: die, if the next death is there."""
    death = PeerDeath.read()
    if death is None or death.place is not place:
        return
    _passed[death] += 1
    if _passed[death] <= death.skipped:
        return
    with suppress(FileNotFoundError):  # another process of this worker dies of it
        Path(DEATH).unlink()
        if death.whole:
            os.killpg(0, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True, kw_only=True)
class PeerTask:
    """The database, which has a schema of its own for the rows; Redis; and how the work is written.

    `keyed`: the program has made the order's number a key, and writes no second row. `together`: the follow-up is in
    the transaction of the row.
    """

    dsn: str
    redis: str = ""
    prefix: str = ""
    keyed: bool = False
    together: bool = False

    @property
    def table(self) -> str:
        """The statement that makes the table of rows."""
        return f"CREATE TABLE orders (number bigint {'PRIMARY KEY' if self.keyed else 'NOT NULL'})"

    @property
    def insert(self) -> str:
        """The statement that writes the row of an order."""
        return f"INSERT INTO orders VALUES (%s){' ON CONFLICT DO NOTHING' if self.keyed else ''}"

    def environment(self) -> dict[str, str]:
        """The variables of a worker."""
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def read(cls) -> Self:
        """Return that of this process; one of nothing where it was told nothing."""
        return cls(**json.loads(os.environ.get(VARIABLE) or '{"dsn": ""}'))
