"""The headers of a put, and the message that they make of a body: MQSTR in UTF-8, or a JMS text message.

A user property or a correlation string makes it a JMS TextMessage: an MQRFH2 with the folders `mcd`, `jms` and `usr`
before the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from broker.http.rest.messaging.identifiers import NO_CORRELATION, CorrelationId, correlation_in
from broker.http.rest.messaging.user_properties import HEADER as USER_PROPERTIES
from broker.http.rest.messaging.user_properties import joined, properties_in, typed
from broker.http.rest.messaging.versions import InvalidValueError, RestVersion, shown, twice
from broker.mqi import MQENC, MQFMT, MQMT, MQPER, MQPRI, MQRFH2, MessageDescriptor
from broker.mqi.constants.descriptor import UTF_8
from broker.mqi.layouts.folders import TypedValue, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

EXPIRY_MS_MAX: Final = 99_999_999_900
UNLIMITED: Final = -1

JMS_TEXT: Final = "jms_text"
"""The domain of a JMS TextMessage, in the property `mcd.Msd`."""

CONTENT_TYPES: Final = ("text/plain", "text/html", "text/xml", "application/json", "application/xml")

_STRING: Final = MQFMT.STRING.value
_RFH2: Final = MQFMT.RF_HEADER_2.value
_Q_NAME: Final = re.compile(r"[A-Za-z0-9./_%]{1,48}")
_MS: Final = re.compile(r"[0-9]{1,15}")


@dataclass(slots=True)
class PutFields:
    """The headers of a put, in the terms of the MQI."""

    correlation: CorrelationId = NO_CORRELATION
    expiry: int = UNLIMITED
    persistence: int = MQPER.NOT_PERSISTENT.value
    priority: int = MQPRI.PRIORITY_AS_Q_DEF.value
    reply_to_q: str = ""
    reply_to_q_mgr: str = ""
    properties: dict[str, TypedValue] = field(default_factory=dict)

    @property
    def is_jms(self) -> bool:
        """True where the message has to be a JMS TextMessage."""
        return bool(self.properties or self.correlation.string)

    def descriptor(self) -> MessageDescriptor:
        """Return the descriptor of the text."""
        return MessageDescriptor(
            msg_type=(MQMT.REQUEST if self.reply_to_q else MQMT.DATAGRAM).value,
            expiry=self.expiry,
            coded_char_set_id=UTF_8,
            format=_STRING,
            priority=self.priority,
            persistence=self.persistence,
            correl_id=self.correlation.id,
            reply_to_q=self.reply_to_q,
            reply_to_q_mgr=self.reply_to_q_mgr,
        )

    def message(self, q_name: str, body: bytes) -> tuple[MessageDescriptor, bytes]:
        """Return the descriptor and the data to put on a queue."""
        if self is _PLAIN:
            return _PLAIN_MD, body
        md = self.descriptor()
        if not self.is_jms:
            return md, body
        header = MQRFH2(tuple(self._folders(q_name)), _STRING, MQENC.NATIVE.value, UTF_8)
        md.format, md.encoding = _RFH2, MQENC.NATIVE.value
        return md, header.to_bytes() + body

    def _folders(self, q_name: str) -> list[str]:
        delivery = 2 if self.persistence == MQPER.PERSISTENT else 1
        values: dict[str, str | TypedValue] = {"mcd.Msd": JMS_TEXT, "jms.Dst": f"queue:///{q_name}"}
        if self.reply_to_q:
            values["jms.Rto"] = f"queue://{self.reply_to_q_mgr}/{self.reply_to_q}"
        if self.correlation.string:
            values["jms.Cid"] = self.correlation.string
        values["jms.Dlv"] = TypedValue("i4", delivery)
        return encode({**values, **self.properties})


_PLAIN: Final = PutFields()
_PLAIN_MD: Final = _PLAIN.descriptor()
"""The descriptor of a text without headers: one object, with which the queue manager completes each put as the last."""


@lru_cache(maxsize=256)
def check_content_type(value: str | None) -> bool:
    """True if this is the type of a text that can be put: one of `CONTENT_TYPES`, in UTF-8."""
    kind, *parameters = (part.strip().lower() for part in (value or "").split(";"))
    charsets = [each.partition("=")[2].strip('"') for each in parameters if each.startswith("charset=")]
    return kind in CONTENT_TYPES and all(each in ("utf-8", "utf8") for each in charsets)


def put_fields(version: RestVersion, headers: Iterable[tuple[bytes, bytes]]) -> PutFields:
    """Return what the headers of a put say; names are in small letters. Those that the version does not have count for
    nothing. Raises InvalidValueError.
    """
    own = [each for each in headers if each[0].startswith(b"ibm-mq-") and each[0] != _CSRF]
    if not own:
        return _PLAIN
    fields = PutFields()
    seen: set[bytes] = set()
    user: list[str] = []
    for name, value in own:
        reader = _READERS.get(name)
        if reader is not None and (version.has_properties or name not in _LATER):
            if name in seen:
                raise twice(name.decode())
            seen.add(name)
            reader(fields, version, header_text(value))
        elif version.has_properties and name == _USER_PROPERTIES:
            user.append(header_text(value))
        elif version.has_properties and name.startswith(_USER_PROPERTY):
            property = header_text(name[len(_USER_PROPERTY) :])
            _add(fields, {property: typed(property, header_text(value), "string", quoted=True)})
    if user:
        _add(fields, properties_in(joined(user)))
    return fields


def header_text(value: bytes) -> str:
    """Return the text of a header: UTF-8, or Latin-1 where it is none, as HTTP has it."""
    try:
        return value.decode().strip()
    except UnicodeDecodeError:
        return value.decode("latin-1").strip()


def _add(fields: PutFields, properties: dict[str, TypedValue]) -> None:
    for name, value in properties.items():
        if name in fields.properties:
            raise twice(USER_PROPERTIES, name)
        fields.properties[name] = value


def _correlation(fields: PutFields, version: RestVersion, text: str) -> None:
    fields.correlation = correlation_in(version, "ibm-mq-md-correlationId", text)


def _expiry(fields: PutFields, version: RestVersion, text: str) -> None:
    if text == "unlimited":
        return
    if not _MS.fullmatch(text) or int(text) > EXPIRY_MS_MAX:
        why = f"{shown(text)} is neither unlimited nor milliseconds, 0 to {EXPIRY_MS_MAX}"
        raise InvalidValueError("ibm-mq-md-expiry", why)
    fields.expiry = max(1, -(-int(text) // 100))


def _persistence(fields: PutFields, version: RestVersion, text: str) -> None:
    found = {"nonPersistent": MQPER.NOT_PERSISTENT, "persistent": MQPER.PERSISTENT}.get(text)
    if found is None:
        raise InvalidValueError("ibm-mq-md-persistence", f"{shown(text)} is neither nonPersistent nor persistent")
    fields.persistence = found.value


def _priority(fields: PutFields, version: RestVersion, text: str) -> None:
    if text == "asDestination":
        return
    if len(text) != 1 or text not in "0123456789":
        raise InvalidValueError("ibm-mq-md-priority", f"{shown(text)} is neither 0 to 9 nor asDestination")
    fields.priority = int(text)


def _reply_to(fields: PutFields, version: RestVersion, text: str) -> None:
    q_name, at, q_mgr_name = text.partition("@")
    if not _Q_NAME.fullmatch(q_name) or (at and not _Q_NAME.fullmatch(q_mgr_name)):
        raise InvalidValueError("ibm-mq-md-replyTo", f"{shown(text)} is neither queue nor queue@queue-manager")
    fields.reply_to_q, fields.reply_to_q_mgr = q_name, q_mgr_name


_READERS: Final[dict[bytes, Callable[[PutFields, RestVersion, str], None]]] = {
    b"ibm-mq-md-correlationid": _correlation,
    b"ibm-mq-md-expiry": _expiry,
    b"ibm-mq-md-persistence": _persistence,
    b"ibm-mq-md-priority": _priority,
    b"ibm-mq-md-replyto": _reply_to,
}
_CSRF: Final = b"ibm-mq-rest-csrf-token"
_LATER: Final = (b"ibm-mq-md-priority",)
_USER_PROPERTIES: Final = USER_PROPERTIES.encode()
_USER_PROPERTY: Final = _USER_PROPERTIES + b"-"
