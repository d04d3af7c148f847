"""Single values in the frames of a client, checked. A wrong one is an MQError, which answers its call."""

from __future__ import annotations

from typing import Any, Final

from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

LONG_MIN: Final = -(2**31)
LONG_MAX: Final = 2**32 - 1  # flags may use the highest bit of their field
NAME_MAX: Final = 48
TOKEN_LENGTH: Final = 16
_ID_LENGTH: Final = 24


def long(value: object, reason: MQRC, what: str) -> int:
    """An integer of 32 bits."""
    if type(value) is not int or not LONG_MIN <= value <= LONG_MAX:
        raise MQError(reason, f"{what} is not an integer of 32 bits")
    return value


def text(value: object, longest: int, reason: MQRC, what: str) -> str:
    """A text of at most so many characters."""
    if type(value) is not str or len(value) > longest:
        raise MQError(reason, f"{what} is not a text of at most {longest} characters")
    return value


def identifier(value: object, reason: MQRC, what: str) -> bytes | None:
    """An identifier, or None."""
    if value is None:
        return None
    if type(value) is not bytes or len(value) != _ID_LENGTH:
        raise MQError(reason, f"{what} is not {_ID_LENGTH} bytes")
    return value


def data(value: object) -> bytes:
    """The data of a message."""
    if type(value) is not bytes:
        raise MQError(MQRC.BUFFER_ERROR, "the data of the message is not bytes")
    return value


def types(fields: object) -> tuple[type, ...] | None:
    """The types of the items of a list; None for anything else."""
    return tuple(map(type, fields)) if type(fields) is list else None


def structure(fields: Any, kinds: tuple[type, ...], reason: MQRC, what: str) -> list[Any]:
    """The fields of a structure, of the right types, its integers of 32 bits."""
    if types(fields) != kinds:
        raise MQError(reason, f"{what}: a field is missing or of the wrong type")
    checked: list[Any] = fields
    for value in checked:
        if type(value) is int:
            long(value, reason, f"{what}: a field")
    return checked
