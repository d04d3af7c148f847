"""Settings as text: a value as TOML writes it, and without the passwords that are in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

MASK: Final = "***"

_GROUPED_FROM: Final = 10_000
"""Whole numbers from here on are written with underscores."""


def toml(value: object) -> str:
    """Return a value of a setting as TOML writes it, the passwords in it as `***`."""
    match value:
        case None:
            return '""'
        case bool():
            return str(value).lower()
        case int() if value >= _GROUPED_FROM:
            return f"{value:_}"
        case int() | float():
            return str(value)
        case tuple():
            return f"[{', '.join(map(toml, value))}]"
        case str() | Path():
            return json.dumps(without_password(str(value)), ensure_ascii=False)
        case _:
            raise AssertionError(f"{type(value).__name__} is the value of no setting")


def without_password(text: str) -> str:
    """Return a text with `***` for the password of an address: before the host, or a parameter of its query."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return text
    address, mark, query = rest.partition("?")
    user, at, host = address.rpartition("@")
    name, colon, _ = user.partition(":")
    parts = [_without_value(part) for part in query.split("&")]
    return f"{scheme}://{name}{colon and f':{MASK}'}{at}{host}{mark}{'&'.join(parts)}"


def _without_value(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    return f"{name}={MASK}" if equals and name.lower().endswith("password") else parameter
