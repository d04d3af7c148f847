"""Delayed and periodic work, kept by the queue manager: no clock process, and nothing is lost when programs end.

Run it with `python examples/reminders.py`. It needs no daemon and leaves nothing behind.
"""

import asyncio

from broker import QueueManager
from triggers import App, Tick


async def main() -> None:
    """Put what is due later, cancel one, have a key suppress a duplicate, and run something each second."""
    async with QueueManager.open(name="QM1") as manager:
        app = App(manager, name="reminders")
        ticked = asyncio.Event()

        @app.handler("REMINDERS")
        async def remind(text: str) -> None:
            print(text)

        @app.every("1s")
        async def tick(tick: Tick) -> None:
            if not ticked.is_set():
                print(f"run at a whole second: {tick.scheduled_at.microsecond == 0}")
            ticked.set()

        async with app.running():
            await app.put("REMINDERS", "the cake is done", delay=0.4)
            await app.put("REMINDERS", "stir", delay=0.2)
            mistake = await app.put("REMINDERS", "open the oven", delay=0.3)
            print(f"cancelled: {await app.cancel(mistake)}")
            await app.put("REMINDERS", "call Ann", key="call-ann")
            again = await app.put("REMINDERS", "call Ann", key="call-ann")  # say, when a request was repeated
            print(f"put again: {not again.duplicate}")
            await asyncio.sleep(0.8)
            await ticked.wait()


if __name__ == "__main__":
    asyncio.run(main())
