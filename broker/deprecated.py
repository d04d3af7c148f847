"""Old names that work for one more release (`docs/reference/versions.md`), each with a warning that names the new."""

from __future__ import annotations

import sys
import warnings
from functools import wraps
from typing import TYPE_CHECKING, Final, NamedTuple, ParamSpec, TypeVar

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


RENAMED: Final[set[Renamed]] = set()
"""The old names of all modules that are imported."""


def renamed_argument(old: str, new: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let callers of a function name its argument `new`, which is by keyword only, by its old name too.

    Such a call warns of the line that makes it (DeprecationWarning). Both names in one call are a TypeError.
    """

    def with_old_name(function: Callable[P, R]) -> Callable[P, R]:
        RENAMED.add(Renamed(function.__qualname__, old, new))

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if old in kwargs:
                if new in kwargs:
                    raise TypeError(f"{function.__name__}() has {new}= and its old name {old}=: give {new}= alone")
                kwargs[new] = kwargs.pop(old)
                _warn(f"{function.__name__}({old}=)", f"{new}=")
            return function(*args, **kwargs)

        return call

    return with_old_name


def renamed(old: str, function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that is called by its old name: each call warns of its line (DeprecationWarning)."""
    RENAMED.add(Renamed(function.__qualname__, old, function.__name__))

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        _warn(f"{old}()", f"{function.__name__}()")
        return function(*args, **kwargs)

    return call


def _warn(old: str, new: str) -> None:
    """Warn of the line outside EverMQ that has used an old name."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _OURS:
        frame, level = frame.f_back, level + 1
    warnings.warn(f"{old} is deprecated, and goes with 0.2: use {new}", DeprecationWarning, stacklevel=level)
