"""Waiting gets: who is served, and what ends a wait (semantics 5.3)."""

from __future__ import annotations

import pytest

from broker.core.calls.puts import handoff
from broker.mqi import MQGMO, MQMF, MQMO, MQOO, MQPMO, MQRC, MessageDescriptor, PutMessageOptions
from tests.core.world import ALL, Access, Wait, World, fails, name_of

BROWSE = MQGMO.BROWSE_FIRST
NEXT = MQGMO.BROWSE_NEXT


def correl(name: str) -> MessageDescriptor:
    return MessageDescriptor(correl_id=name_of(name))


def got(*waits: Wait) -> list[str]:
    """Return what each wait brought: the text of the message, the name of the reason, or "waits"."""
    return [
        wait.message.data.decode() if wait.message else wait.ended.name if wait.ended else "waits" for wait in waits
    ]


@pytest.fixture
def access(world: World) -> Access:
    """An empty queue."""
    world.define()
    return world.open()


@pytest.mark.parametrize(
    ("options", "interval", "reason"),
    [
        (MQGMO.WAIT, -2, MQRC.WAIT_INTERVAL_ERROR),
        (0, -2, MQRC.NO_MSG_AVAILABLE),
        (MQGMO.WAIT, 0, MQRC.NO_MSG_AVAILABLE),
    ],
)
def test_t5_1_the_wait_interval_is_looked_at_only_with_wait(
    access: Access, options: MQGMO, interval: int, reason: MQRC
) -> None:
    with fails(reason):
        access.get(options, wait_interval=interval)


def test_a_suitable_message_that_is_there_is_given_without_a_wait(access: Access) -> None:
    access.put(b"A")
    assert access.get(MQGMO.WAIT, wait_interval=-1).data == b"A"


def test_t5_2_those_who_ask_for_a_message_come_before_those_who_take_any(world: World, access: Access) -> None:
    any_, wanted = world.open().wait(), world.open().wait(0, correl("X"))
    access.put(b"X", 0, correl("X"))
    assert got(any_, wanted) == ["waits", "X"]
    access.put(b"Y", 0, correl("Y"))
    assert got(any_, wanted) == ["Y", "X"]


@pytest.mark.parametrize(
    "wanted",
    [
        (MQMO.MATCH_CORREL_ID, correl("X")),
        (MQMO.MATCH_MSG_ID, MessageDescriptor(msg_id=name_of("M"))),
        (MQMO.MATCH_MSG_ID | MQMO.MATCH_CORREL_ID, MessageDescriptor(msg_id=name_of("M"), correl_id=name_of("X"))),
        (MQMO.MATCH_MSG_SEQ_NUMBER, MessageDescriptor()),
        (MQMO.MATCH_OFFSET | MQMO.MATCH_CORREL_ID, correl("X")),
    ],
    ids=["CorrelId", "MsgId", "both", "sequence number", "offset and CorrelId"],
)
def test_whatever_is_asked_for_comes_before_general_waiters(
    world: World, access: Access, wanted: tuple[MQMO, MessageDescriptor]
) -> None:
    match, md = wanted
    general, specific = world.open().wait(), world.open().wait(0, md, match=match)
    access.put(b"A", 0, MessageDescriptor(msg_id=name_of("M"), correl_id=name_of("X")))
    assert got(general, specific) == ["waits", "A"]


def test_inside_a_class_the_first_to_come_is_the_first_served(world: World, access: Access) -> None:  # B15
    general = [world.open().wait() for _ in range(3)]
    md = MessageDescriptor(msg_id=name_of("M"), correl_id=name_of("X"))
    specific = [
        world.open().wait(0, correl("X")),
        world.open().wait(0, MessageDescriptor(msg_id=name_of("M"))),
        world.open().wait(0, md, match=MQMO.MATCH_MSG_SEQ_NUMBER),
        world.open().wait(0, correl("X")),
    ]
    for data in (b"1", b"2", b"3", b"4", b"5"):
        access.put(data, 0, md)
    assert got(*specific, *general) == ["1", "2", "3", "4", "5", "waits", "waits"]


def test_t5_3_all_browsers_are_served_and_the_message_stays(world: World, access: Access) -> None:
    waits = [world.open().wait(BROWSE), world.open().wait(NEXT)]
    access.put(b"A")
    assert got(*waits) == ["A", "A"]
    assert access.queue.depth == 1


def test_browsers_are_served_before_one_destructive_getter(world: World, access: Access) -> None:
    waits = [world.open().wait(), world.open().wait(), world.open().wait(BROWSE)]
    access.put(b"A")
    assert got(*waits) == ["A", "waits", "A"]
    assert access.queue.depth == 0


def test_a_browse_that_waits_asks_for_what_is_behind_its_cursor(world: World, access: Access) -> None:
    access.put(b"A", 0, MessageDescriptor(priority=5))
    browser = world.open()
    browser.get(NEXT)
    wait = browser.wait(NEXT)
    access.put(b"high", 0, MessageDescriptor(priority=6))
    assert got(wait) == ["waits"]
    access.put(b"same", 0, MessageDescriptor(priority=5))
    assert got(wait) == ["same"]
    assert browser.get(MQGMO.BROWSE_MSG_UNDER_CURSOR).data == b"same"


def test_a_browse_that_waits_is_not_given_the_message_under_its_cursor_again(world: World, access: Access) -> None:
    access.put(b"A")
    browser, other = world.open(), world.open()
    browser.get(NEXT)
    other.get(MQGMO.SYNCPOINT)
    wait = browser.wait(NEXT)
    other.program.backout()
    assert got(wait) == ["waits"]


def test_a_browser_waits_for_the_id_that_it_asks_for(world: World, access: Access) -> None:
    wait = world.open().wait(BROWSE, correl("X"))
    access.put(b"Y", 0, correl("Y"))
    access.put(b"X", 0, correl("X"))
    assert got(wait) == ["X"]


def test_a_browse_that_takes_a_mark_off_lets_one_have_the_message_who_waits_for_it(
    world: World, access: Access
) -> None:
    access.put(b"A")
    together = ALL | MQOO.CO_OP
    one, other = world.open("Q", together), world.open("Q", together)
    one.get(BROWSE | MQGMO.MARK_BROWSE_CO_OP)
    wait = other.wait(BROWSE | MQGMO.UNMARKED_BROWSE_MSG)
    one.get(BROWSE | MQGMO.UNMARK_BROWSE_CO_OP)
    world.perform()
    assert got(wait) == ["A"]


def test_an_expired_message_that_comes_back_is_discarded_once_whoever_waits(world: World, access: Access) -> None:
    access.put(b"A", 0, MessageDescriptor(expiry=10))
    other = world.open()
    other.get(MQGMO.SYNCPOINT)
    waits = [world.open().wait(MQGMO.ALL_MSGS_AVAILABLE), world.open().wait()]
    world.pass_time(2)
    other.program.backout()
    assert got(*waits) == ["waits", "waits"]
    assert access.queue.depth == 0


@pytest.mark.parametrize("options", [MQGMO.MSG_UNDER_CURSOR, MQGMO.BROWSE_MSG_UNDER_CURSOR])
def test_a_get_under_the_cursor_never_waits(access: Access, options: MQGMO) -> None:
    with fails(MQRC.NO_MSG_UNDER_CURSOR):
        access.wait(options)


def test_t5_4_inhibiting_gets_ends_every_wait(world: World, access: Access) -> None:
    waits = [world.open().wait(), world.open().wait(0, correl("X")), world.open().wait(BROWSE)]
    world.alter(GET=1)
    assert got(*waits) == ["GET_INHIBITED"] * 3
    access.put(b"A")
    world.alter(GET=0)
    assert access.drain() == [b"A"]


def test_t10_6_an_uncommitted_put_wakes_nobody_until_it_is_committed(world: World, access: Access) -> None:
    wait = world.open().wait()
    access.put(b"A", MQPMO.SYNCPOINT)
    assert got(wait) == ["waits"]
    access.program.commit()
    assert got(wait) == ["A"]


def test_a_put_that_is_backed_out_wakes_nobody(world: World, access: Access) -> None:
    wait = world.open().wait()
    access.put(b"A", MQPMO.SYNCPOINT)
    access.program.backout()
    assert got(wait) == ["waits"]


def test_a_put_wakes_nobody_until_it_is_durable(world: World, access: Access) -> None:
    wait = world.open().wait()
    with world.hold():
        access.put(b"A")
        assert got(wait) == ["waits"]
    assert got(wait) == ["A"]


def test_the_backout_of_another_s_get_satisfies_a_wait(world: World, access: Access) -> None:
    access.put(b"A")
    other = world.open()
    other.get(MQGMO.SYNCPOINT)
    wait = access.wait()
    other.program.backout()
    assert got(wait) == ["A"]
    assert wait.message is not None
    assert wait.message.entry.backout_count == 1


def test_a_wait_may_be_under_syncpoint(world: World, access: Access) -> None:
    getter = world.open()
    wait = getter.wait(MQGMO.SYNCPOINT)
    access.put(b"A")
    assert got(wait) == ["A"]
    assert access.queue.depth == 0
    getter.program.backout()
    assert access.drain() == [b"A"]


def test_a_waiter_whose_unit_is_full_ends_and_the_next_one_is_served(world: World, access: Access) -> None:
    world.alter_manager(MAXUMSGS=1)
    full, other = world.open(), world.open()
    full.put(b"in the unit", MQPMO.SYNCPOINT)
    waits = [full.wait(MQGMO.SYNCPOINT), other.wait()]
    access.put(b"A")
    assert got(*waits) == ["SYNCPOINT_LIMIT_REACHED", "A"]
    full.program.commit()
    assert access.drain() == [b"in the unit"]


def test_a_waiter_with_too_small_a_buffer_is_told_and_the_next_one_is_served(world: World, access: Access) -> None:
    waits = [world.open().wait(max_length=1), world.open().wait()]
    access.put(b"ABC")
    assert waits[0].message is not None
    assert waits[0].message.reason == MQRC.TRUNCATED_MSG_FAILED
    assert got(waits[1]) == ["ABC"]


def test_closing_the_handle_ends_its_waits_and_no_others(world: World, access: Access) -> None:
    program = world.connect()
    mine, other = program.open(), program.open()
    waits = [mine.wait(), mine.wait(0, correl("X")), other.wait()]
    mine.close()
    assert got(*waits) == ["HOBJ_ERROR", "HOBJ_ERROR", "waits"]
    access.put(b"A")
    assert got(waits[2]) == ["A"]
    other.close()
    assert waits[2].ended is None


def test_a_wait_that_timed_out_is_given_nothing_any_more(access: Access) -> None:
    wait = access.wait()
    access.time_out(wait)
    access.put(b"A")
    assert got(wait) == ["NO_MSG_AVAILABLE"]
    assert access.drain() == [b"A"]


def test_quiescing_ends_the_waits_that_asked_for_it(world: World, access: Access) -> None:
    waits = [world.open().wait(MQGMO.FAIL_IF_QUIESCING), world.open().wait()]
    world.manager.quiesce()
    world.perform()
    assert got(*waits) == ["Q_MGR_QUIESCING", "waits"]
    access.put(b"A")
    assert got(waits[1]) == ["A"]


def test_deleting_the_queue_ends_every_wait(world: World, access: Access) -> None:
    waits = [access.wait(), world.open("Q", ALL).wait(BROWSE)]
    world.delete()
    assert got(*waits) == ["Q_DELETED"] * 2


def test_a_message_put_and_taken_by_a_waiter_leaves_no_trace(world: World, access: Access) -> None:
    queue = access.queue
    md = MessageDescriptor(correl_id=name_of("X"), persistence=1)
    wait = world.open().wait(0, correl("X"))
    access.put(b"A", 0, md)
    assert got(wait) == ["A"]
    assert (queue.depth, queue.uncommitted, queue.shelf.entries, queue.waiters.count) == (0, 0, {}, 0)
    assert world.store.messages == {}


def test_lines_of_waiters_that_are_empty_are_forgotten(world: World, access: Access) -> None:
    waits = [world.open().wait(0, correl(name)) for name in "XYZ"]
    waits += [world.open().wait(0, MessageDescriptor(msg_id=name_of(name))) for name in "MN"]
    assert access.queue.waiters.count == 5
    for wait in waits:
        access.time_out(wait)
    assert list(access.queue.waiters) == []
    access.put(b"A", 0, MessageDescriptor(msg_id=name_of("M"), correl_id=name_of("X")))
    assert access.drain() == [b"A"]


def test_a_message_whose_time_is_up_is_not_handed_to_who_waits_for_it(world: World, access: Access) -> None:
    wait = world.open().wait()
    put = access.put_of(MessageDescriptor(expiry=10), PutMessageOptions(), b"A")
    placed, unit, _ = world.manager.put(put, world.moment)
    assert unit is not None
    assert handoff.awaited(unit, world.now)
    assert not handoff.awaited(unit, world.now + 2)  # a clock may step between the call and the meeting
    world.end_unit(unit, commit=True)
    assert wait.message is not None
    assert wait.message.entry is placed


def test_a_put_is_not_handed_to_one_getter_where_another_gets_the_whole_group_with_it(
    world: World, access: Access
) -> None:
    last = MessageDescriptor(group_id=name_of("G"), msg_flags=int(MQMF.LAST_MSG_IN_GROUP))
    whole = world.open().wait(MQGMO.ALL_MSGS_AVAILABLE | MQGMO.SYNCPOINT, last, match=MQMO.MATCH_GROUP_ID)
    general = world.open().wait()
    entry, unit, _ = world.manager.put(access.put_of(last, PutMessageOptions(), b"A"), world.moment)
    assert unit is not None
    assert not handoff.awaited(unit, world.now)
    world.end_unit(unit, commit=True)
    assert got(whole, general) == ["A", "waits"]
    assert whole.message is not None
    assert whole.message.entry is entry
