"""The gaps of a group: the messages, and the bytes of segmented ones, that a getter would not find.

For `explain`, and only there: it looks at all messages of a group anew. Gets go by `Groups`, which is kept up to date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from broker.core.message.logical_order import LAST_MSG_IN_GROUP, LAST_SEGMENT, SEGMENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.core.message.entry import Entry

Gap: TypeAlias = tuple[int, int | None]
"""The first and the last number missing; None: all that follow."""


class Segments(NamedTuple):
    """A logical message that lacks segments: its sequence number, and the bytes that are missing."""

    msg_seq_number: int
    gaps: list[Gap]


class Lack(NamedTuple):
    """The missing parts of a group: sequence numbers, and segments of those messages that are there in part."""

    last: int | None  # sequence number of the last message, if it is known
    numbers: list[Gap]
    segments: list[Segments]
    first: bool  # the item with which a get in logical order begins

    def __bool__(self) -> bool:
        return bool(self.numbers or self.segments)


def lack(available: Iterable[Entry], others: Iterable[Entry], *, grouped: bool) -> Lack:
    """Return the missing parts among the `available` entries of one group id. The `others`, which nobody gets now, tell
    only which message is the last.
    """
    by_number: dict[int, list[Entry]] = {}
    lasts = []
    for entry in available:
        by_number.setdefault(entry.msg_seq_number, []).append(entry)
        if entry.msg_flags & LAST_MSG_IN_GROUP:
            lasts.append(entry.msg_seq_number)
    lasts += (entry.msg_seq_number for entry in others if entry.msg_flags & LAST_MSG_IN_GROUP)
    last = (max(lasts) if lasts else None) if grouped else 1
    segments = [
        Segments(number, gaps) for number, entries in sorted(by_number.items()) if (gaps := _segment_gaps(entries))
    ]
    first = not any(entry.offset == 0 for entry in by_number.get(1, ()))
    return Lack(last, _number_gaps(sorted(by_number), last), segments, first)


def _number_gaps(numbers: Sequence[int], last: int | None) -> list[Gap]:
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


def _segment_gaps(entries: Iterable[Entry]) -> list[Gap]:
    gaps: list[Gap] = []
    expected, ended = 0, False
    for entry in sorted(entries, key=_offset):
        if not entry.msg_flags & SEGMENTS:
            return []
        if entry.offset > expected:
            gaps.append((expected, entry.offset - 1))
        expected = max(expected, entry.offset + entry.span)
        ended = ended or bool(entry.msg_flags & LAST_SEGMENT)
    return gaps if ended else [*gaps, (expected, None)]


def _offset(entry: Entry) -> int:
    return entry.offset


def in_words(gaps: Sequence[Gap]) -> str:
    """Gaps for people: "2, 5 to 7, 9 and after"; many are cut short."""
    parts = [_part(first, last) for first, last in gaps[:_TOLD_MAX]]
    if len(gaps) > _TOLD_MAX:
        parts.append("and others")
    return ", ".join(parts)


_TOLD_MAX = 10


def _part(first: int, last: int | None) -> str:
    if last is None:
        return f"{first} and after"
    return str(first) if first == last else f"{first} to {last}"
