"""The prepared branch of a unit of work that is decided elsewhere: what it has put to, and got from, queues whose
messages this queue manager keeps itself.

A unit that touches shared queues is decided in the database of the group (queue-sharing rule 10.3.6), a unit of a
program's transaction in the database of that program (transactions rule 1.1). Its branch is prepared before: durable,
and without effect until the decision is known, over restarts if need be. The store keeps the messages put like any
others, and beside them one object that names them and the messages got; when the branch ends, that object goes, and
with it the messages got or those put. A branch that waits for its decision is IN_DOUBT, and nobody guesses.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

import msgpack

from broker.core.calls import settling
from broker.core.calls.puts import delaying
from broker.core.message.entry import AVAILABLE
from broker.core.message.logical_order import Instant
from broker.core.message.rows import KeyRow, ObjectRow, Rows
from broker.core.prepared import resolutions
from broker.core.prepared.branch_delivery import BranchDelivery
from broker.core.prepared.resolvers import Resolvers
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
    from broker.core.queues.handles import Hconn
    from broker.core.queues.message_queue import MessageQueue

SPACE: Final = "HALF"
SPACES: Final = (SPACE, resolutions.SPACE)
"""Of the objects in the store that `PreparedBranches.load` takes."""


class Decider(NamedTuple):
    """The database that decides a branch: a program's, by its id of 16 bytes and the name that the program has for it.
    Its id is empty for the one of the queue-sharing group.
    """

    database: bytes = b""
    name: str = ""


GROUP: Final = Decider()


class PreparedBranch:
    """One branch. `id` is that of its unit where it is decided, `number` that of its object in the store. `puts` and
    `gets` are the ids of its persistent messages; the others are in the unit alone, and are gone with the process.
    `owner` is the connection that is about to decide it, `delivery` the one that ends with it.
    """

    __slots__ = (
        "decider", "delivery", "freed", "gets", "id", "kept", "keys", "loaded", "number", "owner", "puts", "since",
        "size", "unit",
    )  # fmt: skip

    def __init__(self, id: UUID, number: int, since: float, unit: Unit, decider: Decider = GROUP) -> None:
        self.id = id
        self.number = number
        self.since = since  # when it was prepared, wall clock
        self.unit = unit
        self.decider = decider
        self.owner: Hconn | None = None
        self.delivery: BranchDelivery | None = None
        self.puts: list[int] = []
        self.gets: list[int] = []
        self.keys: list[KeyRow] = []
        self.freed: list[tuple[int, bytes, int]] = []  # number of the queue, key, id of the message that holds it
        self.kept = True  # the store has its object
        self.size = 0  # bytes of its messages when it was prepared, while it counts among those
        self.loaded = False  # it is older than this start of the queue manager

    @classmethod
    def of(
        cls, unit: Unit, rows: Rows, number: int, now: float, id: UUID | None = None, decider: Decider = GROUP
    ) -> PreparedBranch:
        """That of a unit which is frozen for its commit, whose rows these are. Its id is that of its part on shared
        queues, unless one is given.
        """
        if id is None:
            assert unit.shared is not None
            id = unit.shared.id
            assert id is not None
        branch = cls(id, number, now, unit, decider)
        branch.puts = [row.id for row in rows.inserts]
        branch.gets = rows.removals
        branch.keys = rows.keys
        branch.kept = bool(rows)
        cancels = unit.extras.cancels if unit.extras is not None else ()
        branch.freed = [
            (each.number, each.hashed, each.holder.id) for each in cancels if (each.number, each.hashed) in rows.freed
        ]
        return branch

    @property
    def external(self) -> bool:
        """True if a database of a program's own decides it."""
        return bool(self.decider.database)

    @property
    def abandoned(self) -> bool:
        """True if nobody is there who would have used a start for the messages that it has got."""
        return self.loaded or self.unit.state == units.IN_DOUBT

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
        """Return the rows that make it durable, of those of its commit: none where it has nothing that lasts. It needs
        no more room than the messages put.
        """
        if not self.kept:
            return Rows()
        fields: dict[str, Any] = {
            "since": self.since, "puts": self.puts, "gets": self.gets, "keys": self.keys, "freed": self.freed,
        }  # fmt: skip
        if self.external:
            fields["database"], fields["name"] = self.decider
        if self.delivery is not None:
            fields["delivery"] = self.delivery.fields()
        row = ObjectRow(SPACE, str(self.id), self.number, SPACE, msgpack.packb(fields))
        return Rows(inserts=rows.inserts, states=[row], steps=rows.steps)

    def commit_rows(self) -> Rows:
        """Its end, committed: the messages got are gone."""
        freed = [(number, hashed) for number, hashed, _ in self.freed]
        return Rows(removals=self.gets, keys=self.keys, freed=freed, dropped=self._dropped())

    def backout_rows(self, counts: Rows | None = None) -> Rows:
        """Its end, backed out: the messages put are gone, the backout `counts` of those got have risen."""
        backouts = [] if counts is None else counts.backouts
        return Rows(removals=self.puts, backouts=backouts, dropped=self._dropped())

    def _dropped(self) -> list[tuple[str, str]]:
        return [(SPACE, str(self.id))] if self.kept else []

    @classmethod
    def from_row(cls, row: ObjectRow) -> PreparedBranch:
        """The branch that a store kept, still without its messages: its unit is in doubt."""
        fields: dict[str, Any] = msgpack.unpackb(row.attributes)
        unit = Unit()
        unit.state = units.IN_DOUBT
        unit.since = fields["since"]
        id = UUID(row.name)
        decider = Decider(fields.get("database", b""), fields.get("name", ""))
        branch = cls(id, row.number, unit.since, unit, decider)
        if not branch.external:
            unit.shared = SharedPart()
            unit.shared.id = id
            unit.shared.loaded = True
        branch.loaded = True
        branch.puts, branch.gets = fields["puts"], fields["gets"]
        branch.keys = [KeyRow(*key) for key in fields["keys"]]
        branch.freed = [(number, hashed, id) for number, hashed, id in fields["freed"]]
        if "delivery" in fields:
            branch.delivery = BranchDelivery.from_fields(fields["delivery"])
        return branch

    def __repr__(self) -> str:
        return f"<PreparedBranch {self.id} {units.STATE_NAMES[self.unit.state]}>"


class PreparedBranches:
    """The branches that are prepared and wait for the decision, by the ids of their units. Those of programs' databases
    are there until their ends are durable, and `coming` until they are prepared.
    """

    def __init__(self) -> None:
        self.by_id: dict[UUID, PreparedBranch] = {}
        self.coming: dict[UUID, PreparedBranch] = {}
        self.bytes = 0  # of the messages of those of programs' databases
        self.external = 0  # how many these are
        self.maximum = 10_000  # of them
        self.resolvers = Resolvers()
        self.resolutions = resolutions.UnitResolutions()
        self.awaited: dict[int, PreparedBranch] = {}  # while messages are loaded: by the ids of theirs
        self._loaded: dict[PreparedBranch, dict[int, Entry]] = {}
        self._owned: dict[Hconn, dict[PreparedBranch, None]] = {}
        self._handled: dict[int, dict[PreparedBranch, None]] = {}  # those with deliveries, by the number of the queue

    def enter(self, branch: PreparedBranch) -> None:
        """A branch is durable."""
        branch.unit.become(units.PREPARED)
        self.by_id[branch.id] = branch
        if branch.external:
            del self.coming[branch.id]
            _leave_alone(branch.unit)
            self._index(branch)

    def decide(self, manager: Manager, branch: PreparedBranch, *, committed: bool) -> Rows:
        """The decision is known: freeze the unit for it. What is to be written before it is settled (backed out), or
        after that (committed: it is durable in the database of the group).
        """
        del self.by_id[branch.id]
        return self.freeze(branch, committed=committed)

    def freeze(self, branch: PreparedBranch, *, committed: bool) -> Rows:
        """Freeze the unit for a decision; return what is to be written."""
        if committed:
            branch.unit.become(units.COMMITTING)
            return branch.commit_rows()
        return branch.backout_rows(settling.back_out(branch.unit))

    # Those of programs' databases

    def announce(self, branch: PreparedBranch) -> None:
        """A branch of a program's database is on its way to the store."""
        self.coming[branch.id] = branch
        self._count(branch)

    def _count(self, branch: PreparedBranch) -> None:
        branch.size = branch.bytes
        self.external += 1
        self.bytes += branch.size

    def over(self, branch: PreparedBranch) -> None:
        """A branch of a program's database is no more, durably."""
        if self.coming.pop(branch.id, None) is None:
            del self.by_id[branch.id]
        self.external -= 1
        self.bytes -= branch.size
        self.own(branch, None)
        if branch.delivery is not None and branch.delivery.queue is not None:
            there = self._handled.get(branch.delivery.queue.number, {})
            there.pop(branch, None)
            if not there:
                self._handled.pop(branch.delivery.queue.number, None)

    def own(self, branch: PreparedBranch, owner: Hconn | None) -> None:
        """A connection, or nobody, is about to decide a branch from now on."""
        if branch.owner is not None:
            owned = self._owned[branch.owner]
            owned.pop(branch, None)
            if not owned:
                del self._owned[branch.owner]
        branch.owner = owner
        if owner is not None:
            self._owned.setdefault(owner, {})[branch] = None

    def owned_by(self, owner: Hconn) -> list[PreparedBranch]:
        """Return the branches that a connection is about to decide."""
        return list(self._owned.get(owner, ()))

    def suspects_of(self, owner: Hconn) -> bool:
        """True if a connection is about to decide a branch with a quarantined delivery (handlers rule 1.4)."""
        return any(each.delivery is not None and each.delivery.suspect for each in self._owned.get(owner, ()))

    def deliveries_of(self, queue: MessageQueue) -> list[BranchDelivery]:
        """Return the deliveries of a queue that end with branches."""
        found = self._handled.get(queue.number, ())
        return [branch.delivery for branch in found if branch.delivery is not None]

    def _index(self, branch: PreparedBranch) -> None:
        if branch.delivery is not None and branch.delivery.queue is not None:
            self._handled.setdefault(branch.delivery.queue.number, {})[branch] = None

    # Loading

    def load(self, row: ObjectRow) -> None:
        """A branch, or what an administrator has decided about one, as the store kept it."""
        if row.space == resolutions.SPACE:
            self.resolutions.load(row)
            return
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
            if branch.external:
                self._count(branch)
                if branch.delivery is not None:
                    branch.delivery.find(branch.unit.gets)
                self._index(branch)
        self._loaded.clear()
        self.awaited.clear()
        self.resolutions.loaded()
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
    _leave_alone(unit)


def _leave_alone(unit: Unit) -> None:
    """Its connection goes on without it."""
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
