"""What tells the identifiers of a queue manager from those of another whose name begins alike: made once, then kept."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgpack
import pytest

from broker import QueueManager
from broker.commands.table.attributes import create
from broker.core.message.rows import ObjectRow, Rows
from broker.mqi import MQGMO, MQMO, GetMessageOptions, MessageDescriptor
from broker.storage.memory import MemoryStore
from broker.testing import VirtualClock
from tests.engine.bench import ALL

if TYPE_CHECKING:
    from collections.abc import Callable

BY_MSG_ID = GetMessageOptions(options=MQGMO.NO_WAIT, match_options=MQMO.MATCH_MSG_ID)
PERSISTENT = MessageDescriptor(persistence=1)
COUNTER = 2**51


def manager(
    name: str = "QM1", *, store: MemoryStore | None = None, draw: Callable[[int], int] | None = None
) -> QueueManager:
    made = QueueManager.open(store=store or MemoryStore(), clock=VirtualClock(), name=name)
    if draw is not None:
        made.random_bits = draw
    return made


def drawn(value: int) -> Callable[[int], int]:
    def draw(bits: int) -> int:
        assert bits == 13
        return value

    return draw


async def first_id(opened: QueueManager) -> bytes:
    """The MsgId of a persistent message put to Q, which is defined."""
    async with opened.connect() as connection:
        assert (await connection.mqsc("DEFINE QLOCAL(Q) NOREPLACE"))[0].ok
        async with connection.open("Q", ALL) as queue:
            return (await queue.put(b"A", PERSISTENT)).md.msg_id


async def test_two_queue_managers_whose_names_begin_alike_share_no_identifier() -> None:
    """They start in the same microsecond and do the same."""
    ids = []
    for name, value in (("A.QUEUE.MANAGER.1", 1), ("A.QUEUE.MANAGER.2", 8191)):
        async with manager(name, draw=drawn(value)) as opened:
            ids.append(await first_id(opened))
    assert ids[0] != ids[1]
    assert ids[0][:16] == ids[1][:16]
    assert [int.from_bytes(id[16:], "big") // COUNTER for id in ids] == [1, 8191]


async def test_the_instance_is_drawn_at_random() -> None:
    instances = set()
    for _ in range(8):
        async with manager() as opened:
            instances.add(int.from_bytes((await first_id(opened))[16:], "big") // COUNTER)
    assert len(instances) > 1  # all equal: once in 2^91


async def test_it_is_drawn_once_and_its_messages_keep_their_ids() -> None:
    store = MemoryStore()
    async with manager(store=store, draw=drawn(77)) as opened:
        made = await first_id(opened)
    async with manager(store=store, draw=drawn(78)) as opened, opened.connect() as connection:
        await connection.mqsc("ALTER QMGR DESCR('altered')")
        async with connection.open("Q", ALL) as queue:
            assert (await queue.get(MessageDescriptor(msg_id=made), BY_MSG_ID)).md.msg_id == made
            assert int.from_bytes((await queue.put(b"B")).md.msg_id[16:], "big") // COUNTER == 77
    async with manager(store=store, draw=drawn(79)) as opened, opened.connect() as connection:
        result = await connection.put1("Q", b"C")
        assert int.from_bytes(result.md.msg_id[16:], "big") // COUNTER == 77


@pytest.mark.parametrize("defined", [False, True], ids=["without the definition", "with the definition"])
async def test_a_store_of_before_goes_on_without_one(*, defined: bool) -> None:
    """Queue managers of before had none, and kept their own definition only when it was altered."""
    store = MemoryStore()
    rows = Rows(high_water=5)
    if defined:
        definition = create("QMGR", "QM1", datetime.fromtimestamp(0, UTC))
        rows.objects = [ObjectRow("QMGR", "QM1", 1, "QMGR", msgpack.packb(definition.attributes))]
    await store.write(rows)
    for _ in range(2):
        async with manager(store=store, draw=drawn(77)) as opened, opened.connect() as connection:
            await connection.mqsc("DEFINE QLOCAL(Q)")
            result = await connection.put1("Q", b"C")
            assert int.from_bytes(result.md.msg_id[16:], "big") < COUNTER


async def test_no_command_shows_it() -> None:
    async with manager() as opened, opened.connect() as connection:
        (reply,) = await connection.mqsc("DISPLAY QMGR ALL")
        assert "INSTANCE" not in reply.text
