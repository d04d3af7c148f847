"""The carry-over: what the log has gathered comes into the snapshot, so that its files can be written anew.

Its steps (log rule 6.3), each on the thread of the database, with other work of that thread in between:

a. The store freezes the delta, and the number of the last batch in it.
b. The manifest says `carrying`: the database may be half written from here on.
c. One transaction holds all of the delta, and the number. COMMIT.
d. A checkpoint carries the write-ahead log of SQLite over to the database itself.
e. The manifest says that the snapshot holds all up to the number, and not `carrying` any more.

Only then are the files of the log free. Before (c) a reuse would lose what was acknowledged; until (e) the log is the
second copy while the database is half written.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from broker.core.queues.counts.duration import Duration
from broker.storage.snapshot.errors import StoreBusyError
from broker.storage.snapshot.statements import STEP_ROWS_MAX, runs
from broker.storage.store import StoreFailedError, StoreFullError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator

    from broker.storage.disk.disk import DatabaseWorker
    from broker.storage.log.manifest import ManifestFile
    from broker.storage.snapshot.database import Snapshot
    from broker.storage.snapshot.delta import Delta
    from broker.storage.store import Done, KeyRow, MessageRow

_T = TypeVar("_T")


class CarryOver:
    """The carry-overs of a store, one at a time.

    `number` is that of the last batch in the present one, `committed` whether its delta is in the database, durably,
    and only the checkpoint (d) and the manifest (e) are left. Once `stopped` it does nothing more, and answers nothing.
    `now` tells the seconds since 1970. `durations` are those of the carry-overs that went through, each from its last
    start.
    """

    def __init__(
        self, worker: DatabaseWorker, snapshot: Snapshot, manifest: ManifestFile, now: Callable[[], float]
    ) -> None:
        self._now = now
        self._worker = worker
        self._snapshot = snapshot
        self._manifest = manifest
        self.running = False
        self.stopped = False
        self.committed = False
        self.number = snapshot.tally.number
        self.durations = Duration()
        self._began = 0.0  # the last `start`

    def start(self, delta: Delta, number: int, ended: Done) -> None:
        """Carry over a delta that ends with the batch `number`, then call `ended`: with None; with StoreFullError or
        StoreBusyError, after which `resume` or, unless it is committed, another `start` may work; or with
        StoreFailedError, after which nothing may.
        """
        self.committed = False
        self.number = number
        self._began = self._now()
        self._run(self._all(delta), ended)

    def resume(self, ended: Done) -> None:
        """Go on with the checkpoint, as `start` otherwise."""
        self._run(self._rest(), ended)

    def _run(self, steps: Iterator[Callable[[sqlite3.Connection], None]], ended: Done) -> None:
        self.running = True
        self._next(steps, ended, None)

    def _next(
        self, steps: Iterator[Callable[[sqlite3.Connection], None]], ended: Done, error: Exception | None
    ) -> None:
        if self.stopped:
            return
        if error is not None:
            self._broken_off(error, ended)
            return
        step = next(steps, None)
        if step is None:
            self._end(ended, None)
        else:
            self._worker.submit(step, partial(self._next, steps, ended))

    def _broken_off(self, error: Exception, ended: Done) -> None:
        """End a failed carry-over; where it found no room, or the database locked, undo it unless it has committed
        (b).
        """
        if isinstance(error, StoreFullError | StoreBusyError) and not self.committed:
            self._worker.submit(self._undo, lambda failed: self._end(ended, failed or error))
        else:
            self._end(ended, error)

    def _end(self, ended: Done, error: Exception | None) -> None:
        self.running = False
        if error is None:
            self.durations.add(max(0.0, self._now() - self._began))
        ended(error)

    def _all(self, delta: Delta) -> Iterator[Callable[[sqlite3.Connection], None]]:
        snapshot = self._snapshot
        if not self._manifest.current.carrying:
            yield partial(self._note, carrying=True)
        yield snapshot.begin
        changed: list[int] = []
        yield lambda _: changed.extend(delta.changed())  # there may be many
        for ids in _chunks(changed):
            yield partial(snapshot.change, ids=ids, left=delta.counted)
        for ids in _chunks(delta.removals):
            yield partial(snapshot.remove, ids=ids)
        for rows in runs(delta.inserts.values()):
            yield partial(_insert, snapshot=snapshot, rows=rows, delta=delta)
        if delta.objects:
            yield partial(snapshot.define, objects=list(delta.objects.items()))
        yield from self._keys(delta.keys)
        for steps in runs(chain.from_iterable(each.values() for each in delta.steps.values())):
            yield partial(snapshot.store_steps, rows=steps)
        snapshot.raise_high_water(delta.high_water)
        yield partial(snapshot.commit, number=self.number, generation=self._manifest.current.generation)
        self.committed = True
        yield from self._rest()

    def _keys(self, keys: dict[tuple[int, bytes], KeyRow | None]) -> Iterator[Callable[[sqlite3.Connection], None]]:
        """Keys of puts, those of one page together. More of those whose time is over go than come, as long as there are
        some.
        """
        snapshot, now = self._snapshot, self._now()
        ordered: list[tuple[int, bytes]] = []
        yield lambda _: ordered.extend(sorted(keys))
        for chunk in _chunks(ordered):
            yield partial(snapshot.drop_keys, keys=chunk)
        for chunk in _chunks(ordered):
            rows = [row for row in map(keys.__getitem__, chunk) if row is not None]
            yield partial(snapshot.store_keys, rows=[row for row in rows if not row.until or row.until > now])
        dropped: list[int] = []
        for _ in range(2 + 2 * len(ordered) // STEP_ROWS_MAX):
            if not dropped or dropped[-1]:
                yield lambda db: dropped.append(snapshot.drop_old_keys(db, now, STEP_ROWS_MAX))

    def _rest(self) -> Iterator[Callable[[sqlite3.Connection], None]]:
        yield self._snapshot.checkpoint
        yield self._note_end
        self.committed = False

    def _note_end(self, db: sqlite3.Connection) -> None:
        durable = max(self.number, self._manifest.current.durable)  # which may have been noted since this began
        self._note(db, carrying=False, snap=self.number, durable=durable)

    def _undo(self, db: sqlite3.Connection) -> None:
        self._snapshot.roll_back(db)
        self._note(db, carrying=False)

    def _note(self, _: sqlite3.Connection, **changes: object) -> None:
        note(self._manifest, **changes)


def _insert(db: sqlite3.Connection, snapshot: Snapshot, rows: list[MessageRow], delta: Delta) -> None:
    snapshot.insert(db, list(map(delta.left, rows)) if delta.held or delta.placed or delta.handled else rows)


def note(manifest: ManifestFile, **changes: object) -> None:
    """Write the manifest; raises StoreFailedError."""
    try:
        manifest.write(**changes)
    except OSError as error:
        raise StoreFailedError(f"the manifest cannot be written: {error}") from error


def _chunks(items: Iterable[_T]) -> Iterator[list[_T]]:
    chunk: list[_T] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == STEP_ROWS_MAX:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
