"""The headers that stand before the data of a message, and trigger messages, by their fields."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.mqi import MQFB, MQFMT, MQRC, MQError
from broker.mqi.layouts.layouts import MQDLH, MQTM, MQXQH
from broker.mqi.layouts.rfh2 import MQRFH2, byte_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from broker.mqi import MessageDescriptor

HEADERS_MAX: Final = 100
"""More of them are not looked for: data that somebody made up may have any number."""


class PrintedHeader(NamedTuple):
    """A structure of so many bytes. `format` says what stands behind it, in integers of `encoding`."""

    name: str
    fields: Mapping[str, Any]
    size: int
    format: str = ""
    encoding: int = 0


def headers(md: MessageDescriptor, data: bytes) -> Iterator[PrintedHeader]:
    """The structures at the head of the data, one after the other, as far as they are what their formats say."""
    format, encoding, start = md.format, md.encoding, 0
    for _ in range(HEADERS_MAX):
        try:
            found = _header(format, encoding, data[start:])
        except (ValueError, MQError):
            return
        if found is None:
            return
        yield found
        start += found.size
        format, encoding = found.format, found.encoding or encoding


def _header(format: str, encoding: int, data: bytes) -> PrintedHeader | None:
    order = byte_order(encoding)
    match format:
        case MQFMT.DEAD_LETTER_HEADER:
            dlh = MQDLH.from_bytes(data, order)
            reported = {**_fields(dlh), "reason": f"{dlh.reason} {_reason(dlh.reason)}".rstrip()}
            return PrintedHeader("MQDLH", reported, dlh.SIZE, dlh.format, dlh.encoding)
        case MQFMT.XMIT_Q_HEADER:
            xqh = MQXQH.from_bytes(data, order)
            return PrintedHeader("MQXQH", _fields(xqh), xqh.SIZE, xqh.md.format, xqh.md.encoding)
        case MQFMT.RF_HEADER_2:
            rfh2, size = MQRFH2.from_bytes(data, order)
            return PrintedHeader("MQRFH2", _fields(rfh2), size, rfh2.format, rfh2.encoding)
        case MQFMT.TRIGGER:
            return PrintedHeader("MQTM", _fields(MQTM.from_bytes(data, order)), len(data))
    return None


def _fields(structure: Any) -> dict[str, Any]:
    """The fields by MQ's names, those of a structure inside it among them, folders one by one."""
    found: dict[str, Any] = {}
    for field in fields(structure):
        value = getattr(structure, field.name)
        if is_dataclass(value):
            found |= _fields(value)
        elif isinstance(value, tuple):
            found |= {f"name_value_data {number}": each for number, each in enumerate(value, 1)}
        else:
            found[field.name] = value
    return found


def _reason(number: int) -> str:
    """The name of the reason of a dead letter: an MQRC, or the feedback of one."""
    for kind, prefix in ((MQRC, "MQRC_"), (MQFB, "MQFB_")):
        with suppress(ValueError):
            return prefix + kind(number).name
    return ""
