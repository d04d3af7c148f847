"""CLEAR of a long queue: a run of messages at a time, and what others see of it meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from broker import QueueManager
from broker.config import Config
from broker.engine.admin.clearing import RUN_LENGTH
from broker.mqi import MQCO, MQGMO, MQOO, MQRC, MessageDescriptor, ObjectDescriptor
from broker.storage.memory import MemoryStore
from broker.storage.store import StoreFailedError, StoreFullError
from broker.testing import FaultStore, VirtualClock
from tests.engine.bench import ALL, reason_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection
    from broker.mqi.replies import CommandReply

RUNS = 4
MESSAGES = RUNS * RUN_LENGTH - 1


class Long:
    """A queue manager with a long queue that nobody has open, and a queue of somebody else."""

    def __init__(self, manager: QueueManager, store: FaultStore, connection: Connection) -> None:
        self.manager = manager
        self.store = store
        self.connection = connection

    @property
    def depth(self) -> int:
        return self.manager.core.objects.queues["LONG"].depth

    async def mqsc(self, command: str) -> CommandReply:
        (reply,) = await self.connection.mqsc(command)
        return reply

    async def contents(self) -> list[bytes]:
        found: list[bytes] = []
        async with self.connection.open("LONG", ALL) as queue:
            while len(found) < self.depth:
                found.append((await queue.get(None, MQGMO.BROWSE_NEXT)).data)
        return found


@asynccontextmanager
async def running(store: FaultStore, *, persistence: int = 1) -> AsyncIterator[Long]:
    """With a new store the messages are put; a used one has what was left."""
    async with (
        QueueManager.open(Config(), store=store, clock=VirtualClock()) as manager,
        manager.connect() as connection,
    ):
        if "LONG" not in manager.core.objects.queues:
            await connection.mqsc("DEFINE QLOCAL(LONG) MAXDEPTH(100000)\nDEFINE QLOCAL(OTHER)")
            async with connection.open("LONG", ALL) as queue:
                bodies = [b"%d" % number for number in range(MESSAGES)]
                await queue.put_many(bodies, MessageDescriptor(persistence=persistence))
        store.written.clear()
        yield Long(manager, store, connection)
        manager.core.check_invariants()


async def release_when_stopped(long: Long) -> None:
    """Let the writes go on when the queue manager is about to end."""
    await long.manager.stopped()
    long.store.release()


@pytest.fixture
def store() -> FaultStore:
    return FaultStore(MemoryStore())


@pytest.mark.parametrize("command", ["CLEAR QLOCAL(LONG)", "DELETE QLOCAL(LONG) PURGE"])
@pytest.mark.parametrize("persistence", [0, 1])
async def test_others_are_served_between_any_two_runs(store: FaultStore, persistence: int, command: str) -> None:
    async with running(store, persistence=persistence) as long, long.manager.connect() as other:
        depths = []
        clearing = asyncio.create_task(long.mqsc(command))
        async with other.open("OTHER", ALL) as queue:
            while not clearing.done():
                await queue.put(b"A", MessageDescriptor(persistence=0))
                assert (await queue.get()).data == b"A"
                left = long.manager.core.objects.queues.get("LONG")
                depths.append(left.depth if left else 0)
                await asyncio.sleep(0)
        assert (await clearing).ok
        assert max(before - after for before, after in zip([MESSAGES, *depths], depths, strict=False)) <= RUN_LENGTH
        assert all(len(rows.removals) <= RUN_LENGTH for rows in store.written)
        assert depths[-1] == 0


async def test_it_is_answered_when_all_of_it_is_durable(store: FaultStore) -> None:
    async with running(store) as long:
        store.hold(after=RUNS)
        clearing = asyncio.create_task(long.mqsc("CLEAR QLOCAL(LONG)"))
        await store.wait_held()
        assert not clearing.done()
        store.release()
        assert (await clearing).ok
        assert sum(len(rows.removals) for rows in store.written) == MESSAGES


@pytest.mark.parametrize("command", ["CLEAR QLOCAL(LONG)", "DELETE QLOCAL(LONG) PURGE"])
async def test_meanwhile_nobody_opens_the_queue(store: FaultStore, command: str) -> None:
    async with running(store) as long, long.manager.connect() as other:
        await other.mqsc("DEFINE QALIAS(ALSO) TARGET(LONG)")
        store.hold(after=2)
        clearing = asyncio.create_task(long.mqsc(command))
        await store.wait_held()
        for options in (MQOO.OUTPUT, MQOO.INPUT_SHARED, MQOO.BROWSE, MQOO.INQUIRE):
            assert await reason_of(other.open("LONG", options)) == MQRC.OBJECT_IN_USE
        assert await reason_of(other.open("ALSO", MQOO.OUTPUT)) == MQRC.OBJECT_IN_USE
        assert await reason_of(other.put1("LONG", b"A")) == MQRC.OBJECT_IN_USE
        store.release()
        assert (await clearing).ok
        expected = MQRC.NONE if command.startswith("CLEAR") else MQRC.UNKNOWN_OBJECT_NAME
        assert await reason_of(other.put1("LONG", b"A")) == expected


@pytest.mark.parametrize("command", ["CLEAR QLOCAL(LONG)", "DELETE QLOCAL(LONG) PURGE"])
async def test_where_the_store_is_full_the_rest_stays_and_the_queue_is_free_again(
    store: FaultStore, command: str
) -> None:
    async with running(store) as long:
        left = [b"%d" % number for number in range(2 * RUN_LENGTH, MESSAGES)]
        store.fail_next(StoreFullError("the disk is full"), after=3)
        reply = await long.mqsc(command)
        assert (reply.ok, reply.code) == (False, "AMQ8101S")
        assert await long.contents() == left
        assert (await long.mqsc(command)).ok
        assert "LONG" not in long.manager.core.objects.queues or long.depth == 0


async def test_a_clear_that_fails_leaves_a_start_for_each_message_that_stays(store: FaultStore) -> None:
    async with running(store) as long:
        await long.connection.mqsc("DEFINE PROCESS(P)\nALTER QLOCAL(LONG) TRIGGER TRIGTYPE(EVERY) PROCESS(P)")
        queue = long.manager.core.objects.queues["LONG"]
        assert queue.pending_starts == MESSAGES
        store.fail_next(StoreFullError("the disk is full"), after=3)
        clearing = asyncio.create_task(long.mqsc("CLEAR QLOCAL(LONG)"))
        while not queue.clearing:  # noqa: ASYNC110  # nobody tells when the command is begun
            await asyncio.sleep(0)
        assert queue.pending_starts == 0
        assert not (await clearing).ok
        assert queue.pending_starts == queue.depth == MESSAGES - 2 * RUN_LENGTH
        assert (await long.mqsc("CLEAR QLOCAL(LONG)")).ok
        assert queue.pending_starts == 0


async def test_a_store_that_fails_stops_the_queue_manager_and_the_rest_is_there_again(store: FaultStore) -> None:
    async with running(store) as long:
        store.fail_next(StoreFailedError("no answer"), after=2)
        assert not (await long.mqsc("CLEAR QLOCAL(LONG)")).ok
        assert isinstance(await long.manager.stopped(), StoreFailedError)
    async with running(store) as long:
        assert await long.contents() == [b"%d" % number for number in range(RUN_LENGTH, MESSAGES)]
        assert (await long.mqsc("CLEAR QLOCAL(LONG)")).ok


async def test_the_queue_manager_may_stop_in_the_middle(store: FaultStore) -> None:
    async with running(store) as long:
        store.hold(after=2)
        clearing = long.manager.converse().mqsc("CLEAR QLOCAL(LONG)")
        await store.wait_held()
        releasing = asyncio.create_task(release_when_stopped(long))
    await releasing
    assert not clearing.done() or clearing.exception() is not None
    async with running(store) as long:
        assert await long.contents() == [b"%d" % number for number in range(2 * RUN_LENGTH, MESSAGES)]


async def test_messages_that_a_report_brings_meanwhile_go_too(store: FaultStore) -> None:
    async with running(store) as long, long.manager.connect() as other:
        md = MessageDescriptor(report=256, reply_to_q="LONG", persistence=1)  # COA
        await other.put1("OTHER", b"A", md)
        store.hold(after=2)
        clearing = asyncio.create_task(long.mqsc("CLEAR QLOCAL(LONG)"))
        await store.wait_held()
        putting = asyncio.create_task(other.put1("OTHER", b"A", md))
        store.release()
        await putting
        assert (await clearing).ok
        assert long.depth == 0


async def test_a_purge_by_a_close_ends_the_gets_of_other_handles_at_once(store: FaultStore) -> None:
    async with running(store) as long, long.manager.connect() as other:
        await other.mqsc("DEFINE QMODEL(M) DEFTYPE(PERMDYN) DEFSOPT(SHARED) SHARE MAXDEPTH(100000)")
        descriptor = ObjectDescriptor(object_name="M", dynamic_q_name="D")
        queue = await other.open(descriptor, ALL)
        beside = await long.connection.open("D", ALL)
        await queue.put_many([b"A"] * (3 * RUN_LENGTH), MessageDescriptor(persistence=1))
        store.hold(after=2)
        closing = asyncio.create_task(queue.close(MQCO.DELETE_PURGE))
        await store.wait_held()
        assert await reason_of(beside.get(None, MQGMO.NO_WAIT)) == MQRC.Q_DELETED
        assert await reason_of(beside.put(b"B")) == MQRC.Q_DELETED
        store.release()
        assert await closing == 0
        assert "D" not in long.manager.core.objects.queues
