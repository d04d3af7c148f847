"""Settings as text: as TOML writes them, without the passwords that are in them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from broker.config.sections import SECTIONS, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.config.loading import LoadedConfig

MASK: Final = "***"

_GROUPED_FROM: Final = 10_000
"""Whole numbers from here on are written with underscores."""

_SECRET: Final = re.compile("password|passfile|secret|key", re.IGNORECASE)


def printed(loaded: LoadedConfig, *, defaults: bool) -> Iterator[str]:
    """Yield the lines of a file that says the same, each with its origin behind it; with `defaults` all keys."""
    first = True
    for section in SECTIONS:
        values = getattr(loaded.config, section)
        rows = [
            (f"{key} = {toml(getattr(values, key))}", loaded.origins.get((section, key), "default"))
            for key in settings(section)
            if defaults or (section, key) in loaded.origins
        ]
        if rows:
            yield f"[{section}]" if first else f"\n[{section}]"
            first = False
        width = max((len(text) for text, _ in rows), default=0)
        for text, origin in rows:
            yield f"{text.ljust(width)}  # {origin}"


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
    """Return a text with `***` for the password of an address: before the host, or in a parameter of its query."""
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
    return f"{name}={MASK}" if equals and _SECRET.search(unquote(name)) else parameter
