"""When a put or a close triggers: S-12, C2, C4, E1, E2, E3, R-6, R-7, R-8, R-9, R-15."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQMF, MQOO, MQPMO, MessageDescriptor
from tests.core.triggered import EVERY, FIRST, OUT, SWITCHED_OFF, TRIGGERED, open_and_close, put, take

if TYPE_CHECKING:
    from broker.core.queues.queue import LocalQueue
    from tests.core.world import World


def test_s_12_each_committed_put_counts_one(world: World, every: LocalQueue) -> None:  # C1
    put(world, 0, 0, 0)
    assert every.pending_starts == 3


def test_r_6_a_unit_counts_its_messages_when_it_is_committed(world: World, every: LocalQueue) -> None:
    access = world.open("Q", OUT)
    access.put_all([b"A", b"B", b"C"], MQPMO.SYNCPOINT)
    assert every.pending_starts == 0
    access.program.commit()
    assert every.pending_starts == 3


def test_r_6_a_backout_counts_nothing(world: World, every: LocalQueue) -> None:
    access = world.open("Q", OUT)
    access.put_all([b""] * 5, MQPMO.SYNCPOINT)
    access.program.backout()
    assert every.pending_starts == 0
    access.put_all([b""] * 5, MQPMO.SYNCPOINT)
    access.program.commit()
    assert every.pending_starts == 5


def test_a_put_that_is_not_durable_yet_does_not_count(world: World, every: LocalQueue) -> None:
    with world.hold():
        put(world, 0)
        assert every.pending_starts == 0
    assert every.pending_starts == 1


def test_r_7_and_c2_only_messages_of_priority_trigmpri_or_more_count(world: World, every: LocalQueue) -> None:
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


def test_r_15_what_is_taken_or_expires_leaves_the_count_as_it_is(world: World, every: LocalQueue) -> None:
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


@pytest.mark.parametrize(
    ("type_", "attributes"),
    [
        (type_, attributes)
        for attributes in [*SWITCHED_OFF, {"PROCESS": "MISSING"}]
        for type_ in ((EVERY,) if attributes == {"PROCESS": ""} else (FIRST, EVERY))
    ],
    ids=str,
)
def test_r_8_without_one_of_the_conditions_nothing_is_counted(
    world: World, type_: int, attributes: dict[str, int | str]
) -> None:  # C6, C9, C10
    world.define_process("P")
    queue = world.define("Q", **{"TRIGTYPE": type_, **TRIGGERED, **attributes})
    put(world, 0, 0)
    open_and_close(world)
    assert queue.pending_starts == 0
    assert take(world, queue) == []


# FIRST


def test_e1_the_first_message_starts_once_and_the_next_ones_do_not(world: World, first: LocalQueue) -> None:  # C3
    put(world, 0)
    assert len(take(world, first)) == 1
    put(world, 0, 0)
    assert first.pending_starts == 0


def test_r_9_first_keeps_one_bit(world: World, first: LocalQueue) -> None:
    for _ in range(2):
        put(world, 0)
        access = world.open()
        access.drain()
        access.close()
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
    open_and_close(world)
    assert first.pending_starts == 0


def test_e3_only_messages_of_priority_trigmpri_or_more_count_at_the_close(world: World, first: LocalQueue) -> None:
    world.alter(TRIGMPRI=5)
    put(world, 4)
    open_and_close(world)
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
    open_and_close(world)
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
def test_r_9_first_is_judged_at_the_put_and_fires_when_the_unit_is_over(
    world: World, first: LocalQueue, *, commit: bool
) -> None:
    access = world.open("Q", OUT)
    access.put(b"A", MQPMO.SYNCPOINT)
    assert first.pending_starts == 0
    if commit:
        access.program.commit()
    else:
        access.program.backout()
    assert first.pending_starts == 1


def test_an_uncommitted_message_counts_so_the_next_put_does_not_fire(world: World, first: LocalQueue) -> None:
    """Why FIRST fires after a backout too: the second message would wait for ever."""
    access = world.open("Q", OUT)
    access.put(b"A", MQPMO.SYNCPOINT)
    put(world, 0)
    assert first.pending_starts == 0
    access.program.backout()
    assert first.pending_starts == 1


def test_first_does_not_fire_for_a_queue_that_was_deleted(world: World, first: LocalQueue) -> None:
    access = world.open("Q", OUT)
    access.put(b"A", MQPMO.SYNCPOINT)
    world.delete()
    access.program.commit()
    assert first.pending_starts == 0


def test_r_12_a_restart_counts_the_segments_of_a_message_that_was_cut_one_by_one(
    world: World, every: LocalQueue
) -> None:
    world.alter(MAXMSGL=64)
    md = MessageDescriptor(msg_flags=MQMF.SEGMENTATION_ALLOWED, persistence=1)
    world.open("Q", OUT).put(bytes(150), 0, md)
    assert every.pending_starts == 1
    world.restart()
    assert world.manager.objects.queues["Q"].pending_starts == 3
