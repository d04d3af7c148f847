"""A client program in a process of its own: `python -m tests.durability.holder URL QUEUE HEARTBEAT`.

It gets a message under syncpoint and tells its key. At the next line of its input it commits, and tells how that ended.
"""

from __future__ import annotations

import asyncio
import sys
from unittest.mock import patch

from broker import MQError
from broker.client import connect, line
from broker.mqi import MQGMO, MQRC
from tests.durability.numbered import key_of
from tests.durability.program import ALL


async def hold(url: str, queue_name: str) -> None:
    """Get, wait for a line, and commit."""
    try:
        async with connect(url, appl_name="holder") as connection, connection.open(queue_name, ALL) as queue:
            message = await queue.get(options=MQGMO.SYNCPOINT)
            _tell(key_of(message.data))
            await asyncio.to_thread(sys.stdin.readline)
            await connection.commit()
            _tell(MQRC.NONE.name)
    except MQError as error:
        _tell(MQRC(error.reason).name)


def _tell(what: str) -> None:
    print(what, flush=True)  # noqa: T201  # whoever started it reads this


if __name__ == "__main__":
    with patch.object(line, "HEARTBEAT_SECONDS", float(sys.argv[3])):
        asyncio.run(hold(*sys.argv[1:3]))
