"""Messages in groups and segments, as scenarios put and get them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker import MQError
from broker.mqi import MQGMO, MQMF, MQMO, MQPMO, MQRC, GetMessageOptions, MessageDescriptor
from tests.conformance.expect import name_of

if TYPE_CHECKING:
    from broker import Message, Queue
    from broker.interface.message import PutResult

LO = MQGMO.LOGICAL_ORDER
FIRST = MQGMO.BROWSE_FIRST
NEXT = MQGMO.BROWSE_NEXT
SYNC = MQGMO.SYNCPOINT
COMPLETE = MQGMO.COMPLETE_MSG
ALL_MSGS = MQGMO.ALL_MSGS_AVAILABLE
ALL_SEGMENTS = MQGMO.ALL_SEGMENTS_AVAILABLE
MIG = MQMF.MSG_IN_GROUP
LMIG = MQMF.LAST_MSG_IN_GROUP
SEG = MQMF.SEGMENT
LSEG = MQMF.LAST_SEGMENT

NO_GROUP = bytes(24)
Y, Z = name_of("Y"), name_of("Z")

FIGURE_10: tuple[tuple[bytes, int, bytes, int, int], ...] = (
    (b"A", 0, NO_GROUP, 1, 0),
    (b"Y1", MIG, Y, 1, 0),
    (b"Z2", LMIG, Z, 2, 0),
    (b"Y2", MIG, Y, 2, 0),
    (b"Y3s1", LMIG | SEG, Y, 3, 0),
    (b"Y3s2", LMIG | LSEG, Y, 3, 4),
    (b"Z1", MIG, Z, 1, 0),
    (b"B", 0, NO_GROUP, 1, 0),
)
"""The queue of figure 10 of "Logical and physical ordering": data, flags, group, sequence number and offset."""

IN_LOGICAL_ORDER = [b"A", b"Y1", b"Y2", b"Y3s1", b"Y3s2", b"Z1", b"Z2", b"B"]
"""What figure 11 makes of it."""


async def place(
    queue: Queue,
    data: bytes,
    flags: int = 0,
    group_id: bytes = NO_GROUP,
    number: int = 1,
    offset: int = 0,
    options: int = 0,
    **fields: Any,
) -> PutResult:
    """Put a message at a place of our choice in its group, without LOGICAL_ORDER."""
    md = MessageDescriptor(msg_flags=flags, group_id=group_id, msg_seq_number=number, offset=offset, **fields)
    return await queue.put(data, md, options)


async def put_figure(queue: Queue) -> dict[bytes, bytes]:
    """Put the messages of figure 10; their MsgIds by their data."""
    return {message[0]: (await place(queue, *message)).md.msg_id for message in FIGURE_10}


async def add(queue: Queue, flags: int = 0, data: bytes = b".", options: int = MQPMO.SYNCPOINT) -> PutResult:
    """Put the next message with LOGICAL_ORDER, under syncpoint unless said otherwise."""
    return await queue.put(data, MessageDescriptor(msg_flags=flags), MQPMO.LOGICAL_ORDER | options)


async def take(
    queue: Queue,
    options: int = LO,
    match: int = MQMO.NONE,
    *,
    max_length: int | None = None,
    wait: float | None = None,
    **wanted: Any,
) -> Message:
    """Get a message, in logical order unless said otherwise; `wanted` are fields of the descriptor to match."""
    gmo = GetMessageOptions(options=options, match_options=match)
    return await queue.get(MessageDescriptor(**wanted), gmo, max_length=max_length, wait=wait)


async def take_all(queue: Queue, options: int = LO) -> list[Message]:
    """Get until nothing suitable is left; a browse goes on from where it is."""
    found = []
    while True:
        try:
            found.append(await take(queue, options))
        except MQError as error:
            assert error.reason == MQRC.NO_MSG_AVAILABLE
            return found


async def browse_all(queue: Queue, options: int = LO) -> list[bytes]:
    """Browse from the start until nothing is left."""
    first = await take(queue, options | FIRST)
    return [first.data, *(data_of(await take_all(queue, options | NEXT)))]


def data_of(messages: list[Message]) -> list[bytes]:
    return [message.data for message in messages]


def places(messages: list[Message]) -> list[tuple[int, int]]:
    """Sequence numbers and offsets."""
    return [(message.md.msg_seq_number, message.md.offset) for message in messages]


def group_statuses(messages: list[Message]) -> str:
    return "".join(message.group_status for message in messages)


def segment_statuses(messages: list[Message]) -> str:
    return "".join(message.segment_status for message in messages)


async def put_all(queue: Queue, *bodies: bytes) -> None:
    """Put plain messages."""
    for data in bodies:
        await queue.put(data)


async def put_segments(queue: Queue, group_id: bytes, *bodies: bytes, missing: int | None = None) -> None:
    """Put a logical message, but for one of its segments."""
    offset = 0
    for number, data in enumerate(bodies):
        if number != missing:
            await place(queue, data, LSEG if number == len(bodies) - 1 else SEG, group_id, 1, offset)
        offset += len(data)


async def put_group(queue: Queue, group_id: bytes, *bodies: bytes) -> None:
    """Put a group."""
    for number, data in enumerate(bodies, 1):
        await place(queue, data, LMIG if number == len(bodies) else MIG, group_id, number, 0)
