"""Connections: how they end, and calls that overlap on one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQMT, MQOO, MQOT, MQPMO, MQRC, MessageDescriptor, ObjectDescriptor
from tests.conformance.expect import ALL, drained, fails, reason_of

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System


async def test_a_connection_knows_its_queue_manager(system: System, connection: Connection) -> None:
    assert connection.q_mgr_name == "QM1"
    status = await connection.status()
    assert (status["name"], status["connections"]) == ("QM1", 1 + system.agents)


async def test_disconnecting_closes_everything(system: System, connection: Connection) -> None:
    await connection.open("Q", MQOO.INPUT_EXCLUSIVE)
    assert await connection.disconnect() == MQRC.NONE
    assert await connection.disconnect() == MQRC.NONE
    other = await system.connect()
    await other.open("Q", MQOO.INPUT_EXCLUSIVE)


async def test_nothing_can_be_called_on_a_connection_that_has_ended(
    system: System, connection: Connection, queue: Queue
) -> None:
    await connection.disconnect()
    ended = (MQRC.HCONN_ERROR, MQRC.CONNECTION_BROKEN)
    assert await reason_of(queue.put(b"A")) in ended
    assert await reason_of(queue.get()) in ended
    assert await reason_of(connection.commit()) in ended
    assert await reason_of(connection.open("Q", ALL)) in ended
    assert await reason_of(queue.close()) in ended


async def test_connections_of_connections_are_independent(connection: Connection, queue: Queue) -> None:
    async with await connection.connect("second") as second:
        await second.put1("Q", b"A", options=MQPMO.SYNCPOINT)
        await connection.backout()
        with fails(MQRC.NO_MSG_AVAILABLE):
            await queue.get()
    message = await queue.get()
    assert (message.data, message.md.put_appl_name) == (b"A", "second")


async def test_a_second_connection_outlives_the_first(system: System, connection: Connection) -> None:
    second = await connection.connect()
    await connection.disconnect()
    await second.put1("Q", b"A")
    await second.disconnect()
    assert system.depth() == 1


# Calls that overlap


async def test_overlapping_calls_take_effect_in_the_order_in_which_they_are_made(queue: Queue) -> None:
    _, message = await asyncio.gather(queue.put(b"A"), queue.get())
    assert message.data == b"A"
    _, _, *messages = await asyncio.gather(
        queue.put(b"B", persistence=1), queue.put(b"C", persistence=0), queue.get(), queue.get()
    )
    assert [each.data for each in messages] == [b"B", b"C"]


async def test_a_commit_covers_the_calls_made_before_it(connection: Connection, queue: Queue) -> None:
    await asyncio.gather(
        queue.put(b"A", options=MQPMO.SYNCPOINT),
        queue.put(b"B", options=MQPMO.SYNCPOINT),
        connection.commit(),
        queue.put(b"C", options=MQPMO.SYNCPOINT),
    )
    await connection.backout()
    assert await drained(queue) == [b"A", b"B"]


async def test_units_of_work_may_follow_each_other_without_waiting(connection: Connection, queue: Queue) -> None:
    calls = []
    for number in range(30):
        calls.append(queue.put(b"%02d" % number, options=MQPMO.SYNCPOINT))
        calls.append(connection.backout() if number % 3 else connection.commit())  # type: ignore[arg-type]
    await asyncio.gather(*calls)
    assert await drained(queue) == [b"%02d" % number for number in range(0, 30, 3)]


async def test_a_pipeline_of_gets_and_commits_gives_each_message_once(connection: Connection, queue: Queue) -> None:
    await asyncio.gather(*(queue.put(b"%02d" % number) for number in range(40)))
    calls = [queue.get(options=MQGMO.SYNCPOINT) for _ in range(40)]
    messages, _ = await asyncio.gather(asyncio.gather(*calls), connection.commit())
    assert [each.data for each in messages] == [b"%02d" % number for number in range(40)]
    assert await drained(queue) == []


async def test_closing_waits_its_turn_behind_the_calls_before_it(connection: Connection, queue: Queue) -> None:
    _, message, _, *later = await asyncio.gather(
        queue.put(b"A"), queue.get(), queue.close(), reason_of(queue.put(b"B")), reason_of(queue.get())
    )
    assert message.data == b"A"
    assert later == [MQRC.HOBJ_ERROR] * 2


async def test_disconnecting_waits_its_turn_too(system: System, connection: Connection, queue: Queue) -> None:
    await asyncio.gather(queue.put(b"A"), queue.put(b"B", options=MQPMO.SYNCPOINT), connection.disconnect())
    other = await system.connect()
    async with other.open("Q", ALL) as again:
        assert await drained(again) == [b"A", b"B"]


async def test_messages_of_several_programs_are_all_there(system: System, connection: Connection, queue: Queue) -> None:
    async def put_many(program: int) -> None:
        writer = await system.connect(f"program {program}")
        async with writer.open("Q", MQOO.OUTPUT) as output:
            await asyncio.gather(*(output.put(b"%d %03d" % (program, number)) for number in range(50)))

    async with asyncio.TaskGroup() as tasks:
        for program in range(4):
            tasks.create_task(put_many(program))
    found = await drained(queue)
    assert sorted(found) == [b"%d %03d" % (program, number) for program in range(4) for number in range(50)]
    for program in range(4):
        own = [data for data in found if data.startswith(b"%d " % program)]
        assert own == sorted(own)


async def test_several_programs_share_the_messages_of_a_queue(
    system: System, connection: Connection, queue: Queue
) -> None:
    await asyncio.gather(*(queue.put(b"%03d" % number) for number in range(100)))

    async def get_many() -> list[bytes]:
        reader = await system.connect()
        async with reader.open("Q", MQOO.INPUT_SHARED) as handle:
            return await drained(handle)

    shares = await asyncio.gather(*(get_many() for _ in range(4)))
    assert sorted(data for share in shares for data in share) == [b"%03d" % number for number in range(100)]


async def test_an_error_says_what_it_is_about(connection: Connection) -> None:
    with fails(MQRC.UNKNOWN_OBJECT_NAME) as caught:
        await connection.open("NOSUCH", ALL)
    assert str(caught.value) == "MQRC_UNKNOWN_OBJECT_NAME (2085): QM1 has no queue 'NOSUCH'"


async def test_a_name_in_lower_case_is_told_of_the_one_in_upper_case(system: System, connection: Connection) -> None:
    await system.mqsc("DEFINE QLOCAL(ORDERS)\nDEFINE QALIAS(A) TARGET('orders')\nDEFINE PROCESS(P)")
    there = "there is ORDERS; names are case-sensitive"
    for call in (connection.open("orders", ALL), connection.put1("orders", b""), connection.explain("orders")):
        with fails(MQRC.UNKNOWN_OBJECT_NAME) as caught:
            await call
        assert caught.value.detail == f"QM1 has no queue 'orders': {there}"
    with fails(MQRC.UNKNOWN_ALIAS_BASE_Q) as caught:
        await connection.open("A", MQOO.OUTPUT)
    assert caught.value.detail.endswith(there)
    with fails(MQRC.UNKNOWN_OBJECT_NAME) as caught:
        await connection.open(ObjectDescriptor(object_type=MQOT.PROCESS, object_name="p"), MQOO.INQUIRE)
    assert caught.value.detail == "QM1 has no process definition 'p': there is P; names are case-sensitive"


async def test_a_unit_of_work_holds_so_many_bytes(system: System, connection: Connection, queue: Queue) -> None:
    limit = system.manager.core.unit_bytes_max = 1000
    await queue.put(bytes(limit), options=MQPMO.SYNCPOINT)
    with fails(MQRC.STORAGE_NOT_AVAILABLE):
        await queue.put(b"x", options=MQPMO.SYNCPOINT)
    await queue.put(bytes(limit + 1))
    await connection.commit()
    assert [len(data) for data in await drained(queue)] == [limit, limit + 1]


@pytest.mark.parametrize("reader_first", [True, False])
async def test_a_reply_finds_its_request(system: System, connection: Connection, reader_first: bool) -> None:
    await system.mqsc("DEFINE QLOCAL(REPLIES)")
    server = await system.connect("server")
    requests = await server.open("Q", MQOO.INPUT_SHARED)
    replies = await connection.open("REPLIES", MQOO.INPUT_SHARED)

    async def serve() -> None:
        request = await requests.get(wait=float("inf"))
        md = request.md
        md.correl_id, md.msg_id = md.msg_id, bytes(24)
        await server.put1(md.reply_to_q, request.data.upper(), md)

    async def ask() -> bytes:
        asked = MessageDescriptor(msg_type=MQMT.REQUEST, reply_to_q="REPLIES")
        placed = await connection.put1("Q", b"question", asked)
        reply = await replies.get(MessageDescriptor(correl_id=placed.md.msg_id), wait=float("inf"))
        return reply.data

    async with asyncio.TaskGroup() as tasks:
        if reader_first:
            tasks.create_task(serve())
            await system.waiting("Q", 1)
            asking = tasks.create_task(ask())
        else:
            asking = tasks.create_task(ask())
            await system.waiting("REPLIES", 1)
            tasks.create_task(serve())
        assert await asking == b"QUESTION"


async def test_a_disconnection_commits_though_other_calls_fail_with_it(system: System, queue: Queue) -> None:
    program = await system.connect("program")
    handle = await program.open("Q", ALL)
    other_handle = await program.open("Q", ALL)
    await handle.put(b"A", options=MQPMO.SYNCPOINT)
    waiting = asyncio.ensure_future(other_handle.get(wait=float("inf")))
    await system.waiting("Q", 1)
    assert await program.disconnect() == MQRC.NONE
    assert await reason_of(waiting) in (MQRC.HCONN_ERROR, MQRC.CONNECTION_BROKEN)
    assert await drained(queue) == [b"A"]
