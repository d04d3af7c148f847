"""The JSON of a body, from objects of the program."""

from __future__ import annotations

import base64
import dataclasses
import enum
import json
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from triggers.bodies.annotations import FORMS, is_model


def plain_json(value: object) -> str:
    """The JSON of a body. Raises TypeError for what JSON and this project have no form for, such as a set; ValueError
    for NaN, for infinity, and for what contains itself.
    """
    return _ENCODER.encode(value)


def _plain(value: object) -> object:
    """A form for what the encoder does not know."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if is_model(type(value)):
        return value.model_dump(mode="json", by_alias=True)  # type: ignore[attr-defined]
    for kinds, form in _WRITTEN:
        if isinstance(value, kinds):
            return form(value)
    raise TypeError(f"a body has no form for {type(value).__name__}; what it may be made of: {FORMS}")


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError(f"a body has no form for Decimal({str(value)!r})")
    return str(value)


_WRITTEN: Final[tuple[tuple[Any, Callable[[Any], object]], ...]] = (
    (enum.Enum, lambda value: value.value),
    (datetime | date | time, lambda value: value.isoformat()),
    (UUID, str),
    (Decimal, _decimal),
    (timedelta, timedelta.total_seconds),
    (bytes | bytearray | memoryview, lambda value: base64.b64encode(value).decode()),
    (Mapping, dict),
)

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
