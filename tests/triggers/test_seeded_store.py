"""The store whose answers take as long as a seed has it."""

from __future__ import annotations

import asyncio

import pytest

from broker import QueueManager
from broker.mqi import MQOO
from broker.storage.store import ObjectRow, Rows, StoreFailedError
from broker.testing import FaultStore, SeededStore


def submit(store: SeededStore, count: int) -> tuple[list[int], list[int]]:
    """Submit batches without rows; which were durable at once, and, in time, which were told to be."""
    reported: list[int] = []

    def tell(number: int) -> None:
        reported.append(number)

    at_once = [number for number in range(count) if store.submit(Rows(), lambda _, number=number: tell(number))]  # type: ignore[misc]
    return at_once, reported


async def test_answers_come_in_their_order() -> None:
    at_once, reported = submit(SeededStore(1), 50)
    assert reported == []
    for _ in range(3 * 50):
        await asyncio.sleep(0)
    assert reported == [number for number in range(50) if number not in at_once]
    assert 0 < len(reported) <= 50


async def turns(seed: int) -> list[int]:
    """After how many turns of the loop each of twenty batches is durable."""
    store, took = SeededStore(seed), []
    for _ in range(20):
        done = asyncio.Event()
        passed = 0
        if not store.submit(Rows(), lambda _, done=done: done.set()):  # type: ignore[misc]
            while not done.is_set():
                await asyncio.sleep(0)
                passed += 1
        took.append(passed)
    return took


async def test_the_same_seed_takes_the_same_turns_another_others() -> None:
    assert await turns(1) == await turns(1)
    assert await turns(1) != await turns(2)
    assert set(await turns(3)) >= {0, 1, 3}


async def test_an_error_is_told_too() -> None:
    store = SeededStore(1)
    await store.write(Rows(objects=[ObjectRow("QUEUE", "A", 1, "QLOCAL", b"")]))
    for _ in range(8):
        with pytest.raises(StoreFailedError):
            await store.write(Rows(objects=[ObjectRow("QUEUE", "B", 1, "QLOCAL", b"")]))


async def test_a_queue_manager_works_on_it_and_finds_its_messages_again() -> None:
    store = FaultStore(SeededStore(7))
    expected = [f"order {number}".encode() for number in range(20)]
    for life in range(2):
        async with QueueManager.open(name="QM1", store=store) as manager, manager.connect() as connection:
            await connection.mqsc("DEFINE QLOCAL(ORDERS)")
            async with connection.open("ORDERS", MQOO.INPUT_SHARED | MQOO.OUTPUT) as orders:
                if life:
                    assert [message.data for message in await orders.get_many(100)] == expected
                for number in range(20):
                    await orders.put(f"order {number}")
