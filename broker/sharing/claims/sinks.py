"""Sinks that publish to shared queues, and their prepared units (`docs/rules/claims.md`, claims rule 3.11).

Both are rows, and belong to no member (queue-sharing rule 10.3.12): what was staged through one that fails is published
through another. Each call is one transaction. A piece locks the row of its sink for those who decide, and that of its
unit for all others; who publishes or discards has the sink alone. What may be done is judged by the `Staging` and the
`Publishing` of the core, on sinks that are made of these rows for the one call.

A batch appears in one transaction, however many messages it has, with its ledger and without those of its losers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import anyio
import anyio.lowlevel

from broker.core.message.generated import reports
from broker.core.prepared.publishing import Publishing
from broker.core.prepared.sink import KEYED, other_queues, unknown
from broker.core.prepared.sinks import KEY_SECONDS, KEYS_MAX
from broker.core.prepared.staging import Staging, check_count, is_known
from broker.core.queues.unit import Unit
from broker.core.security.rights import Right
from broker.interface.claims.claims import Publication, Staged
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.claims.prepared_rows import begin_unit, keep_piece, name_of, sink_of, sinks_of, units_of
from broker.sharing.database.rows import COLUMNS, OF_NO_MEMBER, entry_of
from broker.sharing.puts.writing import QueueFullError, limited, put_messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.message.entry import Entry
    from broker.core.prepared.publishing import PublishedUnit
    from broker.core.prepared.sink import Sink
    from broker.core.prepared.sinks import Sinks
    from broker.core.prepared.staging import StagedPiece
    from broker.core.prepared.unit import UnitName
    from broker.core.queues.shared_queue import SharedQueue
    from broker.core.security.caller import Caller
    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.group_member import GroupMember

logger = logging.getLogger(__name__)

REMEMBERED_SECONDS: Final = 24 * 3600.0
"""For so long it is known what a sink without a ledger has published."""

PUBLISH_SECONDS: Final = 60
"""The longest that a batch may take to appear: more than a call may, since it keeps nobody but its own sink waiting."""

_TO_STAGE: Final = "SELECT * FROM sink WHERE name = $1 FOR SHARE"
_TO_DECIDE: Final = "SELECT * FROM sink WHERE name = $1 FOR UPDATE"
_OF_SINK: Final = "SELECT * FROM prepared_unit WHERE sink = $1"
_OF_BATCH: Final = (
    "SELECT * FROM prepared_unit WHERE id = $1 OR ($2 AND (sink, batch) = "
    "(SELECT sink, batch FROM prepared_unit WHERE id = $1))"
)
_QUEUES: Final = (
    f"SELECT DISTINCT queue FROM held WHERE {OF_NO_MEMBER} AND unit IN (SELECT id FROM prepared_unit WHERE sink = $1)"
)
_STAGED: Final = f"SELECT queue, {COLUMNS} FROM held WHERE {OF_NO_MEMBER}"
_TOTALS: Final = "SELECT count(*) AS units, coalesce(sum(bytes), 0)::bigint AS bytes FROM prepared_unit"
_NAMED: Final = (
    "SELECT id FROM prepared_unit WHERE sink = $1 AND batch = $2 AND partition = $3 AND attempt = $4 AND touched <= $5"
)
_TIDY: Final = (
    "DELETE FROM sink WHERE name = $1 AND query IS NULL AND NOT EXISTS (SELECT 1 FROM prepared_unit WHERE sink = $1)"
)
_DECIDED: Final = "UPDATE sink SET query = $2, batch = $3, messages = $4, bytes = $5, decided = $6 WHERE name = $1"
_REMEMBER: Final = "INSERT INTO published_unit SELECT name, $2 FROM unnest($1::text[]) AS name ON CONFLICT DO NOTHING"
_FORGET_KEYS: Final = (
    "DELETE FROM sink WHERE query = $1 AND NOT EXISTS (SELECT 1 FROM prepared_unit WHERE sink = sink.name) AND "
    "(decided < $2 OR decided < (SELECT decided FROM sink WHERE query = $1 ORDER BY decided DESC OFFSET $3 LIMIT 1))"
)


class GroupSinks:
    """The calls about sinks of the group that are made to one member."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database

    async def check_private(self, name: str) -> None:
        """Raise OPTION_NOT_VALID_FOR_TYPE (2045) for a sink of the group, which has no private queues."""
        async with self._database.look() as session:
            known = await session.fetchval("SELECT EXISTS (SELECT 1 FROM sink WHERE name = $1)", name)
        if known:
            raise other_queues(name, "the queue of a message", shared=False)

    async def ledger(self, name: str, caller: Caller | None) -> tuple[str, int] | None:
        """The query of a sink and its last batch, when nothing of it is on its way. Raises NOT_AUTHORIZED (2035)."""

        async def work(session: DatabaseSession) -> tuple[str, int] | None:
            await self._judge(session, name, caller)
            return sink_of(name, await session.fetchrow(_TO_STAGE, name)).published

        return await self._database.transact(work)

    async def _judge(
        self, session: DatabaseSession, sink: str, caller: Caller | None, wanted: Right = Right.PUT
    ) -> None:
        """Raise NOT_AUTHORIZED (2035) for a caller who has not the wanted right on each queue for which the units of a
        sink have messages.
        """
        if caller is not None:
            await self._member.repository.check_security(session)
            for row in await session.fetch(_QUEUES, sink):
                caller.require(wanted, row["queue"])

    # Staging

    async def stage(self, piece: StagedPiece) -> Staged:
        """A piece of a unit. Raises what `Staging` does. A first one without messages leaves nothing behind."""
        full: dict[SharedQueue, int] = {}

        async def work(session: DatabaseSession) -> bool:
            name = piece.name
            sink = sink_of(name.sink, await session.fetchrow(_TO_STAGE, name.sink))
            sinks = sinks_of(sink, await _published(session, sink, [name]))
            if sinks.is_published(name.sink, name.batch, piece.query, [name]):
                return True
            if piece.messages or piece.first:
                await self._join(session, sinks, piece, full)
            return False

        while True:
            try:
                return Staged(published=await self._database.transact(work))
            except QueueFullError as error:
                await self._member.puts.handle(error, full)

    async def _join(
        self, session: DatabaseSession, sinks: Sinks, piece: StagedPiece, full: dict[SharedQueue, int]
    ) -> None:
        """Let a piece pass the checks, and write it. Where a queue is `full` it counts what else the batch has."""
        core, now, name = self._member.core, self._member.now(), piece.name.sink
        while await session.fetchrow(_TO_STAGE, name) is None:  # it is new, or goes with its last unit
            await session.execute("INSERT INTO sink (name) VALUES ($1) ON CONFLICT DO NOTHING", name)
        id = await begin_unit(session, piece.name, piece.query, now)
        rows = await session.fetch(_OF_BATCH, id, bool(full))
        sinks.enter_all(await units_of(self._member, rows, session if full else None))
        unit = sinks.units[id.int]
        if is_known(unit, piece.first):
            return
        known = await session.fetchrow(_TOTALS)
        sinks.bytes, sinks.bytes_max = known["bytes"], core.sinks.bytes_max
        if not unit.rows:
            check_count(piece.name, known["units"] - 1)
        staging = Staging(core, piece, sinks)
        while not staging.checked:
            for _ in staging.check(now):
                await anyio.lowlevel.checkpoint()
        with limited(full):
            staging.freeze(now)
        entries = staging.settle(written=True)
        if entries:
            await put_messages(session, entries, now, prepared=id)
        await keep_piece(session, unit, entries)

    # Publishing

    async def publish(
        self, name: str, batch: int, query: str | None, winners: Sequence[PublishedUnit], caller: Caller | None
    ) -> Publication:
        """Decide a batch: with the decision all that it publishes is visible, and its losers are gone. Raises what
        `Publishing` does. An empty batch of a sink of which nothing is known leaves nothing behind.
        """
        confirmed: list[Entry] = []
        arrived: list[Any] = []

        async def work(session: DatabaseSession) -> Publication:
            sink = sink_of(name, await session.fetchrow(_TO_DECIDE, name))
            await self._judge(session, name, caller)
            names = [winner.unit for winner in winners]
            sinks = sinks_of(sink, await _published(session, sink, names))
            publishing = Publishing(self._member.core, sinks, sink, batch, query, winners)
            if publishing.already:
                return Publication(0, already=True)
            rows = await session.fetch(_OF_SINK, name)
            sinks.enter_all(await units_of(self._member, rows, session))
            publishing.check()
            ids = [UUID(int=unit.number) for unit in publishing.units]
            asking = [row["id"] for row in rows if row["confirmed"] and row["id"] in ids]
            confirmed[:] = await self._confirmed(session, asking)
            await session.execute(f"SET LOCAL statement_timeout = '{PUBLISH_SECONDS:d}s'")
            arrived[:] = await session.fetch("SELECT * FROM publish_units($1)", ids)
            losers = [UUID(int=unit.number) for unit in publishing.losers()]
            await session.fetchval("SELECT discard_units($1)", losers)
            ledger = publishing.ledger(self._member.now())
            if ledger is not None:
                await session.execute(_DECIDED, name, *ledger)
            else:
                await session.execute(_REMEMBER, [each.text for each in names], self._member.now())
                await session.execute(_TIDY, name)
            return Publication(publishing.messages, already=False)

        published = await self._database.transact(work)
        for row in () if published.already else arrived:
            queue = self._member.shared(row["q_name"])
            if queue is not None:
                self._member.core.events.published(queue, len(row["places"]), self._member.now())
                self._member.triggering.count(queue, row["places"])
        if confirmed and not published.already:
            await self._confirm(confirmed)
        return published

    async def _confirmed(self, session: DatabaseSession, ids: Sequence[UUID]) -> list[Entry]:
        """The messages of these units that ask for a confirmation of their arrival, with their bodies."""
        found = []
        for row in await session.fetch(f"{_STAGED} AND unit = ANY ($1)", ids) if ids else ():
            queue = self._member.shared(row["queue"])
            entry = None if queue is None else entry_of(queue, row)
            if entry is not None and reports.asked(entry, reports.COA):
                found.append(entry)
        return found

    async def _confirm(self, entries: Sequence[Entry]) -> None:
        """Put the confirmations, as a unit of their own: the batch is published, whatever becomes of them."""
        unit = Unit()
        unit.reports = dict.fromkeys(entries, reports.COA)
        try:
            await self._member.units.commit_unit(unit)
        except MQError as error:
            logger.warning("confirmations of arrival lost messages=%d: %s", len(entries), error)

    # Discarding

    async def discard(self, names: Sequence[UnitName], caller: Caller | None) -> int:
        """Discard the units of these names, as far as they are there: how many they were."""
        gone = [await self._discard(name, caller=caller) for name in dict.fromkeys(names)]
        return sum(messages is not None for messages in gone)

    async def _discard(self, name: UnitName, before: float = float("inf"), caller: Caller | None = None) -> int | None:
        """Discard a unit; return the number of its messages. None: there is none, or it was touched after `before`."""

        async def work(session: DatabaseSession) -> int | None:
            await session.fetchrow(_TO_DECIDE, name.sink)
            await self._judge(session, name.sink, caller)
            id = await session.fetchval(_NAMED, *name, before)
            if id is None:
                return None
            messages: int = await session.fetchval("SELECT discard_units($1)", [id])
            await session.execute(_TIDY, name.sink)
            return messages

        return await self._database.transact(work)

    async def resolve(self, name: UnitName) -> int:
        """RESOLVE INDOUBT: discard the unit of this name; how many messages it had. Raises UNKNOWN_OBJECT_NAME
        (2085).
        """
        messages = await self._discard(name)
        if messages is None:
            raise MQError(MQRC.UNKNOWN_OBJECT_NAME, f"there is no prepared unit {name.text}")
        return messages

    async def reset(self, name: str, caller: Caller | None) -> int:
        """RESET SINK: it belongs to no query any more, and has no units; how many messages they had. Raises
        UNKNOWN_OBJECT_NAME (2085), NOT_AUTHORIZED (2035).
        """

        async def work(session: DatabaseSession) -> int:
            if await session.fetchrow(_TO_DECIDE, name) is None:
                raise unknown(name)
            await self._judge(session, name, caller, Right.CLR)
            ids = [row["id"] for row in await session.fetch(_OF_SINK, name)]
            messages: int = await session.fetchval("SELECT discard_units($1)", ids)
            await session.execute("DELETE FROM sink WHERE name = $1", name)
            return messages

        return await self._database.transact(work)

    async def tidy(self) -> None:
        """Discard the units that nobody has touched for too long, and forget ledgers whose time is up."""
        now = self._member.now()
        before = now - self._member.manager.config.limits.prepared_age
        async with self._database.look() as session:
            old = await session.fetch("SELECT * FROM prepared_unit WHERE touched <= $1", before)
        for row in old:
            name = name_of(row)
            messages = await self._discard(name, before)
            if messages is not None:
                logger.warning(
                    "prepared unit discarded unit=%s messages=%d: neither published nor touched for %d s",
                    name.text, messages, now - row["touched"],
                )  # fmt: skip

        async def forget(session: DatabaseSession) -> None:
            await session.execute(_FORGET_KEYS, KEYED, now - KEY_SECONDS, KEYS_MAX)
            await session.execute("DELETE FROM published_unit WHERE published < $1", now - REMEMBERED_SECONDS)

        await self._database.transact(forget)


async def _published(session: DatabaseSession, sink: Sink, names: Sequence[UnitName]) -> list[UnitName]:
    """Return those of these units that a sink without a ledger has published lately."""
    if sink.ledger is not None or not names:
        return []
    by_text = {name.text: name for name in names}
    rows = await session.fetch("SELECT name FROM published_unit WHERE name = ANY ($1)", list(by_text))
    return [by_text[row["name"]] for row in rows]
