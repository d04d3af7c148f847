"""Initiation queues in the core: C5 to C10, E1 to E7 and units of work, for each trigger type."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from broker.core.calls import arriving
from broker.mqi import MQDLH, MQGMO, MQMF, MQOO, MQPMO, MQTM, MessageDescriptor
from broker.mqi.layouts.packing import unpack_md
from tests.core.triggered import DEPTH, EVERY, FIRST, OUT
from tests.steps import Steps

if TYPE_CHECKING:
    from broker.core.queues.queue import LocalQueue
    from tests.core.world import Access, World

TYPES = {"FIRST": FIRST, "EVERY": EVERY, "DEPTH": DEPTH}


class Bench:
    """QLOCAL(Q) with INITQ(I), and a trigger monitor that has I open."""

    def __init__(self, world: World, **attributes: int | str) -> None:
        self.world = world
        self.servers: list[Access] = []
        world.define_process("P", APPLICID="app", ENVRDATA="envr", USERDATA="user", APPLTYPE=6)
        self.initq = world.define("I")
        self.q = world.define("Q", **{"TRIGGER": 1, "PROCESS": "P", "INITQ": "I", **attributes})
        self.serve()

    def serve(self) -> None:
        """A trigger monitor starts."""
        self.monitor = self.world.open("I", MQOO.INPUT_SHARED)

    def put(self, *priorities: int) -> None:
        access = self.world.open("Q", OUT)
        for priority in priorities or (0,):
            access.put(b"", 0, MessageDescriptor(priority=priority))
        access.close()

    def written(self) -> int:
        """Return the number of trigger messages that can be got."""
        return self.initq.count_available(0)

    def taken(self) -> list[MQTM]:
        """The trigger messages, which the monitor takes."""
        return [MQTM.from_bytes(data) for data in self.monitor.drain()]


class Step(NamedTuple):
    """A step, and the number of trigger messages of FIRST, EVERY and DEPTH(2) that it brings."""

    what: str
    first: int
    every: int
    depth: int


def act(bench: Bench, what: str) -> None:
    """Do what a step says."""
    world, (verb, _, rest) = bench.world, what.partition(" ")
    match verb:
        case "put":
            bench.put(*map(int, rest.split()))
        case "open":
            bench.servers.append(world.open("Q", MQOO.INPUT_SHARED))
        case "close":
            bench.servers.pop().close()
        case "browse":
            world.open("Q", MQOO.BROWSE)
        case "get":
            access = world.open("Q", MQOO.INPUT_SHARED)
            access.get()
            access.close()
        case "monitor":
            bench.serve()
        case "unmonitor":
            bench.monitor.close()
        case _:
            given = dict(each.split("=") for each in rest.split())
            world.alter(verb, **{key: int(value) if value.isdigit() else value for key, value in given.items()})


def play(world: World, type_: str, steps: list[Step], **attributes: int | str) -> None:
    bench = Bench(world, TRIGTYPE=TYPES[type_], TRIGDPTH=2, **attributes)
    for step in steps:
        before = bench.written()
        act(bench, step.what)
        expected = {"FIRST": step.first, "EVERY": step.every, "DEPTH": step.depth}[type_]
        assert bench.written() - before == expected, step


SCENARIOS: dict[str, list[Step]] = {
    "E1 each put, the first, the depth": [
        Step("put 0", 1, 1, 0), Step("put 0", 0, 1, 1), Step("put 0", 0, 1, 0),
    ],
    "E1 several in turn": [
        Step("put 0 0 0 0", 1, 4, 1),
    ],
    "E1 a queue that was emptied": [
        Step("put 0", 1, 1, 0), Step("get", 0, 0, 0), Step("put 0", 1, 1, 0),
    ],
    "C2 priority": [
        Step("Q TRIGMPRI=5", 0, 0, 0), Step("put 4 4 4 4", 0, 0, 0), Step("put 5", 1, 1, 0), Step("put 4", 0, 0, 0),
        Step("put 9", 0, 1, 1),
    ],
    "C2 in order of arrival the priority of the queue counts": [
        Step("Q MSGDLVSQ=1 DEFPRTY=0 TRIGMPRI=1", 0, 0, 0), Step("put 9 9 9", 0, 0, 0),
    ],
    "C4 open for input": [
        Step("open", 0, 0, 0), Step("put 0 0", 0, 2, 0), Step("close", 1, 0, 1), Step("put 0", 0, 1, 0),
    ],
    "C4 a browser does not matter": [
        Step("browse", 0, 0, 0), Step("put 0 0", 1, 2, 1),
    ],
    "E3 the last one to close": [
        Step("open", 0, 0, 0), Step("open", 0, 0, 0), Step("put 0 0", 0, 2, 0), Step("close", 0, 0, 0),
        Step("close", 1, 0, 1),
    ],
    "E3 too few": [
        Step("open", 0, 0, 0), Step("close", 0, 0, 0), Step("open", 0, 0, 0), Step("put 0", 0, 1, 0),
        Step("close", 1, 0, 0),
    ],
    "C5 and E6 gets inhibited": [
        Step("Q GET=1", 0, 0, 0), Step("put 0 0", 0, 0, 0), Step("Q GET=0", 1, 1, 1), Step("Q GET=0", 0, 0, 0),
    ],
    "E6 while it is open for input": [
        Step("open", 0, 0, 0), Step("Q GET=1", 0, 0, 0), Step("put 0 0", 0, 0, 0), Step("Q GET=0", 0, 1, 0),
    ],
    "C5 and E3": [
        Step("open", 0, 0, 0), Step("put 0 0", 0, 2, 0), Step("Q GET=1", 0, 0, 0), Step("close", 0, 0, 0),
        Step("Q GET=0", 1, 1, 1),
    ],
    "C6 a process that does not exist": [
        Step("Q PROCESS=NOSUCH", 0, 0, 0), Step("put 0 0", 0, 0, 0), Step("Q PROCESS=P", 0, 0, 0),
        Step("put 0", 1, 1, 1),
    ],
    "C6 no process": [
        Step("Q PROCESS=", 0, 0, 0), Step("put 0 0 0", 0, 0, 0),
    ],
    "C7 no such queue": [
        Step("Q INITQ=NOSUCH", 0, 0, 0), Step("put 0 0", 0, 0, 0), Step("Q INITQ=I", 1, 1, 1),
    ],
    "C7 and E5 puts inhibited": [
        Step("I PUT=1", 0, 0, 0), Step("put 0 0", 0, 0, 0), Step("I PUT=0", 1, 1, 1), Step("I PUT=0", 0, 0, 0),
    ],
    "E5 while it is open for input": [
        Step("I PUT=1", 0, 0, 0), Step("open", 0, 0, 0), Step("put 0 0", 0, 0, 0), Step("I PUT=0", 0, 1, 0),
    ],
    "C7 gets inhibited": [
        Step("I GET=1", 0, 0, 0), Step("put 0 0", 0, 0, 0), Step("I GET=0", 1, 1, 1),
    ],
    "C7 a transmission queue": [
        Step("I USAGE=1", 0, 0, 0), Step("put 0 0 0", 0, 0, 0),
    ],
    "C8 and E7 no monitor": [
        Step("unmonitor", 0, 0, 0), Step("put 0 0 0 0 0", 0, 0, 0), Step("monitor", 1, 1, 1), Step("monitor", 0, 0, 0),
    ],
    "E7 too few": [
        Step("unmonitor", 0, 0, 0), Step("put 0", 0, 0, 0), Step("monitor", 1, 1, 0),
    ],
    "E7 nothing there": [
        Step("unmonitor", 0, 0, 0), Step("monitor", 0, 0, 0),
    ],
    "E7 while it is open for input": [
        Step("unmonitor", 0, 0, 0), Step("open", 0, 0, 0), Step("put 0 0", 0, 0, 0), Step("monitor", 0, 1, 0),
    ],
    "C9 and E4 switched on": [
        Step("Q TRIGGER=0", 0, 0, 0), Step("put 0 0", 0, 0, 0), Step("Q TRIGGER=1", 1, 1, 1),
        Step("Q TRIGDATA=x", 0, 0, 0),
    ],
    "E4 without a monitor nothing, C8 and E7 make up for it": [
        Step("Q TRIGGER=0", 0, 0, 0), Step("put 0 0", 0, 0, 0), Step("unmonitor", 0, 0, 0),
        Step("Q TRIGGER=1", 0, 0, 0), Step("monitor", 1, 1, 1),
    ],
    "E4 while it is open for input": [
        Step("Q TRIGGER=0", 0, 0, 0), Step("put 0 0", 0, 0, 0), Step("open", 0, 0, 0), Step("Q TRIGGER=1", 0, 1, 0),
    ],
    "E4 another priority": [
        Step("Q TRIGMPRI=9", 0, 0, 0), Step("put 0 0", 0, 0, 0), Step("Q TRIGMPRI=0", 1, 1, 1),
    ],
    "E4 another depth": [
        Step("Q TRIGDPTH=9", 0, 0, 0), Step("put 0 0", 1, 2, 0), Step("Q TRIGDPTH=2", 0, 0, 1),
    ],
    "C10 no type": [
        Step("Q TRIGTYPE=0", 0, 0, 0), Step("put 0 0", 0, 0, 0),
    ],
    "E4 GET and TRIGGER in one change are one event": [
        Step("Q TRIGGER=0 GET=1", 0, 0, 0), Step("put 0 0", 0, 0, 0), Step("Q TRIGGER=1 GET=0", 1, 1, 1),
    ],
}  # fmt: skip


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("steps", SCENARIOS.values(), ids=SCENARIOS)
def test_each_event_brings_as_many_trigger_messages_as_the_type_says(
    world: World, type_: str, steps: list[Step]
) -> None:
    """C2, C4 to C10, E1, E3 to E7."""
    play(world, type_, steps)


@pytest.mark.parametrize(("type_", "written"), [(FIRST, 1), (EVERY, 3)])
def test_e4_a_change_of_trigdpth_brings_nothing_under_first_and_every(world: World, type_: int, written: int) -> None:
    bench = Bench(world, TRIGTYPE=type_, TRIGDPTH=9)
    bench.put(0, 0, 0)
    for depth in (4, 3, 2, 1):
        world.alter(TRIGDPTH=depth)
    assert (bench.written(), bench.q.trigger_on) == (written, True)


def test_e4_a_change_of_trigdpth_is_judged_under_depth(world: World) -> None:
    bench = Bench(world, TRIGTYPE=DEPTH, TRIGDPTH=9)
    bench.put(0, 0, 0)
    world.alter(TRIGDPTH=4)
    assert (bench.written(), bench.q.trigger_on) == (0, True)
    world.alter(TRIGDPTH=2)  # with more than enough
    assert (bench.written(), bench.q.trigger_on) == (1, False)
    world.alter(TRIGDPTH=3)
    world.alter(TRIGDPTH=1)
    assert (bench.written(), bench.q.trigger_on) == (1, False)  # it stays off
    world.alter(TRIGGER=1, TRIGDPTH=3)
    assert (bench.written(), bench.q.trigger_on) == (2, False)


# TRIGINT


@pytest.mark.parametrize(
    ("interval_ms", "waited", "written"),
    [(0, 0.0, 1), (1000, 0.999, 0), (1000, 1.0, 1), (999_999_999, 3600.0, 0)],
)
def test_e2_first_comes_again_after_the_trigger_interval(
    world: World, interval_ms: int, waited: float, written: int
) -> None:
    world.alter_manager(TRIGINT=interval_ms)
    bench = Bench(world, TRIGTYPE=FIRST)
    bench.put(0)
    assert len(bench.taken()) == 1
    world.pass_time(waited)
    bench.put(0)
    assert bench.written() == written


@pytest.mark.parametrize("event", ["I PUT=1 PUT=0", "Q TRIGGER=0 TRIGGER=1", "close", "Q GET=1 GET=0", "monitor"])
def test_e2_each_event_starts_the_trigger_interval(world: World, event: str) -> None:  # E3 to E7
    world.alter_manager(TRIGINT=1000)
    bench = Bench(world, TRIGTYPE=FIRST)
    world.pass_time(5)
    bench.put(0)
    assert bench.written() == 1
    world.pass_time(5)
    match event.split():
        case ["close"]:
            world.open("Q", MQOO.INPUT_SHARED).close()
        case ["monitor"]:
            bench.monitor.close()
            bench.serve()
        case [name, *changes]:
            for change in changes:
                keyword, value = change.split("=")
                world.alter(name, **{keyword: int(value)})
    assert bench.written() == 2
    world.pass_time(0.5)
    bench.put(0)
    assert bench.written() == 2
    world.pass_time(0.5)
    bench.put(0)
    assert bench.written() == 3


def test_e2_depth_has_no_interval(world: World) -> None:
    bench = Bench(world, TRIGTYPE=DEPTH, TRIGDPTH=2)
    server = world.open("Q", MQOO.INPUT_SHARED)
    bench.put(0, 0, 0)
    assert bench.written() == 0
    world.alter(GET=1)
    server.close()
    world.alter(TRIGGER=0)
    world.alter(GET=0, TRIGGER=1)  # E4: more than enough
    assert (bench.written(), bench.q.trigger_on) == (1, False)
    world.alter(TRIGGER=1)
    assert bench.written() == 2


# DEPTH


def test_depth_switches_triggering_off_when_it_fires(world: World) -> None:
    bench = Bench(world, TRIGTYPE=DEPTH, TRIGDPTH=3)
    bench.put(0, 0)
    assert (bench.written(), bench.q.trigger_on) == (0, True)
    bench.put(0)
    assert (bench.written(), bench.q.trigger_on) == (1, False)
    assert world.manager.objects.definitions["QUEUE", "Q"].attributes["TRIGGER"] == 0
    bench.put(0)
    assert bench.written() == 1
    world.alter(TRIGGER=1)
    assert (bench.written(), bench.q.trigger_on) == (2, False)


def test_depth_stays_off_after_a_backout_and_its_trigger_message_is_written(world: World) -> None:
    bench = Bench(world, TRIGTYPE=DEPTH, TRIGDPTH=2)
    access = world.open("Q", OUT)
    access.put_all([b"A", b"B"], MQPMO.SYNCPOINT)
    assert (bench.written(), bench.q.trigger_on) == (0, False)
    access.program.backout()
    assert (bench.written(), bench.q.trigger_on, bench.q.depth) == (1, False, 0)


def test_that_depth_has_switched_off_is_durable(world: World) -> None:
    bench = Bench(world, TRIGTYPE=DEPTH, TRIGDPTH=2, DEFPSIST=1)
    access = world.open("Q", OUT)
    access.put_all([b"A", b"B"], MQPMO.SYNCPOINT)
    world.restart()  # the unit of work is gone
    queue = world.manager.objects.queues["Q"]
    assert (queue.trigger_on, queue.depth) == (False, 0)
    assert bench.q is not queue


@pytest.mark.parametrize("given", [{"DESCR": "other"}, {"TRIGGER": 1}, {"TRIGDPTH": 2}], ids=str)
def test_a_change_on_its_way_does_not_undo_what_depth_has_done(world: World, given: dict[str, int | str]) -> None:
    """The change was decided before DEPTH fired, and carries all attributes."""
    bench = Bench(world, TRIGTYPE=DEPTH, TRIGDPTH=2)
    late = world.freeze_alter("Q", **given)
    bench.put(0, 0)
    assert (bench.written(), bench.q.trigger_on) == (1, False)
    late()
    assert bench.q.trigger_on is False
    assert world.manager.objects.definitions["QUEUE", "Q"].attributes["TRIGGER"] == 0
    assert all(bench.q.definition.attributes[keyword] == value for keyword, value in given.items() if value != 1)
    assert bench.written() == 1
    world.restart()
    assert world.manager.objects.queues["Q"].trigger_on is False


def test_triggering_is_switched_on_again_before_the_store_knows_that_it_was_off(world: World) -> None:
    bench = Bench(world, TRIGTYPE=DEPTH, TRIGDPTH=2, DEFPSIST=1)
    with world.hold():
        bench.put(0, 0)
        assert bench.q.unwritten_switch_off
        assert world.manager.objects.definitions["QUEUE", "Q"].attributes["TRIGGER"] == 0
        world.open("Q", MQOO.INPUT_SHARED)
        world.alter(TRIGGER=1)  # which is what the store has
        assert (bench.q.trigger_on, bench.q.unwritten_switch_off) == (True, False)
    assert bench.q.trigger_on is True
    world.restart()
    assert world.manager.objects.queues["Q"].trigger_on is True


@pytest.mark.parametrize(("priorities", "fires"), [((4, 4, 5), False), ((4, 5, 4, 9), True)])
def test_c2_depth_counts_only_messages_of_trigmpri_or_more(
    world: World, priorities: tuple[int, ...], *, fires: bool
) -> None:
    bench = Bench(world, TRIGTYPE=DEPTH, TRIGDPTH=2, TRIGMPRI=5)
    bench.put(*priorities)
    assert bench.written() == fires


def test_c3_messages_in_somebodys_hands_do_not_count_for_depth(world: World) -> None:
    bench = Bench(world, TRIGTYPE=DEPTH, TRIGDPTH=2)
    bench.put(0)
    getter = world.open("Q", MQOO.INPUT_SHARED)
    getter.get(MQGMO.SYNCPOINT)
    getter.close()
    bench.put(0)
    assert bench.written() == 0
    bench.put(0)
    assert bench.written() == 1


# Units of work


@pytest.fixture
def dead(world: World) -> LocalQueue:
    """The dead-letter queue."""
    world.alter_manager(DEADQ="D")
    return world.define("D")


@pytest.mark.parametrize(("type_", "committed", "backed_out"), [(EVERY, 3, 0), (FIRST, 1, 1), (DEPTH, 1, 1)])
@pytest.mark.parametrize("commit", [True, False])
def test_a_unit_of_work_brings_its_trigger_messages_when_it_is_over(
    world: World, type_: int, committed: int, backed_out: int, *, commit: bool
) -> None:
    bench = Bench(world, TRIGTYPE=type_, TRIGDPTH=2)
    access = world.open("Q", OUT)
    access.put_all([b"A", b"B", b"C"], MQPMO.SYNCPOINT)
    assert bench.written() == 0
    (access.program.commit if commit else access.program.backout)()
    assert bench.written() == (committed if commit else backed_out)


@pytest.mark.parametrize(("type_", "committed", "backed_out"), [(EVERY, 3, 0), (FIRST, 1, 1), (DEPTH, 1, 1)])
@pytest.mark.parametrize("commit", [True, False])
def test_trigger_messages_of_a_unit_are_put_though_the_initiation_queue_has_put_disabled_by_then(
    world: World, dead: LocalQueue, type_: int, committed: int, backed_out: int, *, commit: bool
) -> None:
    """They were put with their messages: what changes later does not matter (triggers 2.4)."""
    bench = Bench(world, TRIGTYPE=type_, TRIGDPTH=2)
    access = world.open("Q", OUT)
    access.put_all([b"A", b"B", b"C"], MQPMO.SYNCPOINT)
    world.alter("I", PUT=1)
    (access.program.commit if commit else access.program.backout)()
    assert bench.written() == (committed if commit else backed_out)
    bench.put(0)
    assert bench.written() == (committed if commit else backed_out), "C7: an event finds it inhibited"
    assert (dead.depth, world.lost) == (0, [])


def test_first_survives_the_backout_of_the_unit_whose_message_counted(world: World) -> None:
    bench = Bench(world, TRIGTYPE=FIRST)
    one, two = world.open("Q", OUT), world.open("Q", OUT)
    one.put(b"1", MQPMO.SYNCPOINT)
    two.put(b"2", MQPMO.SYNCPOINT)
    two.program.commit()
    assert bench.written() == 0
    one.program.backout()
    assert bench.written() == 1


@pytest.mark.parametrize(("close_first", "written"), [(True, 0), (False, 1)])
def test_e3_a_close_does_not_count_what_is_in_a_unit_of_work(world: World, written: int, *, close_first: bool) -> None:
    bench = Bench(world, TRIGTYPE=FIRST)
    bench.put(0)
    bench.taken()
    access = world.open("Q", MQOO.INPUT_SHARED)
    access.get(MQGMO.SYNCPOINT)
    if close_first:
        access.close()
        access.program.backout()
    else:
        access.program.backout()
        access.close()
    assert bench.written() == written


@pytest.mark.parametrize("type_", TYPES.values(), ids=TYPES)
def test_what_was_promised_when_a_put_triggered_is_kept(world: World, type_: int) -> None:
    """The trigger message says what was so when the event happened, whatever has changed since."""
    bench = Bench(world, TRIGTYPE=type_, TRIGDPTH=1, TRIGDATA="then")
    access = world.open("Q", OUT)
    access.put(b"A", MQPMO.SYNCPOINT)
    world.alter(TRIGGER=0, TRIGDATA="now", PROCESS="", INITQ="")
    access.program.commit()
    assert bench.taken() == [MQTM("Q", "P", "then", 6, "app", "envr", "user")]


def test_the_queue_may_be_gone_when_its_trigger_message_is_written(world: World) -> None:
    bench = Bench(world, TRIGTYPE=FIRST)
    access = world.open("Q", OUT)
    access.put(b"A", MQPMO.SYNCPOINT)
    world.delete()
    access.program.commit()
    assert [message.q_name for message in bench.taken()] == ["Q"]


def test_a_put_that_was_not_durable_triggers_as_one_that_was_backed_out(world: World) -> None:
    bench = Bench(world, TRIGTYPE=EVERY)
    world.define("F", TRIGGER=1, TRIGTYPE=FIRST, PROCESS="P", INITQ="I")
    with world.hold():
        bench.put(0)
        world.open("F", OUT).put(b"A")
        world.settle_next(written=False)
        assert bench.written() == 0
        world.settle_next(written=False)
        assert [message.q_name for message in bench.taken()] == ["F"]


# Messages that the queue manager cuts


@pytest.mark.parametrize(("type_", "written"), [(EVERY, 2), (FIRST, 1), (DEPTH, 1)])
def test_c3_a_message_that_is_cut_is_one_event_when_all_its_segments_are_there(
    world: World, type_: int, written: int
) -> None:
    bench = Bench(world, TRIGTYPE=type_, TRIGDPTH=3, MAXMSGL=64)
    access = world.open("Q", OUT)
    for _ in range(2):
        access.put(bytes(150), 0, MessageDescriptor(msg_flags=MQMF.SEGMENTATION_ALLOWED, persistence=1))
    assert (bench.q.depth, bench.written()) == (6, written)


def test_c3_the_segments_of_a_first_message_are_not_one_after_the_other(world: World) -> None:
    world.alter_manager(TRIGINT=0)
    bench = Bench(world, TRIGTYPE=FIRST, MAXMSGL=64)
    md = MessageDescriptor(msg_flags=MQMF.SEGMENTATION_ALLOWED, persistence=1)
    world.open("Q", OUT).put(bytes(150), 0, md)
    assert bench.written() == 1


@pytest.mark.parametrize(("type_", "written"), [(EVERY, 2), (FIRST, 1), (DEPTH, 1)])
def test_c3_segments_that_a_program_puts_are_an_event_each(world: World, type_: int, written: int) -> None:
    bench = Bench(world, TRIGTYPE=type_, TRIGDPTH=2)
    access = world.open("Q", OUT)
    for flags in (MQMF.SEGMENT, MQMF.LAST_SEGMENT):
        access.put(bytes(16), MQPMO.LOGICAL_ORDER, MessageDescriptor(msg_flags=flags))
    assert bench.written() == written


# What else does not trigger


@pytest.mark.parametrize("type_", [EVERY, FIRST])
def test_only_arrivals_trigger(world: World, type_: int) -> None:  # C1
    bench = Bench(world, TRIGTYPE=type_)
    access = world.open("Q", MQOO.INPUT_SHARED | MQOO.OUTPUT | MQOO.BROWSE)
    access.put(b"A", 0, MessageDescriptor(expiry=10))
    access.put(b"B")
    bench.taken()
    access.get(MQGMO.BROWSE_FIRST)
    access.get(MQGMO.SYNCPOINT)
    access.program.backout()
    world.pass_time(2)
    assert access.drain() == [b"B"]
    assert bench.written() == 0


def test_trigger_messages_start_nothing_themselves(world: World) -> None:
    """Else an initiation queue that names itself would fill without end."""
    bench = Bench(world, TRIGTYPE=EVERY)
    world.alter("I", TRIGGER=1, TRIGTYPE=EVERY, PROCESS="P", INITQ="I")
    bench.put(0, 0)
    assert bench.written() == 2
    world.alter("I", INITQ="")
    bench.initq.pending_starts = 0
    bench.put(0)
    assert (bench.written(), bench.initq.pending_starts) == (3, 0)


# What a trigger message is


def test_a_trigger_message_says_what_the_definitions_say(world: World) -> None:
    bench = Bench(world, TRIGTYPE=EVERY, TRIGDATA="THISISTRIGGER")
    bench.put(0)
    assert bench.taken() == [MQTM("Q", "P", "THISISTRIGGER", 6, "app", "envr", "user")]


def test_c6_a_transmission_queue_needs_no_process(world: World) -> None:
    bench = Bench(world, TRIGTYPE=FIRST, TRIGDATA="TO.QM2", USAGE=1, PROCESS="")
    world.alter_manager(DEFXMITQ="Q")
    program = world.connect()
    access = program.open_at("FAR", "QM2")
    access.put(b"A")
    assert bench.taken() == [MQTM("Q", "", "TO.QM2", -1)]


def test_the_descriptor_of_a_trigger_message(world: World) -> None:
    bench = Bench(world, TRIGTYPE=EVERY)
    world.alter("I", DEFPRTY=7, DEFPSIST=1)
    world.open("Q", OUT).put(b"A", 0, MessageDescriptor(priority=2, persistence=1, correl_id=b"C" * 24, expiry=100))
    entry = bench.monitor.get().entry
    md = MessageDescriptor(msg_id=entry.msg_id)
    unpack_md(entry.packed_md, md)
    assert (entry.priority, entry.persistence, entry.correl_id, entry.backout_count) == (7, 0, bytes(24), 0)
    assert (entry.deadline, entry.length) == (None, 684)
    put_date, put_time = world.manager.ids.stamp(world.now)
    expected = MessageDescriptor(
        msg_id=entry.msg_id, msg_type=8, encoding=546, coded_char_set_id=1208, format="MQTRIG", reply_to_q_mgr="QM1",
        put_appl_type=7, put_appl_name="QM1", put_date=put_date, put_time=put_time,
    )  # fmt: skip
    assert md == expected
    assert md.msg_id != bytes(24)


# Where it cannot be put


def headers(world: World) -> list[tuple[int, str, str, str]]:
    """The headers of the dead letters, which are got: reason, queue, queue manager, format of what stands behind."""
    found = []
    for data in world.open("D", MQOO.INPUT_SHARED).drain():
        header = MQDLH.from_bytes(data[: MQDLH.SIZE])
        assert MQTM.from_bytes(data[MQDLH.SIZE :]).q_name in ("Q", "D")
        found.append((header.reason, header.dest_q_name, header.dest_q_mgr_name, header.format))
    return found


@pytest.mark.parametrize(("attributes", "reason"), [({"MAXDEPTH": 0}, 2053), ({"MAXMSGL": 683}, 2030)])
@pytest.mark.parametrize("commit", [True, False])
def test_a_trigger_message_that_does_not_fit_is_a_dead_letter(
    world: World, dead: LocalQueue, attributes: dict[str, int], reason: int, *, commit: bool
) -> None:
    bench = Bench(world, TRIGTYPE=FIRST)
    world.alter("I", **attributes)
    access = world.open("Q", OUT)
    access.put(b"A", MQPMO.SYNCPOINT)
    (access.program.commit if commit else access.program.backout)()
    assert (bench.written(), bench.q.depth, dead.depth) == (0, int(commit), 1)
    (entry,) = dead.shelf.entries.values()
    md = MessageDescriptor()
    unpack_md(entry.packed_md, md)
    assert (md.format, entry.persistence) == ("MQDEAD", 0)
    assert headers(world) == [(reason, "I", "QM1", "MQTRIG")]
    assert world.lost == []


def test_an_initiation_queue_that_goes_before_the_commit_makes_a_dead_letter(world: World, dead: LocalQueue) -> None:
    bench = Bench(world, TRIGTYPE=EVERY)
    access = world.open("Q", OUT)
    access.put(b"A", MQPMO.SYNCPOINT)
    world.delete("I")
    access.program.commit()
    assert (bench.q.depth, headers(world)) == (1, [(2085, "I", "QM1", "MQTRIG")])


def test_without_a_dead_letter_queue_it_is_lost_and_that_is_told_once(world: World) -> None:
    bench = Bench(world, TRIGTYPE=FIRST)
    world.alter("I", MAXDEPTH=0)
    bench.put(0)
    assert (bench.q.depth, bench.written()) == (1, 0)
    assert [(lost.message.q_name, int(lost.error.reason)) for lost in world.lost] == [("I", 2053)]


def test_a_dead_letter_triggers_in_turn_and_what_that_brings_is_no_dead_letter(world: World, dead: LocalQueue) -> None:
    bench = Bench(world, TRIGTYPE=EVERY)
    world.define("J")
    world.open("J", MQOO.INPUT_SHARED)
    world.alter("D", TRIGGER=1, TRIGTYPE=EVERY, PROCESS="P", INITQ="J")
    world.alter("I", MAXDEPTH=0)
    bench.put(0)
    assert (dead.depth, world.manager.objects.queues["J"].depth, world.lost) == (1, 1, [])
    world.alter("J", MAXDEPTH=1)
    bench.put(0)
    assert (dead.depth, world.manager.objects.queues["J"].depth) == (2, 1)
    assert [lost.message.q_name for lost in world.lost] == ["J"]


def test_a_dead_letter_queue_whose_initiation_queue_is_full_ends_with_one_dead_letter(
    world: World, dead: LocalQueue
) -> None:
    bench = Bench(world, TRIGTYPE=EVERY)
    world.alter("D", TRIGGER=1, TRIGTYPE=EVERY, PROCESS="P", INITQ="I")
    world.alter("I", MAXDEPTH=0)
    bench.put(0)
    assert (dead.depth, [lost.message.q_name for lost in world.lost]) == (1, ["I"])


# Which queues name an initiation queue


def test_e7_each_queue_that_names_it_brings_one_in_the_order_of_their_names(world: World) -> None:
    bench = Bench(world, TRIGTYPE=EVERY)
    for name in ("C", "A", "B"):
        world.define(name, TRIGGER=1, TRIGTYPE=FIRST, PROCESS="P", INITQ="I")
    world.define("OTHER", TRIGGER=1, TRIGTYPE=FIRST, PROCESS="P", INITQ="J")
    bench.monitor.close()
    for name in ("C", "A", "B", "OTHER", "Q"):
        world.open(name, OUT).put_all([b"1", b"2"])
    world.alter("B", INITQ="J")
    world.delete("C")
    bench.serve()
    assert [message.q_name for message in bench.taken()] == ["A", "Q"]


def test_c7_an_initiation_queue_that_is_being_deleted(world: World) -> None:
    bench = Bench(world, TRIGTYPE=EVERY)
    bench.initq.deleted = True
    bench.put(0)
    bench.initq.deleted = False
    assert (bench.written(), bench.q.depth) == (0, 1)


def test_e7_by_an_alias(world: World) -> None:
    bench = Bench(world, TRIGTYPE=FIRST)
    bench.monitor.close()
    bench.put(0)
    world.define_alias("ALIAS", TARGET="I")
    world.open("ALIAS", MQOO.INPUT_SHARED)
    assert bench.written() == 1


@pytest.mark.parametrize("others", [1, 1000])
def test_an_open_of_another_queue_does_not_look_at_those_that_trigger(world: World, others: int) -> None:
    for number in range(others):
        world.define(f"Q{number}", TRIGGER=1, TRIGTYPE=FIRST, PROCESS="P", INITQ="I")
    world.define("PLAIN")
    hconn = world.connect()
    with Steps() as steps:
        hconn.open("PLAIN", MQOO.INPUT_SHARED)
    assert steps.count < 1500


# Restart


def test_e7_repairs_what_a_restart_has_lost(world: World) -> None:
    bench = Bench(world, TRIGTYPE=EVERY, DEFPSIST=1)
    bench.put(0, 0, 0)
    assert bench.written() == 3
    world.restart()
    world.open("I", MQOO.INPUT_SHARED)
    assert world.manager.objects.queues["I"].depth == 1


# Messages that become available outside any put


@pytest.mark.parametrize(("type_", "written"), [(EVERY, 3), (FIRST, 1), (DEPTH, 1)])
def test_what_becomes_available_again_arrives(world: World, type_: int, written: int) -> None:
    bench = Bench(world, TRIGTYPE=type_, TRIGDPTH=2)
    world.alter(TRIGGER=0)
    bench.put(0, 0, 0)
    entries = list(bench.q.shelf.entries.values())
    for entry in entries:
        bench.q.claim(entry)
    world.alter(TRIGGER=1)
    assert bench.written() == 0
    for entry in entries:
        bench.q.release(entry)
    arriving.arrived(world.manager, bench.q, entries, world.moment)
    world.perform()
    assert bench.written() == written
