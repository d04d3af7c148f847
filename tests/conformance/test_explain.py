"""`connection.explain`: why a message or group is not delivered, told to any program that asks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQMF, MQPMO, MQRC, Cause, Explanation, MessageDescriptor, MQError
from tests.conformance.expect import fails, name_of

if TYPE_CHECKING:
    from broker import Connection, Queue
    from broker.mqi import Finding
    from tests.conformance.system import System

G = name_of("g")


def the(explanation: Explanation, code: Cause) -> Finding:
    (finding,) = [finding for finding in explanation.findings if finding.code == code]
    return finding


async def test_what_is_available_has_no_cause(connection: Connection, queue: Queue) -> None:
    await queue.put(b"A")
    explanation = await connection.explain("Q")
    assert (explanation.q_name, explanation.codes, explanation.causes) == ("Q", (Cause.AVAILABLE,), ())
    assert str(explanation) == "AVAILABLE: 1 message is available to a get"


async def test_what_another_program_has_not_committed_is_told_by_its_name_and_time(
    system: System, connection: Connection, queue: Queue, beside_queue: Queue
) -> None:
    put = await queue.put(b"A", options=MQPMO.SYNCPOINT)
    since = system.clock.time()
    got = await queue.put(b"B")
    await beside_queue.get(options=MQGMO.SYNCPOINT)
    await system.pass_time(5)
    explanation = await connection.explain("Q")
    assert explanation.codes == (Cause.UNCOMMITTED_PUT, Cause.UNCOMMITTED_GET)
    by_put, by_get = explanation.causes
    assert (by_put.figures["appl_name"], by_put.figures["since"]) == ("scenario", since)
    assert by_put.figures["seconds"] == 5
    assert (by_put.figures["msg_ids"], by_get.figures["msg_ids"]) == ([put.msg_id.hex()], [got.msg_id.hex()])
    assert by_get.figures["appl_name"] == "other"
    assert bool(by_get.figures["connection"]) == (system.way != "embedded")
    assert (await connection.explain("Q", msg_id=put.md.msg_id)).codes == (Cause.UNCOMMITTED_PUT,)
    await connection.commit()
    assert (await connection.explain("Q", msg_id=put.md.msg_id)).codes == (Cause.AVAILABLE,)


async def test_own_calls_before_it_have_taken_effect(connection: Connection, queue: Queue) -> None:
    await queue.put(b"A", options=MQPMO.SYNCPOINT, persistence=1)
    await connection.commit()
    assert (await connection.explain("Q")).codes == (Cause.AVAILABLE,)


async def test_a_group_that_lacks_a_message_says_which(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    for number, flags in ((1, MQMF.MSG_IN_GROUP), (3, MQMF.LAST_MSG_IN_GROUP)):
        await queue.put(b"", MessageDescriptor(group_id=G, msg_seq_number=number, msg_flags=flags))
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get(options=MQGMO.LOGICAL_ORDER | MQGMO.ALL_MSGS_AVAILABLE)
    finding = the(await connection.explain("Q", group_id=G), Cause.INCOMPLETE_GROUP)
    assert finding.figures == {"group_id": G.hex(), "available": 2, "last": 3, "missing": [[2, 2]]}
    md = MessageDescriptor(group_id=G, msg_seq_number=2, msg_flags=MQMF.MSG_IN_GROUP)
    await other_queue.put(b"", md, MQPMO.SYNCPOINT)
    finding = the(await connection.explain("Q", group_id=G), Cause.INCOMPLETE_GROUP)
    assert finding.figures["uncommitted"] == [2]


async def test_a_getter_that_waits_is_told_with_what_it_waits_for(
    system: System, connection: Connection, beside_queue: Queue
) -> None:
    waiting = asyncio.create_task(beside_queue.get(MessageDescriptor(correl_id=G), wait=60), name="getter")
    await system.waiting("Q", 1)
    finding = the(await connection.explain("Q"), Cause.GETTERS_WAITING)
    assert finding.text == f"1 get waits: other for CorrelId {G.hex()}"
    assert finding.figures["first"][0]["for"] == f"CorrelId {G.hex()}"
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_a_lock_an_expiry_and_an_inhibited_queue_are_told(
    system: System, connection: Connection, queue: Queue, beside_queue: Queue
) -> None:
    locked = await queue.put(b"A")
    await queue.put(b"B", MessageDescriptor(expiry=10))
    await beside_queue.get(options=MQGMO.BROWSE_FIRST | MQGMO.LOCK)
    await system.pass_time(2)
    await system.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
    explanation = await connection.explain("Q")
    assert explanation.codes == (Cause.GET_INHIBITED, Cause.LOCKED, Cause.EXPIRED)
    assert the(explanation, Cause.LOCKED).figures["msg_ids"] == [locked.msg_id.hex()]
    assert the(explanation, Cause.LOCKED).figures["appl_name"] == "other"


async def test_it_changes_nothing(system: System, connection: Connection, queue: Queue) -> None:
    await queue.put(b"A", MessageDescriptor(expiry=10))
    await system.pass_time(2)
    assert (await connection.explain("Q")).codes == (Cause.EXPIRED,)
    assert system.depth() == 1


async def test_an_unknown_queue_is_an_error(connection: Connection) -> None:
    with fails(MQRC.UNKNOWN_OBJECT_NAME):
        await connection.explain("NO.SUCH.QUEUE")


async def test_an_alias_is_explained_as_the_queue_that_it_leads_to(
    system: System, connection: Connection, queue: Queue
) -> None:
    await queue.put(b"A")
    await system.mqsc("DEFINE QALIAS(A) TARGET(Q) GET(DISABLED)\nDEFINE QMODEL(M)")
    explanation = await connection.explain("A")
    assert (explanation.q_name, explanation.codes) == ("Q", (Cause.GET_INHIBITED,))
    assert explanation.causes[0].figures == {"q_name": "A"}
    with pytest.raises(MQError):
        await connection.explain("M")
