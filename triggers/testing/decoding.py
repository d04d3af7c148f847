"""Messages as a test compares them: their bodies as plain values of Python."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from broker.mqi import MQDLH, MQFMT, characters

if TYPE_CHECKING:
    from broker import Message


def decoded(message: Message) -> Any:
    """The body of a message: JSON as it is there, other text as str, all else as bytes. Of a dead letter it is that of
    the message behind the MQDLH.
    """
    md, data = message.md, message.data
    format, ccsid, encoding = md.format, md.coded_char_set_id, md.encoding
    if format == MQFMT.DEAD_LETTER_HEADER:
        header = MQDLH.from_bytes(data)
        format, ccsid, encoding, data = header.format, header.coded_char_set_id, header.encoding, data[MQDLH.SIZE :]
    if format != MQFMT.STRING:
        return data
    text = characters(data, ccsid, encoding)
    if "json" in str(message.properties.get("content_type", "")):
        return json.loads(text)
    return text
