"""The names of objects: queues, queue managers, process definitions."""

import re
from typing import Final

NAME_LENGTH: Final = 48
"""The most characters in the name of an object (MQ_Q_NAME_LENGTH and its kin)."""

CHANNEL_NAME_LENGTH: Final = 20
"""The most characters in the name of a channel (MQ_CHANNEL_NAME_LENGTH)."""

_NAME: Final = re.compile(r"[A-Za-z0-9./_%]+")


def is_generic_name(text: str) -> bool:
    """True if this can name an object, or all whose names begin so, with an asterisk at its end."""
    return text == "*" or is_name(text.removesuffix("*"))


def is_name(text: str, longest: int = NAME_LENGTH) -> bool:
    """True if this can name an object: 1 to `longest` characters from A-Z a-z 0-9 . / _ %."""
    return len(text) <= longest and _NAME.fullmatch(text) is not None


def no_local_queue(name: str) -> str:
    """Return the text of the error for a name that should be that of a local queue, and means none."""
    return f"there is no local queue {name}"
