"""Schedules: some lives of a store on one disk, with all that may go wrong drawn from a seed, and the truth beside it.

After each start the state, with every body, is that of all batches that were acknowledged, with or without the one
whose outcome nobody knew, whole. A start refuses only what was damaged, or when the disk fails in it. Damage is told,
or changes nothing. (One limit, as it is documented: after a crash, damage to what is newer than the manifest's
`durable` may look like a torn tail.)
"""

from __future__ import annotations

import logging
import tempfile
from collections import Counter
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

from broker.storage import creation, log_store, upkeep
from broker.storage.creation import LogSettings
from broker.storage.log import manifest as manifests
from broker.storage.log.scan import records_in
from broker.storage.log_store import LogStore
from broker.storage.snapshot import carry_over, statements
from broker.storage.store import DataDamagedError, StoreFailedError, StoreFullError, StoreUnusableError
from tests.disk import damage
from tests.disk.faults import Countdown
from tests.disk.lives import VirtualClock, live
from tests.disk.loop import Hang
from tests.disk.machine import Machine
from tests.disk.truth import State, Traffic
from tests.storage.old_stores import to_older

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from broker.storage.store import MessageRow, Rows
    from tests.disk.simulated import SimulatedDisk

BLOCK = 4096
NAME = "QM1"


class Violation(AssertionError):
    """The store broke a promise."""


class _Over(Exception):
    """This life has nothing more to do."""


class Setting(NamedTuple):
    """The constants of a schedule."""

    sector_bytes: int
    files: int
    file_blocks: int
    inline: str
    direct: bool
    boot_known: bool
    faults: bool
    full: bool
    thin: bool
    damage: bool
    from_nothing: bool
    old: bool
    """The store is one of version 2 or 3 at first."""

    @classmethod
    def drawn(cls, random: Random) -> Setting:
        """One of all that there are."""
        return cls(
            sector_bytes=random.choice((512, 512, 512, 4096)),
            files=random.choice((2, 2, 3)),
            file_blocks=random.choice((5, 8, 12)),
            inline=random.choice(("adaptive", "adaptive", "never")),
            direct=random.random() < 0.5,
            boot_known=random.random() < 0.85,
            faults=random.random() < 0.55,
            full=random.random() < 0.3,
            thin=random.random() < 0.15,
            damage=random.random() < 0.4,
            from_nothing=random.random() < 0.1,
            old=random.random() < 0.15,
        )


class Schedule:
    """One schedule. `figures` counts what came about in it."""

    def __init__(self, seed: int, *, setting: Setting | None = None) -> None:
        self.random = Random(seed)
        self.setting = setting or Setting.drawn(self.random)
        self.state = State()
        self.history: list[tuple[int, State]] = []
        self.in_doubt = False  # the last stop was not orderly, so a database may have to be written anew
        self.machine = self._new_machine()
        self.traffic = Traffic(self.random, begin=1000 if self.setting.old else 0)
        self.figures: Counter[str] = Counter()
        self.unknown: State | None = None
        self.orderly = not self.in_doubt  # the last stop was, and it is known
        self._past_cache = True  # this life can read what the medium has
        self.damaged = False
        self.exists = not self.setting.from_nothing
        self._upgraded = not self.setting.old
        self.copies: list[dict[str, bytes]] = []
        self.reported = False
        self._struck = 0
        self._was_full = False
        self._failed = False
        self._floor = 0
        self._watched: list[StoreFailedError] = []

    def _new_machine(self) -> Machine:
        setting = self.setting
        seed = self.random.getrandbits(32)
        if setting.from_nothing:
            machine = Machine(seed, sector_bytes=setting.sector_bytes)
        elif setting.old:
            number = self.random.randrange(4)
            files, self.history = old_image(setting.files, setting.file_blocks, number)
            self.state = self.history[-1][1]
            self.in_doubt = bool(number % 2)
            machine = machine_of(files, seed, setting.sector_bytes)
        else:
            machine = machine_of(image(setting.files, setting.file_blocks, 1), seed, setting.sector_bytes)
        machine.direct = setting.direct
        machine.boot_known = setting.boot_known
        machine.faults.background = 0.02
        return machine

    def _note(self, what: str) -> None:
        """Have a trace tell it."""
        if self.machine.trace is not None:
            self.machine.trace.append(f"    {what}")

    def run(self) -> None:
        """All lives; raises Violation."""
        with patch.object(creation, "secrets", SimpleNamespace(token_bytes=self.random.randbytes)):
            for _ in range(self.random.randint(2, 6)):
                self.life()
                if self.reported:
                    return

    # One life

    def life(self) -> None:
        """A start, some work, an end, and what happens to the disk afterwards."""
        random, machine = self.random, self.machine
        direct = machine.direct if random.random() < 0.9 else not machine.direct
        disk = machine.start(direct=direct)
        self._past_cache = direct
        self._arm_start()
        self._struck = machine.faults.struck
        self._was_full = machine.free is not None
        self._failed = False
        try:
            ended = live(disk, self._lifetime(disk))
        except Hang as hang:
            raise Violation(f"it hangs: {hang}") from hang
        self.figures["ends" if ended else "crashes"] += 1
        self._note("the process ends" if ended else "the process crashes")
        if not ended:
            self.orderly, self.in_doubt = False, True
        machine.faults.clear()
        if self.setting.faults:
            machine.faults.background_failures = 0.3
        if random.random() < 0.4:
            self.figures["kills"] += 1
            self._note("a kill")
            machine.kill()
        else:
            self.figures["cuts"] += 1
            self._note("a power cut")
            machine.cut()
        machine.faults.clear()
        if random.random() < 0.5:
            machine.give_room()
        self._damage()
        if machine.names is not None and random.random() < 0.5:
            self.copies.append(damage.copy_of(machine))

    def _arm_start(self) -> None:
        random, faults = self.random, self.machine.faults
        if random.random() < 0.3:
            faults.crash_in = random.randint(1, random.choice((10, 60, 200)))
        if self.setting.faults and random.random() < 0.15:
            faults.syncs = Countdown(random.randint(1, 12), random.choice((1, 1, 2, None)))
        if self.setting.faults and random.random() < 0.05:
            faults.reads = Countdown(random.randint(1, 30), random.choice((1, 1, None)))
        if self.setting.full and random.random() < 0.3:
            self.machine.fill()

    def _arm_work(self) -> None:
        random, faults = self.random, self.machine.faults
        faults.clear()
        if random.random() < 0.75:
            faults.crash_in = random.randint(1, random.choice((30, 200, 700)))
        if self.setting.faults:
            faults.background_failures = 0.1
            if random.random() < 0.4:
                faults.syncs = Countdown(random.randint(1, 40), random.choice((1, 1, 2, None)))
            if random.random() < 0.05:
                faults.reads = Countdown(random.randint(1, 30), random.choice((1, 1, None)))
        if self.setting.full and random.random() < 0.4:
            faults.fills_in = random.randint(1, 300)
        faults.thin = self.setting.thin

    async def _lifetime(self, disk: SimulatedDisk) -> None:
        setting = self.setting
        store = LogStore(
            disk.path,
            name=NAME,
            clock=VirtualClock(self.machine, self.random.choice((1e-6, 1e-5, 1e-3))),
            settings=LogSettings(setting.files, setting.file_blocks * BLOCK, setting.inline),
            ballast_bytes=2 * setting.file_blocks * BLOCK,
            disk=disk,
        )
        self._watched.clear()
        store.watch(self._watched.append)
        try:
            await self._start(store)
            await self._work(store)
            await self._stop(store)
        except _Over:
            await self._end_failed(store)

    async def _start(self, store: LogStore) -> None:
        try:
            await store.open()
            self.exists = True
            objects, high_water = await store.load_objects()
            keys = {each[:2]: each async for chunk in store.load_keys() for each in chunk}
            steps = {each[:2]: each async for chunk in store.load_steps() for each in chunk}
            messages = await self._load_messages(store)
        except StoreUnusableError as error:
            self._refused(error)
            raise _Over from error
        except StoreFullError as error:  # while messages that are given once were to be removed
            if self.machine.free is None:
                raise Violation(f"a start is refused for room on a roomy disk: {error}") from error
            self.figures["starts refused because the log is full, too"] += 1
            self.orderly = False
            raise _Over from error
        except StoreFailedError as error:
            self._expect_failure(f"the start failed: {error}")
            raise _Over from error
        lasting = {id: row for id, row in messages.items() if row.persistent or row.holder}
        found = messages | await self._bodies(store, lasting)
        state = State(found, {(each.space, each.name): each for each in objects}, high_water, keys, steps)
        self._settle(state, int(store.status()["batches"]))
        self.figures["starts" if self._upgraded else "upgrades"] += 1
        self._upgraded = True

    async def _load_messages(self, store: LogStore) -> dict[int, MessageRow]:
        """All messages; those that are given once with their data."""
        messages: dict[int, MessageRow] = {}
        ids: list[int] = []
        async for rows in store.load_messages():
            ids += [row.id for row in rows]
            messages |= {row.id: row for row in rows}
            fleeting = {row.id: row for row in rows if not (row.persistent or row.holder)}
            messages |= await self._bodies(store, fleeting)
        if ids != sorted(messages):
            raise Violation("messages are not in the order of their ids, or twice")
        return messages

    def _refused(self, error: StoreUnusableError) -> None:
        if self.damaged:
            self.figures["told at a start"] += 1
            self.reported = True
        elif self.machine.faults.struck > self._struck:
            self.figures["starts that failed with their disk"] += 1
            if manifests.FILE in self.machine.written:  # it says that the database is written, as for an upgrade
                self.in_doubt = True
        elif self.machine.free is not None and (not self.exists or self._may_be_too_full(error)):
            self.figures["starts refused for want of room"] += 1
        else:
            raise Violation(f"refused without damage: {error}")
        self.orderly = False

    def _may_be_too_full(self, error: StoreUnusableError) -> bool:
        """True if a start may want room: after a doubt, where the medium cannot be read past the cache or a write has
        failed. A mere crash is no reason (invariant L12).
        """
        if not self._upgraded and "is of an older release, and cannot be upgraded" in str(error):
            return True
        excused = not self._past_cache or self.machine.faults.struck
        return self.in_doubt and "full" in str(error) and bool(excused)

    async def _bodies(self, store: LogStore, rows: dict[int, MessageRow]) -> dict[int, MessageRow]:
        """All rows with their data."""
        try:
            data = await store.read_data(list(rows))
        except DataDamagedError as error:
            if not self.damaged and self.machine.faults.struck == self._struck:
                raise Violation(f"reported damage where is none: {error}") from error
            if not error.ids <= rows.keys():
                raise Violation("names messages that it was not asked for") from error
            self.figures["told at a read"] += 1
            self.reported, self.orderly = self.damaged, False  # else the disk has failed to read what is there
            raise _Over from error
        except StoreFailedError as error:
            self._expect_failure(f"a read failed: {error}")
            raise _Over from error
        return {id: row._replace(data=data[id]) for id, row in rows.items()}

    def _settle(self, found: State, number: int) -> None:
        """Compare what was found with what may be there; from now on it is what is there."""
        candidates = [self.state] if self.unknown is None else [self.state, self.unknown]
        if not self.orderly or self.damaged:  # damage to the manifest's newest slot looks like a write cut short
            candidates += [each.without_nonpersistent() for each in candidates]
        if not any(map(found.may_be, candidates)):
            if not (self.damaged and any(found.may_be(state) for at, state in self.history if at >= self._floor)):
                raise Violation(self._difference(found))
            self.figures["damage in the window"] += 1
        self._note(f"found {sorted(found.messages)}")
        self.state, self.unknown = found.without_nonpersistent(), None
        self.history = [(number, self.state)]
        self.orderly, self.in_doubt = False, True

    def _difference(self, found: State) -> str:
        what = "silent damage" if self.damaged else "another state"
        lost = sorted(self.state.messages.keys() - found.messages.keys())
        more = sorted(found.messages.keys() - self.state.messages.keys())
        other = [id for id, row in found.messages.items() if self.state.messages.get(id, row) != row]
        unknown = None if self.unknown is None else sorted(self.unknown.messages.keys() ^ self.state.messages.keys())
        return (
            f"{what}: lost {lost[:8]}, more {more[:8]}, other {other[:8]} of which unknown {unknown}; "
            f"objects {found.objects == self.state.objects}, keys {found.keys == self.state.keys}, "
            f"high water {found.high_water} of {self.state.high_water}"
        )

    async def _work(self, store: LogStore) -> None:
        self._arm_work()
        random, machine = self.random, self.machine
        for _ in range(random.randint(3, 30)):
            self._was_full = self._was_full or machine.free is not None
            kind = random.random()
            if kind < 0.08:
                await store._clock.sleep(random.choice((0.0, 0.05, 0.25, 1.1, 3.0)))
            elif kind < 0.16:
                await self._read_some(store)
            elif kind < 0.2 and self.setting.full:
                (machine.give_room if machine.free is not None else machine.fill)()
            else:
                await self._write(store, self.traffic.batch(self.state, large=random.random() < 0.02))

    async def _read_some(self, store: LogStore) -> None:
        wanted = [id for id in self.state.messages if self.random.random() < 0.4]
        rows = {id: self.state.messages[id] for id in wanted}
        if await self._bodies(store, rows) != rows:
            raise Violation("a body is not what was put")

    async def _write(self, store: LogStore, rows: Rows) -> None:
        self.unknown = self.state.after(rows)
        self._note(
            f"put {[row.id for row in rows.inserts]} remove {rows.removals} back out {rows.backouts}"
            f" hold {rows.held} place {rows.placed} mark {rows.hardened} define {len(rows.objects)} drop {rows.dropped}"
            f" state {len(rows.states)} high water {rows.high_water} handle {[(id, n) for id, n, _ in rows.handled]}"
            f" mark for handlers {rows.marked} keys {[(each.id, each.until) for each in rows.keys]}"
            f" free {len(rows.freed)} step {[each[:2] for each in rows.steps]}"
        )
        try:
            await store.write(rows)
        except StoreFullError as error:
            self.unknown = None
            self._note("refused")
            if not self._was_full and self.machine.free is None and self.machine.faults.struck == self._struck:
                raise Violation(f"refused for room on a roomy disk: {error}") from error
            self.figures["batches refused" if rows.grows else "removals refused"] += 1
        except StoreFailedError as error:
            self._expect_failure(f"a batch failed: {error}")
            raise _Over from error
        else:
            self.state, self.unknown = self.unknown, None
            self._note("acknowledged")
            self.history.append((int(store.status()["batches"]), self.state))
            self.figures["batches"] += 1

    def _expect_failure(self, what: str) -> None:
        self._failed = True
        self.orderly, self.in_doubt = False, True
        if self.damaged:
            self.reported = True
        elif self.machine.faults.struck == self._struck:
            raise Violation(f"{what}, on a disk without faults")
        self.figures["failures"] += 1

    async def _end_failed(self, store: LogStore) -> None:
        """Nothing more is acknowledged after a failure (invariant L13), and the store can be let go."""
        if store._failure is not None and store._opened is not None:
            try:
                await store.write(self.traffic.batch(State()))
            except StoreFailedError:
                pass
            else:
                raise Violation("acknowledged after a failure")
        try:
            await store.close()
        except StoreFailedError as error:
            if not self._failed:
                self._expect_failure(f"an end failed: {error}")

    async def _stop(self, store: LogStore) -> None:
        if self.random.random() < 0.4:
            return
        if self.random.random() < 0.3:
            await self._write(store, self.traffic.last_batch())
        self.orderly = False
        try:
            await store.close()
        except StoreFailedError as error:
            self._expect_failure(f"an end failed: {error}")
            return
        if self._watched:
            self._expect_failure(f"it failed by itself: {self._watched[0]}")
            return
        self.orderly, self.in_doubt = True, False
        self.figures["orderly stops"] += 1

    # Damage

    def _damage(self) -> None:
        """Damage files at rest, perhaps."""
        random, machine = self.random, self.machine
        self._floor = 0
        if not (self.setting.damage and self.exists and machine.names) or random.random() < 0.6:
            return
        before = damage.copy_of(machine)
        names = sorted(name for name in machine.names if name not in ("lock", "ballast"))
        name = random.choice(names)
        kind = random.random()
        if kind < 0.6:
            self._change_sectors(name)
        elif kind < 0.66 and self.copies:
            self._lose_a_write(name)
        elif kind < 0.72:
            damage.remove(machine, name)
        elif kind < 0.8 and machine.names[name].medium:
            size = len(machine.names[name].medium)
            damage.cut_short(machine, name, random.choice((0, max(0, size - BLOCK), random.randrange(size))))
        elif kind < 0.9 and self.copies:
            copy = random.choice(self.copies)
            if name in copy:
                damage.put(machine, name, copy[name])
        else:
            other = image(self.setting.files, self.setting.file_blocks, 2)
            if name in other:
                damage.put(machine, name, other[name])
        self._floor = floor_of(machine)  # damage of an earlier life has been told or was harmless
        if damage.copy_of(machine) != before or any(inode.unreadable for inode in machine.names.values()):
            self.figures["damages"] += 1
            self.damaged = True

    def _lose_a_write(self, name: str) -> None:
        """A page of a file is what it was some time ago, whole."""
        older, machine = self.random.choice(self.copies).get(name, b""), self.machine
        assert machine.names is not None
        pages = [
            at
            for at in range(0, min(len(older), len(machine.names[name].medium)), 2 * BLOCK)
            if older[at : at + 2 * BLOCK] != machine.names[name].medium[at : at + 2 * BLOCK]
        ]
        if pages:
            at = self.random.choice(pages)
            damage.replace(machine, name, older[at : at + 2 * BLOCK], at)

    def _change_sectors(self, name: str) -> None:
        random, machine = self.random, self.machine
        assert machine.names is not None
        medium, size = machine.names[name].medium, machine.sector_bytes
        used = [sector for sector in range(-(-len(medium) // size)) if any(medium[sector * size : (sector + 1) * size])]
        for sector in random.sample(used, min(len(used), random.choice((1, 1, 1, 2)))):
            change = damage.make_unreadable if random.random() < 0.2 else damage.scramble
            change(machine, name, sector)


def floor_of(machine: Machine) -> int:
    """The last number that damage may not take without a word: that of a record that is whole, or what the manifest
    vouches for.
    """
    names = machine.names or {}
    inode = names.get(manifests.FILE)
    slots = [] if inode is None else [bytes(inode.medium[at : at + manifests.SLOTS[1]]) for at in manifests.SLOTS]
    valid = [slot for slot in map(manifests.decode, slots) if slot is not None]
    if not valid:
        return 0
    kept = max(valid, key=lambda slot: slot.version)
    whole = [
        found.number
        for number, name in enumerate(kept.logs)
        if name in names
        for found in records_in(bytes(names[name].medium), number, seed=kept.seed, block_bytes=kept.block_bytes)
    ]
    return max([kept.durable, *whole])


@cache
def image(files: int, file_blocks: int, number: int) -> dict[str, bytes]:
    """The files of a new store; another number is another store."""
    machine = Machine(number)
    disk = machine.start()
    store = LogStore(
        disk.path,
        name=NAME,
        clock=VirtualClock(machine, 1e-6),
        settings=LogSettings(files, file_blocks * BLOCK, "never"),
        ballast_bytes=0,
        disk=disk,
    )

    async def create() -> None:
        await store.open()
        await store.close()

    return _left(machine, disk, create(), number)


@cache
def old_image(files: int, file_blocks: int, number: int) -> tuple[dict[str, bytes], list[tuple[int, State]]]:
    """The files of a store of version 2 (for the numbers 0 and 1), 3 (for 2 and 3) or 4, and what was in it after each
    batch. Of every other one the queue manager was killed, so some batches are in its log alone; the others have kept
    messages over their orderly stop.
    """
    machine = Machine(number)
    disk = machine.start()
    store = LogStore(
        disk.path,
        name=NAME,
        clock=VirtualClock(machine, 1e-6),
        settings=LogSettings(files, file_blocks * BLOCK, "never"),
        ballast_bytes=0,
        disk=disk,
    )
    history: list[tuple[int, State]] = []

    async def fill() -> None:
        state, traffic = State(), Traffic(Random(number), claims=False)
        await store.open()
        for _ in range(20):
            rows = traffic.batch(state)
            await store.write(rows)
            state = state.after(rows)
            history.append((int(store.status()["batches"]), state))
        if not number % 2:
            rows = traffic.last_batch()
            await store.write(rows)
            history.append((int(store.status()["batches"]), state.after(rows)))
        if number % 2:
            machine.kill()
        else:
            await store.close()

    left = _left(machine, disk, fill(), number)
    with tempfile.TemporaryDirectory() as folder:
        for each in left.keys() & {"evermq-1.db", "evermq-1.db-wal"}:
            (Path(folder) / each).write_bytes(left[each])
        left |= to_older(Path(folder) / "evermq-1.db", 2 + number // 2, killed=bool(number % 2))
    return left, history


def _left(machine: Machine, disk: SimulatedDisk, work: Coroutine[Any, Any, None], seed: int) -> dict[str, bytes]:
    """The files that a process leaves which does this on a new computer."""
    with patch.object(creation, "secrets", SimpleNamespace(token_bytes=Random(seed).randbytes)):
        live(disk, work)
    machine.kill()
    return {name: content for name, content in damage.copy_of(machine).items() if name != "ballast"}


def machine_of(files: dict[str, bytes], seed: int, sector_bytes: int = 512) -> Machine:
    """A computer with these files."""
    machine = Machine(seed, sector_bytes=sector_bytes)
    machine.make_directory()
    for name, content in files.items():
        damage.put(machine, name, content)
    return machine


@contextmanager
def small() -> Iterator[None]:
    """Have a store do after few bytes, and in few rows, what it does after many; and say nothing."""
    logger = logging.getLogger("broker")
    level = logger.level
    with ExitStack() as stack:
        for module, name, value in (
            (upkeep, "IDLE_BYTES", 8 * 1024),
            (log_store, "LOAD_CHUNK", 7),
            (carry_over, "STEP_ROWS_MAX", 5),
            (statements, "STEP_ROWS_MAX", 5),
        ):
            stack.enter_context(patch.object(module, name, value))
        stack.callback(logger.setLevel, level)
        logger.setLevel(logging.CRITICAL + 1)
        yield
