"""The errors of values that are not what an annotation says.

An error has the path of the value, and never the value: that may be anybody's secret.
"""

from __future__ import annotations

from types import NoneType
from typing import Final, NoReturn

KINDS: Final = {
    NoneType: "null", bool: "a bool", int: "an integer", float: "a number", str: "text", bytes: "bytes", list: "a list",
    dict: "an object",
}  # fmt: skip
"""The plain values by their types, for the texts of errors."""


class Misfit(Exception):
    """A value is not what an annotation says. `errors` are paths, such as `.lines[2].price`, each with what is wrong
    there.
    """

    def __init__(self, *errors: tuple[str, str]) -> None:
        super().__init__(*errors)
        self.errors = errors

    def under(self, step: str) -> list[tuple[str, str]]:
        """Its errors as seen from one step above."""
        return [(step + path, text) for path, text in self.errors]


def wrong(expected: str, value: object) -> NoReturn:
    """Raise that a value is of another kind than the expected one."""
    raise Misfit(("", f"is {KINDS.get(type(value), type(value).__name__)}, not {expected}"))
