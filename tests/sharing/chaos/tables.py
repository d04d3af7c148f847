"""All that chaos knows of the tables and functions of a group. Nothing else in this package names any.

`BREACHES` must have no row in any snapshot: they are looked at while programs work and members fail. `AT_REST` must
have none when everything is healed and no program is there; `tests.sharing.database.LEAKS` none when nobody is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.sharing.chaos.clients import SHARED_QUEUES
from tests.sharing.chaos.ledger import Key
from tests.sharing.database import LEAKS
from tests.sharing.postgres import OWNER

if TYPE_CHECKING:
    from tests.sharing.database import GroupDatabase

_SHOWN: Final = 5  # of a kind

# What must hold

BREACHES: Final = {
    # depths are wrong from a crash until somebody has counted
    "breaches": "SELECT * FROM breach WHERE what NOT LIKE 'depth is %'",
    "units of work of no life": (
        "SELECT id, member, epoch FROM unit_of_work AS u WHERE state = 'ACTIVE'"
        " AND NOT EXISTS (SELECT FROM member AS m WHERE m.name = u.member AND u.epoch <= m.epoch)"
    ),
    "units of work after a recovery": (
        "SELECT id, u.member, u.epoch FROM unit_of_work AS u JOIN member AS m ON m.name = u.member"
        " WHERE u.state = 'ACTIVE' AND m.state = 'INACTIVE'"
    ),
    "messages held after a recovery": (
        "SELECT queue, place, kind, unit, h.member, h.epoch FROM held AS h"
        " JOIN member AS life ON life.name = h.member WHERE life.state = 'INACTIVE'"
    ),
    "keys in no unit of work": (
        "SELECT queue, key, unit FROM put_key AS k WHERE unit IS NOT NULL"
        " AND NOT EXISTS (SELECT FROM unit_of_work AS u WHERE u.id = k.unit AND u.state = 'ACTIVE')"
        " AND NOT EXISTS (SELECT FROM prepared_unit AS p WHERE p.id = k.unit)"
    ),
}  # fmt: skip

_MEMBER: Final = (
    "INSERT INTO member (name, epoch, state, instance) VALUES ('QM1', 2, '{}', gen_random_uuid())"
    " ON CONFLICT DO NOTHING"
)
_UNIT: Final = "INSERT INTO unit_of_work (id, member, epoch) VALUES (gen_random_uuid(), 'QM1', 2)"
_HELD: Final = (
    "INSERT INTO queue (name) VALUES ('Q') ON CONFLICT DO NOTHING;"
    " INSERT INTO held (queue, place, persistent, state, kind, unit, member, epoch, msg_id, descriptor, length,"
    " body, put_by) VALUES ('Q', 1, true, 1, {}, gen_random_uuid(), 'QM1', 2, '', '', 0, '', 'QM1')"
)

BROKEN: Final = {
    "breaches": _HELD.format(2),
    "units of work of no life": _UNIT,
    "units of work after a recovery": f"{_MEMBER.format('INACTIVE')}; {_UNIT}",
    "messages held after a recovery": f"{_MEMBER.format('INACTIVE')}; {_HELD.format(3)}",
    "keys in no unit of work": (
        "INSERT INTO put_key (queue, key, unit, place, msg_id, digest) VALUES ('Q', '', gen_random_uuid(), 1, '', '')"
    ),
}
"""What a test does to a group that is whole, so that it has each of the breaches."""

_OF_AGENTS: Final = {
    "handles": " WHERE queue <> 'SYSTEM.QSG.TRANSMIT.QUEUE'",
    "connection tags": " WHERE substr(tag, 1, 11) <> 'SYSTEM.IGQ.'",
}
"""What members themselves have while they run: their agents for intra-group queuing read a shared queue."""

AT_REST: Final = {
    **{
        kind: f"{LEAKS[kind]}{_OF_AGENTS.get(kind, '')}"
        for kind in ("units of work", "handles", "connection tags", "messages not at rest", "keys in units of work")
    },
    "prepared units": "SELECT id, sink, batch FROM prepared_unit",
    "on their way": (
        "SELECT count(*) FROM all_messages WHERE queue = 'SYSTEM.QSG.TRANSMIT.QUEUE' HAVING count(*) > 0"
    ),
    **BREACHES,
    "breaches": "SELECT * FROM breach",
}  # fmt: skip

# What the database shows

_MESSAGES: Final = (
    "SELECT queue, convert_from(body, 'UTF8') FROM {}.all_messages"
    f" WHERE queue IN {SHARED_QUEUES} ORDER BY queue, place"
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
    when `be_slow` says so.
    """
    session = await group.session()
    await session.execute(_NOTE + _SLOWNESS)
    fence = await session.fetchval(_FENCE)
    assert fence.count(_FENCED) == 1
    await session.execute(fence.replace(_FENCED, f"{_FENCED} PERFORM be_slow();"))
    await session.close()


def be_slow(group: GroupDatabase, share: float, seconds: float) -> None:
    """Let so many of the statements take up to so long, behind the fence that they hold."""
    group.server.sql(f"UPDATE {group.schema}.slowness SET share = {share}, seconds = {seconds}", database=OWNER)


def messages(group: GroupDatabase) -> dict[str, list[Key]]:
    """Return what is on each shared queue, in order."""
    there: dict[str, list[Key]] = {queue: [] for queue in SHARED_QUEUES}
    for queue, body in group.server.sql(_MESSAGES.format(group.schema), database=OWNER):
        there[queue].append(Key.of(body.encode()))
    return there


def given(group: GroupDatabase) -> set[Key]:
    """Return the messages that the database has given to gets outside syncpoint."""
    return {Key.of(body.encode()) for (body,) in group.server.sql(_GIVEN.format(group.schema), database=OWNER)}


def found(group: GroupDatabase, kinds: dict[str, str]) -> dict[str, list[str]]:
    """Return the rows that there are of these kinds, in one snapshot."""
    looks = " UNION ALL ".join(
        f"SELECT '{kind}', to_jsonb(row) FROM ({sql} LIMIT {_SHOWN}) AS row" for kind, sql in kinds.items()
    )
    rows: dict[str, list[str]] = {}
    for line in group.server.sql(f"SET search_path = {group.schema}", looks, database=OWNER):
        rows.setdefault(line[0], []).append("\t".join(line[1:]))
    return rows


def now(group: GroupDatabase) -> str:
    """Return the time by the clock of the database."""
    ((time,),) = group.server.sql("SELECT clock_timestamp()")
    return time


def has_renewed(group: GroupDatabase, member: str, since: str, lease: float) -> bool:
    """True if a member has renewed its lease since then: one that has slept too long ends only when it tries to."""
    return bool(
        group.server.sql(
            f"SELECT 1 FROM {group.schema}.member WHERE name = '{member}' AND state = 'ACTIVE'"
            f" AND lease_until > '{since}'::timestamptz + make_interval(secs => {lease})",
            database=OWNER,
        )
    )


# Where members die

STEPS: Final = {
    "BEGIN": 20, "put_alike": 20, "put_messages": 20, "get_messages": 20, "join_unit": 5, "commit_units": 20,
    "outcome_of_unit": 2, "forget_units": 10, "COMMIT": 20, "write": 20, "take_tag": 5, "release_tag": 5, "UPDATE": 2,
    "publish_units": 5,
}  # fmt: skip
"""Where members die while programs work: about to take one of them for the nth time, or having taken it; so often at
most. A mixed unit is prepared by a write, decided by `commit_units`, ended by a write and forgotten; UPDATE renews the
lease (queue-sharing rules 10.3.1 and 10.3.4 to 10.3.6).
"""
STEPS_OF_RECOVERY: Final = "recover", "end_recovery"
STEPS_OF_START: Final = "join_group", *STEPS_OF_RECOVERY
"""Of its own recovery (queue-sharing rule 10.3.7)."""
STEPS_OF_TAKEOVER: Final = "count", "take_over", *STEPS_OF_RECOVERY
"""Of a peer's; `count` is of the sessions that are ended (queue-sharing rules 10.3.2 and 10.3.3)."""
