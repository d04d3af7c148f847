"""Any sequence of batches, loaded again, equals a model one can believe at a glance: two dictionaries."""

from __future__ import annotations

import tempfile
from pathlib import Path
from uuid import uuid4

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.storage.log_store import LogStore
from broker.storage.memory import MemoryStore
from broker.storage.store import MessageRow, ObjectRow, Rows, Store
from tests.stores import as_killed, carried_over, log_store

from .samples import Contents, contents, reopened

NAMES = [("QUEUE", "A"), ("QUEUE", "B"), ("PROCESS", "A")]
REOPEN = "reopen"
CARRY = "carry over"
KILL = "kill"

ids = st.integers(1, 12)
sizes = st.sampled_from([0, 3, 1024, 1025, 20_000])
counts = st.integers(0, 5)


@st.composite
def batches(draw: st.DrawFn) -> Rows:
    """A batch that mentions the few ids and names over and over; the ids it inserts are made unique by the test."""
    inserts = draw(
        st.lists(st.tuples(ids, sizes, st.integers(0, 1), counts), max_size=4, unique_by=lambda item: item[0])
    )
    return Rows(
        inserts=[
            MessageRow(id, id % 3 + 1, 4, persistent, b"descriptor", size, bytes([id]) * size, count)
            for id, size, persistent, count in inserts
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
    )


class Model:
    """What a store is, said plainly."""

    def __init__(self) -> None:
        self.messages: dict[int, MessageRow] = {}
        self.objects: dict[tuple[str, str], ObjectRow] = {}
        self.high_water = 0
        self.gone: set[int] = set()  # and all that are there

    def write(self, rows: Rows) -> None:
        """Inserts, then marks, backouts and removals; then deletions of objects, then their definitions."""
        self.messages |= {row.id: row for row in rows.inserts}
        for id in self.messages.keys() & set(rows.hardened):
            self.messages[id] = self.messages[id]._replace(hardened=1)
        for id, count in rows.backouts:
            if id in self.messages:
                self.messages[id] = self.messages[id]._replace(hardened=0, backout_count=count)
        for id in rows.removals:
            self.messages.pop(id, None)
        for key in rows.dropped:
            self.objects.pop(key, None)
        self.objects |= {(row.space, row.name): row for row in rows.objects}
        self.high_water = max(self.high_water, rows.high_water)

    def only_known(self, rows: Rows) -> None:
        """Leave out of a batch what no unit contains: ids that are taken, and messages that are not there."""
        rows.inserts = [row for row in rows.inserts if row.id not in self.messages and row.id not in self.gone]
        known = self.messages.keys() | {row.id for row in rows.inserts}
        rows.removals = [id for id in rows.removals if id in known]
        rows.backouts = [(id, count) for id, count in rows.backouts if id in known]
        rows.hardened = [id for id in rows.hardened if id in known]
        self.gone |= known

    def crash(self) -> None:
        """Nonpersistent messages are kept over an orderly stop alone."""
        self.messages = {id: row for id, row in self.messages.items() if row.persistent}

    def load(self) -> Contents:
        """All there is, sorted; the nonpersistent messages for the last time."""
        loaded = [self.messages[id] for id in sorted(self.messages)]
        self.messages = {row.id: row for row in loaded if row.persistent}
        return Contents(loaded, [self.objects[key] for key in sorted(self.objects)], self.high_water)


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


@settings(max_examples=40, deadline=None)
@given(steps=steps_of)
async def test_any_batches_in_memory_equal_the_model(steps: list[Rows | str]) -> None:
    await compare(MemoryStore(), [REOPEN if step in (CARRY, KILL) else step for step in steps])


@settings(max_examples=25, deadline=None)
@given(steps=steps_of)
async def test_any_batches_on_disk_equal_the_model_after_stops_kills_and_carry_overs(steps: list[Rows | str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        await compare(log_store(Path(directory) / "data"), steps)
