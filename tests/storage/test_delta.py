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
from broker.storage.snapshot.database import FIRST_KEY, Snapshot
from broker.storage.snapshot.delta import Delta
from broker.storage.snapshot.steps import FIRST_STEP
from broker.storage.store import KeyRow, MessageRow, Numbering, ObjectRow, Rows, StepRow

from .samples import Contents, key, message, step

NAMES = [("QUEUE", "A"), ("QUEUE", "B"), ("PROCESS", "A")]


class Traffic:
    """Batches such as units of work leave them: they name only messages that are there. One that is gone may come
    again, as messages that are not persistent do when they are claimed again.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._there: list[int] = []
        self._gone: list[int] = []
        self._last = 0
        self._steps = 0

    def batch(self) -> Rows:
        random = self._random
        inserts = [self._message() for _ in range(random.randrange(4))]
        if self._gone and random.random() < 0.5:
            inserts.append(message(self._gone.pop(), b"again", persistent=0))
        self._there += [row.id for row in inserts]
        some = random.sample(self._there, min(len(self._there), random.randrange(6)))
        removals = some[::2]
        self._there = [id for id in self._there if id not in removals]
        self._gone += removals
        random.shuffle(self._gone)
        numbers = random.sample(range(1, 6), len(NAMES))  # moved from name to name
        named = random.sample(range(len(NAMES)), random.choice([0, 0, 3]))
        return Rows(
            inserts=inserts,
            removals=removals,
            backouts=[(id, random.randrange(5)) for id in random.sample(some, len(some) // 2)],
            hardened=random.sample(some, len(some) // 2),
            objects=[ObjectRow(*NAMES[at], numbers[at], "KIND", random.randbytes(3)) for at in named],
            dropped=[random.choice(NAMES)] if named or random.random() < 0.1 else [],
            states=[ObjectRow("CONSUMER", "C", 9, "CONSUMER", random.randbytes(3)) for _ in range(random.randrange(2))],
            high_water=random.randrange(1000),
            held=[self._run(some, random.randrange(1, 9)) for _ in range(random.randrange(3))],
            placed=[self._run(some, 0) for _ in range(random.randrange(2))],
            handled=[(id, random.randrange(5), random.randbytes(random.randrange(9))) for id in some[1::3]],
            marked=[(id, random.choice((2, 3))) for id in some[2::3]],
            keys=[self._key() for _ in range(random.randrange(3))],
            freed=[self._key()[:2] for _ in range(random.randrange(3))],
            steps=[self._step(id) for id in (*some, *(row.id for row in inserts)) if random.random() < 0.3],
        )

    def _step(self, id: int) -> StepRow:
        self._steps += 1
        return StepRow(id, self._steps, "step", self._random.randbytes(self._random.choice((0, 7, 4000))))

    def _key(self) -> KeyRow:
        """One of a few, so that they come and go."""
        id = self._random.randrange(20)
        return key(id, bytes([id % 5]), queue=id % 2, until=self._random.choice((0.0, 4e9)))

    def _run(self, ids: list[int], holder: int) -> Numbering:
        """Some of the messages, in any order."""
        return Numbering(
            holder, self._random.randrange(1, 10**6), self._random.sample(ids, self._random.randrange(len(ids) + 1))
        )

    def _message(self) -> MessageRow:
        self._last += self._random.randrange(1, 3)
        size = self._random.choice([0, 10, 2000])
        row = message(self._last, self._random.randbytes(size), persistent=self._random.randrange(2))
        if self._random.random() < 0.3:
            row = row._replace(holder=7, sequence=self._random.randrange(1, 100), place=self._random.randrange(2))
        return row


def write(snapshot: Snapshot, db: Connection, delta: Delta, number: int) -> None:
    """Carry over, in one piece."""
    snapshot.begin(db)
    snapshot.change(db, delta.changed(), delta.counted)
    snapshot.remove(db, list(delta.removals))
    snapshot.insert(db, list(map(delta.left, delta.inserts.values())))
    snapshot.define(db, list(delta.objects.items()))
    snapshot.drop_keys(db, list(delta.keys))
    snapshot.store_keys(db, [row for row in delta.keys.values() if row is not None])
    snapshot.store_steps(db, [row for each in delta.steps.values() for row in each.values()])
    snapshot.raise_high_water(delta.high_water)
    snapshot.commit(db, number, 1)


def in_memory(store: MemoryStore) -> Contents:
    return Contents(
        sorted(store._messages.values()),
        [store._objects[name] for name in sorted(store._objects)],
        store._high_water,
        tuple(sorted(store._keys.values())),
        tuple(sorted(row for each in store._steps.values() for row in each.values())),
    )


def in_snapshot(snapshot: Snapshot, db: Connection) -> Contents:
    rows, total = snapshot.load_messages(db, -1, 10_000)
    snapshot.check_tally(len(rows), total)
    data, damaged = snapshot.read_data(db, [row.id for row in rows])
    assert damaged == []
    return Contents(
        [row._replace(data=data[row.id]) for row in rows],
        snapshot.load_objects(db),
        snapshot.tally.high_water,
        tuple(snapshot.load_keys(db, FIRST_KEY, 100)),
        tuple(snapshot.load_steps(db, FIRST_STEP, 1000)),
    )


@pytest.mark.parametrize("seed", range(60))
def test_what_is_carried_over_is_what_is_in_memory(tmp_path: Path, seed: int) -> None:
    """Log cases 54 and 56. Now and then two deltas become one, as after a carry-over that found no room."""
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
    run = Numbering(7, 1, [1])
    for rows in (
        Rows(removals=[1]), Rows(hardened=[1]), Rows(dropped=[NAMES[0]]), Rows(high_water=1), Rows(held=[run]),
        Rows(placed=[run]), Rows(states=[ObjectRow(*NAMES[0], 1, "KIND", b"")]), Rows(handled=[(1, 0, b"")]),
        Rows(marked=[(1, 2)]), Rows(keys=[key(1)]), Rows(freed=[key(1)[:2]]), Rows(steps=[step(1)]),
    ):  # fmt: skip
        delta = Delta()
        delta.apply(rows)
        assert delta


def counted(delta: Delta, row: MessageRow) -> tuple[int, int, int, int, int, bytes]:
    """Return what may change in a message, as a delta leaves it."""
    left = delta.left(row)
    return left.backout_count, left.hardened, left.holder, left.sequence, left.place, left.handling


HOLD, HOLD_AGAIN = Rows(held=[Numbering(7, 5, [1])]), Rows(held=[Numbering(8, 1, [1])])
PLACE, BACK_OUT, MARK = Rows(placed=[Numbering(0, 50, [1])]), Rows(backouts=[(1, 3)]), Rows(hardened=[1])
FAIL, FAIL_AGAIN, MARK_ALONE = Rows(handled=[(1, 1, b"one")]), Rows(handled=[(1, 2, b"two")]), Rows(marked=[(1, 3)])

STEPS = {
    "held": ([HOLD], (0, 0, 7, 5, 0, b"")),
    "held again": ([HOLD, HOLD_AGAIN], (0, 0, 8, 1, 0, b"")),
    "released": ([HOLD, BACK_OUT], (3, 0, 0, 0, 0, b"")),
    "released and held again": ([HOLD, BACK_OUT, HOLD_AGAIN], (3, 0, 8, 1, 0, b"")),
    "placed": ([HOLD, PLACE], (0, 0, 0, 0, 50, b"")),
    "placed, held, released": ([PLACE, HOLD, BACK_OUT], (3, 0, 0, 0, 50, b"")),
    "placed and held": ([PLACE, HOLD], (0, 0, 7, 5, 50, b"")),
    "marked while it is held": ([HOLD, MARK], (0, 1, 7, 5, 0, b"")),
    "marked, and marked no more": ([MARK, BACK_OUT, HOLD], (3, 0, 7, 5, 0, b"")),
    "failed": ([MARK_ALONE, FAIL], (1, 0, 0, 0, 0, b"one")),
    "failed twice": ([FAIL, MARK_ALONE, FAIL_AGAIN], (2, 0, 0, 0, 0, b"two")),
    "failed, and in the hands of another": ([FAIL, MARK_ALONE], (1, 3, 0, 0, 0, b"one")),
    "failed, and got by a program": ([FAIL, MARK, BACK_OUT], (3, 0, 0, 0, 0, b"one")),
    "failed, and forgotten": ([FAIL, FAIL_AGAIN, Rows(handled=[(1, 0, b"")])], (0, 0, 0, 0, 0, b"")),
}


@pytest.mark.parametrize("new", [False, True], ids=["in the snapshot", "new"])
@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize(("steps", "expected"), STEPS.values(), ids=STEPS)
def test_what_happens_to_a_message_has_its_effect_in_its_order(
    steps: list[Rows], expected: tuple[int, int, int, int, int, bytes], parts: int, new: bool
) -> None:
    """Log case 54: in one delta, and in several that become one."""
    row = message(1)
    deltas = [Delta() for _ in range(parts)]
    if new:
        deltas[0].apply(Rows(inserts=[row]))
    for at, rows in enumerate(steps):
        deltas[min(at, parts - 1)].apply(rows)
    for later in deltas[1:]:
        deltas[0].follow(later)
    assert counted(deltas[0], deltas[0].inserts.get(1, row)) == expected
    assert (1 in deltas[0].changed()) is not new


@pytest.mark.parametrize("held_before", [False, True])
def test_a_message_that_goes_and_comes_again_is_held_by_nobody(held_before: bool) -> None:
    """Log case 55: released, it was removed; an orderly stop keeps it, or somebody claims it anew."""
    delta = Delta()
    before = Rows(held=[Numbering(7, 1, [1])], placed=[Numbering(0, 9, [1])], handled=[(1, 3, b"failed")])
    delta.apply(before if held_before else Rows())
    delta.apply(Rows(removals=[1]))
    delta.apply(Rows(inserts=[message(1, persistent=0)]))
    assert (list(delta.removals), delta.changed()) == ([1], [])
    assert delta.left(delta.inserts[1]) == message(1, persistent=0)
    delta.apply(HOLD)
    assert counted(delta, delta.inserts[1]) == (0, 0, 7, 5, 0, b"")
    assert delta.changed() == []


def test_changes_are_of_rows_in_the_snapshot_and_three_that_are_only_held_count_as_one() -> None:
    """log rule 6.4."""
    delta = Delta()
    delta.apply(Rows(inserts=[message(id) for id in range(100, 200)], removals=[1], hardened=[2]))
    assert delta.changes == 2
    delta.apply(Rows(held=[Numbering(7, 1, range(100, 200))]))
    assert delta.changes == 2
    placed = [Numbering(0, 1, range(110, 113)), Numbering(0, 4, [3, 4, 5])]
    delta.apply(Rows(held=[Numbering(7, 101, range(10, 40))], placed=placed))
    assert delta.changes == 2 + 11
    later = Delta()
    later.apply(Rows(held=[Numbering(7, 1, range(40, 46))]))
    delta.follow(later)
    assert delta.changes == 2 + 13
    delta.apply(Rows(keys=[key(1, bytes([at])) for at in range(6)]))
    assert delta.changes == 2 + 15


def test_a_publication_of_many_messages_takes_in_no_row() -> None:
    """The event loop waits for it: what a run does is kept in dictionaries, and no row is made anew."""
    delta, ids = Delta(), range(1, 20_001)
    delta.apply(Rows(inserts=[message(id) for id in ids]))
    before = list(delta.inserts.values())
    delta.apply(Rows(placed=[Numbering(0, 10**6, ids)]))
    assert all(row is each for row, each in zip(before, delta.inserts.values(), strict=True))
    assert delta.left(before[-1]).place == 10**6 + 19_999
