"""Misuse of the calls: what each answers, the same for programs in the queue manager's process and over a socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from broker.interface.port import answer
from broker.mqi import (
    MQGMO,
    MQIA,
    MQMF,
    MQMO,
    MQOO,
    MQPMO,
    MQPMRF,
    MQRC,
    GetMessageOptions,
    MessageDescriptor,
    MQError,
    ObjectDescriptor,
    ObjectRecord,
    PutMessageOptions,
    PutMessageRecord,
)
from broker.storage.memory import MemoryStore
from tests.conformance.expect import ALL, fails, name_of
from tests.conformance.system import System
from tests.conformance.ways import WAYS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from broker import Connection, Queue

    Misuse: TypeAlias = Callable[[Connection, Queue], Awaitable[object]]

LIST = [ObjectRecord("Q"), ObjectRecord("Q")]
LARGE = 2**40
HUGE = 2**80  # no frame has room for it
HALF = "\ud800"  # of a character: no frame can carry it


def md(**wrong: Any) -> Misuse:
    return lambda connection, queue: queue.put(b"", MessageDescriptor(**wrong))


def pmo(**wrong: Any) -> Misuse:
    return lambda connection, queue: queue.put(b"", None, PutMessageOptions(**wrong))


def gmo(**wrong: Any) -> Misuse:
    return lambda connection, queue: queue.get(None, GetMessageOptions(**wrong))


def wanted(match: int = MQMO.NONE, **wrong: Any) -> Misuse:
    return lambda connection, queue: queue.get(MessageDescriptor(**wrong), GetMessageOptions(match_options=match))


def od(**wrong: Any) -> Misuse:
    return lambda connection, queue: connection.put1(ObjectDescriptor(**{"object_name": "Q", **wrong}), b"")


def opened(options: Any = ALL, **wrong: Any) -> Misuse:
    async def open(connection: Connection, queue: Queue) -> None:
        await connection.open(ObjectDescriptor(**{"object_name": "Q", **wrong}), options)

    return open


def records(fields: Any = MQPMRF.MSG_ID, **wrong: Any) -> Misuse:
    options = PutMessageOptions(record_fields=fields, records=[PutMessageRecord(**wrong)] * 2)
    return lambda connection, queue: connection.put1(ObjectDescriptor(records=LIST), b"", None, options)


ROWS: list[tuple[Misuse, MQRC]] = [
    # MQMD of a put: what a field cannot hold
    *((md(**{name: value}), MQRC.MD_ERROR) for name in ("encoding", "coded_char_set_id", "report", "msg_type", "expiry")
      for value in (LARGE, HUGE, -LARGE, 1.5, None, "1", True)),
    *((md(**{name: 2**32}), MQRC.MD_ERROR) for name in ("feedback", "priority", "persistence", "backout_count",
      "put_appl_type", "msg_seq_number", "offset", "msg_flags", "original_length", "version")),
    *((md(**{name: value}), MQRC.MD_ERROR) for name in ("format", "reply_to_q", "user_identifier", "put_date")
      for value in (5, None, b"bytes", "x" * 49, HALF, object(), [])),
    *((md(**{name: value}), MQRC.MD_ERROR) for name in ("msg_id", "correl_id", "group_id")
      for value in (b"", b"short", bytes(25), "x" * 24, None, 5, bytearray(23), object())),
    (md(accounting_token=bytes(33)), MQRC.MD_ERROR),
    (md(accounting_token="x" * 32), MQRC.MD_ERROR),
    # and what it can hold and must not mean
    (md(version=3), MQRC.MD_ERROR),
    (md(expiry=0), MQRC.EXPIRY_ERROR),
    (md(priority=-2), MQRC.PRIORITY_ERROR),
    (md(persistence=5), MQRC.PERSISTENCE_ERROR),
    (md(msg_type=0), MQRC.MSG_TYPE_ERROR),
    (md(feedback=-1), MQRC.FEEDBACK_ERROR),
    (md(msg_type=1), MQRC.MISSING_REPLY_TO_Q),
    (md(msg_flags=MQMF.MSG_IN_GROUP, msg_seq_number=0), MQRC.MSG_SEQ_NUMBER_ERROR),
    # the same descriptors given to other calls
    (lambda connection, queue: connection.put1("Q", b"", MessageDescriptor(encoding=LARGE)), MQRC.MD_ERROR),
    (lambda connection, queue: queue.put_many([b"", (b"", MessageDescriptor(format=HALF))]), MQRC.MD_ERROR),
    (lambda connection, queue: queue.put(b"", MessageDescriptor(encoding=LARGE), properties={"a": 1}), MQRC.MD_ERROR),
    (lambda connection, queue: queue.put("text", MessageDescriptor(format=5)), MQRC.MD_ERROR),  # type: ignore[arg-type]
    (lambda connection, queue: queue.put(b"", persistence=LARGE), MQRC.MD_ERROR),
    (lambda connection, queue: connection.put1(ObjectDescriptor(records=LIST), b"", MessageDescriptor(msg_id=b"x")),
     MQRC.MD_ERROR),
    # MQMD of a get
    *((wanted(match, **{name: value}), MQRC.MD_ERROR) for match, name in (
        (MQMO.MATCH_MSG_ID, "msg_id"), (MQMO.MATCH_CORREL_ID, "correl_id"), (MQMO.MATCH_GROUP_ID, "group_id"))
      for value in (b"", b"short", bytes(23) + b"xy", "x" * 24, None, object())),
    (wanted(MQMO.MATCH_MSG_SEQ_NUMBER, msg_seq_number=LARGE), MQRC.MD_ERROR),
    (wanted(MQMO.MATCH_MSG_SEQ_NUMBER, msg_seq_number=0), MQRC.MSG_SEQ_NUMBER_ERROR),
    (wanted(MQMO.MATCH_OFFSET, offset="0"), MQRC.MD_ERROR),
    (wanted(version=3), MQRC.MD_ERROR),
    (wanted(version=None), MQRC.MD_ERROR),
    (lambda connection, queue: queue.get(MessageDescriptor(encoding=LARGE), MQGMO.CONVERT), MQRC.MD_ERROR),
    (lambda connection, queue: queue.get(MessageDescriptor(coded_char_set_id="1208"), MQGMO.CONVERT),  # type: ignore[arg-type]
     MQRC.MD_ERROR),
    (lambda connection, queue: queue.get_many(2, MessageDescriptor(msg_id=b"short")), MQRC.MD_ERROR),
    # MQPMO
    *((pmo(options=value), MQRC.PMO_ERROR) for value in (LARGE, -LARGE, HUGE, True)),
    (pmo(options=0x4000_0000), MQRC.OPTIONS_ERROR),
    (pmo(options=-(2**31)), MQRC.OPTIONS_ERROR),
    (lambda connection, queue: queue.put(b"", None, LARGE), MQRC.PMO_ERROR),
    (pmo(version=4), MQRC.PMO_ERROR),
    (pmo(version="3"), MQRC.PMO_ERROR),
    (pmo(version=LARGE), MQRC.PMO_ERROR),
    (pmo(context="Q"), MQRC.CONTEXT_HANDLE_ERROR),
    (pmo(context=None), MQRC.CONTEXT_HANDLE_ERROR),
    (pmo(context=object()), MQRC.CONTEXT_HANDLE_ERROR),
    (pmo(context=LARGE), MQRC.CONTEXT_HANDLE_ERROR),
    (pmo(options=MQPMO.SYNCPOINT | MQPMO.NO_SYNCPOINT), MQRC.OPTIONS_ERROR),
    (pmo(options=MQPMO.ALTERNATE_USER_AUTHORITY), MQRC.OPTIONS_ERROR),  # it is for MQPUT1
    (lambda connection, queue: queue.put_many([b""], None, MQPMO.ALTERNATE_USER_AUTHORITY), MQRC.OPTIONS_ERROR),
    (lambda connection, queue: queue.put_many([b""], None, PutMessageOptions(version=9)), MQRC.PMO_ERROR),
    (pmo(records=[PutMessageRecord()]), MQRC.RECS_PRESENT_ERROR),
    (pmo(records=5), MQRC.RECS_PRESENT_ERROR),
    (pmo(records=[5]), MQRC.RECS_PRESENT_ERROR),
    (records(msg_id=b"short"), MQRC.PUT_MSG_RECORDS_ERROR),
    (records(group_id="x" * 24), MQRC.PUT_MSG_RECORDS_ERROR),
    (records(feedback=LARGE), MQRC.PUT_MSG_RECORDS_ERROR),
    (records(feedback=None), MQRC.PUT_MSG_RECORDS_ERROR),
    (records(feedback=object()), MQRC.PUT_MSG_RECORDS_ERROR),
    (records(MQPMRF.FEEDBACK, feedback=-1), MQRC.FEEDBACK_ERROR),
    (records(0x40), MQRC.PMO_RECORD_FLAGS_ERROR),
    (records(LARGE), MQRC.PMO_ERROR),
    (lambda connection, queue: connection.put1(ObjectDescriptor(records=LIST), b"", None, PutMessageOptions(
        records=[5], record_fields=MQPMRF.MSG_ID)), MQRC.PUT_MSG_RECORDS_ERROR),  # type: ignore[list-item]
    # MQGMO
    *((gmo(options=value), MQRC.GMO_ERROR) for value in (LARGE, -LARGE, HUGE, True)),
    (gmo(options=-1), MQRC.OPTIONS_ERROR),
    (gmo(options=0x4000_0000), MQRC.OPTIONS_ERROR),
    (lambda connection, queue: queue.get(None, LARGE), MQRC.GMO_ERROR),
    (gmo(version=5), MQRC.GMO_ERROR),
    (gmo(version=1.5), MQRC.GMO_ERROR),
    *((gmo(options=MQGMO.WAIT, wait_interval=value), MQRC.WAIT_INTERVAL_ERROR)
      for value in (-2, LARGE, HUGE, "5", None, 1.5, object())),
    (gmo(wait_interval=LARGE), MQRC.WAIT_INTERVAL_ERROR),
    (gmo(match_options=LARGE), MQRC.GMO_ERROR),
    (gmo(match_options=None), MQRC.GMO_ERROR),
    (gmo(match_options=0x4000_0000), MQRC.MATCH_OPTIONS_ERROR),
    *((gmo(msg_token=value), MQRC.MSG_TOKEN_ERROR) for value in (b"", b"short", bytes(17), "x" * 16, None, object())),
    (lambda connection, queue: queue.get_many(1, None, MQGMO.LOCK), MQRC.OPTIONS_ERROR),
    (lambda connection, queue: queue.get_many(LARGE), MQRC.OPTIONS_ERROR),
    *((lambda connection, queue, value=value: queue.get(max_length=value), MQRC.BUFFER_LENGTH_ERROR)
      for value in (-1, LARGE, HUGE, "5", 1.5, True, object())),
    # MQOD
    *((od(**{name: value}), MQRC.OD_ERROR) for name in ("object_name", "object_q_mgr_name", "dynamic_q_name",
      "alternate_user_id", "selection_string") for value in (5, None, b"Q", HALF, object(), ["Q"])),
    *((od(object_type=value), MQRC.OD_ERROR) for value in ("1", None, LARGE, HUGE, True)),
    (od(object_type=99), MQRC.OBJECT_TYPE_ERROR),
    (od(object_name="Q" * 49), MQRC.UNKNOWN_OBJECT_NAME),
    (od(object_name="Q" * 5000), MQRC.UNKNOWN_OBJECT_NAME),
    (od(object_name="q"), MQRC.UNKNOWN_OBJECT_NAME),
    (od(object_name=""), MQRC.UNKNOWN_OBJECT_NAME),
    (od(object_q_mgr_name="Q" * 49), MQRC.UNKNOWN_OBJECT_Q_MGR),
    (od(dynamic_q_name="Q" * 49), MQRC.DYNAMIC_Q_NAME_ERROR),
    (od(alternate_user_id="u" * 13), MQRC.OD_ERROR),
    (od(selection_string="a = 1" + " " * 20_000), MQRC.SELECTION_STRING_ERROR),
    (od(records=5), MQRC.RECS_PRESENT_ERROR),
    (od(object_name="", records=[5]), MQRC.OBJECT_RECORDS_ERROR),
    (od(object_name="", records=[ObjectRecord(5)]), MQRC.OBJECT_RECORDS_ERROR),  # type: ignore[arg-type]
    (od(object_name="", records=[ObjectRecord(object())]), MQRC.OBJECT_RECORDS_ERROR),  # type: ignore[arg-type]
    (od(object_name="", records=[ObjectRecord("Q" * 49)]), MQRC.UNKNOWN_OBJECT_NAME),
    (od(object_name="", records=[ObjectRecord("Q", "Q" * 49)]), MQRC.UNKNOWN_OBJECT_Q_MGR),
    (od(object_name="", records=[ObjectRecord("Q")] * 65_536), MQRC.RECS_PRESENT_ERROR),
    *((opened(value), MQRC.OPTIONS_ERROR) for value in (0, -1, LARGE, HUGE, 0x4000_0000)),
    (opened(object_name=b"Q"), MQRC.OD_ERROR),
    (lambda connection, queue: queue.close(LARGE), MQRC.OPTIONS_ERROR),
    (lambda connection, queue: queue.close(-1), MQRC.OPTIONS_ERROR),
    (lambda connection, queue: queue.close(True), MQRC.OPTIONS_ERROR),
    # MQINQ, MQSET, explain
    *((lambda connection, queue, value=value: queue.inquire(value), MQRC.SELECTOR_ERROR)
      for value in (LARGE, HUGE, "CURDEPTH", None, True, object())),
    (lambda connection, queue: queue.inquire(-5), MQRC.SELECTOR_NOT_FOR_TYPE),
    *((lambda connection, queue, value=value: queue.set({value: 1}), MQRC.SELECTOR_ERROR)
      for value in (LARGE, "PUT", None, True)),
    *((lambda connection, queue, value=value: queue.set({MQIA.INHIBIT_PUT: value}), MQRC.INT_ATTRS_ARRAY_ERROR)
      for value in (LARGE, HUGE, None, 1.5, True, object())),
    (lambda connection, queue: queue.set({MQIA.INHIBIT_PUT: 7}), MQRC.INHIBIT_VALUE_ERROR),
    (lambda connection, queue: connection.explain(5), MQRC.OBJECT_NAME_ERROR),  # type: ignore[arg-type]
    (lambda connection, queue: connection.explain(HALF), MQRC.OBJECT_NAME_ERROR),
    (lambda connection, queue: connection.explain("Q" * 49), MQRC.UNKNOWN_OBJECT_NAME),
    (lambda connection, queue: connection.explain("Q", msg_id=b"short"), MQRC.MSG_ID_ERROR),
    (lambda connection, queue: connection.explain("Q", correl_id="x" * 24), MQRC.CORREL_ID_ERROR),  # type: ignore[arg-type]
    (lambda connection, queue: connection.explain("Q", group_id=object()), MQRC.GROUP_ID_ERROR),  # type: ignore[arg-type]
    # backup
    *((lambda connection, queue, value=value: answer(connection.port.backup(value)), MQRC.FILE_SYSTEM_ERROR)
      for value in ("", "relative", "/nul\0", "/" * 5000, HALF, 5, None, object())),
    # properties
    (lambda connection, queue: queue.put(b"", properties={"a": 1, "usr.a": 2}), MQRC.PROPERTY_NAME_ERROR),
    (lambda connection, queue: queue.put(b"", properties={"usr.a": 1, "b": 2, "a": 1}), MQRC.PROPERTY_NAME_ERROR),
]  # fmt: skip


IDS = [f"{number}-{reason.name}" for number, (_, reason) in enumerate(ROWS)]


@pytest.fixture(params=WAYS)
async def system(request: pytest.FixtureRequest) -> AsyncIterator[System]:
    """A queue manager in memory: what is refused reaches no store."""
    async with System(MemoryStore, request.param) as system:
        yield system


@pytest.mark.parametrize(("misuse", "reason"), ROWS, ids=IDS)
async def test_a_misuse_is_refused_and_does_no_harm(
    system: System, connection: Connection, queue: Queue, misuse: Misuse, reason: MQRC
) -> None:
    with pytest.raises(MQError) as caught:
        await misuse(connection, queue)
    assert (caught.value.reason, bool(caught.value.detail)) == (reason, True)
    if system.depth():
        assert [message.data for message in await queue.get_many(2)] == [b""]  # the one before the wrong one of a batch
    await queue.put(b"A")
    assert (await queue.get()).data == b"A"


USES: list[Misuse] = [
    lambda connection, queue: queue.put(b"A"),
    lambda connection, queue: queue.put(b"A", MessageDescriptor(encoding=LARGE)),
    lambda connection, queue: queue.put_many([b"A"]),
    lambda connection, queue: queue.get(),
    lambda connection, queue: queue.get(MessageDescriptor(msg_id=b"short")),
    lambda connection, queue: queue.get_many(2),
    lambda connection, queue: queue.inquire(MQIA.CURRENT_Q_DEPTH),
    lambda connection, queue: queue.set({MQIA.INHIBIT_PUT: 1}),
]
OTHERS: list[Misuse] = [
    lambda connection, queue: connection.put1("Q", b"A"),
    lambda connection, queue: connection.put1(ObjectDescriptor(object_name=b"Q"), b"A"),  # type: ignore[arg-type]
    opened(),
    opened(LARGE),
    lambda connection, queue: connection.commit(),
    lambda connection, queue: connection.backout(),
    lambda connection, queue: connection.begin(),
    lambda connection, queue: connection.explain("Q"),
    lambda connection, queue: connection.status(),
    lambda connection, queue: connection.mqsc("DISPLAY QMGR"),
    lambda connection, queue: connection.connect(),
]


@pytest.mark.parametrize("use", USES)
async def test_a_closed_handle_is_2019_whatever_else_is_wrong(
    connection: Connection, queue: Queue, use: Misuse
) -> None:
    await queue.close()
    with fails(MQRC.HOBJ_ERROR):
        await use(connection, queue)


@pytest.mark.parametrize("use", USES)
async def test_a_handle_that_never_was_is_2019(system: System, connection: Connection, use: Misuse) -> None:
    other = await system.connect()
    queues = [await other.open("Q", ALL) for _ in range(3)]
    queues[2]._connection, queues[2]._port = connection, connection.port
    with fails(MQRC.HOBJ_ERROR):
        await use(connection, queues[2])


@pytest.mark.parametrize("use", [*USES, *OTHERS])
async def test_after_the_disconnect_every_call_is_2018(connection: Connection, queue: Queue, use: Misuse) -> None:
    await connection.disconnect()
    with fails(MQRC.HCONN_ERROR):
        await use(connection, queue)


@pytest.mark.parametrize("value", [True, 1.0])
async def test_what_equals_a_right_value_is_no_right_value(queue: Queue, value: Any) -> None:
    """Right values are remembered, and looked up by what they are as well."""
    await queue.put(b"A", MessageDescriptor(priority=1))
    await queue.get(None, GetMessageOptions(version=1, wait_interval=1))
    with fails(MQRC.MD_ERROR):
        await queue.put(b"A", MessageDescriptor(priority=value))
    with fails(MQRC.WAIT_INTERVAL_ERROR):
        await queue.get(MessageDescriptor(), GetMessageOptions(version=1, wait_interval=value))


async def test_an_identifier_that_no_field_holds_does_not_wait(queue: Queue) -> None:
    await queue.put(b"A")
    with fails(MQRC.MD_ERROR):
        await queue.get(
            MessageDescriptor(correl_id=b"short"),
            GetMessageOptions(options=MQGMO.WAIT, wait_interval=-1, match_options=MQMO.MATCH_CORREL_ID),
        )


@pytest.mark.parametrize("make", [bytearray, memoryview])
async def test_bytes_of_another_kind_are_bytes(queue: Queue, make: Callable[[bytes], Any]) -> None:
    x = name_of("X")
    md = MessageDescriptor(msg_id=make(x), correl_id=make(x), accounting_token=make(bytes(32)))
    result = await queue.put(b"A", md)
    assert (result.md.msg_id, type(result.md.correl_id)) == (x, bytes)
    by_both = GetMessageOptions(match_options=MQMO.MATCH_MSG_ID | MQMO.MATCH_CORREL_ID, msg_token=make(bytes(16)))
    assert (await queue.get(md, by_both)).md.msg_id == x


@pytest.mark.parametrize("name", ["msg_id", "correl_id"])
async def test_a_bytearray_that_changes_between_two_puts_is_read_anew(queue: Queue, name: str) -> None:
    """Neither end knows such a descriptor again by being equal to itself."""
    id = bytearray(24)
    md = MessageDescriptor(**{name: id})  # type: ignore[arg-type]  # what it is about
    for number in range(5):
        id[0] = number if number > 2 else 0
        await queue.put(b"A", md)
    found = [getattr((await queue.get()).md, name)[0] for _ in range(5)]
    assert found[3:] == [3, 4]


async def test_a_wrong_asynchronous_put_leaves_a_unit_that_can_only_be_backed_out(
    connection: Connection, queue: Queue
) -> None:
    options = MQPMO.SYNCPOINT | MQPMO.ASYNC_RESPONSE
    await queue.put(b"A", None, options)
    await queue.put(b"B", MessageDescriptor(encoding=LARGE), options)
    status = await connection.stat()
    assert (status.put_success_count, status.put_failure_count, status.reason) == (1, 1, MQRC.MD_ERROR)
    with fails(MQRC.BACKED_OUT):
        await connection.commit()


async def test_put1_takes_an_alternate_user(queue: Queue, connection: Connection) -> None:
    """It is for authority checks; UserIdentifier stays the connection's."""
    user = (await connection.put1("Q", b"A")).md.user_identifier
    od = ObjectDescriptor(object_name="Q", alternate_user_id="alice")
    result = await connection.put1(od, b"B", None, MQPMO.ALTERNATE_USER_AUTHORITY)
    assert result.md.user_identifier == user
    lists = ObjectDescriptor(records=LIST, alternate_user_id="alice")
    await connection.put1(lists, b"C", None, MQPMO.ALTERNATE_USER_AUTHORITY)
    async with connection.open(od, MQOO.OUTPUT | MQOO.ALTERNATE_USER_AUTHORITY) as other:
        assert (await other.put(b"D")).md.user_identifier == user
    assert [(await queue.get()).md.user_identifier for _ in range(5)] == [user] * 5
