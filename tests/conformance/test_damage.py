"""Messages whose data is damaged on the disk (semantics 5.10)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from broker.config import Config
from broker.mqi import MQGMO, MQMF, MQMO, MQPMO, MQRC, GetMessageOptions, MessageDescriptor, MQError
from broker.testing import FaultStore
from tests.conformance.conftest import STORES
from tests.conformance.expect import ALL
from tests.conformance.system import System
from tests.conformance.ways import WAYS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable
    from pathlib import Path

    from broker import Message, Queue


@pytest.fixture(params=[(way, store) for store in STORES for way in WAYS], ids="-".join)
async def failing(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[System, FaultStore]]:
    """A queue manager that keeps no data in memory, and the store that finds it damaged."""
    way, kind = request.param
    store = FaultStore(STORES[kind](tmp_path)())
    config = replace(Config(), limits=replace(Config().limits, body_bytes=0))
    async with System(lambda: store, way, config) as system:
        await system.mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES)")
        yield system, store
        store.repair()


async def reported(call: Awaitable[Message]) -> bytes | int:
    """The data of the message, or the reason."""
    try:
        return (await call).data
    except MQError as error:
        return error.reason


async def opened(system: System) -> Queue:
    return await (await system.connect("scenario")).open("Q", ALL)


@pytest.mark.parametrize("options", [MQGMO.NO_SYNCPOINT, MQGMO.SYNCPOINT])
async def test_t5_13_a_get_that_meets_damaged_data_fails_and_the_next_message_is_given(
    failing: tuple[System, FaultStore], options: MQGMO
) -> None:
    system, store = failing
    connection = await system.connect("scenario")
    queue = await connection.open("Q", ALL)
    ids = [(await queue.put(data)).md.msg_id for data in (b"A", b"B", b"C")]
    store.damage(b"B")
    found = [await reported(queue.get(options=options)) for _ in range(4)]
    assert found == [b"A", MQRC.OBJECT_DAMAGED, b"C", MQRC.NO_MSG_AVAILABLE]
    with pytest.raises(MQError) as caught:
        by_msg_id = GetMessageOptions(match_options=MQMO.MATCH_MSG_ID.value)
        await queue.get(MessageDescriptor(msg_id=ids[1]), by_msg_id)
    assert caught.value.reason == MQRC.OBJECT_DAMAGED
    assert (ids[1].hex() in caught.value.detail, "Q" in caught.value.detail) == (True, True)
    await connection.commit()
    assert system.depth() == 1


async def test_t5_14_a_browse_fails_at_damaged_data_once_and_goes_on_behind_it(
    failing: tuple[System, FaultStore],
) -> None:
    system, store = failing
    queue = await opened(system)
    for data in (b"A", b"B", b"C"):
        await queue.put(data)
    store.damage(b"B")
    found = [await reported(queue.get(options=MQGMO.BROWSE_NEXT)) for _ in range(4)]
    assert found == [b"A", MQRC.OBJECT_DAMAGED, b"C", MQRC.NO_MSG_AVAILABLE]
    found = [
        await reported(queue.get(options=MQGMO.BROWSE_FIRST)),
        await reported(queue.get(options=MQGMO.BROWSE_NEXT)),
    ]
    assert found == [b"A", b"C"]
    assert system.depth() == 3


async def test_t5_15_a_message_with_a_damaged_segment_is_not_complete(failing: tuple[System, FaultStore]) -> None:
    system, store = failing
    queue = await opened(system)
    for data, flags in ((b"A1", MQMF.SEGMENT), (b"A2", MQMF.LAST_SEGMENT)):
        await queue.put(data, MessageDescriptor(msg_flags=flags.value), options=MQPMO.LOGICAL_ORDER)
    store.damage(b"A2")
    found = [await reported(queue.get(options=MQGMO.COMPLETE_MSG)) for _ in range(2)]
    assert found == [MQRC.OBJECT_DAMAGED, MQRC.NO_MSG_AVAILABLE]
    assert [await reported(queue.get()), await reported(queue.get())] == [b"A1", MQRC.NO_MSG_AVAILABLE]


async def test_a_batch_and_a_loop_end_before_damaged_data_and_tell_of_it_next(
    failing: tuple[System, FaultStore],
) -> None:
    system, store = failing
    queue = await opened(system)
    await queue.put_many([b"%d" % number for number in range(8)])
    store.damage(b"2", b"5")
    assert [each.data for each in await queue.get_many(8)] == [b"0", b"1"]
    with pytest.raises(MQError, match="OBJECT_DAMAGED"):
        await queue.get_many(8)
    found = []
    with pytest.raises(MQError, match="OBJECT_DAMAGED"):
        async for message in queue:
            found.extend([message.data])  # at once, not when the loop has ended
    assert found == [b"3", b"4"]
    assert [each.data for each in await queue.get_many(8)] == [b"6", b"7"]
    assert system.depth() == 2
