"""Judge a group when everything is healed, as another user of the database sees it, against the ledger."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tests.sharing.chaos import tables
from tests.sharing.chaos.clients import browsed, drain, marks
from tests.sharing.chaos.ledger import Key

if TYPE_CHECKING:
    from tests.sharing.chaos.ledger import Ledger
    from tests.sharing.chaos.processes import Member
    from tests.sharing.database import GroupDatabase

_SETTLE_SECONDS: Final = 30.0
"""For the lease of whoever was ended last, and for its recovery."""


async def judge(group: GroupDatabase, members: list[Member], ledger: Ledger) -> list[str]:
    """Return what is wrong. All members serve, and no program is connected. In the end all members have ended."""
    wrong = await _settled(group)
    if wrong:
        for member in members:
            await member.tell_tasks()
    marked = {member.name: await marks(member.address) for member in members}
    there: dict[str, list[Key]] = {}
    inboxes = {
        f"INBOX of {member.name}": [Key.of(body) for body in await browsed(member.address, "INBOX")]
        for member in members
    }

    def compare() -> list[str]:
        there.update(tables.messages(group))
        ledger.given = tables.given(group)
        return ledger.judge(there | inboxes, marked)

    wrong += await asyncio.to_thread(compare)  # meanwhile the lines of the members, which lead through here, stay open
    for queue, keys in there.items():
        if await drain([member.address for member in members], queue) != keys:
            wrong.append(f"{queue}: what programs get in the end is not what is there")
    for member in members:
        await member.end()
    left = await group.leaks()
    return [*wrong, *(f"left behind: {kind}: {rows}" for kind, rows in left.items())]


async def _settled(group: GroupDatabase) -> list[str]:
    """Wait until nothing is left of what programs had; what is left after all."""
    until = asyncio.get_running_loop().time() + _SETTLE_SECONDS
    while left := await asyncio.to_thread(tables.found, group, tables.AT_REST):
        if asyncio.get_running_loop().time() > until:
            return [f"left behind while the members run: {kind}: {rows}" for kind, rows in left.items()]
        await asyncio.sleep(0.2)
    return []
