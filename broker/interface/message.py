"""The results of puts and gets. The descriptor is decoded when it is first looked at."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.interface.answers import NO_LIST
from broker.interface.properties import mapping
from broker.mqi.checks import PADDING
from broker.mqi.constants.descriptor import MQGS, MQMF, MQSEG, MQSS
from broker.mqi.layouts.packing import unpack_md
from broker.mqi.layouts.rfh2 import FORMAT as RFH2_FORMAT
from broker.mqi.reasons import MQRC
from broker.mqi.structures import MessageDescriptor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.interface.answers import Distribution, GetAnswer, Opened, Placed
    from broker.mqi.layouts.folders import Value
    from broker.mqi.structures import ResponseRecord


_IN_GROUP, _LAST_IN_GROUP = MQMF.MSG_IN_GROUP.value, MQMF.LAST_MSG_IN_GROUP.value
_SEGMENT, _LAST_SEGMENT = MQMF.SEGMENT.value, MQMF.LAST_SEGMENT.value


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

    __slots__ = ("_delivery", "_md", "_opened", "_properties")

    def __init__(self, delivery: GetAnswer, opened: Opened | None = None) -> None:
        self._delivery = delivery
        self._opened = opened
        self._md: MessageDescriptor | None = None
        self._properties: Mapping[str, Value] | None = None

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
    def backout_count(self) -> int:
        """The number of units of work that had got it and were backed out (BackoutCount)."""
        return self._delivery.backout_count

    @property
    def deliver_at(self) -> float:
        """The instant (seconds since 1970) until which it is delayed, of a message got or browsed with `delayed=True`;
        else 0.
        """
        return self._delivery.deliver_at

    @property
    def resolved_q_name(self) -> str:
        """The local queue that it was got from, where the name opened is that of an alias."""
        return "" if self._opened is None else self._opened.resolved_q_name

    @property
    def resolved_q_mgr_name(self) -> str:
        """The queue manager of that queue."""
        return "" if self._opened is None else self._opened.resolved_q_mgr_name

    @property
    def properties(self) -> Mapping[str, Value]:
        """The message properties by name; those of the folder `usr` without its name, others as `folder.name`.

        Empty where the get asked for them as an MQRFH2 before the data, which `broker.mqi.layouts.rfh2` takes apart.
        """
        if self._properties is None:
            self._properties = mapping(self._delivery.properties)
        return self._properties

    @property
    def group_status(self) -> MQGS:
        flags = self._delivery.msg_flags
        if flags & _LAST_IN_GROUP:
            return MQGS.LAST_MSG_IN_GROUP
        return MQGS.MSG_IN_GROUP if flags & _IN_GROUP else MQGS.NOT_IN_GROUP

    @property
    def segment_status(self) -> MQSS:
        flags = self._delivery.msg_flags
        if flags & _LAST_SEGMENT:
            return MQSS.LAST_SEGMENT
        return MQSS.SEGMENT if flags & _SEGMENT else MQSS.NOT_A_SEGMENT

    @property
    def segmentation(self) -> MQSEG:
        allowed = self._delivery.msg_flags & MQMF.SEGMENTATION_ALLOWED.value
        return MQSEG.ALLOWED if allowed else MQSEG.INHIBITED

    def __repr__(self) -> str:
        return f"<Message {self._delivery.msg_id.hex()} of {self.length} bytes>"


class PutResult:
    """The result of a put: `md` is the caller's descriptor as the queue manager completed it, `reason` NONE or a
    warning.

    After a put to a distribution list `md` keeps the caller's identifiers, priority and persistence; `records` has what
    each destination made of them. Of an asynchronous put nothing is known yet: `md` is a copy of the caller's.
    """

    __slots__ = ("_asked", "_md", "_opened", "_placed")

    def __init__(self, asked: MessageDescriptor | None, placed: Placed | None, opened: Opened | None = None) -> None:
        self._asked = asked
        self._placed = placed
        self._opened = opened
        self._md: MessageDescriptor | None = None

    @property
    def reason(self) -> MQRC | int:
        return MQRC.NONE if self._placed is None else known_reason(self._placed.reason)

    @property
    def msg_id(self) -> bytes:
        """The MsgId of the message, as `md` has it: for who needs no more of it."""
        return self.md.msg_id if self._placed is None else self._placed.msg_id

    @property
    def deliver_at(self) -> float:
        """The instant (seconds since 1970) from which on the message is available, after a put with a delivery instant
        that was to come; else 0.
        """
        return 0.0 if self._placed is None else self._placed.deliver_at

    @property
    def duplicate(self) -> bool:
        """True if the message was put before with the same key: nothing was put now, and `md.msg_id` is that of the
        first.
        """
        return self._placed is not None and self._placed.duplicate

    @property
    def same_data(self) -> bool:
        """False for a duplicate whose first put had other data."""
        return self._placed is None or self._placed.same_data

    @property
    def resolved_q_name(self) -> str:
        """The queue that the message is for, where the name opened has led to: a local queue, or one of another queue
        manager. Blank after a put to a distribution list, and after an asynchronous MQPUT1.
        """
        resolved = self._opened or self._placed
        return "" if resolved is None else resolved.resolved_q_name

    @property
    def resolved_q_mgr_name(self) -> str:
        """The queue manager of that queue."""
        resolved = self._opened or self._placed
        return "" if resolved is None else resolved.resolved_q_mgr_name

    @property
    def records(self) -> tuple[ResponseRecord, ...]:
        """The outcome of a put by destination of a distribution list, with the identifiers of each message; else
        empty.
        """
        return self._distribution.records

    @property
    def known_dest_count(self) -> int:
        """The number of destinations of the list that are queues of this queue manager and have the message."""
        return self._distribution.known_dest_count

    @property
    def unknown_dest_count(self) -> int:
        """The number of queues of other queue managers for which it was put."""
        return self._distribution.unknown_dest_count

    @property
    def invalid_dest_count(self) -> int:
        """The number of destinations of the list where it could not be put."""
        return self._distribution.invalid_dest_count

    @property
    def _distribution(self) -> Distribution:
        return NO_LIST if self._placed is None else self._placed.distribution

    @property
    def md(self) -> MessageDescriptor:
        if self._md is None:
            self._md = self._completed()
        return self._md

    def _completed(self) -> MessageDescriptor:
        placed, asked = self._placed, self._asked or MessageDescriptor()
        if placed is None:
            return replace(asked)
        md = replace(
            asked,
            msg_id=placed.msg_id,
            correl_id=placed.correl_id,
            group_id=placed.group_id,
            msg_seq_number=placed.msg_seq_number,
            offset=placed.offset,
            original_length=placed.original_length,
            priority=placed.priority,
            persistence=placed.persistence,
        )
        unpack_md(placed.packed_md, md)
        if asked.format.rstrip(PADDING) == RFH2_FORMAT:  # of the data as it was put, not as the queue keeps it
            md.format, md.encoding = RFH2_FORMAT, asked.encoding
            md.coded_char_set_id = asked.coded_char_set_id or md.coded_char_set_id
        return md

    def __repr__(self) -> str:
        return "<PutResult to come>" if self._placed is None else f"<PutResult {self._placed.msg_id.hex()}>"


def _descriptor(delivery: GetAnswer) -> MessageDescriptor:
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
    unpack_md(delivery.packed_md, md)
    return md
