"""Report messages: which of them a message asks for, and what is in them (semantics 12.3).

The queue manager makes three kinds: confirmations of arrival and of delivery, which belong to the unit of work that
puts or gets the message and are made when that is committed, and expiration reports. Exception reports are for whoever
carries a message on after its putter was told that all is well; a put that fails gives none. Action notices (PAN,
NAN) are put by applications.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgpack

from broker.core.message import report_options
from broker.core.message.generated.generated import GeneratedMessage, descriptor_of
from broker.core.message.headers.headers import headers_length
from broker.mqi.constants.descriptor import MQAT, MQFB, MQFMT, MQMT, MQRO
from broker.mqi.layouts.packing import PACKED_FIELDS
from broker.mqi.structures import MessageDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.identifiers import Identifiers
    from broker.core.message.entry import Entry
    from broker.core.message.report_options import ReportChoice

EXPIRATION_REPORT_EXPIRY = 600
"""The life of an expiration report that inherits an expiry, in tenths of a second: of the message's nothing is left."""

_PASS_MSG_ID = MQRO.PASS_MSG_ID.value
_PASS_CORREL_ID = MQRO.PASS_CORREL_ID.value
_PASS_DISCARD_AND_EXPIRY = MQRO.PASS_DISCARD_AND_EXPIRY.value
_DISCARD_MSG = MQRO.DISCARD_MSG.value
_QUEUE_MANAGER = MQAT.QMGR.value
_REPORT = MQMT.REPORT.value
_DEAD = MQFMT.DEAD_LETTER_HEADER.value
_TRANSMITTED = MQFMT.XMIT_Q_HEADER.value
_FORMAT = PACKED_FIELDS.index("format")

# The packed fields begin with Report, after the head of the array. Most messages ask for no report: one byte tells.
assert PACKED_FIELDS[0] == "report"
_REPORT_AT = len(msgpack.Packer().pack_array_header(len(PACKED_FIELDS)))


class ReportKind(NamedTuple):
    """A kind of report: its Feedback, the options that ask for it, and the formats of messages that cause none."""

    feedback: int
    choice: ReportChoice
    never_for: tuple[str, ...] = ()


EXCEPTION = ReportKind(0, report_options.EXCEPTION)  # its Feedback is the reason
COA = ReportKind(MQFB.COA.value, report_options.COA, (_TRANSMITTED, _DEAD))
COD = ReportKind(MQFB.COD.value, report_options.COD, (_DEAD,))
EXPIRATION = ReportKind(MQFB.EXPIRATION.value, report_options.EXPIRATION)


def asks_any(entry: Entry) -> bool:
    """True if the message has any option of Report."""
    return bool(entry.packed_md[_REPORT_AT])


def asked(entry: Entry, kind: ReportKind) -> int:
    """Return the option of this kind that the message has; 0 when it asks for no such report."""
    packed_md = entry.packed_md
    if not packed_md[_REPORT_AT]:  # as `asks_any`, which is not called at each put
        return 0
    fields = msgpack.unpackb(packed_md)
    return 0 if fields[_FORMAT] in kind.never_for else kind.choice.of(fields[0])


def unread(wanted: Iterable[tuple[Entry, ReportKind]]) -> list[Entry]:
    """The messages whose bodies these reports carry, and which are only on disk now."""
    return [entry for entry, kind in wanted if entry.data is None and asked(entry, kind) not in (0, kind.choice.plain)]


def report_on(entry: Entry, kind: ReportKind, ids: Identifiers, now: float) -> GeneratedMessage:
    """The report that the message asks for. Its body is in memory where the report carries some of it."""
    md = descriptor_of(entry)
    if md.original_length < 0:
        md.original_length = entry.length
    properties = b"" if kind.choice.of(md.report) == kind.choice.plain else entry.properties
    data = _data(entry.data or b"", kind, md)
    return _report(GeneratedMessage("", "", md, data, properties), kind, _inherited_expiry(entry, kind, now), ids, now)


def exception_report(message: GeneratedMessage, reason: int, ids: Identifiers, now: float) -> GeneratedMessage | None:
    """The report on a message that was carried on and cannot be put where it should go, for this MQRC; None when it
    asks for none.
    """
    if not EXCEPTION.choice.of(message.md.report):
        return None
    md = MessageDescriptor.from_tuple(message.md.to_tuple())
    if md.version == 1 or md.original_length < 0:
        md.version, md.original_length = 2, len(message.data)
    data = _data(message.data, EXCEPTION, md)
    if not data:
        md.format = MQFMT.NONE.value  # headers before the data are gone with it
    kind = EXCEPTION._replace(feedback=reason)
    return _report(GeneratedMessage("", "", md, data), kind, md.expiry, ids, now)


def _report(message: GeneratedMessage, kind: ReportKind, expiry: int, ids: Identifiers, now: float) -> GeneratedMessage:
    """The report whose data this is, and whose descriptor is still that of the message it is about. `expiry` is what it
    inherits, if it does.
    """
    md = message.md
    report, reply_to = md.report, (md.reply_to_q, md.reply_to_q_mgr)
    md.correl_id = md.correl_id if report & _PASS_CORREL_ID else md.msg_id
    if not report & _PASS_MSG_ID:
        md.msg_id = ids.identifier()
    md.report, md.expiry = 0, -1
    if report & _PASS_DISCARD_AND_EXPIRY:
        md.report, md.expiry = report & _DISCARD_MSG, expiry
    md.msg_type, md.feedback = _REPORT, kind.feedback
    md.reply_to_q, md.reply_to_q_mgr = "", ids.q_mgr_name
    md.put_appl_type, md.put_appl_name = _QUEUE_MANAGER, ids.q_mgr_name[:28]
    md.put_date, md.put_time = ids.stamp(now)
    md.appl_origin_data = ""
    return message._replace(q_name=reply_to[0], q_mgr_name=reply_to[1])


def _data(data: bytes, kind: ReportKind, md: MessageDescriptor) -> bytes:
    """Return the part of a message's data that the report carries, where `md` is its descriptor."""
    option = kind.choice.of(md.report)
    if option == kind.choice.plain:
        return b""
    if option == kind.choice.with_full_data:
        return data
    return data[: headers_length(md.format, md.encoding, data) + report_options.WITH_DATA_BYTES]


def _inherited_expiry(entry: Entry, kind: ReportKind, now: float) -> int:
    """Return the rest of the message's life, in tenths of a second, rounded up."""
    if entry.deadline is None:
        return -1
    return EXPIRATION_REPORT_EXPIRY if kind is EXPIRATION else entry.expiry_left(now)
