"""The simulated disk does to files what a real one may do, and no more."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress

import pytest

from broker.storage.disk.disk import Content
from broker.storage.store import StoreUnusableError
from tests.disk import damage
from tests.disk.faults import Countdown, Crash
from tests.disk.machine import Machine
from tests.disk.simulated import SimulatedDisk

BLOCK = 4096
OLD, NEW = b"o" * BLOCK, b"n" * BLOCK
SEEDS = range(60)


def machine_with(seed: int, content: bytes = OLD, *, direct: bool = True, sector_bytes: int = 512) -> Machine:
    """A computer with one synced file, `f`."""
    machine = Machine(seed, direct=direct, sector_bytes=sector_bytes)
    disk = machine.start()
    disk.claim()
    disk.create("f", content, len(content))
    disk.sync_names()
    return machine


def mixture(content: bytes, sector_bytes: int = 512) -> str:
    """The sectors of a file by their first letters."""
    parts = [content[at : at + sector_bytes] for at in range(0, len(content), sector_bytes)]
    assert all(len(set(part)) == 1 for part in parts), "a sector is never torn"
    return "".join(chr(part[0]) for part in parts)


def on_the_medium(machine: Machine) -> bytes:
    """Return what a new process reads past the cache."""
    return machine.start(direct=True).read("f")


@pytest.mark.parametrize("direct", [True, False])
def test_what_a_write_has_returned_for_survives_a_cut(direct: bool) -> None:
    for seed in SEEDS:
        machine = machine_with(seed, direct=direct)
        machine.start().open("f", BLOCK).write(0, NEW)
        machine.cut()
        assert on_the_medium(machine) == NEW


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("sector_bytes", [512, 4096])
def test_a_write_that_is_cut_tears_between_sectors(direct: bool, sector_bytes: int) -> None:
    found = set()
    for seed in range(200):
        machine = machine_with(seed, OLD * 4, direct=direct, sector_bytes=sector_bytes)
        file = machine.start().open("f", BLOCK)
        machine.faults.crash_in = 2 if direct else 4  # within the write, or within the sync behind it
        with pytest.raises(Crash):
            file.write(0, NEW * 4)
        machine.cut()
        found.add(mixture(on_the_medium(machine), sector_bytes))
    count = 4 * BLOCK // sector_bytes
    assert {"o" * count, "n" * count} < found
    assert any("no" in each for each in found)
    assert any("on" in each for each in found)


def test_a_crash_keeps_what_is_in_the_cache_and_a_cut_does_not() -> None:
    kept = set()
    for seed in SEEDS:
        machine = machine_with(seed, direct=False)
        disk = machine.start()
        disk.write("f", disk.inode("f"), 0, NEW)
        machine.kill()
        other = machine.start()
        assert other.read_cached("f", other.inode("f"), 0, BLOCK) == NEW
        machine.cut()
        kept.add(mixture(on_the_medium(machine)))
    assert {"oooooooo", "nnnnnnnn"} < kept


def test_a_direct_write_makes_the_cache_forget() -> None:
    machine = machine_with(1)
    disk = machine.start(direct=False)
    disk.write("f", disk.inode("f"), 0, NEW)
    machine.start(direct=True).open("f", BLOCK).write(0, OLD)
    assert disk.read_cached("f", disk.inode("f"), 0, BLOCK) == OLD
    assert disk.inode("f").settled


@pytest.mark.parametrize("direct", [True, False])
def test_each_operation_may_be_the_last_of_a_process_before_within_and_after(direct: bool) -> None:
    def work(disk: SimulatedDisk) -> None:
        disk.create("g", b"g", BLOCK)
        disk.rename("g", "h")
        disk.sync_names()
        file = disk.open("h", BLOCK)
        file.write(0, NEW)
        file.read(0, BLOCK)
        disk.remove("f")

    machine = machine_with(1, direct=direct)
    before = machine.steps
    work(machine.start())
    steps = machine.steps - before
    assert steps >= 15
    for at in range(1, steps + 1):
        machine = machine_with(1, direct=direct)
        disk = machine.start()
        machine.faults.crash_in = at
        with pytest.raises(Crash):
            work(disk)
        assert not disk.alive
        assert machine.faults.crash_in is None


def test_a_dead_process_does_nothing_more() -> None:
    machine = machine_with(1)
    disk = machine.start()
    file = disk.open("f", BLOCK)
    machine.kill()
    for call in (
        lambda: file.write(0, NEW),
        lambda: disk.remove("f"),
        lambda: disk.create("g", b"", BLOCK),
        disk.names,
    ):
        with pytest.raises(Crash):
            call()
    assert damage.copy_of(machine)["f"] == OLD
    assert machine.start().names() == {"f", "lock"}


def test_a_failed_sync_leaves_pages_clean_whose_content_is_lost() -> None:
    lost = set()
    for seed in SEEDS:
        machine = machine_with(seed, direct=False)
        disk = machine.start()
        file = disk.open("f", BLOCK)
        machine.faults.syncs = Countdown(1)
        with pytest.raises(OSError, match="f") as raised:
            file.write(0, NEW)
        assert raised.value.errno == errno.EIO
        assert disk.inode("f").view == NEW  # the cache goes on to show it,
        disk.sync("f")  # and a later sync says that all is well:
        machine.cut()
        lost.add(mixture(on_the_medium(machine)))
    assert {"oooooooo", "nnnnnnnn"} < lost
    assert machine.faults.struck == 1


def test_a_failed_direct_write_leaves_any_part() -> None:
    found = set()
    for seed in SEEDS:
        machine = machine_with(seed)
        machine.faults.syncs = Countdown(1)
        with pytest.raises(OSError, match="f"):
            machine.start().open("f", BLOCK).write(0, NEW)
        found.add(mixture(on_the_medium(machine)))
    assert len(found) > 10


def test_clean_sectors_leave_the_cache_at_any_moment_and_nearly_all_when_it_is_dropped() -> None:
    left = dropped = kept = 0
    for seed in SEEDS:
        machine = machine_with(seed, direct=False)
        disk = machine.start()
        machine.faults.syncs = Countdown(1)
        with pytest.raises(OSError, match="f"):
            disk.open("f", BLOCK).write(0, NEW)
        stale = len(disk.inode("f").stale)
        for _ in range(20):
            disk.read_cached("f", disk.inode("f"), 0, BLOCK)
        left += stale - len(disk.inode("f").stale)
        stale = len(disk.inode("f").stale)
        disk.drop_cache("f")
        dropped += stale - len(disk.inode("f").stale)
        kept += len(disk.inode("f").stale)
    assert left > 20
    assert 0 < kept < dropped / 2


def test_faults_of_a_kind_strike_at_the_call_and_the_file_that_they_are_meant_for() -> None:
    machine = machine_with(1)
    disk = machine.start()
    disk.create("g", b"", BLOCK)
    f, g = disk.open("f", BLOCK), disk.open("g", BLOCK)
    machine.faults.syncs = Countdown(2, times=2, name="f")
    results = []
    for file in (f, g, f, g, f, f):
        try:
            file.write(0, NEW)
            results.append("well")
        except OSError:
            results.append("failed")
    assert results == ["well", "well", "failed", "well", "failed", "well"]
    machine.faults.syncs = Countdown(1, times=None)
    for _ in range(3):
        with pytest.raises(OSError, match="f"):
            f.write(0, NEW)
    machine.faults.clear()
    f.write(0, NEW)


def test_the_background_writes_back_and_what_it_fails_at_the_next_sync_hears() -> None:
    heard = written = 0
    for seed in SEEDS:
        machine = machine_with(seed, direct=False)
        disk = machine.start()
        machine.faults.background = 0.5
        machine.faults.background_failures = 0.5
        disk.write("f", disk.inode("f"), 0, NEW)
        struck = machine.faults.struck
        written += bytes(disk.inode("f").medium) != OLD
        machine.faults.background = 0.0
        try:
            disk.sync("f")
            assert not struck
        except OSError:
            assert struck
            heard += 1
        disk.sync("f")  # only one hears of it
    assert heard > 5
    assert written > 5


def test_what_a_killed_process_left_may_fail_to_be_written_heard_by_the_next_or_by_nobody() -> None:
    outcomes = set()
    for seed in SEEDS:
        machine = machine_with(seed, direct=False)
        disk = machine.start()
        disk.write("f", disk.inode("f"), 0, NEW)
        machine.faults.background_failures = 1.0
        machine.kill()
        machine.faults.background_failures = 0.0
        other = machine.start()
        try:
            other.sync("f")
            heard = False
        except OSError:
            heard = True
        machine.cut()
        outcomes.add((heard, on_the_medium(machine) == NEW))
    assert outcomes == {(heard, reached) for heard in (False, True) for reached in (False, True)}


def test_a_read_fails_where_a_sector_is_bad_or_when_it_is_told_to() -> None:
    machine = machine_with(1, OLD * 2)
    damage.make_unreadable(machine, "f", 9)
    disk = machine.start()
    file = disk.open("f", BLOCK)
    assert file.read(0, BLOCK) == OLD
    reads: list[Callable[[], Content]] = [lambda: file.read(BLOCK, BLOCK), lambda: disk.read("f")]
    for read in reads:
        with pytest.raises(OSError, match="f") as raised:
            read()
        assert raised.value.errno == errno.EIO
    file.write(BLOCK, NEW)
    assert file.read(BLOCK, BLOCK) == NEW
    machine.faults.reads = Countdown(1)
    with pytest.raises(OSError, match="f"):
        file.read(0, BLOCK)
    assert file.read(0, BLOCK) == OLD


# Names


def test_names_are_durable_when_the_directory_is_synced_and_before_in_any_part() -> None:
    found = set()
    for seed in SEEDS:
        machine = machine_with(seed)
        disk = machine.start()
        disk.create("g", NEW, BLOCK)
        disk.rename("g", "f")
        disk.create("h", NEW, BLOCK)
        machine.cut()
        after = machine.start()
        found.add((frozenset(after.names()), after.read("f") == NEW))
    assert len(found) >= 4
    assert all({"f", "lock"} <= names for names, _ in found)
    for seed in SEEDS:
        machine = machine_with(seed)
        disk = machine.start()
        disk.create("g", NEW, BLOCK)
        disk.rename("g", "f")
        disk.remove("lock")
        disk.sync_names()
        machine.cut()
        assert machine.start().names() == {"f"}
        assert on_the_medium(machine) == NEW


def test_a_file_whose_name_is_durable_and_whose_content_is_not_may_be_short() -> None:
    sizes = set()
    for seed in SEEDS:
        machine = machine_with(seed)
        disk = machine.start()
        disk.write("g", disk.new_file("g"), 0, NEW * 2)
        disk.sync_names()
        machine.cut()
        sizes.add(len(machine.start().read("g")))
    assert {0, 2 * BLOCK} < sizes


def test_identities_tell_whether_a_name_still_leads_to_the_file_it_led_to() -> None:
    machine = machine_with(1)
    disk = machine.start()
    assert disk.identity("g") is None
    first, lock, directory = disk.identity("f"), disk.held_lock(), disk.identity("")
    assert first is not None
    assert first.size == BLOCK
    assert lock is None
    disk.create("g", OLD, BLOCK)
    disk.rename("g", "f")
    assert disk.identity("f") != first
    machine.remove_directory()
    assert disk.identity("") is None
    assert disk.identity("f") is None
    with pytest.raises(OSError, match="No such file"):
        disk.open("f", BLOCK)
    assert directory is not None


def test_one_process_holds_the_lock_until_it_ends() -> None:
    machine = Machine(1)
    first, second = machine.start(), machine.start()
    first.claim()
    assert first.made
    assert first.held_lock() == first.identity("lock")
    with pytest.raises(StoreUnusableError, match="in use"):
        second.claim()
    second.release()
    with pytest.raises(StoreUnusableError, match="in use"):
        second.claim()
    machine.kill()
    third = machine.start()
    third.claim()
    assert not third.made
    third.release()
    machine.start().claim()


# Room


def test_a_full_disk_has_no_room_for_what_grows_and_all_for_what_is_there() -> None:
    machine = machine_with(1)
    disk = machine.start()
    machine.free = 0
    disk.open("f", BLOCK).write(0, NEW)
    growths: list[Callable[[], None]] = [
        lambda: disk.create("g", NEW, BLOCK),
        lambda: disk.occupy("ballast", BLOCK),
        lambda: disk.write("f", disk.inode("f"), BLOCK, NEW),
    ]
    for grow in growths:
        with pytest.raises(OSError, match="No space") as raised:
            grow()
        assert raised.value.errno == errno.ENOSPC
    assert "ballast" not in disk.names()
    machine.give_room()
    disk.occupy("ballast", BLOCK)
    assert disk.read("ballast") == bytes(BLOCK)


def test_what_is_given_up_on_a_full_disk_is_room() -> None:
    machine = machine_with(1)
    disk = machine.start()
    disk.occupy("ballast", 3 * BLOCK)
    machine.free = 0
    disk.remove("ballast")
    disk.create("g", NEW, 3 * BLOCK)
    with pytest.raises(OSError, match="No space"):
        disk.create("h", NEW, 1)
    disk.resize("g", disk.inode("g"), BLOCK)
    disk.create("h", NEW, 2 * BLOCK)


def test_a_write_that_finds_room_for_a_part_may_write_that_part() -> None:
    sizes = set()
    for seed in SEEDS:
        machine = machine_with(seed)
        disk = machine.start()
        machine.free = BLOCK
        with pytest.raises(OSError, match="No space"):
            disk.write("g", disk.new_file("g"), 0, NEW * 3)
        sizes.add(len(disk.inode("g").view))
    assert sizes == {0, BLOCK}


@pytest.mark.parametrize("direct", [True, False])
def test_a_thin_volume_may_have_no_room_for_blocks_that_a_file_has(direct: bool) -> None:
    machine = machine_with(1, direct=direct)
    file = machine.start().open("f", BLOCK)
    machine.faults.thin = True
    file.write(0, NEW)
    machine.fill()
    with pytest.raises(OSError, match="No space"):
        file.write(0, OLD)
    machine.give_room()
    file.write(0, OLD)


def test_the_disk_fills_up_at_the_step_that_it_is_told() -> None:
    machine = machine_with(1)
    disk = machine.start()
    machine.faults.fills_in = 3
    disk.names()
    disk.names()
    assert machine.free is None
    disk.names()
    assert machine.free is not None


# Lengths


def test_a_file_that_was_cut_and_has_grown_again_has_zeros_or_what_was_written() -> None:
    found = set()
    for seed in range(200):
        machine = machine_with(seed)
        disk = machine.start(direct=False)
        inode = disk.inode("f")
        disk.resize("f", inode, 0)
        disk.write("f", inode, 0, NEW)
        machine.cut()
        found |= set(on_the_medium(machine))
    assert found <= set(b"on\0")
    assert set(b"on") <= found
    machine = machine_with(1)
    disk = machine.start(direct=False)
    disk.resize("f", disk.inode("f"), 600)
    disk.sync("f")
    disk.resize("f", disk.inode("f"), 1200)
    disk.sync("f")
    machine.cut()
    assert on_the_medium(machine) == b"o" * 600 + bytes(600)


# At rest


def test_damage_at_rest_is_there_for_the_next_process() -> None:
    machine = machine_with(1, OLD * 4)
    disk = machine.start()
    machine.kill()
    before = damage.copy_of(machine)
    damage.flip(machine, "f", 5, bit=3)
    assert machine.start().read("f") == OLD[:5] + bytes([ord("o") ^ 8]) + (OLD * 4)[6:]
    damage.put(machine, "f", before["f"])
    damage.scramble(machine, "f", 2)
    changed = machine.start().read("f")
    assert changed != before["f"]
    assert changed[:1024] + changed[1536:] == before["f"][:1024] + before["f"][1536:]
    damage.cut_short(machine, "f", 700)
    assert len(machine.start().read("f")) == 700
    damage.zero(machine, "f", 0, 100)
    assert machine.start().read("f")[:100] == bytes(100)
    damage.remove(machine, "f")
    machine.cut()
    assert machine.start().names() == {"lock"}
    assert not disk.alive


def test_a_seed_gives_the_same_disk_again() -> None:
    def once(seed: int) -> tuple[dict[str, bytes], int]:
        machine = machine_with(seed, OLD * 4, direct=False)
        machine.faults.background = 0.2
        machine.faults.background_failures = 0.2
        disk = machine.start()
        for at in range(4):
            disk.write("f", disk.inode("f"), at * BLOCK, NEW)
            with suppress(OSError):
                disk.create(f"g{at}", NEW, BLOCK)
        machine.cut()
        return damage.copy_of(machine), machine.steps

    assert [once(seed) for seed in range(20)] == [once(seed) for seed in range(20)]
    assert len({str(once(seed)) for seed in range(20)}) > 10
