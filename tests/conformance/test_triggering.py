"""Triggering by initiation queues, as programs and operators see it: C1 to C10, E1 to E7, units of work."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from broker import MQError
from broker.mqi import (
    MQCA,
    MQDLH,
    MQGMO,
    MQIA,
    MQMF,
    MQOO,
    MQPER,
    MQPMO,
    MQRC,
    MQTM,
    MQTT,
    GetMessageOptions,
    MessageDescriptor,
    ObjectDescriptor,
)
from tests.conformance.expect import ALL

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System


@pytest.fixture
async def initq(system: System, connection: Connection, other: Connection) -> Queue:
    """QLOCAL(I), which a trigger monitor has open for input, beside what `connection` does; PROCESS(P); a queue of each
    trigger type.
    """
    await system.mqsc(
        "DEFINE PROCESS(P) APPLICID('app') ENVRDATA('envr') USERDATA('user') APPLTYPE(UNIX)\nDEFINE QLOCAL(I)\n"
        "DEFINE QLOCAL(FIRST) TRIGGER TRIGTYPE(FIRST) PROCESS(P) INITQ(I)\n"
        "DEFINE QLOCAL(EVERY) TRIGGER TRIGTYPE(EVERY) PROCESS(P) INITQ(I)\n"
        "DEFINE QLOCAL(DEPTH) TRIGGER TRIGTYPE(DEPTH) TRIGDPTH(3) PROCESS(P) INITQ(I)"
    )
    monitor = await system.connect("monitor")
    initq = await monitor.open("I", ALL)
    await system.rest()  # E7 looks at the queues
    return initq


async def taken(system: System, initq: Queue) -> list[str]:
    """The queues of which trigger messages say something; they are got."""
    await system.rest()
    found: list[str] = []
    while True:
        try:
            message = await initq.get()
        except MQError as error:
            assert error.reason == MQRC.NO_MSG_AVAILABLE
            return found
        found.append(MQTM.from_bytes(message.data).q_name)


async def put(system: System, connection: Connection, name: str, count: int = 1, priority: int = 0) -> None:
    for _ in range(count):
        await connection.put1(name, b"A", MessageDescriptor(priority=priority))
        await system.rest()


async def drain(system: System, connection: Connection, name: str) -> None:
    """A program that opens a queue, gets what is there, and closes it."""
    async with connection.open(name, MQOO.INPUT_SHARED) as queue:
        with suppress(MQError):
            while True:
                await queue.get()
    await system.rest()


async def control(connection: Connection, name: str) -> int | str:
    async with connection.open(name, MQOO.INQUIRE) as queue:
        return (await queue.inquire(MQIA.TRIGGER_CONTROL))[MQIA.TRIGGER_CONTROL]


# Attributes


async def test_the_trigger_attributes_of_a_new_queue(connection: Connection) -> None:
    async with connection.open("Q", MQOO.INQUIRE) as queue:
        numbers = (MQIA.TRIGGER_CONTROL, MQIA.TRIGGER_TYPE, MQIA.TRIGGER_DEPTH, MQIA.TRIGGER_MSG_PRIORITY)
        texts = (MQCA.TRIGGER_DATA, MQCA.PROCESS_NAME, MQCA.INITIATION_Q_NAME)
        values = await queue.inquire(*numbers, *texts)
    assert [values[selector] for selector in numbers] == [0, 1, 1, 0]
    assert [values[selector] for selector in texts] == ["", "", ""]


@pytest.mark.parametrize(
    ("selector", "value", "reason"),
    [
        (MQIA.TRIGGER_DEPTH, 0, MQRC.TRIGGER_DEPTH_ERROR),
        (MQIA.TRIGGER_DEPTH, 10**9, MQRC.TRIGGER_DEPTH_ERROR),
        (MQIA.TRIGGER_TYPE, 4, MQRC.TRIGGER_TYPE_ERROR),
        (MQIA.TRIGGER_TYPE, -1, MQRC.TRIGGER_TYPE_ERROR),
        (MQIA.TRIGGER_MSG_PRIORITY, 10, MQRC.TRIGGER_MSG_PRIORITY_ERR),
        (MQIA.TRIGGER_MSG_PRIORITY, -1, MQRC.TRIGGER_MSG_PRIORITY_ERR),
        (MQIA.TRIGGER_CONTROL, 2, MQRC.TRIGGER_CONTROL_ERROR),
    ],
)
async def test_mqset_refuses_what_is_out_of_range(
    connection: Connection, selector: MQIA, value: int, reason: MQRC
) -> None:
    async with connection.open("Q", MQOO.INQUIRE | MQOO.SET) as queue:
        before = await queue.inquire(selector)
        with pytest.raises(MQError) as refused:
            await queue.set({selector: value})
        assert (refused.value.reason, await queue.inquire(selector)) == (reason, before)


async def test_mqset_changes_triggering_and_that_is_an_event(
    system: System, connection: Connection, initq: Queue
) -> None:  # E4
    await system.mqsc("ALTER QLOCAL(Q) PROCESS(P) INITQ(I)")
    await put(system, connection, "Q", 2)
    async with connection.open("Q", MQOO.SET) as queue:
        await queue.set({MQIA.TRIGGER_TYPE: MQTT.DEPTH, MQIA.TRIGGER_DEPTH: 2, MQCA.TRIGGER_DATA: "by MQSET"})
        await queue.set({MQIA.TRIGGER_CONTROL: 1})
    await system.rest()
    message = await initq.get()
    assert MQTM.from_bytes(message.data).trigger_data == "by MQSET"
    assert await control(connection, "Q") == 0


@pytest.mark.parametrize(("value", "ok"), [(-1, False), (1_000_000_000, False), (0, True), (999_999_999, True)])
async def test_the_range_of_the_trigger_interval(connection: Connection, value: int, *, ok: bool) -> None:
    (reply,) = await connection.mqsc(f"ALTER QMGR TRIGINT({value})")
    assert reply.ok is ok


@pytest.mark.parametrize(
    ("keyword", "longest"), [("APPLICID", 256), ("ENVRDATA", 128), ("USERDATA", 128), ("DESCR", 64)]
)
async def test_the_texts_of_a_process_have_their_lengths(connection: Connection, keyword: str, longest: int) -> None:
    for length, ok in ((longest, True), (longest + 1, False)):
        (reply,) = await connection.mqsc(f"DEFINE PROCESS(P{length}) {keyword}('{'x' * length}')")
        assert reply.ok is ok


async def test_the_application_type_of_a_process(connection: Connection) -> None:
    await connection.mqsc("DEFINE PROCESS(P)\nDEFINE PROCESS(U) APPLTYPE(70000)\nDEFINE PROCESS(X) APPLTYPE(UNIX)")
    replies = await connection.mqsc("DISPLAY PROCESS(*) APPLTYPE APPLICID ENVRDATA USERDATA")
    shown = {each["PROCESS"]: each for reply in replies for each in reply.attributes}
    assert [shown["P"][keyword] for keyword in ("APPLICID", "ENVRDATA", "USERDATA")] == ["", "", ""]
    async with connection.open(ObjectDescriptor(object_name="U", object_type=3), MQOO.INQUIRE) as process:
        assert (await process.inquire(MQIA.APPL_TYPE))[MQIA.APPL_TYPE] == 70000
    assert (str(shown["U"]["APPLTYPE"]), shown["X"]["APPLTYPE"]) == ("70000", "UNIX")


# Conditions and events


async def test_e1_first(system: System, connection: Connection, initq: Queue) -> None:  # C3
    await put(system, connection, "FIRST")
    assert await taken(system, initq) == ["FIRST"]
    await put(system, connection, "FIRST")
    assert await taken(system, initq) == []
    await drain(system, connection, "FIRST")
    await put(system, connection, "FIRST")
    assert await taken(system, initq) == ["FIRST"]


async def test_e3_a_getter_closes_with_a_message_left(
    system: System, connection: Connection, initq: Queue
) -> None:  # C4
    async with connection.open("FIRST", MQOO.INPUT_SHARED):
        await put(system, connection, "FIRST")
        assert await taken(system, initq) == []
    assert await taken(system, initq) == ["FIRST"]
    await drain(system, connection, "FIRST")
    assert await taken(system, initq) == []


async def test_e3_a_connection_that_breaks_closes(
    system: System, connection: Connection, other: Connection, initq: Queue
) -> None:
    await connection.open("FIRST", MQOO.INPUT_SHARED)
    await put(system, other, "FIRST")
    assert await taken(system, initq) == []
    system.cut(connection)
    await system.until(lambda: system.depth("I") == 1)


@pytest.mark.parametrize(("interval", "again"), [(0, ["FIRST"]), (999_999_999, [])])
async def test_e2_the_trigger_interval(
    system: System, connection: Connection, initq: Queue, interval: int, again: list[str]
) -> None:
    await system.mqsc(f"ALTER QMGR TRIGINT({interval})")
    await put(system, connection, "FIRST")
    assert await taken(system, initq) == ["FIRST"]
    await put(system, connection, "FIRST")
    assert await taken(system, initq) == again


@pytest.mark.parametrize("event", ["E4", "E7"])
async def test_e2_the_trigger_interval_counts_from_other_events_too(
    system: System, connection: Connection, other: Connection, initq: Queue, event: str
) -> None:
    await system.mqsc("ALTER QMGR TRIGINT(1000)\nALTER QLOCAL(FIRST) NOTRIGGER")
    await put(system, connection, "FIRST")
    await system.pass_time(5)
    if event == "E4":
        await system.mqsc("ALTER QLOCAL(FIRST) TRIGGER")
    else:
        await initq.close()
        await system.mqsc("ALTER QLOCAL(FIRST) TRIGGER")
        initq = await other.open("I", ALL)
    assert await taken(system, initq) == ["FIRST"]
    await system.pass_time(0.5)
    await put(system, connection, "FIRST")
    assert await taken(system, initq) == []
    await system.pass_time(0.5)
    await put(system, connection, "FIRST")
    assert await taken(system, initq) == ["FIRST"]


async def test_c4_every_does_not_mind_a_getter(system: System, connection: Connection, initq: Queue) -> None:
    async with connection.open("EVERY", MQOO.INPUT_SHARED):
        await put(system, connection, "EVERY", 3)
        assert await taken(system, initq) == ["EVERY"] * 3


async def test_e1_depth_fires_once_and_reads_off(system: System, connection: Connection, initq: Queue) -> None:
    await put(system, connection, "DEPTH", 2)
    assert (await taken(system, initq), await control(connection, "DEPTH")) == ([], 1)
    await put(system, connection, "DEPTH")
    assert (await taken(system, initq), await control(connection, "DEPTH")) == (["DEPTH"], 0)
    await put(system, connection, "DEPTH")
    assert await taken(system, initq) == []
    await system.mqsc("ALTER QLOCAL(DEPTH) TRIGGER")  # E4
    assert (await taken(system, initq), await control(connection, "DEPTH")) == (["DEPTH"], 0)


async def test_e4_a_change_of_trigdpth_is_an_event_under_depth_alone(
    system: System, connection: Connection, initq: Queue
) -> None:
    for name in ("FIRST", "EVERY", "DEPTH"):
        await system.mqsc(f"ALTER QLOCAL({name}) TRIGDPTH(9)")
        await put(system, connection, name, 2)
    assert await taken(system, initq) == ["FIRST", "EVERY", "EVERY"]
    for name in ("FIRST", "EVERY", "DEPTH"):
        await system.mqsc(f"ALTER QLOCAL({name}) TRIGDPTH(3)")
        assert await taken(system, initq) == []
    for name in ("FIRST", "EVERY", "DEPTH"):
        await system.mqsc(f"ALTER QLOCAL({name}) TRIGDPTH(2)")
    assert (await taken(system, initq), await control(connection, "DEPTH")) == (["DEPTH"], 0)
    await system.mqsc("ALTER QLOCAL(DEPTH) TRIGDPTH(1)")
    assert (await taken(system, initq), await control(connection, "DEPTH")) == ([], 0)


async def test_depth_is_off_before_the_commit_and_after_the_backout(
    system: System, connection: Connection, initq: Queue
) -> None:
    await system.mqsc("ALTER QLOCAL(DEPTH) TRIGDPTH(2)")
    async with connection.open("DEPTH", MQOO.OUTPUT) as queue:
        for _ in range(2):
            await queue.put(b"A", options=MQPMO.SYNCPOINT)
        assert (await taken(system, initq), await control(connection, "DEPTH")) == ([], 0)
        await connection.backout()
        assert (await taken(system, initq), await control(connection, "DEPTH")) == (["DEPTH"], 0)
    assert system.depth("DEPTH") == 0


async def test_c2_priorities(system: System, connection: Connection, initq: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(FIRST) TRIGMPRI(5)")
    await put(system, connection, "FIRST", 10, priority=4)
    assert await taken(system, initq) == []
    await put(system, connection, "FIRST", priority=5)
    assert await taken(system, initq) == ["FIRST"]
    await system.mqsc("ALTER QLOCAL(EVERY) MSGDLVSQ(FIFO) DEFPRTY(0) TRIGMPRI(1)")
    await put(system, connection, "EVERY", priority=9)
    assert await taken(system, initq) == []


async def test_e7_a_monitor_comes(system: System, connection: Connection, initq: Queue) -> None:  # C8
    await initq.close()
    await put(system, connection, "FIRST", 5)
    await put(system, connection, "EVERY", 5)
    assert system.depth("I") == 0
    monitor = await connection.open("I", MQOO.INPUT_SHARED)
    async with connection.open("I", MQOO.INPUT_SHARED):
        assert await taken(system, monitor) == ["EVERY", "FIRST"]


async def test_c6_a_process_that_is_missing(system: System, connection: Connection, initq: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(FIRST) PROCESS(LATER)")
    await put(system, connection, "FIRST")
    await system.mqsc("DEFINE PROCESS(LATER)")
    assert await taken(system, initq) == []
    await put(system, connection, "FIRST")
    assert await taken(system, initq) == ["FIRST"]


async def test_c6_a_process_that_was_missing_when_the_monitor_comes_again(
    system: System, connection: Connection, other: Connection, initq: Queue
) -> None:  # E7
    await system.mqsc("ALTER QLOCAL(FIRST) PROCESS(LATER)")
    await put(system, connection, "FIRST")
    await system.mqsc("DEFINE PROCESS(LATER)")
    await initq.close()
    assert await taken(system, await other.open("I", MQOO.INPUT_SHARED)) == ["FIRST"]


async def test_e5_and_c7_the_initiation_queue_takes_messages_again(
    system: System, connection: Connection, initq: Queue
) -> None:
    await system.mqsc("ALTER QLOCAL(I) PUT(DISABLED)")
    for name in ("FIRST", "EVERY", "DEPTH"):
        await put(system, connection, name, 2)
    assert await taken(system, initq) == []
    await system.mqsc("ALTER QLOCAL(I) PUT(ENABLED)")
    assert await taken(system, initq) == ["EVERY", "FIRST"]


async def test_e6_and_c5_the_queue_gives_messages_again(system: System, connection: Connection, initq: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(FIRST) GET(DISABLED)")
    await put(system, connection, "FIRST")
    assert await taken(system, initq) == []
    await system.mqsc("ALTER QLOCAL(FIRST) GET(ENABLED)")
    assert await taken(system, initq) == ["FIRST"]


async def test_c9_a_trigger_message_that_was_promised_is_written(
    system: System, connection: Connection, initq: Queue
) -> None:
    async with connection.open("FIRST", MQOO.OUTPUT) as queue:
        await queue.put(b"A", options=MQPMO.SYNCPOINT)
        await system.mqsc("ALTER QLOCAL(FIRST) NOTRIGGER")
        await connection.commit()
    assert await taken(system, initq) == ["FIRST"]
    await put(system, connection, "FIRST")
    assert await taken(system, initq) == []


async def test_c10_a_queue_of_no_type(system: System, connection: Connection, initq: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(FIRST) TRIGTYPE(NONE)")
    await put(system, connection, "FIRST")
    assert await taken(system, initq) == []


async def test_c1_puts_through_an_alias_and_to_a_remote_queue(
    system: System, connection: Connection, initq: Queue
) -> None:
    await system.mqsc(
        "DEFINE QALIAS(A) TARGET(FIRST)\nDEFINE QREMOTE(R) RNAME(FAR) RQMNAME(QM9) XMITQ(X)\n"
        "DEFINE QLOCAL(X) USAGE(XMITQ) TRIGGER TRIGTYPE(FIRST) TRIGDATA('TO.QM9') INITQ(I)"
    )
    await put(system, connection, "A")
    assert await taken(system, initq) == ["FIRST"]
    await put(system, connection, "R")
    message = await initq.get()
    assert MQTM.from_bytes(message.data) == MQTM("X", "", "TO.QM9", -1)  # C6: it needs no process


async def test_c3_a_message_that_is_cut_is_one_event(system: System, connection: Connection, initq: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(EVERY) MAXMSGL(64)\nALTER QLOCAL(DEPTH) MAXMSGL(64)")
    md = MessageDescriptor(msg_flags=MQMF.SEGMENTATION_ALLOWED, persistence=MQPER.PERSISTENT)
    await connection.put1("EVERY", bytes(150), md)
    await system.rest()
    await connection.put1("DEPTH", bytes(150), md)
    assert (await taken(system, initq), system.depth("EVERY"), system.depth("DEPTH")) == (["EVERY", "DEPTH"], 3, 3)


async def test_many_puts_in_one_call_trigger_as_they_would_one_by_one(
    system: System, connection: Connection, initq: Queue
) -> None:
    for name, written in (("EVERY", 5), ("FIRST", 1), ("DEPTH", 1)):
        async with connection.open(name, MQOO.OUTPUT) as queue:
            await queue.put_many([b"A"] * 5)
        assert await taken(system, initq) == [name] * written
    assert await control(connection, "DEPTH") == 0


async def test_a_put_with_a_delay_is_judged_when_its_instant_has_come(
    system: System, connection: Connection, initq: Queue
) -> None:
    for name, after in (("FIRST", ["FIRST"]), ("EVERY", ["EVERY", "EVERY"])):
        async with connection.open(name, MQOO.OUTPUT) as queue:
            for _ in range(2):
                await queue.put(b"later", delay=10)
            assert (await taken(system, initq), system.depth(name)) == ([], 2)
            await system.pass_time(10)
            assert await taken(system, initq) == after


async def test_c3_messages_that_wait_for_an_instant_do_not_count(
    system: System, connection: Connection, initq: Queue
) -> None:
    async with connection.open("FIRST", MQOO.OUTPUT) as queue:
        await queue.put(b"later", delay=60)
        await queue.put(b"now")
    assert await taken(system, initq) == ["FIRST"]
    await system.pass_time(60)
    assert (await taken(system, initq), system.depth("FIRST")) == ([], 2)


# Units of work


async def test_every_brings_one_for_each_put_with_the_commit(
    system: System, connection: Connection, initq: Queue
) -> None:
    async with connection.open("EVERY", MQOO.OUTPUT) as queue:
        for end, written in ((connection.commit, 3), (connection.backout, 0)):
            for _ in range(3):
                await queue.put(b"A", options=MQPMO.SYNCPOINT)
            assert await taken(system, initq) == []
            await end()
            assert await taken(system, initq) == ["EVERY"] * written


async def test_first_is_written_although_its_unit_is_backed_out(
    system: System, connection: Connection, other: Connection, initq: Queue
) -> None:
    one, two = await system.connect("one"), await system.connect("two")
    for each in (one, two):
        await each.put1("FIRST", b"A", options=MQPMO.SYNCPOINT)
    await two.commit()
    assert await taken(system, initq) == []
    await one.backout()
    assert await taken(system, initq) == ["FIRST"]


@pytest.mark.parametrize(("close_first", "written"), [(True, []), (False, ["FIRST"])])
async def test_e3_a_get_that_is_backed_out(
    system: System, connection: Connection, initq: Queue, written: list[str], *, close_first: bool
) -> None:
    await put(system, connection, "FIRST")
    await taken(system, initq)
    queue = await connection.open("FIRST", MQOO.INPUT_SHARED)
    await queue.get(options=MQGMO.SYNCPOINT)
    for step in (queue.close, connection.backout) if close_first else (connection.backout, queue.close):
        await step()
        await system.rest()
    assert await taken(system, initq) == written


async def test_a_monitor_that_waits_is_served_at_once(system: System, connection: Connection, initq: Queue) -> None:
    wait = GetMessageOptions(options=MQGMO.WAIT, wait_interval=-1)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(initq.get(options=wait))
        await system.waiting("I", 1)
        await put(system, connection, "EVERY")
        message = await waiting
    assert MQTM.from_bytes(message.data).q_name == "EVERY"


# The message


async def test_the_trigger_message_and_its_descriptor(system: System, connection: Connection, initq: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(I) DEFPRTY(7) DEFPSIST(YES)\nALTER QLOCAL(EVERY) TRIGDATA('data')")
    await connection.put1("EVERY", b"A", MessageDescriptor(priority=3, persistence=MQPER.PERSISTENT))
    await system.rest()
    message = await initq.get()
    assert MQTM.from_bytes(message.data) == MQTM("EVERY", "P", "data", 6, "app", "envr", "user")
    md = message.md
    assert len(message.data) == 684
    assert (md.report, md.msg_type, md.expiry, md.feedback, md.encoding, md.format) == (0, 8, -1, 0, 546, "MQTRIG")
    assert (md.coded_char_set_id, md.priority, md.persistence, md.backout_count) == (1208, 7, 0, 0)
    assert (md.reply_to_q, md.reply_to_q_mgr, md.user_identifier, md.appl_identity_data) == ("", "QM1", "", "")
    assert (md.put_appl_type, md.put_appl_name, md.appl_origin_data) == (7, "QM1", "")
    assert (md.correl_id, md.accounting_token) == (bytes(24), bytes(32))
    assert md.msg_id != bytes(24)


@pytest.mark.parametrize(("attributes", "reason"), [("MAXDEPTH(1)", 2053), ("MAXMSGL(683)", 2030)])
async def test_an_initiation_queue_that_does_not_take_it(
    system: System, connection: Connection, initq: Queue, attributes: str, reason: int
) -> None:
    await system.mqsc(f"DEFINE QLOCAL(D)\nALTER QMGR DEADQ(D)\nALTER QLOCAL(I) {attributes}")
    if reason == MQRC.Q_FULL:
        await put(system, connection, "I")
    await put(system, connection, "FIRST")
    assert (system.depth("FIRST"), system.depth("D")) == (1, 1)
    async with connection.open("D", MQOO.INPUT_SHARED) as dead:
        message = await dead.get()
    header = MQDLH.from_bytes(message.data[: MQDLH.SIZE])
    assert (message.md.format, message.md.persistence) == ("MQDEAD", 0)
    assert (header.reason, header.dest_q_name, header.dest_q_mgr_name) == (reason, "I", "QM1")
    assert (header.format, header.put_appl_type, header.put_appl_name) == ("MQTRIG", 7, "QM1")
    assert MQTM.from_bytes(message.data[MQDLH.SIZE :]).q_name == "FIRST"


async def test_without_a_dead_letter_queue_it_is_lost_with_a_warning(
    system: System, connection: Connection, initq: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    await system.mqsc("ALTER QLOCAL(I) MAXDEPTH(1)")
    await put(system, connection, "I")
    with caplog.at_level("WARNING", "broker"):
        await put(system, connection, "FIRST")
    assert (system.depth("FIRST"), system.depth("I")) == (1, 1)
    (record,) = [each for each in caplog.records if "lost" in each.getMessage()]
    assert "queue=I" in record.getMessage()


# Restarts


async def test_e7_after_a_restart(system: System, initq: Queue) -> None:
    await system.mqsc("\n".join(f"ALTER QLOCAL({name}) DEFPSIST(YES)" for name in ("FIRST", "EVERY", "DEPTH")))
    program = await system.connect("program")
    for name in ("FIRST", "EVERY", "DEPTH"):
        await put(system, program, name, 3)
    assert await taken(system, initq) == ["FIRST", "EVERY", "EVERY", "EVERY", "DEPTH"]
    await system.restart()
    connection = await system.connect("monitor")
    monitor = await connection.open("I", ALL)
    assert await taken(system, monitor) == ["EVERY", "FIRST"]
    assert (await control(connection, "DEPTH"), system.depth("DEPTH")) == (0, 3)
