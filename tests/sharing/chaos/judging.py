"""Judge a group when everything is healed, as another user of the database sees it, against the ledger."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tests.sharing.chaos.clients import SHARED_QUEUES, browsed, drain, marks
from tests.sharing.chaos.ledger import Key
from tests.sharing.database import LEAKS
from tests.sharing.postgres import OWNER

if TYPE_CHECKING:
    from tests.sharing.chaos.ledger import Ledger
    from tests.sharing.chaos.processes import Member
    from tests.sharing.database import GroupDatabase

_SETTLE_SECONDS: Final = 30.0
"""For the lease of whoever was ended last, and for its recovery."""

_MESSAGES: Final = (
    "SELECT queue, convert_from(body, 'UTF8') FROM {}.all_messages "
    f"WHERE queue IN {SHARED_QUEUES} ORDER BY queue, place"
)

_NOTE: Final = """
CREATE TABLE note (number bigserial PRIMARY KEY, body bytea NOT NULL, given boolean NOT NULL);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO note (body, given) VALUES (OLD.body, true);
    ELSE
        INSERT INTO note (body, given) VALUES (NEW.body, false);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER taken AFTER DELETE ON message FOR EACH ROW WHEN (OLD.queue = 'ALONE') EXECUTE FUNCTION note();
CREATE TRIGGER there AFTER INSERT ON message FOR EACH ROW WHEN (NEW.queue = 'ALONE') EXECUTE FUNCTION note();
"""
_GIVEN: Final = (
    "SELECT convert_from(body, 'UTF8') FROM"
    " (SELECT DISTINCT ON (body) body, given FROM {}.note ORDER BY body, number DESC) AS last WHERE given"
)
"""What happens on ALONE, noted by the database itself."""

_OF_AGENTS: Final = {
    "handles": " WHERE queue <> 'SYSTEM.QSG.TRANSMIT.QUEUE'",
    "connection tags": " WHERE substr(tag, 1, 11) <> 'SYSTEM.IGQ.'",
}
"""What members themselves have while they run: their agents for intra-group queuing read a shared queue."""

_ON_THEIR_WAY: Final = "SELECT count(*) FROM message WHERE queue = 'SYSTEM.QSG.TRANSMIT.QUEUE' HAVING count(*) > 0"

_WHILE_MEMBERS_RUN: Final = (
    "units of work",
    "handles",
    "connection tags",
    "messages not at rest",
    "breaches",
)


_SLOWNESS: Final = """
CREATE TABLE slowness (share double precision NOT NULL, seconds double precision NOT NULL);
INSERT INTO slowness VALUES (0, 0);
CREATE FUNCTION be_slow() RETURNS void LANGUAGE sql AS $$
    SELECT pg_sleep(seconds * random()) FROM slowness WHERE random() < share
$$;
"""
_FENCE: Final = "SELECT pg_get_functiondef('fence(text, bigint)'::regprocedure)"
_FENCED: Final = "END IF;"


async def watch(group: GroupDatabase) -> None:
    """Let the database note which messages it gives to whoever gets outside syncpoint, and be slow behind the fence
    when `Trouble` says so.
    """
    session = await group.session()
    await session.execute(_NOTE + _SLOWNESS)
    fence = await session.fetchval(_FENCE)
    assert fence.count(_FENCED) == 1
    await session.execute(fence.replace(_FENCED, f"{_FENCED} PERFORM be_slow();"))
    await session.close()


async def judge(group: GroupDatabase, members: list[Member], ledger: Ledger) -> list[str]:
    """Return what is wrong. All members serve, and no program is connected. In the end all members have ended."""
    wrong = await _settled(group)
    marked = {member.name: await marks(member.address) for member in members}
    there: dict[str, list[Key]] = {queue: [] for queue in SHARED_QUEUES}
    inboxes = {
        f"INBOX of {member.name}": [Key.of(body) for body in await browsed(member.address, "INBOX")]
        for member in members
    }

    def compare() -> list[str]:
        for queue, body in group.server.sql(_MESSAGES.format(group.schema), database=OWNER):
            there[queue].append(Key.of(body.encode()))
        given = group.server.sql(_GIVEN.format(group.schema), database=OWNER)
        ledger.given = {Key.of(body.encode()) for (body,) in given}
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
    while True:
        left = {
            kind: await group.rows(f"{LEAKS[kind]}{_OF_AGENTS.get(kind, '')} LIMIT 3") for kind in _WHILE_MEMBERS_RUN
        }
        left["on their way"] = await group.rows(_ON_THEIR_WAY)
        left = {kind: rows for kind, rows in left.items() if rows}
        if not left:
            return []
        if asyncio.get_running_loop().time() > until:
            return [f"left behind while the members run: {kind}: {rows}" for kind, rows in left.items()]
        await asyncio.sleep(0.2)
