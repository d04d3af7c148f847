"""Messages whose data is damaged, in the core: who is given them, and what they count for (semantics 5.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.core.calls import releasing
from broker.core.message.entry import AVAILABLE, DAMAGED, DELAYED, GET_PENDING
from broker.core.message.handling import Handling
from broker.mqi import MQGMO, MQMO, MQRC, MessageDescriptor
from tests.core.triggered import EVERY, FIRST, TRIGGERED, open_and_close, put, take
from tests.core.world import fails

if TYPE_CHECKING:
    from broker.core.message.entry import Entry
    from broker.core.queues.queue import LocalQueue
    from tests.core.world import World


@pytest.fixture
def queue(world: World) -> LocalQueue:
    return world.define()


def on(queue: LocalQueue, place: int = 0) -> Entry:
    """The message that arrived so many messages after the first."""
    return list(queue.shelf.entries.values())[place]


def damage(world: World, entry: Entry) -> bool:
    news = world.manager.set_aside(entry, "why")
    world.perform()
    world.manager.check_invariants()
    return news


def test_it_counts_in_the_depth_and_is_news_once(world: World, queue: LocalQueue) -> None:
    access = world.open()
    access.put_all((b"A", b"B"))
    assert [damage(world, on(queue)), damage(world, on(queue))] == [True, False]
    assert (queue.depth, queue.message_count, access.drain()) == (2, 1, [b"B"])


def test_one_in_a_unit_of_work_is_set_aside_when_it_comes_back(world: World, queue: LocalQueue) -> None:
    access = world.open()
    access.put(b"A")
    access.get(MQGMO.SYNCPOINT)
    assert damage(world, on(queue))
    assert on(queue).state == GET_PENDING
    access.program.backout()
    assert on(queue).state == DAMAGED
    assert access.drain() == []


def test_one_that_leaves_its_queue_is_forgotten(world: World, queue: LocalQueue) -> None:
    access = world.open()
    access.put(b"A")
    access.get(MQGMO.SYNCPOINT)
    damage(world, on(queue))
    access.program.commit()
    assert (queue.shelf.damaged, queue.message_count, queue.depth) == ({}, 0, 0)
    world.manager.check_invariants()


def test_one_that_has_gone_is_nobodys_damage(world: World, queue: LocalQueue) -> None:
    access = world.open()
    access.put(b"A")
    entry = on(queue)
    access.get()
    assert not damage(world, entry)
    assert queue.shelf.damaged == {}


def test_a_get_by_another_identifier_goes_on_behind_it(world: World, queue: LocalQueue) -> None:
    """Many messages may have this CorrelId: it names none of them."""
    access = world.open()
    md = MessageDescriptor(correl_id=b"C" * 24)
    for data in (b"A", b"B"):
        access.put(data, md=md)
    damage(world, on(queue))
    assert access.get(md=md, match=MQMO.MATCH_CORREL_ID).data == b"B"
    with fails(MQRC.NO_MSG_AVAILABLE):
        access.get(md=md, match=MQMO.MATCH_CORREL_ID)


def test_another_message_with_its_msg_id_is_given(world: World, queue: LocalQueue) -> None:
    access = world.open()
    md = MessageDescriptor(msg_id=b"M" * 24)
    for data in (b"A", b"B"):
        access.put(data, md=md)
    damage(world, on(queue))
    assert access.get(md=md).data == b"B"
    with fails(MQRC.OBJECT_DAMAGED):
        access.get(md=md)


def test_when_its_time_is_up_it_is_no_longer_damaged_but_expired(world: World, queue: LocalQueue) -> None:
    access = world.open()
    access.put(b"A", md=MessageDescriptor(msg_id=b"M" * 24, expiry=10))
    access.get(MQGMO.BROWSE_FIRST)
    damage(world, on(queue))
    wanted = MessageDescriptor(msg_id=b"M" * 24)
    with fails(MQRC.OBJECT_DAMAGED):
        access.get(MQGMO.BROWSE_MSG_UNDER_CURSOR)
    world.pass_time(2)
    with fails(MQRC.NO_MSG_UNDER_CURSOR):
        access.get(MQGMO.BROWSE_MSG_UNDER_CURSOR)
    with fails(MQRC.NO_MSG_AVAILABLE):
        access.get(md=wanted)
    for _ in world.manager.expiry([queue], world.moment.wall):
        world.perform()
    assert (queue.depth, queue.shelf.damaged) == (0, {})
    world.manager.check_invariants()


def test_the_lock_on_it_ends_and_so_does_the_wait_for_it(world: World, queue: LocalQueue) -> None:
    locking, waiting = world.open(), world.connect().open()
    locking.put(b"A")
    locking.get(MQGMO.BROWSE_FIRST | MQGMO.LOCK)
    msg_id = on(queue).msg_id
    wait = waiting.wait(md=MessageDescriptor(msg_id=msg_id))
    assert wait.waits
    damage(world, on(queue))
    assert (wait.ended, on(queue).state) == (MQRC.OBJECT_DAMAGED, DAMAGED)


def test_a_clear_that_finds_no_room_leaves_it_where_it_was(world: World, queue: LocalQueue) -> None:
    """It is found damaged again when somebody wants it."""
    world.open().put(b"A")
    damage(world, on(queue))
    unit = world.manager.clear(queue, 10)
    assert list(unit.gets) == [on(queue)]
    world.end_unit(unit, commit=False)
    assert on(queue).state == AVAILABLE
    world.manager.check_invariants()


def test_a_start_that_is_given_back_is_pending_only_for_messages_that_can_be_got(world: World) -> None:
    world.define_process()
    queue, monitor = world.define(**TRIGGERED, TRIGTYPE=EVERY), world.connect()
    put(world, 0, 0)
    leases = take(world, queue, 10, monitor)
    damage(world, on(queue))
    for lease in leases:
        world.manager.triggers.give_back(monitor.hconn, lease)
    assert queue.pending_starts == 1


def test_first_is_met_by_the_first_message_beside_damaged_ones_and_not_by_a_close(world: World) -> None:
    world.define_process()
    queue = world.define(**TRIGGERED, TRIGTYPE=FIRST)
    put(world, 0)
    take(world, queue)
    damage(world, on(queue))
    open_and_close(world)
    assert queue.pending_starts == 0
    put(world, 0)
    assert queue.pending_starts == 1


def test_one_that_waits_for_an_instant_is_set_aside_when_that_comes(world: World, queue: LocalQueue) -> None:
    access = world.open()
    access.put_all((b"A", b"B"))
    access.get(MQGMO.SYNCPOINT)
    waiting = on(queue)
    waiting.handling = Handling(world.now + 5)
    access.program.backout()
    assert waiting.state == DELAYED
    assert [damage(world, waiting), damage(world, waiting)] == [True, False]
    assert queue.message_count == 1
    world.tick += 5
    world.now += 5
    while world.manager.delays.prepare(world.moment):
        pass
    assert releasing.release_due(world.manager, world.moment, 10) == 1
    world.perform()
    world.manager.check_invariants()
    assert (waiting.state, queue.depth, queue.message_count, access.drain()) == (DAMAGED, 2, 1, [b"B"])
