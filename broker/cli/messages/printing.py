"""Messages for people and pipes: as lines of text, or as one JSON object a line."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from broker.mqi.structures import DESCRIPTOR_FIELDS

if TYPE_CHECKING:
    from broker import Message


def as_line(message: Message, *, terminal: bool) -> bytes:
    """The data of a message and a newline. What could upset a terminal is shown there in hexadecimal digits."""
    if terminal and not printable(message.data):
        return f"{message.length} bytes: {message.data.hex(' ')}\n".encode()
    return message.data + b"\n"


def printable(data: bytes) -> bool:
    """True if data is UTF-8 text without control characters, tabs and newlines apart."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character in "\t\r\n" for character in text)


def as_json(message: Message) -> bytes:
    """The descriptor and the data of a message."""
    return json.dumps({**descriptor_fields(message), **data_field(message.data)}).encode() + b"\n"


def descriptor_fields(message: Message) -> dict[str, Any]:
    """The descriptor of a message as fields of a JSON object, identifiers in hexadecimal digits."""
    fields: dict[str, Any] = {}
    for name in DESCRIPTOR_FIELDS:
        value = getattr(message.md, name)
        fields[name] = value.hex() if isinstance(value, bytes) else value
    return fields


def data_field(data: bytes) -> dict[str, str]:
    """The data of a message as a field of a JSON object: as text, or in base64 where it is none."""
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(data).decode()}
