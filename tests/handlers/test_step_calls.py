"""Steps as a program keeps them through its deliveries, embedded and over TCP (transactions rules 7.1 to 7.6)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from broker import QueueManager, connect
from broker.config import LimitsConfig, ListenerConfig
from broker.mqi import MQGMO, MQMF, MQOO, MQRC, GetMessageOptions, MessageDescriptor, MQError
from broker.mqi.delivery_fields import Became, Outcome
from broker.mqi.step_fields import STEP_BYTES, STEPS_BYTES, STEPS_MAX
from broker.server import Server
from broker.storage.memory import MemoryStore
from broker.storage.store import StoreFailedError
from broker.testing import FaultStore, VirtualClock
from tests.handlers.desk import TERMS, Desk, desk, settle
from tests.handlers.wire import remote, until_quiet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker.interface.handlers.deliveries import Delivered, Deliveries
    from broker.mqi.delivery_fields import ServiceOptions
    from broker.storage.store import Store

both_doors = pytest.mark.parametrize("door", ["embedded", "tcp"])

NOT_PERSISTENT = MessageDescriptor(persistence=0)
UNMARKED = "ALTER QLOCAL(Q) NOHARDENBO"
"""So that the return of a message that went over a line has nothing to write."""


@asynccontextmanager
async def served(
    door: str, options: ServiceOptions = TERMS, definitions: str = ""
) -> AsyncIterator[tuple[Desk, Deliveries]]:
    """A queue manager, and a worker that reaches it by this door."""
    if door == "embedded":
        async with desk(definitions) as d, d.worker(options) as worker:
            yield d, worker
    else:
        async with remote(definitions) as r, r.worker(options) as (_, worker):
            yield r.desk, worker


@asynccontextmanager
async def restarted(store: Store) -> AsyncIterator[Desk]:
    """Another queue manager on the store of one that was made by `desk`."""
    clock = VirtualClock()
    opened = QueueManager.open(name="QM1", clock=clock, store=store)
    async with opened as manager, manager.connect("test") as connection:
        yield Desk(manager, connection, clock)
        manager.core.check_invariants()


async def taken_one(worker: Deliveries) -> Delivered:
    (taken,) = await worker.take()
    return taken


async def refusal(worker: Deliveries, delivered: Delivered, name: str, value: bytes = b"1") -> MQError:
    """Return the error of a step that is not kept."""
    with pytest.raises(MQError) as refused:
        await worker.step(delivered, name, value)
    return refused.value


def room(d: Desk) -> int:
    """The bytes of all steps that are kept."""
    return d.manager.core.deliveries.step_budget.bytes


@both_doors
@pytest.mark.parametrize("md", [None, NOT_PERSISTENT], ids=["persistent", "not persistent"])
async def test_a_step_comes_with_every_later_delivery_and_goes_with_its_message(
    door: str, md: MessageDescriptor | None
) -> None:
    async with served(door) as (d, worker):
        await d.connection.put1("Q", "order", md)
        first = await taken_one(worker)
        assert first.steps is None
        await worker.step(first, "charge", b'"receipt 5"')
        await worker.step(first, "charge#2", b"null")
        await settle(worker, Outcome.FAILED, first)
        await d.clock.advance(1)
        second = await taken_one(worker)
        assert second.steps == {"charge": b'"receipt 5"', "charge#2": b"null"}
        await worker.step(second, "Größe", b"")
        await settle(worker, Outcome.LATER, second, seconds=60.0)
        await d.clock.advance(60)
        third = await taken_one(worker)
        assert list((third.steps or {}).items()) == [("charge", b'"receipt 5"'), ("charge#2", b"null"), ("Größe", b"")]
        await settle(worker, Outcome.RETURNED, third)
        fourth = await taken_one(worker)
        assert fourth.steps == third.steps
        assert room(d) == 6 + 11 + 8 + 4 + len("Größe".encode())
        await settle(worker, Outcome.DONE, fourth)
        assert room(d) == 0


@asynccontextmanager
async def workers(d: Desk, door: str, count: int, options: ServiceOptions = TERMS) -> AsyncIterator[list[Deliveries]]:
    """So many workers that reach a queue manager by this door."""
    async with AsyncExitStack() as stack:
        if door == "tcp":
            server = await stack.enter_async_context(Server(d.manager, ListenerConfig(port=0), LimitsConfig()))
            connections = [
                await stack.enter_async_context(connect(f"mq://{server.addresses[0]}", clock=d.clock))
                for _ in range(count)
            ]
        else:
            connections = [await stack.enter_async_context(d.manager.connect("worker")) for _ in range(count)]
        yield [await stack.enter_async_context(each.deliveries("Q", options=options)) for each in connections]


@both_doors
async def test_a_step_is_answered_when_it_is_durable_and_no_end_of_its_delivery_comes_before(door: str) -> None:
    """A message is not handed out again while a step of it is on its way: returned, the next is given it with it."""
    store = FaultStore(MemoryStore())
    async with desk(UNMARKED, store=store) as d, workers(d, door, 2) as (worker, other):
        await d.put("order")
        first = await taken_one(worker)
        next_one = asyncio.ensure_future(other.take())
        await until_quiet()
        store.hold()
        step = asyncio.ensure_future(worker.step(first, "charge", b"1"))
        await store.wait_held()
        end = asyncio.ensure_future(settle(worker, Outcome.RETURNED, first))
        await until_quiet()
        done = [each.done() for each in (step, end, next_one)]
        store.release()
        assert done == [False, False, False]
        (second,) = await next_one
        assert second.steps == {"charge": b"1"}
        await step
        assert [each.became for each in await end] == [Became.RETURNED]
        await settle(other, Outcome.DONE, second)


@both_doors
async def test_an_order_key_is_not_passed_on_while_a_step_is_on_its_way(door: str) -> None:
    store = FaultStore(MemoryStore())
    options = TERMS._replace(order_by="correl_id")
    async with desk(UNMARKED, store=store) as d, workers(d, door, 2, options) as (worker, other):
        md = MessageDescriptor(correl_id=b"key".ljust(24))
        for body in ("first", "second"):
            await d.connection.put1("Q", body, md)
        first = await taken_one(worker)
        next_one = asyncio.ensure_future(other.take())
        await until_quiet()
        store.hold()
        step = asyncio.ensure_future(worker.step(first, "charge", b"1"))
        await store.wait_held()
        end = asyncio.ensure_future(settle(worker, Outcome.RETURNED, first))
        await until_quiet()
        done = next_one.done()
        store.release()
        assert not done
        (again,) = await next_one
        assert (again.messages[0].data, again.steps) == (b"first", {"charge": b"1"})
        await asyncio.gather(step, end)
        await settle(other, Outcome.DONE, again)


@both_doors
async def test_d7_2_a_step_of_a_delivery_that_has_ended_is_refused(door: str) -> None:
    async with served(door) as (d, worker):
        await d.put("order")
        first = await taken_one(worker)
        await settle(worker, Outcome.FAILED, first, timed_out=True)
        error = await refusal(worker, first, "charge")
        assert (error.reason, "has ended" in str(error)) == (MQRC.HCONN_ERROR, True)
        await d.clock.advance(1)
        second = await taken_one(worker)
        assert second.steps is None
        assert (await refusal(worker, first, "charge")).reason == MQRC.HCONN_ERROR
        await settle(worker, Outcome.DONE, second)


async def test_a_step_through_another_connection_is_refused() -> None:
    async with desk() as d, d.worker() as worker, d.worker() as thief:
        await d.put("order")
        taken = await taken_one(worker)
        assert (await refusal(thief, taken, "charge")).reason == MQRC.HCONN_ERROR
        await settle(worker, Outcome.DONE, taken)


@both_doors
async def test_d7_4_each_limit_of_a_message(door: str) -> None:
    async with served(door) as (d, worker):
        await d.put("large", "many")
        large, many = await worker.take(2)
        with pytest.raises(ValueError, match="has a value of 65537 bytes, more than 65536: return a reference"):
            await worker.step(large, "charge", bytes(STEP_BYTES + 1))
        for name in ("", "x" * 101, "#2"):
            with pytest.raises(ValueError, match="a step has a name of 1 to 100 characters"):
                await worker.step(large, name, b"")
        for number in range(3):
            await worker.step(large, f"{number}" * 100, bytes(STEP_BYTES))
        left = STEPS_BYTES - 3 * (STEP_BYTES + 100)
        assert (await refusal(worker, large, "last", bytes(left - 3))).reason == MQRC.DATA_LENGTH_ERROR
        await worker.step(large, "last", bytes(left - 4))
        error = await refusal(worker, large, "a", b"")
        assert (error.reason, "a message 1000 steps of 262144 bytes in all" in str(error)) == (
            MQRC.DATA_LENGTH_ERROR,
            True,
        )
        for number in range(STEPS_MAX):
            await worker.step(many, f"{number}", b"")
        assert (await refusal(worker, many, "one more", b"")).reason == MQRC.DATA_LENGTH_ERROR
        assert (await refusal(worker, many, "5", b"")).reason == MQRC.OBJECT_ALREADY_EXISTS
        await settle(worker, Outcome.DONE, large, many)
        assert room(d) == 0


@both_doors
async def test_d7_4_the_limit_of_all_messages(door: str) -> None:
    async with served(door) as (d, worker):
        d.manager.core.deliveries.step_budget.maximum = 1000
        await d.put("one", "two")
        one, two = await worker.take(2)
        await worker.step(one, "charge", bytes(894))
        error = await refusal(worker, two, "charge", bytes(95))
        assert (error.reason, "[limits] steps_bytes" in str(error)) == (MQRC.RESOURCE_PROBLEM, True)
        await worker.step(two, "charge", bytes(94))
        assert (await d.connection.status())["steps_bytes"] == 1000
        await settle(worker, Outcome.DONE, one)
        assert (await d.connection.status())["steps_bytes"] == 100
        await worker.step(two, "ship", bytes(800))
        await settle(worker, Outcome.DONE, two)


@both_doors
async def test_two_steps_of_one_name_under_way_are_one(door: str) -> None:
    async with served(door) as (d, worker):
        await d.put("order")
        taken = await taken_one(worker)
        both = await asyncio.gather(
            worker.step(taken, "charge", b"1"), worker.step(taken, "charge", b"2"), return_exceptions=True
        )
        assert both[0] is None
        assert isinstance(both[1], MQError)
        assert both[1].reason == MQRC.OBJECT_ALREADY_EXISTS
        await settle(worker, Outcome.RETURNED, taken)
        again = await taken_one(worker)
        assert again.steps == {"charge": b"1"}
        await settle(worker, Outcome.DONE, again)


@both_doors
async def test_a_take_is_bounded_by_steps_too(door: str) -> None:
    async with served(door) as (d, worker):
        await d.put(*map(str, range(30)))
        for taken in await worker.take(30):
            await asyncio.gather(*(worker.step(taken, f"{number}", bytes(STEP_BYTES)) for number in range(3)))
            await settle(worker, Outcome.LATER, taken, seconds=1.0)
        await d.clock.advance(1)
        counts: list[int] = []
        while sum(counts) < 30:
            again = await worker.take(30)
            assert all(len(taken.steps or ()) == 3 for taken in again)
            counts.append(len(again))
            await settle(worker, Outcome.DONE, *again)
        assert max(counts) == 4 * 1024 * 1024 // (3 * (STEP_BYTES + 1))


@both_doors
@pytest.mark.parametrize("options", [TERMS._replace(batch=2), TERMS._replace(groups=True)], ids=["batch", "group"])
async def test_what_is_more_than_one_message_has_no_steps(door: str, options: ServiceOptions) -> None:
    async with served(door, options) as (d, worker):
        md = MessageDescriptor(group_id=b"group".ljust(24), msg_flags=MQMF.MSG_IN_GROUP, version=2)
        async with d.connection.open("Q", MQOO.OUTPUT) as queue:
            await queue.put("first", md)
            md.msg_seq_number, md.msg_flags = 2, MQMF.LAST_MSG_IN_GROUP
            await queue.put("last", md)
        taken = await taken_one(worker)
        assert len(taken.messages) == 2
        assert (await refusal(worker, taken, "charge")).reason == MQRC.OPTION_NOT_VALID_FOR_TYPE
        await settle(worker, Outcome.DONE, taken)


async def test_a_full_disk_refuses_a_step_and_the_message_waits_uncharged() -> None:
    store = FaultStore(MemoryStore())
    async with desk(store=store) as d, d.worker() as worker:
        await d.put("order")
        taken = await taken_one(worker)
        await worker.step(taken, "charge", b"1")
        store.fill()
        for wait in (1.0, 2.0, 4.0):
            error = await refusal(worker, taken, "ship")
            assert error.reason == MQRC.STORAGE_MEDIUM_FULL
            assert "there is no room for step 'ship'" in str(error)
            (settled,) = await settle(worker, Outcome.FAILED, taken)
            assert (settled.became, settled.reason, settled.attempts) == (Became.DELAYED, MQRC.STORAGE_MEDIUM_FULL, 0)
            assert settled.next_at == pytest.approx(d.clock.time() + wait)
            await d.clock.advance(wait)
            taken = await taken_one(worker)
            assert (taken.attempt, taken.steps) == (1, {"charge": b"1"})
        store.make_room()
        await worker.step(taken, "ship", b"2")
        (settled,) = await settle(worker, Outcome.FAILED, taken)
        assert (settled.reason, settled.attempts) == (0, 1)
        assert (d.counts()["failed"], d.counts()["returned"]) == (1, 3)
        await d.clock.advance(1)
        taken = await taken_one(worker)
        assert taken.steps == {"charge": b"1", "ship": b"2"}
        await settle(worker, Outcome.DONE, taken)


async def test_a_refused_step_excuses_its_own_attempt_alone() -> None:
    store = FaultStore(MemoryStore())
    async with desk(store=store) as d, d.worker() as worker:
        await d.put("order")
        taken = await taken_one(worker)
        store.fill()
        await refusal(worker, taken, "charge")
        store.make_room()
        await settle(worker, Outcome.LATER, taken, seconds=1.0)
        await d.clock.advance(1)
        taken = await taken_one(worker)
        (settled,) = await settle(worker, Outcome.FAILED, taken)
        assert (settled.reason, settled.attempts) == (0, 1)
        await d.clock.advance(1)
        await settle(worker, Outcome.DONE, *await worker.take())


async def test_a_store_that_fails_leaves_a_step_open() -> None:
    """Nobody knows whether it is kept: the next queue manager finds it, or does not."""
    store = FaultStore(MemoryStore())
    async with desk(store=store) as d, d.worker() as worker:
        await d.put("order")
        taken = await taken_one(worker)
        store.fail_next(StoreFailedError("no answer"), lose=False)
        assert (await refusal(worker, taken, "charge")).reason == MQRC.CONNECTION_BROKEN
    async with restarted(store) as d, d.worker() as worker:
        taken = await taken_one(worker)
        assert taken.steps == {"charge": b"1"}
        await settle(worker, Outcome.DONE, taken)


async def test_steps_are_there_after_a_restart_with_their_room_and_their_places() -> None:
    store = MemoryStore()
    async with desk("ALTER QLOCAL(Q) NPMCLASS(HIGH)", store=store) as d, d.worker() as worker:
        await d.put("order")
        await d.connection.put1("Q", "kept once", NOT_PERSISTENT)
        for taken in await worker.take(2):
            await worker.step(taken, "charge", b"1")
            await worker.step(taken, "ship", b"2")
            await settle(worker, Outcome.LATER, taken, seconds=5.0)
    for number in (3, 4):
        async with restarted(store) as d, d.worker() as worker:
            await d.clock.advance(5)
            for taken in await worker.take(2):
                assert list(taken.steps or ()) == ["charge", "ship", *(f"{each}" for each in range(3, number))]
                await worker.step(taken, f"{number}", b"")
                await settle(worker, Outcome.RETURNED, taken)
    async with restarted(store) as d:
        await d.clock.advance(5)
        assert room(d) == 2 * (7 + 5 + 1 + 1)
        assert {message.data for message in await d.got()} == {b"order", b"kept once"}
        assert room(d) == 0


@pytest.mark.parametrize("end", ["CLEAR QLOCAL(Q)", "DELETE QLOCAL(Q) PURGE", "expiry"])
async def test_the_room_of_steps_is_free_when_their_messages_go_by_other_ways(end: str) -> None:
    store = MemoryStore()
    async with desk(store=store) as d:
        async with d.worker() as worker:
            await d.connection.put1("Q", "order", MessageDescriptor(expiry=100))
            await d.connection.put1("Q", "delayed", MessageDescriptor(expiry=100))
            for taken, seconds in zip(await worker.take(2), (0.0, 5.0), strict=True):
                await worker.step(taken, "charge", b"1")
                await settle(worker, Outcome.LATER, taken, seconds=seconds)
        await d.clock.advance(1)
        assert room(d) == 14
        if end == "expiry":
            await d.clock.advance(100)
            assert await d.got() == []
        else:
            await d.connection.mqsc(end, check=True)
        await d.clock.advance(600)
        assert (room(d), store._steps) == (0, {})


async def test_a_message_whose_get_reached_nobody_has_its_steps_again() -> None:
    """Its removal was durable, so it is put again, with them."""
    store = MemoryStore()
    async with desk(store=store) as d:
        async with d.worker() as worker:
            await d.put("order")
            taken = await taken_one(worker)
            await worker.step(taken, "charge", b"1")
            await settle(worker, Outcome.LATER, taken, seconds=0.0)
        async with d.connection.open("Q", MQOO.INPUT_SHARED) as queue:
            get = queue._port.get(queue.hobj, None, GetMessageOptions(options=MQGMO.NO_SYNCPOINT), None)
            await until_quiet()
            assert get.done()
            get.abandon()
            await until_quiet()
        assert room(d) == 7
    async with restarted(store) as d, d.worker() as worker:
        await d.clock.advance(1)
        again = await taken_one(worker)
        assert again.steps == {"charge": b"1"}
        await settle(worker, Outcome.DONE, again)


async def test_a_program_in_a_thread_keeps_steps_too() -> None:
    async with desk() as d:
        await d.put("order")

        def work() -> object:
            with d.manager.sync() as connection, connection.deliveries("Q", options=TERMS) as deliveries:
                (taken,) = deliveries.take()
                deliveries.step(taken, "charge", b"1")
                return taken

        await asyncio.to_thread(work)
        async with d.worker() as worker:
            again = await taken_one(worker)
            assert again.steps == {"charge": b"1"}
            await settle(worker, Outcome.DONE, again)
