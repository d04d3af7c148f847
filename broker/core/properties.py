"""Message properties on their way: out of the MQRFH2 that a putter sends, and to a getter in the form that it asks for.

A queue keeps properties beside the data, packed as the folders of an MQRFH2. So they count neither in the length of the
message nor in an offset, and a message without any costs nothing. Folders that hold no properties (`psc`, for one)
stay in the data, under an MQRFH2 of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgpack

from broker.mqi import folders, rfh2
from broker.mqi.attribute_values import MQPROP
from broker.mqi.descriptor import MQENC, MQMF
from broker.mqi.errors import MQError
from broker.mqi.options import MQGMO
from broker.mqi.packing import KEPT_FIELDS
from broker.mqi.reasons import MQRC
from broker.mqi.structures import MessageDescriptor

if TYPE_CHECKING:
    from broker.core.entry import Entry

FORMAT: Final = rfh2.FORMAT
_NATIVE: Final = MQENC.NATIVE.value
_UTF_8: Final = 1208

HOWS: Final = (
    MQGMO.PROPERTIES_FORCE_MQRFH2 | MQGMO.NO_PROPERTIES | MQGMO.PROPERTIES_IN_HANDLE | MQGMO.PROPERTIES_COMPATIBILITY
).value
"""The bits of MQGMO options that say in which form a getter wants properties; none of them is AS_Q_DEF."""

_IN_HANDLE: Final = MQGMO.PROPERTIES_IN_HANDLE.value
_FORCE: Final = MQGMO.PROPERTIES_FORCE_MQRFH2.value
_COMPATIBILITY: Final = MQGMO.PROPERTIES_COMPATIBILITY.value
_QUEUE_FORCES: Final = MQPROP.FORCE_MQRFH2.value
_SEGMENTS: Final = (MQMF.SEGMENT | MQMF.LAST_SEGMENT).value
_COMPATIBLE: Final = ("mcd", "jms", "usr", "mqext")
_CCSID: Final = KEPT_FIELDS.index("coded_char_set_id")
_ENCODING: Final = KEPT_FIELDS.index("encoding")
_FORMAT: Final = KEPT_FIELDS.index("format")


def take_properties(md: MessageDescriptor, data: bytes) -> tuple[MessageDescriptor, bytes, bytes]:
    """The descriptor of what is behind the MQRFH2s at the head of data of format MQHRF2, that, and the properties.

    A segment need not have a header, since the first of its message has. Raises RFH_ERROR (2334), RFH_FORMAT_ERROR
    (2421).
    """
    if md.msg_flags & _SEGMENTS and not data.startswith(b"RFH "):
        return md, data, b""
    taken: list[str] = []
    left: list[str] = []
    inner = MessageDescriptor.from_tuple(md.to_tuple())
    start = flags = 0
    while inner.format == FORMAT:
        header, length = rfh2.MQRFH2.from_bytes(data[start:], rfh2.byte_order(inner.encoding))
        for text in header.folders:
            folder = folders.read(text)
            (taken if folder.holds_properties else left).append(folder.text)
        start += length
        flags |= header.flags
        inner.encoding, inner.format = header.encoding, header.format
        if header.coded_char_set_id not in (0, rfh2.INHERIT):
            inner.coded_char_set_id = header.coded_char_set_id
    folders.decode(taken)  # what a queue keeps can always be read
    if not left:
        return inner, data[start:], rfh2.pack(taken)
    kept = rfh2.MQRFH2(tuple(left), inner.format, inner.encoding, inner.coded_char_set_id or rfh2.INHERIT, flags)
    return md, kept.to_bytes(rfh2.byte_order(md.encoding)) + data[start:], rfh2.pack(taken)


def check_length(properties: bytes, longest: int) -> None:
    """Raise PROPERTIES_TOO_BIG (2478) for more than MAXPROPL; -1 is no limit."""
    if len(properties) > longest >= 0:
        raise MQError(MQRC.PROPERTIES_TOO_BIG, f"{len(properties)} bytes of properties, MAXPROPL is {longest}")


def in_mapping(entry: Entry, how: int) -> bytes:
    """The packed properties that a getter who asks for this form (`HOWS`) finds in the mapping of the message."""
    if not entry.properties:
        return b""
    kept_out = how & ~_IN_HANDLE if how else entry.queue.property_control == _QUEUE_FORCES
    return b"" if kept_out else entry.properties


def header_length(entry: Entry, how: int) -> int:
    """The length of the MQRFH2 that stands before the data for a getter who asks for this form; mostly 0.

    COMPATIBILITY makes one only of properties that older programs know.
    """
    if not entry.properties:
        return 0
    if how & _COMPATIBILITY:
        wanted = _known_of_old(entry.properties)
    else:
        wanted = bool(how & _FORCE) if how else entry.queue.property_control == _QUEUE_FORCES
    return rfh2.LENGTH_FIXED + len(entry.properties) if wanted else 0


def with_header(properties: bytes, data: bytes, kept: bytes) -> tuple[bytes, bytes]:
    """The data behind an MQRFH2 in the queue manager's own encoding, and the kept fields that describe both."""
    fields = msgpack.unpackb(kept)
    described = rfh2.MQRFH2(
        tuple(rfh2.unpack(properties)), fields[_FORMAT], fields[_ENCODING], fields[_CCSID] or rfh2.INHERIT
    )
    fields[_FORMAT], fields[_ENCODING], fields[_CCSID] = FORMAT, _NATIVE, _UTF_8
    return described.to_bytes(rfh2.byte_order(_NATIVE)) + data, msgpack.packb(fields)


def _known_of_old(properties: bytes) -> bool:
    return any("." not in name or name.split(".")[0] in _COMPATIBLE for name in rfh2.unpack_properties(properties))
