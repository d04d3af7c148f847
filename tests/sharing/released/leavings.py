"""What members of an older release leave behind, made by the functions of their release: messages in each state that
they can be in, of members that have ended in order and of such that have failed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

if TYPE_CHECKING:
    import asyncpg

    from tests.sharing.database import GroupDatabase

NAMESPACE: Final = UUID(int=27)
LEASE: Final = 10.0
QUEUES: Final = ("A", "B", "HANDLED", "KEYED")
LATER: Final = 4e9  # seconds since 1970: not in the time of these tests

_PUT: Final = """
SELECT depths, first_place FROM put_messages(
    $1, $2, $3, NULL, ARRAY[$4], ARRAY[$5::bigint], ARRAY[999999999], ARRAY[1], ARRAY[$6::boolean], ARRAY[$7::integer],
    $8, $9, $10, $11, $12, ARRAY[0], ARRAY[0], $13, ARRAY[$14::float8], $15, $16, $17, $18, $19
)
"""
_GET: Final = """
SELECT number, place FROM get_messages(
    $1, $2, $3, $4, $5, NULL, NULL, array_fill($6::uuid, ARRAY[$7::integer]), array_fill(false, ARRAY[$7::integer]), $8,
    $9::uuid[], array_fill(NULL::bytea, ARRAY[cardinality($9::uuid[])]), '{}', 1000000000, false
) WHERE number > 0 ORDER BY number
"""
_TAKE: Final = """
SELECT place FROM take_messages($1, $2, $3, $4, 0, $5, '{}', '{}', true, ARRAY[$5::bigint], $6, $7, NULL, $8)
"""
_PLACES: Final = """
SELECT array_agg(place) FROM (
    SELECT place FROM message WHERE queue = $1 AND state = $2 ORDER BY place LIMIT $3
) AS first
"""


@dataclass
class OlderMember:
    """A member of an older release, on a session of its own: it does what its programs ask for, in one life of it."""

    name: str
    session: asyncpg.Connection
    versions: dict[str, int]
    epoch: int = 0
    _turns: Any = field(default_factory=lambda: count(2, 2))
    _numbers: Any = field(default_factory=lambda: count(1))

    async def join(self) -> None:
        row = await self.session.fetchrow(
            "SELECT * FROM join_group($1, $2, 'here', $3, 0)", self.name, uuid5(NAMESPACE, self.name), LEASE
        )
        self.epoch = row["my_epoch"]
        for setting, value in (("member", self.name), ("epoch", str(self.epoch))):
            await self.session.execute(f"SET evermq.{setting} = '{value}'")

    async def fail(self) -> None:
        """Its lease has ended, and nobody has taken over."""
        await self.session.execute(
            "UPDATE member SET lease_until = clock_timestamp() - interval '1 s' WHERE name = $1", self.name
        )

    async def leave(self) -> None:
        """End in order."""
        claim = self.name, self.epoch, self.name, self.epoch + 1, LEASE
        for phase in ("recover_decided", "recover_units", "recover_locks"):
            await self.session.execute(f"SELECT {phase}($1, $2, $3, $4, $5, 1000)", *claim)
        assert await self.session.fetchval("SELECT end_recovery($1, $2, $3, $4, $5)", *claim)

    def unit(self) -> UUID:
        return uuid5(NAMESPACE, f"{self.name} {self.epoch} {next(self._numbers)}")

    async def put(
        self,
        q_name: str,
        number: int = 2,
        *,
        unit: UUID | None = None,
        staged: bool = False,
        not_before: float = 0,
        rank: int = 5,
        deadline: float | None = None,
        group: bytes | None = None,
        body: bytes = b"body",
    ) -> int:
        """Put messages, persistent and not in turn, and return the place of the first."""
        ids = [next(self._numbers) for _ in range(number)]
        names = [f"{self.name} {self.epoch} {id}".encode() for id in ids]
        row = await self.session.fetchrow(
            _PUT,
            0, next(self._turns), unit, q_name, self.versions[q_name], unit is not None, rank,
            [bool(id % 2) for id in ids], [name.ljust(24, b"\0") for name in names],
            [b"correl %d" % id if id % 3 else None for id in ids], [group] * number, ids,
            [deadline] * number, not_before, [b"handling" if id % 5 else None for id in ids],
            [b"descriptor of " + name for name in names], [len(body) + len(name) for name in names],
            [body + name for name in names], staged,
        )  # fmt: skip
        return int(row["first_place"])

    async def get(self, q_name: str, number: int = 2, unit: UUID | None = None) -> list[int]:
        """Get messages, in a unit that begins with that, or outside syncpoint; where they stand."""
        tokens = [self.unit() for _ in range(number)]
        rows = await self.session.fetch(
            _GET, 0, next(self._turns), q_name, self.versions[q_name], 0.0, unit, number, tokens,
            [] if unit is None else [unit],
        )  # fmt: skip
        assert len(rows) == number
        return [row["place"] for row in rows]

    async def cancel(self, q_name: str, unit: UUID | None) -> None:
        """Get a delayed message before its time."""
        (place,) = await self.places(q_name, 8, 1)
        arguments = q_name, self.versions[q_name], place, unit, unit is not None, self.unit()
        assert await self.session.fetch(_TAKE, 0, next(self._turns), *arguments)

    async def back_out(self, unit: UUID) -> None:
        assert await self.session.fetchval("SELECT back_out_unit($1)", unit)

    async def commit(self, unit: UUID) -> None:
        assert await self.session.fetchval("SELECT commit_unit(0, $1, $2)", next(self._turns), unit)

    async def keep_key(self, q_name: str, place: int, key: bytes, unit: UUID | None, seconds: float | None) -> None:
        """The message that was just put holds a key."""
        arguments = q_name, key.ljust(16, b"\0"), unit, place, b"msg id of " + key, b"digest of " + key, seconds
        await self.session.execute("SELECT keep_key($1, $2, $3, $4, $5, $6, $7)", *arguments)

    async def lock(self, q_name: str) -> None:
        """Browse with LOCK."""
        for place in await self.places(q_name, 1, 2):
            assert await self.session.fetchval(
                "SELECT lock_messages(0, $1, $2, $3, 0, $4, '{}', '{}', true, 'program 7')",
                next(self._turns), q_name, self.versions[q_name], place,
            )  # fmt: skip

    async def hand_out(self, q_name: str, key: bytes) -> list[UUID]:
        """Deliver two messages to handlers, each in a unit of work of its own."""
        places, units = await self.places(q_name, 1, 2), [self.unit(), self.unit()]
        async with self.session.transaction():
            await self.session.execute("SELECT begin_taking($1, $2)", q_name, self.versions[q_name])
            await self.session.execute(
                "SELECT take_deliveries($1, $2, $3, $4, $5)", q_name, places, units, [key, key], [None, None]
            )
        return units

    async def postpone(self, q_name: str, key: bytes) -> None:
        """A handler has failed: its message comes again later, and its key is busy until then."""
        first, second = await self.hand_out(q_name, key)
        for unit in (first, second):
            place = await self.session.fetchval("SELECT place FROM message WHERE unit = $1", unit)
            await self.session.execute(
                "SELECT return_deliveries(0, $1, $2, $3, ARRAY[$4::bigint], ARRAY[1e6::float8], ARRAY[3], "
                "ARRAY['failed'::bytea])",
                next(self._turns), unit, q_name, place,
            )  # fmt: skip

    async def places(self, q_name: str, state: int, number: int) -> list[int]:
        found = await self.session.fetchval(_PLACES, q_name, state, number)
        assert found is not None
        assert len(found) == number
        return list(found)


async def define_queues(session: asyncpg.Connection, names: tuple[str, ...] = QUEUES) -> dict[str, int]:
    """Define shared queues; their versions."""
    define = "SELECT define_object('SHARED', 'QUEUE', $1, 'QLOCAL', '{\"CFSTRUCT\": \"APPL\"}', 0)"
    return {name: await session.fetchval(define, name) for name in names}


async def older_members(group: GroupDatabase, *names: str) -> list[OlderMember]:
    """Members that have joined a group with these queues, each with a session."""
    session = await group.session()
    versions = await define_queues(session)
    await session.close()
    members = [OlderMember(name, await group.session(), versions) for name in names]
    for member in members:
        await member.join()
    return members


async def leave_everything(group: GroupDatabase) -> None:
    """Let members leave messages in every state behind: QM1 fails twice, QM2 ends in order, and QM3 has failed and is
    being recovered by QM1, which fails.
    """
    first, second, third = members = await older_members(group, "QM1", "QM2", "QM3")
    for member in members:
        for q_name in QUEUES:
            await member.put(q_name, 20, rank=member.epoch + 3)
        await member.put("A", 3, deadline=LATER, rank=9)
        await member.put("A", 3, deadline=1.0, rank=0)  # expired by now
        await member.put("A", 4, group=b"a group", body=b"long " * 100_000)
        await _in_units(member)
    await _of_nobody(first)
    await first.fail()
    await first.session.close()
    again = OlderMember("QM1", await group.session(), first.versions)
    await again.join()  # its earlier life is not recovered
    await _in_units(again)
    await second.leave()
    await third.fail()
    await again.session.execute("SELECT take_over('QM1', $1, 'QM3', $2, 10)", again.epoch, third.epoch)
    await third.fail()
    await again.fail()
    for member in (second, third, again):
        await member.session.close()


async def _in_units(member: OlderMember) -> None:
    """Units of work that go on, that were committed and that were backed out, and what is held besides."""
    name = member.name.encode() + b" %d" % member.epoch
    active = member.unit()
    await member.get("A", 5, active)
    await member.put("B", 4, unit=active)
    backed_out = member.unit()
    await member.get("B", 4, backed_out)
    await member.back_out(backed_out)
    committed = member.unit()
    await member.get("A", 2, committed)
    await member.put("A", 2, unit=committed)
    await member.commit(committed)  # and its row stays: a private part may wait for it
    await member.get("B", 3)  # outside syncpoint, and not removed yet
    await member.lock("A")
    await member.hand_out("HANDLED", b"key " + name)
    await member.postpone("HANDLED", b"other " + name)
    await member.put("B", 4, not_before=LATER)
    await member.put("B", 2, not_before=1.0)  # due
    cancelling = member.unit()
    await member.put("KEYED", 1, not_before=LATER)
    await member.cancel("KEYED", cancelling)
    for seconds in (None, 1e9):
        place = await member.put("KEYED", 1)
        await member.keep_key("KEYED", place, b"%s %a" % (name, seconds), None, seconds)
    keying = member.unit()
    place = await member.put("KEYED", 1, unit=keying)
    await member.keep_key("KEYED", place, b"pending " + name, keying, 1e9)
    await member.keep_key("KEYED", await member.put("KEYED", 1, not_before=LATER), b"free " + name, None, None)
    freed = await member.session.fetchval("SELECT max(place) FROM message WHERE queue = 'KEYED' AND state = 8")
    await member.session.fetch(
        _TAKE, 0, next(member._turns), "KEYED", member.versions["KEYED"], freed, None, False, member.unit()
    )
    await member.session.execute(
        "SELECT open_handle($1, $2, $3, 'A', $4, true, false)",
        member.name, member.epoch, member.unit(), member.versions["A"],
    )  # fmt: skip
    await member.session.execute(
        "SELECT take_tag($1, $2, $3, $4, 'process', true, true)",
        member.name,
        member.epoch,
        member.unit(),
        b"tag of " + name,
    )


async def _of_nobody(member: OlderMember) -> None:
    """Claims, and prepared units of a sink: they belong to no member."""
    session, consumer, staged = member.session, member.unit(), member.unit()
    await session.execute("INSERT INTO consumer (uuid, name, q_names) VALUES ($1, 'ARCHIVE', '{A,B}')", consumer)
    for number, place in enumerate(await member.places("A", 1, 6), 1):
        await session.execute(
            "UPDATE message SET state = 6, consumer = $1, claim_sequence = $2 WHERE queue = 'A' AND place = $3",
            consumer, number, place,
        )  # fmt: skip
    await session.execute("UPDATE consumer SET next = 7, pinned = 2, generation = 3 WHERE uuid = $1", consumer)
    await session.execute("INSERT INTO sink (name, query, batch) VALUES ('S', 'query', 4)")
    await session.execute(
        "INSERT INTO prepared_unit (id, sink, batch, partition, attempt, since, touched, attributes, messages) "
        "VALUES ($1, 'S', 5, 0, '0', 1, 2, 'attributes', 6)",
        staged,
    )
    await member.put("B", 6, unit=staged, staged=True)
    await session.execute("INSERT INTO published_unit VALUES ('S/4/0/0', 3)")


_MULTIPLY = """
INSERT INTO message (
    queue, place, persistent, state, unit, member, epoch, owner, token, msg_id, correl_id, group_id, msg_seq_number,
    byte_offset, msg_flags, deadline, not_before, handling, order_key, descriptor, length, body, backout_count, put_by,
    consumer, claim_sequence
)
SELECT queue, (place >> 56 << 56) | nextval('arrival'), persistent, state, unit, member, epoch, owner, token,
       decode(md5(format('%s %s', place, copy)), 'hex'), correl_id, group_id, msg_seq_number, byte_offset, msg_flags,
       deadline, not_before, handling, order_key, descriptor, length, body, backout_count, put_by, consumer,
       claim_sequence + 1000 * copy
    FROM generate_series(1, $1) AS copy, message WHERE length < 10000
"""


async def leave_many(group: GroupDatabase, number: int) -> None:
    """Let members leave about so many messages in every state behind: those of `leave_everything`, many times."""
    await leave_everything(group)
    session = await group.session()
    there = await session.fetchval("SELECT count(*) FROM message WHERE length < 10000")
    await session.execute("UPDATE message SET body = decode(repeat(md5(place::text), 8), 'hex') || body")
    await session.execute(_MULTIPLY, number // there)
    await session.execute(
        "UPDATE queue SET depth = (SELECT count(*) FROM message WHERE message.queue = name AND state <> 2)"
    )
    await session.execute(
        "INSERT INTO put_key SELECT queue, msg_id, NULL, place, msg_id, msg_id, NULL FROM message "
        "WHERE queue = 'KEYED' AND state IN (1, 8) AND octet_length(msg_id) = 16"
    )
    await session.close()
