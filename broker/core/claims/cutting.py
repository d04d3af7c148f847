"""Cut a range of messages into pieces, so that several read it at once (claims rule 2.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.message.logical_order import GROUPED, SEGMENTS
from broker.mqi.structures import NO_ID

if TYPE_CHECKING:
    from broker.core.message.entry import Entry

CUT_MESSAGES: Final = 256
CUT_BYTES: Final = 1024 * 1024
"""There is a cut where so much lies behind the one before it."""

_TOGETHER: Final = GROUPED | SEGMENTS


class RangePiece(NamedTuple):
    """The messages between two cuts: the number of the last one, their count, and their bytes."""

    last: int
    messages: int
    bytes: int


class Cutting:
    """The messages of a range are added one after the other; `pieces` is what they make. Neighbours of one group, or of
    one logical message, stay together.
    """

    def __init__(self) -> None:
        self._pieces: list[RangePiece] = []
        self._before: Entry | None = None
        self._last = self._messages = self._bytes = 0

    def add(self, number: int, entry: Entry | None) -> None:
        """The next message, with its number; None for one that the store has lost."""
        full = self._messages >= CUT_MESSAGES or self._bytes >= CUT_BYTES
        if full and not _belong_together(self._before, entry):
            self._pieces = self.pieces
            self._messages = self._bytes = 0
        self._last, self._before = number, entry
        self._messages += 1
        self._bytes += 0 if entry is None else entry.length

    @property
    def pieces(self) -> list[RangePiece]:
        """All that has been added, in pieces."""
        rest = [RangePiece(self._last, self._messages, self._bytes)] if self._messages else []
        return self._pieces + rest


def _belong_together(before: Entry | None, entry: Entry | None) -> bool:
    if before is None or entry is None or before.queue is not entry.queue:
        return False
    return before.group_id == entry.group_id != NO_ID and bool(entry.msg_flags & _TOGETHER)
