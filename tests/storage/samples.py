"""Rows to write, and what a store has to say, for the tests of stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.storage.store import MessageRow, ObjectRow

if TYPE_CHECKING:
    from broker.storage.store import Store

ORDERS = ObjectRow("QUEUE", "ORDERS", 7, "QLOCAL", b"orders")
SHIPPING = ObjectRow("PROCESS", "SHIPPING", 8, "PROCESS", b"shipping")
ARCHIVE = ObjectRow("CONSUMER", "ARCHIVE", 20, "CONSUMER", b"archive")
UNIT = ObjectRow("UNIT", "sink/1/0/a", 21, "UNIT", b"unit")


def message(id: int, data: bytes = b"hello", *, queue: int = 7, persistent: int = 1) -> MessageRow:
    """A message with a descriptor that tells it from others."""
    return MessageRow(id, queue, 4, persistent, b"descriptor of %d" % id, len(data), data)


class Contents(NamedTuple):
    """All that can be read from a store."""

    messages: list[MessageRow]
    objects: list[ObjectRow]
    high_water: int


async def contents(store: Store) -> Contents:
    """Load everything, each message with its data; this is when messages with persistent=0 are given and forgotten."""
    objects, high_water = await store.load_objects()
    messages: list[MessageRow] = []
    async for chunk in store.load_messages():
        assert all(row.data is None for row in chunk)
        data = await store.read_data(row.id for row in chunk)
        messages += [row._replace(data=data[row.id]) for row in chunk]
    return Contents(messages, objects, high_water)


async def reopened(store: Store) -> Contents:
    """Everything that a manager that starts now finds."""
    await store.close()
    await store.open()
    return await contents(store)
