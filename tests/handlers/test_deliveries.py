"""What becomes of a message under a handler: handlers rules 1.2 to 1.6, 2.1, 6.1 and 6.3, over an embedded manager."""

from __future__ import annotations

import asyncio
import heapq
import math
import re

import pytest

from broker.engine.journal.journal import NOTE_WITHIN
from broker.mqi import MQGMO, MQMF, MQOO, MQPMO, MQRC, Cause, MessageDescriptor, MQError
from broker.mqi.delivery_fields import Became, Failure, Outcome, ServiceOptions, Settlement
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore, VirtualClock
from tests.handlers.desk import TERMS, bodies, desk, settle


async def test_h1_1_what_returns_is_gone_and_what_it_put_is_there() -> None:
    async with desk() as d, d.worker() as worker:
        await d.put("a")
        (taken,) = await worker.take()
        connection = await worker.connect(taken)
        async with connection.open("OUT", MQOO.OUTPUT) as out:
            await out.put("reply")
        assert (d.depth(), await d.got("OUT")) == (0, [])
        (settled,) = await settle(worker, Outcome.DONE, taken)
        assert (settled.became, settled.reason) == (Became.GONE, 0)
        assert [message.data for message in await d.got("OUT")] == [b"reply"]
        assert d.depth() == 0


async def test_h1_2_what_raises_has_put_nothing_and_is_charged() -> None:
    async with desk() as d, d.worker() as worker:
        await d.put("a")
        (taken,) = await worker.take()
        connection = await worker.connect(taken)
        async with connection.open("OUT", MQOO.OUTPUT) as out:
            for _ in range(3):
                await out.put("reply")
        (settled,) = await settle(worker, Outcome.FAILED, taken)
        assert (settled.became, settled.attempts) == (Became.DELAYED, 1)
        assert d.depth("OUT") == 0
        await d.clock.advance(1)
        (again,) = await worker.take()
        assert (again.attempt, again.messages[0].md.backout_count) == (2, 1)
        assert again.messages[0].md.msg_id == taken.messages[0].md.msg_id
        await settle(worker, Outcome.DONE, again)


async def test_h1_3_three_attempts_then_the_dead_letter() -> None:
    async with desk() as d, d.worker() as worker:
        await d.put("a")
        for attempt in (1, 2, 3):
            (taken,) = await worker.take()
            assert (taken.attempt, taken.limit) == (attempt, 3)
            (settled,) = await settle(worker, Outcome.FAILED, taken)
            await d.clock.advance(1)
        assert settled.became == Became.DEAD
        (dead,) = await d.got("DEAD")
        assert dead.properties["evermq.attempts"] == 3
        assert (d.depth(), d.counts()["dead_lettered"], d.counts()["failed"]) == (0, 1, 3)


async def test_h1_4_bothresh_is_the_limit_where_the_terms_say_none() -> None:
    async with desk("ALTER QLOCAL(Q) BOTHRESH(2)") as d, d.worker(TERMS._replace(attempts=0)) as worker:
        await d.put("a")
        (first,) = await worker.take()
        await settle(worker, Outcome.FAILED, first)
        await d.clock.advance(1)
        (second,) = await worker.take()
        assert (await settle(worker, Outcome.FAILED, second))[0].became == Became.DEAD


async def test_h1_5_what_others_have_backed_out_too_often_meets_no_handler() -> None:
    async with desk() as d:
        await d.put("a")
        for _ in range(2):
            async with d.connection.open("Q", MQOO.INPUT_SHARED) as queue:
                await queue.get(options=MQGMO.SYNCPOINT)
                await d.connection.backout()
        async with d.worker(TERMS._replace(attempts=2)) as worker:
            take = asyncio.ensure_future(worker.take())
            await d.clock.advance(0)
            assert not take.done()
            take.cancel()
        (dead,) = await d.got("DEAD")
        assert (dead.properties["evermq.why"], dead.properties["evermq.attempts"]) == ("backed_out", 2)


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.FAILED, Outcome.LATER, Outcome.RETURNED])
async def test_rule_1_5_a_message_that_is_settled_at_once_is_written_once(outcome: Outcome) -> None:
    store = FaultStore(MemoryStore())
    async with desk(store=store) as d, d.worker() as worker:
        for _ in range(2):  # the second time as the first
            await d.put("a")
            store.written.clear()
            (taken,) = await worker.take()
            await settle(worker, outcome, taken)
            assert len(store.written) == 1
            assert [row.hardened async for rows in store.load_messages() for row in rows] == [0] * d.depth()
            if outcome != Outcome.DONE:
                await d.clock.advance(1)
                await settle(worker, Outcome.DONE, *await worker.take())


@pytest.mark.parametrize(("after", "charged"), [(0, 0), (NOTE_WITHIN / 2, 0), (NOTE_WITHIN, 1)])
async def test_rule_1_5_a_handler_that_ends_the_queue_manager_at_once_is_charged_the_second_time(
    after: float, charged: int
) -> None:
    store = FaultStore(MemoryStore())
    async with desk(store=store) as d, d.worker() as worker:
        await d.put("a")
        await worker.take()
        await d.clock.advance(after)
        store.kill()
    for crash in (1, 2):
        store = FaultStore(store.inner)
        async with desk(store=store) as d, d.worker() as worker:
            (taken,) = await worker.take()
            assert taken.attempt == charged + crash
            store.kill()


async def test_h1_12_a_full_disk_is_not_the_handlers_fault() -> None:
    store = FaultStore(MemoryStore())
    async with desk(store=store) as d, d.worker() as worker:
        await d.put("puts", "only reads")
        puts, reads = await worker.take(2)
        await (await worker.connect(puts)).put1("OUT", "reply", MessageDescriptor(persistence=1))
        store.fill()
        (settled,) = await settle(worker, Outcome.DONE, reads)
        assert settled.became == Became.GONE
        wait = 1.0
        for _ in range(8):
            (settled,) = await settle(worker, Outcome.DONE, puts)
            assert (settled.became, settled.reason) == (Became.DELAYED, MQRC.STORAGE_MEDIUM_FULL)
            assert settled.attempts == 0
            assert settled.next_at == pytest.approx(d.clock.time() + wait)
            assert (d.depth(), d.depth("OUT")) == (1, 0)
            await d.clock.advance(wait)
            (puts,) = await worker.take()
            assert (bodies([puts]), puts.attempt) == (["puts"], 1)
            await (await worker.connect(puts)).put1("OUT", "reply", MessageDescriptor(persistence=1))
            wait = min(2 * wait, 60.0)
        store.make_room()
        assert (await settle(worker, Outcome.DONE, puts))[0].became == Became.GONE
        assert [message.data for message in await d.got("OUT")] == [b"reply"]
        assert (d.depth(), d.counts()["failed"], d.counts()["returned"]) == (0, 0, 8)


async def test_what_is_handled_at_once_has_not_waited() -> None:
    """H13.1: the seconds waited are those since the put."""
    async with desk() as d, d.worker() as worker:
        await d.put("a")
        (taken,) = await worker.take()
        assert taken.waited == d.counts()["waited"]["sum"] == 0
        await settle(worker, Outcome.FAILED, taken)
        await d.clock.advance(1)
        (again,) = await worker.take()
        assert again.waited == d.counts()["waited"]["sum"] == 1


async def test_h1_13_the_unit_of_work_is_not_the_handlers_to_end() -> None:
    async with desk() as d, d.worker() as worker:
        await d.put("a")
        (taken,) = await worker.take()
        connection = await worker.connect(taken)
        for call in (connection.begin, connection.commit, connection.backout):
            with pytest.raises(MQError, match="committed when its handler returns") as refused:
                await call()
            assert refused.value.reason == MQRC.ENVIRONMENT_ERROR
        await settle(worker, Outcome.DONE, taken)
        with pytest.raises(MQError) as over:
            await connection.put1("OUT", "late")
        assert over.value.reason == MQRC.HCONN_ERROR


async def test_h1_14_a_start_without_a_message_is_counted_and_that_is_all() -> None:
    async with desk() as d, d.worker() as worker:
        await d.put("a", "b")
        assert len(await d.got()) == 2
        take = asyncio.ensure_future(worker.take())
        await d.clock.advance(0)
        assert not take.done()
        assert (d.counts()["empty"], d.counts()["started"]) == (2, 0)
        await d.put("c")
        assert bodies(await take) == ["c"]


async def test_h1_16_what_expires_under_its_handler_goes_with_it_or_is_discarded() -> None:
    async with desk() as d, d.worker() as worker:
        await d.put("a", "b", md=MessageDescriptor(expiry=10))
        first, second = await worker.take(2)
        await d.clock.advance(5)
        (done,) = await settle(worker, Outcome.DONE, first)
        (failed,) = await settle(worker, Outcome.FAILED, second)
        assert (done.became, failed.became) == (Became.GONE, Became.EXPIRED)
        assert d.depth() == 0


async def test_what_goes_back_is_not_charged_and_has_its_start_again() -> None:
    async with desk() as d, d.worker() as worker:
        await d.put("a", "b")
        taken = await worker.take(2)
        await settle(worker, Outcome.RETURNED, *taken)
        again = await worker.take(2)
        assert (bodies(again), [each.attempt for each in again]) == (["a", "b"], [1, 1])
        await settle(worker, Outcome.DONE, *again)
        assert d.counts()["returned"] == 2


async def test_how_long_it_could_have_been_had() -> None:
    async with desk() as d, d.worker() as worker:
        await d.clock.advance(100)
        await d.put("a")
        await d.clock.advance(2.5)
        (taken,) = await worker.take()
        assert taken.waited == pytest.approx(2.5, abs=0.011)
        await settle(worker, Outcome.DONE, taken)
        assert d.counts()["waited"]["sum"] == pytest.approx(2.5, abs=0.011)


async def test_later_waits_uncharged_unless_it_says_counted() -> None:
    async with desk() as d, d.worker() as worker:
        await d.put("a")
        (taken,) = await worker.take()
        (settled,) = await settle(worker, Outcome.LATER, taken, seconds=30.0)
        assert (settled.became, settled.attempts) == (Became.DELAYED, 0)
        take = asyncio.ensure_future(worker.take())
        await d.clock.advance(29.9)
        assert not take.done()
        await d.clock.advance(0.1)
        (again,) = await take
        assert again.attempt == 1
        (settled,) = await settle(worker, Outcome.LATER, again, seconds=1.0, counted=True)
        await d.clock.advance(1)
        assert [each.attempt for each in await worker.take()] == [2]


async def test_later_with_a_failure_says_why_the_handler_could_not_begin_until_something_is_done() -> None:
    away = Failure("DatabaseAwayError", "database orders 12ab34cd: connection refused")
    async with desk() as d, d.worker() as worker:
        await d.put("a", "b")
        (taken,) = await worker.take()
        (settled,) = await settle(worker, Outcome.LATER, taken, seconds=30.0, failure=away)
        assert (settled.became, settled.attempts) == (Became.DELAYED, 0)
        await d.clock.advance(4)
        (found,) = [each for each in (await d.connection.explain("Q")).findings if each.code == Cause.DELAYED]
        why = "DatabaseAwayError: database orders 12ab34cd: connection refused"
        assert found.text.endswith(f"; their handler could not begin 4 s ago, and nobody is charged: {why}")
        assert (found.figures["put_off"], d.counts()["last_error"], d.counts()["failed"]) == (why, why, 0)
        (other,) = await worker.take()
        await settle(worker, Outcome.DONE, other)
        (found,) = [each for each in (await d.connection.explain("Q")).findings if each.code == Cause.DELAYED]
        assert "could not begin" not in found.text
        assert "put_off" not in found.figures


@pytest.mark.parametrize("seconds", [1e12, math.nan, math.inf, -1.0])
async def test_a_later_that_nobody_can_live_to_see_is_refused_and_the_delivery_stays(seconds: float) -> None:
    async with desk() as d, d.worker() as worker:
        await d.put("a", "b")
        (first,), (second,) = await worker.take(), await worker.take()
        with pytest.raises(MQError, match=re.escape(f"Later({seconds}): a number of seconds, ")) as caught:
            await worker.settle(
                [Settlement(second.id, Outcome.DONE), Settlement(first.id, Outcome.LATER, seconds=seconds)]
            )
        assert caught.value.reason == MQRC.OPTIONS_ERROR
        settled = await settle(worker, Outcome.DONE, first, second)
        assert [each.became for each in settled] == [Became.GONE, Became.GONE]


@pytest.mark.parametrize("wait", [1e12, math.nan])
async def test_a_backoff_that_nobody_can_wait_for_is_refused(wait: float) -> None:
    async with desk() as d, d.manager.connect() as connection:
        with pytest.raises(MQError, match=re.escape(f"backoff={wait}: a number of seconds, ")) as caught:
            async with connection.deliveries("Q", options=TERMS._replace(backoff=(1.0, wait))):
                pass
        assert caught.value.reason == MQRC.OPTIONS_ERROR


async def test_a_failed_put_that_nobody_awaited_fails_the_attempt() -> None:
    async with desk("DEFINE QLOCAL(FULL) MAXDEPTH(1)") as d, d.worker() as worker:
        await d.put("x", queue="FULL")
        await d.put("a")
        (taken,) = await worker.take()
        connection = await worker.connect(taken)
        put = asyncio.ensure_future(connection.put1("FULL", "y", options=MQPMO.SYNCPOINT | MQPMO.ASYNC_RESPONSE))
        await asyncio.wait([put])
        (settled,) = await settle(worker, Outcome.DONE, taken)
        assert (settled.became, settled.attempts) == (Became.DELAYED, 1)


async def test_a_connection_that_ends_in_order_charges_nothing() -> None:
    async with desk() as d:
        await d.put("a")
        async with d.worker() as worker:
            assert await worker.take()
        async with d.worker() as worker:
            assert [each.attempt for each in await worker.take()] == [1]


async def test_h6_1_starts_are_shared_among_those_who_wait() -> None:
    async with desk() as d, d.worker() as one, d.worker() as other:
        first = asyncio.ensure_future(one.take(10))
        second = asyncio.ensure_future(other.take(10))
        await d.clock.advance(0)
        await d.connection.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
        await d.put(*map(str, range(10)))
        await d.connection.mqsc("ALTER QLOCAL(Q) GET(ENABLED)")
        assert sorted(map(len, (await first, await second))) == [5, 5]


async def test_h6_2_never_more_than_total() -> None:
    terms = TERMS._replace(total=5)
    async with desk() as d, d.worker(terms) as one, d.worker(terms) as other:
        await d.put(*map(str, range(20)))
        taken = await one.take(3) + await other.take(10)
        assert len(taken) == 5
        take = asyncio.ensure_future(other.take(10))
        await d.clock.advance(0)
        assert not take.done()
        await settle(one, Outcome.DONE, taken[0])
        assert len(await take) == 1


async def test_h6_6_a_rate_holds_for_all() -> None:
    terms = TERMS._replace(rate=50.0, burst=10)
    async with desk() as d, d.worker(terms) as one, d.worker(terms) as other:
        await d.put(*map(str, range(2000)))
        handled = 0

        async def serve(worker: object) -> None:
            nonlocal handled
            while True:
                taken = await worker.take(10)  # type: ignore[attr-defined]
                handled += len(taken)
                await settle(worker, Outcome.DONE, *taken)  # type: ignore[arg-type]

        tasks = [asyncio.ensure_future(serve(each)) for each in (one, other)]
        await d.clock.advance(10)
        assert handled == 510
        for task in tasks:
            task.cancel()
        await d.clock.advance(0)


class EarlyClock(VirtualClock):
    """A clock whose timers fire a hair early, as those of uvloop do, and that goes on a hair with each look at it."""

    async def _go_to(self, moment: float) -> None:
        await super()._go_to(moment - 5e-5)

    def _fire(self) -> None:
        while self._timers and self._timers[0][0] <= self._now + 1e-4:
            heapq.heappop(self._timers)[2].fire()

    def monotonic(self) -> float:
        self._now += 3e-5
        return self._now


@pytest.mark.parametrize("rate", [20.0, 1000.0])
async def test_h6_6_a_rate_goes_on_where_a_timer_fires_a_hair_before_its_instant(rate: float) -> None:
    async with desk(clock=EarlyClock()) as d, d.worker(TERMS._replace(rate=rate, burst=1)) as worker:
        await d.put(*map(str, range(60)))
        handled = 0

        async def serve() -> None:
            nonlocal handled
            while True:
                taken = await worker.take(10)
                handled += len(taken)
                await settle(worker, Outcome.DONE, *taken)

        task = asyncio.ensure_future(serve())
        await d.clock.advance(60 / rate + 1)
        assert handled == 60
        task.cancel()
        await d.clock.advance(0)


@pytest.mark.parametrize("ticks", [(0.0, 0.0), (0.04999, 0.0500001)], ids=["at once", "a hair early"])
async def test_h6_6_the_look_that_a_rate_refuses_says_when_the_next_is_due(ticks: tuple[float, float]) -> None:
    """Whoever sets the timer reads the clock once more: what was refused is due by then, and not unknown."""
    looked, armed = ticks
    async with desk() as d, d.worker(TERMS._replace(rate=20.0, burst=1)) as worker:
        await d.put("a", "b")
        deliveries = d.manager.core.deliveries
        (service,) = deliveries.services()
        (first,) = await worker.take()
        take = asyncio.ensure_future(worker.take())
        await d.clock.advance(0)
        assert service.room(looked) == 0
        assert deliveries.next_look(armed) == pytest.approx(max(0.05 - armed, 0.0), abs=1e-9)
        take.cancel()
        await settle(worker, Outcome.DONE, first)


ORDERED = TERMS._replace(order_by="customer", attempts=2)


async def test_h6_5_a_key_stands_while_its_head_is_busy_or_waits() -> None:
    async with desk() as d, d.worker(ORDERED) as worker:
        for body in ("a1", "b1", "a2", "b2", "a3"):
            await d.put(body, properties={"customer": body[0]})
        await d.put("alone")
        taken = await worker.take(10)
        assert bodies(taken) == ["a1", "b1", "alone"]
        a1, b1, alone = taken
        await settle(worker, Outcome.FAILED, a1)
        await settle(worker, Outcome.DONE, b1, alone)
        (b2,) = await worker.take(10)
        assert bodies([b2]) == ["b2"]
        await settle(worker, Outcome.DONE, b2)
        take = asyncio.ensure_future(worker.take(10))
        await d.clock.advance(0.5)
        assert not take.done()
        await d.clock.advance(0.5)
        (again,) = await take
        assert (bodies([again]), again.attempt) == (["a1"], 2)
        assert (await settle(worker, Outcome.FAILED, again))[0].became == Became.DEAD
        for body in ("a2", "a3"):
            (taken_,) = await worker.take(10)
            assert bodies([taken_]) == [body]
            await settle(worker, Outcome.DONE, taken_)
        assert d.depth() == 0


async def test_h6_9_another_order_is_refused() -> None:
    async with desk() as d, d.worker(ORDERED):
        with pytest.raises(MQError, match="order_by='customer'") as refused:
            async with d.worker(TERMS):
                pass
        assert refused.value.reason == MQRC.OBJECT_IN_USE


@pytest.mark.parametrize(
    ("alteration", "reported"),
    [
        ("ALTER QLOCAL(Q) TRIGTYPE(FIRST)", "TRIGTYPE\\(EVERY\\)"),
        ("ALTER QLOCAL(Q) PROCESS(' ')", "PROCESS\\(name\\)"),
        ("ALTER QLOCAL(Q) INITQ(SYSTEM.DEFAULT.INITIATION.QUEUE)", "INITQ\\(' '\\)"),
        ("ALTER QLOCAL(Q) PROCESS(MISSING)", "DEFINE PROCESS\\(MISSING\\)"),
    ],
)
async def test_h6_9_a_queue_that_cannot_be_served_says_how_to_alter_it(alteration: str, reported: str) -> None:
    async with desk(alteration) as d:
        with pytest.raises(MQError, match=reported) as refused:
            async with d.worker():
                pass
        assert refused.value.reason == MQRC.OPTION_NOT_VALID_FOR_TYPE


BATCHES = TERMS._replace(batch=10, batch_wait=0.05)


async def test_h8_6_a_batch_that_fails_comes_one_by_one() -> None:
    async with desk() as d, d.worker(BATCHES) as worker:
        await d.put(*map(str, range(10)))
        (batch,) = await worker.take()
        assert len(batch.messages) == 10
        await settle(worker, Outcome.FAILED, batch)
        await d.clock.advance(1)
        singles = await worker.take(20)
        assert bodies(singles) == [str(number) for number in range(10)]
        await settle(worker, Outcome.DONE, *singles[:9])
        await settle(worker, Outcome.FAILED, singles[9])
        await d.clock.advance(1)
        (last,) = await worker.take()
        assert (await settle(worker, Outcome.FAILED, last))[0].became == Became.DEAD


async def test_h8_7_of_a_batch_only_those_that_are_named_fail() -> None:
    async with desk() as d, d.worker(BATCHES) as worker:
        await d.put(*map(str, range(10)))
        (batch,) = await worker.take()
        from tests.handlers.desk import FAILURE

        await settle(worker, Outcome.DONE, batch, failed=((3, FAILURE),))
        assert d.depth() == 1
        await d.clock.advance(1)
        (again,) = await worker.take()
        assert (bodies([again]), again.attempt) == (["3"], 2)


async def test_h8_9_a_batch_that_is_not_full_waits_for_more() -> None:
    async with desk() as d, d.worker(BATCHES) as worker:
        take = asyncio.ensure_future(worker.take())
        await d.put("a", "b", "c")
        await d.clock.advance(0.049)
        assert not take.done()
        await d.clock.advance(0.001)
        (batch,) = await take
        assert bodies([batch]) == ["a b c"]


async def test_a_group_is_handled_and_fails_as_a_whole() -> None:
    async with desk() as d, d.worker(TERMS._replace(groups=True)) as worker:
        group = b"G" * 24
        async with d.connection.open("Q", MQOO.OUTPUT) as out:
            for number, flags in ((1, MQMF.MSG_IN_GROUP), (2, MQMF.MSG_IN_GROUP), (3, MQMF.LAST_MSG_IN_GROUP)):
                assert d.counts()["started"] == 0
                await out.put(str(number), MessageDescriptor(group_id=group, msg_seq_number=number, msg_flags=flags))
        (taken,) = await worker.take(5)
        assert bodies([taken]) == ["1 2 3"]
        await settle(worker, Outcome.FAILED, taken)
        await d.clock.advance(1)
        (again,) = await worker.take(5)
        assert (bodies([again]), again.attempt) == (["1 2 3"], 2)
        await settle(worker, Outcome.REJECTED, again)
        assert [message.md.msg_seq_number for message in await d.got("DEAD")] == [1, 2, 3]


async def test_the_segments_of_a_message_come_as_one_message() -> None:
    async with desk() as d, d.worker() as worker:
        group, offset = b"S" * 24, 0
        take = asyncio.ensure_future(worker.take(5))
        async with d.connection.open("Q", MQOO.OUTPUT) as out:
            for body, flags in (("one ", MQMF.SEGMENT), ("two ", MQMF.SEGMENT), ("three", MQMF.LAST_SEGMENT)):
                await d.clock.advance(0)
                assert not take.done()
                await out.put(body, MessageDescriptor(group_id=group, offset=offset, msg_flags=flags))
                offset += len(body)
        await d.put("another")
        await d.clock.advance(0)
        (taken,) = await take
        (message,) = taken.messages
        assert (message.data, message.md.offset) == (b"one two three", 0)
        await settle(worker, Outcome.FAILED, taken)
        await d.clock.advance(0.5)
        (other,) = await worker.take(5)
        assert bodies([other]) == ["another"]
        await settle(worker, Outcome.DONE, other)
        await d.clock.advance(0.5)
        (again,) = await worker.take(5)
        assert (bodies([again]), again.attempt) == (["one two three"], 2)
        await settle(worker, Outcome.DONE, again)
        assert d.depth() == 0
        await d.put("last")
        assert bodies(await worker.take(5)) == ["last"]


async def test_h7_2_a_dead_letter_that_finds_no_room_is_held_and_tried_again() -> None:
    async with desk("ALTER QLOCAL(DEAD) MAXDEPTH(1)") as d, d.worker() as worker:
        await d.put("x", queue="DEAD")
        await d.put("poison", "good")
        poison, good = await worker.take(2)
        (settled,) = await settle(worker, Outcome.REJECTED, poison)
        assert settled.became == Became.HELD
        await settle(worker, Outcome.DONE, good)
        await d.clock.advance(1.5)
        assert (d.depth(), d.depth("DEAD")) == (1, 1)
        assert len(await d.got("DEAD")) == 1
        await d.clock.advance(60)
        (dead,) = await d.got("DEAD")
        assert (dead.properties["evermq.why"], d.depth()) == ("rejected", 0)


@pytest.mark.parametrize(
    ("definitions", "terms", "where", "headed"),
    [
        ("", TERMS, "DEAD", True),
        ("ALTER QLOCAL(Q) BOQNAME(OUT)", TERMS._replace(dead_letter=""), "OUT", False),
        ("ALTER QMGR DEADQ(OUT)", TERMS._replace(dead_letter=""), "OUT", True),
        ("", TERMS._replace(dead_letter="", last_dead_letter="DEAD"), "DEAD", True),
    ],
)
async def test_h7_6_where_dead_letters_go(definitions: str, terms: ServiceOptions, where: str, headed: bool) -> None:
    async with desk(definitions) as d, d.worker(terms) as worker:
        await d.put("poison")
        (taken,) = await worker.take()
        await settle(worker, Outcome.REJECTED, taken, feedback=70000)
        (dead,) = await d.got(where)
        assert dead.data.endswith(b"poison")
        assert (dead.md.format == "MQDEAD", dead.data.startswith(b"DLH ")) == (headed, headed)
        assert dead.properties["evermq.queue"] == "Q"
        assert dead.md.msg_id == taken.messages[0].md.msg_id
