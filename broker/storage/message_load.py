"""Loading messages: those of the snapshot, as the log has left them, and those of the log in their places."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker.storage.snapshot.delta import Delta
    from broker.storage.snapshot_keeper import SnapshotKeeper
    from broker.storage.store import MessageRow


async def loaded_messages(keeper: SnapshotKeeper, delta: Delta, chunk: int) -> AsyncIterator[list[MessageRow]]:
    """All messages, while nothing is carried over, some `chunk` at a time; `delta` is what the snapshot lacks. Raises
    StoreUnusableError where the rows are not those that were written.
    """
    changed = bool(delta.removals or delta.counters or delta.held or delta.placed or delta.handled)
    new = iter(sorted(delta.inserts))
    upcoming = next(new, None)
    count = total = 0
    async for page, checks in _pages(keeper, chunk):
        count, total = count + len(page), total + checks
        rows = [delta.left(row) for row in page if row.id not in delta.removals] if changed else page.copy()
        last = page[-1].id if page else 2**63
        merged = False
        while upcoming is not None and upcoming < last:
            row = delta.inserts.get(upcoming)
            if row is not None:  # else it was removed while this load goes on
                rows.append(delta.left(row)._replace(data=None))
            upcoming, merged = next(new, None), True
        if rows:
            yield sorted(rows) if merged else rows
    keeper.snapshot.check_tally(count, total)


async def _pages(keeper: SnapshotKeeper, chunk: int) -> AsyncIterator[tuple[list[MessageRow], int]]:
    """The messages of the snapshot, a page after the other, with the sums of their checks; the last is empty. The
    next is read while one is used.
    """
    database, snapshot = keeper.database, keeper.snapshot
    read = partial(snapshot.load_messages, limit=chunk)
    reading = asyncio.ensure_future(database.perform(partial(read, after=-1)))
    try:
        while True:
            page, checks = await reading
            if page:
                reading = asyncio.ensure_future(database.perform(partial(read, after=page[-1].id)))
            yield page, checks
            if not page:
                break
    finally:
        reading.cancel()
