"""Poison: a message that no attempt can handle goes to the dead-letter queue with its reason, and can be put back.

Run it with `python examples/poison.py`. It needs no daemon and leaves nothing behind.
"""

import asyncio
from dataclasses import dataclass

from broker import QueueManager
from broker.mqi import MQGMO, MQOO
from triggers import App, Attempt, Retry


@dataclass
class Order:
    item: str
    count: int


async def main() -> None:
    """Handle three orders, of which one cannot be read, and one is handled at the third attempt."""
    async with QueueManager.open(name="QM1") as manager:
        app = App(manager, name="poison")

        @app.handler("ORDERS", retry=Retry(2, backoff=0.05), dead_letter="ORDERS.DEAD")
        async def ship(order: Order, attempt: Attempt) -> None:
            print(f"{order.item}, attempt {attempt.number}")
            if order.item == "fog":
                raise ValueError("fog cannot be shipped")
            if order.item == "snow" and attempt.number < 3:
                raise ConnectionError("the sledge is out")

        async with app.running():
            for item in ("chair", "fog", "snow"):
                await app.put("ORDERS", Order(item, 1))
            await app.put("ORDERS", b"\x80 is no JSON")
            await asyncio.sleep(0.5)

        async with manager.connect() as connection, connection.open("ORDERS.DEAD", MQOO.BROWSE) as dead:
            letters = await dead.get_many(10, options=MQGMO.BROWSE_NEXT | MQGMO.PROPERTIES_IN_HANDLE)
            for letter in letters:
                found = {name: letter.properties.get(f"evermq.{name}") for name in ("why", "attempts", "exception")}
                print(found)


if __name__ == "__main__":
    asyncio.run(main())
