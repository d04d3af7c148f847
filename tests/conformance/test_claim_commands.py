"""What an administrator sees of claims, and does about them (claims rules 2.4, 2.9 to 2.11)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from broker.mqi import MQCO, MQOO, MQRC, MessageDescriptor
from tests.conformance.expect import ALL, drained, fails
from tests.engine.reader import Reader
from tests.engine.writer import Writer

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System


@pytest.fixture
async def reader(system: System, queue: Queue) -> Reader:
    """A reader of the consumer ARCHIVE of QLOCAL(Q), registered."""
    reader = Reader((await system.connect("archiver")).port)
    await reader.register()
    return reader


async def put(queue: Queue, *bodies: bytes, **fields: Any) -> None:
    for body in bodies:
        await queue.put(body, MessageDescriptor(**fields))


async def texts(connection: Connection, script: str) -> list[str]:
    return [reply.text for reply in await connection.mqsc(script)]


async def codes(connection: Connection, script: str) -> list[str]:
    return [reply.code for reply in await connection.mqsc(script)]


async def shown(connection: Connection, q_name: str = "Q") -> list[dict[str, int | str | bool]]:
    (reply,) = await connection.mqsc(f"DISPLAY QSTATUS({q_name}) TYPE(CLAIM)")
    return list(reply.attributes)


# What is refused


async def test_k7_and_k8_a_queue_with_claims_stays_and_the_reply_names_the_consumer(
    system: System, connection: Connection, queue: Queue, reader: Reader
) -> None:
    await put(queue, b"A", b"B", b"C")
    await reader.claim(2)
    await queue.close()
    in_use = (
        "AMQ8148E: IBM MQ object in use. 2 messages are claimed by consumer ARCHIVE; RESOLVE CONSUMER(ARCHIVE) ends "
        "that."
    )
    refused = await texts(connection, "CLEAR QLOCAL(Q)\nDELETE QLOCAL(Q)\nDELETE QLOCAL(Q) PURGE")
    assert refused == [in_use] * 3
    assert system.depth() == 3
    await reader.pin()
    await reader.acknowledge()
    assert await codes(connection, "CLEAR QLOCAL(Q)\nDELETE QLOCAL(Q)") == ["AMQ8022I", "AMQ8007I"]


@pytest.mark.parametrize("options", [MQCO.DELETE, MQCO.DELETE_PURGE])
async def test_k8_a_dynamic_queue_with_claims_is_not_deleted_by_its_close(
    connection: Connection, options: MQCO
) -> None:
    await connection.mqsc("DEFINE QMODEL(MODEL) DEFTYPE(PERMDYN) DEFSOPT(SHARED) SHARE")
    queue = await connection.open("MODEL", ALL)
    await put(queue, b"A")
    reader = Reader(connection.port, "ARCHIVE", queue.name)
    await reader.register()
    await reader.claim()
    with fails(MQRC.Q_NOT_EMPTY) as refused:
        await queue.close(options)
    assert "1 message is claimed by consumer ARCHIVE" in str(refused.value)
    await reader.release()
    await queue.close(MQCO.DELETE_PURGE)
    with fails(MQRC.UNKNOWN_OBJECT_NAME):
        await connection.open(queue.name, MQOO.OUTPUT)


async def test_k10_altering_and_replacing_a_queue_leaves_its_claims(
    system: System, connection: Connection, queue: Queue, reader: Reader
) -> None:
    await put(queue, b"A", b"B")
    await reader.batch(1)
    assert await codes(connection, "ALTER QL(Q) MAXDEPTH(1) MSGDLVSQ(FIFO) DEFPRTY(9)") == ["AMQ8008I"]
    assert [reply.code for reply in await system.mqsc("DEFINE QLOCAL(Q) REPLACE")] == ["AMQ8006I"]
    assert [each["CLAIMS"] for each in await shown(connection)] == [1]
    assert await codes(connection, "RESOLVE CONSUMER(ARCHIVE) ACTION(BACKOUT) PINNED(YES)") == ["EMQ0004I"]
    assert await drained(queue) == [b"A", b"B"]


# What is shown


async def test_k48_lag_claims_and_their_ages_are_exact(
    system: System, connection: Connection, queue: Queue, reader: Reader
) -> None:
    nothing = {
        "QUEUE": "Q", "TYPE": "CLAIM", "CONSUMER": "ARCHIVE", "GENERATION": 1, "CLAIMS": 0, "PINNED": 0, "CLMBYTES": 0,
        "CLMAGE": 0, "LAG": 0, "LAGBYTES": 0, "LAGAGE": 0,
    }  # fmt: skip
    assert await shown(connection) == [nothing]
    await put(queue, b"12345", priority=0)
    await system.pass_time(5)
    await put(queue, b"123", priority=9)
    await put(queue, b"1", priority=0, expiry=100)
    await system.pass_time(2)
    assert await shown(connection) == [nothing | {"LAG": 3, "LAGBYTES": 9, "LAGAGE": 7}]
    await reader.claim(1)  # of the highest priority
    await system.pass_time(4)
    assert await shown(connection) == [
        nothing | {"CLAIMS": 1, "CLMBYTES": 3, "CLMAGE": 4, "LAG": 2, "LAGBYTES": 6, "LAGAGE": 11}
    ]
    await reader.pin()
    assert (await shown(connection))[0]["PINNED"] == 1
    await system.pass_time(60)  # the last one is expired, and has been discarded
    assert await shown(connection) == [
        nothing | {"CLAIMS": 1, "PINNED": 1, "CLMBYTES": 3, "CLMAGE": 64, "LAG": 1, "LAGBYTES": 5, "LAGAGE": 71}
    ]
    await reader.acknowledge()
    assert await shown(connection) == [nothing | {"LAG": 1, "LAGBYTES": 5, "LAGAGE": 71}]
    await reader.claim()
    assert await shown(connection) == [nothing | {"CLAIMS": 1, "CLMBYTES": 5}]


async def test_what_is_prepared_or_claimed_by_another_is_no_lag(
    system: System, connection: Connection, queue: Queue, reader: Reader
) -> None:
    await put(queue, b"ab", b"cd", b"ef")
    writer = Writer((await system.connect()).port)
    winner = await writer.stage(1, ["long enough to be seen"])
    rival = Reader((await system.connect()).port, "RIVAL")
    await rival.register()
    await rival.claim(1)
    await reader.claim(1)
    figures = [(each["CONSUMER"], each["CLMBYTES"], each["LAG"], each["LAGBYTES"]) for each in await shown(connection)]
    assert figures == [("ARCHIVE", 2, 1, 2), ("RIVAL", 2, 1, 2)]
    refused = await texts(connection, "CLEAR QLOCAL(Q)")
    assert "1 message is claimed by consumer RIVAL and 1 by others; " in refused[0]
    await writer.discard(winner.unit)


async def test_claims_of_several_queues_are_shown_queue_by_queue(
    system: System, connection: Connection, queue: Queue, reader: Reader
) -> None:
    await system.mqsc("DEFINE QLOCAL(R.1)\nDEFINE QLOCAL(R.2)")
    wide = Reader((await system.connect()).port, "WIDE", "Q", "R.*")
    await wide.register()
    for q_name, body in (("R.1", b"ab"), ("Q", b"c"), ("R.1", b"de"), ("R.2", b"f")):
        await connection.put1(q_name, body)
    await wide.claim(3)
    await wide.pin(0, 2)
    picked = ("QUEUE", "CONSUMER", "CLAIMS", "PINNED", "CLMBYTES", "LAG")
    found = [tuple(each[name] for name in picked) for each in await shown(connection, "*")]
    assert found == [
        ("Q", "ARCHIVE", 0, 0, 0, 0),
        ("Q", "WIDE", 1, 1, 1, 0),
        ("R.1", "WIDE", 1, 1, 2, 1),
        ("R.2", "WIDE", 1, 0, 1, 0),
    ]


async def test_explain_tells_who_has_claimed_and_what_may_have_been_read(
    system: System, connection: Connection, queue: Queue, reader: Reader
) -> None:
    await put(queue, *[b"x"] * 4, correl_id=b"c".ljust(24))
    await put(queue, *[b"y"] * 2)
    await reader.claim(3)
    await reader.pin(0, 2)
    await system.pass_time(40)
    (claimed,) = [each for each in (await connection.explain("Q")).findings if each.code == "CLAIMED"]
    assert claimed.text == "3 messages are claimed by ARCHIVE, generation 1, since 40 s, 1 of them not pinned"
    assert (claimed.figures["messages"], claimed.figures["pinned"], claimed.figures["seconds"]) == (3, 2, 40.0)
    first = await queue.get(options=0)
    assert "CLAIMED" not in (await connection.explain("Q", msg_id=first.md.msg_id)).codes
    (claimed,) = (await connection.explain("Q", correl_id=b"c".ljust(24))).causes
    assert claimed.figures["messages"] == 3


async def test_explain_tells_of_groups_that_are_passed_over(
    system: System, connection: Connection, queue: Queue, reader: Reader
) -> None:
    """K41, K43: a member behind the last, and a group that is larger than a consumer may claim."""
    limits = system.manager.config.limits
    object.__setattr__(limits, "claim_bytes", 10)
    for id, bodies, after in ((b"large", [b"123456"] * 2, 0), (b"late", [b"1", b"2"], 1)):
        for number, body in enumerate(bodies, 1):
            last = number == len(bodies)
            await put(queue, body, group_id=id.ljust(24), msg_seq_number=number, msg_flags=24 if last else 8)
        for number in range(after):
            await put(queue, b"3", group_id=id.ljust(24), msg_seq_number=len(bodies) + 1 + number, msg_flags=8)
    reported = {each.code: each.text for each in (await connection.explain("Q")).findings}
    assert reported["GROUP_TOO_LARGE"] == (
        f"group {b'large'.ljust(24).hex()} has 12 bytes, and claim_bytes is 10: a consumer that takes whole groups "
        "passes it over"
    )
    assert reported["GROUP_LEFT_BEHIND"].startswith(f"1 of the messages of group {b'late'.ljust(24).hex()} ")
    assert "INCOMPLETE_GROUP" not in reported


async def test_explain_tells_of_a_group_of_very_many_messages_and_of_none_that_is_claimed_whole(
    connection: Connection, queue: Queue, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K41"""
    monkeypatch.setattr("broker.core.explain.passed_over.GROUP_MAX", 2)
    for number in (1, 2, 3):
        await put(queue, b"x", group_id=b"g".ljust(24), msg_seq_number=number, msg_flags=24 if number == 3 else 8)
    (found,) = [each for each in (await connection.explain("Q")).findings if each.code == "GROUP_TOO_LARGE"]
    assert (found.figures["messages"], "3 messages, and 2 is the most" in found.text) == (3, True)
    await reader.claim(1)
    codes = (await connection.explain("Q")).codes
    assert {"CLAIMED", "INCOMPLETE_GROUP", "FIRST_ITEM_ABSENT"}.issubset(codes)
    await reader.release()
    await reader.register()
    await reader.claim(3)
    assert (await connection.explain("Q")).codes[0] == "CLAIMED"
    assert "INCOMPLETE_GROUP" not in (await connection.explain("Q")).codes


async def test_the_status_has_the_consumers(
    system: System, connection: Connection, queue: Queue, reader: Reader
) -> None:
    await put(queue, b"1", b"2", b"34")
    await reader.claim(2)
    await reader.pin(0, 1)
    await system.pass_time(3601)
    status = await connection.status()
    (consumer,) = status["consumers"]
    assert consumer == {
        "name": "ARCHIVE", "queues": "Q", "generation": 1, "claims": 2, "pinned": 1, "bytes": 2, "age": 3601.0,
        "overdue": True, "lag": 1, "lag_bytes": 2, "lag_age": 3601.0, "passed_over": {},
    }  # fmt: skip
    assert [(each["claimed"], each["depth"]) for each in status["queues"] if each["name"] == "Q"] == [(2, 3)]


async def test_the_status_names_the_queues_that_claims_pass_over(connection: Connection, reader: Reader) -> None:
    """Claims rule 2.9."""
    await connection.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
    (consumer,) = (await connection.status())["consumers"]
    assert consumer["passed_over"] == {"Q": "GET_INHIBITED"}


async def test_old_claims_are_named_in_the_log_each_hour(
    system: System, queue: Queue, reader: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    """Claims rule 2.10: in the log of each queue manager that has the consumer."""
    logs = system.members
    caplog.set_level(logging.WARNING, "broker.engine.claims.claim_watch")
    await put(queue, b"1", b"2", b"3")
    await reader.claim(2)
    await system.pass_time(3600)
    assert caplog.messages == []
    await system.pass_time(60)
    assert len(caplog.messages) == logs
    assert "consumer=ARCHIVE generation=1 claims=2 not_pinned=2 seconds=36" in caplog.messages[0]
    await system.pass_time(3540)
    assert len(caplog.messages) == logs
    await system.pass_time(120)
    assert len(caplog.messages) == 2 * logs
    await reader.pin()
    await reader.acknowledge()
    await reader.claim()
    await system.pass_time(3600)
    assert len(caplog.messages) == 2 * logs


# What is decided


async def test_k49_resolve_gives_back_or_removes(connection: Connection, queue: Queue, reader: Reader) -> None:
    await put(queue, b"A", b"B", b"C")
    await reader.claim()
    await reader.pin(0, 2)
    pinned = await connection.mqsc("RESOLVE CONSUMER(ARCHIVE) ACTION(BACKOUT)")
    assert (pinned[0].ok, pinned[0].syntax_error) == (False, False)
    assert pinned[0].text.startswith("AMQ8148E: IBM MQ object in use. 2 messages of consumer ARCHIVE are pinned")
    assert (await shown(connection))[0]["CLAIMS"] == 3
    await reader.read(0, 2)  # it goes on, as nothing was done
    assert await texts(connection, "RESOLVE CONSUMER(ARCHIVE) ACTION(BACKOUT) PINNED(YES)") == [
        "EMQ0004I: EverMQ consumer ARCHIVE resolved: 0 messages removed, 3 messages back on their queues."
    ]
    counts = [(message := await queue.get(options=0)).data and message.md.backout_count for _ in range(3)]
    assert counts == [1, 1, 1]


async def test_a_decision_waits_for_the_call_that_is_under_way(
    system: System, connection: Connection, queue: Queue, reader: Reader
) -> None:
    """Claims rule 2.4: a claim of several slices ends first, then all of it goes back."""
    async with connection.unit_of_work():
        await queue.put_many([b"x"] * 2500)
    claiming = asyncio.create_task(reader.claim(2500))
    await system.until(lambda: bool(system.manager.core.objects.queues["Q"].claimed))
    assert await texts(connection, "RESOLVE CONSUMER(ARCHIVE) ACTION(BACKOUT)") == [
        "EMQ0004I: EverMQ consumer ARCHIVE resolved: 0 messages removed, 2500 messages back on their queues."
    ]
    assert await claiming == 2500
    assert (await shown(connection))[0]["LAG"] == 2500
    with fails(MQRC.OBJECT_CHANGED):
        await reader.claim()


async def test_k49_commit_removes_what_is_pinned_and_gives_back_the_rest(
    connection: Connection, queue: Queue, reader: Reader
) -> None:
    await put(queue, b"A", b"B", b"C")
    await reader.claim()
    await reader.pin(0, 2)
    assert await texts(connection, "RESOLVE CONSUMER(ARCHIVE) ACTION(COMMIT)") == [
        "EMQ0004I: EverMQ consumer ARCHIVE resolved: 2 messages removed, 1 message back on their queues."
    ]
    assert await drained(queue) == [b"C"]
    again = "EMQ0004I: EverMQ consumer ARCHIVE resolved: 0 messages removed, 0 messages back on their queues."
    assert await texts(connection, "ZMQSC RESOLVE CONSUMER-ARCHIVE ACTION-BACKOUT") == [again]


async def test_k50_after_it_the_old_checkpoint_is_refused_and_a_new_one_begins_at_the_base(
    connection: Connection, queue: Queue, reader: Reader
) -> None:
    await put(queue, b"A", b"B")
    await reader.batch(1)
    await connection.mqsc("RESOLVE CONSUMER(ARCHIVE) ACTION(COMMIT)")
    with fails(MQRC.OBJECT_CHANGED):
        await reader.claim()
    with fails(MQRC.UOW_COMMITTED):
        await reader.register(reader.lineage, 0, 1)
    new = Reader(reader.port)
    await new.register()
    assert (new.start, await new.batch()) == (1, [b"B"])


async def test_a_consumer_or_unit_or_sink_that_is_not_there_is_not_found(connection: Connection) -> None:
    for command in ("RESOLVE CONSUMER(NO) ACTION(COMMIT)", "RESOLVE INDOUBT(NO) ACTION(BACKOUT)", "RESET SINK(NO)"):
        assert await texts(connection, command) == ["AMQ8147E: IBM MQ object NO not found."]
    assert await codes(connection, "DISPLAY QSTATUS(*) TYPE(CLAIM)\nDIS THREAD(*) TYPE(INDOUBT)") == ["AMQ8147E"] * 2
