"""The prepared branch of a unit of work that touches shared queues (queue-sharing rule 10.3.6)."""

from __future__ import annotations

from uuid import UUID

import pytest

from broker.core.message.entry import Entry
from broker.core.message.rows import ObjectRow, Rows
from broker.core.moment import Moment
from broker.core.prepared import branches
from broker.core.prepared.branches import SPACE, PreparedBranch
from broker.core.queues.unit import COMMITTING, IN_DOUBT, PREPARED, SharedPart, Unit
from broker.mqi.constants.options import MQGMO, MQOO, MQPMO
from tests.core.triggered import EVERY, FIRST
from tests.core.world import World

ID = UUID(int=7)
GET, PUT = MQGMO.SYNCPOINT, MQPMO.SYNCPOINT
NOW = Moment(1000.0, 0.0)


def prepared(world: World) -> tuple[PreparedBranch, Rows, Rows]:
    """A unit that has got "old" and put "new", prepared; what made it durable, and the rows of its commit."""
    world.define(DEFPSIST=1)
    access = world.open()
    access.put(b"old")
    assert access.get(GET).data == b"old"
    access.put(b"new", PUT)
    unit = access.program.hconn.unit
    assert unit is not None
    access.program.hconn.unit = None
    unit.shared = SharedPart()
    unit.shared.id = ID
    rows = world.manager.commit(unit)
    branch = PreparedBranch.of(unit, rows, world.manager.ids.next(), NOW.wall)
    world.manager.branches.enter(branch)
    return branch, branch.prepared_rows(rows), rows


def test_what_is_prepared_needs_room_for_the_messages_put_and_no_more(world: World) -> None:
    branch, made, rows = prepared(world)
    assert (made.inserts, made.removals, made.held, made.objects) == (rows.inserts, [], [], [])
    assert [(row.space, row.name) for row in made.states] == [(SPACE, str(ID))]
    got_only = PreparedBranch.of(branch.unit, Rows(removals=rows.removals), 99, NOW.wall)
    assert not got_only.prepared_rows(Rows(removals=rows.removals)).grows


@pytest.mark.parametrize("committed", [True, False])
def test_a_half_ends_with_the_decision(world: World, committed: bool) -> None:
    branch, made, _ = prepared(world)
    (row,) = made.inserts
    old = next(iter(branch.unit.gets))
    ended = world.manager.branches.decide(world.manager, branch, committed=committed)
    world.manager.settle(branch.unit, committed=committed)
    assert ended == (
        Rows(removals=[old.id], dropped=[(SPACE, str(ID))])
        if committed
        else Rows(removals=[row.id], backouts=[(old.id, 1)], dropped=[(SPACE, str(ID))])
    )
    (left,) = world.manager.objects.queues["Q"].shelf.entries.values()
    assert (left.data, left.backout_count) == ((b"new", 0) if committed else (b"old", 1))
    world.manager.check_invariants()


@pytest.mark.parametrize("committed", [True, False])
def test_a_half_that_is_loaded_is_uncommitted_on_its_queues_and_in_doubt(world: World, committed: bool) -> None:
    branch, made, _ = prepared(world)
    old = next(iter(branch.unit.gets))
    rows = [old.row()._replace(hardened=1), *made.inserts]
    again = World()
    queue = again.define(DEFPSIST=1)
    (state,) = made.states
    again.manager.load_object(state)
    for row in rows:
        assert row.id in again.manager.branches.awaited
        again.manager.branches.take(Entry.from_row(queue, row), row)
    assert again.manager.branches.loaded(again.manager, NOW) == 2
    (loaded,) = again.manager.branches.by_id.values()
    assert (loaded.id, loaded.unit.state, loaded.puts, loaded.gets) == (ID, IN_DOUBT, branch.puts, branch.gets)
    assert (queue.depth, queue.uncommitted, len(queue.shelf.available)) == (1, 2, 0)
    ended = again.manager.branches.decide(again.manager, loaded, committed=committed)
    again.manager.settle(loaded.unit, committed=committed)
    assert ended.backouts == ([] if committed else [(old.id, 1)])  # that it was in somebody's hands counts once
    (left,) = queue.shelf.entries.values()
    assert left.backout_count == (0 if committed else 1)
    assert (queue.depth, queue.uncommitted) == (1, 0)
    again.manager.check_invariants()


@pytest.mark.parametrize(
    ("attributes", "waiting", "starts", "written"),
    [
        ({"TRIGTYPE": EVERY}, 0, 1, 0),
        ({"TRIGTYPE": EVERY}, 2, 3, 0),
        ({"TRIGTYPE": FIRST}, 0, 1, 0),
        ({"TRIGTYPE": EVERY, "TRIGMPRI": 5}, 0, 0, 0),
        ({"TRIGTYPE": EVERY, "TRIGGER": 0}, 0, 0, 0),
        ({"TRIGTYPE": EVERY, "INITQ": "I"}, 0, 0, 1),
        ({"TRIGTYPE": FIRST, "INITQ": "I"}, 0, 0, 1),
    ],
)
def test_what_a_loaded_half_had_got_arrives_for_triggers_when_it_is_backed_out(
    world: World, attributes: dict[str, int | str], waiting: int, starts: int, written: int
) -> None:
    """R-12 counted what was available at the start, without it; who was started for it has ended."""
    branch, made, _ = prepared(world)
    old = next(iter(branch.unit.gets))
    again = World()
    again.define_process("P")
    again.define("I")
    queue = again.define(DEFPSIST=1, **{"TRIGGER": 1, "PROCESS": "P", **attributes})
    again.manager.load_object(made.states[0])
    for row in (old.row(), *made.inserts):
        again.manager.branches.take(Entry.from_row(queue, row), row)
    again.manager.branches.loaded(again.manager, NOW)
    monitor = again.open("I", MQOO.INPUT_SHARED)
    access = again.open("Q", MQOO.OUTPUT)
    for _ in range(waiting):
        access.put(b"")
    assert queue.pending_starts == waiting
    monitor.drain()  # E7
    (loaded,) = again.manager.branches.by_id.values()
    again.manager.branches.decide(again.manager, loaded, committed=False)
    again.manager.settle(loaded.unit, committed=False)
    branches.returned(again.manager, loaded.unit, NOW)
    again.perform()
    assert (queue.pending_starts, again.manager.objects.queues["I"].depth) == (starts, written)
    again.manager.check_invariants()


def test_what_is_in_doubt_does_not_move_handles_when_it_is_backed_out(world: World) -> None:
    branch, _, _ = prepared(world)
    handle = next(iter(branch.unit.last_puts))
    branches.doubt(branch.unit)
    position = handle.position = handle.position._replace(last_put=handle.position.last_put._replace(logical=True))
    world.manager.branches.decide(world.manager, branch, committed=False)
    assert handle.position is position


def test_a_step_that_the_life_cycle_does_not_have_is_our_mistake() -> None:
    unit = Unit()
    with pytest.raises(AssertionError, match="ACTIVE -> PREPARED"):
        unit.become(PREPARED)
    unit.become(COMMITTING)
    unit.become(PREPARED)
    assert ObjectRow(SPACE, str(ID), 1, SPACE, b"").space == "HALF"
