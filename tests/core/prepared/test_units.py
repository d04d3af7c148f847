"""A prepared unit: what is noted of its messages, and what the store keeps of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.message.entry import PreparedEntry
from broker.core.message.logical_order import LogicalPlace, Position
from broker.core.prepared.unit import PreparedUnit, UnitName
from broker.core.queues.unit import BACKED_OUT, BACKING_OUT, COMMITTED, COMMITTING, PREPARED, PREPARING
from broker.mqi import MQRO, MessageDescriptor
from broker.mqi.layouts.packing import pack_md
from tests.core.world import World

if TYPE_CHECKING:
    from broker.core.queues.queue import LocalQueue

NAME = UnitName("S", 1, 2, b"attempt.attempt.")
PLAIN, ASKING = (pack_md(MessageDescriptor(report=report)) for report in (0, MQRO.COA.value))
GROUPS = [bytes(24), b"G" * 24, b"H" * 24]


@pytest.fixture(scope="module")
def queue() -> LocalQueue:
    return World().define("Q")


def entry(queue: LocalQueue, number: int, persistence: int, group: int, asking: bool) -> PreparedEntry:
    made = PreparedEntry(queue, 0, 0, b"1234", 4)
    made.number_as(number)
    made.persistence, made.group_id, made.packed_md = persistence, GROUPS[group], ASKING if asking else PLAIN
    return made


def noted(unit: PreparedUnit) -> tuple[object, ...]:
    """Return the notes about its messages, but for the ends of groups, which may be stale."""
    return unit.entries, unit.bytes, unit.counts, unit.stored, unit.nonpersistent, unit.confirmed


MESSAGES = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 1), st.integers(0, 2), st.booleans()), max_size=8)


@given(pieces=st.lists(st.tuples(MESSAGES, st.booleans()), max_size=6))
def test_a_piece_that_is_taken_back_has_never_been_there(
    queue: LocalQueue, pieces: list[tuple[list[tuple[int, int, int, bool]], bool]]
) -> None:
    unit, kept, number = PreparedUnit(NAME, 1, None, 0.0), [], 0
    for messages, stays in pieces:
        piece = []
        for step, persistence, group, asking in messages:
            number += step
            piece.append(entry(queue, number, persistence, group, asking))
        mark = unit.mark()
        unit.add(piece)
        if stays:
            kept += piece
        else:
            assert unit.cut_back(mark) == piece
        alone = PreparedUnit(NAME, 1, None, 0.0)
        alone.add(kept)
        assert noted(unit) == noted(alone)


@given(messages=MESSAGES, base=st.integers(1000, 2000))
def test_each_persistent_message_is_in_one_run_with_its_place(
    queue: LocalQueue, messages: list[tuple[int, int, int, bool]], base: int
) -> None:
    unit, number = PreparedUnit(NAME, 1, None, 0.0), 0
    for step, persistence, group, asking in messages:
        number += step
        unit.add([entry(queue, number, persistence, group, asking)])
    unit.base = base
    found = {id: place for run in unit.runs() for place, id in enumerate(run.ids, run.first)}
    assert found == {each.number: base + index for index, each in enumerate(unit.entries) if each.persistence}
    assert unit.nonpersistent == [each.number for each in unit.entries if not each.persistence]
    dense = all(step == 1 and persistence for step, persistence, _, _ in messages)
    assert not dense or len(unit.stored) <= 1


@given(messages=MESSAGES, count=st.integers(1, 4))
def test_slices_show_each_message_once_in_order_and_part_no_group(
    queue: LocalQueue, messages: list[tuple[int, int, int, bool]], count: int
) -> None:
    unit = PreparedUnit(NAME, 1, None, 0.0)
    unit.add([entry(queue, number, *each[1:]) for number, each in enumerate(messages, 1)])
    unit.base = 100
    shown: list[PreparedEntry] = []
    while unit.left():
        part = unit.show(count)
        shown += part
        groups = {each.group_id for each in part} - {bytes(24)}
        assert groups.isdisjoint(each.group_id for each in unit.left())
        assert len(part) <= count or groups
    assert shown == unit.entries
    assert [each.place for each in shown] == list(range(100, 100 + len(shown)))


def test_the_store_keeps_what_goes_on_after_a_restart(queue: LocalQueue) -> None:
    unit = PreparedUnit(NAME, 7, "query", 5.0)
    unit.add([entry(queue, 1, 1, 0, False)])
    unit.rows, unit.closed, unit.touched = 1, True, 6.0
    unit.positions = {"Q": Position(LogicalPlace(GROUPS[1], 3, 4), 5, open_group=True, in_unit=True, logical=True)}
    row = unit.row()
    again, entries = PreparedUnit.from_row(row)
    assert (row.name, row.number, entries) == (f"S/1/2/{NAME.attempt.hex()}", 7, 1)
    for field in ("name", "number", "query", "since", "touched", "rows", "closed", "positions"):
        assert getattr(again, field) == getattr(unit, field), field
    assert again.state == PREPARED


def test_a_unit_takes_the_steps_of_the_table() -> None:
    for steps in (
        (PREPARED, COMMITTING, PREPARED, COMMITTING, COMMITTED),
        (PREPARED, BACKING_OUT, PREPARED, BACKING_OUT, BACKED_OUT),
        (BACKED_OUT,),
    ):
        unit = PreparedUnit(NAME, 1, None, 0.0)
        for step in steps:
            unit.become(step)
    with pytest.raises(AssertionError, match="PREPARING -> COMMITTING"):
        PreparedUnit(NAME, 1, None, 0.0).become(COMMITTING)
    assert PreparedUnit(NAME, 1, None, 0.0).state == PREPARING
