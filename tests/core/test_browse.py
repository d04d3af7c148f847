"""The browse cursor (semantics 8)."""

from __future__ import annotations

import pytest

from broker.mqi import MQGMO, MQOO, MQPMO, MQRC, MessageDescriptor
from tests.core.world import Access, World, fails, name_of

FIRST = MQGMO.BROWSE_FIRST
NEXT = MQGMO.BROWSE_NEXT
AGAIN = MQGMO.BROWSE_MSG_UNDER_CURSOR
TAKE = MQGMO.MSG_UNDER_CURSOR
FIFO = 1


def put(access: Access, *messages: str) -> None:
    """Put messages: each is named by a letter, its priority may follow ("A5")."""
    for message in messages:
        access.put(message[:1].encode(), 0, MessageDescriptor(priority=int(message[1:] or 0)))


def browse(access: Access, options: MQGMO = NEXT) -> str:
    return access.get(options).data.decode()


def sweep(access: Access) -> str:
    """Return what BROWSE_NEXT finds until there is no more."""
    found = ""
    while True:
        wait = access.wait(NEXT, wait_interval=-1)
        if wait.message is None:
            access.time_out(wait)
            return found
        found += wait.message.data.decode()


def test_t8_1_the_cursor_stays_at_the_end_and_later_arrivals_are_found(world: World) -> None:
    world.define(MSGDLVSQ=FIFO)
    access = world.open()
    put(access, "A", "B")
    assert [browse(access), browse(access)] == ["A", "B"]
    with fails(MQRC.NO_MSG_AVAILABLE):
        browse(access)
    put(access, "C9")
    assert browse(access) == "C"


def test_t8_2_arrivals_before_the_cursor_are_not_seen_before_browse_first(world: World) -> None:
    world.define()
    access = world.open()
    put(access, "A5", "B3")
    assert browse(access) == "A"
    put(access, "C7", "D5", "E4")
    assert sweep(access) == "DEB"
    assert browse(access, FIRST) == "C"


def test_t8_3_a_commit_does_not_move_a_message_to_where_the_cursor_will_come_by(world: World) -> None:
    world.define(MSGDLVSQ=FIFO)
    access, other = world.open(), world.open()
    put(access, "A")
    other.put(b"B", MQPMO.SYNCPOINT)
    put(access, "C")
    assert sweep(access) == "AC"
    other.program.commit()
    assert sweep(access) == ""
    assert browse(access, FIRST) + browse(access) == "AB"


def test_t8_4_the_place_of_a_message_that_went_is_kept(world: World) -> None:
    world.define()
    access, other = world.open(), world.open()
    put(access, "A", "B")
    assert browse(access) == "A"
    assert browse(other, MQGMO.NONE) == "A"
    for options in (AGAIN, TAKE):
        with fails(MQRC.NO_MSG_UNDER_CURSOR):
            access.get(options)
    assert browse(access) == "B"


def test_t8_5_there_is_nothing_under_a_cursor_that_was_never_moved(world: World) -> None:
    world.define()
    put(world.open(), "A")
    for options in (TAKE, AGAIN):
        with fails(MQRC.NO_MSG_UNDER_CURSOR):
            world.open().get(options)
    with fails(MQRC.NOT_OPEN_FOR_INPUT):
        world.open("Q", MQOO.BROWSE).get(TAKE)
    with fails(MQRC.NOT_OPEN_FOR_BROWSE):
        world.open("Q", MQOO.INPUT_SHARED).get(TAKE)


def test_t8_6_every_handle_has_a_cursor_of_its_own(world: World) -> None:
    world.define()
    program = world.connect()
    first, second = program.open(), program.open()
    put(first, "A", "B")
    assert browse(first) + browse(first) == "AB"
    assert browse(second) == "A"


def test_t8_7_a_browse_next_that_fails_by_truncation_does_not_move_the_cursor(world: World) -> None:
    world.define()
    access = world.open()
    access.put_all([b"A", b"B" * 20])
    browse(access)
    assert access.get(NEXT, max_length=10).reason == MQRC.TRUNCATED_MSG_FAILED
    assert browse(access, AGAIN) == "A"
    assert access.get(NEXT, max_length=20).data == b"B" * 20


def test_t5_12_a_browse_first_that_fails_by_truncation_puts_the_cursor_before_the_first_message(world: World) -> None:
    # B12
    world.define()
    access = world.open()
    access.put_all([b"A" * 20, b"B"])
    assert browse(access) == "A" * 20
    assert browse(access) == "B"
    assert access.get(FIRST, max_length=10).reason == MQRC.TRUNCATED_MSG_FAILED
    with fails(MQRC.NO_MSG_UNDER_CURSOR):
        access.get(AGAIN)
    assert browse(access) == "A" * 20


@pytest.mark.parametrize("options", [AGAIN, TAKE])
def test_a_call_under_the_cursor_that_fails_by_truncation_does_not_move_it(world: World, options: MQGMO) -> None:
    world.define()
    access = world.open()
    access.put_all([b"A", b"B" * 20])
    assert sweep(access) == "A" + "B" * 20
    assert access.get(options, max_length=10).reason == MQRC.TRUNCATED_MSG_FAILED
    assert browse(access, AGAIN) == "B" * 20


def test_t8_8_messages_keep_their_places_when_the_delivery_sequence_changes(world: World) -> None:
    world.define(DEFPRTY=4)
    access = world.open()
    put(access, "A2", "B6")
    world.alter(MSGDLVSQ=FIFO)
    put(access, "C9", "D0")
    assert access.drain() == [b"B", b"C", b"D", b"A"]


def test_messages_that_came_under_fifo_keep_the_default_priority_as_their_rank(world: World) -> None:
    world.define(MSGDLVSQ=FIFO, DEFPRTY=4)
    access = world.open()
    put(access, "A9", "B0")
    world.alter(MSGDLVSQ=0)
    put(access, "C5", "D3", "E4")
    assert access.drain() == [b"C", b"A", b"B", b"E", b"D"]


def test_a_fresh_cursor_is_before_everything_that_came_since_the_open(world: World) -> None:  # B9
    world.define()
    access = world.open()
    put(access, "A3", "B9")
    assert browse(access) == "B"


@pytest.mark.parametrize("ends", [False, True])
def test_a_message_in_a_unit_of_work_is_not_under_the_cursor_until_it_is_backed_out(
    world: World, *, ends: bool
) -> None:
    world.define()
    access, other = world.open(), world.open()
    put(access, "A", "B")
    browse(access)
    other.get(MQGMO.SYNCPOINT)
    if ends:
        other.program.backout()
        assert browse(access, AGAIN) == "A"
        assert access.get(TAKE).entry.backout_count == 1
    else:
        with fails(MQRC.NO_MSG_UNDER_CURSOR):
            access.get(AGAIN)


def test_a_message_backed_out_behind_the_cursor_is_missed_by_the_sweep(world: World) -> None:
    world.define()
    access, other = world.open(), world.open()
    put(access, "A", "B")
    other.get(MQGMO.SYNCPOINT)
    assert browse(access) == "B"
    other.program.backout()
    assert sweep(access) == ""
    assert browse(access, FIRST) == "A"


def test_a_get_under_the_cursor_ignores_what_it_was_told_to_match(world: World) -> None:
    world.define()
    access = world.open()
    put(access, "A", "B")
    assert sweep(access) == "AB"
    assert access.get(TAKE, MessageDescriptor(msg_id=name_of("X")), match=0x40).data == b"B"
    with fails(MQRC.NO_MSG_UNDER_CURSOR):
        access.get(TAKE)
    put(access, "C")
    assert browse(access) == "C"


def test_a_get_under_the_cursor_may_be_under_syncpoint(world: World) -> None:
    world.define()
    access = world.open()
    put(access, "A", "B")
    assert browse(access) == "A"
    assert access.get(TAKE | MQGMO.SYNCPOINT).data == b"A"
    access.program.backout()
    assert access.drain() == [b"A", b"B"]


def test_destructive_gets_and_browses_under_the_cursor_do_not_move_it(world: World) -> None:
    world.define()
    access = world.open()
    put(access, "A", "B", "C", "D")
    assert browse(access) == "A"
    assert browse(access, AGAIN) == "A"
    assert access.get(0, MessageDescriptor(msg_id=_id_of(access, b"C"))).data == b"C"
    assert browse(access) == "B"


def test_browsing_with_an_id_finds_the_next_that_carries_it(world: World) -> None:
    world.define()
    access = world.open()
    for data, correl in ((b"1", "X"), (b"2", "Y"), (b"3", "X"), (b"4", "X")):
        access.put(data, 0, MessageDescriptor(correl_id=name_of(correl)))
    md = MessageDescriptor(correl_id=name_of("X"))
    assert [access.get(NEXT, md).data for _ in range(3)] == [b"1", b"3", b"4"]
    with fails(MQRC.NO_MSG_AVAILABLE):
        access.get(NEXT, md)
    assert access.get(FIRST, MessageDescriptor(correl_id=name_of("Y"))).data == b"2"
    assert access.get(NEXT, md).data == b"3"


def test_a_browse_never_changes_the_queue(world: World) -> None:
    queue = world.define()
    access = world.open()
    put(access, "A5", "B3")
    before = [(entry.key, entry.state, entry.backout_count) for entry in queue.shelf.entries.values()]
    assert sweep(access) == "AB"
    assert [(entry.key, entry.state, entry.backout_count) for entry in queue.shelf.entries.values()] == before
    assert (queue.depth, queue.uncommitted) == (2, 0)


def _id_of(access: Access, data: bytes) -> bytes:
    return next(entry.msg_id for entry in access.queue.shelf.entries.values() if entry.data == data)


@pytest.mark.parametrize("options", [NEXT, NEXT | MQGMO.LOCK])
def test_table_5_5_a_browse_that_had_to_wait_releases_what_its_handle_has_locked_meanwhile(
    world: World, options: int
) -> None:
    world.define()
    access, other = world.open(), world.open()
    put(access, "A")
    browse(access)
    waits = access.wait(options)
    browse(access, FIRST | MQGMO.LOCK)
    world.manager.check_invariants()
    put(other, "B")
    assert waits.message is not None
    world.manager.check_invariants()
    assert other.drain() == ([b"A"] if options & MQGMO.LOCK else [b"A", b"B"])
    access.close()
    assert other.drain() == ([b"B"] if options & MQGMO.LOCK else [])


def test_table_5_5_what_that_releases_goes_to_who_waits_for_it(world: World) -> None:
    world.define()
    access, other = world.open(), world.open()
    put(access, "A")
    browse(access)
    access.wait(NEXT | MQGMO.LOCK)
    browse(access, FIRST | MQGMO.LOCK)
    waits = other.wait()
    put(world.open(), "B")
    assert waits.message is not None
    assert waits.message.data == b"A"
