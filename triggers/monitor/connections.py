"""Make the connections of the monitor and of its handlers, and tell when there will be no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, cast

from broker import Connection
from broker.mqi import MQRC, MQError

if TYPE_CHECKING:
    from broker import Clock

ENDED: Final = frozenset(
    {
        MQRC.CONNECTION_BROKEN,
        MQRC.HCONN_ERROR,
        MQRC.Q_MGR_NOT_AVAILABLE,
        MQRC.Q_MGR_QUIESCING,
        MQRC.Q_MGR_STOPPING,
    }
)
"""The reasons after which a queue manager starts nothing more through this connection."""


class EmbeddedManager(Protocol):
    """A queue manager in this process, as it is needed here: `broker.QueueManager` is one."""

    @property
    def clock(self) -> Clock: ...
    def connect(self, appl_name: str = "") -> Connection: ...


class JudgingManager(EmbeddedManager, Protocol):
    """One that judges calls, as `broker.QueueManager` does."""

    def connect(self, appl_name: str = "", *, as_user: str | None = None) -> Connection: ...


async def connected(source: EmbeddedManager | Connection, appl_name: str, user: str = "") -> Connection:
    """A new connection, to be entered; with `user` its calls are judged as that user's. Raises MQError, such as
    MAX_CONNS_LIMIT_REACHED (2025), NOT_AUTHORIZED (2035) for one who may not connect, and over a connection.
    """
    if not isinstance(source, Connection):
        return cast("JudgingManager", source).connect(appl_name, as_user=user) if user else source.connect(appl_name)
    if user:
        raise MQError(MQRC.NOT_AUTHORIZED, f"user={user!r}: over a connection handlers are of the user of that")
    return await source.connect(appl_name)
