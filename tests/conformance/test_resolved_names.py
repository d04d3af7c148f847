"""ResolvedQName and ResolvedQMgrName of puts (MQPMO) and gets (MQGMO)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.mqi import MQGMO, MQOO, MQPMO, MQRC, MessageDescriptor, ObjectDescriptor, ObjectRecord
from tests.conformance.expect import ALL, fails

if TYPE_CHECKING:
    from broker import Connection, Message, PutResult, Queue
    from tests.conformance.system import System

OBJECTS = """
DEFINE QLOCAL(XMIT) USAGE(XMITQ)
DEFINE QALIAS(A) TARGET(Q)
DEFINE QREMOTE(R) RNAME(FAR) RQMNAME(QM2) XMITQ(XMIT)
DEFINE QMODEL(M) DEFTYPE(PERMDYN)
"""
VOLATILE = MessageDescriptor(persistence=0)


def resolved(result: PutResult | Message | Queue) -> tuple[str, str]:
    return result.resolved_q_name, result.resolved_q_mgr_name


@pytest.mark.parametrize(
    ("name", "names"),
    [("Q", ("Q", "")), ("A", ("Q", "")), ("R", ("FAR", "QM2"))],
    ids=["local", "alias", "remote"],
)
async def test_a_put_tells_where_its_message_is_bound(
    system: System, connection: Connection, name: str, names: tuple[str, str]
) -> None:
    await system.mqsc(OBJECTS)
    queue = await connection.open(name, MQOO.OUTPUT)
    results: list[PutResult | Queue] = [
        await queue.put(b""),
        *await queue.put_many([b"", b""]),
        await queue.put(b"", VOLATILE, MQPMO.ASYNC_RESPONSE),
        *await queue.put_many([b""], VOLATILE, MQPMO.ASYNC_RESPONSE),
        await connection.put1(name, b""),
        queue,
    ]
    q_name, q_mgr_name = names
    assert [resolved(result) for result in results] == [(q_name, q_mgr_name or system.q_owner)] * 7


async def test_a_message_tells_what_queue_it_was_got_from(
    system: System, connection: Connection, other_queue: Queue
) -> None:
    await system.mqsc(OBJECTS)
    await other_queue.put_many([b"long"] * 10)
    queue = await connection.open("A", MQOO.INPUT_SHARED | MQOO.BROWSE)
    with fails(MQRC.TRUNCATED_MSG_FAILED) as truncated:
        await queue.get(max_length=1)
    partial: Any = truncated.value.message
    messages = [
        await queue.get(), *await queue.get_many(2), await queue.get(options=MQGMO.BROWSE_FIRST),
        await anext(aiter(queue)), partial,
    ]  # fmt: skip
    async with connection.unit_of_work():
        async for message in queue:
            messages.append(message)
            if len(messages) == 9:
                break
    assert [resolved(message) for message in messages] == [("Q", system.q_owner)] * 9


async def test_a_dynamic_queue_is_resolved_to_itself(system: System, connection: Connection) -> None:
    await system.mqsc(OBJECTS)
    queue = await connection.open(ObjectDescriptor(object_name="M", dynamic_q_name="DYN.*"), ALL)
    await queue.put(b"")
    assert resolved(await queue.get()) == (queue.name, "QM1")


async def test_a_distribution_list_resolves_to_nothing(connection: Connection, queue: Queue) -> None:
    records = ObjectDescriptor(records=(ObjectRecord("Q"),))
    destinations = await connection.open(records, MQOO.OUTPUT)
    assert resolved(await destinations.put(b"")) == ("", "")
    assert resolved(await connection.put1(records, b"")) == ("", "")


async def test_an_asynchronous_mqput1_does_not_wait_to_know(connection: Connection, queue: Queue) -> None:
    assert resolved(await connection.put1("Q", b"", VOLATILE, MQPMO.ASYNC_RESPONSE)) == ("", "")
    await connection.stat()
