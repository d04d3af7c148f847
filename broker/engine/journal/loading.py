"""Loading: the messages that a store kept are put on their queues again."""

from __future__ import annotations

import asyncio
import gc
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from broker.core.calls import releasing
from broker.core.calls.puts import keying
from broker.core.message.entry import AVAILABLE, Entry
from broker.core.message.rows import GOT, HANDLED_ALONE, Rows
from broker.core.message.stepped import with_room
from broker.engine.journal.bodies import tell_damage
from broker.storage.store import DataDamagedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from broker.core.manager import Manager
    from broker.core.message.rows import MessageRow, StepRow
    from broker.core.moment import Moment
    from broker.core.queues.queue import LocalQueue
    from broker.storage.store import Store


async def load_messages(store: Store, core: Manager, moment: Moment) -> int:
    """Load all messages; how many there are. Those of no queue are removed from the store, and those whose consumer has
    acknowledged them, or whose prepared unit can never be published; so are keys of puts whose time is over.

    The backout counts of messages that were in somebody's hands go up by one, here and in the store (journal rule 8);
    those that handlers in this process had in theirs are judged together (handlers rule 1.5).
    """
    loading = _Loading(core, moment)
    async for steps in store.load_steps():
        loading.take_steps(steps)
    with _collector_at_rest():
        async for rows in store.load_messages():
            nonpersistent = loading.take(rows)
            if nonpersistent:  # an orderly stop kept them for this start only, with their bodies
                await _read(store, nonpersistent)
    loading.charge()
    loading.give_out(core)
    async for keys in store.load_keys():
        loading.changes.extend(keying.load(core, keys, moment.wall))
    if loading.changes:
        await store.write(loading.changes)
    return loading.count


async def _read(store: Store, entries: Sequence[Entry]) -> None:
    """Bring the data of messages into memory; those whose data is damaged are set aside."""
    arrived: asyncio.Future[tuple[dict[int, bytes], Exception | None]] = asyncio.get_running_loop().create_future()

    def settle(bodies: dict[int, bytes], error: Exception | None) -> None:
        if not arrived.done():
            arrived.set_result((bodies, error))

    store.read([entry.id for entry in entries], settle)
    bodies, error = await arrived
    if error is not None and not isinstance(error, DataDamagedError):
        raise error
    for entry in entries:
        entry.data = bodies.get(entry.id)
        if entry.data is None and entry.state == AVAILABLE:  # who holds it is told at the reading
            entry.queue.set_aside(entry, str(error))
            tell_damage(entry, str(error))


class _Loading:
    """One load: what it has met so far."""

    def __init__(self, core: Manager, moment: Moment) -> None:
        self._core = core
        self._moment = moment
        self._queues = {queue.number: queue for queue in core.objects.queues.values()}
        self._units = core.sinks.units
        self._branches = core.branches
        self._held: dict[int, list[tuple[int, Entry]]] = {}  # by holder: sequence and message
        self._marked: list[tuple[Entry, bool]] = []  # by handlers in this process, and whether each was alone
        self._steps: dict[int, list[StepRow]] = {}  # of messages that are still to come
        self.changes = Rows()
        self.count = 0

    def take_steps(self, rows: list[StepRow]) -> None:
        """Keep steps until their messages come."""
        for row in rows:
            self._steps.setdefault(row.id, []).append(row)

    def take(self, rows: list[MessageRow]) -> list[Entry]:
        """Put the messages of some rows on their queues; those that are not persistent."""
        nonpersistent: list[Entry] = []
        loaded: dict[LocalQueue, list[Entry]] = {queue: [] for queue in self._queues.values()}
        common: dict[Any, Any] = {}
        for row in rows:
            queue = self._queues.get(row.queue)
            if queue is None:
                self.changes.removals.append(row.id)
                continue
            entry = Entry.from_row(queue, row, prepared=row.holder in self._units)
            entry.share(common)
            if self._steps and (steps := self._steps.pop(row.id, None)):
                with_room(entry, self._core.deliveries.step_budget).load(steps)
            if row.id in self._branches.awaited:
                self._branches.take(entry, row)
                continue
            if row.holder:
                self._held.setdefault(row.holder, []).append((row.sequence, entry))
            else:
                loaded[queue].append(entry)
            if not row.persistent:
                nonpersistent.append(entry)
            if row.hardened and not row.holder:  # what is held keeps its mark: to write it would let the message go
                if row.hardened == GOT:
                    self.changes.backouts.append((row.id, entry.backout_count))
                else:
                    self._marked.append((entry, row.hardened == HANDLED_ALONE))
        for queue, entries in loaded.items():
            if entries:
                releasing.load(self._core, queue, entries, self._moment)
                self.count += len(entries)
        return nonpersistent

    def charge(self) -> None:
        """Judge what handlers in this process had in their hands: all of it is known now."""
        self.changes.extend(self._core.deliveries.load_marked(self._marked, self._moment.wall))

    def give_out(self, core: Manager) -> None:
        """Give the messages that are held to those who hold them."""
        for number, held in self._held.items():
            held.sort(key=itemgetter(0))
            if number in self._units:
                core.sinks.load_messages(number, held)
            else:
                self.changes.removals += core.consumers.load_claims(number, held)
            self.count += len(held)
        self.count += core.branches.loaded(core, self._moment)
        self.changes.extend(core.sinks.loaded())


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Nothing that is made in here is garbage, but Python would look through all of it time and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
