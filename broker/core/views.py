"""Views: the available messages of a queue that a certain kind of get may start with, in queue order.

A queue makes a view when such a get is first asked for, and keeps it up to date from then on. So a get that wants a
complete group does not step over ten thousand incomplete ones, and queues that are never read so pay nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.order import SortedKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker.core.entry import Entry

ANY, MESSAGE_START, GROUP_START = range(3)
"""Which items a get may start with: any, those with offset 0, or those with sequence number 1 and offset 0."""

PART, WHOLE_MESSAGE, WHOLE_GROUP = range(3)
"""What must be available with them: nothing more, all of their logical message, or all of their group."""


class View:
    """The keys of the available messages that `admits` admits."""

    __slots__ = ("admits", "keys")

    def __init__(self, admits: Callable[[Entry], bool], entries: Iterable[Entry]) -> None:
        self.admits = admits
        self.keys: SortedKeys[int] = SortedKeys()
        for entry in entries:
            self.refresh(entry)

    def refresh(self, entry: Entry) -> None:
        """An available message came, or what it is judged by has changed."""
        if not self.admits(entry):
            self.keys.discard(entry.key)
        elif entry.key not in self.keys:
            self.keys.add(entry.key)


def starts(entry: Entry, where: int) -> bool:
    """Whether a get that may start at `where` may start with this message."""
    return entry.offset == 0 and (entry.msg_seq_number == 1 or where == MESSAGE_START) if where else True
