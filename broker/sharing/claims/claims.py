"""Consumers of shared queues, and their claims (`docs/rules/claims.md`).

A consumer is a row, and belongs to no member: whoever has registered last may go on through any of them (queue-sharing
rule 10.3.9). Each call is one transaction that begins with the consumer's row, locked; what a reader may do is judged
by the same `Consumer` of the core, made of that row, and what is claimed by the same `claiming.choose`, on pages.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from broker.core.claims import claiming, ending
from broker.core.claims.claiming import SLICE_LENGTH
from broker.core.claims.consumer import Consumer, unknown
from broker.core.claims.cutting import Cutting
from broker.core.message.entry import CLAIMED
from broker.core.message.generated import reports
from broker.core.queues.shared_queue import SharedQueue
from broker.core.queues.unit import Unit
from broker.core.security.rights import Right
from broker.engine.calls.column_frames import fitting, frame
from broker.engine.claims.claim_jobs import state_of
from broker.interface.batches.columns import SHORT_MESSAGES_MAX
from broker.interface.claims.claims import Cut, Registration
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.claims.holdings import FIELDS
from broker.sharing.claims.ranges import Ranges
from broker.sharing.database.rows import ARRIVAL, COLUMNS, OF_NO_MEMBER, entry_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.commands.requests import ResolveConsumerRequest
    from broker.core.claims.claiming import Limits
    from broker.core.message.entry import Entry
    from broker.core.security.caller import Caller
    from broker.interface.claims.claims import ConsumerState
    from broker.sharing.database.sessions import DatabaseSession


_UUID: Final = "SELECT uuid FROM consumer WHERE name = $1"


class GroupClaims(Ranges):
    """The calls about consumers of shared queues, and about these read by number, that are made to one member."""

    def takes(self, q_names: Sequence[str]) -> bool:
        """True if a consumer of these queues is one of the group. Raises OPTION_NOT_VALID_FOR_TYPE (2045) where some
        queues are shared and others are not (claims rule 2.1).
        """
        shared = [queue.shared for queue in self._member.core.consumers.queues_of(q_names)]
        if any(shared) and not all(shared):
            raise MQError(
                MQRC.OPTION_NOT_VALID_FOR_TYPE,
                f"{', '.join(q_names)}: some of these queues are shared, and others are not; a consumer has either",
            )
        return any(shared)

    # A consumer and its readers

    async def judge(self, uuid: str, caller: Caller | None) -> None:
        """Raise NOT_AUTHORIZED (2035) for a caller who may not get from the queues of a consumer."""
        if caller is not None:
            async with self._database.look() as session:
                await self._judge(session, await _read(session, uuid), caller)

    async def _judge(
        self, session: DatabaseSession, consumer: Consumer, caller: Caller | None, wanted: Right = Right.GET
    ) -> None:
        if caller is not None:
            await self._member.repository.check_security(session)
            rows = await session.fetch(
                f"SELECT DISTINCT queue FROM held WHERE {OF_NO_MEMBER} AND unit = $1", consumer.uuid
            )
            self._member.core.consumers.judge(caller, consumer.q_names, [row["queue"] for row in rows], wanted)

    async def consumer(self, name: str, q_names: Sequence[str], caller: Caller | None) -> ConsumerState:
        """Look the consumer up, or make it; other names of queues replace those that it had. Raises NOT_AUTHORIZED
        (2035) where the caller may not get from those.
        """

        async def work(session: DatabaseSession) -> ConsumerState:
            known = await session.fetchval(_UUID, name)
            if known is not None and caller is not None:
                await self._judge(session, await _locked(session, known.hex), caller)
            if known is None and not q_names:
                self._member.core.consumers.check_names(q_names)
            await session.execute(
                "INSERT INTO consumer (uuid, name, q_names) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE "
                "SET q_names = CASE WHEN cardinality(excluded.q_names) = 0 THEN consumer.q_names "
                "ELSE excluded.q_names END",
                uuid4(),
                name,
                list(q_names),
            )
            uuid = await session.fetchval(_UUID, name)
            consumer = await _locked(session, uuid.hex)
            arrived = await session.fetchval("SELECT last_value FROM arrival")
            return state_of(consumer, arrived)

        return await self._database.transact(work)

    async def register(self, uuid: str, lineage: str | None, start: int | None, end: int | None) -> Registration:
        """A reader with a checkpoint becomes the one that may read; it is checked before anything is changed."""

        async def work(session: DatabaseSession) -> Registration:
            consumer = await _locked(session, uuid)
            position, changes = consumer.registered(lineage, start, end)
            await _change(session, consumer, **changes)
            return Registration(consumer.generation, lineage or uuid4().hex[:16], position)

        return await self._database.transact(work)

    async def resume(self, uuid: str) -> Registration:
        """A reader without a checkpoint goes on where the consumer stands: what was not acknowledged comes again."""

        async def work(session: DatabaseSession) -> Registration:
            consumer = await _locked(session, uuid)
            await _change(session, consumer, **consumer.resumed(uuid4().hex[:16]))
            return Registration(consumer.generation, consumer.lineage, consumer.acknowledged)

        return await self._database.transact(work)

    async def pin(self, uuid: str, generation: int, lineage: str, start: int, end: int) -> list[Cut]:
        """A batch is going to be read."""

        async def work(session: DatabaseSession) -> list[Cut]:
            consumer = await _locked(session, uuid, generation)
            await _change(session, consumer, **consumer.pin(lineage, start, end))
            found = await self._claimed(session, uuid, start, end, bodies=False)
            cutting = Cutting()
            for sequence in range(start + 1, end + 1):
                cutting.add(sequence, found.get(sequence))
            return [Cut(*piece) for piece in cutting.pieces]

        return await self._database.transact(work)

    # Claims

    async def claim(self, uuid: str, generation: int, start: int, limits: Limits) -> int:
        """Acknowledge up to `start`, then claim, unless claims beyond it exist. In transactions of a thousand."""
        ended = await self._checked(uuid, generation, start)
        while ended < start:
            ended = await self._acknowledge(uuid, generation, start)
        taken = size = 0
        while True:
            last, count, length, more = await self._claim(uuid, generation, limits, taken, size, after=start)
            taken, size = taken + count, size + length
            if not more:
                return last

    async def _checked(self, uuid: str, generation: int, start: int) -> int:
        """Up to where the consumer has acknowledged, if a claim may begin behind `start`."""

        async def work(session: DatabaseSession) -> int:
            consumer = await _locked(session, uuid, generation)
            consumer.check_claim(start)
            return consumer.acknowledged

        return await self._database.transact(work)

    async def _claim(
        self, uuid: str, generation: int, limits: Limits, taken: int, size: int, *, after: int
    ) -> tuple[int, int, int, bool]:
        """One slice: the last sequence, how many messages of how many bytes, and whether there may be more. Claims
        behind `after` that were there before this call are its answer.
        """

        async def work(session: DatabaseSession) -> tuple[int, int, int, bool]:
            consumer = await _locked(session, uuid, generation)
            if consumer.next - 1 > after + taken:
                return consumer.next - 1, 0, 0, False
            consumer.bytes = await session.fetchval(
                f"SELECT coalesce(sum(length), 0) FROM held WHERE {OF_NO_MEMBER} AND unit = $1", uuid
            )
            entries = await self._choose(session, consumer, limits, taken, size)
            if not entries:
                return consumer.next - 1, 0, 0, False
            await self._take(session, consumer, entries)
            length = sum(entry.length for entry in entries)
            return consumer.next - 1, len(entries), length, True

        return await self._database.transact(work)

    async def _choose(
        self, session: DatabaseSession, consumer: Consumer, limits: Limits, taken: int, size: int
    ) -> list[Entry]:
        """The messages of the next slice, chosen by the core from locked pages of all queues."""
        core, now = self._member.core, self._member.manager.clock.time()
        named = core.consumers.queues_of(consumer.q_names)
        queues = [queue for queue in named if isinstance(queue, SharedQueue) and limits.allow(queue)]
        names = [queue.name for queue in queues]
        rows = await session.fetch("SELECT queue FROM handle WHERE queue = ANY ($1) AND exclusive", names)
        open_ones = claiming.queues_for(queues, consumer, {row["queue"] for row in rows})
        with ExitStack() as pages:
            for queue in queues:
                entries = await self._page(session, queue, limits) if queue in open_ones else []
                shelf = pages.enter_context(queue.page([entry for entry in entries if not entry.expired(now)]))
                if limits.whole:
                    for _ in shelf.wholes().all_steps(shelf.entries):
                        pass
            chosen = claiming.choose(consumer, open_ones, limits, taken, size)
            for entry in chosen:
                entry.queue.claim(entry)
        return chosen

    async def _page(self, session: DatabaseSession, queue: SharedQueue, limits: Limits) -> list[Entry]:
        """The first messages of a queue, locked; where groups count, with all of their groups."""
        rows = await session.fetch(
            f"SELECT {COLUMNS}, group_id FROM message WHERE queue = $1 AND state = 1 "
            f"AND ($2::bigint IS NULL OR {ARRIVAL} <= $2) ORDER BY place LIMIT {SLICE_LENGTH} FOR UPDATE SKIP LOCKED",
            queue.name,
            limits.before,
        )
        if limits.whole:
            groups = list({row["group_id"] for row in rows} - {None})
            others = await session.fetch(
                f"SELECT {COLUMNS}, group_id FROM message WHERE queue = $1 AND (state = 1) IS TRUE "
                "AND group_id = ANY ($2) FOR UPDATE",
                queue.name,
                groups,
            )
            rows = list({row["place"]: row for row in (*rows, *others)}.values())
        return [entry_of(queue, row) for row in rows]

    async def _take(self, session: DatabaseSession, consumer: Consumer, entries: Sequence[Entry]) -> None:
        first = consumer.next
        for queue in {entry.queue.name: entry.queue for entry in entries}.values():
            numbered = [(entry.key, first + at) for at, entry in enumerate(entries) if entry.queue is queue]
            await session.execute(
                "SELECT claim_messages($1, $2, $3, $4)",
                consumer.uuid,
                queue.name,
                [key for key, _ in numbered],
                [sequence for _, sequence in numbered],
            )
        now = self._member.manager.clock.time()
        await _change(session, consumer, **consumer.claimed(len(entries), entries[-1].queue.name, now))

    async def _claimed(
        self, session: DatabaseSession, uuid: str, after: int, last: int, *, bodies: bool = True
    ) -> dict[int, Entry]:
        """The claims that are there with sequences behind `after`, up to `last`, by sequence."""
        columns = COLUMNS if bodies else COLUMNS.replace("body", "NULL::bytea AS body")
        rows = await session.fetch(
            f"SELECT {columns}, queue, sequence FROM held WHERE {OF_NO_MEMBER} AND unit = $1 "
            "AND sequence > $2 AND sequence <= $3 ORDER BY sequence",
            uuid,
            after,
            last,
        )
        found = {}
        for row in rows:
            queue = self._member.shared(row["queue"])
            if queue is not None:
                found[row["sequence"]] = entry = entry_of(queue, row)
                entry.state = CLAIMED
        return found

    async def read_claimed(self, uuid: str, generation: int, after: int, last: int, longest: int) -> bytes:
        """The claims behind `after`, as many as go into a frame of `longest` bytes."""
        async with self._database.look() as session:
            consumer = await _read(session, uuid, generation)
            consumer.check_read(after, last)
            found = await self._claimed(session, uuid, after, min(last, after + SHORT_MESSAGES_MAX))
        first = min(found, default=0)
        there: list[Entry] = []
        while first + len(there) in found:
            there.append(found[first + len(there)])
        some = fitting(there, longest)
        return frame(some, self._member.manager.clock.time(), first, keys=False)

    # Their ends

    async def acknowledge(self, uuid: str, generation: int, to: int) -> int:
        """The consumer is done with what it has read."""
        while await self._acknowledge(uuid, generation, to, read=True) < to:
            pass
        return 0

    async def _acknowledge(self, uuid: str, generation: int | None, to: int, *, read: bool = False) -> int:
        """One slice of claims is done with; up to where the consumer has acknowledged. `read`: what was not pinned
        cannot be acknowledged. Reports on delivery are put when that is durable.
        """
        confirmed: list[Entry] = []

        async def work(session: DatabaseSession) -> int:
            consumer = await _locked(session, uuid, generation)
            (consumer.check_acknowledge if read else consumer.check_claim)(to)
            end = ending.slice_end(consumer, to)
            confirmed.clear()
            confirmed.extend(await self._confirmed(session, uuid, consumer.acknowledged, end))
            await session.execute("SELECT end_claims($1, $2, false)", uuid, end)
            await _change(session, consumer, **consumer.done(end))
            return end

        done = await self._database.transact(work)
        if confirmed:
            await self._confirm(confirmed)
        return done

    async def _confirmed(self, session: DatabaseSession, uuid: str, after: int, last: int) -> list[Entry]:
        """Return the claims that ask for a report on delivery, with their bodies."""
        found = await self._claimed(session, uuid, after, last, bodies=False)
        asking = [sequence for sequence, entry in found.items() if reports.asked(entry, reports.COD)]
        if not asking:
            return []
        found = await self._claimed(session, uuid, min(asking) - 1, max(asking))
        return [found[sequence] for sequence in asking]

    async def _confirm(self, entries: Sequence[Entry]) -> None:
        """Put the reports on delivery of these messages, as a unit of their own."""
        unit = Unit()
        unit.reports = dict.fromkeys(entries, reports.COD)
        await self._member.units.commit_unit(unit)

    async def release(self, uuid: str, generation: int | None) -> int:
        """The consumer gives all back that it has claimed: how many."""

        async def work(session: DatabaseSession) -> int:
            consumer = await _locked(session, uuid, generation)
            count = consumer.claim_count
            await session.execute("SELECT end_claims($1, $2, true)", uuid, consumer.next - 1)
            await _change(session, consumer, **consumer.resolved(), **consumer.emptied())
            return count

        return await self._database.transact(work)

    async def resolve(self, decision: ResolveConsumerRequest, caller: Caller | None) -> tuple[int, int]:
        """End all claims as an administrator decides: how many messages are removed, and how many are back. Raises
        NO_SUBSCRIPTION (2428), SUBSCRIPTION_IN_USE (2429), NOT_AUTHORIZED (2035).
        """

        async def work(session: DatabaseSession) -> tuple[int, int]:
            uuid = await session.fetchval(_UUID, decision.name)
            if uuid is None:
                raise MQError(MQRC.NO_SUBSCRIPTION, f"there is no consumer {decision.name}")
            consumer = await _locked(session, uuid.hex)
            await self._judge(session, consumer, caller, Right.CLR)
            changes = consumer.resolved(commit=decision.commit, pinned=decision.pinned)
            removed = 0
            if decision.commit:
                removed = await session.fetchval("SELECT end_claims($1, $2, false)", uuid, consumer.pinned)
            returned = await session.fetchval("SELECT end_claims($1, $2, true)", uuid, consumer.next - 1)
            await _change(session, consumer, **changes, **consumer.emptied())
            return removed, returned

        return await self._database.transact(work)


async def _locked(session: DatabaseSession, uuid: str, generation: int | None = None) -> Consumer:
    """The consumer, whose row is locked. Raises NO_SUBSCRIPTION (2428), OBJECT_CHANGED (2041)."""
    return _made(await session.fetchrow("SELECT * FROM consumer WHERE uuid = $1 FOR UPDATE", uuid), uuid, generation)


async def _read(session: DatabaseSession, uuid: str, generation: int | None = None) -> Consumer:
    return _made(await session.fetchrow("SELECT * FROM consumer WHERE uuid = $1", uuid), uuid, generation)


def _made(row: Any, uuid: str, generation: int | None) -> Consumer:
    if row is None:
        raise unknown(uuid)
    consumer = Consumer(row["name"], 0, row["uuid"].hex, row["q_names"])
    consumer.change(**{field: row[field] for field in FIELDS})
    if generation is not None:
        consumer.check_generation(generation)
    return consumer


async def _change(session: DatabaseSession, consumer: Consumer, **changes: Any) -> None:
    """Make changes of a consumer, in its row and in memory."""
    consumer.change(**changes)
    await session.execute(
        "UPDATE consumer SET generation = $2, lineage = $3, base = $4, acknowledged = $5, pinned = $6, next = $7, "
        "since = $8, turn = $9 WHERE uuid = $1",
        consumer.uuid,
        *(getattr(consumer, field) for field in FIELDS),
    )
