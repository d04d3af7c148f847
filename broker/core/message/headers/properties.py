"""Message properties on their way (semantics 14.3): out of the MQRFH2 that a putter sends, to a getter as it asks.

A queue keeps properties beside the data: packed as the folders of an MQRFH2, or, where a program wrote the header
itself, as that header (`broker.core.message.headers.original_header`). So they count neither in the length of the
message nor in an offset, and a message without any costs nothing. Folders that hold no properties (`psc`, for one) stay
in the data, under the MQRFH2 that they came in.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgpack

from broker.core.message.headers import original_header
from broker.core.message.headers.original_header import Behind, OriginalHeader
from broker.mqi.constants.attribute_values import MQPROP
from broker.mqi.constants.descriptor import MQCCSI, MQENC, MQMF, UTF_8
from broker.mqi.constants.options import MQGMO
from broker.mqi.errors import MQError
from broker.mqi.layouts import folders, rfh2
from broker.mqi.layouts.packing import PACKED_FIELDS
from broker.mqi.reasons import MQRC
from broker.mqi.structures import MessageDescriptor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from broker.core.queues.handles import Handle
    from broker.mqi.layouts.folders import Value

FORMAT: Final = rfh2.FORMAT

HEADERS_MAX: Final = 100
"""The most MQRFH2s before the data of one message. MQ has no such limit; a program that comes near it means harm."""

PROPERTIES_MAX: Final = 10_000
"""The most properties, and groups of them, of one message, whatever MAXPROPL: some 15 ms of reading."""

HOWS: Final = (
    MQGMO.PROPERTIES_FORCE_MQRFH2 | MQGMO.NO_PROPERTIES | MQGMO.PROPERTIES_IN_HANDLE | MQGMO.PROPERTIES_COMPATIBILITY
).value
"""The bits of MQGMO options that say in which form a getter wants properties; none of them is AS_Q_DEF."""

_IN_HANDLE: Final = MQGMO.PROPERTIES_IN_HANDLE.value
_FORCE: Final = MQGMO.PROPERTIES_FORCE_MQRFH2.value
_COMPATIBILITY: Final = MQGMO.PROPERTIES_COMPATIBILITY.value
_QUEUE_FORCES: Final = MQPROP.FORCE_MQRFH2.value
_SEGMENTS: Final = (MQMF.SEGMENT | MQMF.LAST_SEGMENT).value
_COMPATIBLE: Final = frozenset(("mcd", "jms", "usr", "mqext"))
_INHERITED: Final = frozenset((MQCCSI.Q_MGR.value, MQCCSI.INHERIT.value, rfh2.FILLED_IN))
_LENGTH_SIZE: Final = 4  # of the NameValueLength before each folder
_NATIVE: Final = MQENC.NATIVE.value
_CCSID: Final = PACKED_FIELDS.index("coded_char_set_id")
_ENCODING: Final = PACKED_FIELDS.index("encoding")
_FORMAT: Final = PACKED_FIELDS.index("format")


# From a putter


def take_properties(
    md: MessageDescriptor, data: bytes, length_max: int, properties_max: int, own_ccsid: int
) -> tuple[MessageDescriptor, bytes, bytes]:
    """Take the properties out of the MQRFH2s at the head of data of format MQHRF2: the descriptor of what stays, that,
    and the properties as a queue keeps them.

    A segment need not have a header, since the first of its message has. Data that is longer than `length_max` without
    its headers is left as it is: the check of its length refuses it. Raises RFH_ERROR (2334), RFH_FORMAT_ERROR (2421),
    PROPERTIES_TOO_BIG (2478) for more bytes of properties than MAXPROPL, `properties_max` (-1 is no limit), or more
    than `PROPERTIES_MAX` of them.
    """
    if md.msg_flags & _SEGMENTS and not data.startswith(b"RFH "):
        return md, data, b""
    found, codings = _find(md, data)
    end = found[-1].end
    if len(data) - end > length_max:
        return md, data, b""
    headers, texts = _sorted(found, codings, data, properties_max)
    folders.decode(texts, PROPERTIES_MAX)  # what a queue keeps can always be read
    if not texts and any(header.left for header in headers):
        return md, data, b""
    kept, described = original_header.left_in_data(headers, data, codings[-1])
    inner = MessageDescriptor.from_tuple(md.to_tuple())
    inner.encoding, inner.coded_char_set_id, inner.format = described
    if any(each.coded_char_set_id == rfh2.FILLED_IN for each in found):
        return inner, kept + data[end:], rfh2.pack(texts)
    outermost = codings[0]._replace(coded_char_set_id=md.coded_char_set_id or own_ccsid)
    headers[0] = headers[0]._replace(coding=outermost)
    return inner, kept + data[end:], original_header.pack(headers, data, len(kept))


def with_given(taken: bytes, given: bytes, properties_max: int) -> bytes:
    """The properties as a queue keeps them, of those that stood before the data and those that were given packed beside
    it. Raises what `take_properties` does.
    """
    if len(given) > properties_max >= 0:
        raise MQError(MQRC.PROPERTIES_TOO_BIG, f"{len(given)} bytes of properties, MAXPROPL is {properties_max}")
    texts = rfh2.unpack(given)
    if taken:
        texts += rfh2.unpack(folders_of(taken))
    folders.decode(texts, PROPERTIES_MAX)
    return rfh2.pack(texts)


def _find(md: MessageDescriptor, data: bytes) -> tuple[list[rfh2.Found], list[Behind]]:
    """The headers at the front of the data, and what describes each, and at last the data behind them."""
    found: list[rfh2.Found] = []
    coding = Behind(md.encoding, md.coded_char_set_id, md.format)
    codings = [coding]
    start = count = 0
    while coding.format == FORMAT:
        header = rfh2.find(data, rfh2.byte_order(coding.encoding), start)
        found.append(header)
        start = header.end
        count += len(header.folders)
        if len(found) > HEADERS_MAX or count > rfh2.FOLDERS_MAX:
            raise MQError(MQRC.RFH_ERROR, f"more than {HEADERS_MAX} headers, or {rfh2.FOLDERS_MAX} folders in them")
        ccsid = header.coded_char_set_id
        coding = Behind(header.encoding, coding.coded_char_set_id if ccsid in _INHERITED else ccsid, header.format)
        codings.append(coding)
    return found, codings


def _sorted(
    found: Sequence[rfh2.Found], codings: Sequence[Behind], data: bytes, properties_max: int
) -> tuple[list[OriginalHeader], list[str]]:
    """The headers, with what is to stay in the data of each, and the texts of the folders that hold properties."""
    headers: list[OriginalHeader] = []
    texts: list[str] = []
    size = 0
    for header, coding in zip(found, codings, strict=False):
        left = set()
        for number, place in enumerate(header.folders):
            text = header.text(data, place)
            folder = folders.read(text) if text else None
            if folder is not None and not folder.holds_properties:
                left.add(number)
                continue
            size += _LENGTH_SIZE + place[1] - place[0]
            if size > properties_max >= 0:
                raise MQError(MQRC.PROPERTIES_TOO_BIG, f"{size} bytes of properties, MAXPROPL is {properties_max}")
            if text:
                texts.append(text)
        headers.append(OriginalHeader(header, coding, frozenset(left)))
    return headers, texts


# On a queue


def folders_of(packed: bytes) -> bytes:
    """The properties that a queue keeps as packed folders, however it keeps them."""
    if original_header.original(packed) is None:
        return packed
    return rfh2.pack(original_header.folders(packed))


@lru_cache(maxsize=1)
def decoded(packed: bytes) -> Mapping[str, Value]:
    """The properties that a queue keeps, by name. Those of the message that was asked about last are remembered, since
    a message that arrives is shown to many selectors.
    """
    return rfh2.unpack_properties(folders_of(packed))


# To a getter


def form_of(handle: Handle, how: int) -> int:
    """In which form (`HOWS`) a get through this handle is given properties: as it asked, or else as the definition that
    was opened says, an alias's own PROPCTL. 0 and IN_HANDLE are the mapping of the message.
    """
    if how or handle.route is None:
        return how
    return _FORCE if handle.route.first.property_control == _QUEUE_FORCES else 0


def in_mapping(packed: bytes, form: int) -> bytes:
    """The packed properties that a getter finds in the mapping of the message."""
    return b"" if not packed or form & ~_IN_HANDLE else folders_of(packed)


def header_length(packed: bytes, form: int, length: int) -> int:
    """By how much the MQRFH2 that a getter is given makes a message with `length` bytes of data longer; mostly 0.

    COMPATIBILITY makes one only of properties that older programs know.
    """
    if not packed or not wanted(packed, form):
        return 0
    original = _restorable(packed, length)
    if original is None:
        return rfh2.LENGTH_FIXED + len(folders_of(packed))
    return original.length - original.replaces


def wanted(packed: bytes, form: int) -> bool:
    """True if a getter is given an MQRFH2 before the data."""
    if form & _COMPATIBILITY:
        return _known_of_old(packed)
    return bool(form & _FORCE)


def with_header(packed: bytes, data: bytes, packed_md: bytes) -> tuple[bytes, bytes]:
    """The data behind its MQRFH2, and the packed fields that describe both: the header as it was put, or one made of
    the properties in the queue manager's own encoding.
    """
    fields: list[Any] = msgpack.unpackb(packed_md)
    original = _restorable(packed, len(data))
    if original is not None:
        fields[_FORMAT], fields[_ENCODING], fields[_CCSID] = FORMAT, original.encoding, original.coded_char_set_id
        return original_header.restored(packed, data), msgpack.packb(fields)
    made = rfh2.MQRFH2(
        tuple(rfh2.unpack(folders_of(packed))), fields[_FORMAT], fields[_ENCODING], fields[_CCSID] or rfh2.INHERIT
    )
    fields[_FORMAT], fields[_ENCODING], fields[_CCSID] = FORMAT, _NATIVE, UTF_8
    return made.to_bytes(rfh2.byte_order(_NATIVE)) + data, msgpack.packb(fields)


def _restorable(packed: bytes, length: int) -> original_header.Original | None:
    """The header as it was put; None where it was not kept, or so few bytes of data are not all that is left of it."""
    original = original_header.original(packed)
    return original if original is not None and original.replaces <= length else None


def _known_of_old(packed: bytes) -> bool:
    texts = rfh2.unpack(folders_of(packed))
    return not texts or any(folders.read(text).name in _COMPATIBLE for text in texts)
