"""Request and reply: what a handler returns is put as the reply, in the handler's unit of work.

Run it with `python examples/quotes.py`. It needs no daemon and leaves nothing behind.
"""

import asyncio
from dataclasses import dataclass

from broker import QueueManager
from triggers import App, Reject, RequestError


@dataclass
class Question:
    item: str
    count: int


@dataclass
class Quote:
    price: float


PRICES = {"chair": 40.0, "table": 150.0}


async def main() -> None:
    """Ask for three quotes at once, and for one that there is not."""
    async with QueueManager.open(name="QM1") as manager:
        app = App(manager, name="quotes")

        @app.handler("QUOTES")
        async def quote(question: Question) -> Quote:
            if question.item not in PRICES:
                raise Reject(f"we have no {question.item}")
            return Quote(PRICES[question.item] * question.count)

        async with app.running():
            questions = [Question("chair", 4), Question("table", 1), Question("chair", 1)]
            quotes = await asyncio.gather(*(app.request("QUOTES", each, timeout=5, type=Quote) for each in questions))
            for question, answer in zip(questions, quotes, strict=True):
                print(f"{question.count} x {question.item}: {answer.price:.2f}")
            try:
                await app.request("QUOTES", Question("boat", 1), timeout=5, type=Quote)
            except RequestError as error:
                print(f"refused, reason {error.reason}")


if __name__ == "__main__":
    asyncio.run(main())
