"""Message and correlation identifiers as text: 48 hexadecimal digits, in version 3 with `ID:` before them."""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.http.rest.messaging.versions import InvalidValueError, RestVersion, shown
from broker.mqi import MQCI_NONE, MQMI_NONE

ID_BYTES: Final = 24
PREFIX: Final = "ID:"
STRING_MAX: Final = 1024
"""The longest correlation string that an answer tells, in characters; of a longer one it tells CorrelId."""


class CorrelationId(NamedTuple):
    """A correlation identifier: the bytes of CorrelId, and the string of an application, empty where there is none."""

    id: bytes = MQCI_NONE
    string: str = ""

    @property
    def cut(self) -> bool:
        """True for a string that is longer than CorrelId: the bytes alone do not tell it from others."""
        return len(self.string.encode()) > ID_BYTES


NO_CORRELATION: Final = CorrelationId()


def id_in(version: RestVersion, name: str, text: str) -> bytes:
    """Return the 24 bytes that the text says. Raises InvalidValueError."""
    digits = text
    if version.has_properties:
        if not text.startswith(PREFIX):
            raise _no_id(version, name, text)
        digits = text[len(PREFIX) :]
    try:
        found = bytes.fromhex(digits) if len(digits) == 2 * ID_BYTES else b""
    except ValueError:
        found = b""
    if len(found) != ID_BYTES:
        raise _no_id(version, name, text)
    return found


def _no_id(version: RestVersion, name: str, text: str) -> InvalidValueError:
    prefix = f"{PREFIX} and " if version.has_properties else ""
    return InvalidValueError(name, f"an identifier is {prefix}48 hexadecimal digits, not {shown(text)}")


def id_out(version: RestVersion, id: bytes) -> str:
    """Return an identifier as answers have it."""
    return f"{PREFIX}{id.hex()}" if version.has_properties else id.hex()


def correlation_in(version: RestVersion, name: str, text: str) -> CorrelationId:
    """Return the correlation identifier that the text says: in version 3 any text without `ID:` is the string of an
    application. Raises InvalidValueError.
    """
    if not version.has_properties or text.startswith(PREFIX):
        return CorrelationId(id_in(version, name, text))
    if not text:
        raise InvalidValueError(name, "it is empty")
    return CorrelationId(text.encode()[:ID_BYTES].ljust(ID_BYTES, b"\0"), text)


def correlation_out(version: RestVersion, found: CorrelationId) -> str:
    """Return a correlation identifier as answers have it; empty for none."""
    if found.id == MQCI_NONE and not found.string:
        return ""
    said = version.has_properties and found.string.isprintable() and len(found.string) <= STRING_MAX
    return found.string if said and found.string else id_out(version, found.id)


def selected(id: bytes) -> bytes | None:
    """Return what a get is to match: zeros select nothing."""
    return None if id == MQMI_NONE else id
