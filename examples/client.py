"""A client of the daemon: priorities, browsing, and a unit of work that is backed out.

Start the daemon with `evermq run`, then run `python examples/client.py [URL]`. Without a URL it takes that of the
variable EVERMQ_URL, and without that the daemon's default.
"""

import asyncio
import os
import sys

import broker
from broker.mqi import MQGMO, MQOO, MQPER, MQRC, MessageDescriptor, MQError

DEFAULT_URL = "mq://127.0.0.1:1414"


async def main(url: str) -> None:
    """Put three messages, look at them, fail once, then get them all."""
    async with broker.connect(url, appl_name="client example") as connection:
        print(f"connected to {connection.q_mgr_name}")

        # A command never raises for what it is told: the reply says how it went. REPLACE makes it safe to repeat.
        for result in await connection.mqsc("DEFINE QLOCAL(EXAMPLE) MAXDEPTH(100) REPLACE\nCLEAR QLOCAL(EXAMPLE)"):
            print(result.text)

        async with connection.open("EXAMPLE", MQOO.INPUT_SHARED | MQOO.OUTPUT | MQOO.BROWSE) as queue:
            # When the put of a persistent message returns, the message is on disk.
            for text, priority in [("coffee", 1), ("bread", 1), ("fire!", 9)]:
                await queue.put(text, MessageDescriptor(priority=priority, persistence=MQPER.PERSISTENT))

            # Browsing shows the messages in the order in which gets will take them, and takes none.
            first = await queue.get(options=MQGMO.BROWSE_FIRST)
            second = await queue.get(options=MQGMO.BROWSE_NEXT)
            print(f"browsed: {first.data.decode()}, then {second.data.decode()}")

            # An exception backs the unit of work out: the message is in its old place, its backout count one higher.
            try:
                async with connection.unit_of_work():
                    message = await queue.get()
                    raise RuntimeError(f"cannot handle {message.data.decode()}")
            except RuntimeError as error:
                print(f"backed out: {error}")

            # Without `wait` a get returns at once: with a message, or with the error that there is none.
            while True:
                try:
                    message = await queue.get()
                except MQError as error:
                    if error.reason == MQRC.NO_MSG_AVAILABLE:
                        break
                    raise
                print(f"got: {message.data.decode()} (backout count {message.md.backout_count})")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("EVERMQ_URL", DEFAULT_URL)))
