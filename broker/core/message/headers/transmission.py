"""Messages for other queue managers, as they wait on a transmission queue (MQXQH).

The header says where a message is to go and with which descriptor it will arrive; the descriptor of the message that
waits is made from it. What a version 1 descriptor cannot say stands behind the header in an MQMDE, message properties
behind that in an MQRFH2.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING

from broker.core.message.entry import CutSegment, FullEntry, rank_of
from broker.core.message.generated.generated import GeneratedMessage
from broker.core.message.headers import mqmde, properties
from broker.mqi.constants.descriptor import MQAT, MQENC, MQFMT, MQRO_ACCEPT_UNSUP_IF_XMIT_MASK
from broker.mqi.errors import MQError
from broker.mqi.layouts.layouts import MQXQH
from broker.mqi.layouts.packing import pack_md, unpack_md
from broker.mqi.reasons import MQRC
from broker.mqi.structures import NO_ID, MessageDescriptor

if TYPE_CHECKING:
    from broker.core.identifiers import Identifiers
    from broker.core.message.entry import Entry
    from broker.core.names.routes import Route
    from broker.mqi.layouts.fields import ByteOrder

_NATIVE = MQENC.NATIVE.value
_ID = len(NO_ID)


def transmitted(entry: Entry, route: Route, ids: Identifiers, now: float) -> Entry:
    """The message to place on the transmission queue in place of `entry`, which was completed for its destination."""
    data, packed_md = entry.data or b"", entry.packed_md
    if entry.properties:
        data, packed_md = properties.with_header(entry.properties, data, packed_md)
    md = _described(entry, packed_md, now)
    flags, original = entry.msg_flags, entry.original_length
    if mqmde.needed(entry.item, flags, original):
        described = md.encoding, md.coded_char_set_id, md.format
        data = mqmde.packed(entry.item, flags, original, *described, _NATIVE) + data
        md.encoding, md.coded_char_set_id, md.format = _NATIVE, ids.coded_char_set_id, mqmde.FORMAT
    data = MQXQH(route.q_name, route.q_mgr_name, md).to_bytes(_byte_order(_NATIVE)) + data
    kind = FullEntry if entry.triggers else CutSegment
    waiting = kind(route.queue, ids.next(), rank_of(entry.key), data, len(data))
    waiting.priority, waiting.persistence = entry.priority, entry.persistence
    waiting.correl_id = entry.msg_id if route.group is None else destination_id(route.q_mgr_name)
    waiting.deadline = entry.deadline
    waiting.packed_md = _packed(md, ids, now)
    return waiting


def arrived(md: MessageDescriptor, data: bytes) -> GeneratedMessage:
    """Return the message for the destination, made of one got from a transmission queue, with the rest of its life.
    Raises XQH_ERROR (2260) where it does not begin with an MQXQH.
    """
    header = _header(data, md.encoding)
    inner, data = header.md, data[MQXQH.SIZE :]
    inner.expiry = md.expiry
    with suppress(MQError):  # what is wrong with it shows when it is put
        inner, data = mqmde.take_mqmde(inner, data, inner.coded_char_set_id)
    return GeneratedMessage(header.remote_q_name, header.remote_q_mgr_name, inner, data)


def destination_id(q_mgr_name: str) -> bytes:
    """The CorrelId of all messages for one member of the group that wait for its intra-group queuing agent, by which
    the agent finds them (queue-sharing 9.2): the name, or of a longer one a digest.
    """
    name = q_mgr_name.encode()
    return name.ljust(_ID, b"\0") if len(name) <= _ID else sha256(name).digest()[:_ID]


def check_header(data: bytes, encoding: int) -> None:
    """Insist that what a program itself puts to a transmission queue begins with an MQXQH; raises XQH_ERROR (2260)."""
    _header(data, encoding)


def _header(data: bytes, encoding: int) -> MQXQH:
    try:
        return MQXQH.from_bytes(data, _byte_order(encoding))
    except ValueError as error:
        raise MQError(MQRC.XQH_ERROR, f"a message on a transmission queue begins with an MQXQH: {error}") from None


def _described(entry: Entry, packed_md: bytes, now: float) -> MessageDescriptor:
    """The descriptor with which the message will arrive, of version 1."""
    md = MessageDescriptor(version=1)
    unpack_md(packed_md, md)
    md.msg_id, md.correl_id = entry.msg_id, entry.correl_id
    md.priority, md.persistence, md.expiry = entry.priority, entry.persistence, entry.expiry_left(now)
    return md


def _packed(md: MessageDescriptor, ids: Identifiers, now: float) -> bytes:
    """The rest of the descriptor of the message that waits. Reports on arrival and delivery are for the destination."""
    waiting = MessageDescriptor.from_tuple(md.to_tuple())
    waiting.report &= ~MQRO_ACCEPT_UNSUP_IF_XMIT_MASK
    waiting.encoding, waiting.coded_char_set_id = _NATIVE, ids.coded_char_set_id
    waiting.format = MQFMT.XMIT_Q_HEADER.value
    waiting.put_appl_type, waiting.put_appl_name = MQAT.QMGR.value, ids.q_mgr_name[:28]
    waiting.put_date, waiting.put_time = ids.stamp(now)
    waiting.appl_origin_data = ""
    return pack_md(waiting)


def _byte_order(encoding: int) -> ByteOrder:
    return "little" if mqmde.byte_order(encoding) == "<" else "big"
