"""The groups and segmented messages of a queue: what comes where in them, and which are complete.

Only available messages are in here, so completeness is what a getter would find. It is kept up to date with each
message that appears or goes, not searched for: a logical message is complete when its segments, laid end to end from
offset 0, reach the end of its last segment; a group when its messages 1 to the last are all there and complete.

Messages with the same group, sequence number and offset are allowed; the first in queue order is used, the others stay.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, TypeAlias

from broker.core.logical import GROUPED, LAST_MSG_IN_GROUP, LAST_SEGMENT, SEGMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.entry import Entry
    from broker.core.logical import Item

Piece: TypeAlias = tuple[int, int, bool]  # key, length, whether it is the last


class LogicalMessage:
    """The available segments of one logical message; a message that is not segmented is one piece that is the last."""

    __slots__ = ("_bytes", "_ends", "pieces")

    def __init__(self) -> None:
        self.pieces: dict[int, list[Piece]] = {}  # by offset, in queue order
        self._bytes = 0  # of the pieces used, one an offset
        self._ends: dict[int, int] = {}  # offset of a last piece used to the offset behind it

    @property
    def complete(self) -> bool:
        """Whether the pieces reach from 0 to the end. Lengths say so as long as pieces do not overlap."""
        return bool(self._ends) and 0 in self.pieces and self._bytes == max(self._ends.values())

    def add(self, offset: int, piece: Piece) -> None:
        same = self.pieces.setdefault(offset, [])
        if same:
            self._use(offset, same[0], -1)
        insort(same, piece)
        self._use(offset, same[0], 1)

    def discard(self, offset: int, piece: Piece) -> None:
        same = self.pieces[offset]
        self._use(offset, same[0], -1)
        same.remove(piece)
        if same:
            self._use(offset, same[0], 1)
        else:
            del self.pieces[offset]

    def keys(self) -> Iterator[int]:
        """The keys of all pieces."""
        for same in self.pieces.values():
            for key, _, _ in same:
                yield key

    def _use(self, offset: int, piece: Piece, step: int) -> None:
        _, length, last = piece
        self._bytes += step * length
        if last and step > 0:
            self._ends[offset] = offset + length
        elif last:
            del self._ends[offset]


class Group:
    """The available messages of one group id."""

    __slots__ = ("_complete", "_lasts", "messages")

    def __init__(self) -> None:
        self.messages: dict[int, LogicalMessage] = {}  # by sequence number
        self._complete = 0  # how many of them are complete
        self._lasts: dict[int, int] = {}  # sequence number to its pieces that carry LAST_MSG_IN_GROUP

    @property
    def complete(self) -> bool:
        """Whether every logical message from 1 to the last is there, each with all its segments."""
        return bool(self._lasts) and self._complete == len(self.messages) == max(self._lasts)

    def add(self, entry: Entry) -> None:
        message = self.messages.setdefault(entry.msg_seq_number, LogicalMessage())
        self._complete -= message.complete
        message.add(entry.offset, _piece(entry))
        self._complete += message.complete
        if entry.msg_flags & LAST_MSG_IN_GROUP:
            self._lasts[entry.msg_seq_number] = self._lasts.get(entry.msg_seq_number, 0) + 1

    def discard(self, entry: Entry) -> None:
        number = entry.msg_seq_number
        message = self.messages[number]
        self._complete -= message.complete
        message.discard(entry.offset, _piece(entry))
        self._complete += message.complete
        if not message.pieces:
            del self.messages[number]
        if entry.msg_flags & LAST_MSG_IN_GROUP:
            self._lasts[number] -= 1
            if not self._lasts[number]:
                del self._lasts[number]

    def keys(self) -> Iterator[int]:
        """The keys of all messages of the group."""
        for message in self.messages.values():
            yield from message.keys()


class Groups:
    """The groups of a queue."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[bytes, Group] = {}

    def add(self, entry: Entry) -> list[int]:
        """A message with a group id is available. The keys of those whose completeness may have changed with it."""
        group = self._groups.setdefault(entry.group_id, Group())
        before = group.complete, self._message_complete(group, entry)
        group.add(entry)
        return self._changed(group, entry, before)

    def discard(self, entry: Entry) -> list[int]:
        """It is not available any more. The keys of those whose completeness may have changed with it."""
        group = self._groups[entry.group_id]
        before = group.complete, self._message_complete(group, entry)
        group.discard(entry)
        if not group.messages:
            del self._groups[entry.group_id]
        return self._changed(group, entry, before)

    def first(self, item: Item) -> int | None:
        """The key of the message that is this item; of several the first in queue order."""
        message = self._message(item.group_id, item.msg_seq_number)
        same = message.pieces.get(item.offset) if message is not None else None
        return same[0][0] if same else None

    def segments(self, entry: Entry) -> list[int]:
        """The keys of the segments from `entry` on to the last, end to end; stops early where one is missing."""
        message = self._message(entry.group_id, entry.msg_seq_number)
        if message is None or not entry.msg_flags & SEGMENTS:
            return [entry.key]
        run = [entry.key]
        offset, last = entry.offset + entry.length, bool(entry.msg_flags & LAST_SEGMENT)
        while not last and offset in message.pieces:
            key, length, last = message.pieces[offset][0]
            if not length and not last:
                break
            run.append(key)
            offset += length
        return run

    def message_complete(self, entry: Entry) -> bool:
        """Whether all segments of the logical message of an available entry are available."""
        if not entry.msg_flags & SEGMENTS:
            return True
        return self._message_complete(self._groups[entry.group_id], entry)

    def group_complete(self, entry: Entry) -> bool:
        """Whether the whole group of an available entry is; for a message in no group, the whole message."""
        if not entry.msg_flags & GROUPED:
            return self.message_complete(entry)
        return self._groups[entry.group_id].complete

    def _message(self, group_id: bytes, number: int) -> LogicalMessage | None:
        group = self._groups.get(group_id)
        return None if group is None else group.messages.get(number)

    def _message_complete(self, group: Group, entry: Entry) -> bool:
        message = group.messages.get(entry.msg_seq_number)
        return message is not None and message.complete

    def _changed(self, group: Group, entry: Entry, before: tuple[bool, bool]) -> list[int]:
        if group.complete != before[0]:
            return list(group.keys())
        if self._message_complete(group, entry) != before[1]:
            message = group.messages.get(entry.msg_seq_number)
            return list(message.keys()) if message is not None else []
        return []


def _piece(entry: Entry) -> Piece:
    last = not entry.msg_flags & SEGMENTS or bool(entry.msg_flags & LAST_SEGMENT)
    return entry.key, _span(entry), last


def _span(entry: Entry) -> int:
    """How far a segment reaches: its length, or for a report about a segment the length of that."""
    return entry.original_length if entry.original_length > entry.length else entry.length
