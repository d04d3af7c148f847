"""The value that a handler has returned, as a record of the history has it."""

from __future__ import annotations

from collections.abc import Sized

from broker.mqi import Returned
from triggers.bodies.plain_json import plain_json


def returned(value: object, longest: int) -> Returned:
    """Return the JSON of a value, or its type and length where that is none or longer than `longest` bytes. The work is
    done: nothing that is wrong with the value fails it.
    """
    try:
        text = plain_json(value).encode()
    except Exception:  # also of the program's own models
        return Returned(b"", type(value).__name__, _length(value))
    return Returned(text) if len(text) <= longest else Returned(b"", type(value).__name__, len(text))


def _length(value: object) -> int:
    try:
        return len(value) if isinstance(value, Sized) else 0
    except Exception:
        return 0
