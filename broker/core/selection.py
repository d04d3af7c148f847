"""Selection: which message a get is given. Written once, for queues in memory and for shared ones.

`choose` takes an *ordered* iterator of entries that are available and judges them; where they come from (which index
was walked, which rows were locked) is the business of the queue. The first survivor is the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.entry import Entry

START = -1  # a cursor before every message


class Request:
    """What a get looks for. A field that is None is not looked at."""

    __slots__ = (
        "accept_truncated",
        "after",
        "browse",
        "browse_first",
        "correl_id",
        "fail_if_quiescing",
        "group_id",
        "max_length",
        "msg_id",
        "msg_seq_number",
        "offset",
        "syncpoint",
        "token",
    )

    def __init__(self) -> None:
        self.msg_id: bytes | None = None
        self.correl_id: bytes | None = None
        self.group_id: bytes | None = None
        self.msg_seq_number: int | None = None
        self.offset: int | None = None
        self.token: bytes | None = None
        self.after = START  # only messages whose key is greater: BROWSE_NEXT
        self.browse = False
        self.browse_first = False
        self.syncpoint = NEVER
        self.max_length: int | None = None
        self.accept_truncated = False
        self.fail_if_quiescing = False

    @property
    def narrow(self) -> bool:
        """Whether it asks for more than MsgId and CorrelId."""
        return not (
            self.group_id is None and self.msg_seq_number is None and self.offset is None and self.token is None
        )

    def matches(self, entry: Entry) -> bool:
        """Whether `entry` is what the get looks for."""
        return (
            (self.msg_id is None or entry.msg_id == self.msg_id)
            and (self.correl_id is None or entry.correl_id == self.correl_id)
            and (self.group_id is None or entry.group_id == self.group_id)
            and (self.msg_seq_number is None or entry.msg_seq_number == self.msg_seq_number)
            and (self.offset is None or entry.offset == self.offset)
            and (self.token is None or entry.token == self.token)
            and entry.key > self.after
        )


NEVER, ALWAYS, IF_PERSISTENT = range(3)  # whether a get is under syncpoint


def choose(candidates: Iterable[Entry], request: Request, now: float, expired: list[Entry]) -> Entry | None:
    """The first candidate that `request` matches. Expired ones that would have been chosen are added to `expired`."""
    for entry in candidates:
        if request.matches(entry):
            if entry.deadline is None or entry.deadline > now:
                return entry
            expired.append(entry)
    return None
