"""All that lies in the tables of a group, told in the same way of those of every version, to be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tests.sharing.database import GroupDatabase

_SAME: Final = (
    "place, persistent, state, msg_id, correl_id, group_id, msg_seq_number, byte_offset, msg_flags, deadline, "
    "not_before, handling, order_key, descriptor, length, md5(body) AS body, backout_count, put_by"
)
_TWO: Final = f"""
SELECT queue, {_SAME}, member, epoch,
       CASE state WHEN 6 THEN consumer WHEN 3 THEN '00000000-0000-0000-0000-000000000000'::uuid ELSE unit END AS unit,
       claim_sequence AS sequence, state = 2 AND owner IS NOT DISTINCT FROM 'cancels' AS cancels
    FROM message WHERE state <> 2 OR unit IS NOT NULL ORDER BY queue, place
"""
_THREE: Final = f"""
SELECT queue, {_SAME}, NULL AS member, NULL AS epoch, NULL AS unit, NULL AS sequence, false AS cancels FROM message
UNION ALL
SELECT queue, {_SAME.replace(" state,", " kind AS state,")}, nullif(member, ''), nullif(epoch, 0), unit, sequence,
       kind = 2 AND state = 8 FROM held ORDER BY queue, place
"""
_DEPTHS: Final = {
    "queue": "SELECT name, depth FROM queue ORDER BY name",
    "share": "SELECT name, coalesce(sum(n), 0)::bigint AS depth FROM queue LEFT JOIN share ON queue = name "
    "GROUP BY name ORDER BY name",
}
_TABLES: Final = (
    "object", "security_object", "security", "structure", "unit_of_work", "handle", "connection_tag", "put_key",
    "consumer", "sink", "prepared_unit", "published_unit",
)  # fmt: skip
_KEY_IS_FREE: Final = (
    "NOT EXISTS (SELECT FROM message AS m WHERE m.queue = p.queue AND m.place = p.place AND m.state = 2 "
    "AND m.unit IS NULL AND m.owner = 'cancels')"
)


async def standing(group: GroupDatabase) -> dict[str, list[dict[str, Any]]]:
    """What lies in the tables of a group, in order, but for what was got outside syncpoint: nobody gets that again."""
    new = await group.value("SELECT to_regclass($1) IS NOT NULL", f"{group.schema}.held")
    found = {
        "messages": await group.rows(_THREE if new else _TWO),
        "depths": await group.rows(_DEPTHS["share" if new else "queue"]),
    }
    for table in _TABLES:
        if await group.value("SELECT to_regclass($1) IS NOT NULL", f"{group.schema}.{table}"):
            free = f"WHERE {_KEY_IS_FREE}" if table == "put_key" and not new else ""
            found[table] = await group.rows(f"SELECT to_jsonb(p) AS row FROM {table} AS p {free} ORDER BY 1")
    for sequence in ("arrival", "object_version"):
        found[sequence] = await group.rows(f"SELECT last_value FROM {sequence}")
    return found


async def digest(group: GroupDatabase) -> list[dict[str, Any]]:
    """What lies there of messages where they are very many: by queue and state their number, and a sum over all that
    each is.
    """
    new = await group.value("SELECT to_regclass($1) IS NOT NULL", f"{group.schema}.held")
    return await group.rows(
        "SELECT queue, state, count(*) AS messages, sum(hashtextextended(to_jsonb(m)::text, 0)) AS told "
        f"FROM ({_THREE if new else _TWO}) AS m GROUP BY queue, state ORDER BY queue, state"
    )


async def lives(group: GroupDatabase) -> list[tuple[Any, ...]]:
    """Return the members of a group: name, epoch, state and recoverer."""
    rows = await group.rows("SELECT name, epoch, state, recoverer FROM member ORDER BY name")
    return [tuple(row.values()) for row in rows]
