"""MQPUT: from a caller's descriptor to a completed entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgpack

from broker.core.entry import MAX_PRIORITY, Entry
from broker.core.options import check_put
from broker.mqi.descriptor import MQMT, MQRO
from broker.mqi.errors import MQError
from broker.mqi.options import MQPMO
from broker.mqi.reasons import MQRC
from broker.mqi.structures import NO_ACCOUNTING_TOKEN, NO_ID, MessageDescriptor

if TYPE_CHECKING:
    from broker.core.handles import Hconn
    from broker.core.identifiers import Identifiers
    from broker.core.queue import LocalQueue

_NEW_MSG_ID = MQPMO.NEW_MSG_ID.value
_NEW_CORREL_ID = MQPMO.NEW_CORREL_ID.value
_NO_CONTEXT = MQPMO.NO_CONTEXT.value
_MSG_TYPES = frozenset({MQMT.REQUEST.value, MQMT.REPLY.value, MQMT.REPORT.value, MQMT.DATAGRAM.value, 112, 113})
_REQUEST = MQMT.REQUEST.value
_APPL_LAST = 999_999_999
_APPL_FIRST = 65_536
_REPORTS = (
    MQRO.EXCEPTION | MQRO.EXPIRATION | MQRO.COA | MQRO.COD | MQRO.PAN | MQRO.NAN | MQRO.ACTIVITY
).value  # fmt: skip
_PRIORITY_EXCEEDS_MAXIMUM = int(MQRC.PRIORITY_EXCEEDS_MAXIMUM)
_NATIVE_DEFAULTS = MessageDescriptor()


def check_descriptor(md: MessageDescriptor) -> None:
    """Raise what is wrong with a descriptor given to MQPUT (messages.md 1.1, 1.3)."""
    if md.version not in (1, 2):
        raise MQError(MQRC.MD_ERROR, f"version={md.version}: 1 or 2")
    if md.msg_type not in _MSG_TYPES and not _APPL_FIRST <= md.msg_type <= _APPL_LAST:
        raise MQError(MQRC.MSG_TYPE_ERROR, f"msg_type={md.msg_type}: not a type that MQMT defines")
    if md.expiry < 1 and md.expiry != -1:
        raise MQError(MQRC.EXPIRY_ERROR, f"expiry={md.expiry}: tenths of a second above 0, or -1 for never")
    if not 0 <= md.feedback <= _APPL_LAST:
        raise MQError(MQRC.FEEDBACK_ERROR, f"feedback={md.feedback}: 0 to 999999999")
    if md.priority < -1:
        raise MQError(MQRC.PRIORITY_ERROR, f"priority={md.priority}: 0 to 9, or -1 for the queue's default")
    if md.persistence not in (0, 1, 2):
        raise MQError(MQRC.PERSISTENCE_ERROR, f"persistence={md.persistence}: 0, 1, or 2 for the queue's default")
    if (md.msg_type == _REQUEST or md.report & _REPORTS) and not md.reply_to_q:
        raise MQError(MQRC.MISSING_REPLY_TO_Q, "a request, or a message that asks for a report, needs reply_to_q")
    for name, value in (("msg_id", md.msg_id), ("correl_id", md.correl_id), ("group_id", md.group_id)):
        if len(value) != len(NO_ID):
            raise MQError(MQRC.MD_ERROR, f"{name} has {len(value)} bytes: an identifier has 24")
    if md.msg_flags:
        raise MQError(MQRC.MSG_FLAGS_ERROR, f"msg_flags={md.msg_flags:#x}: this version has no groups or segments yet")


def complete(
    queue: LocalQueue,
    hconn: Hconn,
    ids: Identifiers,
    md: MessageDescriptor,
    options: int,
    data: bytes,
    now: float,
) -> tuple[Entry, int]:
    """The entry for a message, not yet on its queue, and the reason of a warning (PRIORITY_EXCEEDS_MAXIMUM, 2049)."""
    priority = md.priority if md.priority >= 0 else queue.default_priority
    rank = queue.default_priority if queue.fifo else min(priority, MAX_PRIORITY)
    entry = Entry(queue, ids.next(), rank, data, len(data))
    entry.priority = priority
    entry.persistence = md.persistence if md.persistence != 2 else queue.default_persistence
    entry.msg_id = ids.identifier(entry.id) if options & _NEW_MSG_ID or md.msg_id == NO_ID else md.msg_id
    entry.correl_id = ids.identifier() if options & _NEW_CORREL_ID else md.correl_id
    if md.expiry > 0:
        entry.deadline = now + md.expiry / 10
    entry.kept = _kept(hconn, ids, md, options, now)
    return entry, 0 if priority <= MAX_PRIORITY else _PRIORITY_EXCEEDS_MAXIMUM


def _kept(hconn: Hconn, ids: Identifiers, md: MessageDescriptor, options: int, now: float) -> bytes:
    """The fields that the queue only keeps (`broker.mqi.packing.KEPT_FIELDS`), with default or no context."""
    if options & _NO_CONTEXT:
        user, appl_type, appl_name, date, time = "", 0, "", "", ""
    else:
        user, appl_type, appl_name = hconn.user, hconn.appl_type, hconn.appl_name
        date, time = ids.stamp(now)
    packed: bytes = msgpack.packb(
        (
            md.report, md.msg_type, md.feedback, md.encoding, md.coded_char_set_id or ids.coded_char_set_id, md.format,
            md.reply_to_q, md.reply_to_q_mgr or (ids.q_mgr_name if md.reply_to_q else ""), user, NO_ACCOUNTING_TOKEN,
            "", appl_type, appl_name, date, time, "",
        )
    )  # fmt: skip
    return packed


def check_put_call(queue: LocalQueue, md: MessageDescriptor, options: int, length: int, max_length: int) -> None:
    """Raise what keeps this message off this queue, in the order of messages.md 0.3."""
    check_put(options)
    if md is not _NATIVE_DEFAULTS:
        check_descriptor(md)
    if queue.put_inhibited:
        raise MQError(MQRC.PUT_INHIBITED, f"{queue.name} has PUT(DISABLED)")
    if length > max_length:
        raise MQError(MQRC.MSG_TOO_BIG_FOR_Q_MGR, f"{length} bytes, the queue manager's MAXMSGL is {max_length}")
    if length > queue.max_length:
        raise MQError(MQRC.MSG_TOO_BIG_FOR_Q, f"{length} bytes, MAXMSGL of {queue.name} is {queue.max_length}")
    if queue.depth >= queue.max_depth:
        raise MQError(MQRC.Q_FULL, f"{queue.name} holds {queue.depth} messages, its MAXDEPTH is {queue.max_depth}")


def default_descriptor() -> MessageDescriptor:
    """The descriptor of a put that gave none. Not to be changed."""
    return _NATIVE_DEFAULTS
