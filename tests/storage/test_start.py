"""What a start makes of what it finds: everything after a kill; of files that are damaged, missing, foreign or older a
refusal that names them. Never something else than what was put.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from broker.storage.log.manifest import SLOTS
from broker.storage.snapshot.database import PAGE_BYTES
from broker.storage.store import DataDamagedError, MessageRow, Rows, StoreFailedError, StoreUnusableError
from broker.testing import VirtualClock
from tests.stores import as_killed, carried_over, log_store, settled

from .failing_disk import FailingDisk
from .samples import ORDERS, SHIPPING, Contents, contents, message

BLOCK = 4096
DATABASE = "evermq-1.db"
FILES = ["manifest", "log.0", "log.1", DATABASE]


class Left(NamedTuple):
    """A directory as it was left at some moment, and what is to be found in it."""

    path: Path
    contents: Contents


class States(NamedTuple):
    """One store as it was left at several moments, and another one.

    `early`: killed soon after a carry-over. `crashed`: killed later, with batches that only the log has, all of which
    the manifest knows. `carrying`: killed between COMMIT and checkpoint. `restarted`: killed in the next life, whose
    records went over those of the one before. `stopped`: in order. `foreign`: `crashed` of another store.
    """

    early: Left
    crashed: Left
    carrying: Left
    restarted: Left
    stopped: Left
    foreign: Left


def rows(number: int, size: int = 100) -> list[MessageRow]:
    return [message(number * 100 + at, bytes([number]) * size) for at in range(10)]


class _Life:
    """A store that is written to, and left at moments."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = log_store(path / "live")
        self.expected: list[MessageRow] = []
        self._number = 0

    async def write(self, count: int, size: int = 100) -> None:
        """So many batches, each of which removes and backs out something too."""
        for _ in range(count):
            self._number += 1
            added = rows(self._number, size)
            batch = Rows(inserts=added, high_water=self._number)
            if self.expected:
                batch.removals = [self.expected[0].id]
                batch.backouts = [(self.expected[-1].id, 2)]
                self.expected = [*self.expected[1:-1], self.expected[-1]._replace(backout_count=2)]
            else:
                batch.objects = [ORDERS, SHIPPING]
            self.expected += added
            await self.store.write(batch)

    async def rest(self) -> None:
        self.store._upkeep._note_durable()
        await settled(self.store)

    def left(self, name: str) -> Left:
        to = as_killed(self.path / "live", self.path / name)
        return Left(to, Contents(self.expected.copy(), [SHIPPING, ORDERS], self._number))


async def _make(path: Path, sizes: tuple[int, int]) -> States:
    life = _Life(path)
    await life.store.open()
    await life.write(3, sizes[0])
    await carried_over(life.store)
    early = life.left("early")
    await life.write(3, sizes[1])
    await carried_over(life.store)
    await life.write(2)
    await life.rest()
    crashed = life.left("crashed")
    with closing(sqlite3.connect(path / "live" / DATABASE, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM message").fetchall()
        await carried_over(life.store)
        carrying = life.left("carrying")
        reader.execute("ROLLBACK")
    reader.close()
    await life.store.close()
    await life.store.open()
    await life.write(2)
    await life.rest()
    restarted = life.left("restarted")
    await life.store.close()
    stopped = life.left("stopped")
    return States(early, crashed, carrying, restarted, stopped, crashed)


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> States:
    path = tmp_path_factory.mktemp("states")
    other = asyncio.run(_make(path / "other", (100, 2000)))
    return asyncio.run(_make(path / "one", (100, 2000)))._replace(foreign=other.crashed)


def copied(left: Left, to: Path) -> Path:
    return as_killed(left.path, to / left.path.name)


async def found(path: Path) -> Contents | str:
    """Return what a start finds, or what it says in place of starting. Nothing that was changed may be handed out."""
    store = log_store(path)
    try:
        await store.open()
        found = await contents(store)
    except (StoreUnusableError, DataDamagedError) as error:
        return str(error)
    finally:
        try:
            await store.close()
        except StoreFailedError as error:
            return str(error)
    return found


# After a kill


@pytest.mark.parametrize("name", ["early", "crashed", "carrying", "restarted", "stopped"])
async def test_everything_is_there_after_a_kill_and_after_others_in_the_starts_that_follow(
    states: States, tmp_path: Path, name: str
) -> None:
    """log case 16: also between COMMIT and checkpoint."""
    left: Left = getattr(states, name)
    path = copied(left, tmp_path)
    for number in range(3):
        store = log_store(path)
        await store.open()
        path = as_killed(path, tmp_path / f"again {number}")
        await store.close()
    assert await found(path) == left.contents


@pytest.mark.parametrize(
    ("boot", "database"), [("this one", "evermq-2.db"), ("another", DATABASE), ("", "evermq-2.db")]
)
async def test_what_a_carry_over_has_half_done_is_written_anew_unless_the_system_was_booted_since(
    states: States, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: str, database: str
) -> None:
    """log rule 7.7: the cache may hold what the medium has not; after a boot it holds nothing else."""
    path = copied(states.carrying, tmp_path)
    if boot != "this one":
        monkeypatch.setattr(FailingDisk, "boot", lambda self: boot)
    store = log_store(path, disk=FailingDisk(path))
    await store.open()
    assert store.status()["file"] == str(path / database)
    assert await contents(store) == states.carrying.contents
    await store.close()
    assert sorted(each.name for each in path.glob("evermq-*")) == [database]


async def test_a_body_that_holds_a_copy_of_the_log_is_a_body(states: States, tmp_path: Path) -> None:
    """log case 4: whole, and in a record that is torn."""
    path = copied(states.crashed, tmp_path)
    store = log_store(path, clock=VirtualClock())
    await store.open()
    files = [(path / name).read_bytes()[: 20 * BLOCK] for name in ("log.0", "log.1")]
    bodies = [bytes(shift) + file for file in files for shift in (0, 100, BLOCK - 48)]
    for number, body in enumerate(bodies):
        await store.write(Rows(inserts=[message(90_000 + number, body)]))
        await settled(store)
    killed, torn = (as_killed(path, tmp_path / name) for name in ("killed", "torn"))
    await store.close()
    now = await found(path)
    assert isinstance(now, Contents)
    assert len(now.messages) == len(states.crashed.contents.messages) + len(bodies)
    assert await found(killed) == now
    name, at = max(records(torn), key=lambda place: number_at(torn, *place))
    flip(torn, name, at + 60)
    assert await found(torn) == now._replace(messages=now.messages[:-1])


# Damage


def remove(file: Path) -> None:
    file.unlink()


def empty(file: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-BLOCK])


def zero(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


SAYS: dict[Callable[[Path], None], dict[str, str]] = {
    remove: {
        "manifest": r"manifest is missing, and evermq-1.db is that of a store",
        "log.0": r"log\.0 is missing",
        "log.1": r"log\.1 is missing",
        DATABASE: r"evermq-1\.db is missing",
    },
    empty: {
        "manifest": r"(manifest holds no valid manifest|manifest has 0 bytes)",
        "log.0": r"log\.0 has 0 bytes in place of \d+",
        "log.1": r"log\.1 has 0 bytes in place of \d+",
        DATABASE: r"evermq-1\.db is empty \(0 bytes\)",
    },
    cut: {
        "manifest": r"manifest has \d+ bytes in place of \d+",
        "log.0": r"log\.0 has \d+ bytes in place of \d+",
        "log.1": r"log\.1 has \d+ bytes in place of \d+",
        DATABASE: r"evermq-1\.db has \d+ bytes in place of \d+|evermq-1\.db is damaged",
    },
    zero: {
        "manifest": r"(manifest holds no valid manifest|manifest has 0 bytes)",
        "log.0": r"log\.0 is not the log file of this store, or its first block is damaged",
        "log.1": r"log\.1 is not the log file of this store, or its first block is damaged",
        DATABASE: r"evermq-1\.db ",
    },
}


@pytest.mark.parametrize("state", ["crashed", "stopped"])
@pytest.mark.parametrize(("damage", "name"), [(damage, name) for damage, names in SAYS.items() for name in names])
async def test_a_file_that_is_gone_or_cut_is_named(
    states: States, tmp_path: Path, state: str, damage: Callable[[Path], None], name: str
) -> None:
    """log case 31; log case 32: without its manifest a store is no new one."""
    path = copied(getattr(states, state), tmp_path)
    for each in path.glob(f"{DATABASE}-*"):
        each.unlink()  # It would have the whole database.
    damage(path / name)
    before = {each.name: each.read_bytes() for each in path.iterdir() if each.name.startswith(("log", "manifest"))}
    with pytest.raises(StoreUnusableError, match=SAYS[damage][name]) as refusal:
        store = log_store(path)
        try:
            await store.open()
            await contents(store)
        finally:
            await store.close()
    assert "recover" in str(refusal.value)
    if damage is not cut:
        assert before == {name: (path / name).read_bytes() for name in before}


@pytest.mark.parametrize("name", FILES)
async def test_a_file_of_another_store_is_named(states: States, tmp_path: Path, name: str) -> None:
    """log case 31."""
    path = copied(states.crashed, tmp_path)
    shutil.copy(states.foreign.path / name, path)
    if name == DATABASE:
        (path / f"{name}-wal").unlink()
    with pytest.raises(
        StoreUnusableError, match=r"not the log file of this store|database of another store|is damaged"
    ):
        await log_store(path).open()


async def test_without_the_write_ahead_log_a_database_that_may_be_half_written_is_refused(
    states: States, tmp_path: Path
) -> None:
    """log case 31."""
    path = copied(states.carrying, tmp_path)
    (path / f"{DATABASE}-wal").unlink()
    assert "evermq-1.db-wal is missing, and evermq-1.db may be half written" in str(await found(path))


@pytest.mark.parametrize("name", ["ballast", "lock", "evermq.db", f"{DATABASE}-shm"])
async def test_files_that_hold_nothing_may_be_missing(states: States, tmp_path: Path, name: str) -> None:
    """log case 31."""
    path = copied(states.crashed, tmp_path)
    (path / name).unlink()
    assert await found(path) == states.crashed.contents
    assert (path / name).exists() is not name.endswith("-shm")


OLDER = {
    "log.0 in one life": ("crashed", "early", ["log.0"], r"the log .* is damaged: it ends at batch \d+ and has held"),
    "log.0 of the life before": ("restarted", "crashed", ["log.0"], r"the log .* is damaged"),
    "the manifest of the life before": ("restarted", "crashed", ["manifest"], r"manifest is older than the log"),
    "the database": ("crashed", "early", [DATABASE, f"{DATABASE}-wal"], r"is older than it must be: it holds \d of \d"),
    "the database of the life before": ("stopped", "crashed", [DATABASE], r"is older than it must be"),
    "the log after an orderly stop": ("stopped", "crashed", ["log.0", "log.1"], None),
}


@pytest.mark.parametrize(("state", "source", "names", "says"), OLDER.values(), ids=OLDER)
async def test_an_older_copy_of_a_file_is_told(
    states: States, tmp_path: Path, state: str, source: str, names: list[str], says: str | None
) -> None:
    """log case 20: a manifest; log case 31, log case 33: a log and a database. Harmless is only what is obsolete."""
    left: Left = getattr(states, state)
    path = copied(left, tmp_path)
    (path / f"{DATABASE}-wal").unlink(missing_ok=True)
    for name in names:
        shutil.copy(getattr(states, source).path / name, path)
    outcome = await found(path)
    if says is None:
        assert outcome == left.contents
    else:
        with pytest.raises(StoreUnusableError, match=says):
            raise StoreUnusableError(outcome)


async def test_an_older_database_over_a_log_that_still_has_it_all_is_completed(tmp_path: Path) -> None:
    """log case 33."""
    life = _Life(tmp_path)
    await life.store.open()
    await life.write(2)
    await life.store.close()
    copy = (tmp_path / "live" / DATABASE).read_bytes()
    await life.store.open()
    await life.write(2)
    left = life.left("killed")
    await life.store.close()
    (left.path / f"{DATABASE}-wal").unlink()
    (left.path / DATABASE).write_bytes(copy)
    assert await found(left.path) == left.contents


def flip(path: Path, name: str, byte: int, bit: int = 0) -> None:
    content = bytearray((path / name).read_bytes())
    content[byte] ^= 1 << bit
    (path / name).write_bytes(content)


def number_at(path: Path, name: str, byte: int) -> int:
    """The number of a record."""
    return int.from_bytes((path / name).read_bytes()[byte + 24 : byte + 32], "little")


def records(path: Path) -> list[tuple[str, int]]:
    """File and first byte of what looks like a record."""
    return [
        (name, at)
        for name in ("log.0", "log.1")
        for at in range(BLOCK, (path / name).stat().st_size, BLOCK)
        if (path / name).read_bytes()[at : at + 4] == b"EVMQ"
    ]


async def test_a_bit_of_a_record_is_told_when_it_counts_and_harmless_when_it_is_obsolete(
    states: States, tmp_path: Path
) -> None:
    """log case 25: three and three batches are in the snapshot, then two of which the manifest knows."""
    (name, _), *_ = found_records = records(states.crashed.path)
    assert (name, len(found_records)) == ("log.0", 8)
    for number, (file, at) in enumerate(found_records):
        path = as_killed(states.crashed.path, tmp_path / f"{number}")
        flip(path, file, at + 200)
        outcome = await found(path)
        if number < 6:
            assert outcome == states.crashed.contents
        else:
            assert f"is damaged: it ends at batch {number} and has held 8; {8 - number} batches are" in str(outcome)


async def test_an_older_page_in_the_database_is_told(states: States, tmp_path: Path) -> None:
    """log case 27: each page that differs, one at a time, as if its write had been lost."""
    old = (states.early.path / DATABASE).read_bytes()
    new = (states.crashed.path / DATABASE).read_bytes()
    differing = [
        at for at in range(0, min(len(old), len(new)), PAGE_BYTES)
        if old[at : at + PAGE_BYTES] != new[at : at + PAGE_BYTES]
    ]  # fmt: skip
    assert len(differing) >= 3
    for at in differing:
        path = as_killed(states.crashed.path, tmp_path / f"{at}")
        (path / f"{DATABASE}-wal").unlink()
        (path / DATABASE).write_bytes(new[:at] + old[at : at + PAGE_BYTES] + new[at + PAGE_BYTES :])
        outcome = await found(path)
        assert isinstance(outcome, str)
        assert DATABASE in outcome


async def test_a_state_row_of_another_transaction_is_refused(states: States, tmp_path: Path) -> None:
    """log case 28: an older one, with the manifest of then too, and one of a later life."""
    for state, other in [("crashed", "early"), ("early", "crashed"), ("crashed", "stopped")]:
        folder = tmp_path / f"{state} with that of {other}"
        folder.mkdir()
        path = copied(getattr(states, state), folder)
        (path / f"{DATABASE}-wal").unlink(missing_ok=True)
        source = copied(getattr(states, other), folder)
        with closing(sqlite3.connect(source / DATABASE)) as db:
            (value,) = db.execute("SELECT value FROM state").fetchone()
        db.close()
        with closing(sqlite3.connect(path / DATABASE)) as db, db:
            db.execute("UPDATE state SET value = ?", (value,))
        db.close()
        shutil.copy(source / "manifest", path)
        assert isinstance(await found(path), str)


@pytest.mark.parametrize("slot", [0, 1])
async def test_a_slot_of_the_manifest_that_is_damaged_leaves_the_other_and_the_database_is_written_anew(
    states: States, tmp_path: Path, slot: int
) -> None:
    """log rule 7.7."""
    path = copied(states.crashed, tmp_path)
    flip(path, "manifest", SLOTS[slot] + 50)
    assert await found(path) == states.crashed.contents
    assert (path / "evermq-2.db").exists()


def that_hold_something(path: Path) -> list[str]:
    names = [*FILES, f"{DATABASE}-wal"]
    return [name for name in names if (path / name).exists() and any((path / name).read_bytes())]


async def silently_wrong(left: Left, path: Path, random: Random) -> str | None:
    """Change one bit of a store that was left, and say where if a start hands out something else."""
    name = random.choice(that_hold_something(path))
    content = (path / name).read_bytes()
    blocks = [at for at in range(0, len(content), BLOCK) if any(content[at : at + BLOCK])]
    byte = random.choice(blocks) + random.randrange(BLOCK)
    if byte >= len(content):
        return None
    bit = random.randrange(8)
    flip(path, name, byte, bit)
    outcome = await found(path)
    return None if isinstance(outcome, str) or outcome == left.contents else f"bit {bit} of byte {byte} of {name}"


async def changed_bits(states: States, tmp_path: Path, seed: int, count: int) -> None:
    random = Random(seed)
    for number in range(count):
        state = random.choice(["crashed", "carrying", "restarted", "stopped"])
        left: Left = getattr(states, state)
        path = as_killed(left.path, tmp_path / f"{number}")
        wrong = await silently_wrong(left, path, random)
        shutil.rmtree(path)
        assert wrong is None, f"seed {seed}, change {number}, {state}: {wrong}"


async def test_single_bits_that_change_are_told_or_harmless(states: States, tmp_path: Path) -> None:
    """log case 24."""
    await changed_bits(states, tmp_path, seed=1, count=60)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 20))
async def test_a_thousand_single_bits_that_change_are_told_or_harmless(
    states: States, tmp_path: Path, seed: int
) -> None:
    """log case 24."""
    await changed_bits(states, tmp_path, seed, count=100)


async def test_bits_that_change_while_it_runs_reach_nobody(states: States, tmp_path: Path) -> None:
    """log case 24: data that a start does not read."""
    expected = {row.id: row.data for row in states.stopped.contents.messages}
    random, reported = Random(1), 0
    for number in range(10):
        path = as_killed(states.stopped.path, tmp_path / f"{number}")
        store = log_store(path)
        await store.open()
        await store.load_objects()
        content = (path / DATABASE).read_bytes()
        flip(path, DATABASE, content.index(bytes([5]) * 1000) + random.randrange(-PAGE_BYTES // 2, PAGE_BYTES // 2))
        try:
            data = await store.read_data(expected)
        except DataDamagedError as error:
            reported += 1
            data = await store.read_data(expected.keys() - error.ids)
        except StoreFailedError:
            reported += 1
            data = {}
        assert all(expected[id] == each for id, each in data.items())
        await store.close()
    assert reported >= 5


# Reading errors


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("state", ["crashed", "stopped"])
async def test_a_file_that_cannot_be_read_is_named(states: States, tmp_path: Path, state: str, name: str) -> None:
    """log case 49: what cannot be read is damage, and a start changes nothing then."""
    path = copied(getattr(states, state), tmp_path)
    before = {each.name: each.read_bytes() for each in path.iterdir() if each.name != "lock"}
    disk = FailingDisk(path)
    disk.broken = lambda call, of: of == name and call in ("read", "connect", "drop_cache")
    with pytest.raises(StoreUnusableError, match=rf"injected at \w+ of {name}"):
        await log_store(path, disk=disk).open()
    assert {name: (path / name).read_bytes() for name in before} == before
    assert await found(path) == getattr(states, state).contents
