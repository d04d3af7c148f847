"""Rows to write, and what a store has to say, for the tests of stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.storage.store import KeyRow, MessageRow, ObjectRow, StepRow

if TYPE_CHECKING:
    from broker.storage.store import Rows, Store

ORDERS = ObjectRow("QUEUE", "ORDERS", 7, "QLOCAL", b"orders")
SHIPPING = ObjectRow("PROCESS", "SHIPPING", 8, "PROCESS", b"shipping")
ARCHIVE = ObjectRow("CONSUMER", "ARCHIVE", 20, "CONSUMER", b"archive")
UNIT = ObjectRow("UNIT", "sink/1/0/a", 21, "UNIT", b"unit")


def message(id: int, data: bytes = b"hello", *, queue: int = 7, persistent: int = 1) -> MessageRow:
    """A message with a descriptor that tells it from others."""
    return MessageRow(id, queue, 4, persistent, b"descriptor of %d" % id, len(data), data)


def key(id: int, text: bytes = b"order 42", *, queue: int = 7, until: float = 0.0) -> KeyRow:
    """The key of the put of a message."""
    return KeyRow(queue, text.ljust(16), id, b"" if id % 2 else b"given".ljust(24), b"%08d" % id, until)


def step(id: int, place: int = 1, name: str = "charge", value: bytes = b'"ok"') -> StepRow:
    """A finished step of a message."""
    return StepRow(id, place, name, value)


def mark(messages: dict[int, MessageRow], rows: Rows) -> None:
    """Handlers mark messages that they have in their hands."""
    for id, hardened in rows.marked:
        if id in messages:
            messages[id] = messages[id]._replace(hardened=hardened)


def handle(messages: dict[int, MessageRow], rows: Rows) -> None:
    """Handlers leave something with messages."""
    for id, count, handling in rows.handled:
        if id in messages:
            messages[id] = messages[id]._replace(
                backout_count=count, hardened=0, holder=0, sequence=0, handling=handling
            )


def keep_keys(keys: dict[tuple[int, bytes], KeyRow], rows: Rows) -> None:
    """Keys that are freed go, and then keys come."""
    for freed in rows.freed:
        keys.pop(freed, None)
    keys |= {(row.queue, row.key): row for row in rows.keys}


def keep_steps(steps: dict[tuple[int, int], StepRow], messages: dict[int, MessageRow], rows: Rows) -> None:
    """Steps come, and go with their messages, of which these are left."""
    steps |= {(row.id, row.place): row for row in rows.steps if row.id in messages}
    for id, place in list(steps):
        if id not in messages:
            del steps[id, place]


class Contents(NamedTuple):
    """All that can be read from a store."""

    messages: list[MessageRow]
    objects: list[ObjectRow]
    high_water: int
    keys: tuple[KeyRow, ...] = ()
    steps: tuple[StepRow, ...] = ()


async def contents(store: Store) -> Contents:
    """Load everything, each message with its data; this is when messages with persistent=0 are given and forgotten."""
    objects, high_water = await store.load_objects()
    steps = sorted([each async for chunk in store.load_steps() for each in chunk])
    messages: list[MessageRow] = []
    async for chunk in store.load_messages():
        assert all(row.data is None for row in chunk)
        data = await store.read_data(row.id for row in chunk)
        messages += [row._replace(data=data[row.id]) for row in chunk]
    keys = sorted([each async for chunk in store.load_keys() for each in chunk])
    return Contents(messages, objects, high_water, tuple(keys), tuple(steps))


async def reopened(store: Store) -> Contents:
    """Everything that a manager that starts now finds."""
    await store.close()
    await store.open()
    return await contents(store)
