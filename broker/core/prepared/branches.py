"""The prepared branch of a unit of work that touches shared queues: what it has put to, and got from, queues whose
messages this queue manager keeps itself.

Such a unit is decided in the database of the group. Its prepared branch is prepared before: durable, and without effect
until the decision is known, over restarts if need be (queue-sharing rule 10.3.6). The store keeps the messages put like
any others, and beside them one object that names them and the messages got; when the branch ends, that object goes, and
with it the messages got or those put. A branch that waits for its decision is IN_DOUBT, and nobody guesses.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgpack

from broker.core.calls import settling
from broker.core.calls.puts import delaying
from broker.core.message.entry import AVAILABLE
from broker.core.message.logical_order import Instant
from broker.core.message.rows import KeyRow, ObjectRow, Rows
from broker.core.queues import unit as units
from broker.core.queues.keys import KeyHolder, Keys
from broker.core.queues.unit import SharedPart, Unit
from broker.core.queues.unit_extras import FreedKey, PutKey, UnitExtras

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.message.rows import MessageRow
    from broker.core.moment import Moment
    from broker.core.queues.message_queue import MessageQueue

SPACE: Final = "HALF"


class PreparedBranch:
    """One branch. `id` is that of its unit in the database of the group, `number` that of its object in the store.
    `puts` and `gets` are the ids of its persistent messages; the others are in the unit alone, and are gone with the
    process.
    """

    __slots__ = ("freed", "gets", "id", "keys", "number", "puts", "since", "unit")

    def __init__(self, id: UUID, number: int, since: float, unit: Unit) -> None:
        self.id = id
        self.number = number
        self.since = since  # when it was prepared, wall clock
        self.unit = unit
        self.puts: list[int] = []
        self.gets: list[int] = []
        self.keys: list[KeyRow] = []
        self.freed: list[tuple[int, bytes, int]] = []  # number of the queue, key, id of the message that holds it

    @classmethod
    def of(cls, unit: Unit, rows: Rows, number: int, now: float) -> PreparedBranch:
        """That of a unit which is frozen for its commit, whose rows these are."""
        assert unit.shared is not None
        assert unit.shared.id is not None
        branch = cls(unit.shared.id, number, now, unit)
        branch.puts = [row.id for row in rows.inserts]
        branch.gets = rows.removals
        branch.keys = rows.keys
        cancels = unit.extras.cancels if unit.extras is not None else ()
        branch.freed = [
            (each.number, each.hashed, each.holder.id) for each in cancels if (each.number, each.hashed) in rows.freed
        ]
        return branch

    @property
    def messages(self) -> list[Entry]:
        """Its messages, on private queues, those that are not persistent too."""
        return [entry for entry in (*self.unit.puts, *self.unit.gets) if not entry.queue.shared]

    @property
    def bytes(self) -> int:
        """Their data."""
        return sum(entry.length for entry in self.messages)

    def counts(self) -> dict[str, int]:
        """Return the number of messages, by the names of their queues."""
        return Counter(entry.queue.name for entry in self.messages)

    # What the store keeps

    def prepared_rows(self, rows: Rows) -> Rows:
        """Return the rows that make it durable, of those of its commit. It needs no more room than the messages put."""
        fields = {
            "since": self.since, "puts": self.puts, "gets": self.gets, "keys": self.keys, "freed": self.freed,
        }  # fmt: skip
        row = ObjectRow(SPACE, str(self.id), self.number, SPACE, msgpack.packb(fields))
        return Rows(inserts=rows.inserts, states=[row], steps=rows.steps)

    def commit_rows(self) -> Rows:
        """Its end, committed: the messages got are gone."""
        freed = [(number, hashed) for number, hashed, _ in self.freed]
        return Rows(removals=self.gets, keys=self.keys, freed=freed, dropped=[(SPACE, str(self.id))])

    def backout_rows(self, counts: Rows) -> Rows:
        """Its end, backed out: the messages put are gone, the backout `counts` of those got have risen."""
        return Rows(removals=self.puts, backouts=counts.backouts, dropped=[(SPACE, str(self.id))])

    @classmethod
    def from_row(cls, row: ObjectRow) -> PreparedBranch:
        """The branch that a store kept, still without its messages: its unit is in doubt."""
        fields: dict[str, Any] = msgpack.unpackb(row.attributes)
        unit = Unit()
        unit.state = units.IN_DOUBT
        unit.since = fields["since"]
        unit.shared = SharedPart()
        unit.shared.id = UUID(row.name)
        unit.shared.loaded = True
        branch = cls(unit.shared.id, row.number, unit.since, unit)
        branch.puts, branch.gets = fields["puts"], fields["gets"]
        branch.keys = [KeyRow(*key) for key in fields["keys"]]
        branch.freed = [(number, hashed, id) for number, hashed, id in fields["freed"]]
        return branch

    def __repr__(self) -> str:
        return f"<PrivateHalf {self.id} {units.STATE_NAMES[self.unit.state]}>"


class PreparedBranches:
    """The branches that are prepared and wait for the decision, by the ids of their units."""

    def __init__(self) -> None:
        self.by_id: dict[UUID, PreparedBranch] = {}
        self.awaited: dict[int, PreparedBranch] = {}  # while messages are loaded: by the ids of theirs
        self._loaded: dict[PreparedBranch, dict[int, Entry]] = {}

    def enter(self, branch: PreparedBranch) -> None:
        """A branch is durable."""
        branch.unit.become(units.PREPARED)
        self.by_id[branch.id] = branch

    def decide(self, manager: Manager, branch: PreparedBranch, *, committed: bool) -> Rows:
        """The decision is known: freeze the unit for it. What is to be written before it is settled (backed out), or
        after that (committed: it is durable in the database of the group).
        """
        del self.by_id[branch.id]
        if committed:
            branch.unit.become(units.COMMITTING)
            return branch.commit_rows()
        return branch.backout_rows(settling.back_out(branch.unit))

    # Loading

    def load(self, row: ObjectRow) -> None:
        """A branch as the store kept it."""
        branch = PreparedBranch.from_row(row)
        self.by_id[branch.id] = branch
        self.awaited.update(dict.fromkeys([*branch.puts, *branch.gets], branch))
        self._loaded[branch] = {}

    def take(self, entry: Entry, row: MessageRow) -> None:
        """A message of one of them. A mark that it was in somebody's hands says no more than that the branch does."""
        entry.backout_count = row.backout_count
        entry.hardened = bool(row.hardened)
        self._loaded[self.awaited.pop(row.id)][row.id] = entry

    def loaded(self, manager: Manager, moment: Moment) -> int:
        """All messages are loaded: those of the branches are uncommitted on their queues, as they were. How many."""
        count = 0
        for branch, entries in self._loaded.items():
            count += len(entries)
            _put(branch, entries)
            _get(branch, entries, moment)
            _hold_keys(manager, branch, entries)
        self._loaded.clear()
        self.awaited.clear()
        return count


def returned(manager: Manager, unit: Unit, moment: Moment) -> None:
    """A branch that was loaded has been backed out: for triggers the messages that it had got arrive now. Those whom
    they started ended with the last run of the queue manager, and what was counted at this start was without them
    (R-12).
    """
    there: dict[MessageQueue, list[Entry]] = {}
    for entry in unit.gets:
        if entry.state == AVAILABLE and not entry.queue.shared:
            there.setdefault(entry.queue, []).append(entry)
    for queue, entries in there.items():
        if queue.trigger_on:
            manager.triggers.came(queue, entries, moment.tick)


def doubt(unit: Unit) -> None:
    """Nobody knows what has become of a unit that is frozen or prepared; its connection goes on without it. Where its
    handles stand stays as it is, whatever it comes to.
    """
    if unit.state == units.COMMITTING:
        unit.become(units.PREPARED)
    unit.become(units.IN_DOUBT)
    unit.owner = None
    unit.last_puts.clear()
    unit.last_gets.clear()


def _put(branch: PreparedBranch, entries: dict[int, Entry]) -> None:
    unit = branch.unit
    for entry in _those(branch.puts, entries):
        entry.queue.place(entry, unit)
        unit.puts.append(entry)
        if entry.handling is not None and entry.delayed:
            entry.queue.delay(entry)
            delaying.join(unit, (entry,), Instant(wall=entry.handling.not_before))


def _get(branch: PreparedBranch, entries: dict[int, Entry], moment: Moment) -> None:
    unit = branch.unit
    for entry in _those(branch.gets, entries):
        handling = entry.handling
        if handling is not None and handling.not_before <= moment.wall:  # as `releasing.load` has it
            handling.not_before = 0.0
            entry.handling = handling.left
        entry.queue.place(entry, unit)
        entry.queue.arrive((entry,))
        entry.queue.take(entry, unit)
        unit.gets[entry] = True


def _hold_keys(manager: Manager, branch: PreparedBranch, entries: dict[int, Entry]) -> None:
    """The keys of the unit's puts are its own, and those that it frees are not free yet."""
    for row in branch.keys:
        if row.id in entries:
            keys, extras = _keys(manager, branch, entries[row.id])
            keys.begin(row.key, branch.unit, entries[row.id], KeyHolder(row.id, row.until, row.digest, row.msg_id))
            extras.puts.append(PutKey(keys, row.key, entries[row.id]))
    for number, hashed, id in branch.freed:
        if id in entries:
            keys, extras = _keys(manager, branch, entries[id])
            extras.cancels.append(FreedKey(keys, hashed, entries[id], number))


def _keys(manager: Manager, branch: PreparedBranch, entry: Entry) -> tuple[Keys, UnitExtras]:
    queue, unit = entry.queue, branch.unit
    if queue.keys is None:
        queue.keys = Keys(queue.number, manager.keys)
    unit.extras = unit.extras or UnitExtras()
    return queue.keys, unit.extras


def _those(ids: list[int], entries: dict[int, Entry]) -> Iterator[Entry]:
    return (entries[id] for id in ids if id in entries)
