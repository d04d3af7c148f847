"""The units of work of a member that does not run, as its peers see them: DISPLAY THREAD and RESOLVE INDOUBT with
QMNAME (queue-sharing 4).

A unit that is ACTIVE can only be backed out from here: nobody but its own queue manager knows whether its prepared
branch is durable, and peer recovery will back it out anyway. One that is decided stays so, and keeps its row until its
queue manager has ended the prepared branch.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from broker.commands import errors
from broker.commands.inquiry import display_status
from broker.commands.interpreter import refused
from broker.commands.requests import PeerUnitsRequest, StatusRequest
from broker.mqi.replies import CommandReply

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from broker.commands.requests import ResolvePeerUnitRequest
    from broker.sharing.database.database import Database
    from broker.sharing.database.sessions import DatabaseSession

logger = logging.getLogger(__name__)

_RUNS: Final = """
    SELECT state = 'ACTIVE' AND lease_until > clock_timestamp() FROM member WHERE name = $1 FOR SHARE
"""
_UNITS: Final = """
    SELECT id, u.state, extract(epoch FROM clock_timestamp() - started)::bigint AS age,
           coalesce(sum(number), 0)::bigint AS messages, coalesce(sum(bytes), 0)::bigint AS bytes,
           string_agg(format('%s %s', queue, number), ', ' ORDER BY queue) AS queues
        FROM unit_of_work AS u LEFT JOIN LATERAL (
            SELECT queue, count(*) AS number, sum(length) AS bytes FROM held
                WHERE member = u.member AND epoch = u.epoch AND unit = u.id GROUP BY queue
        ) AS counted ON true WHERE u.member = $1 GROUP BY id ORDER BY started, id
"""


class _FoundUnits:
    """Units as a catalog shows them to DISPLAY."""

    def __init__(self, rows: Sequence[Mapping[str, int | str]]) -> None:
        self._rows = rows

    def statuses(self, noun: str, type: str) -> Iterator[Mapping[str, int | str] | None]:
        yield from self._rows


class PeerUnits:
    """The units of work of peers, as a member handles them by command."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def carry_out(self, request: PeerUnitsRequest | ResolvePeerUnitRequest) -> list[CommandReply]:
        """Display or resolve. Raises MQError; OutcomeUnknownError."""
        try:
            if isinstance(request, PeerUnitsRequest):
                return await self._display(request)
            return await self._resolve(request)
        except errors.CommandError as error:
            return [refused(error)]

    async def _display(self, request: PeerUnitsRequest) -> list[CommandReply]:
        async def work(session: DatabaseSession) -> list[Any]:
            await _check_stopped(session, request.member)
            return list(await session.fetch(_UNITS, request.member))

        rows = await self._database.transact(work)
        shown = StatusRequest("THREAD", "INDOUBT", request.pattern, tpf=request.tpf)
        found = display_status(shown, _FoundUnits([_figures(row) for row in rows]))  # type: ignore[arg-type]  # it asks no more
        return [reply for reply in found if reply is not None]

    async def _resolve(self, request: ResolvePeerUnitRequest) -> list[CommandReply]:
        id = _id(request.name)

        async def work(session: DatabaseSession) -> str:
            await _check_stopped(session, request.member)
            row = await session.fetchrow(
                "SELECT state, epoch FROM unit_of_work WHERE id = $1 AND member = $2 FOR UPDATE", id, request.member
            )
            if row is None:
                raise errors.not_found(request.name)
            state: str = row["state"]
            if state == "ACTIVE":
                if request.commit:
                    raise errors.conflict(
                        f"nobody but {request.member} knows whether unit {id} is prepared there: it can be backed out"
                    )
                await session.fetchval("SELECT back_out_units($1, $2, $3)", request.member, row["epoch"], [id])
                return "BACKED_OUT"
            return state

        state = await self._database.transact(work)
        if (state == "COMMITTED") != request.commit:
            raise errors.conflict(f"unit {id} is {state} already, and {request.member} will end it so")
        logger.warning("unit of work resolved unit=%s member=%s outcome=%s", id, request.member, state)
        text = f"EMQ0005I: EverMQ unit {id} of {request.member} resolved: {state}."
        return [CommandReply(code="EMQ0005I", text=text)]


async def _check_stopped(session: DatabaseSession, member: str) -> None:
    """Raise CommandError where the member runs; its start waits until this is over."""
    runs = await session.fetchval(_RUNS, member)
    if runs is None:
        raise errors.not_found(member)
    if runs:
        raise errors.active(member)


def _figures(row: Any) -> dict[str, int | str]:
    return {
        "THREAD": str(row["id"]),
        "TYPE": "INDOUBT",
        "SINK": "",
        "BATCH": 0,
        "UOWSTATE": row["state"],
        "MSGS": row["messages"],
        "BYTES": row["bytes"],
        "AGE": max(0, row["age"]),
        "QUEUES": row["queues"] or "",
        "DATABASE": "",
        "RESOLVER": "",
    }


def _id(name: str) -> UUID:
    try:
        return UUID(name)
    except ValueError:
        raise errors.not_found(name) from None
