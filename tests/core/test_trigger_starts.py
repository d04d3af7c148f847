"""Starts: how they are taken, leased, given back, and what changes of the queue do to them: R-1, R-11 to R-14."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQOO, MQPMO, MQTMC2, MessageDescriptor
from tests.core.triggered import DEPTH, EVERY, FIRST, OUT, SWITCHED_OFF, TRIGGERED, put, take
from tests.steps import Steps

if TYPE_CHECKING:
    from broker.core.queues.queue import LocalQueue
    from tests.core.world import World


def test_r_1_the_count_falls_when_a_start_is_taken_and_never_below_zero(world: World, every: LocalQueue) -> None:
    put(world, 0, 0, 0)
    assert len(take(world, every, 2)) == 2
    assert every.pending_starts == 1
    assert len(take(world, every, 2)) == 1
    assert take(world, every, 2) == []
    assert every.pending_starts == 0


def test_a_start_says_what_the_definitions_say(world: World) -> None:
    world.define_process("MYPROCESS", APPLICID="APPL", ENVRDATA="MYENVR", USERDATA="TESTING")
    queue = world.define("TESTQ", TRIGGER=1, TRIGTYPE=EVERY, PROCESS="MYPROCESS", TRIGDATA="THISISTRIGGER")
    world.open("TESTQ").put(b"A")
    ((_, message),) = world.manager.triggers.take(queue, world.connect().hconn, 10)
    assert message == bytes(
        MQTMC2(
            q_name="TESTQ",
            process_name="MYPROCESS",
            trigger_data="THISISTRIGGER",
            appl_id="APPL",
            env_data="MYENVR",
            user_data="TESTING",
            q_mgr_name="QM1",
        )
    )
    assert len(message) == 732


def test_a_start_that_is_done_is_over(world: World, every: LocalQueue) -> None:
    monitor = world.connect()
    triggers = world.manager.triggers
    put(world, 0)
    (lease,) = take(world, every, 10, monitor)
    assert triggers.leases.running(every) == 1
    assert triggers.leases.end(monitor.hconn, lease) is every
    assert triggers.leases.end(monitor.hconn, lease) is None
    triggers.give_back(monitor.hconn, lease)
    assert (triggers.leases.running(every), every.pending_starts) == (0, 0)


def test_what_a_broken_connection_held_is_pending_again(world: World, every: LocalQueue) -> None:
    monitor, other = world.connect(), world.connect()
    triggers = world.manager.triggers
    put(world, 0, 0, 0, 0)
    done, *_ = take(world, every, 2, monitor)
    take(world, every, 1, other)
    triggers.leases.end(monitor.hconn, done)
    for lease in triggers.leases.held_by(monitor.hconn):
        triggers.give_back(monitor.hconn, lease)
    assert (every.pending_starts, triggers.leases.running(every)) == (2, 1)
    assert triggers.leases.held_by(monitor.hconn) == []


def test_a_lease_of_another_connection_can_be_neither_done_nor_given_back(world: World, every: LocalQueue) -> None:
    monitor, other = world.connect(), world.connect()
    triggers = world.manager.triggers
    put(world, 0)
    (lease,) = take(world, every, 10, monitor)
    assert triggers.leases.end(other.hconn, lease) is None
    triggers.give_back(other.hconn, lease)
    assert (every.pending_starts, triggers.leases.held_by(monitor.hconn)) == (0, [lease])


def test_a_start_of_first_given_back_stays_one_bit(world: World, first: LocalQueue) -> None:
    world.alter_manager(TRIGINT=0)
    monitor = world.connect()
    put(world, 0)
    (lease,) = take(world, first, 10, monitor)
    put(world, 0)
    assert first.pending_starts == 1
    world.manager.triggers.give_back(monitor.hconn, lease)
    assert first.pending_starts == 1


@pytest.mark.parametrize("change", SWITCHED_OFF, ids=str)
def test_r_13_a_start_given_back_after_triggering_was_switched_off_is_dropped(
    world: World, every: LocalQueue, change: dict[str, int | str]
) -> None:
    monitor = world.connect()
    put(world, 0)
    (lease,) = take(world, every, 10, monitor)
    world.alter(**change)
    world.manager.triggers.give_back(monitor.hconn, lease)
    assert every.pending_starts == 0


def test_a_start_of_a_deleted_queue_is_dropped(world: World, every: LocalQueue) -> None:
    monitor = world.connect()
    put(world, 0, 0)
    (lease,) = take(world, every, 1, monitor)
    world.delete()
    assert every.pending_starts == 0
    world.manager.triggers.give_back(monitor.hconn, lease)
    assert every.pending_starts == 0


def test_every_post_wakes_the_monitors(world: World, every: LocalQueue) -> None:
    triggers = world.manager.triggers
    posts = [triggers.posts]
    put(world, 0)
    posts.append(triggers.posts)
    monitor = world.connect()
    (lease,) = take(world, every, 10, monitor)
    assert triggers.posts == posts[-1]
    triggers.give_back(monitor.hconn, lease)
    posts.append(triggers.posts)
    world.alter(GET=1)
    world.alter(GET=0)
    posts.append(triggers.posts)
    world.alter(TRIGMPRI=0, TRIGGER=0)
    world.alter(TRIGGER=1)
    posts.append(triggers.posts)
    assert posts == sorted(set(posts))


# Changes


def test_r_11_a_queue_inhibited_for_gets_counts_but_gives_no_starts(world: World, every: LocalQueue) -> None:  # C5, E6
    world.alter(GET=1)
    put(world, 0, 0)
    assert every.pending_starts == 2
    assert take(world, every) == []
    world.alter(GET=0)
    assert len(take(world, every)) == 2


def test_r_12_a_restart_counts_the_messages_that_wait(world: World, every: LocalQueue) -> None:
    world.define("F", TRIGTYPE=FIRST, **TRIGGERED)
    world.alter(TRIGMPRI=3, DEFPSIST=1)
    world.alter("F", DEFPSIST=1)
    put(world, 2, 3, 4, 5)
    world.open("F").put_all([b"A", b"B"])
    assert len(take(world, every)) == 3
    world.restart()
    assert {name: queue.pending_starts for name, queue in world.manager.objects.queues.items()} == {"Q": 3, "F": 1}


def test_r_12_a_restart_finds_nothing_to_start_on_empty_queues(world: World, every: LocalQueue) -> None:
    world.define("F", TRIGTYPE=FIRST, **TRIGGERED)
    put(world, 0)
    world.restart()
    assert {name: queue.pending_starts for name, queue in world.manager.objects.queues.items()} == {"Q": 0, "F": 0}


@pytest.mark.parametrize("change", SWITCHED_OFF, ids=str)
def test_r_13_switching_triggering_off_forgets_the_count(
    world: World, every: LocalQueue, change: dict[str, int | str]
) -> None:
    put(world, 0, 0)
    world.alter(**change)
    assert every.pending_starts == 0


@pytest.mark.parametrize(("type_", "pending"), [(EVERY, 2), (FIRST, 1)])
def test_r_13_switching_triggering_on_counts_the_messages_that_wait(world: World, type_: int, pending: int) -> None:
    # E4
    world.define_process("P")
    queue = world.define("Q", TRIGMPRI=5, TRIGTYPE=type_, PROCESS="P")
    put(world, 5, 6, 7, 4)
    other = world.open("Q", OUT)
    other.put(b"pending", MQPMO.SYNCPOINT, MessageDescriptor(priority=9))
    getter = world.connect()
    access = getter.open()
    access.get(MQGMO.SYNCPOINT)
    access.close()
    world.alter(TRIGGER=1)
    assert queue.pending_starts == pending
    other.program.commit()
    assert queue.pending_starts == (3 if type_ == EVERY else 1)


def test_r_13_first_does_not_fire_at_a_change_while_the_queue_is_open_for_input(world: World) -> None:
    world.define_process("P")
    queue = world.define("Q", TRIGTYPE=FIRST, PROCESS="P")
    put(world, 0)
    server = world.open("Q", MQOO.INPUT_SHARED)
    world.alter(TRIGGER=1)
    assert queue.pending_starts == 0
    server.close()
    assert queue.pending_starts == 1


def test_r_13_a_change_from_every_to_first_leaves_one_start(world: World, every: LocalQueue) -> None:
    put(world, 0, 0, 0)
    world.alter(TRIGTYPE=FIRST)
    assert every.pending_starts == 1


def test_a_change_of_other_attributes_leaves_the_count_as_it_is(world: World, every: LocalQueue) -> None:
    put(world, 0, 0, 0)
    take(world, every, 2)
    world.alter(MAXDEPTH=10, TRIGDATA="other", GET=1)
    assert every.pending_starts == 1


def test_r_14_clearing_the_queue_forgets_the_count(world: World, every: LocalQueue) -> None:
    put(world, 0, 0)
    world.clear()
    assert (every.pending_starts, every.depth) == (0, 0)


def test_r_14_a_queue_of_the_same_name_starts_from_nothing(world: World, every: LocalQueue) -> None:
    put(world, 0, 0)
    world.delete()
    assert world.define("Q", TRIGTYPE=EVERY, **TRIGGERED).pending_starts == 0


def test_a_missing_process_holds_starts_back_until_it_is_defined_again(world: World, every: LocalQueue) -> None:
    put(world, 0)
    world.delete("P", "PROCESS")
    assert take(world, every) == []
    put(world, 0)
    world.define_process("P")
    assert len(take(world, every)) == 1


# What it costs


@pytest.mark.parametrize("others", [1, 1000])
def test_the_leases_of_a_connection_and_of_a_queue_are_found_without_looking_at_those_of_others(
    world: World, every: LocalQueue, others: int
) -> None:
    triggers, monitor = world.manager.triggers, world.connect()
    put(world, 0, 0)
    taken = take(world, every, 2, monitor)
    for number in range(others):
        queue = world.define(f"Q{number}", TRIGTYPE=EVERY, **TRIGGERED)
        world.open(queue.name, OUT).put(b"")
        take(world, queue)
    with Steps() as steps:
        assert triggers.leases.held_by(monitor.hconn) == taken
        assert triggers.leases.running(every) == 2
        for lease in taken:
            triggers.give_back(monitor.hconn, lease)
    assert steps.count < 500
    assert (every.pending_starts, triggers.leases.running(every), triggers.leases.held_by(monitor.hconn)) == (2, 0, [])
    assert every not in triggers.leases._running
    assert monitor.hconn not in triggers.leases._held


# Starts that are given back for messages that have gone


def test_a_start_given_back_is_dropped_when_every_message_has_one_pending(world: World, every: LocalQueue) -> None:
    monitor, getter = world.connect(), world.open("Q", MQOO.INPUT_SHARED)
    put(world, 0, 0, 0)
    leases = take(world, every, 3, monitor)
    getter.get()
    for lease in leases:
        world.manager.triggers.give_back(monitor.hconn, lease)
    assert every.pending_starts == 2


def test_a_message_that_somebody_has_got_under_syncpoint_still_has_its_start(world: World, every: LocalQueue) -> None:
    monitor, getter = world.connect(), world.open("Q", MQOO.INPUT_SHARED)
    put(world, 0)
    (lease,) = take(world, every, 3, monitor)
    getter.get(MQGMO.SYNCPOINT)
    world.manager.triggers.give_back(monitor.hconn, lease)
    assert every.pending_starts == 1


def test_a_start_of_first_given_back_is_dropped_when_the_queue_is_empty(world: World, first: LocalQueue) -> None:
    monitor = world.connect()
    put(world, 0)
    (lease,) = take(world, first, 10, monitor)
    getter = world.open("Q", MQOO.INPUT_SHARED)
    getter.get()
    world.manager.triggers.give_back(monitor.hconn, lease)
    assert first.pending_starts == 0


# DEPTH, and FIRST without a process


def test_r_10_depth_keeps_one_bit_and_switches_triggering_off(world: World) -> None:
    world.define_process("P")
    queue = world.define("Q", TRIGTYPE=DEPTH, TRIGDPTH=3, **TRIGGERED)
    put(world, 0, 0)
    assert (queue.pending_starts, queue.trigger_on) == (0, True)
    put(world, 0, 0)
    assert (queue.pending_starts, queue.trigger_on) == (1, False)
    assert len(take(world, queue)) == 1
    put(world, 0)
    assert queue.pending_starts == 0
    world.alter(TRIGGER=1)  # E4
    assert (queue.pending_starts, queue.trigger_on) == (1, False)


@pytest.mark.parametrize("commit", [True, False])
def test_r_10_depth_is_judged_at_the_put_and_starts_when_the_unit_is_over(world: World, *, commit: bool) -> None:
    world.define_process("P")
    queue = world.define("Q", TRIGTYPE=DEPTH, TRIGDPTH=2, **TRIGGERED)
    access = world.open("Q", OUT)
    access.put_all([b"A", b"B"], MQPMO.SYNCPOINT)
    assert (queue.pending_starts, queue.trigger_on) == (0, False)
    (access.program.commit if commit else access.program.backout)()
    assert (queue.pending_starts, queue.trigger_on) == (1, False)


def test_r_10_depth_at_the_close_of_the_last_one_who_gets(world: World) -> None:  # E3
    world.define_process("P")
    queue = world.define("Q", TRIGTYPE=DEPTH, TRIGDPTH=2, **TRIGGERED)
    server = world.open("Q", MQOO.INPUT_SHARED)
    put(world, 0, 0, 0)
    assert queue.pending_starts == 0  # C4
    server.close()
    assert (queue.pending_starts, queue.trigger_on) == (1, False)


@pytest.mark.parametrize(
    ("change", "pending"),
    [({"TRIGDPTH": 9}, 1), ({"TRIGMPRI": 9}, 1), ({"TRIGTYPE": EVERY}, 0), ({"INITQ": "I"}, 0), ({"PROCESS": ""}, 0)],
    ids=str,
)
def test_r_13_what_depth_has_started_is_started_although_it_is_off(
    world: World, change: dict[str, int | str], pending: int
) -> None:
    world.define_process("P")
    queue = world.define("Q", TRIGTYPE=DEPTH, TRIGDPTH=2, **TRIGGERED)
    put(world, 0, 0)
    world.alter(**change)
    assert (queue.trigger_on, queue.pending_starts, len(take(world, queue))) == (False, pending, pending)


def test_r_10_a_start_of_depth_that_comes_back_is_pending_again(world: World) -> None:
    monitor = world.connect()
    world.define_process("P")
    queue = world.define("Q", TRIGTYPE=DEPTH, TRIGDPTH=2, **TRIGGERED)
    put(world, 0, 0)
    (lease,) = take(world, queue, 10, monitor)
    world.manager.triggers.give_back(monitor.hconn, lease)
    assert queue.pending_starts == 1
    (lease,) = take(world, queue, 10, monitor)
    world.alter(TRIGTYPE=FIRST)
    world.manager.triggers.give_back(monitor.hconn, lease)
    assert queue.pending_starts == 0


def test_r_12_a_restart_starts_depth_that_was_still_armed(world: World) -> None:
    world.define_process("P")
    world.define("Q", TRIGTYPE=DEPTH, TRIGDPTH=2, DEFPSIST=1, **TRIGGERED)
    armed = dict(world.store.objects)
    put(world, 0, 0)
    world.store.objects = armed  # the put is durable, and that it has fired is not
    world.restart()
    queue = world.manager.objects.queues["Q"]
    assert (queue.pending_starts, queue.trigger_on) == (1, False)
    world.restart()
    queue = world.manager.objects.queues["Q"]
    assert (queue.pending_starts, queue.trigger_on) == (0, False)  # no start is stored


def test_s_3_and_s_7_first_without_a_process_is_for_the_exit(world: World) -> None:
    queue = world.define("Q", TRIGTYPE=FIRST, TRIGGER=1, TRIGDATA="data")
    put(world, 0, 0)
    assert queue.pending_starts == 1
    ((_, message),) = world.manager.triggers.take(queue, world.connect().hconn, 10)
    assert message == bytes(MQTMC2("Q", "", "data", q_mgr_name="QM1"))
    world.define_process("P")
    world.alter(PROCESS="P")
    ((_, message),) = world.manager.triggers.take(queue, world.connect().hconn, 10)
    assert message == bytes(MQTMC2("Q", "P", "data", q_mgr_name="QM1"))


@pytest.mark.parametrize("type_", [EVERY, DEPTH])
def test_s_3_only_first_does_without_a_process(world: World, type_: int) -> None:
    queue = world.define("Q", TRIGTYPE=type_, TRIGGER=1)
    put(world, 0, 0)
    assert (queue.pending_starts, queue.trigger_on) == (0, True)


@pytest.mark.parametrize("type_", [FIRST, EVERY, DEPTH])
def test_r_8_a_queue_with_an_initiation_queue_is_not_on_the_fast_path(world: World, type_: int) -> None:
    world.define_process("P")
    world.define("I")
    monitor = world.open("I", MQOO.INPUT_SHARED)
    queue = world.define("Q", TRIGTYPE=type_, INITQ="I", **TRIGGERED)
    put(world, 0)
    assert (queue.pending_starts, len(monitor.drain())) == (0, 1)
    world.alter(INITQ="", TRIGGER=1)
    assert (queue.pending_starts, len(monitor.drain())) == (1, 0)
    world.alter(INITQ="I", TRIGGER=1)
    assert (queue.pending_starts, len(monitor.drain())) == (0, 1)


@pytest.mark.parametrize("commit", [True, False])
def test_r_13_what_first_has_met_is_forgotten_with_another_type(
    world: World, first: LocalQueue, *, commit: bool
) -> None:
    access = world.open("Q", OUT)
    access.put(b"A", MQPMO.SYNCPOINT)
    world.alter(TRIGTYPE=EVERY)
    (access.program.commit if commit else access.program.backout)()
    assert first.pending_starts == int(commit)


def test_a_change_of_first_counts_messages_that_are_not_committed_yet(world: World) -> None:
    """Else nobody would be started for them: their puts were not judged."""
    world.define_process("P")
    queue = world.define("Q", TRIGTYPE=FIRST, PROCESS="P")
    access = world.open("Q", OUT)
    access.put(b"A", MQPMO.SYNCPOINT)
    world.alter(TRIGGER=1)
    assert queue.pending_starts == 1


# Starts that are missing


def swept(world: World) -> int:
    return sum(world.manager.sweep_triggers())


def test_a_sweep_starts_what_nobody_is_on_the_way_to(world: World, every: LocalQueue) -> None:
    put(world, 0, 0, 0)
    triggers, monitor = world.manager.triggers, world.connect()
    assert swept(world) == 0  # starts are pending
    leases = take(world, every, 10, monitor)
    assert swept(world) == 0  # held
    for lease in leases:
        triggers.leases.end(monitor.hconn, lease)
    posts = triggers.posts
    assert swept(world) == 1
    assert (every.pending_starts, triggers.posts) == (1, posts + 1)
    assert swept(world) == 0


@pytest.mark.parametrize(
    "change",
    [*SWITCHED_OFF, {"GET": 1}, {"TRIGMPRI": 5}, {"TRIGTYPE": FIRST}, {"PROCESS": "NOSUCH"}],
    ids=str,
)
def test_a_sweep_passes_over_a_queue_that_starts_nothing(
    world: World, every: LocalQueue, change: dict[str, int | str]
) -> None:
    put(world, 0)
    world.alter(**change)
    world.manager.triggers.count(every, 0)
    assert swept(world) == 0


def test_a_sweep_passes_over_a_queue_that_somebody_gets_from(world: World, every: LocalQueue) -> None:
    put(world, 0)
    world.manager.triggers.count(every, 0)
    server = world.open("Q", MQOO.INPUT_SHARED)
    assert swept(world) == 0
    server.close()
    assert swept(world) == 1


def test_a_sweep_passes_over_an_empty_queue_and_what_is_in_a_unit_of_work(world: World, every: LocalQueue) -> None:
    world.open("Q", OUT).put(b"A", MQPMO.SYNCPOINT)
    assert swept(world) == 0


def test_a_sweep_passes_over_a_queue_with_messages_under_handlers(world: World, every: LocalQueue) -> None:
    put(world, 0, 0)
    world.manager.triggers.count(every, 0)
    under_way = {every: 1}
    assert not any(world.manager.triggers.sweep([every], lambda queue: under_way[queue]))
    under_way[every] = 0
    assert any(world.manager.triggers.sweep([every], lambda queue: under_way[queue]))
