"""Runs of puts and gets come to what single calls come to: two queue managers, the same random steps, one state."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from broker.core.calls import batches
from broker.core.calls.puts.put import Put
from broker.core.queues.effects import Grant
from broker.core.queues.unit import Unit
from broker.mqi import MQGMO, MQMF, MQOO, MQPMO, MQRO, GetMessageOptions, MessageDescriptor, MQError, PutMessageOptions
from tests.core.world import ALL, World, name_of

if TYPE_CHECKING:
    from broker.core.message.entry import Entry
    from tests.core.world import Access

DESCRIPTORS = (
    None,
    None,
    MessageDescriptor(priority=7),
    MessageDescriptor(priority=12),  # a warning
    MessageDescriptor(correl_id=name_of("C")),
    MessageDescriptor(msg_id=name_of("M"), persistence=1),
    MessageDescriptor(report=MQRO.COA | MQRO.COD, reply_to_q="R", persistence=0),
    MessageDescriptor(group_id=name_of("G"), msg_flags=MQMF.MSG_IN_GROUP),
    MessageDescriptor(expiry=50),
)
SIZES = (0, 1, 10, 101)  # MAXMSGL is 100
CHANGES: tuple[dict[str, int], ...] = (
    {"MAXDEPTH": 20},
    {"MAXDEPTH": 200},
    {"DEFPRTY": 3},
    {"DEFPRTY": 0},
    {"PUT": 1},
    {"PUT": 0},
)


class Twin:
    """A queue manager that makes batches in runs, or message by message."""

    def __init__(self, *, runs: bool) -> None:
        self.runs = runs
        self.world = World()
        self.world.alter_manager(MAXUMSGS=40)
        self.queue = self.world.define("Q", MAXDEPTH=200, MAXMSGL=100, DEFPSIST=1)
        self.world.define("R")
        self.access: Access = self.world.open()

    def put(self, md: MessageDescriptor | None, options: int, bodies: list[bytes]) -> object:
        """Put them as far as they go; in one implicit unit if outside syncpoint."""
        world, handle, pmo = self.world, self.access.handle, PutMessageOptions(options=options)
        assert handle.route is not None
        hconn = handle.hconn
        implicit = None if options & MQPMO.SYNCPOINT else Unit()
        error, start = 0, 0
        while start < len(bodies):
            unit = implicit or hconn.unit or Unit()
            put = Put(hconn, handle, handle.route, md, pmo, bodies[start])
            alike = batches.put_run(world.manager, unit, put, bodies[start:], world.now) if self.runs else []
            start += len(alike) or 1
            if alike:
                continue
            try:
                world.manager.put(put, world.moment, implicit)
            except MQError as refused:
                error = refused.reason
                break
        if implicit is not None:
            world.end_unit(implicit, commit=True)
        return error

    def get(self, options: int, count: int, room: int) -> object:
        """Get so many, or until they have so many bytes; in one implicit unit if outside syncpoint."""
        world, handle, gmo = self.world, self.access.handle, GetMessageOptions(options=options, match_options=0)
        got: list[Entry] = []
        alike: list[Entry] = []
        units: dict[Unit, None] = {}
        error = 0
        while len(got) < count and sum(entry.length for entry in got) < room and not error:
            if self.runs:
                left = room - sum(entry.length for entry in got)
                alike, unit = batches.get_run(world.manager, handle, None, gmo, count - len(got), left, world.now)
                got += alike
                if unit is not None:
                    units[unit] = None
                if alike:
                    continue
            try:
                grant = world.manager.get(handle, self.queue, None, gmo, None, world.now)
            except MQError as refused:
                error = refused.reason
                break
            assert isinstance(grant, Grant)
            got += grant.entries
            if grant.unit is not None:
                units[grant.unit] = None
        implicit = [unit for unit in units if unit is not handle.hconn.unit and unit.gets]
        for unit in implicit[1:]:
            implicit[0].take_over(unit)
        if implicit:
            world.end_unit(implicit[0], commit=True)
        return error, [entry.id for entry in got]

    def state(self) -> object:
        """All there is to compare."""
        self.world.manager.check_invariants()
        entries = [
            (e.id, e.state, e.priority, e.packed_md, e.msg_id, e.correl_id, e.data)
            for e in self.queue.shelf.entries.values()
        ]
        unit = self.access.handle.hconn.unit
        counts = None if unit is None else (unit.calls, unit.bytes, len(unit.puts), len(unit.gets), len(unit.reports))
        queue = self.queue
        return sorted(entries), queue.depth, queue.uncommitted, queue.bytes, counts, self.world.store.messages


@pytest.mark.parametrize("seed", range(20))
def test_runs_come_to_what_single_calls_come_to(seed: int) -> None:
    twins = Twin(runs=False), Twin(runs=True)
    dice = random.Random(seed)
    for step in range(150):
        md, count = dice.choice(DESCRIPTORS), dice.randint(1, 15)
        bodies = [bytes(dice.choice(SIZES[:3] if dice.random() < 0.98 else SIZES)) for _ in range(count)]
        put_options = dice.choice((0, MQPMO.SYNCPOINT.value))
        get_options = dice.choice(
            (0, MQGMO.SYNCPOINT.value, MQGMO.SYNCPOINT_IF_PERSISTENT.value, MQGMO.BROWSE_NEXT.value)
        )
        room, change, kind = dice.choice((5, 1000)), dice.choice(CHANGES), dice.random()
        outcomes: list[object] = []
        for twin in twins:
            if kind < 0.45:
                outcomes.append(twin.put(md, put_options, bodies))
            elif kind < 0.8:
                outcomes.append(twin.get(get_options, count, room))
            elif kind < 0.95:
                end = twin.access.program.commit if kind < 0.9 else twin.access.program.backout
                end()
            elif kind < 0.98:
                twin.world.alter(**change)
            else:
                twin.world.pass_time(2.5)
        assert outcomes[:1] == outcomes[1:], f"at step {step} from seed {seed}"
        assert twins[0].state() == twins[1].state(), f"at step {step} from seed {seed}"


ANY = GetMessageOptions(match_options=0)


def test_a_run_saves_the_context_of_its_last_message() -> None:
    world = World()
    world.define("Q")
    access, putter = world.open("Q", ALL | MQOO.SAVE_ALL_CONTEXT), world.open("Q", MQOO.OUTPUT | MQOO.SET_ALL_CONTEXT)
    for data in ("A", "B", "C"):
        putter.put(data.encode(), MQPMO.SET_ALL_CONTEXT, MessageDescriptor(user_identifier=data))
    world.get(access.handle, None, ANY, None)
    alike, _ = batches.get_run(world.manager, access.handle, None, ANY, 2, 1000, world.now)
    assert [entry.data for entry in alike] == [b"B", b"C"]
    saved = access.handle.position.saved_context
    assert saved is not None
    assert saved.identity is not None
    assert saved.identity[0] == "C"


def test_no_run_is_got_past_a_group_that_a_handle_has_left_open() -> None:
    world = World()
    world.define("Q")
    access = world.open()
    access.put(b"A")
    access.put(b"G1", 0, MessageDescriptor(group_id=name_of("G"), msg_flags=MQMF.MSG_IN_GROUP))
    access.put(b"B")
    for _ in range(2):
        world.get(access.handle, None, ANY, None)
    assert access.handle.position.last_get.open
    assert batches.get_run(world.manager, access.handle, None, ANY, 1, 1000, world.now) == ([], None)
