"""What calls cost, in time: at a depth of a million at most three times what they cost at a hundred, also with ten
thousand uncommitted messages at the head of the queue.

The core alone is measured, without a store, and all in one run: only ratios count. A figure is the least median of
several rounds, so that what else the machine does is left out.
"""

from __future__ import annotations

import gc
import sys
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQMF, MQMO, MQPMO, MessageDescriptor
from tests.core.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

DEPTHS = (100, 10_000, 1_000_000)
HIDDEN = (0, 10_000)
CALLS, ROUNDS = 50, 15
GROUP_SIZE = 5
LIMIT = 3.0


class Bench:
    """A queue of groups of five, and measured calls on it that leave it as deep as it was."""

    def __init__(self, depth: int, hidden: int) -> None:
        self.world = World()
        self.world.alter_manager(MAXUMSGS=2 * max(HIDDEN))
        self.queue = self.world.define("Q", MAXDEPTH=999_999_999)
        self.access = self.world.open()
        self.logical = self.world.open()
        self.browser = self.world.open()
        self.number = 0
        self.depth = depth
        self._hide(hidden)
        while self.number < depth:
            self.put()
        self.middle = self.number // 2 - 1

    def _hide(self, count: int) -> None:
        """Half of them being got by somebody, half of them being put."""
        other = self.world.open()
        for _ in range(count // 2):
            other.put()
        for _ in range(count // 2):
            other.get(MQGMO.SYNCPOINT)
        for _ in range(count - count // 2):
            other.put(options=MQPMO.SYNCPOINT)

    def put(self) -> None:
        """A message of a group of five, with identifiers of its own."""
        number, self.number = self.number, self.number + 1
        place = number % GROUP_SIZE + 1
        flags = MQMF.LAST_MSG_IN_GROUP if place == GROUP_SIZE else MQMF.MSG_IN_GROUP
        md = MessageDescriptor(
            msg_id=identity(number),
            correl_id=identity(number),
            group_id=identity(number // GROUP_SIZE),
            msg_seq_number=place,
            msg_flags=flags,
        )
        self.access.put(b"x", 0, md)

    def get_by_msg_id(self) -> None:
        self._get_by(MQMO.MATCH_MSG_ID, MessageDescriptor(msg_id=self._next_id()))

    def get_by_correl_id(self) -> None:
        self._get_by(MQMO.MATCH_CORREL_ID, MessageDescriptor(correl_id=self._next_id()))

    def _next_id(self) -> bytes:
        """Of a message in the middle of the queue, another one each time."""
        self.middle += 1
        return identity(self.middle)

    def _get_by(self, match: int, md: MessageDescriptor) -> None:
        """Got under syncpoint, so that the backout behind the clock puts it back."""
        found = self.access.get(MQGMO.SYNCPOINT, md, match=match)
        assert found.entry.msg_id == identity(self.middle)

    def get_in_logical_order(self) -> None:
        self.logical.get(MQGMO.LOGICAL_ORDER | MQGMO.SYNCPOINT)

    def get_complete_groups(self) -> None:
        self.logical.get(MQGMO.LOGICAL_ORDER | MQGMO.ALL_MSGS_AVAILABLE | MQGMO.SYNCPOINT)

    def browse_next(self) -> None:
        self.browser.get(MQGMO.BROWSE_NEXT)

    def browse_next_in_logical_order(self) -> None:
        self.browser.get(MQGMO.BROWSE_NEXT | MQGMO.LOGICAL_ORDER)

    def restore(self) -> None:
        """Undo a round of calls."""
        while self.number > self.depth:
            self.number -= 1
            self.access.get(0, MessageDescriptor(msg_id=identity(self.number)))
        self.access.program.backout()
        self.logical.program.backout()
        for access in (self.access, self.logical, self.browser):
            access.close()
        self.access, self.logical, self.browser = (self.world.open() for _ in range(3))
        self.middle = self.number // 2 - 1

    def measure(self, call: Callable[[Bench], None]) -> float:
        """Microseconds a call."""
        rounds = []
        for _ in range(ROUNDS):
            times = []
            for _ in range(CALLS):
                started = perf_counter()
                call(self)
                times.append(perf_counter() - started)
            rounds.append(median(times))
            self.restore()
        return min(rounds) * 1e6


CALLS_MEASURED: dict[str, Callable[[Bench], None]] = {
    "put": Bench.put,
    "get by MsgId": Bench.get_by_msg_id,
    "get by CorrelId": Bench.get_by_correl_id,
    "get, LOGICAL_ORDER": Bench.get_in_logical_order,
    "get, ALL_MSGS_AVAILABLE": Bench.get_complete_groups,
    "BROWSE_NEXT": Bench.browse_next,
    "BROWSE_NEXT, LOGICAL_ORDER": Bench.browse_next_in_logical_order,
}


@pytest.fixture
def without_collections() -> Iterator[None]:
    """The collector of cycles walks all objects there are; its cost is the process's, not a call's."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collections")
def test_the_cost_of_a_call_does_not_grow_with_the_depth() -> None:
    costs: dict[tuple[int, int], dict[str, float]] = {}
    for depth in DEPTHS:
        for hidden in HIDDEN:
            bench = Bench(depth, hidden)
            costs[depth, hidden] = {name: bench.measure(call) for name, call in CALLS_MEASURED.items()}
            del bench
            gc.collect()
    report = table(costs)
    sys.stdout.write(report)
    lowest = costs[DEPTHS[0], 0]
    dear = {
        (name, *at): cost / lowest[name]
        for at, each in costs.items()
        for name, cost in each.items()
        if cost > LIMIT * lowest[name]
    }
    assert not dear, report


def table(costs: dict[tuple[int, int], dict[str, float]]) -> str:
    """Microseconds a call, by depth and uncommitted messages."""
    heads = [f"{depth:,}" + (f" + {hidden:,}" if hidden else "") for depth, hidden in costs]
    lines = ["", f"{'microseconds a call':28}" + "".join(f"{head:>20}" for head in heads)]
    lines += [f"{name:28}" + "".join(f"{each[name]:20.1f}" for each in costs.values()) for name in CALLS_MEASURED]
    return "\n".join(lines) + "\n"


def identity(number: int) -> bytes:
    return (number + 1).to_bytes(24, "big")
