"""A message as an answer has it: its text in UTF-8, and its headers. What is no text cannot be given (501)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.http.rest.messaging.identifiers import CorrelationId, correlation_out, id_out
from broker.http.rest.messaging.put_fields import JMS_TEXT
from broker.http.rest.messaging.user_properties import HEADER as USER_PROPERTIES
from broker.http.rest.messaging.user_properties import properties_out
from broker.mqi import MQENC, MQFMT, MQPER, MQRFH2, MQError, characters
from broker.mqi.layouts.folders import TypedValue, decode_typed
from broker.mqi.layouts.rfh2 import byte_order

if TYPE_CHECKING:
    from broker import Message
    from broker.http.rest.messaging.versions import RestVersion
    from broker.mqi import MessageDescriptor

HEADER_BYTES_MAX: Final = 8 * 1024
"""The longest header of user properties: many clients take no answer with a longer one."""

_STRING: Final = MQFMT.STRING.value
_RFH2: Final = MQFMT.RF_HEADER_2.value


class NotTextError(Exception):
    """A message that has no text, or none that can be converted; the text says why."""


class TextMessage(NamedTuple):
    """A message that can be given: its text in UTF-8, and what else answers tell of it."""

    body: bytes
    md: MessageDescriptor
    correlation: CorrelationId
    properties: dict[str, TypedValue]

    def headers(self, version: RestVersion) -> list[tuple[bytes, bytes]]:
        """Return the headers that the version has. Raises NotTextError for properties that no header can hold."""
        md = self.md
        found = [("ibm-mq-md-messageId", id_out(version, md.msg_id))]
        correlation = correlation_out(version, self.correlation)
        if correlation:
            found.append(("ibm-mq-md-correlationId", correlation))
        found += [
            ("ibm-mq-md-expiry", "unlimited" if md.expiry < 0 else str(md.expiry * 100)),
            ("ibm-mq-md-persistence", "persistent" if md.persistence == MQPER.PERSISTENT else "nonPersistent"),
        ]
        if version.has_properties:
            found.append(("ibm-mq-md-priority", str(md.priority)))
        if md.reply_to_q:
            found.append(("ibm-mq-md-replyTo", f"{md.reply_to_q}@{md.reply_to_q_mgr}".rstrip("@")))
        if version.has_properties and self.properties:
            found.append((USER_PROPERTIES, properties_out(self.properties)))
        return [(name.encode(), _value(name, value)) for name, value in found if value]


def check_kind(message: Message) -> None:
    """Raise NotTextError for a message, got with its properties beside the data, that is of no kind that has text."""
    _check_format(message.md.format.rstrip(" \0"))
    try:
        _check_domain(message.properties.get("mcd.Msd"))
    except MQError as error:
        raise NotTextError(f"its properties cannot be read: {error.detail}") from error


def text_of(message: Message) -> TextMessage:
    """Return a message that was got with its properties in an MQRFH2 before the data. Raises NotTextError."""
    md, data = message.md, message.data
    format, ccsid, encoding = md.format.rstrip(" \0"), md.coded_char_set_id, md.encoding
    folders: list[str] = []
    while format == _RFH2:
        try:
            header, length = MQRFH2.from_bytes(data, byte_order(encoding))
        except MQError as error:
            raise NotTextError(f"its MQRFH2 cannot be read: {error.detail}") from error
        folders += header.folders
        data, format, encoding = data[length:], header.format.rstrip(" \0"), header.encoding
        ccsid = header.coded_char_set_id if header.coded_char_set_id > 0 else ccsid
    _check_format(format)
    try:
        properties = decode_typed(folders)
    except MQError as error:
        raise NotTextError(f"its properties cannot be read: {error.detail}") from error
    _check_domain(properties["mcd.Msd"].value if "mcd.Msd" in properties else None)
    string = properties.get("jms.Cid")
    correlation = CorrelationId(md.correl_id, string.value if string and isinstance(string.value, str) else "")
    user = {name: value for name, value in properties.items() if "." not in name}
    return TextMessage(_utf_8(data, ccsid, encoding or MQENC.NATIVE.value), md, correlation, user)


def _check_format(format: str) -> None:
    if format != _STRING:
        raise NotTextError(f"its format is {format or 'blank'}, and not {_STRING}")


def _check_domain(domain: object) -> None:
    if domain not in (None, JMS_TEXT):
        raise NotTextError(f"it is a JMS message of the kind {domain}, and no {JMS_TEXT}")


def _utf_8(data: bytes, ccsid: int, encoding: int) -> bytes:
    try:
        return characters(data, ccsid, encoding).encode()
    except (LookupError, UnicodeError) as error:
        raise NotTextError(f"it cannot be converted to UTF-8: {error}") from error


def _value(name: str, value: str) -> bytes:
    """The bytes of a header. Raises NotTextError for what a header cannot hold."""
    encoded = value.encode("utf-8", "surrogateescape")
    if len(encoded) > HEADER_BYTES_MAX:
        raise NotTextError(f"{name} would have {len(encoded)} bytes, more than {HEADER_BYTES_MAX}")
    if any(byte < 0x20 or byte == 0x7F for byte in encoded):
        raise NotTextError(f"{name} has a character that no header can hold")
    return encoded
