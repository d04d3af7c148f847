"""Units of work: all or nothing, in one step, every message at its own place (semantics 10)."""

from __future__ import annotations

from uuid import UUID

import pytest

from broker.core.calls.savepoint import Savepoint
from broker.core.queues import unit as units
from broker.core.queues.unit import Unit
from broker.mqi import MQGMO, MQMF, MQMO, MQOO, MQPMO, MQRC, MessageDescriptor
from tests.core.world import World, fails, name_of

PUT = MQPMO.SYNCPOINT
GET = MQGMO.SYNCPOINT
PERSISTENT = MessageDescriptor(persistence=1)


def test_t10_1_a_message_put_under_syncpoint_counts_but_nobody_sees_it_before_the_commit(world: World) -> None:
    queue = world.define()
    access = world.open()
    access.put_all([b"A", b"B"], PUT)
    assert queue.depth == 2
    for getter in (access, world.open()):
        for options in (0, GET, MQGMO.BROWSE_FIRST):
            with fails(MQRC.NO_MSG_AVAILABLE):
                getter.get(options)
    access.program.commit()
    assert access.get().data == b"A"


def test_t10_2_a_backout_puts_a_message_back_to_its_place_with_its_backout_count_raised(world: World) -> None:
    world.define()
    mine, other = world.open(), world.open()
    mine.put_all([b"A", b"B", b"C"])
    assert mine.get(GET).data == b"A"
    assert other.get().data == b"B"
    mine.program.backout()
    again = other.get()
    assert (again.data, again.entry.backout_count) == (b"A", 1)
    assert other.get().data == b"C"


def test_t10_3_the_call_beyond_maxumsgs_fails_and_the_unit_stays_usable(world: World) -> None:
    world.alter_manager(MAXUMSGS=3)
    queue = world.define()
    access = world.open()
    access.put_all([b"A", b"B", b"C"], PUT)
    with fails(MQRC.SYNCPOINT_LIMIT_REACHED):
        access.put(b"D", PUT)
    access.put(b"outside")
    access.program.commit()
    assert queue.depth == 4
    access.put(b"D", PUT)
    access.program.commit()
    assert access.drain() == [b"A", b"B", b"C", b"outside", b"D"]


def test_puts_and_gets_count_together_towards_maxumsgs(world: World) -> None:
    world.alter_manager(MAXUMSGS=2)
    queue = world.define()
    access = world.open()
    access.put_all([b"A", b"B"])
    access.put(b"C", PUT)
    assert access.get(GET).data == b"A"
    with fails(MQRC.SYNCPOINT_LIMIT_REACHED):
        access.get(GET)
    assert queue.depth == 2
    assert access.get().data == b"B"
    access.program.backout()
    assert access.drain() == [b"A"]


def test_t10_5_closing_the_handle_does_not_end_the_unit(world: World) -> None:
    queue = world.define()
    access = world.open()
    access.put(b"A")
    access.get(GET)
    access.close()
    assert queue.depth == 0
    access.program.backout()
    message = world.open().get()
    assert (message.data, message.entry.backout_count) == (b"A", 1)


def test_t10_8_a_backout_may_raise_the_depth_above_maxdepth(world: World) -> None:
    queue = world.define(MAXDEPTH=1)
    mine, other = world.open(), world.open()
    mine.put(b"A")
    mine.get(GET)
    other.put(b"B")
    assert queue.depth == 1
    mine.program.backout()
    assert queue.depth == 2
    with fails(MQRC.Q_FULL):
        other.put(b"C")
    assert other.drain() == [b"A", b"B"]


def test_calls_outside_syncpoint_are_not_undone_by_a_backout(world: World) -> None:
    world.define()
    access = world.open()
    access.put_all([b"A", b"B"])
    access.put(b"C", PUT)
    access.put(b"D")
    assert access.get(GET).data == b"A"
    assert access.get().data == b"B"
    access.program.backout()
    assert access.drain() == [b"A", b"D"]


def test_the_place_of_a_message_is_decided_when_it_is_put_not_when_it_is_committed(world: World) -> None:
    world.define()
    early, late = world.open(), world.open()
    early.put(b"early", PUT)
    late.put(b"late")
    late.put(b"urgent", 0, MessageDescriptor(priority=9))
    early.program.commit()
    assert late.drain() == [b"urgent", b"early", b"late"]


def test_each_backout_raises_the_count_and_nothing_else_does(world: World) -> None:
    world.define()
    access = world.open()
    access.put(b"A")
    for count in range(1, 4):
        access.get(MQGMO.BROWSE_FIRST)
        access.get(GET)
        access.program.backout()
        assert access.get(MQGMO.BROWSE_FIRST).entry.backout_count == count


def test_a_unit_spans_queues(world: World) -> None:
    world.define("IN")
    world.define("OUT")
    program = world.connect()
    source, target = program.open("IN"), program.open("OUT")
    world.open("IN").put(b"A")
    target.put(source.get(GET).data, PUT)
    program.backout()
    assert (source.queue.depth, target.queue.depth) == (1, 0)
    target.put(source.get(GET).data, PUT)
    program.commit()
    assert (source.queue.depth, target.queue.depth) == (0, 1)
    assert world.open("OUT").drain() == [b"A"]


@pytest.mark.parametrize(("persistence", "joins"), [(0, False), (1, True)], ids=["nonpersistent", "persistent"])
def test_syncpoint_if_persistent_joins_the_unit_only_for_a_persistent_message(
    world: World, persistence: int, *, joins: bool
) -> None:
    queue = world.define()
    access = world.open()
    access.put(b"A", 0, MessageDescriptor(persistence=persistence))
    access.get(MQGMO.SYNCPOINT_IF_PERSISTENT)
    assert (access.program.hconn.unit is not None) == joins
    access.program.backout()
    assert queue.depth == joins


def test_ending_a_unit_that_was_never_begun_does_nothing(world: World) -> None:
    world.define()
    access = world.open()
    access.program.commit()
    access.program.backout()
    access.put(b"A", PUT)
    access.program.commit()
    access.program.backout()
    assert access.drain() == [b"A"]


def test_nothing_of_a_call_is_visible_until_it_is_durable(world: World) -> None:
    """Journal rule 1, outside syncpoint: the put stays pending, the message got is out of sight but not gone."""
    queue = world.define()
    access, other = world.open(), world.open()
    access.put(b"A")
    with world.hold():
        access.put(b"B")
        access.get()
        assert (queue.depth, queue.uncommitted) == (1, 2)
        with fails(MQRC.NO_MSG_AVAILABLE):
            other.get(MQGMO.BROWSE_FIRST)
    assert (queue.depth, queue.uncommitted) == (1, 0)
    assert other.drain() == [b"B"]


def test_a_commit_that_cannot_be_written_is_a_backout(world: World) -> None:
    """Journal rule 6: a full store changes nothing."""
    world.define()
    access, other = world.open(), world.open()
    access.put(b"A", 0, PERSISTENT)
    world.held = True
    access.put(b"B", PUT, PERSISTENT)
    access.get(GET)
    access.program.commit()
    world.settle_next(written=False)
    assert other.drain(MQGMO.SYNCPOINT) == [b"A"]


def test_a_put_outside_syncpoint_that_cannot_be_written_never_was(world: World) -> None:
    queue = world.define()
    access = world.open()
    world.held = True
    access.put(b"A", 0, PERSISTENT)
    world.settle_next(written=False)
    assert (queue.depth, queue.uncommitted, queue.shelf.entries) == (0, 0, {})


def test_a_unit_takes_effect_in_delivery_order_whatever_the_order_of_its_calls(world: World) -> None:
    world.define()
    access = world.open()
    wait = world.open().wait()
    access.put(b"low", PUT, MessageDescriptor(priority=1))
    access.put(b"high", PUT, MessageDescriptor(priority=8))
    access.program.commit()
    assert wait.message is not None
    assert wait.message.data == b"high"
    wait = world.open().wait(0, MessageDescriptor(correl_id=name_of("X")), match=MQMO.MATCH_CORREL_ID)
    assert wait.waits


def test_messages_backed_out_together_are_offered_in_delivery_order(world: World) -> None:
    world.define()
    access = world.open()
    ids = [access.put(data).entry.msg_id for data in (b"A", b"B")]
    for msg_id in reversed(ids):
        access.get(GET, MessageDescriptor(msg_id=msg_id))
    waits = [world.open().wait(), world.open().wait()]
    access.program.backout()
    assert [wait.message.data for wait in waits if wait.message] == [b"A", b"B"]


def test_what_nobody_took_goes_back_to_its_place_and_leaves_the_unit(world: World) -> None:
    world.define()
    access = world.open()
    access.put_all([b"A", b"B"])
    first, second = access.get(GET).entry, access.get(GET).entry
    wait = world.open().wait()
    world.manager.give_back(first, world.now)
    world.perform()
    assert wait.message is not None
    assert (wait.message.data, wait.message.entry.backout_count) == (b"A", 0)
    assert list(access.program.hconn.unit.gets) == [second]  # type: ignore[union-attr]
    access.program.commit()
    world.manager.give_back(second, world.now)
    world.perform()
    assert world.open().drain() == []


def test_what_nobody_took_after_its_removal_is_put_again_at_its_place_with_the_count_raised(world: World) -> None:
    """Journal rule 11."""
    world.define()
    access = world.open()
    access.put(b"A", 0, PERSISTENT)
    access.put(b"B", 0, PERSISTENT)
    unit = world.manager.put_again(access.get().entry)
    assert unit is not None
    world.end_unit(unit, commit=True)
    assert [row.backout_count for row in world.store.load()] == [1, 0]
    message = access.get()
    assert (message.data, message.entry.backout_count) == (b"A", 1)


def test_nothing_is_put_again_to_a_queue_that_was_deleted(world: World) -> None:
    world.define()
    access = world.open()
    access.put(b"A")
    entry = access.get().entry
    world.delete()
    assert world.manager.put_again(entry) is None


@pytest.mark.parametrize("commit", [True, False])
def test_a_unit_ends_quietly_on_a_queue_that_was_deleted_meanwhile(world: World, *, commit: bool) -> None:
    queue = world.define()
    access = world.open()
    access.put(b"A")
    access.get(GET)
    access.put(b"B", PUT)
    world.delete()
    if commit:
        access.program.commit()
    else:
        access.program.backout()
    assert (queue.shelf.entries, queue.depth, queue.uncommitted) == ({}, 0, 0)
    queue.check_invariants()


def test_a_clear_removes_what_is_available(world: World) -> None:
    queue = world.define()
    access = world.open()
    access.put(b"A", 0, PERSISTENT)
    access.put(b"B")
    world.clear()
    assert (queue.depth, queue.shelf.entries, world.store.messages) == (0, {}, {})


def test_a_unit_holds_at_most_so_many_bytes(world: World) -> None:
    world.manager.unit_bytes_max = 10
    queue = world.define()
    access = world.open()
    access.put(bytes(6), PUT)
    with fails(MQRC.STORAGE_NOT_AVAILABLE):
        access.put(bytes(5), PUT)
    access.put(bytes(4), PUT)
    access.put(bytes(11))
    access.program.commit()
    assert queue.depth == 3


def test_a_put_that_is_taken_back_leaves_the_unit_of_work_its_name_in_the_group(world: World) -> None:
    """Queue-sharing rule 10.2.7: what the unit has written before is found by that name when it is committed."""
    world.define("S", QSGDISP=2)
    access = world.open("S", MQOO.OUTPUT)
    hconn = access.program.hconn
    first = access.put(b"A", PUT).entry
    assert hconn.unit is not None
    part = hconn.unit.shared
    assert part is not None
    part.id = UUID(int=7)
    part.placed.clear()  # it is in the database
    saved = Savepoint(hconn, [access.handle])
    access.put(b"B", PUT)
    saved.restore()
    assert hconn.unit.puts == [first]
    assert hconn.unit.shared is part
    assert (part.id, part.placed, part.taken) == (UUID(int=7), [], [])


@pytest.mark.parametrize("state", range(len(units.STATE_NAMES)), ids=units.STATE_NAMES.__getitem__)
def test_a_unit_takes_only_the_steps_of_its_table(state: int) -> None:
    for step in range(len(units.STATE_NAMES)):
        unit = Unit()
        unit.state = state
        if step in units.TRANSITIONS[state]:
            unit.become(step)
            assert unit.state == step
        else:
            with pytest.raises(AssertionError, match=units.STATE_NAMES[state]):
                unit.become(step)


def test_a_commit_that_could_not_be_written_leaves_the_group_where_it_was_before(world: World) -> None:
    world.define()
    access = world.open()
    in_order = PUT | MQPMO.LOGICAL_ORDER
    first = access.put(b"1", in_order, MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP)).entry
    access.program.commit()
    with world.hold():
        access.put(b"2", in_order, MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP))
        access.program.commit()
        world.settle_next(written=False)
    again = access.put(b"2", in_order, MessageDescriptor(msg_flags=MQMF.LAST_MSG_IN_GROUP)).entry
    assert (again.group_id, again.msg_seq_number) == (first.group_id, 2)
