"""Any sequence of batches, loaded again, equals a model one can believe at a glance: two dictionaries."""

from __future__ import annotations

import tempfile
from pathlib import Path
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from broker.storage.log_store import LogStore
from broker.storage.memory import MemoryStore
from broker.storage.store import KeyRow, MessageRow, Numbering, ObjectRow, Rows, StepRow, Store
from tests.stores import as_killed, carried_over, log_store
from tests.tries import tries

from . import samples
from .samples import Contents, contents, handle, keep_keys, keep_steps, key, mark, reopened

NAMES = [("QUEUE", "A"), ("QUEUE", "B"), ("PROCESS", "A")]
REOPEN = "reopen"
CARRY = "carry over"
KILL = "kill"

ids = st.integers(1, 12)
sizes = st.sampled_from([0, 3, 1024, 1025, 20_000])
counts = st.integers(0, 5)
holders = st.sampled_from([0, 0, 0, 7])
runs = st.builds(Numbering, st.integers(1, 3), st.integers(1, 99), st.lists(ids, max_size=5, unique=True))


@st.composite
def batches(draw: st.DrawFn) -> Rows:
    """A batch that mentions the few ids and names over and over; the ids it inserts are made unique by the test."""
    inserts = draw(
        st.lists(st.tuples(ids, sizes, st.integers(0, 1), counts, holders), max_size=4, unique_by=lambda item: item[0])
    )
    return Rows(
        inserts=[
            MessageRow(
                id, id % 3 + 1, 4, persistent, b"descriptor", size, bytes([id]) * size, count, 0, holder, holder * id
            )
            for id, size, persistent, count, holder in inserts
        ],
        removals=draw(st.lists(ids, max_size=3, unique=True)),
        backouts=draw(st.lists(st.tuples(ids, counts), max_size=3, unique_by=lambda item: item[0])),
        hardened=draw(st.lists(ids, max_size=3, unique=True)),
        objects=[
            ObjectRow(*NAMES[index], index + 1, "KIND", attributes)
            for index, attributes in draw(st.dictionaries(st.integers(0, 2), st.binary(max_size=4))).items()
        ],
        dropped=draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True)),
        high_water=draw(st.integers(0, 9)),
        states=[ObjectRow("CONSUMER", "C", 9, "CONSUMER", each) for each in draw(st.lists(st.binary(), max_size=1))],
        held=draw(st.lists(runs, max_size=2)),
        placed=[run._replace(holder=0) for run in draw(st.lists(runs, max_size=1))],
        handled=draw(
            st.lists(st.tuples(ids, counts, st.binary(max_size=9)), max_size=3, unique_by=lambda item: item[0])
        ),
        marked=draw(st.lists(st.tuples(ids, st.sampled_from([2, 3])), max_size=3, unique_by=lambda item: item[0])),
        keys=[
            key(id, bytes([id % 3]), queue=id % 2, until=until)
            for id, until in draw(st.dictionaries(ids, st.sampled_from([0.0, 4e9]), max_size=2)).items()
        ],
        freed=[key(id, bytes([id % 3]), queue=id % 2)[:2] for id in draw(st.lists(ids, max_size=2))],
        steps=[
            samples.step(id, 0, value=value)
            for id, value in draw(st.dictionaries(ids, st.binary(), max_size=2)).items()
        ],
    )


class Model:
    """A store, said plainly."""

    def __init__(self) -> None:
        self.messages: dict[int, MessageRow] = {}
        self.objects: dict[tuple[str, str], ObjectRow] = {}
        self.keys: dict[tuple[int, bytes], KeyRow] = {}
        self.steps: dict[tuple[int, int], StepRow] = {}
        self.high_water = 0

    def write(self, rows: Rows) -> None:
        """Inserts, then marks, backouts, what handlers leave, holders, places and removals; then deletions of objects,
        their definitions and their states; then keys that are freed, and keys.
        """
        self.messages |= {row.id: row for row in rows.inserts}
        for id in self.messages.keys() & set(rows.hardened):
            self.messages[id] = self.messages[id]._replace(hardened=1)
        mark(self.messages, rows)
        for id, count in rows.backouts:
            if id in self.messages:
                self.messages[id] = self.messages[id]._replace(hardened=0, backout_count=count, holder=0, sequence=0)
        handle(self.messages, rows)
        for run in rows.held:
            for at, id in enumerate(run.ids):
                self.messages[id] = self.messages[id]._replace(holder=run.holder, sequence=run.first + at)
        for run in rows.placed:
            for at, id in enumerate(run.ids):
                self.messages[id] = self.messages[id]._replace(holder=0, sequence=0, place=run.first + at)
        for id in rows.removals:
            self.messages.pop(id, None)
        for name in rows.dropped:
            self.objects.pop(name, None)
        self.objects |= {(row.space, row.name): row for row in (*rows.objects, *rows.states)}
        keep_keys(self.keys, rows)
        keep_steps(self.steps, self.messages, rows)
        self.high_water = max(self.high_water, rows.high_water)

    def only_known(self, rows: Rows) -> None:
        """Leave out of a batch what no unit contains: ids that are taken, and messages that are not there."""
        rows.inserts = [row for row in rows.inserts if row.id not in self.messages]
        known = self.messages.keys() | {row.id for row in rows.inserts}
        rows.removals = [id for id in rows.removals if id in known]
        rows.backouts = [(id, count) for id, count in rows.backouts if id in known]
        rows.hardened = [id for id in rows.hardened if id in known]
        rows.handled = [each for each in rows.handled if each[0] in known]
        rows.marked = [each for each in rows.marked if each[0] in known]
        places = {id: 1 + sum(known == id for known, _ in self.steps) for id in known}
        rows.steps = [each._replace(place=places[each.id]) for each in rows.steps if each.id in known]
        rows.held = [run._replace(ids=[id for id in run.ids if id in known]) for run in rows.held]
        rows.placed = [run._replace(ids=[id for id in run.ids if id in known]) for run in rows.placed]

    def crash(self) -> None:
        """Nonpersistent messages are kept over an orderly stop alone, unless somebody holds them."""
        self.messages = {id: row for id, row in self.messages.items() if row.persistent or row.holder}
        keep_steps(self.steps, self.messages, Rows())

    def load(self) -> Contents:
        """All there is, sorted; the nonpersistent messages that nobody holds for the last time."""
        steps = tuple(sorted(self.steps.values()))
        loaded = [self.messages[id] for id in sorted(self.messages)]
        self.messages = {row.id: row for row in loaded if row.persistent or row.holder}
        keep_steps(self.steps, self.messages, Rows())
        objects = [self.objects[name] for name in sorted(self.objects)]
        return Contents(loaded, objects, self.high_water, tuple(sorted(self.keys.values())), steps)


async def compare(store: Store, steps: list[Rows | str]) -> None:
    """Do the steps to the store and to a model, and compare them at each restart and at the end."""
    model = Model()
    await store.open()
    for step in steps:
        if isinstance(step, Rows):
            model.only_known(step)
            await store.write(step)
            model.write(step)
        elif isinstance(store, LogStore) and step == CARRY:
            await carried_over(store)
        elif isinstance(store, LogStore) and step == KILL:
            left = as_killed(store._disk.path, store._disk.path.parent / uuid4().hex)
            await store.close()
            store = log_store(left)
            await store.open()
            model.crash()
            assert await contents(store) == model.load()
        else:
            assert await reopened(store) == model.load()
    assert await reopened(store) == model.load()
    await store.close()


steps_of = st.lists(st.one_of(batches(), st.sampled_from([REOPEN, CARRY, KILL])), max_size=10)


@tries(40)
@given(steps=steps_of)
async def test_any_batches_in_memory_equal_the_model(steps: list[Rows | str]) -> None:
    await compare(MemoryStore(), [REOPEN if step in (CARRY, KILL) else step for step in steps])


@tries(25)
@given(steps=steps_of)
async def test_any_batches_on_disk_equal_the_model_after_stops_kills_and_carry_overs(steps: list[Rows | str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        await compare(log_store(Path(directory) / "data"), steps)
