"""The versions of the messaging resources, and what is refused in all of them."""

from __future__ import annotations

from enum import IntEnum


class RestVersion(IntEnum):
    """A version of the REST API. From 3 on identifiers begin with `ID:`, and there are priorities and properties."""

    V1 = 1
    V2 = 2
    V3 = 3

    @property
    def has_properties(self) -> bool:
        """True where user properties, priorities and correlation strings can be said."""
        return self >= RestVersion.V3


class InvalidValueError(Exception):
    """A header, a parameter or a body whose value is none: its name, and a sentence that says what it may be."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


def shown(value: str) -> str:
    """A value as the text of an error shows it."""
    return ascii(value) if len(value) <= 60 else ascii(value[:60]) + "..."


def twice(name: str, part: str = "") -> InvalidValueError:
    """Return the error for what is said twice: a header or a parameter, or a part of it."""
    return InvalidValueError(name, f"{shown(part)} is there twice" if part else "it is there twice")
