"""Expiry (semantics 12.1). Times are in tenths of a second in descriptors, in seconds on the clock."""

from __future__ import annotations

import pytest

from broker.core.calls.expiring import expire
from broker.core.queues.effects import Grant
from broker.core.queues.shelf.views import Search
from broker.mqi import MQGMO, MQMF, MQPMO, MQRC, GetMessageOptions, MessageDescriptor
from tests.core.world import START_TIME, Access, Wait, World, fails, name_of

PERSISTENT = 1


@pytest.fixture
def access(world: World) -> Access:
    """An empty queue."""
    world.define()
    return world.open()


def put(access: Access, data: bytes, expiry: int, options: int = 0, priority: int = 0) -> None:
    md = MessageDescriptor(expiry=expiry, priority=priority, persistence=PERSISTENT, correl_id=name_of(data.decode()))
    access.put(data, options, md)


@pytest.mark.parametrize(("waited", "there"), [(0.0, True), (0.9, True), (1.0, False), (1.2, False)])
@pytest.mark.parametrize("options", [0, MQGMO.SYNCPOINT, MQGMO.BROWSE_FIRST, MQGMO.BROWSE_NEXT])
def test_t12_1_a_message_whose_time_is_up_is_never_returned(
    world: World, access: Access, options: MQGMO, waited: float, *, there: bool
) -> None:
    put(access, b"A", 10)
    world.pass_time(waited)
    assert access.queue.depth == 1
    if there:
        assert access.get(options).data == b"A"
    else:
        with fails(MQRC.NO_MSG_AVAILABLE):
            access.get(options)
        assert (access.queue.depth, world.store.messages) == (0, {})


def test_t12_2_the_time_left_is_counted_from_the_put(world: World, access: Access) -> None:
    put(access, b"A", 600)
    world.pass_time(2)
    deadline = access.get().entry.deadline
    assert deadline is not None
    assert deadline - world.now == pytest.approx(58)


def test_a_message_without_expiry_never_expires(world: World, access: Access) -> None:
    put(access, b"A", -1)
    world.pass_time(1e9)
    assert access.get().entry.deadline is None


def test_under_syncpoint_too_the_time_is_counted_from_the_put(world: World, access: Access) -> None:  # B16
    put(access, b"A", 10, MQPMO.SYNCPOINT)
    world.pass_time(2)
    access.program.commit()
    with fails(MQRC.NO_MSG_AVAILABLE):
        access.get()


def test_only_what_would_have_been_returned_is_discarded(world: World, access: Access) -> None:
    for data, priority in ((b"A", 5), (b"B", 3), (b"C", 1)):
        put(access, data, 10, priority=priority)
    access.put(b"live", 0, MessageDescriptor(priority=3))
    world.pass_time(2)
    assert access.get(0, MessageDescriptor(correl_id=name_of("A")), match=0).data == b"live"
    assert [entry.data for entry in access.queue.shelf.entries.values()] == [b"C"]


def test_a_get_by_id_discards_no_other_message(world: World, access: Access) -> None:
    put(access, b"A", 10)
    put(access, b"B", 10)
    world.pass_time(2)
    with fails(MQRC.NO_MSG_AVAILABLE):
        access.get(0, MessageDescriptor(correl_id=name_of("B")))
    assert [entry.data for entry in access.queue.shelf.entries.values()] == [b"A"]


def test_until_it_is_discarded_a_message_counts_towards_maxdepth_but_a_put_makes_room(world: World) -> None:
    queue = world.define(MAXDEPTH=2)
    access = world.open()
    put(access, b"A", 10)
    access.put(b"B")
    with fails(MQRC.Q_FULL):
        access.put(b"C")
    world.pass_time(2)
    assert queue.depth == 2
    access.put(b"C")
    assert access.drain() == [b"B", b"C"]


def test_the_scan_discards_what_is_overdue_and_nothing_else(world: World, access: Access) -> None:
    for data, expiry in ((b"A", 10), (b"B", 30), (b"C", 20), (b"D", -1)):
        put(access, data, expiry)
    put(access, b"E", 10, MQPMO.SYNCPOINT)
    world.pass_time(2)
    expire(world.manager, access.queue, world.now)
    assert {entry.data for entry in world.manager.effects.expired} == {b"A", b"C"}
    world.perform()
    assert access.queue.depth == 3
    world.manager.check_invariants()


@pytest.mark.parametrize("commit", [True, False])
def test_a_message_that_expires_in_a_unit_of_work_is_expired_only_after_a_backout(
    world: World, access: Access, *, commit: bool
) -> None:
    put(access, b"A", 10)
    access.get(MQGMO.SYNCPOINT)
    world.pass_time(2)
    if commit:
        access.program.commit()
        assert access.queue.depth == 0
    else:
        access.program.backout()
        assert access.queue.depth == 1
        with fails(MQRC.NO_MSG_AVAILABLE):
            access.get()


@pytest.mark.parametrize("waited", [1.0, 2.0])
def test_a_message_that_expired_under_the_cursor_is_not_there(world: World, access: Access, waited: float) -> None:
    put(access, b"A", 10)
    access.get(MQGMO.BROWSE_FIRST)
    world.pass_time(waited)
    for options in (MQGMO.BROWSE_MSG_UNDER_CURSOR, MQGMO.MSG_UNDER_CURSOR):
        with fails(MQRC.NO_MSG_UNDER_CURSOR):
            access.get(options)


@pytest.mark.parametrize("waited_for", ["anything", "its id", "browse"])
@pytest.mark.parametrize("came_by", ["commit", "backout"])
def test_a_message_that_is_expired_when_it_becomes_available_serves_no_wait(
    world: World, access: Access, came_by: str, waited_for: str
) -> None:
    put(access, b"A", 10, MQPMO.SYNCPOINT if came_by == "commit" else 0)
    if came_by == "backout":
        access.get(MQGMO.SYNCPOINT)
    wait = _wait(world.open(), waited_for)
    world.pass_time(2)
    if came_by == "commit":
        access.program.commit()
    else:
        access.program.backout()
    assert wait.waits
    assert access.queue.depth == 0
    world.manager.check_invariants()
    put(access, b"A", 10)
    assert wait.message is not None


def test_a_message_keeps_its_deadline_over_a_restart(world: World, access: Access) -> None:
    put(access, b"A", 10)
    put(access, b"B", 50)
    world.pass_time(2)
    world.restart()
    again = world.open()
    assert again.queue.depth == 2
    assert again.get().entry.deadline == START_TIME + 5
    assert again.queue.depth == 0


def _wait(access: Access, waited_for: str) -> Wait:
    if waited_for == "browse":
        return access.wait(MQGMO.BROWSE_FIRST)
    return access.wait(0, MessageDescriptor(correl_id=name_of("A")) if waited_for == "its id" else None)


def test_of_many_expired_messages_those_that_a_whole_group_lacks_are_looked_for(
    world: World, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.core.calls.gets.choosing.EXPIRED_AT_ONCE", 2)
    monkeypatch.setattr("broker.core.calls.expiring.EXPIRED_AT_ONCE", 2)
    for data, expiry, group, number in (
        (b"1", -1, "A", 1), (b"2", 30, "A", 2), (b"3", -1, "B", 1), (b"4", -1, "B", 2),
    ):  # fmt: skip
        flags = MQMF.LAST_MSG_IN_GROUP if number == 2 else MQMF.MSG_IN_GROUP
        md = MessageDescriptor(expiry=expiry, group_id=name_of(group), msg_seq_number=number, msg_flags=int(flags))
        access.put(data, 0, md)
    for data in (b"X", b"Y"):
        put(access, data, 10)
    world.pass_time(5)
    gmo = GetMessageOptions(options=int(MQGMO.ALL_MSGS_AVAILABLE))
    grant = world.manager.get(access.handle, access.queue, None, gmo, None, world.now)
    assert isinstance(grant, Grant)
    assert grant.entries[0].data == b"3"
    world.granted(grant)


def test_a_whole_group_is_not_given_when_the_look_ends_with_a_message_of_it_expired(
    world: World, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.core.calls.gets.choosing.EXPIRED_AT_ONCE", 1)
    monkeypatch.setattr("broker.core.calls.expiring.EXPIRED_AT_ONCE", 1)
    put(access, b"X", 10)
    for data, expiry, flags in ((b"1", -1, MQMF.MSG_IN_GROUP), (b"2", 30, MQMF.LAST_MSG_IN_GROUP)):
        number = int(data)
        md = MessageDescriptor(expiry=expiry, group_id=name_of("A"), msg_seq_number=number, msg_flags=int(flags))
        access.put(data, 0, md)
    world.pass_time(5)
    gmo = GetMessageOptions(options=int(MQGMO.ALL_MSGS_AVAILABLE))
    found = world.manager.get(access.handle, access.queue, None, gmo, None, world.now)
    assert isinstance(found, Search)
    for _ in found.steps:
        world.perform()
    assert access.queue.depth == 1
    with fails(MQRC.NO_MSG_AVAILABLE):
        access.get(MQGMO.ALL_MSGS_AVAILABLE)
