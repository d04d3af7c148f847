"""Single values in the frames of a client that the port takes as they are, checked. A wrong one is an MQError, which
answers its call.
"""

from __future__ import annotations

from typing import Final

from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.wire.frames import WireError

LONG_MIN: Final = -(2**31)
LONG_MAX: Final = 2**32 - 1
NUMBER_MAX: Final = 2**63 - 1


def long(value: object, reason: MQRC, what: str) -> int:
    """An integer of 32 bits."""
    if type(value) is not int or not LONG_MIN <= value <= LONG_MAX:
        raise MQError(reason, f"{what} is not an integer of 32 bits")
    return value


def text(value: object, longest: int, reason: MQRC, what: str) -> str:
    """A text of at most so many characters."""
    if type(value) is not str or len(value) > longest:
        raise MQError(reason, f"{what} is not a text of at most {longest} characters")
    return value


def data(value: object) -> bytes:
    """The data of a message."""
    if type(value) is not bytes:
        raise MQError(MQRC.BUFFER_ERROR, "the data of the message is not bytes")
    return value


def number(value: object, what: str) -> int:
    """A sequence, a count or the like: 63 bits without a sign."""
    if type(value) is not int or not 0 <= value <= NUMBER_MAX:
        raise MQError(MQRC.OPTIONS_ERROR, f"{what} is not an integer of 0 to {NUMBER_MAX}")
    return value


def flag(value: object, verb: str, what: str) -> bool:
    """Whether the call says what it may say or not."""
    if type(value) is not bool:
        raise WireError(f"{verb} says neither {what} nor not")
    return value
