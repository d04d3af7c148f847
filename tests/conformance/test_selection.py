"""Which message a get is given: match options and identifiers (semantics 7, identifiers: semantics 1.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQMO, MQPMO, MQRC, GetMessageOptions, MessageDescriptor
from tests.conformance.expect import drained, fails, name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker import Queue

A, B, C = name_of("A"), name_of("B"), name_of("C")


async def put(queue: Queue, data: bytes, *, msg_id: bytes = bytes(24), correl_id: bytes = bytes(24)) -> None:
    await queue.put(data, MessageDescriptor(msg_id=msg_id, correl_id=correl_id))


def by_msg_id(text: str) -> MessageDescriptor:
    return MessageDescriptor(msg_id=name_of(text))


def by_correl_id(text: str) -> MessageDescriptor:
    return MessageDescriptor(correl_id=name_of(text))


async def test_t7_1_a_get_by_correl_id_takes_the_first_that_has_it(queue: Queue) -> None:
    for data, correl_id in ((b"M1", A), (b"M2", B), (b"M3", B)):
        await put(queue, data, correl_id=correl_id)
    by_correl_id = GetMessageOptions(match_options=MQMO.MATCH_CORREL_ID)
    assert (await queue.get(MessageDescriptor(correl_id=B), by_correl_id)).data == b"M2"
    assert (await queue.get(MessageDescriptor(), by_correl_id)).data == b"M1"
    nothing = GetMessageOptions(match_options=MQMO.NONE)
    assert (await queue.get(MessageDescriptor(correl_id=C), nothing)).data == b"M3"


async def test_t7_2_all_match_options_must_match(queue: Queue) -> None:
    await put(queue, b"M1", msg_id=A, correl_id=B)
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get(MessageDescriptor(msg_id=A, correl_id=C))
    assert (await queue.get(MessageDescriptor(msg_id=A, correl_id=B))).data == b"M1"


async def test_t7_3_an_undefined_match_option_is_refused(queue: Queue) -> None:
    with fails(MQRC.MATCH_OPTIONS_ERROR):
        await queue.get(MessageDescriptor(), GetMessageOptions(match_options=0x40))


async def test_t7_6_version_1_matches_both_identifiers(queue: Queue) -> None:
    await put(queue, b"M1", msg_id=A)
    version_1 = GetMessageOptions(version=1, match_options=MQMO.NONE)
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get(MessageDescriptor(msg_id=B), version_1)
    assert (await queue.get(MessageDescriptor(msg_id=A), version_1)).data == b"M1"


async def test_a_message_is_found_by_its_token(queue: Queue) -> None:
    for data in (b"M1", b"M2"):
        await put(queue, data)
    await queue.get(options=MQGMO.BROWSE_NEXT)
    token = (await queue.get(options=MQGMO.BROWSE_NEXT)).token
    by_token = GetMessageOptions(match_options=MQMO.MATCH_MSG_TOKEN, msg_token=token)
    assert (await queue.get(options=by_token)).data == b"M2"
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get(options=by_token)


async def test_identifiers_keep_the_order_of_the_queue(queue: Queue) -> None:
    for data, priority in ((b"M1", 1), (b"M2", 5), (b"M3", 5)):
        await queue.put(data, MessageDescriptor(correl_id=A, priority=priority))
    wanted = MessageDescriptor(correl_id=A)
    assert [(await queue.get(wanted)).data for _ in range(3)] == [b"M2", b"M3", b"M1"]


async def test_an_identifier_of_zeros_is_generated_and_any_other_kept(queue: Queue) -> None:
    first, second = [(await queue.put(b"")).md.msg_id for _ in range(2)]
    assert first != second
    assert {first[:4], second[:4]} == {b"AMQ "}
    kept = await queue.put(b"", MessageDescriptor(msg_id=A, correl_id=B))
    assert (kept.md.msg_id, kept.md.correl_id) == (A, B)


async def test_new_identifiers_are_made_on_demand(queue: Queue) -> None:
    md = MessageDescriptor(msg_id=A, correl_id=B)
    placed = await queue.put(b"", md, MQPMO.NEW_MSG_ID | MQPMO.NEW_CORREL_ID)
    assert {placed.md.msg_id, placed.md.correl_id}.isdisjoint({A, B, bytes(24)})
    assert (md.msg_id, md.correl_id) == (A, B)


@pytest.mark.parametrize("carrying", [by_msg_id, by_correl_id])
async def test_one_message_of_many_is_found_by_its_identifier(
    queue: Queue, carrying: Callable[[str], MessageDescriptor]
) -> None:
    for number in range(50):
        await queue.put(b"%d" % number, carrying(f"id {number}"))
    for number in (49, 0, 25):
        found = await queue.get(carrying(f"id {number}"))
        assert found.data == b"%d" % number
    assert len(await drained(queue)) == 47
