"""Queues of other queue managers: the ways to them, and what waits on their transmission queues (semantics 9.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.mqi import (
    MQAT,
    MQCA,
    MQENC,
    MQFMT,
    MQIA,
    MQMF,
    MQOO,
    MQPMO,
    MQQT,
    MQRC,
    MQRO,
    MQXQH,
    MessageDescriptor,
    ObjectDescriptor,
)
from tests.conformance.expect import ALL, fails, name_of, reason_of

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System

MDE_LENGTH = 72


@pytest.fixture
async def transmission(system: System, connection: Connection) -> Queue:
    """QLOCAL(X) USAGE(XMITQ), by which QREMOTE(R) and the queue manager alias QMA lead to QM2."""
    await system.mqsc("DEFINE QLOCAL(X) USAGE(XMITQ)\nDEFINE QREMOTE(QMA) RQMNAME(QM2) XMITQ(X)")
    await system.mqsc("DEFINE QREMOTE(R) RNAME(THERE) RQMNAME(QM2) XMITQ(X)")
    return await connection.open("X", ALL)


def of(name: str, q_mgr_name: str) -> ObjectDescriptor:
    return ObjectDescriptor(object_name=name, object_q_mgr_name=q_mgr_name)


async def test_a_message_for_another_queue_manager_waits_for_transmission(
    connection: Connection, transmission: Queue
) -> None:
    async with connection.open("R", MQOO.OUTPUT | MQOO.INQUIRE) as remote:
        assert (remote.name, remote.resolved_q_name, remote.resolved_q_mgr_name) == ("R", "THERE", "QM2")
        assert await remote.inquire(MQIA.Q_TYPE, MQCA.REMOTE_Q_NAME) == {
            MQIA.Q_TYPE: MQQT.REMOTE,
            MQCA.REMOTE_Q_NAME: "THERE",
        }
        sent = MessageDescriptor(
            format="FORMAT", correl_id=name_of("c"), priority=4, persistence=1, expiry=600, report=MQRO.COA | MQRO.PAN,
            reply_to_q="REPLIES", coded_char_set_id=819,
        )  # fmt: skip
        placed = (await remote.put(b"data", sent)).md
    message = await transmission.get()
    header = MQXQH.from_bytes(message.data)
    assert message.data[MQXQH.SIZE :] == b"data"
    assert (header.remote_q_name, header.remote_q_mgr_name) == ("THERE", "QM2")
    md = header.md
    assert (md.msg_id, md.correl_id, md.format, md.report) == (placed.msg_id, sent.correl_id, "FORMAT", sent.report)
    assert (md.reply_to_q, md.reply_to_q_mgr, md.coded_char_set_id) == ("REPLIES", "QM1", 819)
    assert (md.put_appl_name, md.put_date, md.put_time) == (placed.put_appl_name, placed.put_date, placed.put_time)
    outer = message.md
    assert (outer.format, outer.encoding, outer.put_appl_type) == (MQFMT.XMIT_Q_HEADER, MQENC.NATIVE, MQAT.QMGR)
    assert (outer.correl_id, outer.priority, outer.persistence) == (placed.msg_id, 4, 1)
    assert (outer.put_appl_name, outer.report) == ("QM1", MQRO.PAN)
    assert outer.msg_id != placed.msg_id
    assert 0 < outer.expiry <= 600


async def test_group_fields_travel_in_an_extension_of_the_descriptor(
    connection: Connection, transmission: Queue
) -> None:
    async with connection.open("R", MQOO.OUTPUT) as remote:
        placed = (await remote.put(b"1", MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP), MQPMO.LOGICAL_ORDER)).md
        await remote.put(b"2", MessageDescriptor(msg_flags=MQMF.LAST_MSG_IN_GROUP), MQPMO.LOGICAL_ORDER)
    for number in (1, 2):
        message = await transmission.get()
        assert MQXQH.from_bytes(message.data).md.format == MQFMT.MD_EXTENSION
        extension = message.data[MQXQH.SIZE : MQXQH.SIZE + MDE_LENGTH]
        assert (extension[:4], extension[32:56]) == (b"MDE ", placed.group_id)
        assert int.from_bytes(extension[56:60], "little") == number
        assert message.data[MQXQH.SIZE + MDE_LENGTH :] == b"%d" % number
        assert (message.md.group_id, message.md.msg_seq_number) == (bytes(24), 1)


async def test_integers_that_use_all_their_bits_travel(connection: Connection, transmission: Queue) -> None:
    """In headers they have a sign."""
    all_bits = 2**32 - 1
    flags = 2**31 | MQMF.MSG_IN_GROUP
    md = MessageDescriptor(encoding=all_bits, coded_char_set_id=all_bits, put_appl_type=all_bits, msg_flags=flags)
    async with connection.open("R", MQOO.OUTPUT | MQOO.SET_ALL_CONTEXT) as remote:
        await remote.put(b"data", md, MQPMO.LOGICAL_ORDER | MQPMO.SET_ALL_CONTEXT)
    data = (await transmission.get()).data
    assert MQXQH.from_bytes(data).md.put_appl_type == -1
    extension = data[MQXQH.SIZE : MQXQH.SIZE + MDE_LENGTH]
    assert extension[12:20] == b"\xff" * 8
    assert extension[64:68] in (flags.to_bytes(4, "little"), flags.to_bytes(4, "big"))


@pytest.mark.parametrize(
    ("name", "q_mgr_name", "destination"),
    [
        ("R", "", ("THERE", "QM2")),
        ("AR", "", ("THERE", "QM2")),
        ("ANY", "QMA", ("ANY", "QM2")),
        ("ANY", "X", ("ANY", "X")),
        ("ANY", "QM9", ("ANY", "QM9")),
    ],
)
async def test_all_ways_end_on_the_transmission_queue(
    system: System,
    connection: Connection,
    transmission: Queue,
    name: str,
    q_mgr_name: str,
    destination: tuple[str, str],
) -> None:
    await system.mqsc("DEFINE QALIAS(AR) TARGET(R)\nALTER QMGR DEFXMITQ(X)")
    async with connection.open(of(name, q_mgr_name), MQOO.OUTPUT) as remote:
        assert (remote.resolved_q_name, remote.resolved_q_mgr_name) == destination
        await remote.put(b"1")
    await connection.put1(of(name, q_mgr_name), b"2")
    for data in (b"1", b"2"):
        message = await transmission.get()
        header = MQXQH.from_bytes(message.data)
        assert (header.remote_q_name, header.remote_q_mgr_name) == destination
        assert message.data[MQXQH.SIZE :] == data


async def test_the_first_definition_gives_the_defaults_and_any_may_inhibit(
    system: System, connection: Connection, transmission: Queue
) -> None:
    await system.mqsc("ALTER QREMOTE(R) DEFPRTY(8)\nALTER QREMOTE(QMA) DEFPRTY(6)\nALTER QLOCAL(X) DEFPRTY(3)")
    for od, priority in ((of("R", ""), 8), (of("ANY", "QMA"), 6), (of("ANY", "X"), 3)):
        assert (await connection.put1(od, b"")).md.priority == priority
        assert (await transmission.get()).md.priority == priority
    for text in ("ALTER QREMOTE(R) PUT(DISABLED)", "ALTER QREMOTE(R) PUT(ENABLED)\nALTER QLOCAL(X) PUT(DISABLED)"):
        await system.mqsc(text)
        with fails(MQRC.PUT_INHIBITED):
            await connection.put1("R", b"")


@pytest.mark.parametrize("options", [MQOO.INPUT_SHARED, MQOO.BROWSE, MQOO.SET, MQOO.INQUIRE])
async def test_a_queue_elsewhere_is_opened_for_output_only(
    system: System, connection: Connection, transmission: Queue, options: MQOO
) -> None:
    await system.mqsc("DEFINE QALIAS(AR) TARGET(R)\nDEFINE QREMOTE(HERE) RQMNAME(QM1)")
    for name, q_mgr_name in (("R", ""), ("AR", ""), ("ANY", "QMA"), ("ANY", "X"), ("Q", "HERE")):
        expected = MQRC.NONE if (name, options) == ("R", MQOO.INQUIRE) else MQRC.OPTION_NOT_VALID_FOR_TYPE
        assert await reason_of(_opened(connection, of(name, q_mgr_name), options | MQOO.OUTPUT)) == expected
        assert await reason_of(_opened(connection, of(name, q_mgr_name), options)) == expected


async def _opened(connection: Connection, od: ObjectDescriptor, options: int) -> None:
    async with connection.open(od, options):
        pass


async def test_a_queue_manager_alias_may_lead_back_here(system: System, connection: Connection) -> None:
    await system.mqsc("DEFINE QREMOTE(HERE) RQMNAME(QM1) DEFPRTY(5)")
    async with connection.open(of("Q", "HERE"), MQOO.OUTPUT) as queue:
        assert (queue.resolved_q_name, queue.resolved_q_mgr_name) == ("Q", "QM1")
        await queue.put(b"A")
    async with connection.open("Q", ALL) as queue:
        message = await queue.get()
    assert (message.data, message.md.priority) == (b"A", 5)


async def test_names_without_a_way_are_refused(system: System, connection: Connection, transmission: Queue) -> None:
    await system.mqsc("DEFINE QMODEL(MOD)\nDEFINE QREMOTE(RX) RNAME(T) RQMNAME(QM2) XMITQ(NOSUCH)")
    await system.mqsc("DEFINE QREMOTE(RQ) RNAME(T) RQMNAME(QM2) XMITQ(Q)\nDEFINE QREMOTE(RA) RNAME(T) RQMNAME(QM1)")
    for name, q_mgr_name, reason in (
        ("ANY", "QM9", MQRC.UNKNOWN_REMOTE_Q_MGR),
        ("ANY", "MOD", MQRC.UNKNOWN_REMOTE_Q_MGR),
        ("ANY", "no name", MQRC.UNKNOWN_OBJECT_Q_MGR),
        ("QMA", "", MQRC.REMOTE_Q_NAME_ERROR),
        ("", "QMA", MQRC.REMOTE_Q_NAME_ERROR),
        ("RX", "", MQRC.UNKNOWN_XMIT_Q),
        ("RQ", "", MQRC.XMIT_Q_USAGE_ERROR),
        ("RA", "", MQRC.UNKNOWN_REMOTE_Q_MGR),
    ):
        with fails(reason):
            await connection.open(of(name, q_mgr_name), MQOO.OUTPUT)
        with fails(reason):
            await connection.put1(of(name, q_mgr_name), b"")


@pytest.mark.parametrize(
    ("change", "name", "q_mgr_name"),
    [
        ("ALTER QREMOTE(R) RNAME(OTHER) FORCE", "R", ""),
        ("ALTER QREMOTE(R) RQMNAME(QM3) FORCE", "R", ""),
        ("ALTER QREMOTE(R) XMITQ(' ') FORCE", "R", ""),
        ("ALTER QREMOTE(QMA) RQMNAME(QM3) FORCE", "ANY", "QMA"),
        ("ALTER QLOCAL(X) USAGE(NORMAL) FORCE", "R", ""),
        ("ALTER QMGR DEFXMITQ(' ') FORCE", "ANY", "QM9"),
    ],
)
async def test_a_change_on_the_way_makes_the_handle_unusable(
    system: System,
    connection: Connection,
    other: Connection,
    transmission: Queue,
    change: str,
    name: str,
    q_mgr_name: str,
) -> None:
    await system.mqsc("ALTER QMGR DEFXMITQ(X)")
    remote = await connection.open(of(name, q_mgr_name), MQOO.OUTPUT)
    await remote.put(b"A")
    (refused,) = await other.mqsc(change.removesuffix(" FORCE"))
    assert refused.code == "AMQ8148E"
    await system.mqsc(change)
    with fails(MQRC.OBJECT_CHANGED):
        await remote.put(b"B")
    await remote.close()
    assert system.depth("X") == 1


async def test_a_program_puts_to_a_transmission_queue_with_the_header(
    connection: Connection, transmission: Queue
) -> None:
    header = MQXQH("THERE", "QM2", MessageDescriptor(version=1)).to_bytes()
    for data in (b"", b"data", header[:-1], b"DLH " + header[4:]):
        with fails(MQRC.XQH_ERROR):
            await transmission.put(data)
    await transmission.put(header + b"data", MessageDescriptor(format=MQFMT.XMIT_Q_HEADER))
    assert (await transmission.get()).data == header + b"data"
    with fails(MQRC.XQH_ERROR):
        await connection.put1("X", b"")


async def test_a_remote_put_is_part_of_its_unit_of_work(
    system: System, connection: Connection, transmission: Queue
) -> None:
    async with connection.open("R", MQOO.OUTPUT) as remote:
        await remote.put(b"A", options=MQPMO.SYNCPOINT)
        await connection.backout()
        assert system.depth("X") == 0
        await remote.put(b"B", options=MQPMO.SYNCPOINT)
        await connection.commit()
    assert (await transmission.get()).data[MQXQH.SIZE :] == b"B"
