"""The words about units of work that a database of the program's own decides (`docs/rules/transactions.md`).

Such a unit is *prepared*: durable, and without effect until somebody who sees that database says what it has decided.
A unit is named by 16 random bytes, shown as a UUID, and a database by 16 others, which nothing shows whole: who has
them may decide its units.
"""

from __future__ import annotations

from enum import IntEnum, unique
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.mqi.delivery_fields import Settlement

ID_BYTES: Final = 16
"""The length of the name of a unit, and of a database id."""

NAME_BYTES: Final = 100
"""The longest name of a database, for people, in UTF-8; what is longer is cut."""

SHARED_UNIT: Final = (
    "a shared queue is in this unit of work: the database of the queue-sharing group decides it, and no other"
)
"""The detail of an OPTION_NOT_VALID_FOR_TYPE (2045) that refuses a unit."""

UNITS_MAX: Final = 500
"""The most units that one call is about, and that one answer names."""


class PreparedDelivery(NamedTuple):
    """A delivery that ends with a prepared unit. `settlement.id` is the delivery, its outcome DONE; its `failed` leave
    the unit, and are charged, when it is prepared.
    """

    unit: bytes
    settlement: Settlement


class Decision(NamedTuple):
    """The decision about a unit. `commit` None: its owner gives up, and a resolver decides. `settlement` is how a
    delivery that is backed out is charged, by its outcome; None: as the loss of a worker that left it in doubt.
    """

    unit: bytes
    commit: bool | None
    settlement: Settlement | None = None


@unique
class Decided(IntEnum):
    """The answer about one decision, where it is no reason code."""

    DONE = 0
    UNKNOWN = 1  # there is no such unit of this database, or another decision about it was faster


class Doubt(NamedTuple):
    """A unit without owner, and when it was prepared (seconds since 1970)."""

    unit: bytes
    since: float


def digits_of(database: bytes) -> str:
    """Return 8 hexadecimal digits of a hash of a database id: what of it may be shown."""
    return sha256(database).hexdigest()[:8]


def label_of(database: bytes, name: str) -> str:
    """Return the name of a database for people, with those digits."""
    digits = digits_of(database)
    return f"{name} {digits}" if name else digits


def check_id(id: bytes, what: str) -> bytes:
    """Raise OPTIONS_ERROR (2046) for what is no name of a unit and no database id."""
    if not isinstance(id, (bytes, bytearray, memoryview)) or len(id) != ID_BYTES:
        raise MQError(MQRC.OPTIONS_ERROR, f"{what} has {ID_BYTES} bytes")
    return bytes(id)
