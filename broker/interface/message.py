"""What puts and gets return. The descriptor is decoded when it is first looked at."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.mqi.descriptor import MQGS, MQMF, MQSEG, MQSS
from broker.mqi.packing import unpack_kept
from broker.mqi.reasons import MQRC
from broker.mqi.structures import MessageDescriptor

if TYPE_CHECKING:
    from broker.interface.port import Delivery, Placed


def known_reason(number: int) -> MQRC | int:
    """The reason as an MQRC member, or as it is when a newer queue manager sent one that this version does not know."""
    try:
        return MQRC(number)
    except ValueError:
        return number


class Message:
    """A message got from a queue.

    `data` holds at most `max_length` bytes of it, `length` says how long it is; `token` identifies it on its queue.
    `reason` is MQRC.NONE or the warning with which the get did its work, such as TRUNCATED_MSG_ACCEPTED (2079).
    """

    __slots__ = ("_delivery", "_md")

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self._md: MessageDescriptor | None = None

    @property
    def data(self) -> bytes:
        return self._delivery.data

    @property
    def length(self) -> int:
        return self._delivery.length

    @property
    def token(self) -> bytes:
        return self._delivery.token

    @property
    def reason(self) -> MQRC | int:
        return known_reason(self._delivery.reason)

    @property
    def md(self) -> MessageDescriptor:
        if self._md is None:
            self._md = _descriptor(self._delivery)
        return self._md

    @property
    def group_status(self) -> MQGS:
        flags = self._delivery.msg_flags
        if flags & MQMF.LAST_MSG_IN_GROUP.value:
            return MQGS.LAST_MSG_IN_GROUP
        return MQGS.MSG_IN_GROUP if flags & MQMF.MSG_IN_GROUP.value else MQGS.NOT_IN_GROUP

    @property
    def segment_status(self) -> MQSS:
        flags = self._delivery.msg_flags
        if flags & MQMF.LAST_SEGMENT.value:
            return MQSS.LAST_SEGMENT
        return MQSS.SEGMENT if flags & MQMF.SEGMENT.value else MQSS.NOT_A_SEGMENT

    @property
    def segmentation(self) -> MQSEG:
        allowed = self._delivery.msg_flags & MQMF.SEGMENTATION_ALLOWED.value
        return MQSEG.ALLOWED if allowed else MQSEG.INHIBITED

    def __repr__(self) -> str:
        return f"<Message {self._delivery.msg_id.hex()} of {self.length} bytes>"


class PutResult:
    """What a put did: `md` is the caller's descriptor as the queue manager completed it, `reason` NONE or a warning."""

    __slots__ = ("_asked", "_md", "_placed")

    def __init__(self, asked: MessageDescriptor | None, placed: Placed) -> None:
        self._asked = asked
        self._placed = placed
        self._md: MessageDescriptor | None = None

    @property
    def reason(self) -> MQRC | int:
        return known_reason(self._placed.reason)

    @property
    def md(self) -> MessageDescriptor:
        if self._md is None:
            self._md = self._completed()
        return self._md

    def _completed(self) -> MessageDescriptor:
        placed = self._placed
        md = replace(
            self._asked or MessageDescriptor(),
            msg_id=placed.msg_id,
            correl_id=placed.correl_id,
            group_id=placed.group_id,
            msg_seq_number=placed.msg_seq_number,
            offset=placed.offset,
            original_length=placed.original_length,
            priority=placed.priority,
            persistence=placed.persistence,
        )
        unpack_kept(placed.kept, md)
        return md

    def __repr__(self) -> str:
        return f"<PutResult {self._placed.msg_id.hex()}>"


def _descriptor(delivery: Delivery) -> MessageDescriptor:
    md = MessageDescriptor(
        msg_id=delivery.msg_id,
        correl_id=delivery.correl_id,
        group_id=delivery.group_id,
        msg_seq_number=delivery.msg_seq_number,
        offset=delivery.offset,
        msg_flags=delivery.msg_flags,
        original_length=delivery.original_length,
        priority=delivery.priority,
        persistence=delivery.persistence,
        expiry=delivery.expiry,
        backout_count=delivery.backout_count,
    )
    unpack_kept(delivery.kept, md)
    return md
