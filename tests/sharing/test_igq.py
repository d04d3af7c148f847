"""Intra-group queuing between members of a group on PostgreSQL (queue-sharing 9)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.core.names.sharing_group import IGQ_BYTES_MAX, TRANSMISSION_QUEUE
from broker.mqi import (
    MQFB,
    MQGMO,
    MQMF,
    MQOO,
    MQPER,
    MQPMO,
    MQRC,
    MQRO,
    MessageDescriptor,
    MQError,
    ObjectDescriptor,
    ObjectRecord,
)
from broker.mqi.layouts.layouts import MQDLH, MQXQH
from broker.sharing.igq.delivery import DestinationPuts
from tests.conformance.expect import fails
from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection, Message
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

PERSISTENT = MessageDescriptor(persistence=MQPER.PERSISTENT)
AT_QM2 = ObjectDescriptor(object_name="Q", object_q_mgr_name="QM2")


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    """QM1 with IGQ(ENABLED), QM2 with IGQ(DISABLED); each has a queue Q of its own."""
    async with Members(group, 2) as members:
        await members.mqsc("DEFINE QLOCAL(Q)\nALTER QMGR IGQ(ENABLED)", "QM1")
        await members.mqsc("DEFINE QLOCAL(Q)", "QM2")
        yield members


@pytest.fixture
async def sender(members: Members) -> Connection:
    return await members.connect("QM1")


async def taken(members: Members, name: str, q_name: str = "Q") -> list[Message]:
    """Take from a queue of a member what has arrived there."""
    await members.clock.rest()
    found = []
    async with members[name].connect() as connection, connection.open(q_name, MQOO.INPUT_SHARED) as queue:
        try:
            while True:
                found.append(await queue.get())
        except MQError as error:
            assert error.reason == MQRC.NO_MSG_AVAILABLE
    return found


async def data_at(members: Members, name: str, q_name: str = "Q") -> list[bytes]:
    return [message.data for message in await taken(members, name, q_name)]


async def waiting(members: Members) -> int:
    """Return the number of messages on the shared transmission queue."""
    await members.clock.rest()
    return int(await members.group.value("SELECT count(*) FROM all_messages WHERE queue = $1", TRANSMISSION_QUEUE))


def igq(members: Members, name: str) -> dict[str, int | str]:
    """Return the figures of the agent of a member."""
    sharing = members[name].sharing
    assert sharing is not None
    figures: dict[str, int | str] = sharing.figures()["igq"]
    return figures


@pytest.mark.parametrize("persistence", [MQPER.NOT_PERSISTENT, MQPER.PERSISTENT])
async def test_s9_1_with_igq_enabled_a_message_arrives_without_a_channel(
    members: Members, sender: Connection, persistence: int
) -> None:
    async with sender.open(AT_QM2, MQOO.OUTPUT) as queue:
        assert (queue.resolved_q_name, queue.resolved_q_mgr_name) == ("Q", "QM2")
        await queue.put(b"." * 1024, MessageDescriptor(persistence=persistence))
    (message,) = await taken(members, "QM2")
    assert (message.data, message.md.persistence) == (b"." * 1024, persistence)
    assert (await data_at(members, "QM1"), await waiting(members)) == ([], 0)


async def test_s9_1_the_reply_needs_igq_enabled_at_the_other_end(members: Members, sender: Connection) -> None:
    await sender.put1(AT_QM2, b"request", MessageDescriptor(reply_to_q="Q"))
    (request,) = await taken(members, "QM2")
    reply_to = ObjectDescriptor(object_name=request.md.reply_to_q, object_q_mgr_name=request.md.reply_to_q_mgr)
    server = await members.connect("QM2")
    with fails(MQRC.UNKNOWN_REMOTE_Q_MGR):
        await server.put1(reply_to, b"reply")
    await members.mqsc("ALTER QMGR IGQ(ENABLED)", "QM2")
    await server.put1(reply_to, b"reply")
    assert await data_at(members, "QM1") == [b"reply"]


async def test_a_member_that_joins_later_is_reached_by_those_that_run(members: Members, sender: Connection) -> None:
    to_qm3 = ObjectDescriptor(object_name="Q", object_q_mgr_name="QM3")
    with fails(MQRC.UNKNOWN_REMOTE_Q_MGR):
        await sender.put1(to_qm3, b"nobody")
    await members.start("QM3")
    await members.mqsc("DEFINE QLOCAL(Q)", "QM3")
    await sender.put1(to_qm3, b"somebody")
    assert await data_at(members, "QM3") == [b"somebody"]


async def test_s9_2_a_byte_too_many_goes_by_the_conventional_transmission_queue(
    members: Members, sender: Connection
) -> None:
    await members.mqsc("DEFINE QLOCAL(QM2) USAGE(XMITQ)", "QM1")
    async with sender.open(AT_QM2, MQOO.OUTPUT) as queue:
        for length in (IGQ_BYTES_MAX - MQXQH.SIZE, IGQ_BYTES_MAX - MQXQH.SIZE + 1):
            await queue.put(b"." * length, PERSISTENT)
            await queue.put(b"." * length, options=MQPMO.SYNCPOINT)
        await sender.commit()
    assert [len(data) for data in await data_at(members, "QM2")] == [IGQ_BYTES_MAX - MQXQH.SIZE] * 2
    assert [len(data) for data in await data_at(members, "QM1", "QM2")] == [IGQ_BYTES_MAX + 1] * 2


async def test_s9_3_a_handle_is_dead_when_igq_is_disabled_and_leads_elsewhere_when_opened_again(
    members: Members, sender: Connection
) -> None:
    await members.mqsc("DEFINE QLOCAL(QM2) USAGE(XMITQ)\nDEFINE QLOCAL(OTHER)", "QM1")
    queue = await sender.open(AT_QM2, MQOO.OUTPUT)
    await members.mqsc("ALTER QLOCAL(OTHER) MAXDEPTH(7)", "QM1")
    await queue.put(b"by IGQ")
    await members.mqsc("ALTER QMGR IGQ(DISABLED)", "QM1")
    for _ in range(2):
        with fails(MQRC.OBJECT_CHANGED):
            await queue.put(b"nowhere")
    assert await queue.close() == MQRC.NONE
    await sender.put1(AT_QM2, b"by the channel")
    assert await data_at(members, "QM2") == [b"by IGQ"]
    (found,) = await data_at(members, "QM1", "QM2")
    assert found[MQXQH.SIZE :] == b"by the channel"


async def test_s9_3_a_handle_is_dead_when_igq_is_enabled(members: Members, sender: Connection) -> None:
    await members.mqsc("DEFINE QLOCAL(QM2) USAGE(XMITQ)\nALTER QMGR IGQ(DISABLED)", "QM1")
    queue = await sender.open(AT_QM2, MQOO.OUTPUT)
    await members.mqsc("ALTER QMGR IGQ(ENABLED)", "QM1")
    with fails(MQRC.OBJECT_CHANGED):
        await queue.put(b"nowhere")
    await sender.put1(AT_QM2, b"by IGQ")
    assert await data_at(members, "QM2") == [b"by IGQ"]


@pytest.mark.parametrize("where", ["QM1", "QM2"])
async def test_s9_3_a_handle_is_dead_when_the_transmission_queue_is_altered_on_whichever_member(
    members: Members, sender: Connection, where: str
) -> None:
    queue = await sender.open(AT_QM2, MQOO.OUTPUT)
    await members.mqsc(f"ALTER QLOCAL({TRANSMISSION_QUEUE}) QSGDISP(SHARED) MAXDEPTH(7)", where)
    with fails(MQRC.OBJECT_CHANGED):
        await queue.put(b"nowhere")
    with fails(MQRC.OBJECT_CHANGED):
        await queue.put(b"nowhere")
    await sender.put1(AT_QM2, b"opened anew")
    await members.clock.advance(60)
    assert await data_at(members, "QM2") == [b"opened anew"]


async def test_s9_4_an_inhibited_transmission_queue_is_tried_again_after_a_minute(
    members: Members, sender: Connection
) -> None:
    await members.mqsc(f"ALTER QLOCAL({TRANSMISSION_QUEUE}) QSGDISP(SHARED) GET(DISABLED)", "QM1")
    await members.clock.advance(2)
    await sender.put1(AT_QM2, b"hello", PERSISTENT)
    assert (igq(members, "QM2")["state"], await waiting(members)) == ("retrying", 1)
    await members.clock.advance(60)
    assert igq(members, "QM2")["attempts"] == 2
    await members.mqsc(f"ALTER QLOCAL({TRANSMISSION_QUEUE}) QSGDISP(SHARED) GET(ENABLED)", "QM1")
    assert await data_at(members, "QM2") == []
    await members.clock.advance(60)
    assert await data_at(members, "QM2") == [b"hello"]
    assert (igq(members, "QM2")["state"], igq(members, "QM2")["attempts"]) == ("working", 0)


async def test_s9_5_an_undeliverable_message_is_a_dead_letter_of_its_destination(
    members: Members, sender: Connection
) -> None:
    await members.mqsc("ALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)", "QM2")
    await sender.put1(ObjectDescriptor(object_name="NOSUCH", object_q_mgr_name="QM2"), b"hello", PERSISTENT)
    (letter,) = await taken(members, "QM2", "SYSTEM.DEAD.LETTER.QUEUE")
    header = MQDLH.from_bytes(letter.data)
    assert (header.reason, header.dest_q_name, header.dest_q_mgr_name) == (2085, "NOSUCH", "QM2")
    assert await waiting(members) == 0


async def test_s9_5_without_a_dead_letter_queue_a_persistent_message_waits_with_those_behind_it(
    members: Members, sender: Connection
) -> None:
    nowhere = ObjectDescriptor(object_name="NOSUCH", object_q_mgr_name="QM2")
    await sender.put1(nowhere, b"lost", MessageDescriptor(persistence=MQPER.NOT_PERSISTENT))
    await sender.put1(AT_QM2, b"next", MessageDescriptor(persistence=MQPER.NOT_PERSISTENT))
    assert await data_at(members, "QM2") == [b"next"]
    await sender.put1(nowhere, b"kept", PERSISTENT)
    await sender.put1(AT_QM2, b"behind", PERSISTENT)
    assert (await waiting(members), igq(members, "QM2")["state"]) == (2, "retrying")
    await members.mqsc("DEFINE QLOCAL(NOSUCH)", "QM2")
    await members.clock.advance(60)
    assert await data_at(members, "QM2", "NOSUCH") == [b"kept"]
    assert await data_at(members, "QM2") == [b"behind"]


async def test_s9_6_one_exception_report_travels_back_by_igq(members: Members, sender: Connection) -> None:
    await members.mqsc("ALTER QMGR IGQ(ENABLED) DEADQ(SYSTEM.DEAD.LETTER.QUEUE)", "QM2")
    md = MessageDescriptor(persistence=MQPER.PERSISTENT, report=MQRO.EXCEPTION, reply_to_q="Q")
    put = await sender.put1(ObjectDescriptor(object_name="NOSUCH", object_q_mgr_name="QM2"), b"hello", md)
    (report,) = await taken(members, "QM1")
    assert (report.md.correl_id, report.md.persistence) == (put.md.msg_id, MQPER.PERSISTENT)
    assert (report.md.feedback, report.md.put_appl_name) == (MQRC.UNKNOWN_OBJECT_NAME, "QM2")
    assert len(await taken(members, "QM2", "SYSTEM.DEAD.LETTER.QUEUE")) == 1


async def test_s9_7_a_hundred_and_twenty_persistent_messages_are_three_units_of_work(
    members: Members, sender: Connection
) -> None:
    await members.stop("QM2")
    async with sender.unit_of_work(), sender.open(AT_QM2, MQOO.OUTPUT) as queue:
        for number in range(120):
            await queue.put(b"%d" % number, PERSISTENT)
    await members.start("QM2")
    assert await data_at(members, "QM2") == [b"%d" % number for number in range(120)]
    assert (igq(members, "QM2")["delivered"], igq(members, "QM2")["commits"]) == (120, 3)


async def test_s9_8_messages_for_a_member_that_is_down_wait_for_it(members: Members, sender: Connection) -> None:
    await members.stop("QM2")
    for number in range(5):
        await sender.put1(AT_QM2, b"%d" % number)
    assert await waiting(members) == 5
    await members.start("QM2")
    assert await data_at(members, "QM2") == [b"0", b"1", b"2", b"3", b"4"]


async def test_messages_go_on_as_soon_as_the_database_is_back(
    members: Members, sender: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver = DestinationPuts.deliver

    async def cut_before(self: DestinationPuts, message: Message) -> None:
        monkeypatch.undo()
        await members.lines["QM2"].cut()
        await deliver(self, message)

    monkeypatch.setattr(DestinationPuts, "deliver", cut_before)
    await sender.put1(AT_QM2, b"hello", PERSISTENT)
    assert await waiting(members) == 1
    await members.lines["QM2"].mend()
    async with asyncio.timeout(60):
        while igq(members, "QM2")["state"] == "working":  # its tag is free when the outcome of its unit is known
            await members.clock.rest()
    assert igq(members, "QM2")["state"] == "interrupted"
    await members.clock.advance(1)
    assert await data_at(members, "QM2") == [b"hello"]


async def test_s3_3_sqqmname_says_whether_a_shared_queue_is_opened_where_it_is_named(
    members: Members, sender: Connection
) -> None:
    await members.mqsc("DEFINE QLOCAL(S) QSGDISP(SHARED)", "QM1")
    at_qm2 = ObjectDescriptor(object_name="S", object_q_mgr_name="QM2")
    await sender.put1(at_qm2, b"by IGQ")
    assert await waiting(members) == 0
    assert igq(members, "QM2")["delivered"] == 1
    await members.mqsc("ALTER QMGR SQQMNAME(IGNORE)", "QM1")
    async with sender.open(at_qm2, MQOO.OUTPUT) as queue:
        assert (queue.resolved_q_name, queue.resolved_q_mgr_name) == ("S", members.group.name)
        await queue.put(b"here")
    assert await data_at(members, "QM1", "S") == [b"by IGQ", b"here"]
    assert igq(members, "QM2")["delivered"] == 1


# What else travels with a message


async def test_a_group_arrives_as_one_whatever_the_character_set_of_its_destination(
    members: Members, sender: Connection
) -> None:
    await members.mqsc("ALTER QMGR CCSID(819)", "QM2")
    async with sender.unit_of_work(), sender.open(AT_QM2, MQOO.OUTPUT) as queue:
        for number in range(1, 4):
            flags = MQMF.LAST_MSG_IN_GROUP if number == 3 else MQMF.MSG_IN_GROUP
            await queue.put(b"%d" % number, MessageDescriptor(msg_flags=flags), MQPMO.LOGICAL_ORDER)
    await members.clock.rest()
    getter = await members.connect("QM2")
    async with getter.open("Q", MQOO.INPUT_SHARED) as queue:
        options = MQGMO.LOGICAL_ORDER | MQGMO.ALL_MSGS_AVAILABLE
        found = [await queue.get(options=options) for _ in range(3)]
    assert [message.data for message in found] == [b"1", b"2", b"3"]
    assert [message.md.msg_seq_number for message in found] == [1, 2, 3]


async def test_properties_arrive_with_their_message(members: Members, sender: Connection) -> None:
    await sender.put1(AT_QM2, b"hello", properties={"colour": "green", "size": 7})
    (message,) = await taken(members, "QM2")
    assert (message.data, dict(message.properties)) == (b"hello", {"colour": "green", "size": 7})


@pytest.mark.parametrize("persistence", [MQPER.NOT_PERSISTENT, MQPER.PERSISTENT])
async def test_confirmations_travel_back_by_igq(members: Members, sender: Connection, persistence: int) -> None:
    await members.mqsc("ALTER QMGR IGQ(ENABLED)", "QM2")
    md = MessageDescriptor(persistence=persistence, report=MQRO.COA | MQRO.COD, reply_to_q="Q")
    put = await sender.put1(AT_QM2, b"hello", md)
    assert await data_at(members, "QM2") == [b"hello"]
    reports = await taken(members, "QM1")
    assert [report.md.feedback for report in reports] == [MQFB.COA, MQFB.COD]
    assert {report.md.correl_id for report in reports} == {put.md.msg_id}


async def test_a_distribution_list_reaches_members_by_igq(members: Members, sender: Connection) -> None:
    both = ObjectDescriptor(records=[ObjectRecord("Q"), ObjectRecord("Q", "QM2")])
    put = await sender.put1(both, b"to all")
    assert [record.reason for record in put.records] == [MQRC.NONE, MQRC.NONE]
    assert (await data_at(members, "QM1"), await data_at(members, "QM2")) == ([b"to all"], [b"to all"])


async def test_a_batch_of_puts_goes_both_ways(members: Members, sender: Connection) -> None:
    await members.mqsc("DEFINE QLOCAL(QM2) USAGE(XMITQ)", "QM1")
    async with sender.open(AT_QM2, MQOO.OUTPUT) as queue:
        await queue.put_many([b"1", b"." * IGQ_BYTES_MAX, b"2"])
    assert await data_at(members, "QM2") == [b"1", b"2"]
    assert len(await data_at(members, "QM1", "QM2")) == 1


async def test_a_unit_of_work_reaches_another_member_when_it_is_committed(members: Members, sender: Connection) -> None:
    async with sender.open(AT_QM2, MQOO.OUTPUT) as queue:
        await queue.put(b"backed out", options=MQPMO.SYNCPOINT)
        await sender.backout()
        await queue.put(b"committed", options=MQPMO.SYNCPOINT)
        assert (await data_at(members, "QM2"), await waiting(members)) == ([], 1)
        await sender.commit()
    assert await data_at(members, "QM2") == [b"committed"]
