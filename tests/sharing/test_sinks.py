"""Sinks of shared queues and their prepared units belong to no member (claims rule 3.11, queue-sharing rule
10.3.12).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from broker.config import Config, LimitsConfig
from broker.interface.claims.claims import Winner
from broker.mqi import MQCO, MQGMO, MQRC, MessageDescriptor
from broker.sharing.database.rows import ARRIVAL
from tests.conformance.expect import ALL, drained, fails
from tests.engine.writer import Row, Writer, rows_of
from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Queue
    from tests.sharing.database import GroupDatabase
    from tests.sharing.proxy import Proxy

pytestmark = pytest.mark.postgres

DISPLAY = "DISPLAY THREAD(*) TYPE(INDOUBT) MSGS"


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    config = Config(limits=LimitsConfig(prepared_age=3600.0, prepared_bytes=1000))
    async with Members(group, 2, config) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)\nDEFINE QLOCAL(OWN)")
        yield members


async def writer_at(members: Members, name: str, sink: str = "S", query: str | None = "query") -> Writer:
    return Writer((await members.connect(name)).port, sink, query)


async def opened(members: Members, name: str = "QM2", q_name: str = "Q") -> Queue:
    return await (await members.connect(name)).open(q_name, ALL)


async def replies(members: Members, text: str, name: str = "QM2") -> list[str]:
    async with members[name].connect("runmqsc") as connection:
        return [reply.text for reply in await connection.mqsc(text)]


async def shown(members: Members, name: str) -> list[tuple[Any, ...]]:
    async with members[name].connect("runmqsc") as connection:
        (reply,) = await connection.mqsc(DISPLAY)
    return [(each["THREAD"], each["MSGS"]) for each in reply.attributes]


async def grow_older(members: Members, seconds: float) -> None:
    """Let what is known of sinks be so much older, and a member look at it."""
    session = await members.group.session()
    await session.execute(
        f"UPDATE prepared_unit SET touched = touched - {seconds}; UPDATE sink SET decided = decided - {seconds};"
        f"UPDATE published_unit SET published = published - {seconds}"
    )
    await session.close()
    await members.member("QM2").expiry._scan()


# They outlive connections and members


async def test_what_a_member_has_staged_is_published_by_another_when_it_has_failed(members: Members) -> None:
    """Q4.2."""
    winner = await (await writer_at(members, "QM1")).stage(
        0, rows_of("AB", persistence=1) + rows_of("C", persistence=0)
    )
    await members.fail("QM1")
    assert await shown(members, "QM2") == [(f"S/0/0/{'0' * 32}", 3)]
    writer = await writer_at(members, "QM2")
    assert await writer.publish(0, winner) == (3, False)
    queue = await opened(members)
    assert await drained(queue) == [b"A", b"B", b"C"]
    await members.start("QM1")
    back = await writer_at(members, "QM1")
    assert await back.ledger() == ("query", 0)
    assert await back.publish(0, winner) == (0, True)
    assert await drained(queue) == []


async def test_a_member_that_comes_back_decides_about_what_it_has_staged(members: Members) -> None:
    writer = await writer_at(members, "QM1")
    winner, loser = await writer.stage(0, "AB"), await writer.stage(0, "X", attempt=1)
    await members.fail("QM1")
    await members.start("QM1")
    writer = await writer_at(members, "QM1")
    assert await writer.publish(0, winner) == (2, False)
    assert await drained(await opened(members)) == [b"A", b"B"]
    assert await writer.discard(loser.unit) == 0


async def test_pieces_and_partitions_come_through_any_member_and_keep_their_order(members: Members) -> None:
    one, two = await writer_at(members, "QM1"), await writer_at(members, "QM2")
    unit = one.unit(0)
    later = await two.stage(0, rows_of("EF", priority=9), partition=1)
    assert await one.piece(unit, rows_of("A", priority=1) + rows_of("B", priority=9)) is False
    with fails(MQRC.UOW_CANCELED):
        await two.piece(unit, rows_of("D"), 3)
    assert await two.piece(unit, rows_of("C", priority=9), 2, last=True) is False
    assert await one.piece(unit, rows_of("C", priority=9), 2, last=True) is False  # its answer might have been lost
    queue = await opened(members)
    await queue.put(b"BEFORE", MessageDescriptor(priority=9))
    assert await one.publish(0, Winner(unit, 3), later) == (5, False)
    arrived = await members.group.rows(f"SELECT body FROM message ORDER BY {ARRIVAL}")
    assert [row["body"] for row in arrived] == [b"BEFORE", b"A", b"B", b"C", b"E", b"F"]
    assert await drained(queue) == [b"BEFORE", b"B", b"C", b"E", b"F", b"A"]
    assert await members.group.rows("SELECT * FROM prepared_unit") == []


@pytest.mark.parametrize("lost", [True, False], ids=["the decision", "its answer"])
async def test_a_batch_is_published_once_when_the_line_breaks_at_its_decision(members: Members, lost: bool) -> None:
    writer = await writer_at(members, "QM1")
    winner = await writer.stage(0, "AB")
    _break_at_commit(members.lines["QM1"], lost=lost)
    assert await writer.publish(0, winner) == (2, False)
    assert members.lines["QM1"].to_server is None
    assert await writer.publish(0, winner) == (0, True)
    assert await drained(await opened(members)) == [b"A", b"B"]


def _break_at_commit(line: Proxy, *, lost: bool) -> None:
    """Cut the session that publishes, when its COMMIT is on its way to the database, or the answer to that."""
    publishing = committing = False

    def to_server(piece: bytes) -> bytes | None:
        nonlocal publishing, committing
        publishing = publishing or b"publish_units" in piece
        committing = publishing and b"COMMIT" in piece
        if committing and lost:
            line.to_server = None
            return None
        return piece

    def to_client(piece: bytes) -> bytes | None:
        if committing:
            line.to_server = line.to_client = None
            return None
        return piece

    line.to_server, line.to_client = to_server, None if lost else to_client


async def test_messages_that_the_database_has_lost_are_not_published_in_part(members: Members) -> None:
    writer = await writer_at(members, "QM1")
    winner = await writer.stage(0, rows_of("A", persistence=1) + rows_of("B", persistence=0))
    session = await members.group.session()
    await session.execute(
        "DELETE FROM message_nonpersistent; DELETE FROM held_nonpersistent; SELECT count_depths('{Q}')"
    )  # as a crash does
    await session.close()
    with fails(MQRC.UOW_CANCELED):
        await writer.publish(0, winner)
    assert await drained(await opened(members)) == []
    again = await writer.stage(0, "AB", attempt=1)
    assert await writer.publish(0, again) == (2, False)
    assert await drained(await opened(members)) == [b"A", b"B"]


# A sink has private queues or shared ones


async def test_a_sink_of_shared_queues_takes_no_private_one(members: Members) -> None:
    writer = await writer_at(members, "QM1")
    with fails(MQRC.OPTION_NOT_VALID_FOR_TYPE) as mixed:
        await writer.stage(0, [Row(b"A"), Row(b"B", "OWN")])
    assert "OWN is not shared, and sink S publishes to shared queues" in str(mixed.value)
    assert await members.group.rows("SELECT * FROM sink") == []
    await writer.write(0, b"A")
    for name in ("QM1", "QM2"):
        with fails(MQRC.OPTION_NOT_VALID_FOR_TYPE) as refused:
            await (await writer_at(members, name)).stage(1, [Row(b"B", "OWN")])
        assert "sink S publishes to shared queues" in str(refused.value)
    assert await drained(await opened(members)) == [b"A"]


async def test_a_sink_of_private_queues_takes_no_shared_one(members: Members) -> None:
    writer = await writer_at(members, "QM1")
    await writer.publish(0, await writer.stage(0, [Row(b"A", "OWN")]))
    with fails(MQRC.OPTION_NOT_VALID_FOR_TYPE) as refused:
        await writer.stage(1, "B")
    assert "Q is shared, and sink S publishes to private queues" in str(refused.value)
    assert await drained(await opened(members, "QM1", "OWN")) == [b"A"]


async def test_an_empty_first_batch_leaves_open_whose_queues_a_sink_has(members: Members) -> None:
    writer = await writer_at(members, "QM1")
    assert await writer.publish(0) == (0, False)
    assert await writer.stage(1, []) == Winner(writer.unit(1), 0)
    assert await members.group.rows("SELECT * FROM sink") == []
    await writer.publish(1, await writer.stage(1, [Row(b"A", "OWN")]))
    assert await writer.ledger() == ("query", 1)
    assert await drained(await opened(members, "QM1", "OWN")) == [b"A"]


async def test_units_of_both_kinds_are_discarded_together(members: Members) -> None:
    shared, own = await writer_at(members, "QM1"), await writer_at(members, "QM1", "T")
    units = [(await shared.stage(0, "A")).unit, (await own.stage(0, [Row(b"B", "OWN")])).unit]
    assert await shared.discard(*units) == 2
    assert await members.group.value("SELECT depth_of('Q')") == 0
    assert await members.group.rows("SELECT * FROM sink") == []
    assert await replies(members, "CLEAR QLOCAL(OWN)", "QM1") == ["AMQ8022I: IBM MQ queue cleared."]


async def test_without_the_database_sinks_of_private_queues_go_on(members: Members) -> None:
    writer = await writer_at(members, "QM1")
    await writer.publish(0, await writer.stage(0, [Row(b"A", "OWN")]))
    await members.lines["QM1"].cut()
    await writer.publish(1, await writer.stage(1, [Row(b"B", "OWN")]))
    with fails(MQRC.CF_NOT_AVAILABLE):
        await (await writer_at(members, "QM1", "OTHER")).stage(0, "C")
    assert await drained(await opened(members, "QM1", "OWN")) == [b"A", b"B"]
    await members.lines["QM1"].mend()


# Limits


async def test_exactly_as_many_are_staged_through_two_members_as_fit(members: Members) -> None:
    await members.mqsc("ALTER QLOCAL(Q) MAXDEPTH(10)")
    one, two = await writer_at(members, "QM1"), await writer_at(members, "QM2")
    staging = [each.stage(0, "AB", partition) for partition, each in enumerate([one, two] * 4)]
    done = await asyncio.gather(*staging, return_exceptions=True)
    assert sum(isinstance(each, Winner) for each in done) == 5
    assert await members.group.value("SELECT depth_of('Q')") == 10
    with fails(MQRC.Q_FULL) as never:
        await two.stage(0, "A", 8)
    assert "batch 0 of sink S never fits: it has 11 messages or more for Q" in str(never.value)
    with fails(MQRC.Q_FULL) as now:
        await two.stage(1, "A")
    assert "Q holds 10 messages" in str(now.value)
    assert await replies(members, "RESET SINK(S)") == [
        "EMQ0006I: EverMQ sink S reset: 10 messages removed, and any query may publish to it."
    ]


async def test_prepared_units_of_the_group_have_room_for_so_many_bytes_and_so_many_of_them(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = await writer_at(members, "QM1"), await writer_at(members, "QM2")
    winner = await one.stage(0, [b"A" * 900])
    with fails(MQRC.SYNCPOINT_LIMIT_REACHED) as bytes_refused:
        await two.stage(0, [b"B" * 101], 1)
    assert "prepared units hold 900 bytes" in str(bytes_refused.value)
    monkeypatch.setattr("broker.core.prepared.staging.UNITS_MAX", 1)
    with fails(MQRC.SYNCPOINT_LIMIT_REACHED) as units_refused:
        await two.stage(0, [b"B"], 1)
    assert "there are 1 prepared units" in str(units_refused.value)
    assert await one.piece(one.unit(1), []) is False
    await one.publish(0, winner)
    assert len(await drained(await opened(members))) == 1


async def test_units_that_nobody_comes_back_for_are_discarded_and_no_others(members: Members) -> None:
    writer = await writer_at(members, "QM1")
    await writer.stage(0, "AB")
    await writer.piece(writer.unit(0, 1), rows_of("C"))
    await grow_older(members, 3000)
    await writer.piece(writer.unit(0, 1), rows_of("D"), 1)
    await grow_older(members, 600)
    assert await shown(members, "QM2") == [(f"S/0/1/{'0' * 32}", 2)]
    assert await members.group.value("SELECT depth_of('Q')") == 2
    await grow_older(members, 3000)
    assert await members.group.rows("SELECT * FROM sink") == []


async def test_batches_under_a_key_are_known_for_30_days_and_those_without_a_ledger_for_one(members: Members) -> None:
    keyed, plain = await writer_at(members, "QM1", "K", ""), await writer_at(members, "QM1", "P", None)
    await keyed.write(0, b"A")
    winner = await plain.stage(0, "B")
    await plain.publish(0, winner)
    again = await writer_at(members, "QM2", "P", None)
    assert await again.publish(0, winner) == (0, True)
    assert await again.piece(winner.unit, rows_of("B")) is True
    await grow_older(members, 24 * 3600 + 1)
    with fails(MQRC.UOW_CANCELED):
        await again.publish(0, winner)
    assert (await keyed.write(0, b"A")).already
    await grow_older(members, 29 * 24 * 3600)
    assert await members.group.rows("SELECT * FROM sink") == []
    assert await drained(await opened(members)) == [b"A", b"B"]


# What administrators and programs are told


async def test_a_queue_is_neither_cleared_nor_moved_while_messages_are_prepared_for_it(members: Members) -> None:
    writer = await writer_at(members, "QM1")
    winners = [await writer.stage(3, "AB"), await writer.stage(4, "C")]
    await members.clock.advance(40)
    wanted = (
        "AMQ8148E: IBM MQ object in use. 2 messages are prepared for batch 3 of sink S, since 40 s and 1 for others; "
        "DISPLAY THREAD(*) TYPE(INDOUBT) lists their units, and RESOLVE INDOUBT discards one."
    )
    commands = "CLEAR QLOCAL(Q)\nDELETE QLOCAL(Q) PURGE\nMOVE QLOCAL(Q) QSGDISP(SHARED) TOQLOCAL(OWN)"
    assert await replies(members, commands, "QM1") == [wanted] * 3
    await writer.discard(*[winner.unit for winner in winners])
    assert [text[:8] for text in await replies(members, "DELETE QLOCAL(Q)")] == ["AMQ8007I"]


async def test_a_dynamic_queue_of_the_group_is_not_deleted_by_its_close_while_messages_are_prepared_for_it(
    members: Members,
) -> None:
    await members.mqsc("DEFINE QMODEL(MODEL) DEFTYPE(SHAREDYN)")
    queue = await opened(members, "QM1", "MODEL")
    writer = await writer_at(members, "QM1")
    winner = await writer.stage(1, [Row(b"A", queue.name)])
    with fails(MQRC.Q_NOT_EMPTY) as refused:
        await queue.close(MQCO.DELETE_PURGE)
    assert "1 message is prepared for batch 1 of sink S" in str(refused.value)
    await writer.discard(winner.unit)
    await queue.close(MQCO.DELETE)


async def test_all_members_see_a_published_message_by_the_same_identifier(members: Members) -> None:
    """Trap 6."""
    await (await writer_at(members, "QM1")).write(0, b"A")
    here, there = [await opened(members, name) for name in ("QM1", "QM2")]
    browsed = await here.get(options=MQGMO.BROWSE_FIRST)
    assert (await there.get()).md.msg_id == browsed.md.msg_id


async def test_messages_trigger_when_they_are_published_and_not_when_they_are_staged(members: Members) -> None:
    """K18, where the monitor is on another member."""
    await members.mqsc("DEFINE QLOCAL(INIT)\nDEFINE PROCESS(P) APPLICID('p')", "QM2")
    await members.mqsc("ALTER QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P) INITQ(INIT)")
    initiation_queue = await opened(members, "QM2", "INIT")
    writer = await writer_at(members, "QM1")
    winner = await writer.stage(0, "ABC")
    await members.clock.rest()
    assert await drained(initiation_queue) == []
    await writer.publish(0, winner)
    await members.clock.rest()
    assert len(await drained(initiation_queue)) == 3
    await drained(await opened(members))


async def test_each_published_message_starts_a_handler_once_in_the_group(members: Members) -> None:
    """K18, on the fast path."""
    await members.mqsc("DEFINE PROCESS(P) APPLICID('p') QSGDISP(GROUP)")
    await members.mqsc("ALTER QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) TRIGMPRI(3) PROCESS(P)")
    winner = await (await writer_at(members, "QM1")).stage(0, rows_of("ABC", priority=3) + rows_of("D", priority=2))
    queues = [members[name].core.objects.queues["Q"] for name in ("QM1", "QM2")]
    assert [queue.pending_starts for queue in queues] == [0, 0]
    await (await writer_at(members, "QM2")).publish(0, winner)
    await members.clock.rest()
    assert [queue.pending_starts for queue in queues] == [0, 3]
    assert await members.group.rows("SELECT DISTINCT put_by FROM message") == [{"put_by": "QM2"}]
    await drained(await opened(members))
