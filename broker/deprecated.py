"""Old names that work for one more release (`docs/reference/versions.md`), each with a warning that names the new."""

from __future__ import annotations

import sys
import warnings
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

_OURS: Final = ("broker", "triggers")


class Renamed(NamedTuple):
    """A name of a function, or of one of its arguments, that was replaced."""

    function: str
    old: str
    new: str

    def rename(self, given: dict[str, Any]) -> None:
        """Give an argument that was given by its old name its new one, and warn of the caller's line
        (DeprecationWarning). Both names, and any other in place of the old one, are a TypeError.
        """
        function, old, new = self.function.rpartition(".")[2], self.old, self.new
        if old not in given:
            raise TypeError(f"{function}() got an unexpected keyword argument {next(iter(given))!r}")
        if new in given:
            raise TypeError(f"{function}() has {new}= and its old name {old}=: give {new}= alone")
        given[new] = given.pop(old)
        warn(f"{function}({old}=)", f"{new}=")


RENAMED: Final[set[Renamed]] = set()
"""The old names of all modules that are imported."""


def old_argument(function: str, old: str, new: str) -> Renamed:
    """Make an old name of an argument known that a function deals with itself, since each call of it counts."""
    known = Renamed(function, old, new)
    RENAMED.add(known)
    return known


def renamed_argument(old: str, new: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let callers of a function name its argument `new`, which is by keyword only, by its old name too.

    Such a call warns of the line that makes it (DeprecationWarning). Both names in one call are a TypeError.
    """

    def with_old_name(function: Callable[P, R]) -> Callable[P, R]:
        known = old_argument(function.__qualname__, old, new)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if old in kwargs:
                known.rename(kwargs)
            return function(*args, **kwargs)

        return call

    return with_old_name


def renamed(old: str, function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that is called by its old name: each call warns of its line (DeprecationWarning)."""
    RENAMED.add(Renamed(function.__qualname__, old, function.__name__))

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        warn(f"{old}()", f"{function.__name__}()")
        return function(*args, **kwargs)

    return call


def warn(old: str, new: str) -> None:
    """Warn of the line outside EverMQ that has used an old name."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _OURS:
        frame, level = frame.f_back, level + 1
    warnings.warn(f"{old} is deprecated, and goes with 0.2: use {new}", DeprecationWarning, stacklevel=level)
