"""Trigger conditions and counts of the fast path: S-12, C2, C4, E1 to E3, R-1, R-6 to R-15."""

from __future__ import annotations

import pytest

from broker.core.queue import LocalQueue
from broker.mqi import MQGMO, MQOO, MQPMO, MQTMC2, MessageDescriptor
from tests.core.world import Access, Program, World

FIRST, EVERY, DEPTH = 1, 2, 3
PUT = MQPMO.SYNCPOINT
TRIGGERED = {"TRIGGER": 1, "PROCESS": "P"}
OUT = MQOO.OUTPUT
"""Who only puts does not keep FIRST from firing."""


@pytest.fixture
def every(world: World) -> LocalQueue:
    world.define_process("P")
    return world.define("Q", TRIGTYPE=EVERY, **TRIGGERED)


@pytest.fixture
def first(world: World) -> LocalQueue:
    world.define_process("P")
    return world.define("Q", TRIGTYPE=FIRST, **TRIGGERED)


def put(world: World, *priorities: int) -> None:
    """A program that puts messages, each outside syncpoint."""
    access = world.open("Q", OUT)
    for priority in priorities:
        access.put(b"", 0, MessageDescriptor(priority=priority))
    access.close()


def take(world: World, queue: LocalQueue, limit: int = 10, monitor: Program | None = None) -> list[int]:
    """The leases that a monitor gets."""
    hconn = (monitor or world.connect()).hconn
    return [lease for lease, _ in world.manager.triggers.take(queue, hconn, limit)]


def close_input(world: World, access: Access | None = None) -> None:
    """Close a handle that was open for input."""
    (access or world.open("Q", MQOO.INPUT_SHARED)).close()


# EVERY


def test_s12_each_committed_put_counts_one(world: World, every: LocalQueue) -> None:
    put(world, 0, 0, 0)
    assert every.pending_starts == 3


def test_r6_a_unit_counts_its_messages_when_it_is_committed(world: World, every: LocalQueue) -> None:
    access = world.open("Q", OUT)
    access.put_all([b"A", b"B", b"C"], PUT)
    assert every.pending_starts == 0
    access.program.commit()
    assert every.pending_starts == 3


def test_r6_a_backout_counts_nothing(world: World, every: LocalQueue) -> None:
    access = world.open("Q", OUT)
    access.put_all([b""] * 5, PUT)
    access.program.backout()
    assert every.pending_starts == 0
    access.put_all([b""] * 5, PUT)
    access.program.commit()
    assert every.pending_starts == 5


def test_a_put_that_is_not_durable_yet_does_not_count(world: World, every: LocalQueue) -> None:
    with world.hold():
        put(world, 0)
        assert every.pending_starts == 0
    assert every.pending_starts == 1


def test_r7_c2_only_messages_of_priority_trigmpri_or_more_count(world: World, every: LocalQueue) -> None:
    world.alter(TRIGMPRI=5)
    put(world, 4, 5, 9, 0)
    assert every.pending_starts == 2


@pytest.mark.parametrize(("trigmpri", "pending"), [(0, 1), (1, 0)])
def test_c2_on_a_fifo_queue_the_default_priority_is_what_counts(
    world: World, every: LocalQueue, trigmpri: int, pending: int
) -> None:
    world.alter(MSGDLVSQ=1, DEFPRTY=0, TRIGMPRI=trigmpri)
    put(world, 9)
    assert every.pending_starts == pending


def test_c4_every_counts_although_the_queue_is_open_for_input(world: World, every: LocalQueue) -> None:
    world.open("Q", MQOO.INPUT_SHARED)
    put(world, 0, 0, 0)
    assert every.pending_starts == 3


def test_r15_what_is_taken_or_expires_leaves_the_count_as_it_is(world: World, every: LocalQueue) -> None:
    access = world.open()
    access.put(b"A")
    access.put(b"B", 0, MessageDescriptor(expiry=10))
    access.get()
    world.pass_time(2)
    assert access.drain() == []
    assert every.pending_starts == 2


def test_backing_out_a_get_counts_nothing(world: World, every: LocalQueue) -> None:
    access = world.open()
    access.put(b"A")
    access.get(MQGMO.SYNCPOINT)
    access.program.backout()
    assert every.pending_starts == 1


def test_a_put_counts_although_a_waiter_takes_the_message_at_once(world: World, every: LocalQueue) -> None:
    world.open().wait()
    put(world, 0)
    assert (every.pending_starts, every.depth) == (1, 0)


# What keeps a queue off the fast path


@pytest.mark.parametrize("type_", [FIRST, EVERY])
@pytest.mark.parametrize(
    "attributes",
    [{"TRIGGER": 0}, {"TRIGTYPE": 0}, {"PROCESS": ""}, {"PROCESS": "MISSING"}, {"INITQ": "I"}],
    ids=str,
)
def test_r8_without_one_of_the_conditions_nothing_is_counted(
    world: World, type_: int, attributes: dict[str, int | str]
) -> None:
    world.define_process("P")
    queue = world.define("Q", **{"TRIGTYPE": type_, **TRIGGERED, **attributes})
    put(world, 0, 0)
    close_input(world)
    assert queue.pending_starts == 0
    assert take(world, queue) == []


# FIRST


def test_e1_the_first_message_starts_once_and_the_next_ones_do_not(world: World, first: LocalQueue) -> None:
    put(world, 0)
    assert len(take(world, first)) == 1
    put(world, 0, 0)
    assert first.pending_starts == 0


def test_r9_first_keeps_one_bit(world: World, first: LocalQueue) -> None:
    for _ in range(2):
        put(world, 0)
        access = world.open()
        access.drain()
        close_input(world, access)
    assert first.pending_starts == 1


def test_e1_a_queue_that_was_emptied_starts_again(world: World, first: LocalQueue) -> None:
    put(world, 0)
    take(world, first)
    access = world.open()
    access.drain()
    access.close()
    assert first.pending_starts == 0
    put(world, 0)
    assert first.pending_starts == 1


def test_c2_first_counts_only_messages_of_priority_trigmpri_or_more(world: World, first: LocalQueue) -> None:
    world.alter(TRIGMPRI=5)
    put(world, *[4] * 10)
    assert first.pending_starts == 0
    put(world, 5)
    assert first.pending_starts == 1


def test_c4_while_somebody_has_the_queue_open_for_input_first_does_not_fire(world: World, first: LocalQueue) -> None:
    server = world.open("Q", MQOO.INPUT_SHARED)
    put(world, 0)
    assert first.pending_starts == 0
    world.open("Q", MQOO.BROWSE).close()
    assert first.pending_starts == 0
    server.close()
    assert first.pending_starts == 1


def test_c4_a_browser_does_not_keep_first_from_firing(world: World, first: LocalQueue) -> None:
    world.open("Q", MQOO.BROWSE)
    put(world, 0)
    assert first.pending_starts == 1


def test_e3_only_the_last_one_to_close_finds_the_message(world: World, first: LocalQueue) -> None:
    servers = [world.open("Q", MQOO.INPUT_SHARED) for _ in range(2)]
    put(world, 0)
    servers[0].close()
    assert first.pending_starts == 0
    servers[1].close()
    assert first.pending_starts == 1


def test_e3_closing_an_empty_queue_starts_nothing(world: World, first: LocalQueue) -> None:
    close_input(world)
    assert first.pending_starts == 0


def test_e3_only_messages_of_priority_trigmpri_or_more_count_at_the_close(world: World, first: LocalQueue) -> None:
    world.alter(TRIGMPRI=5)
    put(world, 4)
    close_input(world)
    assert first.pending_starts == 0


@pytest.mark.parametrize(("close_first", "pending"), [(True, 0), (False, 1)])
def test_e3_a_message_in_a_unit_of_work_is_not_found_at_the_close(
    world: World, first: LocalQueue, pending: int, *, close_first: bool
) -> None:
    put(world, 0)
    take(world, first)
    access = world.open("Q", MQOO.INPUT_SHARED)
    access.get(MQGMO.SYNCPOINT)
    if close_first:
        access.close()
        access.program.backout()
    else:
        access.program.backout()
        access.close()
    assert first.pending_starts == pending


@pytest.mark.parametrize(
    ("interval_ms", "waited", "fires"),
    [(0, 0.0, True), (1000, 0.999, False), (1000, 1.0, True), (999_999_999, 3600.0, False)],
)
def test_e2_a_put_on_a_queue_with_messages_fires_after_the_trigger_interval(
    world: World, first: LocalQueue, interval_ms: int, waited: float, *, fires: bool
) -> None:
    world.alter_manager(TRIGINT=interval_ms)
    put(world, 0)
    assert len(take(world, first)) == 1
    world.pass_time(waited)
    put(world, 0)
    assert first.pending_starts == fires


def test_e2_a_queue_that_was_never_triggered_has_its_interval_over(world: World) -> None:
    queue = world.define("Q", TRIGTYPE=FIRST, **TRIGGERED)
    put(world, 0)
    close_input(world)
    assert queue.pending_starts == 0
    world.define_process("P")
    assert queue.pending_starts == 0
    put(world, 0)
    assert queue.pending_starts == 1


def test_the_interval_is_monotonic_and_does_not_mind_a_clock_that_is_set(world: World, first: LocalQueue) -> None:
    world.alter_manager(TRIGINT=1000)
    put(world, 0)
    take(world, first)
    world.now += 1e6
    put(world, 0)
    assert first.pending_starts == 0


@pytest.mark.parametrize("commit", [True, False])
def test_r9_first_is_judged_at_the_put_and_fires_when_the_unit_is_over(
    world: World, first: LocalQueue, *, commit: bool
) -> None:
    access = world.open("Q", OUT)
    access.put(b"A", PUT)
    assert first.pending_starts == 0
    if commit:
        access.program.commit()
    else:
        access.program.backout()
    assert first.pending_starts == 1


def test_an_uncommitted_message_counts_so_the_next_put_does_not_fire(world: World, first: LocalQueue) -> None:
    """Why FIRST fires after a backout too: the second message would wait for ever."""
    access = world.open("Q", OUT)
    access.put(b"A", PUT)
    put(world, 0)
    assert first.pending_starts == 0
    access.program.backout()
    assert first.pending_starts == 1


def test_first_does_not_fire_for_a_queue_that_was_deleted(world: World, first: LocalQueue) -> None:
    access = world.open("Q", OUT)
    access.put(b"A", PUT)
    world.delete()
    access.program.commit()
    assert first.pending_starts == 0


# Starts and leases


def test_r1_the_count_falls_when_a_start_is_taken_and_never_below_zero(world: World, every: LocalQueue) -> None:
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
    assert triggers.leased(every) == 1
    assert triggers.done(monitor.hconn, lease) is every
    assert triggers.done(monitor.hconn, lease) is None
    triggers.give_back(monitor.hconn, lease)
    assert (triggers.leased(every), every.pending_starts) == (0, 0)


def test_what_a_broken_connection_held_is_pending_again(world: World, every: LocalQueue) -> None:
    monitor, other = world.connect(), world.connect()
    triggers = world.manager.triggers
    put(world, 0, 0, 0, 0)
    done, *_ = take(world, every, 2, monitor)
    take(world, every, 1, other)
    triggers.done(monitor.hconn, done)
    for lease in triggers.held_by(monitor.hconn):
        triggers.give_back(monitor.hconn, lease)
    assert (every.pending_starts, triggers.leased(every)) == (2, 1)
    assert triggers.held_by(monitor.hconn) == []


def test_a_lease_of_another_connection_can_be_neither_done_nor_given_back(world: World, every: LocalQueue) -> None:
    monitor, other = world.connect(), world.connect()
    triggers = world.manager.triggers
    put(world, 0)
    (lease,) = take(world, every, 10, monitor)
    assert triggers.done(other.hconn, lease) is None
    triggers.give_back(other.hconn, lease)
    assert (every.pending_starts, triggers.held_by(monitor.hconn)) == (0, [lease])


def test_a_start_of_first_given_back_stays_one_bit(world: World, first: LocalQueue) -> None:
    world.alter_manager(TRIGINT=0)
    monitor = world.connect()
    put(world, 0)
    (lease,) = take(world, first, 10, monitor)
    put(world, 0)
    assert first.pending_starts == 1
    world.manager.triggers.give_back(monitor.hconn, lease)
    assert first.pending_starts == 1


@pytest.mark.parametrize(
    "change", [{"TRIGGER": 0}, {"TRIGTYPE": 0}, {"TRIGTYPE": DEPTH}, {"INITQ": "I"}, {"PROCESS": ""}], ids=str
)
def test_r13_a_start_given_back_after_triggering_was_switched_off_is_dropped(
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


def test_r11_a_queue_inhibited_for_gets_counts_but_gives_no_starts(world: World, every: LocalQueue) -> None:
    world.alter(GET=1)
    put(world, 0, 0)
    assert every.pending_starts == 2
    assert take(world, every) == []
    world.alter(GET=0)
    assert len(take(world, every)) == 2


def test_r12_a_restart_counts_the_messages_that_wait(world: World, every: LocalQueue) -> None:
    world.define("F", TRIGTYPE=FIRST, **TRIGGERED)
    world.alter(TRIGMPRI=3, DEFPSIST=1)
    world.alter("F", DEFPSIST=1)
    put(world, 2, 3, 4, 5)
    world.open("F").put_all([b"A", b"B"])
    assert len(take(world, every)) == 3
    world.restart()
    assert {name: queue.pending_starts for name, queue in world.manager.queues.items()} == {"Q": 3, "F": 1}


def test_r12_a_restart_finds_nothing_to_start_on_empty_queues(world: World, every: LocalQueue) -> None:
    world.define("F", TRIGTYPE=FIRST, **TRIGGERED)
    put(world, 0)
    world.restart()
    assert {name: queue.pending_starts for name, queue in world.manager.queues.items()} == {"Q": 0, "F": 0}


@pytest.mark.parametrize(
    "change", [{"TRIGGER": 0}, {"TRIGTYPE": 0}, {"TRIGTYPE": DEPTH}, {"INITQ": "I"}, {"PROCESS": ""}], ids=str
)
def test_r13_switching_triggering_off_forgets_the_count(
    world: World, every: LocalQueue, change: dict[str, int | str]
) -> None:
    put(world, 0, 0)
    world.alter(**change)
    assert every.pending_starts == 0


@pytest.mark.parametrize(("type_", "pending"), [(EVERY, 2), (FIRST, 1)])
def test_r13_switching_triggering_on_counts_the_messages_that_wait(world: World, type_: int, pending: int) -> None:
    world.define_process("P")
    queue = world.define("Q", TRIGMPRI=5, TRIGTYPE=type_, PROCESS="P")
    put(world, 5, 6, 7, 4)
    other = world.open("Q", OUT)
    other.put(b"pending", PUT, MessageDescriptor(priority=9))
    getter = world.connect()
    access = getter.open()
    access.get(MQGMO.SYNCPOINT)
    access.close()
    world.alter(TRIGGER=1)
    assert queue.pending_starts == pending
    other.program.commit()
    assert queue.pending_starts == (3 if type_ == EVERY else 1)


def test_r13_first_does_not_fire_at_a_change_while_the_queue_is_open_for_input(world: World) -> None:
    world.define_process("P")
    queue = world.define("Q", TRIGTYPE=FIRST, PROCESS="P")
    put(world, 0)
    server = world.open("Q", MQOO.INPUT_SHARED)
    world.alter(TRIGGER=1)
    assert queue.pending_starts == 0
    server.close()
    assert queue.pending_starts == 1


def test_r13_a_change_from_every_to_first_leaves_one_start(world: World, every: LocalQueue) -> None:
    put(world, 0, 0, 0)
    world.alter(TRIGTYPE=FIRST)
    assert every.pending_starts == 1


def test_a_change_of_other_attributes_leaves_the_count_as_it_is(world: World, every: LocalQueue) -> None:
    put(world, 0, 0, 0)
    take(world, every, 2)
    world.alter(MAXDEPTH=10, TRIGDATA="other", GET=1)
    assert every.pending_starts == 1


def test_r14_clearing_the_queue_forgets_the_count(world: World, every: LocalQueue) -> None:
    put(world, 0, 0)
    world.clear()
    assert (every.pending_starts, every.depth) == (0, 0)


def test_r14_a_queue_of_the_same_name_starts_from_nothing(world: World, every: LocalQueue) -> None:
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
