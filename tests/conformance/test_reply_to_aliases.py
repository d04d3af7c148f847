"""Reply-to queue aliases: a ReplyToQ that names a local definition of a remote queue (semantics 1.3)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQMF, MQMT, MQOO, MQPMO, MQRO, MessageDescriptor, ObjectDescriptor, ObjectRecord
from broker.mqi.layouts.layouts import MQXQH
from tests.conformance.expect import ALL

if TYPE_CHECKING:
    from broker import Connection, Message, PutResult, Queue
    from tests.conformance.system import System

REQUEST = MessageDescriptor(msg_type=MQMT.REQUEST, reply_to_q="ANSWERS")


@pytest.fixture
async def queue(system: System, connection: Connection) -> Queue:
    await system.mqsc("DEFINE QLOCAL(QM2) USAGE(XMITQ)\nDEFINE QREMOTE(ANSWERS) RNAME(REPLY.Q) RQMNAME(QM2)")
    return await connection.open("Q", ALL)


def reply_to(result: PutResult | Message) -> tuple[str, str]:
    return result.md.reply_to_q, result.md.reply_to_q_mgr


async def test_both_names_are_those_of_the_definition(queue: Queue) -> None:
    result = await queue.put(b"A", REQUEST)
    assert reply_to(result) == reply_to(await queue.get()) == ("REPLY.Q", "QM2")
    assert (REQUEST.reply_to_q, REQUEST.reply_to_q_mgr) == ("ANSWERS", "")


async def test_put1_and_batches_resolve_it_too(connection: Connection, queue: Queue) -> None:
    assert reply_to(await connection.put1("Q", b"A", REQUEST)) == ("REPLY.Q", "QM2")
    results = await queue.put_many([b"B", b"C", b"D"], REQUEST)
    assert [reply_to(each) for each in results] == [("REPLY.Q", "QM2")] * 3
    assert [reply_to(await queue.get()) for _ in range(4)] == [("REPLY.Q", "QM2")] * 4


@pytest.mark.parametrize(
    ("definition", "given", "expected"),
    [
        ("QREMOTE(A) RNAME(R) RQMNAME(QM2)", ("A", "QM1"), ("A", "QM1")),  # ReplyToQMgr is not blank
        ("QREMOTE(A) RNAME(R) RQMNAME(QM2)", ("A", "QM9"), ("A", "QM9")),
        ("QREMOTE(A) RNAME(R) RQMNAME(QM2)", ("A ", " " * 48), ("R", "QM2")),
        ("QREMOTE(A) RNAME(R) RQMNAME(QM2)", ("B", ""), ("B", "QM1")),  # no such definition
        ("QREMOTE(A) RNAME(R)", ("A", ""), ("R", "QM1")),
        ("QREMOTE(A) RQMNAME(QM2)", ("A", ""), ("A", "QM1")),  # a queue manager alias
        ("QREMOTE(A)", ("A", ""), ("A", "QM1")),
        ("QREMOTE(A) RNAME(ANSWERS) RQMNAME(QM1)", ("A", ""), ("ANSWERS", "QM1")),  # once, and no further
        ("QALIAS(A) TARGET(ANSWERS)", ("A", ""), ("A", "QM1")),
        ("QLOCAL(A)", ("A", ""), ("A", "QM1")),
        ("QREMOTE(A) RNAME(R) RQMNAME(QM2)", ("", ""), ("", "")),
    ],
)
async def test_what_is_an_alias_and_what_is_not(
    system: System, queue: Queue, definition: str, given: tuple[str, str], expected: tuple[str, str]
) -> None:
    await system.mqsc(f"DEFINE {definition}")
    md = MessageDescriptor(reply_to_q=given[0], reply_to_q_mgr=given[1])
    assert reply_to(await queue.put(b"A", md)) == reply_to(await queue.get()) == expected


async def test_a_put_like_the_last_follows_the_definition(system: System, queue: Queue) -> None:
    """The queue manager knows a put again that repeats the last one; a change of definitions ends that."""
    for change, expected in (
        ("ALTER QREMOTE(ANSWERS) RNAME(OTHER.Q)", ("OTHER.Q", "QM2")),
        ("DELETE QREMOTE(ANSWERS)", ("ANSWERS", "QM1")),
        ("DEFINE QREMOTE(ANSWERS) RNAME(THIRD.Q) RQMNAME(QM3)", ("THIRD.Q", "QM3")),
    ):
        for _ in range(3):
            await queue.put(b"A", REQUEST)
        await system.mqsc(change)
        for _ in range(3):
            assert reply_to(await queue.put(b"B", REQUEST)) == expected
    got = [reply_to(await queue.get()) for _ in range(18)]
    resolved = [("REPLY.Q", "QM2"), ("OTHER.Q", "QM2"), ("ANSWERS", "QM1"), ("THIRD.Q", "QM3")]
    assert got == [each for before, after in pairwise(resolved) for each in [before] * 3 + [after] * 3]


async def test_reports_go_where_the_alias_leads(connection: Connection, queue: Queue) -> None:
    """A confirmation of arrival waits on the transmission queue, for the queue that the alias names."""
    await queue.put(b"A", MessageDescriptor(report=MQRO.COA, reply_to_q="ANSWERS"))
    async with connection.open("QM2", MQOO.INPUT_SHARED) as transmission:
        header = MQXQH.from_bytes((await transmission.get()).data)
    assert (header.remote_q_name, header.remote_q_mgr_name, header.md.msg_type) == ("REPLY.Q", "QM2", MQMT.REPORT)


async def test_a_message_for_another_queue_manager_carries_the_resolved_names(
    connection: Connection, queue: Queue
) -> None:
    await connection.put1(ObjectDescriptor(object_name="THERE", object_q_mgr_name="QM2"), b"A", REQUEST)
    async with connection.open("QM2", MQOO.INPUT_SHARED) as transmission:
        header = MQXQH.from_bytes((await transmission.get()).data)
    assert (header.md.reply_to_q, header.md.reply_to_q_mgr) == ("REPLY.Q", "QM2")


async def test_each_destination_of_a_distribution_list_gets_the_resolved_names(
    system: System, connection: Connection, queue: Queue
) -> None:
    await system.mqsc("DEFINE QLOCAL(P)")
    od = ObjectDescriptor(records=[ObjectRecord("Q"), ObjectRecord("P")])
    async with connection.open(od, MQOO.OUTPUT) as queues:
        assert reply_to(await queues.put(b"A", REQUEST)) == ("REPLY.Q", "QM2")
    async with connection.open("P", ALL) as other:
        assert [reply_to(await each.get()) for each in (queue, other)] == [("REPLY.Q", "QM2")] * 2


async def test_every_segment_of_a_message_and_one_under_syncpoint(
    system: System, connection: Connection, queue: Queue
) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXMSGL(32)")
    md = MessageDescriptor(reply_to_q="ANSWERS", msg_flags=MQMF.SEGMENTATION_ALLOWED)
    await queue.put(bytes(70), md, MQPMO.SYNCPOINT)
    await connection.commit()
    assert [reply_to(await queue.get(options=MQGMO.NO_WAIT)) for _ in range(3)] == [("REPLY.Q", "QM2")] * 3
