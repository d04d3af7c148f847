"""Make the connections of the monitor and of its handlers, and tell when there will be no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from broker import Connection
from broker.mqi import MQRC

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


async def connected(source: EmbeddedManager | Connection, appl_name: str) -> Connection:
    """A new connection, to be entered. Raises MQError, such as MAX_CONNS_LIMIT_REACHED (2025)."""
    if isinstance(source, Connection):
        return await source.connect(appl_name)
    return source.connect(appl_name)
