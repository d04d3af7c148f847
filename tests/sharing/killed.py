"""A member of a group that kills itself at a step of the commit of its one unit of work:
`python -m tests.sharing.killed DSN GROUP DATA STEP`.
"""

from __future__ import annotations

import os
import signal
import sys

import anyio

from broker import QueueManager, QueueSharingGroup
from broker.mqi import MQGMO, MQPMO, MessageDescriptor
from tests.conformance.expect import ALL
from tests.sharing.steps import Break, Step

PERSISTENT = MessageDescriptor(persistence=1)


async def run(dsn: str, group: str, data: str, step: Step) -> None:
    """Get one message and put one, on a shared queue and on a private one; commit, and die of it."""
    async with (
        QueueManager.open(name="QM1", data=data, group=QueueSharingGroup(group, dsn)) as manager,
        manager.connect("killed") as program,
    ):
        await program.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)\nDEFINE QLOCAL(OWN)")
        for q_name in ("Q", "OWN"):
            queue = await program.open(q_name, ALL)
            await queue.put(b"old", PERSISTENT)
            await queue.get(options=MQGMO.SYNCPOINT)
            await queue.put(b"new", PERSISTENT, MQPMO.SYNCPOINT)
        Break(manager, step, lambda: os.kill(os.getpid(), signal.SIGKILL))
        await program.commit()
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(run, sys.argv[1], sys.argv[2], sys.argv[3], Step[sys.argv[4]])
