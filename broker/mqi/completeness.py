"""Which logical messages and groups are complete, and what the others lack (semantics 5.7, 6.1).

A logical message is complete when a walk from offset 0, from the end of each segment to the next, comes to its last
segment; a group when a walk from its message 1 over complete messages comes to its last. The shelf of a queue goes by
these walks, `explain` tells the gaps, and the pipelines of Spark do both over an archive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from broker.mqi.constants.descriptor import MQMF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_SEGMENTS: Final = (MQMF.SEGMENT | MQMF.LAST_SEGMENT).value
_LAST_SEGMENT: Final = MQMF.LAST_SEGMENT.value
_LAST_MSG_IN_GROUP: Final = MQMF.LAST_MSG_IN_GROUP.value
_TOLD_MAX: Final = 10

Gap: TypeAlias = tuple[int, int | None]
"""The first and the last number missing; None: all that follow."""


class Part(Protocol):
    """A physical message in a group or of segments; `span` is how many bytes a segment reaches."""

    @property
    def msg_seq_number(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def span(self) -> int: ...
    @property
    def msg_flags(self) -> int: ...


class Lack(NamedTuple):
    """The parts missing of a group or a logical message: sequence numbers, and bytes of those messages that are there
    in part, by number. `last` is the sequence number of the last message, None when that is not known.
    """

    last: int | None
    messages: list[Gap]
    segments: dict[int, list[Gap]]


def walk_segments(piece_at: Callable[[int], tuple[int, bool] | None], offset: int) -> tuple[list[int], bool]:
    """The offsets of the pieces end to end from `offset`, and whether they come to the last. `piece_at` gives the
    length of the piece that is used at an offset, and whether it is the last of its logical message.
    """
    offsets = []
    while (piece := piece_at(offset)) is not None:
        length, last = piece
        if not length and not last:
            break
        offsets.append(offset)
        if last:
            return offsets, True
        offset += length
    return offsets, False


def walk_messages(complete: Callable[[int], bool], last: Callable[[int], object], number: int = 1) -> tuple[int, bool]:
    """The number up to which the messages from `number` on are complete, at most that of the last of their group, and
    whether they come to that: `complete` and `last` tell it of a message.
    """
    while complete(number):
        if last(number):
            return number, True
        number += 1
    return number - 1, False


def lack(parts: Iterable[Part], others: Iterable[Part] = (), *, grouped: bool) -> Lack:
    """What is missing among parts of one group id. The `others`, which nobody gets now, tell only which message is the
    last.
    """
    by_number: dict[int, list[Part]] = {}
    for part in parts:
        by_number.setdefault(part.msg_seq_number, []).append(part)
    there = [part for same in by_number.values() for part in same]
    lasts = (part.msg_seq_number for part in (*there, *others) if part.msg_flags & _LAST_MSG_IN_GROUP)
    last = max(lasts, default=None) if grouped else 1
    segments = {number: gaps for number, same in sorted(by_number.items()) if (gaps := _segment_gaps(same))}
    return Lack(last, _number_gaps(sorted(by_number), last), segments)


def in_words(gaps: Sequence[Gap]) -> str:
    """Gaps for people: "2, 5 to 7, 9 and after"; many are cut short."""
    words = [_words(first, last) for first, last in gaps[:_TOLD_MAX]]
    return ", ".join([*words, "and others"] if len(gaps) > _TOLD_MAX else words)


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
    for part in sorted(parts, key=_offset):
        if not part.msg_flags & _SEGMENTS:
            return []
        if part.offset > expected:
            gaps.append((expected, part.offset - 1))
        expected = max(expected, part.offset + part.span)
        ended = ended or bool(part.msg_flags & _LAST_SEGMENT)
    return gaps if ended else [*gaps, (expected, None)]


def _offset(part: Part) -> int:
    return part.offset


def _words(first: int, last: int | None) -> str:
    if last is None:
        return f"{first} and after"
    return str(first) if first == last else f"{first} to {last}"
