"""The groups and segmented messages on a shelf: what comes where in them, and which are complete.

Only available messages are in here, so completeness is what a getter would find. It is kept up to date with each
message that appears or goes, not searched for: by the walks of `broker.mqi.completeness`, each gone on with from the
place where something has changed. What no walk meets does not count.

Messages with the same group, sequence number and offset are allowed; the first in queue order is used, the others stay.

Few messages are segmented, so most stand here as a `WholeMessage`, which is small.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from broker.core.message.logical_order import GROUPED, IN_PARTS, LAST_MSG_IN_GROUP, LAST_SEGMENT, SEGMENTS
from broker.core.queues.shelf.sorted_keys import SortedKeys
from broker.core.queues.shelf.views import WHOLE_GROUP
from broker.mqi.completeness import walk_messages, walk_segments
from broker.mqi.structures import NO_ID

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from broker.core.message.entry import Entry
    from broker.core.message.logical_order import LogicalPlace

Piece: TypeAlias = tuple[int, int, bool, bool]  # key, length, whether it is the last, whether it is a segment


class WholeMessage:
    """A logical message of one physical message that is not a segment. See `LogicalMessage` for what it can do."""

    __slots__ = ("key",)

    complete = True

    def __init__(self, key: int) -> None:
        self.key = key

    def at(self, offset: int) -> int | None:
        return None if offset else self.key

    def first(self) -> int | None:
        return None

    def run(self, _offset: int, _length: int) -> list[int]:
        return []

    def keys(self) -> Iterable[int]:
        return (self.key,)

    def walk(self) -> Iterable[int]:
        return (self.key,)


class LogicalMessage:
    """The available segments of one logical message; a message that is not segmented is one piece that is the last."""

    __slots__ = ("_segments", "_walk", "complete", "pieces")

    def __init__(self) -> None:
        self.pieces: dict[int, list[Piece]] = {}  # by offset, in queue order
        self.complete = False
        self._segments = 0  # how many of the pieces are
        self._walk: list[int] = []  # the offsets from 0 on, each the end of the one before

    def add(self, offset: int, piece: Piece) -> None:
        same = self.pieces.setdefault(offset, [])
        insort(same, piece)
        self._segments += piece[3]
        if same[0] is piece:
            self._walk_from(offset)

    def discard(self, offset: int, piece: Piece) -> None:
        same = self.pieces[offset]
        first = same[0]
        same.remove(piece)
        self._segments -= piece[3]
        if not same:
            del self.pieces[offset]
        if piece == first:
            self._walk_from(offset)

    def at(self, offset: int) -> int | None:
        """The key of the piece at this offset; of several the first in queue order."""
        same = self.pieces.get(offset)
        return same[0][0] if same else None

    def first(self) -> int | None:
        """The key of the piece with which the message begins; None also when there are no segments, and so each piece
        is a message.
        """
        return self.pieces[0][0][0] if self._segments and 0 in self.pieces else None

    def run(self, offset: int, length: int) -> list[int]:
        """The keys of the pieces end to end from `offset`, where a piece of `length` ends the ones before."""
        offsets, _ = walk_segments(self._piece_at, offset + length)
        return [self.pieces[each][0][0] for each in offsets]

    def keys(self) -> Iterator[int]:
        """The keys of all pieces."""
        for same in self.pieces.values():
            for piece in same:
                yield piece[0]

    def walk(self) -> Iterator[int]:
        """The keys of the pieces end to end, from offset 0 as far as they go."""
        for offset in self._walk:
            yield self.pieces[offset][0][0]

    def _walk_from(self, offset: int) -> None:
        """The piece used at `offset` is another now: walk on from there, if the walk came or comes by."""
        walk = self._walk
        place = bisect_left(walk, offset)
        if place < len(walk) and walk[place] == offset:
            del walk[place:]
            self.complete = False
        if self.complete or offset != self._reach():
            return
        offsets, self.complete = walk_segments(self._piece_at, offset)
        walk += offsets

    def _piece_at(self, offset: int) -> tuple[int, bool] | None:
        same = self.pieces.get(offset)
        return same[0][1:3] if same else None

    def _reach(self) -> int:
        """Return the offset at which the next piece of the walk would begin."""
        if not self._walk:
            return 0
        offset = self._walk[-1]
        return offset + self.pieces[offset][0][1]


class ShelfGroup:
    """The available messages of one group id."""

    __slots__ = ("_lasts", "_reach", "complete", "id", "keys", "messages")

    def __init__(self, id: bytes) -> None:
        self.id = id
        self.keys: SortedKeys[int] = SortedKeys()  # of all messages
        self.messages: dict[int, LogicalMessage | WholeMessage] = {}  # by sequence number
        self.complete = False
        self._lasts: dict[int, int] = {}  # sequence number to its pieces that carry LAST_MSG_IN_GROUP
        self._reach = 0  # messages 1 to this one are complete, and none before it is the last

    def add(self, entry: Entry) -> None:
        number = entry.msg_seq_number
        if entry.msg_flags & LAST_MSG_IN_GROUP:
            self._lasts[number] = self._lasts.get(number, 0) + 1
        self.keys.add(entry.key)
        self._add_piece(number, entry.offset, _piece(entry))
        self._walk_from(number)

    def discard(self, entry: Entry) -> None:
        number = entry.msg_seq_number
        if entry.msg_flags & LAST_MSG_IN_GROUP:
            self._lasts[number] -= 1
            if not self._lasts[number]:
                del self._lasts[number]
        self.keys.discard(entry.key)
        message = self.messages[number]
        if isinstance(message, LogicalMessage):
            message.discard(entry.offset, _piece(entry))
        if isinstance(message, WholeMessage) or not message.pieces:
            del self.messages[number]
        self._walk_from(number)

    def in_order(self) -> Iterator[int]:
        """The keys of the messages of a complete group, in logical order."""
        for number in range(1, self._reach + 1):
            yield from self.messages[number].walk()

    def _add_piece(self, number: int, offset: int, piece: Piece) -> None:
        message = self.messages.get(number)
        if message is None and not offset and not piece[3]:
            self.messages[number] = WholeMessage(piece[0])
            return
        if message is None or isinstance(message, WholeMessage):
            whole, message = message, LogicalMessage()
            self.messages[number] = message
            if whole is not None:
                message.add(0, _whole_piece(whole.key))
        message.add(offset, piece)

    def _walk_from(self, number: int) -> None:
        """Message `number` has changed: walk on from there, if the walk came or comes by."""
        if number <= self._reach:
            self._reach = number - 1
            self.complete = False
        if self.complete or number != self._reach + 1:
            return
        self._reach, self.complete = walk_messages(self._message_complete, self._lasts.__contains__, number)

    def _message_complete(self, number: int) -> bool:
        message = self.messages.get(number)
        return message is not None and message.complete


class Groups:
    """The groups on a shelf."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[bytes, ShelfGroup] = {}

    def add(self, entry: Entry) -> list[int]:
        """A message with a group id is available. The keys of those whose completeness may have changed with it."""
        group = self._groups.get(entry.group_id)
        if group is None:
            group = self._groups[entry.group_id] = ShelfGroup(entry.group_id)
        before = _state(group, entry)
        group.add(entry)
        return self._changed(group, entry, before)

    def discard(self, entry: Entry) -> list[int]:
        """It is not available any more. The keys of those whose completeness may have changed with it."""
        group = self._groups[entry.group_id]
        before = _state(group, entry)
        group.discard(entry)
        if not group.messages:
            del self._groups[entry.group_id]
        return self._changed(group, entry, before)

    def first(self, item: LogicalPlace) -> int | None:
        """The key of the message that is this item; of several the first in queue order."""
        message = self._message(item.group_id, item.msg_seq_number)
        return None if message is None else message.at(item.offset)

    def after(self, group_id: bytes, key: int) -> Iterable[int]:
        """The keys greater than `key` of the messages of a group, ascending."""
        group = self._groups.get(group_id)
        return () if group is None else group.keys.after(key)

    def count(self, group_id: bytes) -> int:
        """Return the number of messages of a group."""
        group = self._groups.get(group_id)
        return 0 if group is None else len(group.keys)

    def whole_with(self, entry: Entry, whole: int) -> Collection[int] | SortedKeys[int]:
        """The keys of the messages that can be had with all of their group (WHOLE_GROUP) or logical message, as far as
        an available entry has to do with that.
        """
        group = self._groups.get(entry.group_id)
        if whole == WHOLE_GROUP and group is not None and group.complete:
            return group.keys
        message = None if group is None else group.messages.get(entry.msg_seq_number)
        if isinstance(message, LogicalMessage) and message.complete:
            return list(message.keys())
        alone = not entry.msg_flags & (IN_PARTS if whole == WHOLE_GROUP else SEGMENTS)
        return (entry.key,) if alone else ()

    def in_order(self, entry: Entry) -> list[int]:
        """The keys of a complete group in logical order, or of a complete logical message in no group; `entry` is one
        of its messages.
        """
        group = self._groups.get(entry.group_id) if entry.msg_flags & IN_PARTS else None
        if group is None:
            return [entry.key]
        return (
            list(group.in_order()) if entry.msg_flags & GROUPED else list(group.messages[entry.msg_seq_number].walk())
        )

    def size(self, entry: Entry) -> int:
        """Return the number of messages in the group of an entry, whole or not; 1 for a message in none."""
        group = self._groups.get(entry.group_id) if entry.msg_flags & IN_PARTS else None
        return 1 if group is None else len(group.keys)

    def segments(self, entry: Entry) -> list[int]:
        """The keys of the segments from `entry` on to the last, end to end; stops early where one is missing."""
        message = self._message(entry.group_id, entry.msg_seq_number)
        if message is None or not entry.msg_flags & SEGMENTS:
            return [entry.key]
        last = bool(entry.msg_flags & LAST_SEGMENT)
        return [entry.key, *(() if last else message.run(entry.offset, entry.span))]

    def whole_from(self, entry: Entry) -> bool:
        """True if the logical message of an available entry is complete and begins with just this entry: of several
        segments with offset 0 the first in queue order is used.
        """
        if not entry.msg_flags & SEGMENTS:
            return True
        message = self._groups[entry.group_id].messages[entry.msg_seq_number]
        return message.complete and message.first() == entry.key

    def message_complete(self, entry: Entry) -> bool:
        """True if all segments of the logical message of an available entry are available."""
        if not entry.msg_flags & SEGMENTS:
            return True
        return self._groups[entry.group_id].messages[entry.msg_seq_number].complete

    def group_complete(self, entry: Entry) -> bool:
        """True if the whole group of an available entry is available; for a message in no group, the whole message."""
        if not entry.msg_flags & GROUPED:
            return self.message_complete(entry)
        return self._groups[entry.group_id].complete

    def check_invariants(self, entries: Iterable[Entry]) -> None:
        """Raise AssertionError unless the groups hold exactly those of `entries` that are in one. For tests."""
        grouped = [entry for entry in entries if entry.group_id != NO_ID]
        keys = {id: list(group.keys) for id, group in self._groups.items()}
        assert sorted(chain.from_iterable(keys.values())) == [entry.key for entry in grouped]
        assert all(entry.key in self._groups[entry.group_id].keys for entry in grouped)
        for id, group in self._groups.items():
            pieces = chain.from_iterable(message.keys() for message in group.messages.values())
            assert sorted(pieces) == keys[id]

    def _message(self, group_id: bytes, number: int) -> LogicalMessage | WholeMessage | None:
        group = self._groups.get(group_id)
        return None if group is None else group.messages.get(number)

    def _changed(self, group: ShelfGroup, entry: Entry, before: _State) -> list[int]:
        after = _state(group, entry)
        if after.group_complete != before.group_complete:
            return list(group.keys)
        if after != before:
            message = group.messages.get(entry.msg_seq_number)
            return list(message.keys()) if message is not None else []
        return []


class _State(NamedTuple):
    """The completeness of the messages of one sequence number, which decides what getters of wholes may be given."""

    group_complete: bool
    message_complete: bool
    first: int | None  # the segment with which the message begins


def _state(group: ShelfGroup, entry: Entry) -> _State:
    message = group.messages.get(entry.msg_seq_number)
    if message is None:
        return _State(group.complete, message_complete=False, first=None)
    return _State(group.complete, message.complete, message.first())


def _piece(entry: Entry) -> Piece:
    flags = entry.msg_flags
    return (entry.key, entry.span, bool(flags & LAST_SEGMENT), True) if flags & SEGMENTS else _whole_piece(entry.key)


def _whole_piece(key: int) -> Piece:
    """Of a message that is not a segment. Nothing comes behind it, so its length says nothing."""
    return key, 0, True, False
