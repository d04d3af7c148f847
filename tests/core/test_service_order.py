"""Who is served is who would be if all that wait were asked one by one, in the order of service (semantics 5.3)."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from broker.core.queues.waiters import Waiter, Waiters
from broker.mqi import MQGMO, MQMF, MQMO, MQOO, MQPMO, MessageDescriptor, MQError
from broker.mqi.structures import NO_ID
from tests.core.world import World, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.core.message.entry import Entry
    from broker.core.queues.effects import Effects
    from broker.core.queues.shelf.shelf import Shelf
    from broker.core.queues.waiters import Judge
    from tests.core.world import Access, Wait

STEPS = 250
WAITS_MAX = 25
IDS = (NO_ID, name_of("A"), name_of("B"))
SELECTORS = ("", "", "", "Root.MQMD.Priority > 4", "Root.MQMD.Priority < 9")
FOR_ALL = MQOO.INPUT_SHARED | MQOO.OUTPUT | MQOO.BROWSE | MQOO.CO_OP
BROWSE_OPTIONS = (
    0,
    MQGMO.LOCK,
    MQGMO.MARK_BROWSE_HANDLE,
    MQGMO.MARK_BROWSE_CO_OP,
    MQGMO.MARK_BROWSE_CO_OP | MQGMO.UNMARKED_BROWSE_MSG,
    MQGMO.UNMARK_BROWSE_CO_OP,
    MQGMO.UNMARKED_BROWSE_MSG,
)
WHOLE_OPTIONS = (
    0,
    0,
    0,
    MQGMO.LOGICAL_ORDER,
    MQGMO.COMPLETE_MSG,
    MQGMO.ALL_MSGS_AVAILABLE,
    MQGMO.ALL_SEGMENTS_AVAILABLE,
    MQGMO.LOGICAL_ORDER | MQGMO.ALL_MSGS_AVAILABLE,
    MQGMO.LOGICAL_ORDER | MQGMO.COMPLETE_MSG,
)
MATCHES = (
    0,
    0,
    MQMO.MATCH_MSG_ID,
    MQMO.MATCH_CORREL_ID,
    MQMO.MATCH_GROUP_ID,
    MQMO.MATCH_MSG_SEQ_NUMBER,
    MQMO.MATCH_OFFSET,
    MQMO.MATCH_GROUP_ID | MQMO.MATCH_MSG_SEQ_NUMBER,
    MQMO.MATCH_MSG_ID | MQMO.MATCH_CORREL_ID,
    MQMO.MATCH_CORREL_ID | MQMO.MATCH_OFFSET,
)
FLAGS = (
    0,
    0,
    0,
    MQMF.MSG_IN_GROUP,
    MQMF.LAST_MSG_IN_GROUP,
    MQMF.SEGMENT,
    MQMF.LAST_SEGMENT,
    MQMF.MSG_IN_GROUP | MQMF.LAST_SEGMENT,
    MQMF.SEGMENTATION_ALLOWED,
)


class AskedOneByOne(Waiters):
    """All that wait, as plain lists: every one of them is asked about every message."""

    def takers(self, entry: Entry, shelf: Shelf, judge: Judge) -> Iterator[tuple[Waiter, Entry]]:
        for waiter in sorted(self, key=_turn):
            found = judge(waiter.request)
            if found is not None:
                yield waiter, found


def _turn(waiter: Waiter) -> tuple[int, int]:
    """Browsers come first, then those who ask for something, then the others; of a class the first to come."""
    request = waiter.request
    asks = request.narrow or request.msg_id is not None or request.correl_id is not None
    return 0 if request.browse and not request.lock else 1 if asks else 2, waiter.number


class Served(World):
    """A world that notes who was served with what, in order."""

    def __init__(self, waiters: Waiters) -> None:
        self.log: list[tuple[int, object]] = []
        self.waits: list[tuple[int, Access, Wait]] = []
        super().__init__()
        self.alter_manager(MAXUMSGS=3)
        self.define(MAXDEPTH=1000).waiters = waiters

    def serve(self, effects: Effects) -> None:
        numbers = {wait: number for number, _, wait in self.waits}
        self.log += [
            (numbers[waiter.owner], ([entry.data for entry in grant.entries], grant.reason))
            for waiter, grant in effects.grants
        ]
        self.log += [(numbers[waiter.owner], reason) for waiter, reason in effects.ended]
        super().serve(effects)


class Walk:
    """Random calls, from a seed."""

    def __init__(self, seed: int, waiters: Waiters) -> None:
        self.draw = Random(seed)
        self.world = Served(waiters)
        self.putters = [self.world.connect().open() for _ in range(2)]
        self.getter = self.world.connect()
        self.number = 0
        self.wait_count = 0

    def run(self) -> list[tuple[int, object]]:
        """Take all steps, and return what came of them."""
        for _ in range(STEPS):
            self.step()
            self.world.perform()
            self.world.waits = [each for each in self.world.waits if each[2].waits]
            self.world.manager.check_invariants()
        return self.world.log

    def step(self) -> None:
        kind = self.draw.randrange(100)
        if kind < 45 and len(self.world.waits) < WAITS_MAX:
            self.wait()
        elif kind < 80:
            self.put()
        elif kind < 88:
            program = self.draw.choice([self.getter, *(each.program for each in self.putters)])
            program.backout() if self.draw.random() < 0.4 else program.commit()
        elif kind < 92 and self.world.waits:
            _, access, wait = self.draw.choice(self.world.waits)
            access.time_out(wait)
        elif kind < 95 and self.world.waits:
            self.draw.choice(self.world.waits)[1].close()
        elif kind < 97:
            self.world.pass_time(self.draw.choice([0.3, 3]))
        else:
            self.drain()

    def put(self) -> None:
        self.number += 1
        draw = self.draw
        md = MessageDescriptor(
            msg_id=draw.choice(IDS),
            correl_id=draw.choice(IDS),
            priority=draw.choice([0, 5, 9]),
            persistence=draw.choice([0, 1]),
            expiry=draw.choice([-1, -1, -1, 10]),
            msg_flags=int(draw.choice(FLAGS)),
            group_id=draw.choice(IDS[1:]),
            msg_seq_number=draw.choice([1, 1, 2]),
            offset=draw.choice([0, 0, 3]),
        )
        options = MQPMO.SYNCPOINT if draw.random() < 0.4 else 0
        try:
            draw.choice(self.putters).put(b"%3d" % self.number, options, md)
        except MQError as error:
            self.world.log.append((-1, error.reason))

    def wait(self) -> None:
        draw = self.draw
        browse = draw.choice([0, 0, MQGMO.BROWSE_FIRST, MQGMO.BROWSE_NEXT])
        options = browse | draw.choice(WHOLE_OPTIONS) | (draw.choice(BROWSE_OPTIONS) if browse else 0)
        if not browse and draw.random() < 0.3:
            options |= MQGMO.SYNCPOINT
        md = MessageDescriptor(
            msg_id=draw.choice(IDS),
            correl_id=draw.choice(IDS),
            group_id=draw.choice(IDS),
            msg_seq_number=draw.choice([1, 2]),
            offset=draw.choice([0, 3]),
        )
        program = self.getter if draw.random() < 0.5 else self.world.connect()
        access = program.open("Q", FOR_ALL, draw.choice(SELECTORS))
        for _ in range(draw.choice([0, 0, 1, 2]) if browse == MQGMO.BROWSE_NEXT else 0):
            self.log_of(lambda: access.get(MQGMO.BROWSE_NEXT).data)  # so that cursors stand at different places
        match, length = int(draw.choice(MATCHES)), draw.choice([None, None, None, 1])
        self.wait_count = number = self.wait_count + 1
        try:
            wait = access.wait(int(options), md, match=match, max_length=length)
        except MQError as error:
            self.world.log.append((-1, error.reason))
        else:
            if wait.message is not None:
                self.world.log.append((number, wait.message.data))
            self.world.waits.append((number, access, wait))

    def drain(self) -> None:
        access = self.world.open()
        for _ in range(self.draw.choice([2, 50])):
            self.log_of(lambda: access.get().data)

    def log_of(self, call: Callable[[], object]) -> None:
        try:
            self.world.log.append((-2, call()))
        except MQError as error:
            self.world.log.append((-2, error.reason))


@pytest.mark.parametrize("seed", range(60))
def test_those_in_lines_are_served_as_if_all_were_asked_one_by_one(seed: int) -> None:
    assert Walk(seed, Waiters()).run() == Walk(seed, AskedOneByOne()).run()
