"""Groups and segmented messages, drawn as they are: a bar with what is there, and gaps for what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import htpy as h

from broker.http.console.browsing.listed import IN_GROUP, SEGMENTED, listed
from broker.http.console.browsing.search import MessageSearch
from broker.http.console.elements import badge, identifier
from broker.mqi import MQGMO, MQMF, MQOO, MQRC, MQError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from htpy import Element

    from broker import Connection
    from broker.http.console.browsing.listed import ListedMessage

GROUPS_DRAWN: Final = 10
MEMBERS_READ: Final = 300
"""So many messages of a group are looked at."""

PIECES_DRAWN: Final = 60
_LAST_MESSAGE: Final = int(MQMF.LAST_MSG_IN_GROUP)
_LAST_SEGMENT: Final = int(MQMF.LAST_SEGMENT)


class GroupPiece(NamedTuple):
    """A piece of a bar: what it stands for in words, and whether it is there."""

    text: str
    there: bool


class DrawnGroup(NamedTuple):
    """A group of messages, or the segments of a message, as far as a browse finds it. `complete`: its last piece is
    there, and all before it. `bounded`: there may be more than were looked at.
    """

    group_id: bytes
    pieces: Sequence[GroupPiece]
    last_there: bool
    bounded: bool = False

    @property
    def complete(self) -> bool:
        return self.last_there and all(each.there for each in self.pieces)


async def drawn_groups(connection: Connection, q_name: str, rows: Iterable[ListedMessage]) -> list[DrawnGroup]:
    """Return the first groups that messages of a page belong to, each looked up as a whole by its GroupId."""
    ids = dict.fromkeys(each.group_id for each in rows if each.grouped)
    drawn: list[DrawnGroup] = []
    async with connection.open(q_name, MQOO.BROWSE | MQOO.FAIL_IF_QUIESCING) as queue:
        for group_id in list(ids)[:GROUPS_DRAWN]:
            search = MessageSearch(group_id=group_id)
            members: list[ListedMessage] = []
            step = MQGMO.BROWSE_FIRST
            try:
                while len(members) < MEMBERS_READ:
                    message = await queue.get(search.descriptor, search.options(step), max_length=0, delayed=True)
                    members.append(listed(message, len(members) + 1))
                    step = MQGMO.BROWSE_NEXT
            except MQError as error:
                if error.reason != MQRC.NO_MSG_AVAILABLE:
                    raise
            if members:
                drawn.append(group_of(group_id, members, bounded=len(members) == MEMBERS_READ))
    return drawn


def group_of(group_id: bytes, members: Iterable[ListedMessage], *, bounded: bool = False) -> DrawnGroup:
    """Return the group that these messages make, in the order of their places."""
    ordered = sorted(members, key=lambda each: (each.msg_seq_number, each.offset))
    if ordered[0].msg_flags & IN_GROUP:
        pieces, last = _messages(ordered)
    else:
        pieces, last = _segments(ordered, "")
    return DrawnGroup(group_id, pieces[:PIECES_DRAWN], last, bounded or len(pieces) > PIECES_DRAWN)


def _messages(members: Sequence[ListedMessage]) -> tuple[list[GroupPiece], bool]:
    pieces: list[GroupPiece] = []
    expected, last = 1, False
    numbers = dict.fromkeys(each.msg_seq_number for each in members)
    for number in numbers:
        if number > expected:
            pieces.append(GroupPiece(_missing("message", expected, number - 1), there=False))
        of_number = [each for each in members if each.msg_seq_number == number]
        if of_number[0].msg_flags & SEGMENTED:
            segments, whole = _segments(of_number, f"message {number}, ")
            pieces += segments
            if not whole:
                pieces.append(GroupPiece(f"message {number}: the rest", there=False))
        else:
            pieces.append(GroupPiece(f"message {number}", there=True))
        expected = number + 1
        last = last or any(each.msg_flags & _LAST_MESSAGE for each in of_number)
    return pieces, last


def _segments(members: Sequence[ListedMessage], of: str) -> tuple[list[GroupPiece], bool]:
    pieces: list[GroupPiece] = []
    expected, last = 0, False
    for each in members:
        if each.offset > expected:
            pieces.append(GroupPiece(f"{of}bytes {expected:,} to {each.offset - 1:,} are missing", there=False))
        pieces.append(GroupPiece(f"{of}bytes {each.offset:,} to {max(each.offset + each.length - 1, 0):,}", there=True))
        expected = each.offset + each.length
        last = last or bool(each.msg_flags & _LAST_SEGMENT)
    return pieces, last


def _missing(what: str, first: int, last: int) -> str:
    return f"{what} {first:,} is missing" if first == last else f"{what}s {first:,} to {last:,} are missing"


def bar(group: DrawnGroup) -> Element:
    """The bar of a group, with words for who does not see it."""
    lacking = [each.text for each in group.pieces if not each.there]
    if not group.last_there:
        lacking.append("the last is missing")
    words = "complete" if group.complete else "; ".join(lacking[:5])
    verdict = badge("complete", "good") if group.complete else badge("incomplete", "warn")
    return h.div[
        h.span[identifier(group.group_id), " ", verdict],
        h.div(".group", role="img", aria_label=words)[(_piece(each) for each in group.pieces), _open(group)],
        None if group.complete else h.span(".soft")[words, " (at least)" if group.bounded else ""],
    ]


def _piece(piece: GroupPiece) -> Element:
    return h.span(class_=None if piece.there else "gap", title=piece.text)


def _open(group: DrawnGroup) -> Iterator[Element]:
    if not group.last_there:
        yield h.span(".open", title="the last is missing")
