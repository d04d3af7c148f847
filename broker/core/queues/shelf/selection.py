"""Selection: which message a get is given (semantics 7). Written once, for queues in memory and for shared ones.

`choose` takes an *ordered* iterator of entries that are available and judges them; where they come from (which index
was walked, which rows were locked) is the business of the shelf. The first survivor is the result.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from broker.core.queues.shelf.views import ANY, PART, START

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.core.message.entry import Entry
    from broker.core.message.logical_order import LogicalPlace
    from broker.core.queues.handles import Marker
    from broker.core.queues.shelf.shelf import Shelf
    from broker.core.queues.shelf.views import View
    from broker.core.selector import Selector

EXPIRED_AT_ONCE = 500
"""So many expired messages are discarded within one call; more of them in steps."""


class Request:
    """The message that a get asks for, and how it wants it. A field that is None is not looked at."""

    __slots__ = (
        "accept_truncated",
        "after",
        "anything",
        "browse",
        "browse_first",
        "complete_message",
        "correl_id",
        "delayed",
        "fail_if_quiescing",
        "group_id",
        "item",
        "lock",
        "logical",
        "marks",
        "max_length",
        "may_wait",
        "msg_id",
        "msg_seq_number",
        "offset",
        "properties",
        "selector",
        "start",
        "syncpoint",
        "token",
        "under_cursor",
        "unlock",
        "unmarked_by",
        "unmarks",
        "view",
        "whole",
        "with_mqmde",
    )

    def __init__(self) -> None:
        self.msg_id: bytes | None = None
        self.correl_id: bytes | None = None
        self.group_id: bytes | None = None
        self.msg_seq_number: int | None = None
        self.offset: int | None = None
        self.token: bytes | None = None
        self.item: LogicalPlace | None = None  # just the item that comes next in logical order
        self.start = ANY  # where in its group the message must be
        self.whole = PART  # what must be available with it, so that the arrival of one can make another the one to give
        self.selector: Selector | None = None  # only messages of which this is true
        self.anything = False  # what `accepts_anything` says, once all else is known
        self.view: View | None = None  # where to look for it; None: where the fields lead
        self.after = START  # only messages whose key is greater: BROWSE_NEXT
        self.browse = False
        self.browse_first = False
        self.logical = False
        self.complete_message = False
        self.lock = False
        self.with_mqmde = False  # the getter's descriptor is of version 1: group fields come as an MQMDE
        self.marks: Sequence[Marker] = ()  # mark the message browsed
        self.unmarks: Sequence[Marker] = ()
        self.unmarked_by: tuple[Marker, ...] | None = None  # only messages without any of these marks
        self.syncpoint = NEVER
        self.max_length: int | None = None
        self.accept_truncated = False
        self.properties = 0  # in which form they are wanted (`broker.core.message.headers.properties.HOWS`)
        self.fail_if_quiescing = False
        self.may_wait = False  # when no message is there
        self.under_cursor = False  # for the message under the browse cursor: it looks for none
        self.unlock = False  # for no message at all: it ends the lock of its handle
        self.delayed = False  # delayed messages are seen as if their instant had come

    @property
    def narrow(self) -> bool:
        """True if it asks for a message that cannot be found by MsgId or CorrelId alone."""
        return not (
            self.group_id is None
            and self.msg_seq_number is None
            and self.offset is None
            and self.token is None
            and self.item is None
            and (self.selector is None if self.msg_id is None and self.correl_id is None else self.whole == PART)
        )

    def asks_as(self, other: Request) -> bool:
        """True if the two may be given the same messages."""
        return _question(self) == _question(other)

    def accepts_anything(self) -> bool:
        """True if no field of a message matters, nor what is on the queue with it: then the first will do."""
        return (
            self.msg_id is None
            and self.correl_id is None
            and not self.narrow
            and not (self.start or self.whole)
            and self.unmarked_by is None
            and self.selector is None
            and self.after == START
        )

    def matches(self, entry: Entry) -> bool:
        """True if the fields of `entry` are those that the get looks for."""
        return (
            (self.msg_id is None or entry.msg_id == self.msg_id)
            and (self.correl_id is None or entry.correl_id == self.correl_id)
            and (self.group_id is None or entry.group_id == self.group_id)
            and (self.msg_seq_number is None or entry.msg_seq_number == self.msg_seq_number)
            and (self.offset is None or entry.offset == self.offset)
            and (self.token is None or entry.token == self.token)
            and (self.item is None or entry.item == self.item)
            and entry.key > self.after
        )

    def accepts(self, entry: Entry, shelf: Shelf) -> bool:
        """True if the get may be given this available message."""
        return self.anything or (self.suits(entry, shelf) and (self.selector is None or self.selector.matches(entry)))

    def suits(self, entry: Entry, shelf: Shelf) -> bool:
        """True if the get may be given it, the selector aside."""
        return (
            self.matches(entry)
            and (not (self.start or self.whole) or shelf.admits(entry, self.start, self.whole))
            and (self.unmarked_by is None or not entry.marks or unmarked(entry, self.unmarked_by))
        )


_question = attrgetter(
    "msg_id", "correl_id", "group_id", "msg_seq_number", "offset", "token", "item", "start", "whole", "selector",
    "unmarked_by", "after",
)  # fmt: skip


def unmarked(entry: Entry, markers: Iterable[Marker]) -> bool:
    """True if none of these has marked the message."""
    return not entry.marks or not any(marker.handle in entry.marks for marker in markers)


NEVER, ALWAYS, IF_PERSISTENT = range(3)  # whether a get is under syncpoint


def choose(
    candidates: Iterable[Entry], request: Request, shelf: Shelf, now: float, expired: list[Entry]
) -> Entry | None:
    """The first candidate that `request` accepts. Expired ones that would have been chosen are added to `expired`: with
    EXPIRED_AT_ONCE of them the look is over.
    """
    for entry in candidates:
        if request.accepts(entry, shelf):
            if entry.deadline is None or entry.deadline > now:
                return entry
            expired.append(entry)
            if len(expired) == EXPIRED_AT_ONCE:
                break
    return None
