"""Dead letters that go together: those of a message group, or of the segments of a message."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from broker.mqi import MQMF

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from broker.dead_letters.letter import DeadLetter

_LAST_MESSAGE = MQMF.LAST_MSG_IN_GROUP.value
_LAST_SEGMENT = MQMF.LAST_SEGMENT.value
_SEGMENT = (MQMF.SEGMENT | MQMF.LAST_SEGMENT).value
_NAMED_MAX = 10  # messages of a group that are missing in a row
_IN_GROUP = (MQMF.MSG_IN_GROUP | MQMF.LAST_MSG_IN_GROUP).value


class Member(NamedTuple):
    """The fields of a letter that are remembered while the others are looked at."""

    token: bytes
    msg_id: bytes
    group_id: bytes
    msg_seq_number: int
    offset: int
    length: int
    msg_flags: int
    q_name: str
    q_mgr_name: str
    replays: int

    @property
    def place(self) -> tuple[int, int]:
        """Its place in its group."""
        return self.msg_seq_number, self.offset


def member(letter: DeadLetter) -> Member:
    """Return the fields of a letter that are to be remembered."""
    md = letter.md
    return Member(
        letter.token,
        md.msg_id,
        md.group_id,
        md.msg_seq_number,
        md.offset,
        letter.length,
        int(md.msg_flags),
        letter.q_name,
        letter.q_mgr_name,
        letter.replays,
    )


def group_of(letter: Member) -> tuple[str, str, bytes] | None:
    """Return an identity that it shares with the letters of its group that came from the same queue, if it has a
    group.
    """
    if not letter.msg_flags & (_IN_GROUP | _SEGMENT):
        return None
    return letter.q_mgr_name, letter.q_name, letter.group_id


def missing(letters: Sequence[Member]) -> list[str]:
    """Return in words what these letters, in the order of their places, lack of the whole group or message."""
    found: list[str] = []
    grouped = bool(letters[0].msg_flags & _IN_GROUP)
    expected, last = 1, False
    for number, segments in groupby(letters, key=lambda each: each.msg_seq_number):
        if grouped:
            found += [f"message {each}" for each in range(expected, min(number, expected + _NAMED_MAX))]
        held = list(segments)
        found += _missing_of_message(held, f" of message {number}" if grouped else "")
        expected, last = number + 1, any(each.msg_flags & _LAST_MESSAGE for each in held)
    if grouped and not last:
        found.append(f"what follows message {expected - 1}")
    return found


def _missing_of_message(segments: Iterable[Member], of: str) -> Iterator[str]:
    """The segments that one logical message lacks."""
    offset, last = 0, False
    for each in segments:
        if not each.msg_flags & _SEGMENT:
            return
        if each.offset > offset:
            yield f"bytes {offset} to {each.offset - 1}{of}"
        offset, last = each.offset + each.length, bool(each.msg_flags & _LAST_SEGMENT)
    if not last:
        yield f"what follows byte {offset - 1}{of}"
