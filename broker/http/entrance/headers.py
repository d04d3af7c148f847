"""The headers of a request, as the scope of ASGI has them: names in small letters, values in bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def header_values(scope: Mapping[str, Any], name: bytes) -> list[bytes]:
    """Return the values of all headers of this name, which is in small letters."""
    return [value for each, value in scope["headers"] if each == name]
