"""What batches leave, carried over to a snapshot piece by piece, is what they leave in memory: a twin test."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random
from sqlite3 import Connection

import pytest

from broker.storage.disk import database_thread
from broker.storage.memory import MemoryStore
from broker.storage.snapshot.checks import Checks
from broker.storage.snapshot.database import Snapshot
from broker.storage.snapshot.delta import Delta
from broker.storage.store import MessageRow, ObjectRow, Rows

from .samples import Contents, message

NAMES = [("QUEUE", "A"), ("QUEUE", "B"), ("PROCESS", "A")]


class Traffic:
    """Batches such as units of work leave them: they name only messages that are there."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._there: list[int] = []
        self._last = 0

    def batch(self) -> Rows:
        random = self._random
        inserts = [self._message() for _ in range(random.randrange(4))]
        self._there += [row.id for row in inserts]
        some = random.sample(self._there, min(len(self._there), random.randrange(6)))
        removals = some[::2]
        self._there = [id for id in self._there if id not in removals]
        numbers = random.sample(range(1, 6), len(NAMES))  # moved from name to name
        named = random.sample(range(len(NAMES)), random.choice([0, 0, 3]))
        return Rows(
            inserts=inserts,
            removals=removals,
            backouts=[(id, random.randrange(5)) for id in random.sample(some, len(some) // 2)],
            hardened=random.sample(some, len(some) // 2),
            objects=[ObjectRow(*NAMES[at], numbers[at], "KIND", random.randbytes(3)) for at in named],
            dropped=[random.choice(NAMES)] if named or random.random() < 0.1 else [],
            high_water=random.randrange(1000),
        )

    def _message(self) -> MessageRow:
        self._last += self._random.randrange(1, 3)
        size = self._random.choice([0, 10, 2000])
        return message(self._last, self._random.randbytes(size), persistent=self._random.randrange(2))


def write(snapshot: Snapshot, db: Connection, delta: Delta, number: int) -> None:
    """What a carry-over does, in one piece."""
    snapshot.begin(db)
    snapshot.insert(db, list(delta.inserts.values()))
    snapshot.count(db, delta.counters.items())
    snapshot.remove(db, list(delta.removals))
    snapshot.define(db, list(delta.objects.items()))
    snapshot.raise_high_water(delta.high_water)
    snapshot.commit(db, number, 1)


def in_memory(store: MemoryStore) -> Contents:
    return Contents(
        sorted(store._messages.values()), [store._objects[key] for key in sorted(store._objects)], store._high_water
    )


def in_snapshot(snapshot: Snapshot, db: Connection) -> Contents:
    rows, total = snapshot.load_messages(db, -1, 10_000)
    snapshot.check_tally(len(rows), total)
    data, damaged = snapshot.read_data(db, [row.id for row in rows])
    assert damaged == []
    return Contents(
        [row._replace(data=data[row.id]) for row in rows], snapshot.load_objects(db), snapshot.tally.high_water
    )


@pytest.mark.parametrize("seed", range(20))
def test_what_is_carried_over_is_what_is_in_memory(tmp_path: Path, seed: int) -> None:
    """Now and then two deltas become one, as after a carry-over that found no room."""
    random = Random(seed)
    traffic, memory = Traffic(random), MemoryStore()
    snapshot = Snapshot(tmp_path / "evermq-1.db", b"i" * 16, Checks(seed))
    with closing(database_thread.connect(snapshot.path)) as db:
        db.execute("PRAGMA synchronous = OFF")
        snapshot.create(db)
        for number in range(1, 15):
            deltas = [Delta() for _ in range(random.randrange(1, 4))]
            for delta in deltas:
                for _ in range(random.randrange(4)):
                    rows = traffic.batch()
                    delta.apply(rows)
                    memory._take(rows)
            for later in deltas[1:]:
                deltas[0].follow(later)
            write(snapshot, db, deltas[0], number)
            assert in_snapshot(snapshot, db) == in_memory(memory)
    db.close()


def test_a_message_that_came_and_went_leaves_nothing() -> None:
    delta = Delta()
    delta.apply(Rows(inserts=[message(1), message(2)], hardened=[1]))
    delta.apply(Rows(removals=[1], backouts=[(2, 3)]))
    assert list(delta.inserts.values()) == [message(2)._replace(backout_count=3)]
    assert not delta.removals
    assert not delta.counters


def test_counters_of_a_message_in_the_snapshot_go_with_its_removal() -> None:
    delta = Delta()
    delta.apply(Rows(hardened=[1], backouts=[(2, 3)]))
    delta.apply(Rows(hardened=[2]))
    assert delta.counters == {1: (None, 1), 2: (3, 1)}
    delta.apply(Rows(removals=[1]))
    assert (delta.counters, list(delta.removals)) == ({2: (3, 1)}, [1])


def test_a_delta_that_changes_nothing_is_false() -> None:
    assert not Delta()
    for rows in (Rows(removals=[1]), Rows(hardened=[1]), Rows(dropped=[NAMES[0]]), Rows(high_water=1)):
        delta = Delta()
        delta.apply(rows)
        assert delta
