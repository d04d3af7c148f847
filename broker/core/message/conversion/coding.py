"""Read and write characters and integers of a message, and convert characters from one coding to another.

What cannot be converted is an MQError, with the reason that a get with MQGMO_CONVERT gives as a warning.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from broker.mqi.errors import MQError
from broker.mqi.layouts.code_pages import UTF_16, UTF_16_ORDERED, code_page, not_known
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.mqi.layouts.code_pages import CodePage


class Coding(NamedTuple):
    """The coding of characters and integers: CodedCharSetId and Encoding."""

    ccsid: int
    encoding: int


class _Side(NamedTuple):
    """The reasons for which data cannot be read from a coding, or written in one."""

    ccsid: MQRC
    integers: MQRC


SOURCE = _Side(MQRC.SOURCE_CCSID_ERROR, MQRC.SOURCE_INTEGER_ENC_ERROR)
TARGET = _Side(MQRC.TARGET_CCSID_ERROR, MQRC.TARGET_INTEGER_ENC_ERROR)

_INTEGER_MASK = 0xF
_ORDERS = {1: ">", 2: "<"}  # MQENC_INTEGER_NORMAL, MQENC_INTEGER_REVERSED


def order_of(coding: Coding, side: _Side) -> str:
    """The struct prefix for integers. Raises SOURCE_INTEGER_ENC_ERROR (2112), TARGET_INTEGER_ENC_ERROR (2116)."""
    order = _ORDERS.get(coding.encoding & _INTEGER_MASK)
    if order is None:
        raise MQError(side.integers, f"encoding {coding.encoding:#x} says nothing of integers")
    return order


def page_of(coding: Coding, side: _Side) -> CodePage:
    """The character set. Raises SOURCE_CCSID_ERROR (2111), TARGET_CCSID_ERROR (2115)."""
    page = code_page(coding.ccsid)
    if page is None:
        raise MQError(side.ccsid, not_known(coding.ccsid))
    return UTF_16_ORDERED[order_of(coding, side)] if page is UTF_16 else page


def text(data: bytes, source: Coding, target: Coding) -> bytes:
    """Characters, as many bytes as they take. Raises NOT_CONVERTED (2119) and what `page_of` raises."""
    decoding, encoding = page_of(source, SOURCE), page_of(target, TARGET)
    if decoding.name == encoding.name:
        return data
    return encoding.encode(_characters(data, decoding, source))


def field(data: bytes, source: Coding, target: Coding) -> bytes:
    """Characters in a field of fixed size, padded with the target's blanks. Raises NOT_CONVERTED (2119) for those that
    do not fit.
    """
    blank = page_of(target, TARGET).encode(" ")
    written = text(data, source, target)
    if len(blank) != 1 or len(written.rstrip(blank)) > len(data):
        raise MQError(MQRC.NOT_CONVERTED, f"{data!r:.80} does not fit its field in character set {target.ccsid}")
    return written[: len(data)].ljust(len(data), blank)


def strings(data: bytes, size: int, source: Coding, target: Coding) -> tuple[bytes, int]:
    """Strings of one size, each padded with blanks, and their size now: the same, if they all fit into it."""
    if not data:
        return b"", size
    decoding, encoding = page_of(source, SOURCE), page_of(target, TARGET)
    if decoding.name == encoding.name:
        return data, size
    characters = _characters(data, decoding, source)
    if len(characters) == len(data):  # so that each string ends where it ended
        written = encoding.encode(characters)
        if len(written) == len(data):
            return written, size
    pieces = [
        encoding.encode(_characters(data[start : start + size], decoding, source).rstrip(" "))
        for start in range(0, len(data), size)
    ]
    blank = encoding.encode(" ")
    size = max(size, *map(len, pieces))
    size += -size % len(blank)
    return b"".join(piece + blank * ((size - len(piece)) // len(blank)) for piece in pieces), size


def integers(data: bytes, code: str, source: Coding, target: Coding) -> bytes:
    """A list of integers, `i` of four bytes or `q` of eight. Raises what `order_of` raises."""
    before, after = order_of(source, SOURCE), order_of(target, TARGET)
    if before == after:
        return data
    count = len(data) // struct.calcsize(f"<{code}")
    return struct.pack(f"{after}{count}{code}", *struct.unpack(f"{before}{count}{code}", data))


def _characters(data: bytes, page: CodePage, coding: Coding) -> str:
    try:
        return page.decode(data)
    except UnicodeDecodeError as error:
        raise MQError(MQRC.NOT_CONVERTED, f"the text is not in coded character set {coding.ccsid}: {error}") from error
