"""Ways to break the store, by name, each of which schedules must find, and two that lose nothing (`HARMLESS`).

A mutation takes one guard of the protocol out of the code that runs; the others are left as they are.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from broker.storage import faults, start
from broker.storage.log import manifest as manifests
from broker.storage.log import record, scan
from broker.storage.log.log import Log
from broker.storage.log.manifest import ManifestFile
from broker.storage.log.record import Record
from broker.storage.log.scan import Chain, chain
from broker.storage.log_store import LogStore
from broker.storage.snapshot.carry_over import CarryOver
from broker.storage.snapshot.checks import Checks, Tally
from broker.storage.snapshot.database import Snapshot
from broker.storage.snapshot.delta import Delta
from broker.storage.snapshot_keeper import SnapshotKeeper
from broker.storage.store import Rows
from tests.disk import sqlite_vfs
from tests.disk.machine import Machine
from tests.disk.simulated import BufferedFile, DirectFile, SimulatedDisk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from sqlite3 import Connection

    from broker.storage.log.manifest import Manifest
    from broker.storage.log.record import LogPlace
    from broker.storage.store import MessageRow

_Start = start._Start


@contextmanager
def _patched(*changes: tuple[object, str, Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name, value in changes:
            stack.enter_context(patch.object(owner, name, value))
        yield


def no_check() -> AbstractContextManager[None]:
    """A record counts wherever its header says it lies, whatever its bytes are."""

    def decode(data: memoryview, place: LogPlace, *, seed: int, block_bytes: int) -> Record | None:
        if bytes(data[:4]) != record.MAGIC:
            return None
        _, _, _, generation, file, block, length, number, _ = record._HEADER.unpack_from(data)
        blocks = record.blocks_of(length, block_bytes)
        if place != (file, block) or blocks * block_bytes > len(data):
            return None
        payload = data[record.HEADER_BYTES : record.HEADER_BYTES + length]
        return Record(number, generation, record.LogPlace(file, block), blocks, payload)

    return _patched((scan, "decode", decode))


def no_number() -> AbstractContextManager[None]:
    """What follows the first record behind the snapshot in a file counts, by its place alone."""

    def by_place(records: Iterable[Record], number: int, _: int) -> Chain:
        files: dict[int, list[Record]] = {}
        for each in records:
            files.setdefault(each.place.file, []).append(each)
        found: list[Record] = []
        for kept in sorted(files.values(), key=lambda kept: max(each.number for each in kept)):
            new = next((at for at, each in enumerate(kept) if each.number > number), len(kept))
            found += kept[new:]
        numbered = [each._replace(number=number + at) for at, each in enumerate(found, 1)]
        return Chain(numbered, number + len(numbered), [])

    return _patched((faults, "chain", by_place))


def no_generation() -> AbstractContextManager[None]:
    """A record of an earlier start counts, too."""

    def any_generation(records: Iterable[Record], number: int, _: int) -> Chain:
        behind: dict[int, Record] = {}
        for each in records:
            if each.number > number and (each.number not in behind or each.generation > behind[each.number].generation):
                behind[each.number] = each
        found = []
        while number + 1 in behind:
            number += 1
            found.append(behind[number])
        return Chain(found, number, [each for each in behind.values() if each.number > number])

    return _patched((faults, "chain", any_generation))


def nothing_anew() -> AbstractContextManager[None]:
    """A start trusts what it has read of the log."""
    return _patched((Log, "rewrite", lambda _self, _chain: None))


def files_free_early() -> AbstractContextManager[None]:
    """A file of the log is written over although the snapshot lacks what is in it."""
    turn = Log.turn

    def at_once(self: Log) -> bool:
        kept, self.snap = self.snap, self.number
        try:
            return turn(self)
        finally:
            self.snap = kept

    return _patched((Log, "turn", at_once))


def no_directory_sync() -> AbstractContextManager[None]:
    """Names are durable when the system likes."""
    return _patched((Machine, "sync_names", lambda _self: None))


def no_dropping() -> AbstractContextManager[None]:
    """A start reads what the cache shows."""
    return _patched(
        (SimulatedDisk, "read", lambda self, name: self.read_cached(name, self.inode(name), 0, 1 << 40)),
        (SimulatedDisk, "drop_cache", lambda _self, _name: None),
    )


def no_manifest_comparison() -> AbstractContextManager[None]:
    """A start does not look at how far the manifest vouches for log and database."""
    open_database, check_chain = _Start._open_database, _Start._check_chain

    def lenient(self: Any, kept: Manifest, records: list[Record]) -> Chain:
        kept = replace(kept, durable=0, state=manifests.RUNNING, generation=1 << 30)
        return check_chain(self, kept, records)

    return _patched(
        (_Start, "_open_database", lambda self, kept: open_database(self, replace(kept, snap=0))),
        (_Start, "_check_chain", lenient),
    )


def no_damage_rule() -> AbstractContextManager[None]:
    """The first record that is missing ends the log, whatever follows."""

    def whatever(records: Iterable[Record], number: int, generation: int) -> Chain:
        return chain(records, number, generation)._replace(beyond=[])

    return _patched((faults, "chain", whatever))


def no_new_database() -> AbstractContextManager[None]:
    """A start goes on with the database that a failure has left in doubt, as it shows itself."""
    settle = _Start._settle_database

    async def trusting(self: Any, kept: Manifest) -> Any:
        if self._manifest.doubtful or self._disk.boot() == kept.boot:
            return kept.db, False
        return await settle(self, kept)

    return _patched((_Start, "_settle_database", trusting))


def no_sync_of_the_log() -> AbstractContextManager[None]:
    """A record is acknowledged when the cache has it."""

    def without(write: Any) -> Any:
        def unsynced(self: DirectFile, offset: int, data: bytes) -> None:
            if self.name.startswith("log."):
                self._disk.write(self.name, self._inode, offset, data)
            else:
                write(self, offset, data)

        return unsynced

    return _patched(
        (DirectFile, "write", without(DirectFile.write)), (BufferedFile, "write", without(BufferedFile.write))
    )


def _no_sync_of(kind: str) -> AbstractContextManager[None]:
    sync = sqlite_vfs._File.xSync

    def selective(self: Any, flags: int) -> None:
        if not self._name.endswith(kind):
            sync(self, flags)

    return _patched((sqlite_vfs._File, "xSync", selective))


def no_sync_of_checkpoint() -> AbstractContextManager[None]:
    """A checkpoint ends when the cache has its pages."""
    return _no_sync_of(".db")


def no_sync_of_commit() -> AbstractContextManager[None]:
    """SQLite's log is never synced: a checkpoint would make up for what COMMIT alone leaves out."""
    return _no_sync_of("-wal")


def no_tally() -> AbstractContextManager[None]:
    """Rows are not counted at a start."""
    return _patched((Snapshot, "check_tally", lambda _self, _messages, _total: None))


def number_apart() -> AbstractContextManager[None]:
    """Up to which record the snapshot holds all, and the tally of its rows, are two values in two pages."""
    commit, open_snapshot, seal = Snapshot.commit, Snapshot.open, Checks.seal

    def split(self: Snapshot, db: Connection, number: int, generation: int) -> None:
        db.execute("CREATE TABLE IF NOT EXISTS mark (id INTEGER PRIMARY KEY, number, generation)")
        db.execute("INSERT OR REPLACE INTO mark VALUES (1, ?, ?)", (number, generation))
        commit(self, db, number, generation)

    def joined(self: Snapshot, db: Connection) -> None:
        open_snapshot(self, db)
        number, generation = db.execute("SELECT number, generation FROM mark").fetchone()
        self.tally = self.tally._replace(number=number, generation=generation)

    def sealed(self: Checks, instance: bytes, tally: Tally) -> bytes:
        return seal(self, instance, tally._replace(number=0, generation=0))

    return _patched((Snapshot, "commit", split), (Snapshot, "open", joined), (Checks, "seal", sealed))


def slots_by_parity() -> AbstractContextManager[None]:
    """The version of the manifest says which slot is written, whatever is in the other."""

    def write(self: ManifestFile, **changes: Any) -> None:
        changed = replace(self.current, version=self.current.version + 1, **changes)
        self._file.write(manifests.SLOTS[changed.version % 2], manifests.encode(changed))
        self.current = changed

    return _patched((ManifestFile, "write", write), (ManifestFile, "renew", lambda _self: None))


def two_in_flight() -> AbstractContextManager[None]:
    """The records of a batch in two halves are on their way together, and reach the medium in any order."""
    write, settle = Log.write, SnapshotKeeper.settled

    def halves(self: Log, payload: bytes) -> None:
        rows = record.unpack(memoryview(payload))
        first = record.pack(Rows(inserts=rows.inserts[:1]))
        rows.inserts = rows.inserts[1:]
        second = record.pack(rows)
        blocks = record.blocks_of(len(first), self._block_bytes)
        if not rows.inserts or len(second) + blocks * self._block_bytes > self.room:
            write(self, payload)
            return
        block, number = self._block, self.number
        self._block, self.number = block + blocks, number + 1
        write(self, second)
        after, self._block, self.number = self._block, block, number
        write(self, first)
        self._block, self.number = after, number + 2
        self._highest[self._file] = self.number

    def settled(self: SnapshotKeeper, rows: Rows, size: int) -> None:
        settle(self, rows, size)
        self.number = self._log.number

    return _patched((Log, "write", halves), (SnapshotKeeper, "settled", settled))


def reuse_after_commit() -> AbstractContextManager[None]:
    """A file of the log is free once COMMIT is synced, before the checkpoint and the manifest."""
    turn, init, all_steps = Log.turn, Log.__init__, CarryOver._all
    logs: list[Log] = []

    def noted(self: Log, *arguments: Any) -> None:
        init(self, *arguments)
        logs[:] = [self]

    def early(self: CarryOver, delta: Any) -> Any:
        for step in all_steps(self, delta):
            if self.committed and logs:
                logs[0].snap = max(logs[0].snap, self.number)
            yield step

    return _patched((Log, "__init__", noted), (CarryOver, "_all", early), (Log, "turn", turn))


def no_checkpoint_at_start() -> AbstractContextManager[None]:
    """A start leaves SQLite's log to the next carry-over."""

    async def none(_: Any) -> bool:
        return True

    return _patched((_Start, "_checkpoint", none))


def compared_late() -> AbstractContextManager[None]:
    """A start without room looks for SQLite's log on the medium only when pages of it are in the database."""
    see = _Start._see_on_medium
    seen: list[_Start] = []

    async def late(self: _Start, name: str) -> None:
        if self in seen:
            await see(self, name)
        seen.append(self)

    return _patched((_Start, "_see_on_medium", late))


def nobody_is_spared() -> AbstractContextManager[None]:
    """A load forgets every message that is not persistent, whoever holds it."""
    load = LogStore.load_messages

    async def forgetting(self: LogStore) -> AsyncIterator[list[MessageRow]]:
        fleeting: list[int] = []
        async for rows in load(self):
            fleeting += [row.id for row in rows if not row.persistent]
            yield rows
        if fleeting:
            await self.write(Rows(removals=fleeting))

    return _patched((LogStore, "load_messages", forgetting))


def holders_of_new_messages_alone() -> AbstractContextManager[None]:
    """A carry-over writes who holds a message only with the message."""
    return _patched((Delta, "changed", lambda self: list(self.counters)))


def held_for_ever() -> AbstractContextManager[None]:
    """A backout leaves the message to who holds it."""

    def count(self: Delta, id: int, backouts: int | None, hardened: int) -> None:
        held = self.held.get(id)
        original(self, id, backouts, hardened)
        if held is not None:
            self.held[id] = held

    original = Delta._count
    return _patched((Delta, "_count", count))


def later_holders_forgotten() -> AbstractContextManager[None]:
    """Of what came while a carry-over found no room, who holds a message is not taken in."""
    follow = Delta.follow

    def forgetting(self: Delta, later: Delta) -> None:
        later.held = {}
        follow(self, later)

    return _patched((Delta, "follow", forgetting))


def later_handling_forgotten() -> AbstractContextManager[None]:
    """Of what came while a carry-over found no room, neither keys are taken in nor what handlers have left."""
    follow = Delta.follow

    def forgetting(self: Delta, later: Delta) -> None:
        later.handled, later.keys = {}, {}
        follow(self, later)

    return _patched((Delta, "follow", forgetting))


def keys_in_the_log_alone() -> AbstractContextManager[None]:
    """A carry-over leaves the keys of puts to the log."""
    return _patched((CarryOver, "_keys", lambda *_: iter(())))


def steps_in_the_log_alone() -> AbstractContextManager[None]:
    """A carry-over leaves the steps of handlers to the log."""
    return _patched((Snapshot, "store_steps", lambda *_, **__: None))


def steps_outlive_their_message() -> AbstractContextManager[None]:
    """A carry-over removes messages, and leaves their steps in the database."""
    return _patched((Snapshot, "_drop_steps", lambda *_: None))


def later_steps_forgotten() -> AbstractContextManager[None]:
    """Of two carry-overs that become one, the steps of the later are forgotten."""
    follow = Delta.follow

    def forgetting(self: Delta, later: Delta) -> None:
        later.steps.clear()
        follow(self, later)

    return _patched((Delta, "follow", forgetting))


def handling_of_new_messages_alone() -> AbstractContextManager[None]:
    """A carry-over writes what handlers leave only with a message that comes with it."""
    change = Snapshot.change

    def forgetting(self: Snapshot, db: Any, ids: Any, left: Any) -> None:
        change(self, db, ids, lambda each, before: (*left(each, before)[:-1], before[-1]))

    return _patched((Snapshot, "change", forgetting))


def upgrade_unmarked() -> AbstractContextManager[None]:
    """The manifest does not say that the database is being upgraded."""

    async def silent(_self: Any, **_changes: object) -> None:
        return

    return _patched((_Start, "_note", silent))


MUTATIONS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        no_check,
        no_number,
        no_generation,
        nothing_anew,
        files_free_early,
        no_directory_sync,
        no_dropping,
        no_manifest_comparison,
        no_damage_rule,
        no_new_database,
        no_sync_of_the_log,
        no_sync_of_commit,
        no_sync_of_checkpoint,
        no_tally,
        number_apart,
        slots_by_parity,
        two_in_flight,
        reuse_after_commit,
        no_checkpoint_at_start,
        compared_late,
        nobody_is_spared,
        holders_of_new_messages_alone,
        held_for_ever,
        later_holders_forgotten,
        later_handling_forgotten,
        keys_in_the_log_alone,
        steps_in_the_log_alone,
        steps_outlive_their_message,
        later_steps_forgotten,
        handling_of_new_messages_alone,
        upgrade_unmarked,
    )
}

HARMLESS = {"reuse-after-commit", "no-checkpoint-at-start"}
"""These lose nothing: they are there for the second copy."""
