"""Groups, segments, browse cursors and locks against a model, over long random walks (semantics 3, 5.4 to 5.7, 6)."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, TypeVar

import pytest

from broker.core.message.entry import LOCKED, STATE_NAMES
from broker.core.queues.effects import Grant
from broker.mqi import MQGMO, MQMF, MQMO, MQPMO, MQRC, GetMessageOptions, MessageDescriptor, MQError
from broker.mqi.structures import NO_ID
from tests.core import groups_model as model
from tests.core.groups_model import Flags, Got, Item, Model, Wanted
from tests.core.world import Access as CoreAccess
from tests.core.world import World, name_of

if TYPE_CHECKING:
    from broker.core.message.entry import Entry
    from tests.core.world import Message

T = TypeVar("T")

MAX_CALLS = 6
CROWDED = 18  # messages on the queue from which on more are got than put
PROGRAMS = 2
SLOTS = (0, 0, 1)
"""The program of each handle."""

FLAGS = (
    Flags(),
    Flags(segmentable=True),
    Flags(segment=True),
    Flags(segment=True, last_segment=True),
    Flags(grouped=True),
    Flags(grouped=True, segment=True),
    Flags(grouped=True, segment=True, last_segment=True),
    Flags(grouped=True, last_message=True),
    Flags(grouped=True, last_message=True, segment=True),
    Flags(grouped=True, last_message=True, segment=True, last_segment=True),
)
BROWSES = {"": 0, "first": MQGMO.BROWSE_FIRST, "next": MQGMO.BROWSE_NEXT, "again": MQGMO.BROWSE_MSG_UNDER_CURSOR}
SYNCPOINTS = {"": 0, "always": MQGMO.SYNCPOINT, "if persistent": MQGMO.SYNCPOINT_IF_PERSISTENT}


class Waiting:
    """A get that waits, on a handle that does nothing else meanwhile. It owns its waiter, which sets `message`."""

    def __init__(self, walk: Walk, access: CoreAccess, wanted: Wanted) -> None:
        self.walk = walk
        self.access = access
        self.model = model.Access(model.Program())
        self.wanted = wanted

    def __setattr__(self, name: str, value: object) -> None:
        if name == "message":
            self.walk.served.append((self, value))  # type: ignore[arg-type]
        else:
            super().__setattr__(name, value)


class Walk:
    """A queue and its model, and the calls that are made to both."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.world = World()
        self.world.alter_manager(MAXUMSGS=MAX_CALLS)
        self.queue = self.world.define("Q", MAXDEPTH=100)
        self.model = Model(MAX_CALLS)
        self.programs = [(self.world.connect(), model.Program()) for _ in range(PROGRAMS)]
        self.slots = [self.open(program) for program in SLOTS]
        self.number = 0
        self.groups = [name_of("static")]
        self.served: list[tuple[Waiting, Message]] = []
        self.waits: list[Waiting] = []

    def open(self, program: int) -> tuple[CoreAccess, model.Access]:
        core, plain = self.programs[program]
        return core.open(), model.Access(plain)

    def one_of(self, *choices: T) -> T:
        return self.draw.choice(choices)

    def seldom(self, odds: int = 6) -> bool:
        return self.draw.randrange(odds) == 0

    # Steps

    def step(self) -> None:
        """A random call to both, and what must be equal after it."""
        kind = self.draw.randrange(100)
        crowded = len(self.model.messages) > CROWDED
        slot = self.draw.randrange(len(SLOTS))
        if kind < 36 and not crowded:
            self.put(slot)
        elif kind < 80:
            self.get(slot, remove=crowded)
        elif kind < 83:
            self.unlock(slot)
        elif kind < 86:
            self.close(slot)
        elif kind < 89:
            self.wait()
        else:
            self.end_unit(self.draw.randrange(PROGRAMS), commit=self.draw.random() < 0.6)
        self.serve()

    def put(self, slot: int) -> None:
        core, plain = self.slots[slot]
        self.number += 1
        message = self.message(plain)
        flags, item = message.flags, message.item
        ordered, syncpoint = self.draw.random() < 0.6, self.draw.random() < 0.4
        options = (MQPMO.LOGICAL_ORDER if ordered else 0) | (MQPMO.SYNCPOINT if syncpoint else 0)
        md = MessageDescriptor(
            msg_id=number_id(self.number),
            priority=message.priority,
            persistence=int(message.persistent),
            msg_flags=bits(flags),
            group_id=item.group,
            msg_seq_number=item.number,
            offset=item.offset,
        )
        actual: model.Put | MQRC
        fresh = b""
        try:
            placed = core.put(bytes(message.length), options, md)
        except MQError as error:
            actual = MQRC(error.reason)
        else:
            actual = model.Put(Item(*placed.entry.item), MQRC(placed.reason))
            fresh = placed.entry.group_id
            if fresh not in (NO_ID, *self.groups):
                self.groups = [*self.groups[-4:], fresh]
        assert actual == self.model.put(plain, message, fresh, ordered=ordered, syncpoint=syncpoint)

    def message(self, access: model.Access) -> model.Message:
        """A message to put, often one that goes on with what the handle has begun."""
        flags, item = self.one_of(*FLAGS), Item(self.one_of(NO_ID, *self.groups), 1, 0)
        persistent = self.seldom(3)
        if self.draw.random() < 0.7:
            item = Item(item.group, self.one_of(1, 1, 2, 3), self.one_of(0, 0, 2, 4, 1))
        if access.put.open and self.draw.random() < 0.8:
            flags = self.one_of(*(each for each in FLAGS if each.grouped == access.put.open_group and not each.plain))
            persistent, item = access.put.persistent, access.put.next
            if access.put.open_message and self.draw.random() < 0.8:
                flags = flags._replace(
                    segment=True, grouped=access.put.open_group, last_message=access.put.flags.last_message
                )
        length = self.one_of(2, 2, 2, 1, 0)
        return model.Message(self.number, self.one_of(0, 0, 0, 5), length, flags, item, persistent)

    def get(self, slot: int, *, remove: bool = False) -> None:
        core, plain = self.slots[slot]
        wanted = Wanted() if remove and self.seldom(2) else self.wanted(plain)
        actual: Got | MQRC
        try:
            grant = self.world.get(core.handle, *self.options(wanted), wanted.buffer)
        except MQError as error:
            actual = MQRC(error.reason)
        else:
            assert isinstance(grant, Grant)
            actual = Got([number_of(entry) for entry in grant.entries], MQRC(grant.reason))
            self.world.granted(grant)
        assert actual == self.model.get(plain, wanted)

    def wanted(self, access: model.Access) -> Wanted:
        """Draw the fields of a get."""
        browse = self.one_of("", "", "first", "next", "next", "next", "again")
        ordered, complete = self.draw.random() < 0.6, self.seldom(4)
        if browse == "next" and access.order is not None and not self.seldom():
            ordered = access.order
        syncpoint = "" if browse else self.one_of("", "always", "always", "" if complete else "if persistent")
        if ordered and access.get.open and not browse and not self.seldom():
            syncpoint = "always" if access.get.in_unit else ""
        wanted = Wanted(
            browse,
            not browse and self.seldom(8),
            ordered,
            complete,
            all_messages=self.seldom(4),
            all_segments=self.seldom(4),
            lock=bool(browse) and self.seldom(4),
            syncpoint=syncpoint,
        )
        if self.seldom(5):
            wanted = wanted._replace(buffer=self.one_of(0, 1, 3), accept_truncated=self.seldom(2))
        if self.seldom(4):
            wanted = self.matching(wanted)
        return wanted

    def matching(self, wanted: Wanted) -> Wanted:
        """With match options. MATCH_OFFSET does not go with COMPLETE_MSG."""
        here = [message for message in self.model.messages if message.state == model.HERE]
        if here and self.seldom(2):
            return wanted._replace(number=self.draw.choice(here).number)
        return wanted._replace(
            group=self.one_of(None, *self.groups),
            sequence=self.one_of(None, None, 1, 2),
            offset=None if wanted.complete else self.one_of(None, None, 0, 2),
        )

    def options(self, wanted: Wanted) -> tuple[MessageDescriptor, GetMessageOptions]:
        options = int(BROWSES[wanted.browse] | SYNCPOINTS[wanted.syncpoint])
        for given, option in (
            (wanted.under_cursor, MQGMO.MSG_UNDER_CURSOR),
            (wanted.ordered, MQGMO.LOGICAL_ORDER),
            (wanted.complete, MQGMO.COMPLETE_MSG),
            (wanted.all_messages, MQGMO.ALL_MSGS_AVAILABLE),
            (wanted.all_segments, MQGMO.ALL_SEGMENTS_AVAILABLE),
            (wanted.lock, MQGMO.LOCK),
            (wanted.accept_truncated, MQGMO.ACCEPT_TRUNCATED_MSG),
        ):
            options |= option if given else 0
        md, match = MessageDescriptor(), 0
        if wanted.number is not None:
            md.msg_id, match = number_id(wanted.number), match | MQMO.MATCH_MSG_ID
        if wanted.group is not None:
            md.group_id, match = wanted.group, match | MQMO.MATCH_GROUP_ID
        if wanted.sequence is not None:
            md.msg_seq_number, match = wanted.sequence, match | MQMO.MATCH_MSG_SEQ_NUMBER
        if wanted.offset is not None:
            md.offset, match = wanted.offset, match | MQMO.MATCH_OFFSET
        return md, GetMessageOptions(options=options, match_options=match)

    def unlock(self, slot: int) -> None:
        core, plain = self.slots[slot]
        grant = self.world.get(core.handle, None, GetMessageOptions(options=MQGMO.UNLOCK), None)
        assert isinstance(grant, Grant)
        assert (grant.reason == MQRC.NO_MSG_LOCKED) == (not self.model.unlock(plain))

    def close(self, slot: int) -> None:
        core, plain = self.slots[slot]
        reason = self.world.manager.close(core.program.hconn, core.handle.hobj, self.world.tick)
        self.world.perform()
        assert reason == self.model.close(plain)
        self.slots[slot] = self.open(SLOTS[slot])

    def end_unit(self, program: int, *, commit: bool) -> None:
        core, plain = self.programs[program]
        self.model.end_unit(plain, commit=commit)
        if commit:
            core.commit()
        else:
            core.backout()

    # Gets that wait

    def wait(self) -> None:
        """Let a get wait, or give up the oldest of those that do."""
        if len(self.waits) > 2:
            oldest = self.waits.pop(0)
            oldest.access.close()
            return
        wanted = Wanted(
            self.one_of("", "", "first"),
            ordered=self.seldom(2),
            complete=self.seldom(2),
            all_messages=self.seldom(2),
            group=self.one_of(None, None, *self.groups),
        )
        waiting = Waiting(self, self.world.open(), wanted)
        md, gmo = self.options(wanted)
        gmo.options |= MQGMO.WAIT
        gmo.wait_interval = -1
        handle = waiting.access.handle
        found = self.world.get(handle, md, gmo, None)
        if isinstance(found, Grant):
            self.served.append((waiting, self.world.granted(found)))
        else:
            self.world.manager.wait(handle, self.queue, found, waiting)
            self.waits.append(waiting)

    def serve(self) -> None:
        """Check that the gets that waited and were served got what the model gives to the same gets now, in turn."""
        self.world.perform()
        for waiting, message in self.served:
            expected = self.model.get(waiting.model, waiting.wanted)
            assert isinstance(expected, Got), expected
            assert (expected.numbers[0], expected.reason) == (number_of(message.entry), message.reason)
            if waiting in self.waits:
                self.waits.remove(waiting)
            waiting.access.close()
        self.served.clear()

    # What must be equal

    def check(self) -> None:
        """The queue is that of the model, and nobody waits for what is there."""
        self.world.manager.check_invariants()
        actual = [
            (number_of(entry), state_of(entry), entry.backout_count)
            for _, entry in sorted(self.queue.shelf.entries.items())
        ]
        expected = self.model.in_order()
        assert actual == [
            (message.number, "LOCKED" if message.locked_by else message.state, message.backouts) for message in expected
        ]
        for waiting in self.waits:
            assert self.model.find_and_grant(waiting.model, waiting.wanted) == MQRC.NO_MSG_AVAILABLE


def number_id(number: int) -> bytes:
    return number.to_bytes(24, "big")


def number_of(entry: Entry) -> int:
    return int.from_bytes(entry.msg_id, "big")


def state_of(entry: Entry) -> str:
    return "LOCKED" if entry.state == LOCKED else STATE_NAMES[entry.state]


def bits(flags: Flags) -> int:
    """MsgFlags as a program gives them."""
    group = MQMF.LAST_MSG_IN_GROUP if flags.last_message else MQMF.MSG_IN_GROUP if flags.grouped else 0
    segment = MQMF.LAST_SEGMENT if flags.last_segment else MQMF.SEGMENT if flags.segment else 0
    return int(group | segment | (MQMF.SEGMENTATION_ALLOWED if flags.segmentable else 0))


class SlowWalk(Walk):
    """A walk on which a get looks at one message at a time, and others put, get and end units of work in between."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.searching: list[int] = []  # the programs whose gets are being looked for
        self.searches = 0
        self.world.meanwhile = self.meanwhile

    def get(self, slot: int, *, remove: bool = False) -> None:
        self.searching.append(SLOTS[slot])
        super().get(slot, remove=remove)
        self.searching.pop()

    def meanwhile(self) -> None:
        self.searches += 1
        others = [slot for slot in range(len(SLOTS)) if SLOTS[slot] not in self.searching]
        if not others or self.seldom(3):
            return
        slot = self.draw.choice(others)
        kind = self.draw.randrange(8)
        if kind < 3:
            self.put(slot)
        elif kind < 6:
            self.get(slot)
        else:
            self.end_unit(SLOTS[slot], commit=self.draw.random() < 0.6)
        self.serve()
        self.world.manager.check_invariants()

    def end_unit(self, program: int, *, commit: bool) -> None:
        super().end_unit(program, commit=commit)
        if self.seldom() and not self.queue.waiters.count:
            self.queue.shelf.views.clear()  # as if nobody had looked yet


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found at once."""
    monkeypatch.setattr("broker.core.queues.shelf.shelf.LOOKS_AT_ONCE", 1)
    monkeypatch.setattr("broker.core.queues.shelf.searches.LOOKS_AT_ONCE", 1)
    monkeypatch.setattr("broker.core.calls.gets.choosing.LOOKS_AT_ONCE", 1)
    monkeypatch.setattr("broker.core.queues.shelf.views._STEP", 1)


def walk(seed: int, steps: int, check_every: int = 1, kind: type[Walk] = Walk) -> Walk:
    """Random steps from a seed, named in what fails."""
    both = kind(seed)
    for number in range(steps):
        try:
            both.step()
            if number % check_every == 0:
                both.check()
        except Exception as error:
            error.add_note(f"at step {number} of the walk from seed {seed}")
            raise
    return both


@pytest.mark.parametrize("seed", range(20))
def test_on_a_random_walk_groups_are_those_of_the_model(seed: int) -> None:
    walk(seed, 1000)


@pytest.mark.usefixtures("slowly")
@pytest.mark.parametrize("seed", range(100, 115))
def test_a_get_that_looks_step_by_step_finds_what_is_first_when_it_is_done(seed: int) -> None:
    both = walk(seed, 1000, kind=SlowWalk)
    assert isinstance(both, SlowWalk)
    assert both.searches > 100


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(1000, 1020))
def test_on_very_long_walks_groups_are_those_of_the_model(seed: int) -> None:
    walk(seed, 50_000, check_every=10)
