"""The core against a model, from random calls: every result, every queue and every wait is the model's.

Hypothesis looks for short stories that fail, and makes them shorter. The walks are long and even: they try what takes
many steps to come about.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.core.twins import QUEUES, SLOTS, WAYS, WAYS_TO_WAIT, Description, Twins, Way
from tests.tries import tries

PRIORITIES = (4, 0, 9)
EXPIRIES = (-1, -1, -1, 10, 30)
MSG_IDS = ("", "M")
CORREL_IDS = ("", "X", "Y")
WANTED = (("", ""), ("", ""), ("", ""), ("", "X"), ("", "Y"), ("M", ""), ("M", "X"))
SECONDS = (0.1, 1.0, 2.0)

slots = st.sampled_from(range(len(SLOTS)))
programs = st.sampled_from([0, 1])
wanted = st.sampled_from(WANTED)
seldom = st.sampled_from([False] * 5 + [True])
descriptions = st.builds(
    Description,
    priority=st.sampled_from(PRIORITIES),
    persistent=st.booleans(),
    expiry=st.sampled_from(EXPIRIES),
    msg_id=st.sampled_from(MSG_IDS),
    correl_id=st.sampled_from(CORREL_IDS),
)


class Machine(RuleBasedStateMachine):
    """The steps that hypothesis may take. A rule stands for its share of them, so the rare ones are put together."""

    def __init__(self) -> None:
        super().__init__()
        self.twins = Twins()

    @initialize(on_q=st.lists(descriptions, max_size=5), on_f=st.lists(descriptions, max_size=5))
    def put_before(self, on_q: list[Description], on_f: list[Description]) -> None:
        self.put(0, on_q, syncpoint=False)
        self.put(2, on_f, syncpoint=False)

    @rule(slot=slots, messages=st.lists(descriptions, min_size=1, max_size=3), syncpoint=st.booleans())
    def put(self, slot: int, messages: list[Description], syncpoint: bool) -> None:
        for message in messages:
            self.twins.put(slot, message, syncpoint=syncpoint)

    @rule(slot=slots, way=st.sampled_from(WAYS), ids=wanted)
    def get(self, slot: int, way: Way, ids: tuple[str, str]) -> None:
        self.twins.get(slot, way, *ids)

    @rule(slot=slots, way=st.sampled_from(WAYS_TO_WAIT), ids=wanted)
    def wait(self, slot: int, way: Way, ids: tuple[str, str]) -> None:
        self.twins.wait(slot, way, *ids)

    @rule(program=programs, commit=st.sampled_from([True, True, False]))
    def end_unit(self, program: int, commit: bool) -> None:
        self.twins.end_unit(program, commit=commit)

    @rule(program=programs)
    def leave_unclaimed(self, program: int) -> None:
        self.twins.leave_unclaimed(program)

    @rule(held=st.booleans())
    def hold(self, held: bool) -> None:
        self.twins.hold(held=held)

    @rule(written=st.booleans())
    def settle_next(self, written: bool) -> None:
        self.twins.settle_next(written=written)

    @rule(seconds=st.sampled_from(SECONDS), scan=st.booleans())
    def pass_time(self, seconds: float, scan: bool) -> None:
        self.twins.pass_time(seconds, scan=scan)

    @rule(name=st.sampled_from(sorted(QUEUES)), off=seldom, fifo=st.booleans(), priority=st.sampled_from([0, 5]))
    def alter(self, name: str, off: bool, fifo: bool, priority: int) -> None:
        self.twins.alter(name, get=not off, put=not (off and fifo), fifo=fifo, priority=priority)

    @rule(event=st.sampled_from(["time out", "time out", "close", "close", "restart"]), number=st.integers(0, 4))
    def end_something(self, event: str, number: int) -> None:
        if event == "restart":
            self.twins.restart()
        elif event == "close":
            self.twins.close(number)
        else:
            self.twins.time_out(number)

    put_2 = put
    get_2 = get_3 = get
    wait_2 = wait
    end_unit_2 = end_unit

    @invariant()
    def check(self) -> None:
        self.twins.check()


def walk(seed: int, steps: int) -> None:
    """Random steps from a seed."""
    draw = Random(seed)
    twins = Twins()
    for _ in range(steps):
        step(twins, draw)
        twins.check()


def step(twins: Twins, draw: Random) -> None:
    """One random step. Most of them are calls, so that queues fill and drain and waits come and go."""
    program, slot, name = draw.randrange(2), draw.randrange(len(SLOTS)), draw.choice(sorted(QUEUES))
    kind = draw.randrange(100)
    if kind < 25:
        message = Description(
            draw.choice(PRIORITIES),
            draw.random() < 0.5,
            draw.choice(EXPIRIES),
            draw.choice(MSG_IDS),
            draw.choice(CORREL_IDS),
        )
        twins.put(slot, message, syncpoint=draw.random() < 0.5)
    elif kind < 45:
        twins.get(slot, draw.choice(WAYS), *draw.choice(WANTED))
    elif kind < 60:
        twins.wait(slot, draw.choice(WAYS_TO_WAIT), *draw.choice(WANTED))
    elif kind < 75:
        twins.end_unit(program, commit=draw.random() < 0.6)
    elif kind < 80:
        twins.leave_unclaimed(program)
    elif kind < 84:
        twins.hold(held=draw.random() < 0.4)
    elif kind < 88:
        twins.settle_next(written=draw.random() < 0.6)
    elif kind < 92:
        twins.pass_time(draw.choice(SECONDS), scan=draw.random() < 0.3)
    elif kind < 94:
        fifo, off = draw.random() < 0.5, draw.random()
        twins.alter(name, get=off > 0.2, put=off < 0.9, fifo=fifo, priority=draw.choice([0, 5]))
    elif kind < 96:
        twins.close(slot)
    elif kind < 99:
        twins.time_out(draw.randrange(10))
    else:
        twins.restart()


ORDINARY = settings(tries(120), stateful_step_count=50)
LONG = settings(ORDINARY, max_examples=3000, stateful_step_count=100, derandomize=False)


def test_the_core_does_what_the_model_does() -> None:
    run_state_machine_as_test(Machine, settings=ORDINARY)


@pytest.mark.parametrize("seed", range(20))
def test_on_a_long_walk_the_core_does_what_the_model_does(seed: int) -> None:
    walk(seed, 1000)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_over_a_long_search_the_core_does_what_the_model_does() -> None:
    run_state_machine_as_test(Machine, settings=LONG)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(1000, 1010))
def test_on_very_long_walks_the_core_does_what_the_model_does(seed: int) -> None:
    walk(seed, 50_000)
