"""The words about steps: what a handler has finished for a message (transactions rules 7.1 to 7.6)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgpack

if TYPE_CHECKING:
    from collections.abc import Mapping

STEP_NAME_MAX: Final = 100
STEP_BYTES: Final = 64 * 1024
STEPS_MAX: Final = 1000
STEPS_BYTES: Final = 256 * 1024
"""The most characters of a step's name and the most bytes of its value; the most steps of a message, and the most bytes
of their names and values together.
"""

STEP_SUFFIX_MAX: Final = 5
"""The most characters of the number behind a name that came again: `#2` to `#1000`."""

_SUFFIX: Final = re.compile(r"#[0-9]{1,4}\Z")


def fits(name: str) -> bool:
    """True for the name of a step: 1 to 100 characters, and `#2` and the like behind them for one that came again."""
    return 0 < len(_SUFFIX.sub("", name)) <= STEP_NAME_MAX


def size_of(name: str, value: bytes) -> int:
    """The bytes of a step, as the limits count them."""
    return len(name.encode()) + len(value)


def check_step_name(name: str, *, numbered: bool = True) -> None:
    """Raise ValueError for what is no name of a step; where it may not be `numbered`, for `charge#2` too."""
    if not numbered and _SUFFIX.search(name):
        raise ValueError(f"step {name!r}: so ends the name of a step that is called again; choose another one")
    if not fits(name):
        raise ValueError(f"a step has a name of 1 to {STEP_NAME_MAX} characters, not of {len(name)}")


def check_step_value(name: str, value: bytes) -> None:
    """Raise ValueError for a value that is too long to be kept."""
    if len(value) > STEP_BYTES:
        raise ValueError(
            f"step {name!r} has a value of {len(value)} bytes, more than {STEP_BYTES}: return a reference to what is "
            "large, and keep that itself elsewhere"
        )


def pack_steps(steps: Mapping[str, bytes]) -> bytes:
    """As a dead letter bears them, in its property `evermq.steps`."""
    packed: bytes = msgpack.packb(list(steps.items()))
    return packed


def unpack_steps(packed: bytes) -> dict[str, bytes] | None:
    """The steps that a dead letter bears, by name; None for what are none, or more than a message may have."""
    if len(packed) > 2 * STEPS_BYTES:
        return None
    try:
        pairs = msgpack.unpackb(packed)
        steps = dict(pairs)
    except (ValueError, TypeError):
        return None
    if not 0 < len(steps) == len(pairs) <= STEPS_MAX:
        return None
    if not all(_is_step(name, value) for name, value in steps.items()):
        return None
    return steps if sum(size_of(name, value) for name, value in steps.items()) <= STEPS_BYTES else None


def _is_step(name: object, value: object) -> bool:
    return isinstance(name, str) and isinstance(value, bytes) and fits(name) and len(value) <= STEP_BYTES
