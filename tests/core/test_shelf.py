"""A shelf of a few messages alone: no queue, no handles, no getters. What a get may be given is chosen on it as on the
shelf that a local queue keeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from broker.core.calls.gets.granting import under_cursor
from broker.core.identifiers import Identifiers
from broker.core.message.entry import AVAILABLE, Entry, FullEntry
from broker.core.message.logical_order import LogicalPlace
from broker.core.queues.handles import Handle, Hconn
from broker.core.queues.shelf.selection import Request, choose
from broker.core.queues.shelf.shelf import Shelf
from broker.core.queues.shelf.views import GROUP_START, MESSAGE_START, WHOLE_GROUP, WHOLE_MESSAGE
from broker.core.selector import selector
from broker.mqi import MQMF, MQOO, MQRC
from tests.core.world import START_TIME, fails, name_of

if TYPE_CHECKING:
    from broker.core.queues.message_queue import MessageQueue

GROUP, OTHER = name_of("G"), name_of("H")
IN_GROUP = MQMF.MSG_IN_GROUP.value
LAST = IN_GROUP | MQMF.LAST_MSG_IN_GROUP.value
SEGMENT = MQMF.SEGMENT.value
LAST_SEGMENT = MQMF.LAST_SEGMENT.value


class Rows:
    """All that a message asks its queue: who makes its MsgId."""

    def __init__(self) -> None:
        self.ids = Identifiers("QM1", START_TIME, 0, 1208)


@pytest.fixture
def rows() -> Rows:
    return Rows()


def plain(rows: Rows, rank: int = 0, msg_id: str = "", correl_id: str = "", deadline: float | None = None) -> Entry:
    """A message in no group, as a row gives it."""
    entry = FullEntry(cast("MessageQueue", rows), rows.ids.next(), rank, b"", 0)
    entry.given_msg_id = name_of(msg_id) if msg_id else None
    if correl_id:
        entry.correl_id = name_of(correl_id)
    entry.priority = rank
    entry.deadline = deadline
    return entry


def member(rows: Rows, number: int, flags: int = IN_GROUP, offset: int = 0, group: bytes = GROUP) -> Entry:
    """A message of a group, or a segment of ten bytes."""
    entry = FullEntry(cast("MessageQueue", rows), rows.ids.next(), 0, b"." * 10, 10)
    entry.given_msg_id = name_of(f"{number}.{offset}")
    entry.group_id, entry.msg_seq_number, entry.offset, entry.msg_flags = group, number, offset, flags
    return entry


def shelf_of(rows: Rows, *entries: Entry) -> Shelf:
    """A page of rows: they come in any order."""
    shelf = Shelf(rows.ids, entries[::-1])
    shelf.check_invariants()
    return shelf


def chosen(shelf: Shelf, request: Request, expired: list[Entry] | None = None) -> Entry | None:
    request.anything = request.accepts_anything()
    return choose(shelf.candidates(request), request, shelf, START_TIME, [] if expired is None else expired)


def asking(**wanted: object) -> Request:
    request = Request()
    for name, value in wanted.items():
        setattr(request, name, value)
    return request


def test_the_first_in_delivery_order_is_chosen(rows: Rows) -> None:
    low, high, later = plain(rows), plain(rows, 5), plain(rows, 5)
    shelf = shelf_of(rows, low, high, later)
    assert chosen(shelf, asking()) is high
    assert shelf.heads(9) == [high, later, low]
    assert [entry.state for entry in (low, high, later)] == [AVAILABLE] * 3


@pytest.mark.parametrize("rank", [0, 4, 9])
def test_by_msg_id_whoever_made_it(rows: Rows, rank: int) -> None:
    made, given, others = plain(rows, rank), plain(rows, rank, "A"), [plain(rows, each) for each in range(10)]
    shelf = shelf_of(rows, *others, made, given)
    assert chosen(shelf, asking(msg_id=made.msg_id)) is made
    assert chosen(shelf, asking(msg_id=name_of("A"))) is given
    assert chosen(shelf, asking(msg_id=plain(rows).msg_id)) is None
    assert chosen(shelf, asking(msg_id=made.msg_id, after=made.key)) is None


def test_by_correl_id_and_selector(rows: Rows) -> None:
    first, second = plain(rows, 1, correl_id="A"), plain(rows, 5, correl_id="A")
    shelf = shelf_of(rows, first, plain(rows, 9), second)
    assert chosen(shelf, asking(correl_id=name_of("A"))) is second
    assert chosen(shelf, asking(correl_id=name_of("A"), selector=selector("Root.MQMD.Priority < 3"))) is first


def test_in_logical_order(rows: Rows) -> None:
    third, first, second = member(rows, 3, LAST), member(rows, 1), member(rows, 2)
    shelf = shelf_of(rows, third, first, second)
    assert chosen(shelf, asking(logical=True, start=GROUP_START)) is first
    assert chosen(shelf, asking(logical=True, item=LogicalPlace(GROUP, 2, 0))) is second
    assert chosen(shelf, asking(logical=True, item=LogicalPlace(GROUP, 3, 0))) is third
    assert chosen(shelf, asking(logical=True, item=LogicalPlace(GROUP, 4, 0))) is None


def test_a_whole_group(rows: Rows) -> None:
    broken, last = member(rows, 1, group=OTHER), member(rows, 2, LAST)
    shelf = shelf_of(rows, broken, last)
    wanted = asking(start=GROUP_START, whole=WHOLE_GROUP)
    assert chosen(shelf, wanted) is None
    first = member(rows, 1)
    assert chosen(shelf_of(rows, broken, last, first), wanted) is first


def test_a_whole_message_in_segments(rows: Rows) -> None:
    head, tail = member(rows, 1, SEGMENT), member(rows, 1, LAST_SEGMENT, 10)
    wanted = asking(start=MESSAGE_START, whole=WHOLE_MESSAGE)
    assert chosen(shelf_of(rows, tail), wanted) is None
    shelf = shelf_of(rows, tail, head)
    assert chosen(shelf, wanted) is head
    assert [shelf.entries[key] for key in shelf.groups.segments(head)] == [head, tail]


def test_expired_messages_are_passed_over_and_found(rows: Rows) -> None:
    expired, good = plain(rows, 5, deadline=START_TIME - 1), plain(rows, deadline=START_TIME + 1)
    shelf, passed = shelf_of(rows, good, expired), list[Entry]()
    assert chosen(shelf, asking(), passed) is good
    assert passed == [expired] == list(shelf.overdue(START_TIME))


def test_what_was_taken_is_chosen_no_more_and_with_it_goes_the_group(rows: Rows) -> None:
    first, last = member(rows, 1), member(rows, 2, LAST)
    shelf = shelf_of(rows, first, last)
    assert shelf.hide(last) == [first.key]
    assert chosen(shelf, asking(whole=WHOLE_GROUP)) is None
    shelf.show(last)
    assert chosen(shelf, asking(whole=WHOLE_GROUP)) is first
    shelf.check_invariants()


def test_under_the_cursor(rows: Rows) -> None:
    entry = plain(rows)
    handle = Handle(Hconn(), "QUEUE", "SHARED", MQOO.BROWSE.value, None)
    handle.position = handle.position._replace(cursor=entry.key)
    assert under_cursor(handle, shelf_of(rows, entry), "SHARED", asking(), START_TIME) is entry
    with fails(MQRC.NO_MSG_UNDER_CURSOR):
        under_cursor(handle, shelf_of(rows), "SHARED", asking(), START_TIME)
