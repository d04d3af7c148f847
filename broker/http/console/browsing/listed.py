"""A message as a row of a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.dead_letters import stamped
from broker.mqi import MQMF

if TYPE_CHECKING:
    from broker import Message

HEAD_BYTES: Final = 400
"""So much of the data is read for the first line."""

FIRST_LINE: Final = 120
IN_GROUP: Final = MQMF.MSG_IN_GROUP | MQMF.LAST_MSG_IN_GROUP
SEGMENTED: Final = MQMF.SEGMENT | MQMF.LAST_SEGMENT


class ListedMessage(NamedTuple):
    """A message of a queue, as a browse has found it. Instants are in seconds since 1970, 0 where there is none."""

    position: int
    msg_id: bytes
    correl_id: bytes
    group_id: bytes
    msg_seq_number: int
    offset: int
    msg_flags: int
    priority: int
    persistence: int
    backout_count: int
    put_at: float
    deliver_at: float
    length: int
    first_line: str
    put_by: str

    @property
    def grouped(self) -> bool:
        """True if it is one of a group, or a segment of a message."""
        return bool(self.msg_flags & (IN_GROUP | SEGMENTED))


def listed(message: Message, position: int) -> ListedMessage:
    """Return the row of a message that was browsed with a buffer of HEAD_BYTES."""
    md = message.md
    return ListedMessage(
        position, md.msg_id, md.correl_id, md.group_id, md.msg_seq_number, md.offset, int(md.msg_flags), md.priority,
        int(md.persistence), message.backout_count, stamped(md.put_date, md.put_time), message.deliver_at,
        message.length, first_line(message.data), md.put_appl_name,
    )  # fmt: skip


def first_line(data: bytes) -> str:
    """Return the beginning of data in one line: text as it is, other data in hexadecimal digits."""
    head = data[:HEAD_BYTES]
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3 or error.reason != "unexpected end of data":
            return head[:32].hex(" ")
        text = head[: error.start].decode()
    line = " ".join(text.split())
    if line and sum(each.isprintable() for each in line) < len(line) * 0.9:
        return head[:32].hex(" ")
    return line[:FIRST_LINE]
