"""The snapshot: rows with checks, a tally of all of them, and what is told when they are not what was written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from broker.storage.disk import database_thread
from broker.storage.snapshot.checks import TALLY_MAX, Checks, Tally
from broker.storage.snapshot.database import FIRST_KEY, PAGE_BYTES, Snapshot
from broker.storage.snapshot.errors import StoreBusyError
from broker.storage.snapshot.statements import statement
from broker.storage.snapshot.steps import FIRST_STEP
from broker.storage.store import (
    KeyRow,
    MessageRow,
    ObjectRow,
    StepRow,
    StoreFailedError,
    StoreFullError,
    StoreUnusableError,
)

from .samples import ORDERS, SHIPPING, key, message, step

if TYPE_CHECKING:
    from collections.abc import Iterator

INSTANCE = b"instance of here"
CHECKS = Checks(7)
SMALL, LARGE = message(1), message(2, b"l" * 3000)


class Bench:
    """A snapshot with its connection."""

    def __init__(self, path: Path) -> None:
        self.snapshot = Snapshot(path / "evermq-1.db", INSTANCE, CHECKS)
        self.db = database_thread.connect(self.snapshot.path)
        self.snapshot.create(self.db)
        self.number = 0

    def insert(self, *rows: MessageRow) -> None:
        self.snapshot.begin(self.db)
        self.snapshot.insert(self.db, rows)
        self.commit()

    def keep(self, *keys: KeyRow) -> None:
        self.snapshot.begin(self.db)
        self.snapshot.store_keys(self.db, keys)
        self.commit()

    def commit(self) -> None:
        self.number += 1
        self.snapshot.commit(self.db, self.number, 3)

    def reopen(self) -> None:
        self.db.close()
        self.db = database_thread.connect(self.snapshot.path)
        self.snapshot.open(self.db)

    def load(self) -> list[MessageRow]:
        """All messages, and the tally compared."""
        rows, total = self.snapshot.load_messages(self.db, -1, 1000)
        self.snapshot.check_tally(len(rows), total)
        return rows


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    with closing(bench.db):
        yield bench
    bench.db.close()


def without_data(*rows: MessageRow) -> list[MessageRow]:
    return [row._replace(data=None) for row in rows]


# Keys of puts

KEYS = [key(1), key(2, b"order 7", queue=3, until=1000.5), key(3, b"order 8", until=2000.0)]


def test_keys_come_back_in_pages_and_the_tally_counts_them(bench: Bench) -> None:
    bench.keep(*KEYS)
    bench.reopen()
    first = bench.snapshot.load_keys(bench.db, FIRST_KEY, 2)
    assert [*first, *bench.snapshot.load_keys(bench.db, first[-1][:2], 2)] == sorted(KEYS)
    assert (bench.snapshot.load_objects(bench.db), bench.snapshot.tally.objects) == ([], 3)
    assert bench.snapshot.tally.object_sum == sum(map(CHECKS.key, KEYS))


def test_keys_whose_time_is_over_go_the_oldest_first(bench: Bench) -> None:
    """log rule 6.7: those that go with their message stay."""
    bench.keep(*KEYS)
    for limit, now, dropped in ((1, 3000.0, 1), (5, 1999.0, 0), (5, 2000.0, 1), (5, 4e9, 0)):
        bench.snapshot.begin(bench.db)
        assert bench.snapshot.drop_old_keys(bench.db, now, limit) == dropped
        bench.commit()
    assert bench.snapshot.load_keys(bench.db, FIRST_KEY, 9) == [key(1)]
    assert bench.snapshot.tally.object_sum == CHECKS.key(key(1))


@pytest.mark.parametrize("count", [1, 63, 64, 300])
def test_many_keys_go_at_once_whether_they_are_there_or_not(bench: Bench, count: int) -> None:
    keys = [key(id, b"%d" % id) for id in range(count)]
    bench.keep(*keys[::2], KEYS[1])
    bench.snapshot.begin(bench.db)
    bench.snapshot.drop_keys(bench.db, [each[:2] for each in keys])
    bench.commit()
    assert bench.snapshot.load_keys(bench.db, FIRST_KEY, 900) == [KEYS[1]]
    assert bench.snapshot.verify(bench.db) == []


# Steps

STEPS = [step(1), step(1, 2, "ship", b""), step(7, 1, "Größe", b"x" * 70_000)]


def keep_steps(bench: Bench, *steps: StepRow) -> None:
    bench.snapshot.begin(bench.db)
    bench.snapshot.store_steps(bench.db, steps)
    bench.commit()


def test_steps_come_back_in_pages_and_the_tally_counts_them(bench: Bench) -> None:
    assert bench.snapshot.load_steps(bench.db, FIRST_STEP, 9) == []
    keep_steps(bench, *STEPS)
    bench.reopen()
    first = bench.snapshot.load_steps(bench.db, FIRST_STEP, 2)
    assert [*first, *bench.snapshot.load_steps(bench.db, first[-1][:2], 2)] == STEPS
    assert (bench.snapshot.load_objects(bench.db), bench.snapshot.tally.objects) == ([], 3)
    assert bench.snapshot.tally.object_sum == sum(map(CHECKS.step, STEPS))
    assert bench.snapshot.verify(bench.db) == []


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ("UPDATE step SET value = 'text' WHERE id = 7", "step 1 of message 7 is not|another kind"),
        ("UPDATE step SET value = x'00' WHERE id = 7", "step 1 of message 7 is not what was written"),
        ("UPDATE step SET name = 'mail' WHERE place = 2", "step 2 of message 1 is not what was written"),
        ("UPDATE step SET id = 2 WHERE id = 7", "step 1 of message 2 is not what was written"),
        ("DELETE FROM step WHERE id = 7", "0 definitions, 0 keys of puts and 2 steps, and they are not the 3 written"),
    ],
)
def test_a_step_that_is_not_what_was_written_is_refused(bench: Bench, change: str, reported: str) -> None:
    """log case 30."""
    keep_steps(bench, *STEPS)
    bench.db.execute(change)
    with pytest.raises(StoreUnusableError, match=reported):
        bench.snapshot.verify(bench.db)


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (
            "UPDATE put_key SET until = until + 1 WHERE id = 2",
            "the key of the put of message 2 is not what was written",
        ),
        ("UPDATE put_key SET msg_id = 'text' WHERE id = 3", "the key of the put of message 3|another kind"),
        ("UPDATE put_key SET key = x'00' WHERE id = 1", "the key of the put of message 1 is not what was written"),
        ("DELETE FROM put_key WHERE id = 1", "it has 0 definitions and 2 keys of puts, and they are not the 3 written"),
    ],
)
def test_a_key_that_is_not_what_was_written_is_refused(bench: Bench, change: str, reported: str) -> None:
    """log case 30."""
    bench.keep(*KEYS)
    bench.db.execute(change)
    with pytest.raises(StoreUnusableError, match=reported):
        bench.snapshot.verify(bench.db)


def test_a_look_at_keys_is_by_their_order(bench: Bench) -> None:
    """Not a walk through all of them: of a million, too, a page is read, and those of a few messages are dropped."""
    for name, parameters in (("load_keys", 3), ("old_keys", 2), ("sum_some_keys", 2), ("drop_keys", 2)):
        plan = bench.db.execute(f"EXPLAIN QUERY PLAN {statement(name)}", (0,) * parameters).fetchall()
        steps = [row[3] for row in plan if "put_key" in row[3]]
        assert steps, name
        assert all("SEARCH" in step for step in steps), f"{name}: {steps}"


# What is written


def test_rows_come_back_and_the_tally_counts_them(bench: Bench) -> None:
    bench.insert(SMALL, LARGE)
    bench.reopen()
    assert bench.load() == without_data(SMALL, LARGE)
    assert bench.snapshot.read_data(bench.db, [1, 2]) == ({1: SMALL.data, 2: LARGE.data}, [])
    total = CHECKS.message(SMALL) + CHECKS.message(LARGE)
    assert bench.snapshot.tally == Tally(1, 3, messages=2, message_sum=total)


def test_a_load_gives_pages_and_the_sum_of_each(bench: Bench) -> None:
    bench.insert(SMALL, LARGE)
    assert bench.snapshot.load_messages(bench.db, -1, 1) == (without_data(SMALL), CHECKS.message(SMALL))
    assert bench.snapshot.load_messages(bench.db, 1, 5) == (without_data(LARGE), CHECKS.message(LARGE))
    assert bench.snapshot.load_messages(bench.db, 2, 5) == ([], 0)


def test_small_data_lies_with_its_message_and_large_data_apart(bench: Bench) -> None:
    bench.insert(message(1, b""), message(2, b"s" * 1024), message(3, b"l" * 1025))
    assert bench.db.execute("SELECT id, length(data) FROM message").fetchall() == [(1, 0), (2, 1024), (3, None)]
    assert bench.db.execute("SELECT id, length(data) FROM body").fetchall() == [(3, 1025)]


def test_a_load_reads_no_large_data(bench: Bench) -> None:
    bench.insert(LARGE)
    bench.db.execute("ALTER TABLE body RENAME TO hidden")
    assert bench.load() == without_data(LARGE)


def test_a_message_that_goes_takes_its_data_along_and_leaves_the_tally(bench: Bench) -> None:
    bench.insert(SMALL, LARGE)
    bench.snapshot.begin(bench.db)
    bench.snapshot.remove(bench.db, [1, 2])
    bench.commit()
    assert bench.snapshot.tally == Tally(2, 3)
    assert bench.db.execute("SELECT count(*) FROM body").fetchone() == (0,)


def test_a_removal_of_a_message_that_is_not_there_is_damage(bench: Bench) -> None:
    """log rule 6.3: the rows that it names must be there."""
    bench.insert(SMALL)
    bench.snapshot.begin(bench.db)
    with pytest.raises(StoreFailedError, match=r"evermq-1.db is damaged: 1 messages are not in it"):
        bench.snapshot.remove(bench.db, [1, 9])


def test_counters_change_with_their_check_and_the_tally(bench: Bench) -> None:
    rows = [message(id) for id in range(1, 5)]
    bench.insert(*rows)
    bench.snapshot.begin(bench.db)
    changed = [
        rows[0]._replace(backout_count=5),
        rows[1]._replace(hardened=1),
        rows[2]._replace(backout_count=2, hardened=1, holder=2**60, sequence=7, place=2**61),
        rows[3],
    ]
    left = {row.id: row[7:] for row in changed}
    bench.snapshot.change(bench.db, [1, 2, 3], lambda each, before: left[each] if not any(before) else before)
    bench.commit()
    bench.reopen()
    assert bench.load() == without_data(*changed)
    assert bench.snapshot.tally.message_sum == sum(map(CHECKS.message, changed)) % TALLY_MAX


def test_counters_of_a_message_that_is_not_there_are_damage(bench: Bench) -> None:
    bench.insert(message(1))
    bench.snapshot.begin(bench.db)
    with pytest.raises(StoreFailedError, match="1 messages are not in it"):
        bench.snapshot.change(bench.db, [1, 2], lambda _, before: before)
    assert bench.db.execute("SELECT count(*) FROM message").fetchone() == (1,)


def test_counters_that_were_damaged_meanwhile_are_not_written_over(bench: Bench) -> None:
    bench.insert(message(1))
    bench.db.execute("UPDATE message SET sequence = 1")
    bench.snapshot.begin(bench.db)
    with pytest.raises(StoreFailedError, match="is damaged: the counters of message 1"):
        bench.snapshot.change(bench.db, [1], lambda _, before: before)


def test_a_message_that_nobody_holds_has_the_checks_that_it_had_in_version_2() -> None:
    """So an upgrade touches no row."""
    assert CHECKS.counters(5, 3, 1) == CHECKS.counters(5, 3, 1, 0, 0, 0)
    others = [(7, 0, 0), (0, 7, 0), (0, 0, 7), (7, 7, 7)]
    assert len({CHECKS.counters(5, 3, 1, *held) for held in [(0, 0, 0), *others]}) == 5


def test_definitions_are_stored_replaced_and_dropped_whatever_numbers_they_had(bench: Bench) -> None:
    def define(*rows: ObjectRow, dropped: tuple[ObjectRow, ...] = ()) -> None:
        bench.snapshot.begin(bench.db)
        changes = [((each.space, each.name), None) for each in dropped]
        bench.snapshot.define(bench.db, [*changes, *(((each.space, each.name), each) for each in rows)])
        bench.commit()

    define(ORDERS, SHIPPING)
    assert bench.snapshot.load_objects(bench.db) == [SHIPPING, ORDERS]
    exchanged = [ORDERS._replace(number=8), SHIPPING._replace(number=7, attributes=b"other")]
    define(*exchanged)
    assert bench.snapshot.load_objects(bench.db) == exchanged[::-1]
    define(dropped=(ORDERS, ORDERS._replace(name="NEVER THERE")))
    assert bench.snapshot.load_objects(bench.db) == exchanged[1:]
    assert (bench.snapshot.tally.objects, bench.snapshot.tally.object_sum) == (1, CHECKS.object(exchanged[1]))


def test_the_high_water_mark_is_only_raised(bench: Bench) -> None:
    for mark in (100, 50):
        bench.snapshot.begin(bench.db)
        bench.snapshot.raise_high_water(mark)
        bench.commit()
    bench.reopen()
    assert bench.snapshot.tally.high_water == 100


def test_what_is_rolled_back_is_not_there_and_not_in_the_tally(bench: Bench) -> None:
    bench.insert(SMALL)
    bench.snapshot.begin(bench.db)
    bench.snapshot.insert(bench.db, [LARGE])
    bench.snapshot.roll_back(bench.db)
    bench.snapshot.roll_back(bench.db)
    assert (bench.load(), bench.snapshot.tally.messages) == (without_data(SMALL), 1)


def test_the_settings_that_durability_rests_on(bench: Bench) -> None:
    """log rule 6.2."""
    names = ("journal_mode", "synchronous", "fullfsync", "checkpoint_fullfsync", "wal_autocheckpoint", "page_size")
    bench.reopen()
    found = [bench.db.execute(f"PRAGMA {name}").fetchone()[0] for name in names]
    assert found == ["wal", 2, 1, 1, 0, PAGE_BYTES]


# Another program


def test_a_database_that_another_program_writes_to_is_busy(bench: Bench) -> None:
    with closing(sqlite3.connect(bench.snapshot.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusyError, match="another program has the database locked"):
            bench.snapshot.begin(bench.db)
        other.execute("ROLLBACK")
    bench.insert(SMALL)


def test_a_checkpoint_waits_for_who_reads_what_is_there(bench: Bench) -> None:
    bench.snapshot.checkpoint(bench.db)
    with closing(sqlite3.connect(bench.snapshot.path, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM message").fetchall()
        bench.insert(SMALL)
        with pytest.raises(StoreBusyError, match="another program reads"):
            bench.snapshot.checkpoint(bench.db)
        other.execute("ROLLBACK")
        bench.snapshot.checkpoint(bench.db)


# Room


def test_no_room_is_told_apart_and_leaves_everything_as_it_was(bench: Bench) -> None:
    bench.insert(SMALL)
    (pages,) = bench.db.execute("PRAGMA page_count").fetchone()
    bench.db.execute(f"PRAGMA max_page_count = {pages + 10}")
    bench.snapshot.begin(bench.db)
    with pytest.raises(StoreFullError) as full:
        bench.snapshot.insert(bench.db, [message(id, b"x" * 3000) for id in range(10, 100)])
    assert isinstance(full.value.__cause__, sqlite3.Error)
    bench.snapshot.roll_back(bench.db)
    assert bench.load() == without_data(SMALL)
    bench.insert(LARGE)


def test_the_room_of_messages_that_are_gone_is_free(bench: Bench) -> None:
    bench.insert(*(message(id, b"x" * 3000) for id in range(1, 101)))
    before = bench.snapshot.room(bench.db)
    bench.snapshot.begin(bench.db)
    bench.snapshot.remove(bench.db, range(1, 101))
    bench.commit()
    after = bench.snapshot.room(bench.db)
    assert before.free < 4 * PAGE_BYTES
    assert after.total == before.total
    assert after.free > 100 * 3000


# Damage: journal rule 13, log case 30

CHANGES = {
    "queue": "UPDATE message SET queue = 8",
    "rank": "UPDATE message SET rank = 5",
    "persistent": "UPDATE message SET persistent = 0",
    "length": "UPDATE message SET length = 4",
    "descriptor": "UPDATE message SET descriptor = x'00'",
    "backout count": "UPDATE message SET backout_count = 1",
    "mark": "UPDATE message SET got = 1",
    "holder": "UPDATE message SET holder = 1",
    "sequence": "UPDATE message SET sequence = 1",
    "place": "UPDATE message SET place = 1",
    "a holder of another kind": "UPDATE message SET holder = 'text'",
    "id": "UPDATE message SET id = 9",
    "a descriptor of another kind": "UPDATE message SET descriptor = 'text'",
    "a count of another kind": "UPDATE message SET backout_count = x'00'",
}


@pytest.mark.parametrize("sql", CHANGES.values(), ids=CHANGES)
def test_a_row_that_is_not_what_was_written_is_refused(bench: Bench, sql: str) -> None:
    """log case 30."""
    bench.insert(SMALL)
    bench.db.execute(sql)
    with pytest.raises(StoreUnusableError, match=r"evermq-1.db is damaged .*recover"):
        bench.load()


def test_rows_that_are_missing_or_come_twice_are_told_by_the_tally(bench: Bench) -> None:
    bench.insert(SMALL, LARGE)
    bench.db.execute("DELETE FROM message WHERE id = 1")
    with pytest.raises(StoreUnusableError, match="it has 1 messages, and they are not the 2 written"):
        bench.load()


def test_an_older_row_in_place_of_a_newer_one_is_told_by_the_tally(bench: Bench) -> None:
    """log case 27: a page that was never written has checks that hold."""
    bench.insert(SMALL)
    old = bench.db.execute("SELECT backout_count, counters_check FROM message").fetchone()
    bench.snapshot.begin(bench.db)
    bench.snapshot.change(bench.db, [1], lambda *_: (3, 0, 0, 0, 0, b""))
    bench.commit()
    assert bench.load()[0].backout_count == 3
    bench.db.execute("UPDATE message SET backout_count = ?, counters_check = ?", old)
    with pytest.raises(StoreUnusableError, match="they are not the 1 written"):
        bench.load()


OBJECT_CHANGES = {
    "attributes": ("UPDATE object SET attributes = x'00'", "the definition of ORDERS is not what was written"),
    "number": ("UPDATE object SET number = 99", "the definition of ORDERS is not what was written"),
    "name": ("UPDATE object SET name = 'OTHER'", "the definition of OTHER is not what was written"),
    "gone": ("DELETE FROM object", "it has 0 definitions and 0 keys of puts, and they are not the 1 written"),
    "another kind": ("UPDATE object SET attributes = 7", "a value is of another kind"),
}


@pytest.mark.parametrize(("sql", "text"), OBJECT_CHANGES.values(), ids=OBJECT_CHANGES)
def test_a_definition_that_is_not_what_was_written_is_refused(bench: Bench, sql: str, text: str) -> None:
    """log case 30."""
    bench.snapshot.begin(bench.db)
    bench.snapshot.define(bench.db, [(("QUEUE", "ORDERS"), ORDERS)])
    bench.commit()
    bench.db.execute(sql)
    with pytest.raises(StoreUnusableError, match=text):
        bench.snapshot.load_objects(bench.db)


def test_every_bit_of_the_state_row_that_changes_is_told(bench: Bench) -> None:
    """log case 30: number, generation, tally and high-water mark are in one value under one check."""
    (value,) = bench.db.execute("SELECT value FROM state").fetchone()
    assert CHECKS.unseal(value) == (INSTANCE, bench.snapshot.tally)
    for bit in range(8 * len(value)):
        changed = bytearray(value)
        changed[bit // 8] ^= 1 << bit % 8
        assert CHECKS.unseal(bytes(changed)) is None
    for changed_value in ("zeroblob(76)", "'text'"):
        bench.db.execute(f"UPDATE state SET value = {changed_value}")
        with pytest.raises(StoreUnusableError, match="its state row is not what was written"):
            bench.snapshot.open(bench.db)


def test_the_database_of_another_store_is_refused(bench: Bench) -> None:
    other = Snapshot(bench.snapshot.path, b"another instance", CHECKS)
    with pytest.raises(StoreUnusableError, match="is the database of another store; put back"):
        other.open(bench.db)


def test_a_newer_version_and_another_programs_database_are_refused(bench: Bench) -> None:
    bench.db.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreUnusableError, match=r"has version 99, and this program knows versions up to \d+; start a"):
        bench.snapshot.open(bench.db)
    bench.db.execute("PRAGMA application_id = 1")
    with pytest.raises(StoreUnusableError, match="is empty, or the database of another program"):
        bench.snapshot.open(bench.db)


DATA_CHANGES = {
    "changed": "UPDATE {} SET data = replace(data, 'l', 'm') WHERE id = {}",
    "of another kind": "UPDATE {} SET data = 'text' WHERE id = {}",
    "check changed": "UPDATE {} SET data_check = data_check + 1 WHERE id = {}",
    "that of another": "UPDATE {0} SET (data, data_check) = (SELECT data, data_check FROM {0} WHERE id > {1})"
    " WHERE id = {1}",
}


@pytest.mark.parametrize("table", ["message", "body"])
@pytest.mark.parametrize("sql", DATA_CHANGES.values(), ids=DATA_CHANGES)
def test_data_that_is_not_what_was_put_is_told_and_that_of_others_given(bench: Bench, table: str, sql: str) -> None:
    """log case 29."""
    size = 1000 if table == "message" else 3000
    bench.insert(message(1, b"l" * size), message(2, b"n" * size), message(3))
    bench.db.execute(sql.format(table, 1))
    found, damaged = bench.snapshot.read_data(bench.db, [1, 2, 3, 4])
    assert (found, damaged) == ({2: b"n" * size, 3: b"hello"}, [1, 4])
    assert bench.snapshot.verify(bench.db) == [1]


def test_where_a_page_of_data_cannot_be_read_the_others_are_given(bench: Bench) -> None:
    """log case 29: the pages of long data hang together by numbers in them."""
    bench.insert(message(1, b"a" * 30_000), message(2, b"b" * 30_000), message(3))
    bench.snapshot.checkpoint(bench.db)
    bench.db.close()
    content = bytearray(bench.snapshot.path.read_bytes())
    page = content.index(b"a" * 8000) // PAGE_BYTES
    content[page * PAGE_BYTES : page * PAGE_BYTES + 4] = b"\xff\xff\xff\x7f"
    bench.snapshot.path.write_bytes(content)
    bench.reopen()
    found, damaged = bench.snapshot.read_data(bench.db, [1, 2, 3])
    assert (found, damaged) == ({2: b"b" * 30_000, 3: b"hello"}, [1])


@pytest.mark.parametrize(
    "sql", ["UPDATE message SET rank = 5", "DELETE FROM message", "UPDATE message SET (head_check) = 0"]
)
def test_verify_finds_what_a_start_finds(bench: Bench, sql: str) -> None:
    bench.insert(SMALL)
    assert bench.snapshot.verify(bench.db) == []
    bench.db.execute(sql)
    with pytest.raises(StoreUnusableError, match="is damaged"):
        bench.snapshot.verify(bench.db)
