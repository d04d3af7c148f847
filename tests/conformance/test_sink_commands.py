"""What an administrator sees of prepared units and sinks, and does about them (claims rules 3.1, 3.10)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQCO, MQRC
from tests.conformance.expect import ALL, drained, fails
from tests.engine.writer import Row, Writer

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System

ATTEMPT = "0" * 32


@pytest.fixture
async def writer(system: System, connection: Connection) -> Writer:
    """A driver that writes to the sink S."""
    return Writer((await system.connect("driver")).port)


async def texts(connection: Connection, script: str) -> list[str]:
    return [reply.text for reply in await connection.mqsc(script)]


async def codes(connection: Connection, script: str) -> list[str]:
    return [reply.code for reply in await connection.mqsc(script)]


async def test_k7_and_k8_a_queue_with_prepared_messages_stays_and_the_reply_names_sink_batch_and_age(
    system: System, connection: Connection, writer: Writer
) -> None:
    winner = await writer.stage(7, ["a", "b"])
    await system.pass_time(40)
    in_use = (
        "AMQ8148E: IBM MQ object in use. 2 messages are prepared for batch 7 of sink S, since 40 s; DISPLAY THREAD(*) "
        "TYPE(INDOUBT) lists their units, and RESOLVE INDOUBT discards one."
    )
    refused = await texts(connection, "CLEAR QLOCAL(Q)\nDELETE QLOCAL(Q)\nDELETE QLOCAL(Q) PURGE")
    assert refused == [in_use] * 3
    await writer.publish(7, winner)
    assert await codes(connection, "DELETE QLOCAL(Q)\nCLEAR QLOCAL(Q)") == ["AMQ8143E", "AMQ8022I"]


@pytest.mark.parametrize("options", [MQCO.DELETE, MQCO.DELETE_PURGE])
async def test_k8_a_dynamic_queue_with_prepared_messages_is_not_deleted_by_its_close(
    system: System, connection: Connection, writer: Writer, options: MQCO
) -> None:
    await connection.mqsc("DEFINE QMODEL(MODEL) DEFTYPE(PERMDYN)")
    queue = await connection.open("MODEL", ALL)
    winner = await writer.stage(1, [Row(b"a", queue.name)])
    with fails(MQRC.Q_NOT_EMPTY) as refused:
        await queue.close(options)
    assert "prepared for batch 1 of sink S" in str(refused.value)
    await writer.discard(winner.unit)
    await queue.close(MQCO.DELETE)


async def test_prepared_units_are_listed_with_their_queues(
    system: System, connection: Connection, writer: Writer
) -> None:
    await system.mqsc("DEFINE QLOCAL(R)")
    await writer.stage(7, [Row(b"abc"), Row(b"d", "R"), Row(b"e")], partition=1)
    await writer.stage(7, ["f"])
    await system.pass_time(40)
    (reply,) = await connection.mqsc("DISPLAY THREAD(*) TYPE(INDOUBT)")
    unit = {
        "TYPE": "INDOUBT",
        "SINK": "S",
        "BATCH": 7,
        "UOWSTATE": "PREPARED",
        "AGE": 40,
        "DATABASE": "",
        "RESOLVER": "",
    }
    assert reply.attributes == (
        {"THREAD": f"S/7/0/{ATTEMPT}", **unit, "MSGS": 1, "BYTES": 1, "QUEUES": "Q 1"},
        {"THREAD": f"S/7/1/{ATTEMPT}", **unit, "MSGS": 3, "BYTES": 5, "QUEUES": "Q 2, R 1"},
    )
    status = await connection.status()
    assert status["prepared_units"][1] == {
        "name": f"S/7/1/{ATTEMPT}", "state": "PREPARED", "messages": 3, "bytes": 5, "age": 40.0,
        "queues": {"Q": 2, "R": 1},
    }  # fmt: skip
    assert [each["prepared"] for each in status["queues"] if each["name"] in ("Q", "R")] == [3, 1]
    await connection.mqsc("RESET SINK(S)")


async def test_a_unit_is_discarded_by_the_name_that_is_shown(
    connection: Connection, queue: Queue, writer: Writer
) -> None:
    name = writer.unit(7, attempt=0xAB)
    winner = await writer.stage(7, ["a", "b"], attempt=0xAB)
    (shown,) = (await connection.mqsc("DIS THREAD(S/7/*) TYPE(INDOUBT) MSGS"))[0].attributes
    committing, discarding = await connection.mqsc(
        f"RESOLVE INDOUBT({shown['THREAD']}) ACTION(COMMIT)\nRESOLVE INDOUBT({shown['THREAD']}) ACTION(BACKOUT)"
    )
    assert committing.text.startswith("AMQ8425E: Attribute value error: S/7/0/")
    assert "cannot be committed alone" in committing.text
    assert discarding.text == f"EMQ0005I: EverMQ unit S/7/0/{name.attempt.hex().upper()} resolved: 2 messages removed."
    with fails(MQRC.UOW_CANCELED):
        await writer.publish(7, winner)
    assert await drained(queue) == []
    await queue.close()
    commands = f"RESOLVE INDOUBT({shown['THREAD']}) ACTION(BACKOUT)\nRESET SINK(S)\nCLEAR QLOCAL(Q)"
    assert await codes(connection, commands) == ["AMQ8147E", "AMQ8147E", "AMQ8022I"]


async def test_a_unit_whose_batch_is_being_decided_is_left_to_that(
    system: System, connection: Connection, queue: Queue, writer: Writer
) -> None:
    winner = await writer.stage(7, ["a"])
    publishing = asyncio.create_task(writer.publish(7, winner))
    await system.until(lambda: system.manager.core.sinks.by_name["S"].deciding)
    assert await codes(connection, f"RESOLVE INDOUBT(S/7/0/{ATTEMPT}) ACTION(BACKOUT)") == ["AMQ8147E"]
    assert (await publishing).messages == 1
    assert await drained(queue) == [b"a"]


async def test_a_sink_that_is_reset_may_be_used_by_another_query(
    connection: Connection, queue: Queue, writer: Writer
) -> None:
    """K56"""
    await writer.write(3, "a")
    await writer.stage(4, ["b"])
    other = Writer(writer.port, query="other")
    with fails(MQRC.SUBSCRIPTION_IN_USE):
        await other.stage(0, ["c"])
    assert await texts(connection, "RESET SINK(S)") == [
        "EMQ0006I: EverMQ sink S reset: 1 message removed, and any query may publish to it."
    ]
    await other.write(0, "c")
    assert await drained(queue) == [b"a", b"c"]


async def test_a_sink_may_have_any_name(connection: Connection, writer: Writer) -> None:
    odd = Writer(writer.port, "orders 2026/07 (again)")
    await odd.stage(1, ["a"])
    (reply,) = await connection.mqsc("DISPLAY THREAD('orders 2026/07 (again)/*') TYPE(INDOUBT)")
    unit = reply.attributes[0]["THREAD"]
    assert await codes(connection, f"RESOLVE INDOUBT('{unit}') ACTION(BACKOUT)") == ["EMQ0005I"]
    await odd.write(1, "a")
    assert await codes(connection, "RESET SINK('orders 2026/07 (again)')") == ["EMQ0006I"]


async def test_explain_tells_of_what_is_prepared(system: System, connection: Connection, writer: Writer) -> None:
    await writer.stage(7, ["a", "b"])
    await system.pass_time(30)
    await writer.stage(7, ["c"], partition=1)
    await writer.stage(8, ["d"])
    await system.pass_time(10)
    findings = (await connection.explain("Q")).findings
    assert [each.text for each in findings if each.code == "PREPARED"] == [
        "3 messages are prepared for batch 7 of sink S, since 40 s, and not published",
        "1 message is prepared for batch 8 of sink S, since 10 s, and not published",
    ]
    found = await connection.explain("Q", correl_id=b"nobody's".ljust(24))
    assert "PREPARED" not in found.codes
    await connection.mqsc("RESET SINK(S)")
