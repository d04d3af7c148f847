"""What anybody holds is moved to another table, with whose it is, and counted in shares (queue-sharing rules 10.1,
10.2.5 and 10.2.6).
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from broker.mqi import MQGMO, MQPMO, MQRC, MessageDescriptor
from broker.mqi.errors import MQError
from broker.sharing.definitions import repository_change, structures
from tests.conformance.expect import ALL, drained
from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker import Connection, Queue
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

DEFINITIONS: Final = "DEFINE QLOCAL(Q) QSGDISP(SHARED)"
LIMIT: Final = 12
PERSISTENT: Final = MessageDescriptor(persistence=1)


async def test_what_is_held_has_the_columns_of_a_message_in_their_order(group: GroupDatabase) -> None:
    """`INSERT INTO held SELECT gone.*, ...` relies on it."""
    columns = (
        "SELECT attname, format_type(atttypid, atttypmod) AS type, attnotnull FROM pg_attribute "
        "WHERE attrelid = $1::text::regclass AND attnum > 0 ORDER BY attnum"
    )
    free, held = [await group.rows(columns, name) for name in ("message", "held")]
    assert held[: len(free)] == free
    for part in ("persistent", "nonpersistent"):
        assert await group.rows(columns, f"message_{part}") == free
        assert await group.rows(columns, f"held_{part}") == held


# Gets outside syncpoint


@pytest.mark.parametrize("options", [MQGMO.NONE, MQGMO.COMPLETE_MSG])
async def test_a_get_whose_session_is_lost_before_its_commit_has_taken_nothing_and_is_made_again(
    members: Members, here: Queue, options: MQGMO
) -> None:
    await here.put(b"1", PERSISTENT)
    await here.put(b"2", PERSISTENT)
    line, lost = members.lines["QM1"], iter([None])

    def cut(piece: bytes) -> bytes | None:
        return None if b"COMMIT" in piece and next(lost, 0) is None else piece

    line.to_server = cut
    retries = members.member("QM1").database.figures.retries
    assert (await here.get(options=options)).data == b"1"
    assert members.member("QM1").database.figures.retries > retries
    assert await drained(here) == [b"2"]


@pytest.mark.parametrize("options", [MQGMO.NONE, MQGMO.COMPLETE_MSG])
async def test_a_get_that_loses_the_answer_to_its_commit_has_its_message_and_asks_only_whether(
    members: Members, here: Queue, options: MQGMO
) -> None:
    await here.put(b"1", PERSISTENT)
    await here.put(b"2", PERSISTENT)
    line, database = members.lines["QM1"], members.member("QM1").database

    def to_client(piece: bytes) -> bytes | None:
        if b"COMMIT\0" not in piece:
            return piece
        line.to_client = None
        return None

    line.to_client = to_client
    unknown = database.figures.unknown
    assert (await here.get(options=options)).data == b"1"
    assert database.figures.unknown == unknown + 1
    assert await drained(here) == [b"2"]


# Depths


class Program:
    """A program that does this and that on a queue, as `random` will have it."""

    def __init__(self, connection: Connection, queue: Queue, random: Random, *, backs_out: bool) -> None:
        self._connection = connection
        self._queue = queue
        self._random = random
        self._ends = [connection.commit, connection.backout if backs_out else connection.commit]

    async def run(self, steps: int) -> None:
        syncpoint = False
        for _ in range(steps):
            try:
                match self._random.randrange(8):
                    case 0 | 1 | 2:
                        await self._queue.put(b"x", self._md())
                    case 3:
                        await self._queue.put(b"x", self._md(), MQPMO.SYNCPOINT)
                        syncpoint = True
                    case 4:
                        await self._queue.put_many([b"x"] * self._random.randrange(1, 5), self._md())
                    case 5:
                        await self._queue.get()
                    case 6:
                        await self._queue.get(options=MQGMO.SYNCPOINT)
                        syncpoint = True
                    case 7 if syncpoint:
                        await self._random.choice(self._ends)()
                        syncpoint = False
            except MQError as error:
                assert error.reason in (MQRC.Q_FULL, MQRC.NO_MSG_AVAILABLE), error
        await self._connection.commit()

    def _md(self) -> MessageDescriptor:
        return MessageDescriptor(persistence=self._random.randrange(2))


@pytest.mark.parametrize(("seed", "backs_out"), [(0, False), (1, False), (2, True)])
async def test_two_members_whose_programs_put_at_the_limit_count_what_is_there_and_exceed_it_by_a_backout_at_most(
    members: Members, seed: int, *, backs_out: bool
) -> None:
    await members.mqsc(f"ALTER QLOCAL(Q) QSGDISP(SHARED) MAXDEPTH({LIMIT})")
    random = Random(seed)
    programs = []
    for number in range(6):
        connection = await members.connect(f"QM{number % 2 + 1}")
        programs.append(
            Program(connection, await connection.open("Q", ALL), Random(random.random()), backs_out=backs_out)
        )
    looks: list[tuple[int, int]] = []

    async def look() -> None:
        while True:
            (row,) = await members.group.rows(
                "SELECT depth_of('Q') AS depth, "
                "(SELECT count(*) FROM all_messages WHERE queue = 'Q' AND state <> 2) AS there"
            )
            looks.append((row["depth"], row["there"]))

    looking = asyncio.ensure_future(look())
    await asyncio.gather(*[program.run(25) for program in programs])
    looking.cancel()
    await asyncio.wait([looking])
    assert looks
    assert [(depth, there) for depth, there in looks if depth != there or (depth > LIMIT and not backs_out)] == []
    assert max(depth for depth, _ in looks) >= LIMIT - 2  # it was at the limit


async def test_less_maxdepth_holds_at_once_for_a_lane_that_was_allowed_more(members: Members, here: Queue) -> None:
    await here.put(b"1")
    await members.mqsc("ALTER QLOCAL(Q) QSGDISP(SHARED) MAXDEPTH(2)")
    await here.close()
    here = await here._connection.open("Q", ALL)
    await here.put(b"2")
    with pytest.raises(MQError) as caught:
        await here.put(b"3")
    assert caught.value.reason == MQRC.Q_FULL


async def test_what_comes_back_takes_the_room_that_another_lane_was_allowed(members: Members, here: Queue) -> None:
    await members.mqsc("ALTER QLOCAL(Q) QSGDISP(SHARED) MAXDEPTH(4)")
    connection = await members.connect("QM2")
    got, here = await connection.open("Q", ALL), await (await members.connect("QM1")).open("Q", ALL)
    for _ in range(3):
        await here.put(b"x")
    assert len(await got.get_many(3, options=MQGMO.SYNCPOINT)) == 3
    await here.put(b"x")  # there is room for three more, which are dealt out among the lanes of both
    await connection.backout()
    with pytest.raises(MQError) as caught:
        await here.put(b"one too many")
    assert caught.value.reason == MQRC.Q_FULL
    assert await members.group.value("SELECT depth_of('Q')") == 4


# Many messages


async def test_a_queue_with_many_messages_is_cleared_in_slices(
    members: Members, here: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository_change, "SLICE", 10)
    await here.put_many([b"x"] * 34)
    await here.close()
    transactions = members.member("QM1").database.figures.transactions
    await members.mqsc("CLEAR QLOCAL(Q) QSGDISP(SHARED)")
    assert members.member("QM1").database.figures.transactions - transactions >= 4
    assert await members.group.value("SELECT count(*) FROM all_messages") == 0
    assert await members.group.value("SELECT depth_of('Q')") == 0


async def test_a_clear_that_has_broken_off_goes_on_when_it_is_given_again(
    members: Members, here: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository_change, "SLICE", 10)
    await here.put_many([b"x"] * 34)
    await here.close()
    database, left = members.member("QM1").database, iter(range(3))
    transact = database.transact

    async def break_off(*arguments: Callable[..., Any]) -> Any:
        if next(left, None) is None:
            raise MQError(MQRC.CF_NOT_AVAILABLE, "the test says so")
        return await transact(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(database, "transact", break_off)
        async with members["QM1"].connect() as connection:
            (reply,) = await connection.mqsc("CLEAR QLOCAL(Q) QSGDISP(SHARED)")
        assert not reply.ok
    assert await members.group.value("SELECT depth_of('Q')") == 14
    await members.mqsc("CLEAR QLOCAL(Q) QSGDISP(SHARED)", "QM2")
    assert await members.group.value("SELECT depth_of('Q')") == 0


async def test_a_structure_with_many_messages_is_emptied_in_slices(
    members: Members, here: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structures, "SLICE", 10)
    await here.put_many([b"x"] * 25)
    await here.put_many([b"y"] * 25, PERSISTENT)
    await members.mqsc("RESET CFSTRUCT(APPL) ACTION(FAIL)")
    assert await members.group.value("SELECT depth_of('Q')") == 25
    await members.mqsc("RECOVER CFSTRUCT(APPL) TYPE(PURGE)")
    assert await members.group.value("SELECT depth_of('Q')") == 0
    assert await members.group.value("SELECT count(*) FROM all_messages") == 0
