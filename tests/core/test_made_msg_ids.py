"""Getting by a MsgId that the queue manager made: no index has it, the arrival number in it leads to the message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQMO, MQPMO, MQRC, MessageDescriptor
from tests.core.world import fails

if TYPE_CHECKING:
    from tests.core.world import Access, World

BY_MSG_ID = MQMO.MATCH_MSG_ID


def browsed(access: Access, msg_id: bytes, count: int) -> list[bytes]:
    """The data of the `count` messages with this MsgId, as a browse finds them. There must be no more."""
    md = MessageDescriptor(msg_id=msg_id)
    found = [access.get(MQGMO.BROWSE_FIRST, md, match=BY_MSG_ID).data]
    found += [access.get(MQGMO.BROWSE_NEXT, md, match=BY_MSG_ID).data for _ in range(count - 1)]
    with fails(MQRC.NO_MSG_AVAILABLE):
        access.get(MQGMO.BROWSE_NEXT, md, match=BY_MSG_ID)
    return found


@pytest.mark.parametrize("priority", [0, 4, 9])
def test_the_message_of_a_made_id_is_found_whatever_its_priority(world: World, priority: int) -> None:
    world.define(MSGDLVSQ=0)
    access = world.open()
    access.put(b"other")
    made = access.put(b"A", 0, MessageDescriptor(priority=priority)).entry.msg_id
    access.put(b"other", 0, MessageDescriptor(priority=priority))
    assert access.get(0, MessageDescriptor(msg_id=made), match=BY_MSG_ID).data == b"A"
    with fails(MQRC.NO_MSG_AVAILABLE):
        access.get(0, MessageDescriptor(msg_id=made), match=BY_MSG_ID)


@pytest.mark.parametrize(("priority", "order"), [(0, [b"A", b"copy"]), (9, [b"copy", b"A"])])
def test_a_message_with_a_copy_of_a_made_id_stands_beside_the_first_in_queue_order(
    world: World, priority: int, order: list[bytes]
) -> None:
    world.define(MSGDLVSQ=0)
    access = world.open()
    made = access.put(b"A", 0, MessageDescriptor(priority=4)).entry.msg_id
    access.put(b"copy", 0, MessageDescriptor(msg_id=made, priority=priority))
    assert browsed(access, made, 2) == order


def test_a_message_passed_on_is_found_by_the_id_made_on_another_queue(world: World) -> None:
    world.define()
    world.define("R")
    access, other = world.open(), world.open("R")
    made = access.put(b"A").entry.msg_id
    other.put(b"A passed on", 0, MessageDescriptor(msg_id=made))
    assert access.get().data == b"A"
    assert other.get(0, MessageDescriptor(msg_id=made), match=BY_MSG_ID).data == b"A passed on"


def test_a_message_that_is_given_an_id_is_not_found_by_the_one_it_would_have_had(world: World) -> None:
    world.define()
    access = world.open()
    entry = access.put(b"A", 0, MessageDescriptor(msg_id=bytes(23) + b"A")).entry
    with fails(MQRC.NO_MSG_AVAILABLE):
        access.get(0, MessageDescriptor(msg_id=world.manager.ids.identifier(entry.id)), match=BY_MSG_ID)


def test_a_message_that_is_not_available_is_not_found(world: World) -> None:
    world.define()
    access = world.open()
    made = access.put(b"A", MQPMO.SYNCPOINT).entry.msg_id
    with fails(MQRC.NO_MSG_AVAILABLE):
        access.get(0, MessageDescriptor(msg_id=made), match=BY_MSG_ID)


@pytest.mark.parametrize("number", [0, 1, 2**56 - 1, 2**56, 2**60 + 5, 2**64 - 1])
def test_an_id_that_only_looks_like_a_made_one_finds_nothing(world: World, number: int) -> None:
    world.define()
    access = world.open()
    access.put(b"A")
    msg_id = world.manager.ids.identifier(1)[:16] + number.to_bytes(8, "big")
    with fails(MQRC.NO_MSG_AVAILABLE):
        access.get(0, MessageDescriptor(msg_id=msg_id), match=BY_MSG_ID)


def test_a_message_has_the_id_made_for_it_after_a_restart(world: World) -> None:
    world.define()
    made = world.open().put(b"A", 0, MessageDescriptor(persistence=1)).entry.msg_id
    world.restart()
    assert world.open().get(0, MessageDescriptor(msg_id=made), match=BY_MSG_ID).entry.msg_id == made
