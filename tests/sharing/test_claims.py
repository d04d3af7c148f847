"""Consumers of shared queues belong to no member (queue-sharing rule 10.3.9), and compete as any do (claims 2)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.interface.claims.claims import BrowseSelection
from broker.interface.port import answer
from broker.mqi import MQCO, MQPMO, MQRC, MessageDescriptor
from tests.conformance.expect import ALL, drained, fails
from tests.engine.reader import Reader, bodies_of
from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Queue
    from broker.interface.port import Port
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

PERSISTENT = MessageDescriptor(persistence=1)


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group, 2) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        yield members


async def opened(members: Members, name: str) -> Queue:
    return await (await members.connect(name)).open("Q", ALL)


async def reader_at(members: Members, name: str, consumer: str = "ARCHIVE") -> Reader:
    return Reader((await members.connect(name)).port, consumer)


async def moved(reader: Reader, members: Members, name: str) -> Reader:
    """The same reader, which goes on through another member."""
    return reader.on((await members.connect(name)).port)


async def put(members: Members, *bodies: bytes, name: str = "QM1") -> None:
    queue = await opened(members, name)
    for body in bodies:
        await queue.put(body, PERSISTENT)


async def next_range(port: Port, after: int) -> tuple[list[bytes], int]:
    """Return what a browsing stream reads that has come to `after`, and to where it comes by that."""
    (found,) = await answer(port.queue_ranges(["Q"]))
    return bodies_of(await answer(port.browse_range("Q", after, found.last, BrowseSelection()))), found.last


async def test_what_one_member_has_claimed_is_read_and_acknowledged_at_another(members: Members) -> None:
    await put(members, b"1", b"2", b"3")
    first = await reader_at(members, "QM1")
    await first.register()
    assert await first.claim(2) == 2
    second = await moved(first, members, "QM2")
    await second.pin()
    assert await second.read() == [(1, b"1"), (2, b"2")]
    await second.acknowledge()
    assert await members.group.value("SELECT depth_of('Q')") == 1
    third = await moved(second, members, "QM1")
    assert await third.batch() == [b"3"]


@pytest.mark.parametrize("ends", ["fail", "stop"])
async def test_claims_stay_when_the_member_that_made_them_is_gone(members: Members, ends: str) -> None:
    await put(members, b"1", b"2")
    reader = await reader_at(members, "QM1")
    await reader.register()
    await reader.claim(1)
    await reader.pin()
    await getattr(members, ends)("QM1")
    if ends == "fail":
        assert await members.group.value("SELECT state FROM member WHERE name = 'QM1'") == "INACTIVE"
    assert await drained(await opened(members, "QM2")) == [b"2"]
    other = await moved(reader, members, "QM2")
    assert await other.read() == [(1, b"1")]
    await other.acknowledge()
    await members.clock.rest()  # its row goes after the answer
    assert await members.group.value("SELECT count(*) FROM all_messages") == 0


async def test_two_members_claim_at_once_and_each_message_goes_to_one_without_a_hole(members: Members) -> None:
    for name in ("QM1", "QM2"):
        connection = await members.connect(name)
        queue = await connection.open("Q", ALL)
        async with connection.unit_of_work():
            await queue.put_many([b"%s %d" % (name.encode(), number) for number in range(1500)], PERSISTENT)
    readers = [await reader_at(members, "QM1", "A"), await reader_at(members, "QM2", "B")]
    found: list[list[tuple[int, bytes]]] = [[], []]

    async def read_all(at: int) -> None:
        reader = readers[at]
        await reader.register()
        while await reader.claim(400):
            await reader.pin()
            found[at] += await reader.read()
            await reader.acknowledge()

    await asyncio.gather(read_all(0), read_all(1))
    for each in found:
        assert [sequence for sequence, _ in each] == list(range(1, len(each) + 1))
    bodies = [body for each in found for _, body in each]
    assert len(bodies) == len(set(bodies)) == 3000
    assert await members.group.value("SELECT depth_of('Q')") == 0


async def test_a_range_by_number_never_passes_a_put_that_was_on_its_way(members: Members) -> None:
    """Its number is drawn in a transaction that is not over: whoever asks for the range waits for that."""
    await put(members, b"1")
    session = await members.group.session()
    try:
        under_way = session.transaction()
        await under_way.start()
        await session.execute(  # as a put does: the definition is held, and a number drawn
            "SELECT 1 FROM object WHERE disposition = 'SHARED' AND space = 'QUEUE' AND name = 'Q' FOR KEY SHARE"
        )
        place = await session.fetchval("SELECT (5::bigint << 56) | nextval('arrival')")
        await put(members, b"3", name="QM2")
        port = (await members.connect("QM2")).port
        asking = asyncio.ensure_future(next_range(port, 0))
        while not asking.done() and not await members.group.value(  # noqa: ASYNC110  # nobody tells
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN "
            "(SELECT pid FROM pg_stat_activity WHERE starts_with(application_name, $1))",
            f"{members.group.name}/",
        ):
            await asyncio.sleep(0)
        await session.execute(
            "INSERT INTO message (queue, place, persistent, state, msg_id, descriptor, length, body, put_by) "
            "SELECT queue, $1, persistent, 1, msg_id, descriptor, 1, '2', put_by FROM message WHERE body = '1'",
            place,
        )
        await session.execute("INSERT INTO share VALUES ('Q', 'QM1', 50, 1)")
        await under_way.commit()
        bodies, last = await asking
    finally:
        await session.close()
    rest, _ = await next_range(port, last)
    assert sorted([*bodies, *rest]) == [b"1", b"2", b"3"]


async def test_a_range_ends_before_what_is_uncommitted(members: Members) -> None:
    connection = await members.connect("QM1")
    queue = await connection.open("Q", ALL)
    await queue.put(b"1", PERSISTENT)
    await queue.put(b"2", PERSISTENT, MQPMO.SYNCPOINT)
    await put(members, b"3", name="QM2")
    port = (await members.connect("QM2")).port
    before, last = await next_range(port, 0)
    assert before == [b"1"]
    await connection.commit()
    after, _ = await next_range(port, last)
    assert after == [b"2", b"3"]


async def test_any_member_shows_the_consumers_of_the_group_and_resolves_them(members: Members) -> None:
    await put(members, b"1", b"2", b"3")
    reader = await reader_at(members, "QM1")
    await reader.register()
    await reader.claim(2)
    other = await members.connect("QM2")
    (shown,) = (await other.mqsc("DISPLAY QSTATUS(Q) TYPE(CLAIM) CLAIMS LAG"))[0].attributes
    assert (shown["CLAIMS"], shown["LAG"]) == (2, 1)
    (reply,) = await other.mqsc("RESOLVE CONSUMER(ARCHIVE) ACTION(BACKOUT)")
    assert (reply.ok, "2 messages back" in reply.text) == (True, True)
    with fails(MQRC.OBJECT_CHANGED):
        await reader.claim()
    assert await drained(await opened(members, "QM2")) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("options", [MQCO.DELETE, MQCO.DELETE_PURGE])
async def test_a_shared_queue_with_claims_stays_and_the_error_names_who_has_most(
    members: Members, options: MQCO
) -> None:
    await members.mqsc("DEFINE QMODEL(MODEL) DEFTYPE(SHAREDYN) DEFSOPT(SHARED) SHARE")
    connection = await members.connect("QM1")
    queue = await connection.open("MODEL", ALL)
    for body in (b"1", b"2", b"3"):
        await queue.put(body, PERSISTENT)
    readers = [Reader((await members.connect("QM1")).port, name, queue.name) for name in ("FEW", "MORE")]
    for reader, count in zip(readers, (1, 2), strict=True):
        await reader.register()
        await reader.claim(count)
    held = "2 messages are claimed by consumer MORE and 1 by others; RESOLVE CONSUMER(MORE) ends that"
    with fails(MQRC.Q_NOT_EMPTY) as refused:
        await queue.close(options)
    assert held in str(refused.value)
    replies = await (await members.connect("QM2")).mqsc(
        f"DELETE QLOCAL({queue.name}) PURGE\nCLEAR QLOCAL({queue.name})"
    )
    assert [reply.code for reply in replies] == ["AMQ8148E"] * 2
    for reader in readers:
        await reader.release()
    await queue.close(MQCO.DELETE_PURGE)


async def test_a_move_leaves_no_claims_behind(members: Members) -> None:
    await members.mqsc("DEFINE QLOCAL(P) QSGDISP(QMGR)", "QM2")
    other = await members.connect("QM2")
    for body in (b"1", b"2"):
        await other.put1("Q", body, PERSISTENT)
    reader = await reader_at(members, "QM1")
    await reader.register()
    await reader.claim(1)
    move = "MOVE QLOCAL(Q) QSGDISP(SHARED) TOQLOCAL(P)"
    (refused,) = await other.mqsc(move)
    assert "1 message is claimed by consumer ARCHIVE" in refused.text
    await reader.release()
    assert [reply.code for reply in await other.mqsc(move)] == ["EMQ0017I"]
