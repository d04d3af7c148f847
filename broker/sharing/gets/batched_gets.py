"""Batched gets: one statement gives messages to all gets of this member that ask the same of a queue (queue-sharing
rule 10.2.3).

1. A batch is one call of the database, `get_messages`: it fences, locks what comes first, moves each message to the
   unit of work of its get, or removes it, and counts. Nothing is changed in memory before it is committed: then the
   core grants the same messages, on a shelf that is made of just these.
2. One get leads a batch, for itself and those behind it. While it is under way, gets with the same key gather: then the
   first of them leads the next, so they are served in order. Calls for many messages that do not wait may make two
   batches at a time: the database makes one while what the other was given is granted here.
3. What was given to a get that has ended meanwhile goes back, as if it had not been got.
4. A get outside syncpoint is committed when its messages are in hand: where the session is lost before, nothing has
   happened, and where it is lost with the answer to that, it is asked whether (queue-sharing rule 10.2.6).
"""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final

from broker.core.calls.batches import grant_run
from broker.core.queues.effects import Grant
from broker.engine.mistakes import mistake
from broker.mqi.errors import MQError
from broker.sharing.database.errors import OutcomeUnknownError
from broker.sharing.database.gathering import StatementLine
from broker.sharing.database.rows import entry_of
from broker.sharing.gets.returned import in_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.message.entry import Entry
    from broker.core.queues.shared_queue import SharedQueue
    from broker.sharing.database.sessions import Lane
    from broker.sharing.gets.get_requests import GetKey, GetRequest, UnitJoin
    from broker.sharing.members.group_member import GroupMember

BATCHES_AT_ONCE: Final = 2
"""Of calls for many messages with the same key."""

_GET: Final = f"SELECT * FROM get_messages({', '.join(f'${number}' for number in range(1, 15))})"
_GIVEN: Final = (
    "SELECT place, persistent, msg_id, descriptor, length, body, backout_count, handling FROM held "
    "WHERE member = $1 AND epoch = $2 AND unit = ANY ($3) AND kind = 2 AND place <> ALL ($4)"
)
_OVERDUE: Final = -1  # what a row without a message says, in `place`; else that is the depth
_PLACE, _PERSISTENT = itemgetter("place"), itemgetter("persistent")
_BYTES_MAX, _PATIENT, _ABANDONED = attrgetter("bytes_max"), attrgetter("patient"), attrgetter("abandoned")


class _NobodyTakesError(Exception):
    """All getters have gone while the messages were on their way."""


class BatchedGets:
    """The batched gets of one member."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database
        self._lines: dict[GetKey, StatementLine[GetRequest]] = {}

    async def ask(self, queue: SharedQueue, get: GetRequest, key: GetKey) -> None:
        """Let a get have what there is, `get.grants`; perhaps nothing. Raises what keeps the database from it."""
        line = self._lines.setdefault(key, StatementLine())
        most = BATCHES_AT_ONCE if get.count > 1 and not get.request.may_wait else 1
        async with line.turn(get, most) as gets:
            if gets:
                await self._serve(queue, key, gets)
        if gets and not line.under_way:
            del self._lines[key]
        if get.error is not None and not get.grants:
            raise get.error

    async def _serve(self, queue: SharedQueue, key: GetKey, gets: Sequence[GetRequest]) -> None:
        """Serve gets; what keeps the database from it is the error of each."""
        try:
            await self.serve(queue, key, gets)
        except MQError as error:
            for each in gets:
                each.error = each.error or error

    async def serve(self, queue: SharedQueue, key: GetKey, gets: Sequence[GetRequest]) -> None:
        """Give what comes first to those who ask for it, in their order."""
        await self._member.returned.settle()
        slots = [get for get in gets for _ in range(get.count)]
        joined = {get: get.joined() for get in gets}
        rows = await self._rows(queue, key, slots, joined)
        given = []
        for row in rows:
            if row["persistent"] is None:
                queue.depth = row["place"]
            else:
                given.append(row)
        given.sort(key=_PLACE)
        unclaimed = self._hand_out(queue, [entry_of(queue, row) for row in given], joined)
        if unclaimed:
            await self._member.returned.unclaimed({get: joined[get] for get, _ in unclaimed}, unclaimed)

    async def _rows(
        self, queue: SharedQueue, key: GetKey, slots: Sequence[GetRequest], joined: dict[GetRequest, UnitJoin]
    ) -> list[Any]:
        """Return what is given, in no order: one message for each slot at most."""
        in_units = any(each.id is not None for each in joined.values())
        begun = [each.id for each in joined.values() if each.begins]
        tags = [get.conversation.hconn.tag for get, each in joined.items() if each.begins]
        kept = all(each.id is not None and not each.if_persistent for each in joined.values())
        arguments = (
            key.msg_id,
            key.correl_id,
            len(slots),
            [joined[get].id for get in slots] if in_units else None,
            [joined[get].if_persistent for get in slots] if in_units else None,
            begun,
            tags,
            min(map(_BYTES_MAX, joined)),
            any(map(_PATIENT, joined)),
            self._member.core.events.counting,
        )

        async def work(lane: Lane) -> list[Any]:
            lane.q_name = queue.name
            rows = list(await lane.session.fetch(_GET, lane.sequence, queue.name, queue.version, now(), *arguments))
            lane.lasting = any(map(_PERSISTENT, rows))
            if kept:  # it has committed
                lane.waited()
            if not kept and rows and all(map(_ABANDONED, joined)):
                raise _NobodyTakesError
            return rows

        now, transact = self._member.now, self._database.transact_at_once if kept else self._database.transact_in_hand
        while True:
            try:
                rows = await transact(work)
            except _NobodyTakesError:
                return []
            except OutcomeUnknownError as error:
                rows = sorted((row for row in error.result or () if row["persistent"] is not None), key=_PLACE)
                given = [(get, entry_of(queue, row)) for get, row in zip(slots, rows, strict=False)]
                removed = [entry for get, entry in given if not in_unit(entry, joined[get])]
                self._member.returned.unknown(joined, error, removed)
                raise
            if rows is None:  # the session was lost with them
                return await self._given(joined)
            if not (rows and rows[0]["place"] == _OVERDUE):
                return rows
            await self._member.expiry.discard(queue)

    async def _given(self, joined: dict[GetRequest, UnitJoin]) -> list[Any]:
        """Return what a statement gave that was committed, and whose answer was lost: it is in these units of work."""
        known = [entry.key for get in joined for entry in get.held()]
        ids = [each.id for each in joined.values()]
        try:
            return await self._database.repeat(_GIVEN, self._database.member, self._database.epoch, ids, known)
        except MQError as error:
            self._member.returned.unknown(joined, OutcomeUnknownError(str(error)))
            raise

    def _hand_out(
        self, queue: SharedQueue, given: Sequence[Entry], joined: dict[GetRequest, UnitJoin]
    ) -> list[tuple[GetRequest, Entry]]:
        """Grant in the core what the database has given to these gets, in order; what nobody takes."""
        entries = self._hand_out_runs(joined, given)
        unclaimed = [each for each in entries if each[0].abandoned]
        if unclaimed:
            entries = [each for each in entries if not each[0].abandoned]
        if not entries:
            return unclaimed
        with queue.page([entry for _, entry in entries]):
            for get, entry in entries:
                try:
                    if get.error is not None:
                        raise get.error
                    get.grants.append(self._grant(queue, get, entry, joined[get]))
                except MQError as error:
                    get.error = error
                    unclaimed.append((get, entry))
                    queue.shelf.hide(entry)
                except Exception as wrong:
                    get.error = mistake(wrong, "a get")
                    unclaimed.append((get, entry))
        return unclaimed

    def _hand_out_runs(
        self, joined: dict[GetRequest, UnitJoin], given: Sequence[Entry]
    ) -> list[tuple[GetRequest, Entry]]:
        """Grant what gets of many messages are given, as many as need nothing but to be granted: what is left."""
        core, now, start = self._member.core, self._member.now(), 0
        left: list[tuple[GetRequest, Entry]] = []
        for get, its_unit in joined.items():
            its = given[start : start + get.count]
            start += len(its)
            if get.count > 1 and its and not get.abandoned and get.error is None:
                try:
                    run = grant_run(core, get.handle, get.request, its, now)
                except MQError as error:
                    get.error, run = error, []
                if run:
                    written(run[0], its_unit, self._database.epoch)
                    get.grants += run
                    its = its[len(run) :]
            left += [(get, entry) for entry in its]
        return left

    def _grant(self, queue: SharedQueue, get: GetRequest, entry: Entry, joined: UnitJoin) -> Grant:
        found = self._member.core.grant_to(get.handle, queue, get.request, self._member.now())
        assert isinstance(found, Grant)
        assert found.entries == [entry]
        written(found, joined, self._database.epoch)
        return found


def written(grant: Grant, joined: UnitJoin, life: int) -> None:
    """Note that what a get has taken is in the database already, in this unit of work if it is under syncpoint."""
    unit = grant.unit or grant.entries[0].unit
    assert unit is not None
    assert unit.shared is not None
    unit.shared.taken.clear()
    if grant.unit is None:
        unit.shared.id = joined.id
        unit.shared.life = life
