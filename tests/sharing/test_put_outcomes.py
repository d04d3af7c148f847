"""A session is lost while a put is being written: it is made once, whatever became of it (queue-sharing 10.2.6)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg
import pytest

from broker.mqi import MQMF, MQPMO, MQRC, MessageDescriptor
from tests.conformance.expect import ALL, drained, fails, reason_of
from tests.sharing.members import Members
from tests.sharing.test_membership import _joined, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from broker import Connection, Queue
    from tests.sharing.database import GroupDatabase
    from tests.sharing.proxy import Proxy

pytestmark = pytest.mark.postgres

ROW = b"D\0\0\0"
"""How a row begins that the database answers with: after the effects of the statement, which is committed then."""


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        yield members


@pytest.fixture
async def connection(members: Members) -> Connection:
    return await members.connect("QM1")


@pytest.fixture
async def queue(connection: Connection) -> Queue:
    return await connection.open("Q", ALL)


@pytest.fixture
async def line(members: Members, queue: Queue) -> Proxy:
    """The line between the queue manager and the database, with a session on it that has put before."""
    await queue.put(b"before")
    return members.lines["QM1"]


def cuts_once(wanted: bytes) -> tuple[list[bytes], Callable[[bytes], bytes | None]]:
    """Cuts the line at the first piece that has these bytes in it; what it has cut off."""
    cut: list[bytes] = []

    def judge(piece: bytes) -> bytes | None:
        if wanted in piece and not cut:
            cut.append(piece)
            return None
        return piece

    return cut, judge


async def test_a_put_whose_answer_is_lost_is_not_made_again(line: Proxy, queue: Queue) -> None:
    cut, line.to_client = cuts_once(ROW)
    await queue.put(b"once")
    assert cut
    assert await drained(queue) == [b"before", b"once"]


async def test_a_put_that_never_arrives_is_made_again(line: Proxy, queue: Queue) -> None:
    cut, line.to_server = cuts_once(b"to be made again")
    await queue.put(b"to be made again")
    assert cut
    assert await drained(queue) == [b"before", b"to be made again"]


@pytest.mark.parametrize("answer_lost", [False, True])
async def test_a_put_in_a_unit_of_work_is_made_once(
    members: Members, line: Proxy, connection: Connection, queue: Queue, answer_lost: bool
) -> None:
    md = MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP)
    await queue.put(b"1", md, MQPMO.SYNCPOINT | MQPMO.LOGICAL_ORDER)
    if answer_lost:
        cut, line.to_client = cuts_once(ROW)
    else:
        cut, line.to_server = cuts_once(b"second of a group")
    result = await queue.put(b"second of a group", md, MQPMO.SYNCPOINT | MQPMO.LOGICAL_ORDER)
    assert (bool(cut), result.md.msg_seq_number) == (True, 2)
    md = MessageDescriptor(msg_flags=MQMF.LAST_MSG_IN_GROUP)
    assert (await queue.put(b"3", md, MQPMO.SYNCPOINT | MQPMO.LOGICAL_ORDER)).md.msg_seq_number == 3
    await connection.commit()
    assert await drained(queue) == [b"before", b"1", b"second of a group", b"3"]


async def test_nobody_asks_what_became_of_a_put_in_a_life_that_is_over(
    members: Members, line: Proxy, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.sharing.database.database.SETTLE_SECONDS", 3600.0)
    await members.mqsc("ALTER QMGR CFCONLOS(TOLERATE)")
    database = members.member("QM1").database

    def lost(piece: bytes) -> bytes | None:
        line.hold()
        return None

    line.to_client = lost
    putting = asyncio.ensure_future(queue.put(b"once"))
    while not database.figures.unknown:  # noqa: ASYNC110  # nobody is told
        await asyncio.sleep(0)
    database.over("a peer has taken over")
    with fails(MQRC.CONNECTION_BROKEN):
        async with asyncio.timeout(10):
            await putting
    line.to_client = None
    line.let_through()
    await until(lambda: _joined(members, "QM1"))


async def test_who_asks_what_became_of_a_put_waits_for_the_server_that_is_still_at_it(
    members: Members, line: Proxy, queue: Queue
) -> None:
    other = await members.group.session(application_name="in the way")
    transaction = other.transaction()
    await transaction.start()
    await other.execute("UPDATE share SET n = n WHERE queue = 'Q'")
    putting = asyncio.ensure_future(queue.put(b"once"))
    await _waiting(members, "put_alike")
    line.cut_lines()
    await _waiting(members, "settle_turn")
    await transaction.rollback()
    await other.close()
    await putting
    assert await drained(queue) == [b"before", b"once"]


async def test_a_transaction_that_comes_after_it_was_given_up_changes_nothing(members: Members, line: Proxy) -> None:
    settings = {"evermq.member": "QM1", "evermq.epoch": str(members.member("QM1").database.epoch), "evermq.lane": "7"}
    late, asks = [await members.group.session(**settings) for _ in range(2)]
    assert await asks.fetchval("SELECT settle_turn(7, '', 100)") is False
    assert await asks.fetchval("SELECT settle_turn(7, '', 100)") is False
    with pytest.raises(asyncpg.SerializationError):
        await late.execute("SELECT enter(100)")
    await late.execute("SELECT enter(102)")
    assert await asks.fetchval("SELECT settle_turn(7, '', 102)") is True
    assert await asks.fetchval("SELECT settle_turn(7, '', 102)") is True
    await late.close()
    await asks.close()


async def test_a_put_that_others_are_in_the_way_of_is_made_again_as_it_was(members: Members, queue: Queue) -> None:
    """Trap 5, for puts: the handle stands where it stood when the transaction is made again."""
    await members.group.rows("CREATE SEQUENCE hits")
    await members.group.rows("GRANT ALL ON hits TO public")
    await members.group.rows(
        "CREATE FUNCTION twice() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('hits') <= 2 THEN "
        "RAISE EXCEPTION 'not now' USING ERRCODE = '40001'; END IF; RETURN NEW; END $$"
    )
    await members.group.rows("CREATE TRIGGER twice BEFORE INSERT ON message FOR EACH ROW EXECUTE FUNCTION twice()")
    md = MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP)
    results = await asyncio.gather(
        *[queue.put(b"%d" % number, md, MQPMO.NO_SYNCPOINT | MQPMO.LOGICAL_ORDER) for number in range(3)]
    )
    assert [result.md.msg_seq_number for result in results] == [1, 2, 3]
    assert members.member("QM1").database.figures.retries == 2
    assert await drained(queue) == [b"0", b"1", b"2"]


async def test_without_a_database_puts_to_shared_queues_fail_and_others_do_not(
    members: Members, line: Proxy, connection: Connection, queue: Queue
) -> None:
    await members.mqsc("DEFINE QLOCAL(OWN)")
    own = await connection.open("OWN", ALL)
    await line.cut()
    assert await reason_of(queue.put(b"x")) == MQRC.CF_NOT_AVAILABLE
    await own.put(b"y")
    await line.mend()
    await queue.put(b"z")
    assert await drained(queue) == [b"before", b"z"]


async def _waiting(members: Members, text: str) -> None:
    """Return when a statement with this text waits for a lock."""
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND strpos(query, $1) > 0"
    while not await members.group.value(waits, text):
        pass


async def test_in_a_life_that_is_over_only_what_stands_there_is_told(members: Members, line: Proxy) -> None:
    epoch = members.member("QM1").database.epoch
    asks = await members.group.session(**{"evermq.member": "QM1", "evermq.epoch": str(epoch), "evermq.lane": "7"})
    await asks.execute("SELECT enter(2)")
    await members.group.rows("UPDATE member SET epoch = epoch + 1 WHERE name = 'QM1'")
    assert await asks.fetchval("SELECT settle_turn(7, '', 2)") is True
    with pytest.raises(asyncpg.PostgresError) as raised:
        await asks.fetchval("SELECT settle_turn(7, '', 4)")
    assert raised.value.sqlstate == "EM003"
    await members.group.rows("UPDATE member SET epoch = $1 WHERE name = 'QM1'", epoch)
    await asks.close()


ENDED = b"E\0\0\0\x2dSFATAL\0VFATAL\0C57P01\0Mit has been ended\0\0"
"""What the server says where somebody ends a session of it: then it closes the line, a moment later."""


async def test_a_session_of_which_the_server_has_said_that_it_ends_is_replaced(members: Members, queue: Queue) -> None:
    database = members.member("QM1").database
    steps = (
        lambda: queue.put(b"1"),
        lambda: queue.put(b"2", options=MQPMO.SYNCPOINT),
        lambda: queue._connection.commit(),
        lambda: drained(queue),
    )
    reported = []
    for step in steps:
        retries = database.figures.retries
        async with database._lanes.lend() as lane:
            lane.session._protocol.data_received(ENDED)
        reported.append(await step())
        assert database.figures.retries == retries + 1
    assert reported[-1] == [b"1", b"2"]


async def test_a_put_whose_session_is_cut_off_between_two_steps_is_made_again(
    members: Members, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = asyncpg.Connection._get_statement
    cut: list[int] = []

    async def cut_off(session: asyncpg.Connection, *arguments: object, **options: object) -> object:
        if not cut:
            cut.append(session.get_server_pid())
            session.terminate()
        return await prepared(session, *arguments, **options)

    monkeypatch.setattr(asyncpg.Connection, "_get_statement", cut_off)
    await queue.put(b"once")
    assert cut
    assert await drained(queue) == [b"once"]
