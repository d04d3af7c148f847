"""Connections that outlive their line (`connect(url, reconnect=True)`): handlers rule 9.2 and design of it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from broker import MQError, QueueManager, connect
from broker.client.redial import FIRST_SECONDS, LAST_SECONDS
from broker.config import LimitsConfig, ListenerConfig
from broker.mqi import MQGMO, MQOO, MQPMO, MQRC, GetMessageOptions, Outcome
from broker.server import Server
from broker.testing import VirtualClock
from tests.handlers.desk import TERMS, settle
from tests.handlers.wire import Remote, remote
from tests.server.test_over_the_wire import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection

BOTH = MQOO.INPUT_SHARED | MQOO.OUTPUT


class Lasting(NamedTuple):
    """A connection that outlives its line, and what is at the other end."""

    remote: Remote
    connection: Connection

    async def cut(self) -> None:
        """Cut the line, until both ends know."""
        port = self.connection.port
        self.remote.proxy.cut()
        await until(lambda: port._down)  # type: ignore[attr-defined]
        manager = self.remote.desk.manager
        await until(lambda: len(manager.conversations) == 1)

    async def back(self) -> None:
        """Let so much time pass that the line is there again."""
        await self.remote.desk.clock.advance(FIRST_SECONDS)
        await until(lambda: not self.connection.port._down)  # type: ignore[attr-defined]


@asynccontextmanager
async def lasting(definitions: str = "") -> AsyncIterator[Lasting]:
    async with (
        remote(f"DEFINE QLOCAL(T) DEFPSIST(YES)\n{definitions}") as r,
        connect(r.proxy.url, clock=r.desk.clock, reconnect=True) as connection,
    ):
        yield Lasting(r, connection)


async def reason_of(awaitable: object) -> MQRC | int:
    with pytest.raises(MQError) as caught:
        await awaitable  # type: ignore[misc]
    return caught.value.reason


async def test_a_handle_is_open_again_when_the_line_is() -> None:
    async with lasting() as it, it.connection.open("T", BOTH) as queue, it.connection.open("OUT", BOTH) as out:
        await queue.put("before")
        await it.cut()
        later = asyncio.ensure_future(queue.put("while it is down"))
        await asyncio.sleep(0)
        assert not later.done()
        await it.back()
        await later
        assert [(await queue.get()).data for _ in range(2)] == [b"before", b"while it is down"]
        await out.put("other")
        assert (await out.get()).data == b"other"
        for _ in range(3):
            await it.cut()
            await it.back()
        await queue.put("again")
        assert (await queue.get()).data == b"again"
        assert await queue.close() == MQRC.NONE
        assert await reason_of(queue.put("closed")) == MQRC.HOBJ_ERROR


async def test_a_connection_that_is_broken_off_while_its_line_is_down_goes_on_when_it_is_there() -> None:
    async with lasting() as it, it.connection.open("T", BOTH) as queue:
        await it.cut()
        it.connection.port.break_()
        await it.back()
        await queue.put("again")
        assert (await queue.get()).data == b"again"


async def test_calls_that_wait_for_the_line_are_made_in_their_order() -> None:
    async with lasting() as it, it.connection.open("T", BOTH) as queue:
        await it.cut()
        calls = [asyncio.ensure_future(queue.put(f"{number}", options=MQPMO.SYNCPOINT)) for number in range(5)]
        await asyncio.sleep(0)
        commit = asyncio.ensure_future(it.connection.commit())
        await asyncio.sleep(0)
        await it.back()
        await asyncio.gather(*calls, commit)
        assert [(await queue.get()).data for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_call_under_way_when_the_line_breaks_ends_with_2009_and_no_other_does() -> None:
    async with lasting() as it, it.connection.open("T", BOTH) as queue:
        waiting = asyncio.ensure_future(queue.get(wait=60))
        await asyncio.sleep(0)
        await it.cut()
        assert await reason_of(waiting) == MQRC.CONNECTION_BROKEN
        again = asyncio.ensure_future(queue.get(wait=60))
        await it.back()
        await it.remote.desk.put("a", queue="T")
        assert (await again).data == b"a"


@pytest.mark.parametrize("call", ["put", "put_many", "get", "begin", "commit"])
async def test_the_next_call_of_a_unit_that_was_lost_says_so_once(call: str) -> None:
    async with lasting() as it, it.connection.open("T", BOTH) as queue:
        await queue.put("lost", options=MQPMO.SYNCPOINT)
        await it.cut()

        async def make() -> object:
            match call:
                case "put":
                    return await queue.put("a", options=MQPMO.SYNCPOINT)
                case "put_many":
                    return await queue.put_many(["a"], options=MQPMO.SYNCPOINT)
                case "get":
                    return await queue.get(options=MQGMO.SYNCPOINT)
                case "begin":
                    return await it.connection.begin()
                case _:
                    return await it.connection.commit()

        assert await reason_of(make()) == MQRC.CONNECTION_BROKEN
        await it.back()
        await it.connection.backout()
        await queue.put("a", options=MQPMO.SYNCPOINT)
        await it.connection.commit()
        assert (await queue.get()).data == b"a"
        assert await reason_of(queue.get()) == MQRC.NO_MSG_AVAILABLE


async def test_a_commit_does_not_pass_over_a_put_that_ended_with_the_line() -> None:
    """Who does not look at what became of a put hears it from the commit."""
    async with lasting() as it, it.connection.open("T", BOTH) as queue:
        await queue.put("first", options=MQPMO.SYNCPOINT)
        under_way = asyncio.ensure_future(queue.put("second", options=MQPMO.SYNCPOINT))
        await asyncio.sleep(0)
        await it.cut()
        assert await reason_of(under_way) == MQRC.CONNECTION_BROKEN
        await it.back()
        assert await reason_of(it.connection.commit()) == MQRC.CONNECTION_BROKEN
        assert await it.connection.commit() == MQRC.NONE
        assert await reason_of(queue.get()) == MQRC.NO_MSG_AVAILABLE


async def test_a_backout_of_a_unit_that_was_lost_is_done() -> None:
    async with lasting() as it, it.connection.open("T", BOTH) as queue:
        await queue.put("lost", options=MQPMO.SYNCPOINT)
        await it.cut()
        assert await it.connection.backout() == MQRC.NONE
        await it.back()
        await queue.put("a", options=MQPMO.SYNCPOINT)
        await it.connection.commit()
        assert (await queue.get()).data == b"a"


async def test_a_unit_of_work_block_that_the_line_was_lost_in_raises_and_the_next_goes_well() -> None:
    async with lasting() as it, it.connection.open("T", BOTH) as queue:
        with pytest.raises(MQError, match="the unit of work was backed out when the connection broke"):
            async with it.connection.unit_of_work():
                await queue.put("lost")
                await it.cut()
        await it.back()
        async with it.connection.unit_of_work():
            await queue.put("kept")
        assert (await queue.get()).data == b"kept"


async def test_what_is_not_in_a_unit_knows_nothing_of_a_line_that_was_lost_between_two_calls() -> None:
    async with lasting() as it, it.connection.open("T", BOTH) as queue:
        await queue.put("a", options=MQPMO.SYNCPOINT)
        await it.connection.commit()
        await it.cut()
        await it.back()
        await queue.put("b")
        await queue.put("c", options=MQPMO.SYNCPOINT)
        await it.connection.commit()
        assert [(await queue.get()).data for _ in range(3)] == [b"a", b"b", b"c"]


async def test_a_handle_that_cannot_be_opened_again_says_so_until_it_can() -> None:
    async with lasting() as it:
        queue = await it.connection.open("T", MQOO.INPUT_EXCLUSIVE | MQOO.OUTPUT)
        await it.cut()
        async with it.remote.desk.connection.open("T", MQOO.INPUT_EXCLUSIVE):
            await it.back()
            with pytest.raises(MQError, match="could not be opened again on the new line") as caught:
                await queue.put("a")
            assert caught.value.reason == MQRC.OBJECT_IN_USE
        await reason_of(queue.put("this one opens it"))
        await it.connection.status()  # whose answer comes behind that of the open
        await queue.put("b")
        assert (await queue.get()).data == b"b"


async def test_a_temporary_dynamic_queue_has_gone_with_its_line() -> None:
    async with lasting() as it:
        queue = await it.connection.open("SYSTEM.DEFAULT.MODEL.QUEUE", BOTH)
        await it.cut()
        await it.back()
        assert await reason_of(queue.put("a")) == MQRC.UNKNOWN_OBJECT_NAME


async def test_a_browse_begins_anew_and_locks_are_gone() -> None:
    async with lasting() as it, it.connection.open("T", BOTH | MQOO.BROWSE) as queue:
        await queue.put_many(["a", "b", "c"])
        for _ in range(2):
            locked = await queue.get(options=MQGMO.BROWSE_NEXT | MQGMO.LOCK)
        assert locked.data == b"b"
        await it.cut()
        await it.back()
        assert (await queue.get(options=MQGMO.BROWSE_NEXT)).data == b"a"
        async with it.remote.desk.connection.open("T", BOTH) as other:
            assert [(await other.get()).data for _ in range(3)] == [b"a", b"b", b"c"]


async def test_a_batch_that_the_line_broke_in_puts_nothing_behind_the_break() -> None:
    async with lasting() as it, it.connection.open("T", BOTH) as queue:
        batch = asyncio.ensure_future(queue.put_many([b"x" * 1000] * 2000))
        await until(lambda: it.remote.desk.depth("T") > 100)
        await it.cut()
        with pytest.raises(MQError) as caught:
            await batch
        assert caught.value.reason == MQRC.CONNECTION_BROKEN
        put = it.remote.desk.depth("T")
        await it.back()
        assert it.remote.desk.depth("T") == put < 2000
        assert len(caught.value.results) <= put


async def test_further_connections_come_back_on_one_line_too() -> None:
    async with lasting() as it:
        async with await it.connection.connect("second") as second, second.open("T", BOTH) as queue:
            await it.cut()
            third = asyncio.ensure_future(second.connect("third"))
            await asyncio.sleep(0)
            await it.back()
            await queue.put("a")
            async with await third as other, other.open("T", BOTH) as source:
                assert (await source.get()).data == b"a"
            assert len(it.remote.desk.manager.conversations) == 3
        await until(lambda: len(it.remote.desk.manager.conversations) == 2)


async def test_a_connection_may_be_left_while_its_line_is_down() -> None:
    async with lasting() as it:
        async with await it.connection.connect() as second:
            await it.cut()
        assert await reason_of(second.open("T", BOTH)) in (MQRC.HCONN_ERROR, MQRC.CONNECTION_BROKEN)
        await it.back()
    assert not [task for task in asyncio.all_tasks() if "reconnect" in task.get_name()]


@pytest.mark.parametrize("down", [True, False])
async def test_leaving_says_that_a_unit_was_lost_if_nobody_has(down: bool) -> None:
    async with lasting() as it:
        with pytest.raises(MQError, match="backed out when the connection broke"):
            async with await it.connection.connect() as second, second.open("T", BOTH) as queue:
                await queue.put("lost", options=MQPMO.SYNCPOINT)
                await it.cut()
                if not down:
                    await it.back()
        assert it.remote.desk.depth("T") == 0


async def test_tries_come_after_twice_as_long_each_and_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    caplog.set_level(logging.DEBUG, "broker.client.redial")
    async with QueueManager.open(name="QM1", clock=clock) as manager:
        async with Server(manager, ListenerConfig(port=0), LimitsConfig()) as server:
            (address,) = server.addresses
            call = connect(f"mq://{address}", clock=clock, reconnect=True)
            connection = await call.__aenter__()
        await until(lambda: connection.port._down)  # type: ignore[attr-defined]
        since = clock.monotonic()
        tries: list[float] = []
        while len(tries) < 12:
            await clock.advance(0.01)
            for _ in range(20):
                await asyncio.sleep(0)
            reported = [each for each in caplog.records if "not there yet" in each.getMessage()]
            tries += [clock.monotonic() - since] * (len(reported) - len(tries))
        waits = [after - before for before, after in zip([0.0, *tries], tries, strict=False)]
        wanted = [min(FIRST_SECONDS * 2**number, LAST_SECONDS) for number in range(12)]
        assert all(0.5 * most - 0.02 <= wait <= most + 0.02 for wait, most in zip(waits, wanted, strict=True))
        port = int(address.rpartition(":")[2])
        async with Server(manager, ListenerConfig(port=port), LimitsConfig()):
            later = asyncio.ensure_future(connection.status())
            await clock.advance(LAST_SECONDS)
            assert (await later)["name"] == "QM1"
            assert [each.levelname for each in caplog.records if each.levelno >= logging.INFO] == ["WARNING", "INFO"]
            await call.__aexit__(None, None, None)


async def test_h9_5_a_worker_takes_again_when_the_line_is_there_and_what_it_had_was_a_crash() -> None:
    async with lasting() as it, it.connection.deliveries("Q", options=TERMS._replace(backoff=(0.0,))) as worker:
        desk = it.remote.desk
        await desk.put("a", "b")
        old = await worker.take(2)
        assert [each.attempt for each in old] == [1, 1]
        taking = asyncio.ensure_future(worker.take())
        await asyncio.sleep(0)
        await it.cut()
        assert await reason_of(taking) == MQRC.CONNECTION_BROKEN
        refused = await settle(worker, Outcome.DONE, *old)
        assert [each.reason for each in refused] == [MQRC.HOBJ_ERROR] * 2
        assert await reason_of(worker.connect(old[0])) == MQRC.HOBJ_ERROR
        await it.back()
        refused = await settle(worker, Outcome.DONE, *old)
        assert [(each.id, each.reason) for each in refused] == [(each.id, MQRC.HOBJ_ERROR) for each in old]
        await desk.put("c")
        taken = [*await worker.take(), *old][:1]
        settled = await settle(worker, Outcome.DONE, *taken, old[0])
        assert [(each.id, each.reason) for each in settled] == [(taken[0].id, 0), (old[0].id, MQRC.HOBJ_ERROR)]


async def test_starts_of_a_former_line_are_not_settled_on_the_next() -> None:
    async with lasting("DEFINE QLOCAL(Z) TRIGGER TRIGTYPE(EVERY) PROCESS(P)") as it:
        desk = it.remote.desk
        async with it.connection.trigger_starts(["P"]) as starts:
            await desk.put("a", queue="Z")
            await starts.pending()
            (old,) = await starts.take("Z", 5)
            waiting = asyncio.ensure_future(starts.wait())
            await asyncio.sleep(0)
            await it.cut()
            assert await reason_of(waiting) == MQRC.CONNECTION_BROKEN
            waiting = asyncio.ensure_future(starts.wait())
            await it.back()
            await waiting
            (new,) = await starts.take("Z", 5)
            old.done()
            old.give_back()
            assert await starts.take("Z", 5) == []
            new.give_back()
            (again,) = await starts.take("Z", 5)
            again.done()


async def test_without_reconnect_a_line_that_breaks_is_the_end() -> None:
    async with remote("DEFINE QLOCAL(T)") as r, connect(r.proxy.url, clock=r.desk.clock) as connection:
        queue = await connection.open("T", BOTH)
        r.proxy.cut()
        assert await reason_of(queue.get(None, GetMessageOptions(options=MQGMO.WAIT, wait_interval=5000))) == (
            MQRC.CONNECTION_BROKEN
        )
        assert await reason_of(queue.put("a")) == MQRC.CONNECTION_BROKEN
