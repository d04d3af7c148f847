"""Errors of the database, and what each means to a program."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

LOST: Final = (
    asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError, asyncpg.OperatorInterventionError,
    asyncpg.InternalClientError,
)  # fmt: skip
"""Errors of a session that is lost, or where no other can be had. The last is, where the server has said that it
ends the session, and has not closed it yet.
"""

FENCED: Final = "EM003"
"""The SQLSTATE where this life of the member is over (`fence` in the schema)."""

FULL: Final = "EM053"
"""The SQLSTATE where a queue would hold too many messages."""

AGAIN: Final = ("40001", "40P01")  # serialization_failure, deadlock_detected
"""The SQLSTATEs of a transaction that was given up for others' sake: it is made again."""

_OURS: Final = "EM"
"""The class of the SQLSTATEs that the functions of the schema raise, before they commit anything."""

_REASONS: Final[dict[str | None, MQRC]] = {
    FENCED: MQRC.CF_NOT_AVAILABLE,
    "EM006": MQRC.CF_NOT_AVAILABLE,  # a unit of work would leave messages behind
    "EM007": MQRC.CF_NOT_AVAILABLE,  # somebody else has taken a recovery over, its owner perhaps
    "EM012": MQRC.ENVIRONMENT_ERROR,  # a member of an older release
    "EM042": MQRC.OBJECT_IN_USE,
    "EM005": MQRC.BACKED_OUT,  # the unit of work has been ended by a peer
    FULL: MQRC.Q_FULL,
    "EM055": MQRC.Q_NOT_EMPTY,
    "EM349": MQRC.CF_STRUC_ERROR,
    "55P03": MQRC.CF_STRUC_IN_USE,  # lock_not_available
    "57014": MQRC.CF_STRUC_IN_USE,  # query_canceled: a timeout
    "53100": MQRC.STORAGE_MEDIUM_FULL,  # disk_full
    "42501": MQRC.CF_STRUC_AUTH_FAILED,  # insufficient_privilege
}


class MaybeMadeError(Exception):
    """The session was lost while a transaction was being committed, or the statement that commits it failed, perhaps
    behind that. `result` is what it leads to if it was made, `error` why it was not where the session still stands.
    """

    def __init__(self, result: Any, error: BaseException | None = None) -> None:
        super().__init__()
        self.result = result
        self.error = error


class NotMadeError(Exception):
    """A transaction was not made, for no fault of its own."""


class OutcomeUnknownError(Exception):
    """The session was lost while the transaction was being committed, and the database is out of reach: it may have
    been, or not. `transaction`: its lane, its queue and its number there, where it may be under way still
    (`settle_turn` in the schema). `result`: what it leads to if it was made, where that is known.
    """

    def __init__(self, why: str, transaction: tuple[int, str, int] | None = None, result: Any = None) -> None:
        super().__init__(why)
        self.transaction = transaction
        self.result = result


class StaleError(MQError):
    """A call relied on a definition of which there is a newer version, or on rights. It is made again when that is
    known.
    """


class OvertakenError(MQError):
    """Another member has changed a definition in between."""


_CLASSES: Final[dict[str | None, type[MQError]]] = {"EM041": StaleError, "EM044": OvertakenError}


def sqlstate_of(error: BaseException) -> str | None:
    """Return the SQLSTATE of an error; None where it is not one of the server."""
    return getattr(error, "sqlstate", None)


def before_commit(error: BaseException) -> bool:
    """True for an error with which a statement ends that has not committed anything, though it commits by itself."""
    sqlstate = sqlstate_of(error) or ""
    return sqlstate in AGAIN or sqlstate.startswith(_OURS)


def mq_error_of(error: BaseException) -> MQError:
    """Return the MQError that an error of the database is to a program."""
    sqlstate = sqlstate_of(error)
    if sqlstate in _CLASSES:
        return _CLASSES[sqlstate](MQRC.OBJECT_CHANGED, str(error))
    if sqlstate in _REASONS:
        return MQError(_REASONS[sqlstate], str(error))
    if isinstance(error, LOST):
        return unreachable(error)
    return MQError(MQRC.CF_NOT_AVAILABLE, f"the database of the group has failed: {error}")


def unreachable(error: BaseException) -> MQError:
    """CF_NOT_AVAILABLE (2345) for a database that has not answered."""
    return MQError(MQRC.CF_NOT_AVAILABLE, f"the database of the group cannot be reached: {str(error) or 'no answer'}")
