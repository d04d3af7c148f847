"""Batched gets: one statement gives messages to all gets of this member that ask the same of a queue (queue-sharing
rule 10.2.3).

1. A batch is one call of the database, `get_messages`: it fences, locks what comes first, marks each message with the
   unit of work of its get, or with a token alone, and counts. Nothing is changed in memory before it is committed: then
   the core grants the same messages, on a shelf that is made of just these.
2. One get leads a batch, for itself and those behind it. While it is under way, gets with the same key gather: then the
   first of them leads the next, so they are served in order. Calls for many messages that do not wait may make two
   batches at a time: the database makes one while what the other was given is granted here.
3. What was given to a get that has ended meanwhile goes back, as if it had not been got.
4. The mark of a get outside syncpoint is its outcome: the message is the getter's. The row goes later
   (`broker.sharing.gets.deferred_deletes`). Where the session was lost, tokens tell what was given (queue-sharing rule
   10.2.6).
"""

from __future__ import annotations

import os
from collections import deque
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final

import anyio
from asyncpg.pgproto.pgproto import UUID

from broker.core.queues.effects import Grant
from broker.engine.mistakes import mistake
from broker.mqi.errors import MQError
from broker.sharing.database.errors import OutcomeUnknownError
from broker.sharing.database.rows import COLUMNS, entry_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.message.entry import Entry
    from broker.core.queues.shared_queue import SharedQueue
    from broker.sharing.database.sessions import Lane
    from broker.sharing.gets.get_requests import GetKey, GetRequest, UnitJoin
    from broker.sharing.members.group_member import GroupMember

AT_ONCE: Final = 50
"""The most gets that one statement serves, and the most messages that each of them asks for."""

BATCHES_AT_ONCE: Final = 2
"""Of calls for many messages with the same key."""

_GET: Final = "SELECT * FROM get_messages($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
_GIVEN: Final = (
    f"SELECT {COLUMNS}, array_position($3, token)::bigint AS number FROM message "
    "WHERE member = $1 AND epoch = $2 AND state = 2 AND token = ANY ($3::uuid[])"
)
_DEPTH, _OVERDUE = 0, -1  # what a row without a message says, in `number`
_PLACE, _PERSISTENT = itemgetter("place"), itemgetter("persistent")
_BYTES_MAX, _PATIENT = attrgetter("bytes_max"), attrgetter("patient")


class _Line:
    """The gets with one key while batches of them are `under_way`: those that wait, each for its turn."""

    def __init__(self) -> None:
        self.under_way = 0
        self.waiting: deque[tuple[GetRequest, anyio.Event]] = deque()


class BatchedGets:
    """The batched gets of one member."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database
        self._lines: dict[GetKey, _Line] = {}

    async def ask(self, queue: SharedQueue, get: GetRequest, key: GetKey) -> None:
        """Let a get have what there is, `get.grants`; perhaps nothing. Raises what keeps the database from it."""
        line = self._lines.setdefault(key, _Line())
        get.served = False
        if line.under_way < (BATCHES_AT_ONCE if get.count > 1 and not get.request.may_wait else 1):
            line.under_way += 1
        else:
            turn = anyio.Event()
            line.waiting.append((get, turn))
            await turn.wait()
        if not get.served:
            followers = [line.waiting.popleft() for _ in range(min(len(line.waiting), AT_ONCE - 1))]
            gets = [get, *[follower for follower, _ in followers]]
            try:
                await self.serve(queue, key, gets)
            except MQError as error:
                for each in gets:
                    each.error = each.error or error
            finally:
                for follower, turn in followers:
                    follower.served = True
                    turn.set()
                self._end_batch(key, line)
        if get.error is not None and not get.grants:
            raise get.error

    def _end_batch(self, key: GetKey, line: _Line) -> None:
        """Let the first of those that still wait lead the next batch."""
        if line.waiting:
            _, turn = line.waiting.popleft()
            turn.set()
        else:
            line.under_way -= 1
            if not line.under_way:
                del self._lines[key]

    async def serve(self, queue: SharedQueue, key: GetKey, gets: Sequence[GetRequest]) -> None:
        """Give what comes first to those who ask for it, in their order."""
        await self._member.returned.settle()
        slots = [get for get in gets for _ in range(get.count)]
        joined = {get: get.joined() for get in gets}
        tokens = _tokens(len(slots))
        rows = await self._rows(queue, key, slots, joined, tokens)
        given = [row for row in rows if row["number"] > _DEPTH]
        for row in rows:
            if row["number"] == _DEPTH:
                queue.depth = row["place"]
        given.sort(key=_PLACE)
        unclaimed = self._hand_out(queue, given, slots, joined, tokens)
        if unclaimed:
            await self._member.returned.unclaimed(
                {get: joined[get] for get, _ in unclaimed}, [token for _, token in unclaimed]
            )

    async def _rows(
        self,
        queue: SharedQueue,
        key: GetKey,
        slots: Sequence[GetRequest],
        joined: dict[GetRequest, UnitJoin],
        tokens: Sequence[UUID],
    ) -> list[Any]:
        deferred_deletes = self._member.deferred_deletes
        begun = [each.id for each in joined.values() if each.begins]
        tags = [get.conversation.hconn.tag for get, each in joined.items() if each.begins]
        arguments = (
            key.msg_id,
            key.correl_id,
            [joined[get].id for get in slots],
            [joined[get].if_persistent for get in slots],
            tokens,
            begun,
            tags,
        )
        limits = min(map(_BYTES_MAX, joined)), any(map(_PATIENT, joined))
        while True:
            removed = deferred_deletes.take(queue)

            async def work(lane: Lane, removed: list[int] = removed) -> list[Any]:
                first = lane.number, lane.sequence, queue.name, queue.version, self._member.now()
                rows = list(await lane.session.fetch(_GET, *first, *arguments, removed, *limits))
                lane.lasting = any(map(_PERSISTENT, rows))
                return rows

            try:
                rows = await self._database.transact_at_once(work, _nothing)
            except OutcomeUnknownError as error:
                deferred_deletes.again(queue, removed)
                self._member.returned.unknown(joined, tokens, error.transaction)
                raise
            except MQError:
                deferred_deletes.again(queue, removed)
                raise
            if rows is None:  # the session was lost with them
                return await self._given(joined, tokens)
            if not (rows and rows[0]["number"] == _OVERDUE):
                return rows
            await self._member.expiry.discard(queue)

    async def _given(self, joined: dict[GetRequest, UnitJoin], tokens: Sequence[UUID]) -> list[Any]:
        """Return what a statement gave that was committed, and whose answer was lost."""
        try:
            return await self._database.repeat(_GIVEN, self._database.member, self._database.epoch, tokens)
        except MQError:
            self._member.returned.unknown(joined, tokens, None)
            raise

    def _hand_out(
        self,
        queue: SharedQueue,
        given: Sequence[Any],
        slots: Sequence[GetRequest],
        joined: dict[GetRequest, UnitJoin],
        tokens: Sequence[UUID],
    ) -> list[tuple[GetRequest, UUID]]:
        """Grant in the core what the database has given; what nobody takes."""
        unclaimed, entries = [], []
        for row in given:
            get, token = slots[row["number"] - 1], tokens[row["number"] - 1]
            if get.abandoned:
                unclaimed.append((get, token))
            else:
                entries.append((get, token, entry_of(queue, row)))
        with queue.page([entry for _, _, entry in entries]):
            for get, token, entry in entries:
                try:
                    if get.error is not None:
                        raise get.error
                    get.grants.append(self._grant(queue, get, entry, joined[get]))
                except MQError as error:
                    get.error = error
                    unclaimed.append((get, token))
                    queue.shelf.hide(entry)
                except Exception as wrong:
                    get.error = mistake(wrong, "a get")
                    unclaimed.append((get, token))
        return unclaimed

    def _grant(self, queue: SharedQueue, get: GetRequest, entry: Entry, joined: UnitJoin) -> Grant:
        found = self._member.core.grant_to(get.handle, queue, get.request, self._member.now())
        assert isinstance(found, Grant)
        assert found.entries == [entry]
        written(found, joined)
        return found


def written(grant: Grant, joined: UnitJoin) -> None:
    """Note that what a get has taken is in the database already, in this unit of work if it is under syncpoint."""
    unit = grant.unit or grant.entries[0].unit
    assert unit is not None
    assert unit.shared is not None
    unit.shared.taken.clear()
    if grant.unit is None:
        unit.shared.id = joined.id


def _tokens(count: int) -> list[UUID]:
    """So many new tokens. Each made by `uuid4` would take as long as a tenth of its get."""
    some = os.urandom(16 * count)
    return [UUID(some[at : at + 16]) for at in range(0, len(some), 16)]


def _nothing() -> None:
    """Nothing was changed in memory."""
