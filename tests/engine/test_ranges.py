"""Queues read by arrival number: how far, in how long frames, in which steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from broker.interface.batches.columns import MESSAGES_MAX, integers, unpack
from broker.interface.claims.claims import BrowseSelection
from broker.interface.port import answer
from broker.mqi import MessageDescriptor
from tests.engine.bench import opened
from tests.engine.reader import Reader, bodies_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.engine.bench import Bench

BEYOND: Final = 2**61
"""A number that is allowed, and that no message will ever have."""


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as found:
        yield found


async def browse(bench: Bench, after: int = 0, msg_id: bytes | None = None) -> bytes:
    return await answer(bench.manager.converse().browse_range("Q", after, BEYOND, BrowseSelection(msg_id=msg_id)))


async def test_a_frame_of_a_browse_is_no_longer_than_any(bench: Bench) -> None:
    await bench.queue.put_many([b"%0300d" % number for number in range(MESSAGES_MAX + 2)])
    first = unpack(await browse(bench))
    assert first.messages == MESSAGES_MAX
    assert unpack(await browse(bench, integers(first.keys or b"", "q")[-1])).messages == 2


async def test_a_browse_goes_on_in_steps_until_it_finds_what_is_wanted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.engine.claims.ranges.SHORT_MESSAGES_MAX", 2)
    await bench.queue.put_many([b"A", b"B", b"C", b"D", b"E"])
    await bench.queue.put(b"WANTED", MessageDescriptor(msg_id=b"W" * 24))
    await bench.queue.put(b"F")
    assert bodies_of(await browse(bench, msg_id=b"W" * 24)) == [b"WANTED"]
    assert bodies_of(await browse(bench, msg_id=b"N" * 24)) == []


async def test_a_browse_up_to_a_number_beyond_all_goes_by_arrival_and_ends(bench: Bench) -> None:
    await bench.queue.put(b"A", MessageDescriptor(priority=1))
    await bench.queue.put(b"HIGH", MessageDescriptor(priority=9))
    await bench.queue.put(b"B", MessageDescriptor(priority=1))
    frame = await browse(bench)
    assert bodies_of(frame) == [b"A", b"HIGH", b"B"]
    assert bodies_of(await browse(bench, integers(unpack(frame).keys or b"", "q")[-1])) == []
    assert bodies_of(await browse(bench, BEYOND)) == []


async def test_a_claim_up_to_a_number_beyond_all_gives_each_message_once(bench: Bench) -> None:
    await bench.queue.put(b"A", MessageDescriptor(priority=1))
    await bench.queue.put(b"HIGH", MessageDescriptor(priority=9))
    archive = Reader(bench.manager, "ARCHIVE")
    await archive.register()
    assert await archive.claim(before=BEYOND) == 2
