"""Messages told by queue and MsgId, from the rows that a store has of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgpack

from broker.core.identifiers import Identifiers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.storage.store import MessageRow, ObjectRow

_INSTANCE = "INSTANCE"


class Naming:
    """Names of the messages of a queue manager with these definitions."""

    def __init__(self, objects: Iterable[ObjectRow]) -> None:
        self._queues: dict[int, str] = {}
        self._ids: Identifiers | None = None
        for row in objects:
            if row.kind == "QLOCAL":
                self._queues[row.number] = row.name
            elif row.kind == "QMGR":
                self._ids = Identifiers(row.name, 0, 0, 0)
                self._ids.belong_to(int(_unpacked(row.attributes).get(_INSTANCE, 0)))

    def queue(self, number: int) -> str:
        """The name of a queue."""
        return self._queues.get(number, f"a queue without a definition (number {number})")

    def message(self, row: MessageRow) -> str:
        """A message whose row is what was written."""
        return f"{self.queue(row.queue)}, MsgId {self._msg_id(row)} (message {row.id})"

    def _msg_id(self, row: MessageRow) -> str:
        try:
            given: bytes | None = msgpack.unpackb(row.descriptor, use_list=False)[1]
        except (ValueError, TypeError, IndexError):
            return "unknown"
        if given is not None:
            return given.hex()
        return "unknown" if self._ids is None else self._ids.identifier(row.place or row.id).hex()


def _unpacked(attributes: bytes) -> dict[str, Any]:
    try:
        found = msgpack.unpackb(attributes)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
