"""Find the queues of a queue manager that take dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.interface import Connection

DESCRIPTION: Final = "Dead letters of "
"""So begins the description of a queue that `triggers.app.definitions` has defined for the dead letters of handlers."""


async def dead_letter_queues(connection: Connection) -> list[str]:
    """Return the local queues that take dead letters, by name: that of the queue manager (DEADQ), those that queues
    name (BOQNAME), and those that were defined for handlers.
    """
    [manager] = await connection.mqsc("DISPLAY QMGR DEADQ", check=True)
    [displayed] = await connection.mqsc("DISPLAY QLOCAL(*) BOQNAME DESCR", check=True)
    queues = displayed.attributes
    named = {str(queue["BOQNAME"]) for queue in queues} | {str(manager.attributes[0]["DEADQ"])}
    named |= {str(queue["QUEUE"]) for queue in queues if str(queue["DESCR"]).startswith(DESCRIPTION)}
    return sorted({str(queue["QUEUE"]) for queue in queues} & named)
