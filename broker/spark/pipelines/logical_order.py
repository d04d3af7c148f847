"""Find the logical messages in the physical ones of a group id, and what is missing (semantics 5.7, 6.1).

It is what gets with LOGICAL_ORDER, ALL_MSGS_AVAILABLE and COMPLETE_MSG would be given of these messages one after the
other, until nothing is left that they may be given. A logical message is complete when a walk from offset 0, from the
end of each segment to the next, comes to its last segment; a group when a walk from its message 1 over complete
messages comes to its last. Of several messages in one place the first in queue order is used; the others stay, and may
be a group of their own. Of segments that differ in character set or encoding COMPLETE_MSG gives the leading ones that
agree; the others are got without it, one by one.

The same message twice is a duplicate: of two with one MsgId, place and data only the first in queue order counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from broker.mqi import MQMF

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SEGMENT: Final = MQMF.SEGMENT.value
LAST_SEGMENT: Final = MQMF.LAST_SEGMENT.value
MSG_IN_GROUP: Final = MQMF.MSG_IN_GROUP.value
LAST_MSG_IN_GROUP: Final = MQMF.LAST_MSG_IN_GROUP.value
SEGMENTS: Final = SEGMENT | LAST_SEGMENT
GROUPED: Final = MSG_IN_GROUP | LAST_MSG_IN_GROUP
IN_PARTS: Final = GROUPED | SEGMENTS


class Part(NamedTuple):
    """A physical message in a group or of segments. `place` orders parts as their queue does, `span` says how many
    bytes a segment reaches, `text` is its character set and encoding, `identity` its MsgId and a hash of its data.
    """

    place: tuple[int, int]
    msg_seq_number: int
    offset: int
    flags: int
    span: int
    text: tuple[int, int]
    identity: tuple[bytes, int]


class Given(NamedTuple):
    """The answer of one get: the parts of a logical message in the order of their data, and the instance of the group.
    An identifier that was used for two groups has two instances.
    """

    instance: int
    parts: list[Part]


class Outcome(NamedTuple):
    """The outcome for the parts of a group id: `left` were given to no get."""

    given: list[Given]
    left: list[Part]
    duplicates: list[Part]


def in_logical_order(parts: Iterable[Part]) -> Outcome:
    """Return what gets in logical order are given of all parts with one group id."""
    once: dict[tuple[int, int, tuple[bytes, int]], Part] = {}
    duplicates = []
    for part in sorted(parts):
        key = (part.msg_seq_number, part.offset, part.identity)
        if key in once:
            duplicates.append(part)
        else:
            once[key] = part
    shelf = _Shelf(once.values())
    given: list[Given] = []
    instance = 0
    while (first := shelf.start()) is not None:
        given += (Given(instance, run) for run in shelf.take_from(first))
        instance += 1
    return Outcome(given, sorted(shelf.left()), duplicates)


class _Shelf:
    """The parts that were not given yet."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._at: dict[tuple[int, int], list[Part]] = {}  # by number and offset, in queue order
        self._lasts: dict[int, int] = {}  # sequence number to how many of its parts carry LAST_MSG_IN_GROUP
        for part in sorted(parts):
            self._at.setdefault((part.msg_seq_number, part.offset), []).append(part)
            if part.flags & LAST_MSG_IN_GROUP:
                self._lasts[part.msg_seq_number] = self._lasts.get(part.msg_seq_number, 0) + 1

    def left(self) -> list[Part]:
        return [part for same in self._at.values() for part in same]

    def start(self) -> Part | None:
        """The part with which the next group, or message in no group, begins."""
        for part in self._at.get((1, 0), ()):
            if part.flags & GROUPED and not self._group_complete():
                continue
            if not part.flags & SEGMENTS or (part is self._first(1, 0) and self._walk(1)):
                return part
        return None

    def take_from(self, part: Part | None) -> list[list[Part]]:
        """Return what gets are given from this part on to the end of its group, each taken off the shelf."""
        given = []
        while part is not None:
            run = [part]
            if part.flags & SEGMENTS == SEGMENT and not part.offset:
                run = _of_one_text([part, *self._walk(part.msg_seq_number, part.span)])
            for each in run:
                self._remove(each)
            given.append(run)
            part = self._next(part, run[-1])
        return given

    def _next(self, first: Part, last: Part) -> Part | None:
        """Return the part that a handle gets after these, which were one message; None behind the end."""
        if last.flags & SEGMENTS == SEGMENT:
            return self._first(last.msg_seq_number, last.offset + last.span)
        if not first.flags & GROUPED or first.flags & LAST_MSG_IN_GROUP:
            return None
        number = first.msg_seq_number + 1
        return self._first(number, 0) if self._walk(number) else None

    def _first(self, number: int, offset: int) -> Part | None:
        same = self._at.get((number, offset))
        return same[0] if same else None

    def _walk(self, number: int, offset: int = 0) -> list[Part]:
        """The parts end to end from `offset` to the last; empty where one is missing."""
        run = []
        while (part := self._first(number, offset)) is not None:
            last = part.flags & SEGMENTS != SEGMENT
            if not last and not part.span:
                break
            run.append(part)
            if last:
                return run
            offset += part.span
        return []

    def _group_complete(self) -> bool:
        number = 1
        while self._walk(number):
            if self._lasts.get(number):
                return True
            number += 1
        return False

    def _remove(self, part: Part) -> None:
        place = (part.msg_seq_number, part.offset)
        self._at[place].remove(part)
        if not self._at[place]:
            del self._at[place]
        if part.flags & LAST_MSG_IN_GROUP:
            self._lasts[part.msg_seq_number] -= 1


def _of_one_text(run: list[Part]) -> list[Part]:
    """The leading parts that agree in character set and encoding."""
    for number, part in enumerate(run):
        if part.text != run[0].text:
            return run[:number]
    return run


Gap: TypeAlias = tuple[int, int | None]
"""The first and the last number missing; None: all that follow."""


class SegmentGap(NamedTuple):
    """The bytes that are missing of a logical message, the first and the last; None: all that follow."""

    msg_seq_number: int
    first: int
    last: int | None


class Lack(NamedTuple):
    """The missing parts of a group, or a logical message: sequence numbers, and bytes of those messages that are there
    in part. `last` is the sequence number of the last message, if it is known.
    """

    last: int | None
    messages: list[Gap]
    segments: list[SegmentGap]

    def __str__(self) -> str:
        found = [f"messages {_in_words(self.messages)}"] if self.messages else []
        for number in dict.fromkeys(gap.msg_seq_number for gap in self.segments):
            gaps = [(gap.first, gap.last) for gap in self.segments if gap.msg_seq_number == number]
            found.append(f"the bytes {_in_words(gaps)} of message {number}")
        return f"lacks {'; '.join(found)}" if found else "parts overlap, or are in one place"


def lack(parts: Sequence[Part]) -> Lack:
    """Return what is missing among parts that were left, as `explain` tells it of a queue that has just these."""
    by_number: dict[int, list[Part]] = {}
    for part in sorted(parts, key=_by_offset):
        by_number.setdefault(part.msg_seq_number, []).append(part)
    grouped = any(part.flags & GROUPED for part in parts)
    last = max((part.msg_seq_number for part in parts if part.flags & LAST_MSG_IN_GROUP), default=None)
    segments = [SegmentGap(number, *gap) for number, same in by_number.items() for gap in _segment_gaps(same)]
    last = last if grouped else 1
    return Lack(last, _number_gaps(list(by_number), last), segments)


def _by_offset(part: Part) -> tuple[int, int]:
    return part.msg_seq_number, part.offset


def _number_gaps(numbers: Iterable[int], last: int | None) -> list[Gap]:
    gaps: list[Gap] = []
    expected = 1
    for number in numbers:
        if number > expected:
            gaps.append((expected, number - 1))
        expected = number + 1
    if last is None:
        gaps.append((expected, None))
    elif expected <= last:
        gaps.append((expected, last))
    return gaps


def _segment_gaps(parts: Iterable[Part]) -> list[Gap]:
    gaps: list[Gap] = []
    expected, ended = 0, False
    for part in parts:
        if not part.flags & SEGMENTS:
            return []
        if part.offset > expected:
            gaps.append((expected, part.offset - 1))
        expected = max(expected, part.offset + part.span)
        ended = ended or bool(part.flags & LAST_SEGMENT)
    return gaps if ended else [*gaps, (expected, None)]


_TOLD_MAX: Final = 10


def _in_words(gaps: Sequence[Gap]) -> str:
    """Gaps for people: "2, 5 to 7, 9 and after"; many are cut short."""
    words = [_words(first, last) for first, last in gaps[:_TOLD_MAX]]
    return ", ".join([*words, "and others"] if len(gaps) > _TOLD_MAX else words)


def _words(first: int, last: int | None) -> str:
    if last is None:
        return f"{first} and after"
    return str(first) if first == last else f"{first} to {last}"
