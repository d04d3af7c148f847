"""Distribution lists: one call, many queues, an outcome for each (semantics 11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.mqi import (
    MQCC,
    MQCO,
    MQGMO,
    MQIA,
    MQMF,
    MQMT,
    MQOO,
    MQOT,
    MQPMO,
    MQPMRF,
    MQRC,
    MQRO,
    MessageDescriptor,
    ObjectDescriptor,
    ObjectRecord,
    PutMessageOptions,
    PutMessageRecord,
)
from tests.conformance.expect import drained, fails, name_of
from tests.conformance.grouping import LMIG, LO, MIG, NO_GROUP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker import Connection, Queue
    from broker.interface import Message
    from broker.mqi import ResponseRecord
    from tests.conformance.crashes import DurableSystem
    from tests.conformance.system import System

NO_ID = bytes(24)
SYNCPOINT = MQPMO.SYNCPOINT
IDENTITY, ALL_CONTEXT = MQPMO.SET_IDENTITY_CONTEXT, MQPMO.SET_ALL_CONTEXT
FINE = (MQCC.OK, MQRC.NONE)


def list_of(*names: str, **fields: Any) -> ObjectDescriptor:
    """The descriptor of a distribution list of queues."""
    return ObjectDescriptor(records=[ObjectRecord(name) for name in names], **fields)


def with_records(fields: int, *records: PutMessageRecord, options: int = 0) -> PutMessageOptions:
    return PutMessageOptions(options=options, records=records, record_fields=fields)


def failed(reason: MQRC) -> tuple[MQCC, MQRC]:
    return MQCC.FAILED, reason


def outcomes(records: Iterable[ResponseRecord]) -> list[tuple[MQCC, MQRC | int]]:
    """The response records as MQRR has them."""
    return [(record.completion, record.reason) for record in records]


@pytest.fixture
async def queues(system: System, connection: Connection) -> list[Queue]:
    """QLOCAL(Q1) and QLOCAL(Q2), open for input."""
    await system.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2)")
    return [await connection.open(name, MQOO.INPUT_SHARED) for name in ("Q1", "Q2")]


@pytest.fixture
async def both(queues: list[Queue], connection: Connection) -> Queue:
    """The list of Q1 and Q2."""
    return await connection.open(list_of("Q1", "Q2"), MQOO.OUTPUT)


async def got(queues: list[Queue]) -> list[Message]:
    """The next message of each queue."""
    return [await queue.get() for queue in queues]


# Opening


async def test_t11_2_a_destination_that_is_not_there(
    system: System, connection: Connection, queues: list[Queue]
) -> None:
    both = await connection.open(list_of("Q1", "NOSUCH"), MQOO.OUTPUT)
    assert both.reason == MQRC.MULTIPLE_REASONS
    assert outcomes(both.records) == [FINE, failed(MQRC.UNKNOWN_OBJECT_NAME)]
    assert (both.known_dest_count, both.unknown_dest_count, both.invalid_dest_count) == (1, 0, 1)
    result = await both.put(b"A")
    assert result.reason == MQRC.MULTIPLE_REASONS
    assert outcomes(result.records) == [FINE, failed(MQRC.OPEN_FAILED)]
    assert (result.known_dest_count, result.unknown_dest_count, result.invalid_dest_count) == (1, 0, 1)
    assert system.depth("Q1") == 1


async def test_t11_3_no_destination_is_there(connection: Connection, queue: Queue) -> None:
    with fails(MQRC.UNKNOWN_OBJECT_NAME) as caught:
        await connection.open(list_of("NOSUCH1", "NOSUCH2"), MQOO.OUTPUT)
    assert caught.value.records == ()


async def test_no_destination_can_be_opened_for_more_than_one_reason(system: System, connection: Connection) -> None:
    await system.mqsc("DEFINE QMODEL(MODEL)\nDEFINE QALIAS(A) TARGET(NOSUCH)")
    reasons = [MQRC.UNKNOWN_OBJECT_NAME, MQRC.Q_TYPE_ERROR, MQRC.UNKNOWN_ALIAS_BASE_Q]
    for call in (
        connection.open(list_of("N", "MODEL", "A"), MQOO.OUTPUT),
        connection.put1(list_of("N", "MODEL", "A"), b""),
    ):
        with fails(MQRC.MULTIPLE_REASONS) as caught:
            await call
        assert caught.value.completion == MQCC.FAILED
        assert outcomes(caught.value.records) == [failed(reason) for reason in reasons]
    assert not connection.port.broken


async def test_t11_8_a_list_is_for_output_and_has_no_name(connection: Connection, queues: list[Queue]) -> None:
    for options in (MQOO.INPUT_SHARED, MQOO.OUTPUT | MQOO.BROWSE, MQOO.OUTPUT | MQOO.INQUIRE, MQOO.SET):
        with fails(MQRC.OPTION_NOT_VALID_FOR_TYPE):
            await connection.open(list_of("Q1", "Q2"), options)
    for od, reason in (
        (list_of("Q1", object_name="Q2"), MQRC.OBJECT_NAME_ERROR),
        (list_of("Q1", object_name="SYSTEM.DEFAULT.MODEL.QUEUE"), MQRC.OBJECT_NAME_ERROR),
        (list_of("Q1", object_q_mgr_name="QM1"), MQRC.OBJECT_Q_MGR_NAME_ERROR),
        (list_of("Q1", object_type=MQOT.Q_MGR), MQRC.RECS_PRESENT_ERROR),
        (list_of("Q1", selection_string="a = 1"), MQRC.SELECTOR_INVALID_FOR_TYPE),
    ):
        with fails(reason):
            await connection.open(od, MQOO.OUTPUT)
        with fails(reason):
            await connection.put1(od, b"")
    allowed = MQOO.OUTPUT | MQOO.SET_ALL_CONTEXT | MQOO.FAIL_IF_QUIESCING | MQOO.BIND_NOT_FIXED
    await connection.open(list_of("Q1", "Q2"), allowed)


async def test_what_else_a_list_is_not_good_for(both: Queue) -> None:
    assert (both.name, both.resolved_q_name, both.resolved_q_mgr_name) == ("", "", "")
    with fails(MQRC.NOT_OPEN_FOR_INPUT):
        await both.get()
    with fails(MQRC.NOT_OPEN_FOR_INQUIRE):
        await both.inquire(MQIA.CURRENT_Q_DEPTH)
    with fails(MQRC.NOT_OPEN_FOR_SET):
        await both.set({MQIA.INHIBIT_PUT: 1})
    with fails(MQRC.OPTION_NOT_VALID_FOR_TYPE):
        await both.close(MQCO.DELETE)
    await both.put(b"A")


async def test_a_list_opens_and_closes_each_of_its_queues(
    system: System, connection: Connection, queue: Queue, both: Queue
) -> None:
    counts = {name: system.manager.core.objects.queues[name].output_count for name in ("Q1", "Q2")}
    assert counts == {"Q1": 1, "Q2": 1}
    assert await both.close() == MQRC.NONE
    counts = {name: system.manager.core.objects.queues[name].output_count for name in ("Q1", "Q2")}
    assert counts == {"Q1": 0, "Q2": 0}
    with fails(MQRC.HOBJ_ERROR):
        await both.put(b"A")


async def test_each_destination_counts_towards_maxhands(
    system: System, connection: Connection, queues: list[Queue]
) -> None:
    await system.mqsc("ALTER QMGR MAXHANDS(5)")
    three = await connection.open(list_of("Q1", "Q2", "Q1"), MQOO.OUTPUT)
    for call in (connection.open("Q", MQOO.OUTPUT), connection.put1(list_of("Q1"), b"")):
        with fails(MQRC.HANDLE_NOT_AVAILABLE):
            await call
    await three.close()
    with fails(MQRC.HANDLE_NOT_AVAILABLE):
        await connection.open(list_of("Q1", "Q2", "Q1", "Q2"), MQOO.OUTPUT)
    half = await connection.open(list_of("Q1", "NOSUCH", "NOSUCH"), MQOO.OUTPUT)
    await connection.open(list_of("Q1", "Q2"), MQOO.OUTPUT)
    await half.close()


async def test_destinations_of_other_queue_managers_are_counted_as_unknown(
    system: System, connection: Connection, queues: list[Queue]
) -> None:
    await system.mqsc("DEFINE QLOCAL(QM2) USAGE(XMITQ)")
    records = [ObjectRecord("Q1"), ObjectRecord("THERE", "QM2"), ObjectRecord("Q", "QM3")]
    three = await connection.open(ObjectDescriptor(records=records), MQOO.OUTPUT)
    assert outcomes(three.records) == [FINE, FINE, failed(MQRC.UNKNOWN_REMOTE_Q_MGR)]
    assert (three.known_dest_count, three.unknown_dest_count, three.invalid_dest_count) == (1, 1, 1)
    result = await three.put(b"A")
    assert (result.known_dest_count, result.unknown_dest_count, result.invalid_dest_count) == (1, 1, 1)
    assert (system.depth("Q1"), system.depth("QM2")) == (1, 1)


# Putting


async def test_t11_1_a_message_on_each_queue_with_its_own_msg_id(both: Queue, queues: list[Queue]) -> None:
    result = await both.put(b"A", MessageDescriptor(correl_id=name_of("C")))
    assert (result.reason, result.md.msg_id, result.md.correl_id) == (MQRC.NONE, NO_ID, name_of("C"))
    assert (result.md.priority, result.md.persistence) == (-1, 2)
    messages = await got(queues)
    assert [(message.data, message.md.correl_id) for message in messages] == [(b"A", name_of("C"))] * 2
    assert [message.md.msg_id for message in messages] == [record.msg_id for record in result.records]
    assert messages[0].md.msg_id != messages[1].md.msg_id
    assert result.md.put_date == messages[0].md.put_date
    assert outcomes(result.records) == [FINE, FINE]


async def test_t11_4_a_destination_that_is_inhibited(system: System, both: Queue, queues: list[Queue]) -> None:
    await system.mqsc("ALTER QLOCAL(Q2) PUT(DISABLED)")
    result = await both.put(b"A")
    assert result.reason == MQRC.MULTIPLE_REASONS
    assert outcomes(result.records) == [FINE, failed(MQRC.PUT_INHIBITED)]
    assert (result.known_dest_count, result.unknown_dest_count, result.invalid_dest_count) == (1, 0, 1)
    assert result.records[1][2:] == (NO_ID, NO_ID, NO_ID)
    assert await drained(queues[0]) == [b"A"]
    await system.mqsc("ALTER QLOCAL(Q1) PUT(DISABLED)")
    with fails(MQRC.PUT_INHIBITED) as caught:
        await both.put(b"B")
    assert caught.value.records == ()
    await system.mqsc("ALTER QLOCAL(Q1) PUT(ENABLED) MAXDEPTH(0)")
    with fails(MQRC.MULTIPLE_REASONS) as caught:
        await both.put(b"C")
    assert outcomes(caught.value.records) == [failed(MQRC.Q_FULL), failed(MQRC.PUT_INHIBITED)]
    assert (system.depth("Q1"), system.depth("Q2")) == (0, 0)


async def test_t11_5_one_new_correl_id_for_all(both: Queue, queues: list[Queue]) -> None:
    own = [PutMessageRecord(correl_id=name_of(text)) for text in "AB"]
    for options in (
        PutMessageOptions(options=MQPMO.NEW_CORREL_ID),
        with_records(MQPMRF.CORREL_ID, *own, options=MQPMO.NEW_CORREL_ID),
    ):
        result = await both.put(b"A", MessageDescriptor(correl_id=name_of("C")), options)
        first, second = [message.md.correl_id for message in await got(queues)]
        assert first == second == result.records[0].correl_id == result.records[1].correl_id
        assert first not in (NO_ID, *(record.correl_id for record in own), name_of("C"))
        assert result.md.correl_id == name_of("C")


async def test_t11_6_a_group_id_cannot_be_that_of_several_destinations(both: Queue, queues: list[Queue]) -> None:
    for flags in (MIG, MQMF.SEGMENT, MQMF.LAST_SEGMENT, MQMF.SEGMENTATION_ALLOWED):
        mine = MessageDescriptor(msg_flags=flags, group_id=name_of("X"))
        with fails(MQRC.GROUP_ID_ERROR):
            await both.put(b"A", mine)
        for options in (
            with_records(MQPMRF.GROUP_ID, PutMessageRecord(group_id=name_of("Y"))),
            with_records(MQPMRF.MSG_ID, PutMessageRecord(), PutMessageRecord()),
        ):
            with fails(MQRC.GROUP_ID_ERROR):
                await both.put(b"A", mine, options)
    blank = with_records(MQPMRF.GROUP_ID, PutMessageRecord(), PutMessageRecord())
    result = await both.put(b"A", MessageDescriptor(msg_flags=MIG), blank)
    ids = [record.group_id for record in result.records]
    assert NO_GROUP not in ids
    assert ids[0] != ids[1]
    assert [message.md.group_id for message in await got(queues)] == ids
    assert result.md.group_id == NO_GROUP


async def test_group_ids_in_records_are_used(both: Queue, queues: list[Queue]) -> None:
    records = [PutMessageRecord(group_id=name_of(text)) for text in "YZ"]
    mine = MessageDescriptor(msg_flags=MIG, group_id=name_of("X"), msg_seq_number=3)
    result = await both.put(b"A", mine, with_records(MQPMRF.GROUP_ID, *records))
    assert [record.group_id for record in result.records] == [name_of("Y"), name_of("Z")]
    assert (result.md.group_id, result.md.msg_seq_number) == (name_of("X"), 3)
    messages = await got(queues)
    assert [(each.md.group_id, each.md.msg_seq_number) for each in messages] == [(name_of("Y"), 3), (name_of("Z"), 3)]
    result = await both.put(b"A", MessageDescriptor(group_id=name_of("X")))  # no flags: no group
    assert [record.group_id for record in result.records] == [NO_GROUP, NO_GROUP]


async def test_t11_7_logical_order_makes_a_group_on_each_queue(both: Queue, queues: list[Queue]) -> None:
    rubbish = MessageDescriptor(msg_flags=MIG, group_id=name_of("X"), msg_seq_number=7)
    first = await both.put(b"1", rubbish, MQPMO.LOGICAL_ORDER)
    last = await both.put(b"2", MessageDescriptor(msg_flags=LMIG), MQPMO.LOGICAL_ORDER)
    assert (first.md.msg_seq_number, last.md.msg_seq_number) == (1, 2)
    ids = [record.group_id for record in first.records]
    assert ids == [record.group_id for record in last.records]
    assert len({*ids, NO_GROUP, name_of("X")}) == 4
    for queue, group_id in zip(queues, ids, strict=True):
        messages = [await queue.get(options=LO | MQGMO.ALL_MSGS_AVAILABLE) for _ in range(2)]
        assert [message.data for message in messages] == [b"1", b"2"]
        assert [(each.md.group_id, each.md.msg_seq_number) for each in messages] == [(group_id, 1), (group_id, 2)]


async def test_a_destination_that_missed_a_message_is_behind_in_its_group(
    system: System, both: Queue, queues: list[Queue]
) -> None:
    in_group = MessageDescriptor(msg_flags=MIG)
    await both.put(b"1", in_group, MQPMO.LOGICAL_ORDER)
    await system.mqsc("ALTER QLOCAL(Q1) PUT(DISABLED)")
    await both.put(b"2", in_group, MQPMO.LOGICAL_ORDER)
    await system.mqsc("ALTER QLOCAL(Q1) PUT(ENABLED)")
    await both.put(b"3", MessageDescriptor(msg_flags=LMIG), MQPMO.LOGICAL_ORDER)
    assert [message.md.msg_seq_number for message in [await queues[0].get() for _ in range(2)]] == [1, 2]
    assert [message.md.msg_seq_number for message in [await queues[1].get() for _ in range(3)]] == [1, 2, 3]


async def test_closing_a_list_amid_a_group_warns(both: Queue) -> None:
    await both.put(b"1", MessageDescriptor(msg_flags=MIG), MQPMO.LOGICAL_ORDER)
    with fails(MQRC.INCOMPLETE_GROUP):
        await both.put(b"2", options=MQPMO.LOGICAL_ORDER)
    assert await both.close() == MQRC.INCOMPLETE_GROUP


async def test_t11_9_what_records_must_say_about_their_fields(connection: Connection, queues: list[Queue]) -> None:
    both = await connection.open(list_of("Q1", "Q2"), MQOO.OUTPUT | MQOO.SET_ALL_CONTEXT)
    record = PutMessageRecord(msg_id=name_of("M"), accounting_token=b"a" * 32)
    for options, reason in (
        (with_records(MQPMRF.ACCOUNTING_TOKEN, record), MQRC.PMO_RECORD_FLAGS_ERROR),
        (with_records(MQPMRF.ACCOUNTING_TOKEN, record, options=MQPMO.NO_CONTEXT), MQRC.PMO_RECORD_FLAGS_ERROR),
        (with_records(MQPMRF.NONE, record), MQRC.PMO_RECORD_FLAGS_ERROR),
        (with_records(0x20 | MQPMRF.MSG_ID, record), MQRC.PMO_RECORD_FLAGS_ERROR),
        (with_records(MQPMRF.MSG_ID), MQRC.NONE),
        (with_records(MQPMRF.ACCOUNTING_TOKEN, record, options=IDENTITY), MQRC.NONE),
        (with_records(MQPMRF.ACCOUNTING_TOKEN, record, options=ALL_CONTEXT), MQRC.NONE),
        (with_records(MQPMRF.MSG_ID, PutMessageRecord(msg_id=b"short")), MQRC.PUT_MSG_RECORDS_ERROR),
        (with_records(MQPMRF.FEEDBACK, PutMessageRecord(feedback=-1)), MQRC.FEEDBACK_ERROR),
    ):
        if reason:
            with fails(reason):
                await both.put(b"A", options=options)
        else:
            assert (await both.put(b"A", options=options)).reason == MQRC.NONE
    assert [len(await drained(queue)) for queue in queues] == [3, 3]


async def test_records_give_each_message_its_own_fields(connection: Connection, queues: list[Queue]) -> None:
    both = await connection.open(list_of("Q1", "Q2"), MQOO.OUTPUT | MQOO.SET_IDENTITY_CONTEXT)
    record = PutMessageRecord(
        msg_id=name_of("M"), correl_id=name_of("C"), feedback=MQRC.Q_FULL, accounting_token=b"a" * 32
    )
    every = MQPMRF.MSG_ID | MQPMRF.CORREL_ID | MQPMRF.FEEDBACK | MQPMRF.ACCOUNTING_TOKEN
    md = MessageDescriptor(msg_type=MQMT.REPORT, feedback=1, accounting_token=b"b" * 32, correl_id=name_of("D"))
    result = await both.put(b"A", md, with_records(every, record, options=IDENTITY))  # fewer than destinations
    (first, second) = [message.md for message in await got(queues)]
    assert (first.msg_id, first.correl_id) == (name_of("M"), name_of("C"))
    assert (first.feedback, first.accounting_token) == (MQRC.Q_FULL, b"a" * 32)
    assert (second.msg_id, second.correl_id) == (result.records[1].msg_id, name_of("D"))
    assert (second.feedback, second.accounting_token) == (1, b"b" * 32)
    assert (result.md.feedback, result.md.accounting_token) == (1, b"b" * 32)
    assert record.msg_id == name_of("M")
    too_many = with_records(MQPMRF.MSG_ID, record, record, PutMessageRecord(msg_id=b"not looked at"))
    assert [each.msg_id for each in (await both.put(b"B", options=too_many)).records] == [name_of("M")] * 2
    too_old = PutMessageOptions(records=[record], record_fields=MQPMRF.MSG_ID, version=1)
    assert (await both.put(b"C", options=too_old)).records[0].msg_id != name_of("M")


async def test_new_msg_id_is_new_for_every_destination(both: Queue, queues: list[Queue]) -> None:
    mine = MessageDescriptor(msg_id=name_of("M"))
    assert [record.msg_id for record in (await both.put(b"A", mine)).records] == [name_of("M")] * 2
    fixed = with_records(MQPMRF.MSG_ID, PutMessageRecord(msg_id=name_of("R")), options=MQPMO.NEW_MSG_ID)
    first, second = (record.msg_id for record in (await both.put(b"B", mine, fixed)).records)
    assert len({first, second, name_of("M"), name_of("R")}) == 4


async def test_records_are_for_lists_only(connection: Connection, queue: Queue) -> None:
    options = with_records(MQPMRF.MSG_ID, PutMessageRecord())
    for call in (queue.put(b"A", options=options), connection.put1("Q", b"A", options=options)):
        with fails(MQRC.RECS_PRESENT_ERROR):
            await call
    assert (queue.records, (await queue.put(b"A")).records) == ((), ())


async def test_a_list_may_have_one_destination_and_name_it_twice(
    system: System, connection: Connection, queues: list[Queue]
) -> None:
    single = await connection.open(list_of("Q1"), MQOO.OUTPUT)
    assert outcomes(single.records) == [FINE]
    assert outcomes((await single.put(b"A")).records) == [FINE]
    with fails(MQRC.GROUP_ID_ERROR):
        await single.put(b"A", MessageDescriptor(msg_flags=MIG, group_id=name_of("X")))
    await system.mqsc("ALTER QLOCAL(Q1) MAXDEPTH(2)")
    twice = await connection.open(list_of("Q1", "Q1"), MQOO.OUTPUT)
    assert outcomes((await twice.put(b"B")).records) == [FINE, failed(MQRC.Q_FULL)]
    assert await drained(queues[0]) == [b"A", b"B"]


async def test_what_is_wrong_with_the_call_is_the_outcome_of_the_call(
    connection: Connection, queues: list[Queue]
) -> None:
    half = await connection.open(list_of("NOSUCH", "Q1"), MQOO.OUTPUT)
    for md, options, reason in (
        (None, PutMessageOptions(version=9), MQRC.PMO_ERROR),
        (MessageDescriptor(msg_type=77), 0, MQRC.MSG_TYPE_ERROR),
        (None, MQPMO.SYNCPOINT | MQPMO.NO_SYNCPOINT, MQRC.OPTIONS_ERROR),
        (None, MQPMO.SET_ALL_CONTEXT, MQRC.NOT_OPEN_FOR_SET_ALL),
        (MessageDescriptor(report=MQRO.COA), 0, MQRC.MISSING_REPLY_TO_Q),
    ):
        with fails(reason):
            await half.put(b"A", md, options)
    assert await drained(queues[0]) == []


async def test_a_warning_at_every_destination_is_the_warning_of_the_call(
    system: System, connection: Connection, both: Queue, queues: list[Queue]
) -> None:
    result = await both.put(b"A", MessageDescriptor(priority=12))
    assert result.reason == MQRC.PRIORITY_EXCEEDS_MAXIMUM
    assert outcomes(result.records) == [(MQCC.WARNING, MQRC.PRIORITY_EXCEEDS_MAXIMUM)] * 2
    await system.mqsc("ALTER QLOCAL(Q2) PUT(DISABLED)")
    result = await both.put(b"A", MessageDescriptor(priority=12))
    assert result.reason == MQRC.MULTIPLE_REASONS
    assert result.records[0].completion == MQCC.WARNING
    assert result.known_dest_count == 1


async def test_a_message_is_cut_only_where_it_does_not_fit(system: System, both: Queue, queues: list[Queue]) -> None:
    await system.mqsc("ALTER QLOCAL(Q2) MAXMSGL(100)")
    assert outcomes((await both.put(bytes(250))).records) == [FINE, failed(MQRC.MSG_TOO_BIG_FOR_Q)]
    await both.put(bytes(250), MessageDescriptor(msg_flags=MQMF.SEGMENTATION_ALLOWED))
    assert (system.depth("Q1"), system.depth("Q2")) == (2, 3)  # pieces of 96 bytes


async def test_a_destination_that_is_lost_after_the_open_fails_alone(
    system: System, connection: Connection, queues: list[Queue]
) -> None:
    await system.mqsc("DEFINE QALIAS(A) TARGET(Q2)\nDEFINE QMODEL(MODEL) DEFTYPE(PERMDYN)")
    maker = await connection.open(ObjectDescriptor(object_name="MODEL", dynamic_q_name="D"), MQOO.INQUIRE)
    three = await connection.open(list_of("Q1", "A", "D"), MQOO.OUTPUT)
    await system.mqsc("ALTER QALIAS(A) TARGET(Q1) FORCE")
    await maker.close(MQCO.DELETE)
    result = await three.put(b"A")
    assert outcomes(result.records) == [FINE, failed(MQRC.OBJECT_CHANGED), failed(MQRC.Q_DELETED)]
    assert await drained(queues[0]) == [b"A"]
    assert await three.close() == MQRC.NONE


# MQPUT1


async def test_put1_to_a_list_tells_why_a_queue_could_not_be_opened(
    system: System, connection: Connection, queues: list[Queue]
) -> None:
    result = await connection.put1(list_of("Q1", "NOSUCH", "Q2"), b"A")
    assert result.reason == MQRC.MULTIPLE_REASONS
    assert outcomes(result.records) == [FINE, failed(MQRC.UNKNOWN_OBJECT_NAME), FINE]
    assert (result.known_dest_count, result.invalid_dest_count) == (2, 1)
    records = [PutMessageRecord(msg_id=name_of(text)) for text in "AB"]
    result = await connection.put1(
        list_of("Q1", "Q2"), b"B", options=with_records(MQPMRF.MSG_ID, *records, options=SYNCPOINT | ALL_CONTEXT)
    )
    assert [record.msg_id for record in result.records] == [name_of("A"), name_of("B")]
    await connection.commit()
    assert [await drained(queue) for queue in queues] == [[b"A", b"B"], [b"A", b"B"]]
    with fails(MQRC.OPTIONS_ERROR):
        await connection.put1(list_of("Q1", "Q2"), b"C", options=MQPMO.LOGICAL_ORDER)
    with fails(MQRC.UNKNOWN_OBJECT_NAME):
        await connection.put1(list_of("N1", "N2"), b"C")
    assert system.manager.core.objects.queues["Q1"].output_count == 0


# Units of work


async def test_the_messages_of_a_list_join_the_unit_of_work(
    system: System, connection: Connection, both: Queue, queues: list[Queue]
) -> None:
    await system.mqsc("ALTER QLOCAL(Q2) MAXDEPTH(1)")
    await both.put(b"1", MessageDescriptor(msg_flags=MIG), MQPMO.LOGICAL_ORDER | SYNCPOINT)
    result = await both.put(b"2", MessageDescriptor(msg_flags=LMIG), MQPMO.LOGICAL_ORDER | SYNCPOINT)
    assert outcomes(result.records) == [FINE, failed(MQRC.Q_FULL)]
    assert [await drained(queue) for queue in queues] == [[], []]
    await connection.commit()
    assert [await drained(queue) for queue in queues] == [[b"1", b"2"], [b"1"]]


async def test_a_backout_takes_every_destination_back(connection: Connection, both: Queue, queues: list[Queue]) -> None:
    await both.put(b"1", MessageDescriptor(msg_flags=MIG), MQPMO.LOGICAL_ORDER | SYNCPOINT)
    await connection.backout()
    assert [await drained(queue) for queue in queues] == [[], []]
    result = await both.put(b"1", MessageDescriptor(msg_flags=LMIG), MQPMO.LOGICAL_ORDER)
    assert (result.md.msg_seq_number, result.reason) == (1, MQRC.NONE)


async def test_every_message_of_a_list_counts_towards_maxumsgs(
    system: System, connection: Connection, both: Queue, queues: list[Queue]
) -> None:
    await system.mqsc("ALTER QMGR MAXUMSGS(3)")
    await both.put(b"1", options=SYNCPOINT)
    result = await both.put(b"2", options=SYNCPOINT)
    assert outcomes(result.records) == [FINE, failed(MQRC.SYNCPOINT_LIMIT_REACHED)]
    with fails(MQRC.SYNCPOINT_LIMIT_REACHED):
        await both.put(b"3", options=SYNCPOINT)
    await connection.commit()
    await system.mqsc("ALTER QMGR MAXUMSGS(1)")
    assert outcomes((await both.put(b"4")).records) == [FINE, FINE]
    assert [await drained(queue) for queue in queues] == [[b"1", b"2", b"4"], [b"1", b"4"]]


async def test_an_asynchronous_put_to_a_list_is_told_of_by_stat(
    system: System, connection: Connection, both: Queue, queues: list[Queue]
) -> None:
    later = MQPMO.ASYNC_RESPONSE | SYNCPOINT
    result = await both.put(b"A", options=later)
    assert (result.reason, result.records, result.invalid_dest_count) == (MQRC.NONE, (), 0)
    assert (await connection.stat()).put_success_count == 1
    await system.mqsc("ALTER QLOCAL(Q2) PUT(DISABLED)")
    await both.put(b"B", options=later)
    status = await connection.stat()
    assert (status.put_warning_count, status.reason) == (1, MQRC.MULTIPLE_REASONS)
    await connection.commit()
    assert await drained(queues[0]) == [b"A", b"B"]


async def test_what_a_list_was_told_to_put_survives_a_crash(durable: DurableSystem) -> None:
    await durable.mqsc("DEFINE QLOCAL(Q1) DEFPSIST(YES)\nDEFINE QLOCAL(Q2) DEFPSIST(YES)")
    connection = await durable.connect()
    both = await connection.open(list_of("Q1", "Q2"), MQOO.OUTPUT)
    await both.put(b"A")
    await both.put(b"B", options=SYNCPOINT)
    await durable.crash()
    assert (durable.depth("Q1"), durable.depth("Q2")) == (1, 1)
