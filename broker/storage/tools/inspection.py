"""All of a stopped store, read past the caches: what is wrong with it, and what counts.

Nothing is written. What is found is kept as it was found, for `broker.storage.tools.recover` to make a store of.
"""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, Self

from broker.storage import faults
from broker.storage.creation import OLD_FILE, UNFINISHED
from broker.storage.log import manifest as manifests
from broker.storage.log.record import unpack
from broker.storage.log.scan import chain
from broker.storage.snapshot.checks import TALLY_MAX, Checks, Tally
from broker.storage.snapshot.delta import Delta
from broker.storage.snapshot.steps import others_than_written
from broker.storage.start import databases
from broker.storage.store import StoreUnusableError
from broker.storage.tools import reading
from broker.storage.tools.lost_manifest import rebuilt
from broker.storage.tools.naming import Naming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Set
    from types import TracebackType

    from broker.storage.disk.disk import Disk
    from broker.storage.log.manifest import Manifest
    from broker.storage.log.record import Record
    from broker.storage.log.scan import Chain
    from broker.storage.store import KeyRow, ObjectRow, StepRow
    from broker.storage.tools.reading import FoundMessage

_CHUNK_ROWS: Final = 256
_CHUNK_BYTES: Final = 8 * 1024 * 1024


def _nothing() -> None:
    """Nobody is in a hurry."""


class Inspection:
    """A store in the directory of `disk`, which nobody has open: to enter, then to `look`, and to `look_at_messages`.

    `kept` is the manifest of a store that has none yet. `handle` is called now and then, and may raise.

    `findings` are what is wrong, a line each; `notes` what is as a crash may leave it, and no damage.
    """

    def __init__(self, disk: Disk, kept: Manifest | None = None, handle: Callable[[], None] = _nothing) -> None:
        self.disk = disk
        self._given = kept
        self._handle = handle
        self.findings: list[str] = []
        self.notes: list[str] = []
        self.kept: Manifest
        self.rebuilt = False  # there is no manifest, and `kept` was made up of what the files say
        self.records: list[Record] = []
        self.database: reading.DamagedDatabase | None = None  # None: SQLite cannot read it at all
        self.tally: Tally | None = None  # None: the state row is not what was written
        self.chain: Chain | None = None
        self.objects: dict[tuple[str, str], ObjectRow] = {}  # of the snapshot, those whose checks hold
        self.keys: dict[tuple[int, bytes], KeyRow] = {}  # of puts, likewise
        self.steps: dict[int, dict[int, StepRow]] = {}  # by message and place, likewise
        self.lost_steps: dict[int, int] = {}  # by message: those that are not what was written
        self.lost_objects = 0
        self.database_whole = False
        self.messages = 0  # that a start finds: of the snapshot and of the log
        self.definitions = 0  # likewise
        self.naming = Naming(())
        self._removed: Set[int] = set()  # messages that the log removes, or brings itself
        self._brought = 0  # messages that the log brings, and that are left
        self._changed: Set[int] = set()  # messages that the log changes or removes, and does not bring
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def look(self) -> None:
        """Read everything but the messages of the snapshot. Raises StoreUnusableError when there is no store or it is
        of a newer format, and when too little of it is left to tell what it was.
        """
        self._look_at_manifest()
        self.checks = Checks(self.kept.seed)
        for number in range(self.kept.files):
            self._look_at_log(number)
        self._open_database()
        before = len(self.findings)
        if self.database is not None:
            self._look_at_snapshot(self.database)
        self.database_whole = self.database is not None and len(self.findings) == before
        self._look_at_chain()

    def look_at_messages(self) -> None:
        """Read the messages of the snapshot, after `look`: the findings are then complete."""
        database = self.database
        self.messages = self._brought
        if database is None:
            return
        before, unreadable = len(self.findings), database.unreadable
        count = total = 0
        awaited = set(self._changed)
        for each, data in self.stored_messages():
            count, total = count + 1, total + each.check
            awaited.discard(each.row.id)
            self.messages += each.row.id not in self._removed
            self._judge(each, data)
        path = self.disk.path / self.kept.database
        if database.unreadable > unreadable:
            self.findings.append(f"{path}: at {database.unreadable - unreadable} places messages cannot be read")
        tally = self.tally
        if tally is not None and (count, total % TALLY_MAX) != (tally.messages, tally.message_sum):
            self.findings.append(f"{path}: it has {count} messages, and they are not the {tally.messages} written")
        if awaited:
            self.findings.append(f"{path}: it lacks {len(awaited)} messages that the log changes or removes")
        self.database_whole = self.database_whole and len(self.findings) == before

    def stored_messages(self) -> Iterator[tuple[FoundMessage, bytes | None]]:
        """The messages of the snapshot that can be read, each with its data, or None where that is not what was put."""
        if self.database is not None:
            for chunk in _chunks(self.database.messages()):
                self._handle()
                data = self.database.data([each.row for each in chunk if each.head])
                for each in chunk:
                    yield each, data.get(each.row.id)

    # The parts

    def _look_at_manifest(self) -> None:
        if self._given is not None:
            self.kept = self._given
            return
        path = self.disk.path / manifests.FILE
        slots = self._slots()
        kept = manifests.newest(slots)
        if kept is None:
            if slots:
                self.findings.append(f"{path} holds no valid manifest")
            self.rebuilt = True
            self.kept = rebuilt(self.disk)
            self.notes.append(
                "the key was found again in the files; nobody can tell whether the end of the log is missing"
            )
            return
        self.kept = kept
        for number, slot in enumerate(slots):
            if slot.doubtful and kept.state != manifests.ORDERLY:
                self.notes.append(f"{path}: slot {number} is not valid, as a crash or a failure may leave it")
            elif slot.doubtful:
                self.findings.append(f"{path}: slot {number} is not valid")
        if kept.state == manifests.FAILED:
            self.notes.append(f"the last stop was a failure: {kept.cause}")
        elif kept.state == manifests.RUNNING:
            self.notes.append("the last stop was not orderly")

    def _slots(self) -> list[manifests.Slot]:
        """Return the slots of the manifest; none when it is missing or cannot be read. Raises StoreUnusableError."""
        path = self.disk.path / manifests.FILE
        names = self.disk.names()
        if manifests.FILE in names:
            found = self.disk.identity(manifests.FILE)
            if found is not None and found.size != manifests.FILE_BYTES:
                self.findings.append(faults.wrong_length(path, found.size, manifests.FILE_BYTES))
            try:
                return manifests.read_slots(self.disk)
            except OSError as error:
                self.findings.append(f"{path} cannot be read: {error}")
                return []
        if UNFINISHED in names:
            raise StoreUnusableError(f"{self.disk.path} is a backup that was cut short; make another")
        if not databases(names) and manifests.log_name(0) not in names:
            old = "has a store of an older release; a start upgrades it"
            raise StoreUnusableError(f"{self.disk.path} {old if OLD_FILE in names else 'has no store'}")
        self.findings.append(f"{path} is missing")
        return []

    def _look_at_log(self, number: int) -> None:
        records, fault = faults.log_fault(self.disk, self.kept, number)
        self.records += records
        if fault is not None:
            self.findings.append(fault)

    def _open_database(self) -> None:
        fault = faults.database_fault(self.disk, self.kept)
        if fault is not None:
            self.findings.append(fault)
        name = self.kept.database
        found = self.disk.identity(name)
        if found is None or not found.size:
            return
        try:
            db = self._stack.enter_context(reading.connected(self.disk, name))
            database = reading.DamagedDatabase(db, self.checks)
            lines = database.faults()
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except (OSError, sqlite3.Error) as error:
            self.findings.append(f"{self.disk.path / name} cannot be read: {error}")
            return
        self.findings += [f"{self.disk.path / name}: {line}" for line in lines]
        self.database = database

    def _look_at_snapshot(self, database: reading.DamagedDatabase) -> None:
        path = self.disk.path / self.kept.database
        fault = faults.length_fault(self.disk, self.kept, database.size())
        if fault is not None:
            self.findings.append(fault)
        state = database.state()
        if state is None:
            self.findings.append(f"{path}: its state row is not what was written")
        elif state[0] != self.kept.instance:
            self.findings.append(f"{path} is the database of another store")
        else:
            self.tally = state[1]
            fault = faults.snapshot_fault(self.disk, self.kept, self.tally)
            if fault is not None:
                self.findings.append(fault)
        self._look_at_objects(database)

    def _look_at_objects(self, database: reading.DamagedDatabase) -> None:
        path = self.disk.path / self.kept.database
        count = total = 0
        for each in database.objects():
            count, total = count + 1, total + each.check
            if each.whole:
                self.objects[each.row.space, each.row.name] = each.row
            else:
                self.findings.append(f"{path}: the definition of {each.row.name} is not what was written")
        objects, steps = count, 0
        for key in database.put_keys():
            count, total = count + 1, total + key.check
            if key.whole:
                self.keys[key.row.queue, key.row.key] = key.row
            else:
                self.findings.append(f"{path}: the key of the put of message {key.row.id} is not what was written")
        keys = count - objects
        for step in database.steps():
            steps, total = steps + 1, total + step.check
            if step.whole:
                self.steps.setdefault(step.row.id, {})[step.row.place] = step.row
            else:
                self.lost_steps[step.row.id] = self.lost_steps.get(step.row.id, 0) + 1
                self.findings.append(f"{path}: a step of message {step.row.id} is not what was written")
        count += steps
        tally = self.tally
        expected = count if tally is None else tally.objects
        whole = len(self.objects) + len(self.keys) + sum(map(len, self.steps.values()))
        self.lost_objects = max(expected - whole, 1 if database.unreadable else 0)
        if tally is not None and (count, total % TALLY_MAX) != (tally.objects, tally.object_sum):
            self.findings.append(f"{path}: {others_than_written(objects, keys, steps, tally.objects)}")
        self.naming = Naming(self.objects.values())

    def _look_at_chain(self) -> None:
        self.definitions = len(self.objects)
        if self.tally is None:
            return
        if self.rebuilt:
            self.chain = chain(self.records, self.tally.number, self.tally.generation)
            if self.chain.beyond:
                self.findings.append(f"the log {self.disk.path / 'log.*'} is damaged: it has gaps")
        else:
            self.chain, fault = faults.chain_fault(self.disk, self.kept, self.tally, self.records)
            if fault is not None:
                self.findings.append(fault)
        delta = Delta()
        for each in self.chain.records:
            delta.apply(unpack(each.payload))
        self._changed = delta.removals.keys() | delta.changed()
        self._removed, self._brought = delta.removals.keys() | delta.inserts.keys(), len(delta.inserts)
        left = {**self.objects, **delta.objects}
        self.definitions = sum(row is not None for row in left.values())
        self.naming = Naming([*self.objects.values(), *(row for row in delta.objects.values() if row is not None)])

    def _judge(self, each: FoundMessage, body: bytes | None) -> None:
        path = self.disk.path / self.kept.database
        if not each.head:
            self.findings.append(f"{path}: the descriptor of message {each.row.id} is not what was written")
            return
        if not each.counters:
            named = self.naming.message(each.row)
            self.findings.append(
                f"{path}: the backout count or the holder of a message is not what was written: {named}"
            )
        if body is None:
            self.findings.append(
                f"{path}: the data of a message is missing or not what was put: {self.naming.message(each.row)}"
            )


def _chunks(found: Iterable[FoundMessage]) -> Iterator[list[FoundMessage]]:
    """Messages whose data is read together; that of one which is not what was written is not read at all."""
    chunk: list[FoundMessage] = []
    size = 0
    for each in found:
        chunk.append(each)
        size += each.row.length if each.head else 0
        if len(chunk) == _CHUNK_ROWS or size >= _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
