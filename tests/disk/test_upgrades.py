"""A store of version 2 to 4 becomes one of this version, wherever its first start ends (log rule 7.9, log case 53)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest

from broker.storage.creation import LogSettings
from broker.storage.log import manifest as manifests
from broker.storage.log_store import LogStore
from broker.storage.store import KeyRow, MessageRow, Numbering, Rows, StepRow, StoreFailedError, StoreUnusableError
from tests.disk.faults import Countdown
from tests.disk.lives import VirtualClock, live
from tests.disk.machine import Machine
from tests.disk.mutations import MUTATIONS
from tests.disk.schedules import BLOCK, NAME, machine_of, old_image, small
from tests.disk.truth import State

STOPPED, KILLED = 0, 1
OLD = pytest.mark.parametrize("old", [2, 3, 4], ids=["version 2", "version 3", "version 4"])


def machine_with(number: int, seed: int = 1, old: int = 2) -> tuple[Machine, State]:
    """A computer with a store of an older version, and what is in it."""
    files, history = old_image(2, 8, number + 2 * (old - 2))
    return machine_of(files, seed), history[-1][1]


def version_of(machine: Machine) -> int:
    """The version of the database that counts, as its first page has it on the medium."""
    assert machine.names is not None
    manifest = machine.names[manifests.FILE].medium
    slots = [manifests.decode(bytes(manifest[at : at + manifests.SLOTS[1]])) for at in manifests.SLOTS]
    kept = max((slot for slot in slots if slot is not None), key=lambda slot: slot.version)
    return int.from_bytes(machine.names[kept.database].medium[60:64], "big")


def claim_of(state: State) -> Rows:
    """A claim of all that is there."""
    held = sorted(state.messages)
    handled = [(held.pop(), 1, b"failed")] if held else []
    keys = [KeyRow(1, b"key", 5, b"", b"digest", 0.0)]
    steps = [StepRow(id, 1, "charge", b"ok") for id, _, _ in handled]
    return Rows(held=[Numbering(77, 1, held)], handled=handled, keys=keys, steps=steps)


def lives(machine: Machine, *states: State, then: Rows | None = None) -> bool:
    """A life that finds one of these states, writes a batch and stops in order; whether it came to its end."""

    async def life() -> None:
        disk = machine.processes[-1]
        clock = VirtualClock(machine, 1e-6)
        settings = LogSettings(2, 8 * BLOCK)
        store = LogStore(disk.path, name=NAME, clock=clock, settings=settings, ballast_bytes=16 * BLOCK, disk=disk)
        await store.open()
        objects, high_water = await store.load_objects()
        messages: dict[int, MessageRow] = {}
        async for rows in store.load_messages():
            data = await store.read_data([row.id for row in rows])
            messages |= {row.id: row._replace(data=data[row.id]) for row in rows}
        keys = {each[:2]: each async for chunk in store.load_keys() for each in chunk}
        steps = {each[:2]: each async for chunk in store.load_steps() for each in chunk}
        assert State(messages, {(each.space, each.name): each for each in objects}, high_water, keys, steps) in states
        if then is not None:
            await store.write(then)
        await store.close()

    return live(machine.start(), life())


def goes_on(machine: Machine, *states: State) -> None:
    """The store starts with one of these states, and keeps what is claimed then over a power cut."""
    kept = states[0].without_nonpersistent()
    assert lives(machine, *states, then=claim_of(kept))
    machine.cut()
    assert version_of(machine) == 5
    assert lives(machine, kept.after(claim_of(kept)))


@OLD
@pytest.mark.parametrize("number", [STOPPED, KILLED])
def test_nothing_of_it_is_lost_and_an_older_release_refuses_it(number: int, old: int) -> None:
    """Log case 53: also what an orderly stop has kept."""
    machine, state = machine_with(number, old=old)
    assert version_of(machine) == old
    assert any(not row.persistent for row in state.messages.values()) == (number == STOPPED)
    with small():
        goes_on(machine, state)


@pytest.mark.parametrize("number", [STOPPED, KILLED])
@OLD
@pytest.mark.parametrize("end", [Machine.kill, Machine.cut], ids=["killed", "cut"])
def test_a_start_that_ends_at_any_step_is_begun_again_or_done(
    number: int, end: Callable[[Machine], None], old: int
) -> None:
    """Log case 53. The database that the end leaves is old, or new and whole."""
    versions = set()
    with small():
        for steps in range(1, 1000):
            machine, state = machine_with(number, steps, old)
            machine.faults.crash_in = steps
            machine.faults.background = 0.05
            if lives(machine, state):
                break
            machine.faults.clear()
            end(machine)
            versions.add(version_of(machine))
            goes_on(machine, state, state.without_nonpersistent())
    assert steps > 60
    assert versions == {old, 5}


@pytest.mark.parametrize("mutation", [None, "upgrade-unmarked"])
def test_a_sync_that_fails_once_is_no_reason_to_trust_the_cache(mutation: str | None) -> None:
    """Log case 53: the cache shows what the medium has not; killed, begun again, then the power is cut."""
    found = []
    with small(), MUTATIONS[mutation]() if mutation else nullcontext():
        for seed in range(600 if mutation else 60):
            machine, state = machine_with(STOPPED, seed, 2 + seed % 2)
            name = "evermq-1.db-wal" if seed % 16 < 8 else "evermq-1.db"
            machine.faults.syncs = Countdown(seed // 2 % 4 + 1, name=name)
            try:
                assert lives(machine, state)
            except (StoreUnusableError, StoreFailedError):
                machine.faults.clear()
                machine.kill()
                try:
                    goes_on(machine, state, state.without_nonpersistent())
                except (StoreUnusableError, StoreFailedError, AssertionError) as error:
                    found.append(str(error))
                    break
    assert bool(found) == (mutation is not None), found


def test_without_room_the_start_is_refused_and_all_is_as_it_was() -> None:
    """Log case 53: an older release can go on, and with room the start goes through."""
    refused = 0
    with small():
        for steps in range(1, 200):
            machine, state = machine_with(STOPPED, steps)
            machine.faults.fills_in = steps
            try:
                assert lives(machine, state)
            except StoreUnusableError as error:
                refused += 1
                assert "is of an older release, and cannot be upgraded: there is no room" in str(error)
                assert version_of(machine) == 2
                machine.kill()
                machine.give_room()
                goes_on(machine, state)
    assert refused
