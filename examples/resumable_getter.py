"""Gets one message group, four messages to a unit of work, and does something with each of them exactly once. Killed at
any moment, it goes on when it is run again.

Start the daemon with `evermq run`, put a group with `examples/resumable_putter.py`, then run
`python examples/resumable_getter.py [URL]`, kill it, and run it again. Without a URL it takes that of the variable
EVERMQ_URL, and without that the daemon's default.
"""

import asyncio
import os
import sys

import broker
from broker.groups import GroupGetter
from broker.mqi import MQPER, MQPMO

DEFAULT_URL = "mq://127.0.0.1:1414"


async def main(url: str) -> None:
    """Get one group, or what is left of it, and put each line on another queue in capitals."""
    async with broker.connect(url, appl_name="resumable getter") as connection:
        await connection.mqsc("DEFINE QLOCAL(LINES)\nDEFINE QLOCAL(LINES.GOT)\nDEFINE QLOCAL(CAPITALS)")

        # LINES.GOT holds how far the group has come: each unit of work replaces that together with its gets.
        async with GroupGetter(connection, "LINES", "LINES.GOT", messages_per_unit=4) as getter:
            print(f"goes on behind line {getter.resumed_at}")
            async for message in getter:  # waits for what has not been put yet, and ends with the group
                # Under syncpoint on the same connection, so in the same unit of work: it happens once, whatever comes.
                line = message.data.decode().upper()
                await connection.put1("CAPITALS", line, options=MQPMO.SYNCPOINT, persistence=MQPER.PERSISTENT)
                print(f"got line {message.md.msg_seq_number}")
        print("got the whole group")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("EVERMQ_URL", DEFAULT_URL)))
