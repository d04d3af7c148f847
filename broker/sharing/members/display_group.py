"""The members of a group: DISPLAY GROUP, and what `evermq group` shows of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.commands import errors
from broker.commands.inquiry import display_status
from broker.commands.interpreter import refused
from broker.mqi.replies import joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from broker.commands.requests import MembersRequest
    from broker.mqi.replies import CommandReply
    from broker.sharing.database.database import Database

ADMINISTRATOR: Final = "EVERMQ.ADMIN"
"""The name under which `evermq group` makes sessions, and under which it joins for a moment: no member."""

MEMBERS: Final = """
SELECT name, state, epoch, address, started, recoverer,
       greatest(0, extract(epoch FROM lease_until - clock_timestamp()))::double precision AS lease_seconds,
       (SELECT count(*) FROM unit_of_work WHERE member = member.name AND unit_of_work.state = 'ACTIVE') AS units,
       (SELECT count(*) FROM handle WHERE handle.member = member.name) AS handles,
       coalesce((to_jsonb(member) ->> 'version')::integer, 1) AS version
FROM member WHERE name <> $1 ORDER BY name
"""


class _FoundMembers:
    """Members as a catalog shows them to DISPLAY."""

    def __init__(self, rows: Sequence[Mapping[str, int | str]]) -> None:
        self._rows = rows

    def statuses(self, noun: str, type: str) -> Iterator[Mapping[str, int | str]]:
        yield from self._rows


async def displayed(database: Database, request: MembersRequest) -> list[CommandReply]:
    """DISPLAY GROUP: one reply, with all members that are meant. Raises CF_NOT_AVAILABLE (2345)."""
    rows = await database.look_again(lambda session: session.fetch(MEMBERS, ADMINISTRATOR))
    catalog: Any = _FoundMembers([_figures(database.group_name, row) for row in rows])
    try:
        return [joined([reply for reply in display_status(request.shown, catalog) if reply is not None])]
    except errors.CommandError as error:
        return [refused(error)]


def _figures(group_name: str, row: Any) -> dict[str, int | str]:
    failed = row["state"] == "ACTIVE" and not row["lease_seconds"]
    return {
        "QMNAME": row["name"],
        "QSGNAME": group_name,
        "STATUS": "FAILED" if failed else row["state"],
        "EPOCH": row["epoch"],
        "LEASE": round(row["lease_seconds"]) if row["state"] != "INACTIVE" else 0,
        "UOWS": row["units"],
        "HANDLES": row["handles"],
        "RECOVER": row["recoverer"] or "",
        "STARTDA": row["started"].strftime("%Y-%m-%d"),
        "STARTTI": row["started"].strftime("%H.%M.%S"),
        "ADDRESS": row["address"],
    }
