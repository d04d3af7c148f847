"""Converters of values that contain no others: null, numbers, text, and all that has the form of text or a number."""

from __future__ import annotations

import base64
import enum
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from functools import partial
from types import NoneType
from typing import Any, Final, TypeAlias
from uuid import UUID

from triggers.bodies.misfits import KINDS, Misfit, wrong
from triggers.bodies.plain_json import plain_json

Converter: TypeAlias = Callable[[Any], Any]
"""Returns a value as its annotation says. Raises Misfit."""


def as_it_is(value: object) -> object:
    """The converter of Any."""
    return value


def _exactly(kind: type, value: object) -> object:
    if type(value) is not kind:
        wrong(KINDS[kind], value)
    return value


def _float(value: object) -> object:
    if type(value) is float:
        return value
    if type(value) is not int:
        wrong("a number", value)
    try:
        return float(value)
    except OverflowError:
        raise Misfit(("", "is too large for a float")) from None


def _bytes(value: object) -> object:
    if type(value) is bytes:
        return value
    if type(value) is not str:
        wrong("bytes, as base64", value)
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise Misfit(("", "is no base64")) from None


def _read_by(read: Callable[[Any], object], kinds: tuple[type, ...], what: str, value: object) -> object:
    """Convert text, or a value of the other kinds, by `read`."""
    if type(value) not in kinds:
        wrong(what, value)
    try:
        return read(value)
    except (ValueError, InvalidOperation, OverflowError):
        raise Misfit(("", f"is not {what}")) from None


def _instant(value: object) -> object:
    """A datetime, as msgpack has it too."""
    if isinstance(value, datetime):
        return value
    return _read_by(datetime.fromisoformat, (str,), "a date and time in ISO 8601", value)


def _seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


SCALARS: Final[dict[type, Converter]] = {
    **{kind: partial(_exactly, kind) for kind in (NoneType, bool, int, str)},
    float: _float,
    bytes: _bytes,
    datetime: _instant,
    date: partial(_read_by, date.fromisoformat, (str,), "a date in ISO 8601"),
    time: partial(_read_by, time.fromisoformat, (str,), "a time in ISO 8601"),
    timedelta: partial(_read_by, _seconds, (int, float), "a number of seconds"),
    UUID: partial(_read_by, UUID, (str,), "a UUID"),
    Decimal: partial(_read_by, lambda value: Decimal(str(value)), (str, int, float), "a decimal number"),
}
"""The converters by their types."""

KEYS: Final[dict[Any, Converter]] = {
    str: partial(_exactly, str),
    int: partial(_read_by, int, (str, int), "an integer"),
    Any: as_it_is,
}
"""The converters of the names in an object."""


def literal(values: Sequence[Any]) -> Converter:
    """Return the converter of a Literal of these values."""
    known = {(type(each), each): each for each in values}
    for each in values:
        if isinstance(each, enum.Enum):
            known[type(each.value), each.value] = each

    def check(value: object) -> object:
        try:
            return known[type(value), value]
        except (KeyError, TypeError):
            raise Misfit(("", f"is none of {', '.join(map(repr, values))}")) from None

    return check


def enumerated(kind: type[enum.Enum]) -> Converter:
    """Return the converter of an Enum, by the JSON of its values."""
    by_form = {plain_json(member.value): member for member in kind}

    def find(value: object) -> object:
        try:
            return by_form[plain_json(value)]
        except (KeyError, TypeError, ValueError):
            raise Misfit(("", f"is no value of {kind.__name__}")) from None

    return find
