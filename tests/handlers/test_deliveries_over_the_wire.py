"""Deliveries of a worker over TCP: takes, settlements, connections of deliveries, and lines that are cut."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress

import pytest

from broker import Delivered, DeliveryConnection, connect
from broker.mqi import MQGMO, MQOO, MQPMO, MQRC, MQError
from broker.mqi.delivery_fields import Became, Failure, Outcome, ServiceOptions, Settlement
from tests.handlers.desk import TERMS, bodies, settle
from tests.handlers.wire import remote
from tests.server.test_over_the_wire import until


async def test_what_a_handler_puts_over_the_wire_is_there_when_its_delivery_is_settled() -> None:
    async with remote() as r, r.worker() as (_, worker):
        await r.desk.put("a", "b")
        (first,) = await worker.take()
        (second,) = await worker.take(10)
        assert bodies([first, second]) == ["a", "b"]
        assert first.trigger.q_name == second.trigger.q_name == "Q"
        assert (first.trigger.process_name, first.attempt, first.limit) == ("P", 1, 3)
        connection = await worker.connect(first)
        assert isinstance(connection, DeliveryConnection)
        assert await worker.connect(first) is connection
        async with connection, connection.open("OUT", MQOO.OUTPUT | MQOO.INPUT_SHARED) as out:
            await out.put("in the unit")
            await out.put("beside it", options=MQPMO.NO_SYNCPOINT)
            assert (await out.get(options=MQGMO.NO_SYNCPOINT)).data == b"beside it"
        assert await r.desk.got("OUT") == []
        settled = await worker.settle(
            [Settlement(first.id, Outcome.DONE, ran=0.5), Settlement(second.id, Outcome.RETURNED)]
        )
        assert [each.became for each in settled] == [Became.GONE, Became.RETURNED]
        assert [message.data for message in await r.desk.got("OUT")] == [b"in the unit"]
        assert r.desk.depth() == 1


@pytest.mark.parametrize("call", ["begin", "commit", "backout", "disconnect"])
async def test_h1_13_the_unit_of_a_delivery_is_not_the_handlers_to_end(call: str) -> None:
    async with remote() as r, r.worker() as (_, worker):
        await r.desk.put("a")
        (taken,) = await worker.take()
        connection = await worker.connect(taken)
        with pytest.raises(MQError, match="the unit of work is that of the delivery") as caught:
            await getattr(connection, call)()
        assert caught.value.reason == MQRC.ENVIRONMENT_ERROR
        with pytest.raises(MQError, match="MQRC_ENVIRONMENT_ERROR"):
            connection.unit_of_work()
        assert connection.in_unit_of_work
        await settle(worker, Outcome.DONE, taken)


@pytest.mark.parametrize("outcome", Outcome)
async def test_a_settled_delivery_has_no_connection_any_more(outcome: Outcome) -> None:
    async with remote() as r, r.worker() as (_, worker):
        await r.desk.put("a")
        (taken,) = await worker.take()
        connection = await worker.connect(taken)
        out = await connection.open("OUT", MQOO.OUTPUT)
        settling = asyncio.ensure_future(settle(worker, outcome, taken))
        await asyncio.sleep(0)
        with pytest.raises(MQError) as caught:
            await out.put("too late")
        assert caught.value.reason == MQRC.HCONN_ERROR
        await settling
        with pytest.raises(MQError) as caught:
            await connection.open("OUT", MQOO.OUTPUT)
        assert caught.value.reason == MQRC.HCONN_ERROR
        with pytest.raises(MQError) as caught:
            await worker.connect(taken)
        assert caught.value.reason == MQRC.HOBJ_ERROR
        assert r.desk.depth("OUT") == 0


async def test_connections_of_settled_deliveries_leave_room_for_others() -> None:
    async with remote(conversations=4) as r, r.worker() as (_, worker):
        for _ in range(20):
            await r.desk.put("a", "b", "c")
            taken = [(await worker.take())[0] for _ in range(3)]
            for each in taken:
                connection = await worker.connect(each)
                await connection.put1("OUT", "done")
            async with await connection.connect() as further:  # one too many for this line
                assert further.port.line is not connection.port.line  # type: ignore[attr-defined]
            await settle(worker, Outcome.DONE, *taken)
        assert (r.desk.depth(), r.desk.depth("OUT")) == (0, 60)


async def test_puts_that_nobody_awaited_are_in_the_unit_that_is_settled_behind_them() -> None:
    async with remote() as r, r.worker() as (_, worker):
        await r.desk.put("a")
        (taken,) = await worker.take()
        connection = await worker.connect(taken)
        puts = [asyncio.ensure_future(connection.put1("OUT", f"{number}")) for number in range(5)]
        await asyncio.sleep(0)
        (settled,) = await settle(worker, Outcome.DONE, taken)
        assert settled.became == Became.GONE
        await asyncio.gather(*puts)
        assert [message.data for message in await r.desk.got("OUT")] == [b"0", b"1", b"2", b"3", b"4"]


async def test_what_a_loop_of_a_handler_has_read_ahead_is_not_removed_with_its_delivery() -> None:
    async with remote("DEFINE QLOCAL(INPUT) DEFREADA(YES)") as r, r.worker() as (_, worker):
        await r.desk.put("a")
        await r.desk.put(*(f"{number}" for number in range(20)), queue="INPUT")
        (taken,) = await worker.take()
        connection = await worker.connect(taken)
        seen = []
        source = await connection.open("INPUT", MQOO.INPUT_SHARED)
        async for message in source:
            seen.append(message.data)
            if len(seen) == 5:
                break
        else:
            pytest.fail("the loop ends by itself")
        (settled,) = await settle(worker, Outcome.DONE, taken)
        assert settled.became == Became.GONE
        left = [message.data for message in await r.desk.got("INPUT")]
        assert [*seen, *left] == [f"{number}".encode() for number in range(20)]


async def test_a_take_that_is_given_up_takes_nothing() -> None:
    async with remote() as r, r.worker() as (_, worker), r.worker() as (_, other):
        waiting = asyncio.ensure_future(worker.take(5))
        await asyncio.sleep(0)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        await r.desk.put("a")
        (taken,) = await other.take()
        assert (taken.attempt, bodies([taken])) == (1, ["a"])
        assert taken.trigger.process_name == "P"
        await settle(other, Outcome.DONE, taken)


async def test_a_take_given_up_when_its_answer_is_on_the_way_gives_back_what_that_brings() -> None:
    async with remote() as r, r.worker() as (_, worker):
        waiting = asyncio.ensure_future(worker.take(5))
        await until(lambda: r.desk.manager.core.deliveries.wanted() or r.proxy.passed["down"])
        await r.desk.put("a")
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        (taken,) = await worker.take()
        assert (taken.attempt, taken.trigger.process_name) == (1, "P")
        await settle(worker, Outcome.DONE, taken)
        assert r.desk.depth() == 0


async def test_wait_tells_of_a_start_that_is_pending() -> None:
    async with remote("DEFINE QLOCAL(Z) TRIGGER TRIGTYPE(EVERY) PROCESS(P)") as r, r.worker() as (_, worker):
        waiting = asyncio.ensure_future(worker.wait())
        await r.desk.put("another queue's", queue="Z")
        await asyncio.sleep(0.0)
        assert not waiting.done()
        await r.desk.put("a")
        await waiting
        (taken,) = await worker.take()
        await settle(worker, Outcome.DONE, taken)


async def test_more_settlements_than_one_call_takes_are_settled_all() -> None:
    async with remote() as r, r.worker() as (_, worker):
        await r.desk.put(*(f"{number}" for number in range(1100)))
        taken: list[Delivered] = []
        while len(taken) < 1100:
            taken += await worker.take(1000)
        long = Failure("E" * 1000, "e" * 5000, "\N{EURO SIGN}" * 10_000)
        failed = [Settlement(each.id, Outcome.REJECTED, long._replace(exception=f"{each.id}")) for each in taken]
        settled = await worker.settle(failed)
        assert [each.id for each in settled] == [each.id for each in taken]
        assert {each.became for each in settled} == {Became.DEAD}
        assert (r.desk.depth(), r.desk.depth("DEAD")) == (0, 1100)
        (dead, *_) = await r.desk.got("DEAD")
        assert dead.properties["evermq.error"] == "e" * 1024


async def test_what_is_settled_and_not_held_is_said() -> None:
    async with remote() as r, r.worker() as (_, worker), r.worker() as (_, other):
        await r.desk.put("a")
        (taken,) = await worker.take()
        (refused,) = await settle(other, Outcome.DONE, taken)
        assert refused.reason == MQRC.HOBJ_ERROR
        (settled,) = await settle(worker, Outcome.DONE, taken)
        assert (settled.became, settled.reason) == (Became.GONE, 0)
        assert await worker.settle([]) == []


async def test_a_queue_that_cannot_be_served_is_said_when_one_begins() -> None:
    async with remote() as r, connect(r.proxy.url) as connection:
        for name, reason in (("NO.SUCH", MQRC.UNKNOWN_OBJECT_NAME), ("OUT", MQRC.OPTION_NOT_VALID_FOR_TYPE)):
            with pytest.raises(MQError) as caught:
                async with connection.deliveries(name):
                    pytest.fail("it is served")
            assert caught.value.reason == reason
        async with connection.deliveries("Q", order_by="key"):
            with pytest.raises(MQError) as caught:
                async with connection.deliveries("Q", options=ServiceOptions(order_by="other")):
                    pytest.fail("it is served")
            assert caught.value.reason == MQRC.OBJECT_IN_USE


async def cut_while_settling(*, up: int | None = None, down: int | None = None) -> tuple[bool, int, int]:
    """Settle a delivery whose handler has put, and cut the line after so many bytes of that: whether the worker has an
    answer, how many messages are on the queue, and how many the handler has put.
    """
    async with remote() as r:
        await r.desk.put("a")
        answered = False
        with suppress(MQError):
            async with r.worker() as (_, worker):
                (taken,) = await worker.take()
                connection = await worker.connect(taken)
                await connection.put1("OUT", "reply")
                r.proxy.cut_under_way(up=up, down=down)
                await settle(worker, Outcome.DONE, taken)
                answered = True
                r.proxy.cut()
        await until(lambda: not r.desk.manager.core.deliveries.services())
        return answered, r.desk.depth(), len(await r.desk.got("OUT"))


async def test_h1_10_a_line_cut_at_any_byte_of_the_settlement_leaves_all_or_nothing() -> None:
    outcomes = [await cut_while_settling(up=count) for count in range(40)]
    assert {each[1:] for each in outcomes} == {(1, 0), (0, 1)}
    assert outcomes[0] == (False, 1, 0)
    assert sorted(outcomes, key=lambda each: each[2]) == outcomes  # from some byte on it is settled


async def test_h12_2_a_line_cut_at_any_byte_of_the_answer_leaves_what_was_settled() -> None:
    outcomes = [await cut_while_settling(down=count) for count in range(30)]
    assert {each[1:] for each in outcomes} == {(0, 1)}
    assert {each[0] for each in outcomes} == {False, True}


async def test_a_take_whose_answer_is_lost_was_in_the_hands_of_who_is_gone() -> None:
    async with remote() as r:
        with suppress(MQError):
            async with r.worker(TERMS._replace(crashes=9, attempts=9)) as (_, worker):
                take = asyncio.ensure_future(worker.take())
                await until(lambda: any(each.takers for each in r.desk.manager.core.deliveries.services()))
                r.proxy.cut_under_way(down=5)
                await r.desk.put("a")
                await take
        await until(lambda: r.desk.counts()["crashed"])
        assert r.desk.depth() == 1


async def test_waits_that_nobody_can_live_to_see_are_refused_over_the_wire() -> None:
    async with remote() as r, r.worker() as (connection, worker):
        await r.desk.put("a")
        (taken,) = await worker.take()
        with pytest.raises(MQError, match=r"Later\(1000000000000\.0\): a number of seconds, ") as caught:
            await worker.settle([Settlement(taken.id, Outcome.LATER, seconds=1e12)])
        assert caught.value.reason == MQRC.OPTIONS_ERROR
        with pytest.raises(MQError, match=r"backoff=1000000000000\.0: a number of seconds, ") as caught:
            async with connection.deliveries("Q", options=TERMS._replace(backoff=(1e12,))):
                pass
        assert caught.value.reason == MQRC.OPTIONS_ERROR
        with pytest.raises(MQError, match=r"backoff .* is nan: a number of seconds is 0 or more") as caught:
            async with connection.deliveries("Q", options=TERMS._replace(backoff=(math.nan,))):
                pass
        assert caught.value.reason == MQRC.OPTIONS_ERROR
        await settle(worker, Outcome.DONE, taken)
        assert r.desk.depth() == 0
