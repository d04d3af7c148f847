"""A store, said plainly: dictionaries of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.core.message.rows import MessageRow, ObjectRow, Rows


class FakeStore:
    """The rows of all that was written."""

    def __init__(self) -> None:
        self.messages: dict[int, MessageRow] = {}
        self.objects: dict[tuple[str, str], ObjectRow] = {}
        self.high_water = 0

    def write(self, rows: Rows) -> None:
        """Take in the rows of a unit. A row that is to be changed must be there."""
        for row in rows.inserts:
            assert row.id not in self.messages
            assert row.persistent
            self.messages[row.id] = row
        for id, count in rows.backouts:
            self.messages[id] = self.messages[id]._replace(backout_count=count, hardened=0)
        for id in rows.removals:
            del self.messages[id]
        for key in rows.dropped:
            number = self.objects.pop(key).number
            assert all(row.queue != number for row in self.messages.values())
        self.objects |= {(row.space, row.name): row for row in rows.objects}
        self.high_water = max(self.high_water, rows.high_water)

    def load(self) -> list[MessageRow]:
        """The messages as a start reads them."""
        return [self.messages[id] for id in sorted(self.messages)]
