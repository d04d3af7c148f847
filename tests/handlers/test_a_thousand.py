"""A thousand messages, of which handlers fail on one in twenty now and then, and on one in a hundred always."""

from __future__ import annotations

import random

import pytest

from triggers import App, Attempt, Retry

COUNT = 1_000
RETRIES = 3


@pytest.mark.parametrize("seed", range(3))
async def test_only_the_poison_ones_are_dead_and_all_starts_are_told(seed: int) -> None:
    chance = random.Random(seed)
    poison = set(chance.sample(range(COUNT), COUNT // 100))
    done: list[int] = []
    failed = 0
    app = App("mq://127.0.0.1:1", name="thousand")

    @app.handler("ORDERS", retry=Retry(RETRIES, backoff=(0.1, 60)), concurrency=20)
    async def handle(order: dict[str, int], attempt: Attempt) -> None:
        nonlocal failed
        number = order["number"]
        if number in poison or (attempt.number <= RETRIES and chance.random() < 0.05):
            failed += 1
            raise ValueError(f"order {number}")
        done.append(number)

    async with app.test(seed=seed) as t:
        with t.failures():
            for number in range(COUNT):
                await t.put("ORDERS", {"number": number})
            await t.idle(delayed=True)
        assert sorted(done) == sorted(set(range(COUNT)) - poison)
        dead = await t.browse("ORDERS.DEAD")
        assert sorted(str(message.properties["evermq.error"]) for message in dead) == sorted(
            f"order {n}" for n in poison
        )
        assert {message.properties["evermq.attempts"] for message in dead} == {RETRIES + 1}
        assert {message.properties["evermq.why"] for message in dead} == {"failed"}
        assert t.manager.core.objects.queues["ORDERS"].depth == 0
        ((_, _, counts),) = [each for each in t.manager.core.deliveries.counts() if each[0] == "ORDERS"]
        retries = failed - len(poison)
        assert (counts.started, counts.retried) == (COUNT + retries, retries)
        assert (counts.succeeded, counts.failed, counts.dead_lettered) == (COUNT - len(poison), failed, len(poison))
