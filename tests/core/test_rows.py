"""What units of work write: from their rows alone a queue manager is what it was."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from broker.core.message.entry import GET_PENDING, Entry, rank_of
from broker.core.message.rows import MessageRow, Rows
from broker.mqi import MQGMO, MQPMO, MessageDescriptor, MQError
from tests.core.world import Access, World, name_of
from tests.tries import tries

QUEUES = {"Q": {"MSGDLVSQ": 0}, "F": {"MSGDLVSQ": 1, "DEFPRTY": 4}}


class Step(NamedTuple):
    """A call on a queue: a put, or a get."""

    queue: str
    put: bool
    priority: int
    persistent: bool
    correl_id: str
    expiry: int


class Work(NamedTuple):
    """A unit of work, or calls outside one."""

    steps: list[Step]
    end: str  # "commit", "backout" or "outside"


steps = st.builds(
    Step,
    queue=st.sampled_from(sorted(QUEUES)),
    put=st.sampled_from([True, True, False]),
    priority=st.integers(0, 9),
    persistent=st.sampled_from([True, True, False]),
    correl_id=st.sampled_from(["X", "Y"]),
    expiry=st.sampled_from([-1, 10_000]),
)
works = st.builds(Work, st.lists(steps, max_size=5), st.sampled_from(["commit", "backout", "outside"]))


def contents(world: World) -> dict[str, list[tuple[object, ...]]]:
    """The persistent messages of each queue that are committed, in order, with all that is known of them."""
    return {
        name: [_known(entry) for _, entry in sorted(queue.shelf.entries.items()) if _kept(entry)]
        for name, queue in world.manager.objects.queues.items()
    }


def _kept(entry: Entry) -> bool:
    return bool(entry.persistence) and (entry.unit is None or entry.state == GET_PENDING)


def _known(entry: Entry) -> tuple[object, ...]:
    return (
        entry.id, entry.key, rank_of(entry.key), entry.priority, entry.data, entry.length, entry.msg_id,
        entry.correl_id, entry.group_id, entry.msg_seq_number, entry.offset, entry.msg_flags, entry.original_length,
        entry.deadline, entry.backout_count, entry.packed_md,
    )  # fmt: skip


def begin(work: Work, accesses: dict[str, Access]) -> None:
    """The calls of a unit; its end is not made yet. A get may find nothing."""
    syncpoint = work.end != "outside"
    for step in work.steps:
        if step.put:
            md = MessageDescriptor(
                priority=step.priority,
                persistence=int(step.persistent),
                correl_id=name_of(step.correl_id),
                expiry=step.expiry,
            )
            accesses[step.queue].put(step.correl_id.encode(), MQPMO.SYNCPOINT if syncpoint else 0, md)
        else:
            md = MessageDescriptor(correl_id=name_of(step.correl_id))
            with suppress(MQError):
                accesses[step.queue].get(MQGMO.SYNCPOINT if syncpoint else 0, md)


@tries(150)
@given(story=st.lists(works, max_size=12))
def test_a_queue_manager_started_from_the_rows_of_the_units_has_the_same_messages_in_the_same_order(
    story: list[Work],
) -> None:
    world = World()
    for name, attributes in QUEUES.items():
        world.define(name, **attributes)
    program = world.connect()
    accesses = {name: program.open(name) for name in QUEUES}
    for work in story:
        begin(work, accesses)
        assert contents(World(world.now, store=world.store)) == contents(world)
        if work.end == "backout":
            program.backout()
        else:
            program.commit()
        again = World(world.now, store=world.store)
        again.manager.check_invariants()
        assert contents(again) == contents(world)


def test_a_message_that_was_in_somebody_s_hands_when_the_queue_manager_failed_counts_one_backout_more(
    world: World,
) -> None:
    """Journal rule 8: it is on disk that somebody has got it."""
    queue = world.define()
    access = world.open()
    entry = access.put(b"A", 0, MessageDescriptor(persistence=1)).entry
    assert Entry.from_row(queue, entry.row()._replace(backout_count=2)).backout_count == 2
    assert Entry.from_row(queue, entry.row()._replace(backout_count=2, hardened=1)).backout_count == 3


def test_a_row_without_data_makes_an_entry_that_knows_its_length(world: World) -> None:
    queue = world.define()
    entry = Entry.from_row(queue, world.open().put(b"ABC").entry.row()._replace(data=None))
    assert (entry.data, entry.length) == (None, 3)


def test_nonpersistent_messages_write_nothing(world: World) -> None:
    world.define()
    access = world.open()
    before = world.store.high_water
    access.put(b"A")
    access.get(MQGMO.SYNCPOINT)
    access.program.backout()
    access.get()
    assert (world.store.messages, world.store.high_water) == ({}, before)


def test_rows_taken_together_are_those_of_both() -> None:
    row = MessageRow(1, 1, 0, 1, b"", 0, b"")
    rows = Rows(inserts=[row], removals=[2], high_water=5)
    rows.extend(Rows(removals=[3], backouts=[(4, 1)], hardened=[6], dropped=[("QUEUE", "Q")], high_water=9))
    rows.extend(Rows(high_water=7))
    assert rows == Rows([row], [2, 3], [(4, 1)], [6], [], [("QUEUE", "Q")], 9)


def test_rows_are_true_when_there_is_something_to_write() -> None:
    assert not Rows()
    for rows in (Rows(removals=[1]), Rows(backouts=[(1, 1)]), Rows(hardened=[1]), Rows(high_water=1)):
        assert rows
