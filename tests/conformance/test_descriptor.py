"""The message descriptor: fields, identifiers, context, version 1 and MQMDE (semantics 1)."""

from __future__ import annotations

import os
import pwd
import struct
from typing import TYPE_CHECKING, Any

import pytest

from broker.mqi import (
    MQAT,
    MQFMT,
    MQGMO,
    MQMF,
    MQMO,
    MQMT,
    MQOO,
    MQPER,
    MQPMO,
    MQRC,
    MQRO,
    GetMessageOptions,
    MessageDescriptor,
    PutMessageOptions,
)
from tests.conformance.expect import ALL, browsed, fails, name_of, reason_of

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System

ZEROS = bytes(24)
X = name_of("X")


# Fields


WRONG_FIELDS: list[tuple[dict[str, Any], MQRC]] = [
    ({"version": 3}, MQRC.MD_ERROR),
    ({"version": 0}, MQRC.MD_ERROR),
    ({"msg_id": b"short"}, MQRC.MD_ERROR),
    ({"group_id": bytes(25)}, MQRC.MD_ERROR),
    ({"msg_type": 0}, MQRC.MSG_TYPE_ERROR),
    ({"msg_type": -1}, MQRC.MSG_TYPE_ERROR),
    ({"msg_type": 3}, MQRC.MSG_TYPE_ERROR),
    ({"msg_type": 65_535}, MQRC.MSG_TYPE_ERROR),
    ({"msg_type": 1_000_000_000}, MQRC.MSG_TYPE_ERROR),
    ({"expiry": 0}, MQRC.EXPIRY_ERROR),
    ({"expiry": -2}, MQRC.EXPIRY_ERROR),
    ({"feedback": -1}, MQRC.FEEDBACK_ERROR),
    ({"feedback": 1_000_000_000}, MQRC.FEEDBACK_ERROR),
    ({"priority": -2}, MQRC.PRIORITY_ERROR),
    ({"priority": -5}, MQRC.PRIORITY_ERROR),
    ({"persistence": 5}, MQRC.PERSISTENCE_ERROR),
    ({"persistence": -1}, MQRC.PERSISTENCE_ERROR),
    ({"msg_flags": 0x20}, MQRC.MSG_FLAGS_ERROR),
    ({"msg_flags": MQMF.MSG_IN_GROUP, "msg_seq_number": 0}, MQRC.MSG_SEQ_NUMBER_ERROR),
    ({"msg_flags": MQMF.MSG_IN_GROUP, "msg_seq_number": 1_000_000_000}, MQRC.MSG_SEQ_NUMBER_ERROR),
    ({"msg_flags": MQMF.SEGMENT, "offset": -1}, MQRC.OFFSET_ERROR),
    ({"msg_flags": MQMF.SEGMENT, "offset": 1_000_000_000}, MQRC.OFFSET_ERROR),
]


@pytest.mark.parametrize(("fields", "reason"), WRONG_FIELDS, ids=repr)
async def test_t1_5_a_field_that_is_wrong_fails_the_put(
    system: System, connection: Connection, queue: Queue, fields: dict[str, Any], reason: MQRC
) -> None:
    md = MessageDescriptor(**fields)
    assert await reason_of(queue.put(b"A", md)) == await reason_of(connection.put1("Q", b"A", md)) == reason
    assert system.depth() == 0


@pytest.mark.parametrize("msg_type", [1, 2, 4, 8, 112, 113, 65_536, 999_999_999])
async def test_table_1_3_types_of_the_system_and_of_applications_are_accepted(queue: Queue, msg_type: int) -> None:
    await queue.put(b"", MessageDescriptor(msg_type=msg_type, reply_to_q="R"))
    assert (await queue.get()).md.msg_type == msg_type


LONGEST: dict[str, int | str | bytes] = {
    "format": "F" * 8,
    "reply_to_q": "Q" * 48,
    "reply_to_q_mgr": "M" * 48,
    "user_identifier": "U" * 12,
    "accounting_token": b"T" * 32,
    "appl_identity_data": "I" * 32,
    "put_appl_name": "A" * 28,
    "put_date": "20251231",
    "put_time": "23595999",
    "appl_origin_data": "ORIG",
}


async def test_table_1_1_the_longest_texts_fit_and_longer_ones_do_not(connection: Connection, queue: Queue) -> None:
    handle = await connection.open("Q", ALL | MQOO.SET_ALL_CONTEXT)
    md = MessageDescriptor(**LONGEST)  # type: ignore[arg-type]  # the texts are of the fields' types
    await handle.put(b"A", md, MQPMO.SET_ALL_CONTEXT)
    kept = (await queue.get()).md
    assert {name: getattr(kept, name) for name in LONGEST} == LONGEST
    for name, value in LONGEST.items():
        longer = MessageDescriptor(**{name: value + value[:1]})  # type: ignore[index,operator,arg-type]
        assert await reason_of(queue.put(b"A", longer)) == MQRC.MD_ERROR, name


async def test_table_1_1_what_the_queue_manager_resolves_is_written_back(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) DEFPRTY(6) DEFPSIST(NO)")
    placed = await queue.put(b"A", MessageDescriptor(backout_count=7, reply_to_q="R"))
    got = (await queue.get()).md
    assert (placed.md.priority, placed.md.persistence) == (6, MQPER.NOT_PERSISTENT)
    assert (got.coded_char_set_id, got.backout_count, got.reply_to_q_mgr) == (1208, 0, "QM1")
    assert placed.md.coded_char_set_id == 1208


async def test_t1_5_a_priority_above_nine_warns_and_ranks_as_nine(queue: Queue) -> None:
    results = [(await queue.put(b"%d" % each, MessageDescriptor(priority=each))).reason for each in (8, 12, 9)]
    assert results == [MQRC.NONE, MQRC.PRIORITY_EXCEEDS_MAXIMUM, MQRC.NONE]
    found = [await queue.get() for _ in range(3)]
    assert [(message.data, message.md.priority) for message in found] == [(b"12", 12), (b"9", 9), (b"8", 8)]


@pytest.mark.parametrize(
    "fields",
    [
        {"msg_type": MQMT.REQUEST},
        *(
            {"report": option}
            for option in (
                MQRO.COA, MQRO.COA_WITH_DATA, MQRO.COD, MQRO.EXCEPTION, MQRO.EXPIRATION_WITH_FULL_DATA, MQRO.PAN,
                MQRO.NAN, MQRO.ACTIVITY,
            )
        ),
    ],
    ids=repr,
)  # fmt: skip
async def test_t1_6_who_asks_for_an_answer_says_where_to(queue: Queue, fields: dict[str, int]) -> None:  # B20
    with fails(MQRC.MISSING_REPLY_TO_Q):
        await queue.put(b"A", MessageDescriptor(**fields))  # type: ignore[arg-type]  # integers, all of them
    named = MessageDescriptor(**fields, reply_to_q="NOWHERE")  # type: ignore[arg-type]
    assert (await queue.put(b"A", named)).reason == MQRC.NONE


async def test_table_1_3_options_that_ask_for_no_report_need_no_queue(queue: Queue) -> None:
    md = MessageDescriptor(report=MQRO.PASS_MSG_ID | MQRO.DISCARD_MSG | MQRO.PASS_CORREL_ID)
    assert (await queue.put(b"A", md)).reason == MQRC.NONE


# Identifiers


async def test_t1_1_an_identifier_given_by_the_queue_manager_may_be_used_again(queue: Queue) -> None:
    first = await queue.put(b"A")
    assert (len(first.md.msg_id), first.md.msg_id[:7]) == (24, b"AMQ QM1")
    await queue.put(b"B", first.md)
    assert [(await queue.get()).md.msg_id for _ in range(2)] == [first.md.msg_id] * 2


async def test_t1_2_new_msg_id_gives_each_message_its_own(queue: Queue) -> None:
    first = await queue.put(b"A", options=MQPMO.NEW_MSG_ID)
    second = await queue.put(b"B", first.md, MQPMO.NEW_MSG_ID)
    assert ZEROS != first.md.msg_id != second.md.msg_id
    assert [(await queue.get()).md.msg_id for _ in range(2)] == [first.md.msg_id, second.md.msg_id]


async def test_t1_3_no_correl_id_is_made_unasked(queue: Queue) -> None:
    assert (await queue.put(b"A")).md.correl_id == ZEROS
    made = (await queue.put(b"B", options=MQPMO.NEW_CORREL_ID)).md.correl_id
    assert made != ZEROS
    assert [(await queue.get()).md.correl_id for _ in range(2)] == [ZEROS, made]


async def test_t1_4_a_message_without_flags_is_in_no_group(queue: Queue) -> None:
    placed = await queue.put(b"A", MessageDescriptor(group_id=X, msg_seq_number=7, offset=9))
    got = (await queue.get()).md
    for md in (placed.md, got):
        assert (md.group_id, md.msg_seq_number, md.offset, md.original_length) == (ZEROS, 1, 0, -1)


# Context


async def test_t1_7_no_context_leaves_everything_blank(queue: Queue) -> None:
    for options in (MQPMO.NO_CONTEXT, MQPMO.NONE, MQPMO.DEFAULT_CONTEXT):
        await queue.put(b"A", options=options)
    none, default, named = [(await queue.get()).md for _ in range(3)]
    assert (none.put_appl_type, none.put_appl_name, none.put_date, none.put_time) == (MQAT.NO_CONTEXT, "", "", "")
    assert (none.user_identifier, none.accounting_token, none.appl_identity_data) == ("", bytes(32), "")
    for md in (default, named):
        assert (md.put_appl_name, md.put_date, md.appl_origin_data) == ("scenario", "20260101", "")
        assert md.put_appl_type != MQAT.NO_CONTEXT


CONTEXTS = [
    MQPMO.DEFAULT_CONTEXT,
    MQPMO.NO_CONTEXT,
    MQPMO.PASS_IDENTITY_CONTEXT,
    MQPMO.PASS_ALL_CONTEXT,
    MQPMO.SET_IDENTITY_CONTEXT,
    MQPMO.SET_ALL_CONTEXT,
]


@pytest.mark.parametrize("second", CONTEXTS[1:], ids=repr)
async def test_t1_7_only_one_context_option_is_given(queue: Queue, second: MQPMO) -> None:
    for first in CONTEXTS[: CONTEXTS.index(second)]:
        with fails(MQRC.OPTIONS_ERROR):
            await queue.put(b"A", options=first | second)


NEEDED = [
    (MQPMO.PASS_IDENTITY_CONTEXT, MQOO.PASS_IDENTITY_CONTEXT, MQRC.NOT_OPEN_FOR_PASS_IDENT),
    (MQPMO.PASS_ALL_CONTEXT, MQOO.PASS_ALL_CONTEXT, MQRC.NOT_OPEN_FOR_PASS_ALL),
    (MQPMO.SET_IDENTITY_CONTEXT, MQOO.SET_IDENTITY_CONTEXT, MQRC.NOT_OPEN_FOR_SET_IDENT),
    (MQPMO.SET_ALL_CONTEXT, MQOO.SET_ALL_CONTEXT, MQRC.NOT_OPEN_FOR_SET_ALL),
]
IMPLIED = {
    MQOO.PASS_IDENTITY_CONTEXT: {MQPMO.PASS_IDENTITY_CONTEXT},
    MQOO.PASS_ALL_CONTEXT: {MQPMO.PASS_IDENTITY_CONTEXT, MQPMO.PASS_ALL_CONTEXT},
    MQOO.SET_IDENTITY_CONTEXT: {MQPMO.PASS_IDENTITY_CONTEXT, MQPMO.SET_IDENTITY_CONTEXT},
    MQOO.SET_ALL_CONTEXT: set(CONTEXTS[2:]),
}


@pytest.mark.parametrize("opened", [MQOO.OUTPUT, *IMPLIED], ids=repr)
async def test_table_1_4_an_open_option_allows_those_that_it_implies(connection: Connection, opened: MQOO) -> None:
    source = await connection.open("Q", ALL | MQOO.SAVE_ALL_CONTEXT)
    await source.put(b"A")
    await source.get()
    output = await connection.open("Q", MQOO.OUTPUT | opened)
    for option, _, reason in NEEDED:
        call = output.put(b"B", options=PutMessageOptions(options=option, context=source))
        assert await reason_of(call) == (MQRC.NONE if option in IMPLIED.get(opened, ()) else reason), option


async def test_t1_8_context_is_passed_on_after_a_get_only(connection: Connection, queue: Queue) -> None:
    output = await connection.open("Q", MQOO.OUTPUT | MQOO.PASS_ALL_CONTEXT)
    source = await connection.open("Q", ALL | MQOO.SAVE_ALL_CONTEXT)
    passing = PutMessageOptions(options=MQPMO.PASS_ALL_CONTEXT, context=source)
    with fails(MQRC.NOT_OPEN_FOR_PASS_ALL):
        await queue.put(b"B", options=passing)
    with fails(MQRC.CONTEXT_NOT_AVAILABLE):
        await output.put(b"B", options=passing)
    await queue.put(b"A")
    await source.get()
    await output.put(b"B", options=passing)
    await source.get(options=MQGMO.BROWSE_FIRST)
    with fails(MQRC.CONTEXT_NOT_AVAILABLE):
        await output.put(b"B", options=passing)
    for handle in (queue, output, 4711):
        with fails(MQRC.CONTEXT_HANDLE_ERROR):
            await output.put(b"B", options=PutMessageOptions(options=MQPMO.PASS_ALL_CONTEXT, context=handle))


async def test_table_1_4_context_is_set_from_the_descriptor(connection: Connection, queue: Queue) -> None:
    output = await connection.open("Q", MQOO.OUTPUT | MQOO.SET_ALL_CONTEXT)
    md = MessageDescriptor(**LONGEST)  # type: ignore[arg-type]  # as above
    for options in (MQPMO.SET_IDENTITY_CONTEXT, MQPMO.SET_ALL_CONTEXT):
        await output.put(b"A", md, options)
    identity, everything = [(await queue.get()).md for _ in range(2)]
    for got in (identity, everything):
        assert (got.user_identifier, got.accounting_token, got.appl_identity_data) == (
            md.user_identifier, md.accounting_token, md.appl_identity_data,
        )  # fmt: skip
    assert (identity.put_appl_name, identity.put_date, identity.appl_origin_data) == ("scenario", "20260101", "")
    assert (everything.put_appl_name, everything.put_date, everything.put_time, everything.appl_origin_data) == (
        md.put_appl_name, md.put_date, md.put_time, md.appl_origin_data,
    )  # fmt: skip


@pytest.mark.parametrize("option", [MQPMO.PASS_IDENTITY_CONTEXT, MQPMO.PASS_ALL_CONTEXT], ids=repr)
async def test_table_1_4_context_is_passed_from_the_message_got(
    connection: Connection, queue: Queue, option: MQPMO
) -> None:
    handle = await connection.open("Q", ALL | MQOO.SET_ALL_CONTEXT | MQOO.SAVE_ALL_CONTEXT)
    for context, put in ((LONGEST, MQPMO.SET_ALL_CONTEXT), ({}, MQPMO.NO_CONTEXT)):
        await handle.put(b"A", MessageDescriptor(**context), put)  # type: ignore[arg-type]  # as above
        before = (await handle.get()).md
        await handle.put(b"B", options=PutMessageOptions(options=option, context=handle))
        after = (await queue.get()).md
        assert (after.user_identifier, after.appl_identity_data) == (before.user_identifier, before.appl_identity_data)
        origin = (before.put_appl_name, before.put_date) if option == MQPMO.PASS_ALL_CONTEXT else (
            "scenario", "20260101",
        )  # fmt: skip
        assert (after.put_appl_name, after.put_date) == origin


async def test_table_1_4_mqput1_needs_no_open_options(connection: Connection, queue: Queue) -> None:
    md = MessageDescriptor(user_identifier="SOMEONE", put_appl_name="SOMETHING")
    await connection.put1("Q", b"A", md, MQPMO.SET_ALL_CONTEXT)
    got = (await queue.get()).md
    assert (got.user_identifier, got.put_appl_name) == ("SOMEONE", "SOMETHING")


# Version 1 and MQMDE

MDE = struct.Struct("<4siiii8si24siiii")


def extension(
    tag: bytes = b"MDE ", version: int = 2, length: int = 72, encoding: int = 0x222, ccsid: int = 819,
    format: bytes = b"MQSTR   ", group_id: bytes = X, number: int = 3, offset: int = 0, flags: int = 8,
    original: int = -1,
) -> bytes:  # fmt: skip
    return MDE.pack(tag, version, length, encoding, ccsid, format, 0, group_id, number, offset, flags, original)


def described(message: Any) -> tuple[Any, ...]:
    md = message.md
    return message.data, md.format, md.coded_char_set_id, md.group_id, md.msg_seq_number, md.msg_flags


async def test_table_1_5_version_1_says_nothing_of_groups(queue: Queue) -> None:
    md = MessageDescriptor(version=1, group_id=X, msg_seq_number=7, msg_flags=MQMF.MSG_IN_GROUP, original_length=5)
    await queue.put(b"A", md)
    assert described(await queue.get()) == (b"A", "", 1208, ZEROS, 1, 0)


@pytest.mark.parametrize("version", [1, 2])
async def test_table_1_5_an_mqmde_says_what_the_descriptor_does_not(queue: Queue, version: int) -> None:
    await queue.put(extension() + b"A", MessageDescriptor(version=version, format=MQFMT.MD_EXTENSION))
    assert described(await queue.get()) == (b"A", MQFMT.STRING, 819, X, 3, MQMF.MSG_IN_GROUP)


async def test_table_1_5_the_fields_of_an_mqmde_are_checked_like_those_of_the_descriptor(queue: Queue) -> None:
    md = MessageDescriptor(version=1, format=MQFMT.MD_EXTENSION)
    for data, reason in (
        (extension(flags=0x20), MQRC.MSG_FLAGS_ERROR),
        (extension(number=0), MQRC.MSG_SEQ_NUMBER_ERROR),
        (extension(flags=2, offset=-1), MQRC.OFFSET_ERROR),
    ):
        assert await reason_of(queue.put(data + b"A", md)) == reason


@pytest.mark.parametrize(
    "data",
    [
        extension(tag=b"MDX "), extension(version=1), extension(length=73), extension(ccsid=0), extension(ccsid=-1),
        extension()[:71],
    ],
    ids=["tag", "version", "length", "character set 0", "character set -1", "too short"],
)  # fmt: skip
@pytest.mark.parametrize("version", [1, 2])
async def test_table_1_5_an_mqmde_that_is_wrong_fails_the_put(queue: Queue, version: int, data: bytes) -> None:
    with fails(MQRC.MDE_ERROR):
        await queue.put(data, MessageDescriptor(version=version, format=MQFMT.MD_EXTENSION))


@pytest.mark.parametrize(
    "fields", [{"encoding": 0x111}, {"coded_char_set_id": 500}, {"group_id": X}, {"msg_flags": 8}], ids=repr
)
async def test_table_1_5_an_mqmde_that_is_not_looked_at_is_data(queue: Queue, fields: dict[str, Any]) -> None:
    await queue.put(extension() + b"A", MessageDescriptor(format=MQFMT.MD_EXTENSION, **fields))
    message = await queue.get()
    assert (message.data, message.md.format) == (extension() + b"A", MQFMT.MD_EXTENSION)


async def test_t1_9_a_getter_of_version_1_is_given_an_mqmde(queue: Queue) -> None:
    old = MessageDescriptor(version=1)
    md = MessageDescriptor(group_id=X, msg_seq_number=3, msg_flags=MQMF.MSG_IN_GROUP, format=MQFMT.STRING)
    await queue.put(b"A", md)
    await queue.put(b"plain", MessageDescriptor(format=MQFMT.STRING))
    grouped, plain = await queue.get(old), await queue.get(old)
    assert (grouped.md.format, grouped.length, grouped.data) == ("MQHMDE", 73, extension(ccsid=1208) + b"A")
    assert (grouped.md.group_id, grouped.md.msg_seq_number, grouped.md.msg_flags) == (ZEROS, 1, 0)
    assert (plain.md.format, plain.data) == (MQFMT.STRING, b"plain")


async def test_t1_9_the_mqmde_counts_towards_the_length(system: System, queue: Queue) -> None:
    await queue.put(b"A" * 10, MessageDescriptor(msg_flags=MQMF.LAST_SEGMENT))
    with fails(MQRC.TRUNCATED_MSG_FAILED) as caught:
        await queue.get(MessageDescriptor(version=1), max_length=81)
    part: Any = caught.value.message
    assert (part.length, len(part.data), system.depth()) == (82, 81, 1)
    cut = await queue.get(MessageDescriptor(version=1), MQGMO.ACCEPT_TRUNCATED_MSG, max_length=75)
    assert (cut.length, len(cut.data), cut.reason) == (82, 75, MQRC.TRUNCATED_MSG_ACCEPTED)


async def test_t1_9_what_one_getter_of_version_1_is_given_another_may_put(queue: Queue) -> None:
    old = MessageDescriptor(version=1)
    md = MessageDescriptor(group_id=X, msg_seq_number=3, msg_flags=MQMF.MSG_IN_GROUP, format=MQFMT.STRING)
    await queue.put(b"A", md)
    message = await queue.get(old)
    moved = MessageDescriptor(version=1, format=message.md.format)
    await queue.put(message.data, moved)
    assert described(await queue.get()) == (b"A", MQFMT.STRING, 1208, X, 3, MQMF.MSG_IN_GROUP)


async def test_table_1_5_what_needs_version_2_is_refused_with_version_1(queue: Queue) -> None:  # B22
    old = MessageDescriptor(version=1)
    assert await reason_of(queue.put(b"A", old, MQPMO.LOGICAL_ORDER)) == MQRC.WRONG_MD_VERSION
    assert await reason_of(queue.get(old, MQGMO.LOGICAL_ORDER)) == MQRC.WRONG_MD_VERSION
    for match in (MQMO.MATCH_GROUP_ID, MQMO.MATCH_MSG_SEQ_NUMBER, MQMO.MATCH_OFFSET):
        assert await reason_of(queue.get(old, GetMessageOptions(match_options=match))) == MQRC.WRONG_MD_VERSION
    assert await browsed(queue) == []


@pytest.mark.parametrize("number", [0, -1, 1_000_000_000])
async def test_t1_10_a_sequence_number_to_match_is_checked(queue: Queue, number: int) -> None:
    by_number = GetMessageOptions(match_options=MQMO.MATCH_MSG_SEQ_NUMBER)
    with fails(MQRC.MSG_SEQ_NUMBER_ERROR):
        await queue.get(MessageDescriptor(msg_seq_number=number), by_number)


async def test_structures_of_versions_that_do_not_exist_are_refused(queue: Queue) -> None:
    assert await reason_of(queue.put(b"A", options=PutMessageOptions(version=4))) == MQRC.PMO_ERROR
    assert await reason_of(queue.get(options=GetMessageOptions(version=5))) == MQRC.GMO_ERROR
    assert await reason_of(queue.get(MessageDescriptor(version=3))) == MQRC.MD_ERROR


async def test_a_message_bears_the_user_that_its_program_runs_as(system: System, queue: Queue) -> None:
    await queue.put(b"")
    md = (await queue.get()).md
    assert (md.user_identifier, md.put_appl_type) == (pwd.getpwuid(os.geteuid()).pw_name[:12], MQAT.UNIX)


async def test_a_message_bears_the_user_that_its_connection_was_given(system: System, queue: Queue) -> None:
    async with system.reached.connect("orders", user="alice") as connection:
        await connection.put1("Q", b"")
        further = await connection.connect("another")
        await further.put1("Q", b"")
        await further.disconnect()
    for appl_name in ("orders", "another"):
        md = (await queue.get()).md
        assert (md.user_identifier, md.put_appl_name) == ("alice", appl_name)
