"""Retry with backoff, and what becomes of messages in the end: handlers rules 2 and 7, over an embedded manager."""

from __future__ import annotations

import asyncio
import math
import re
from typing import TYPE_CHECKING

import pytest

from broker.core.deliveries import backoff
from broker.mqi import MQMF, MQPMO, MQRO, MessageDescriptor
from broker.mqi.delivery_fields import ATTEMPTS, SECONDS_MAX, Became, Outcome, ServiceOptions
from tests.handlers.desk import FAILURE, TERMS, bodies, desk, settle
from triggers.app.verdicts import DEFAULT_RETRY, Later, Retry

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker import Message

FOR_EVER = TERMS._replace(attempts=None)


async def test_h2_1_others_pass_a_message_that_waits() -> None:
    async with desk() as d, d.worker(FOR_EVER) as worker:
        await d.put("bad", *map(str, range(100)))
        (bad,) = await worker.take()
        await settle(worker, Outcome.FAILED, bad)
        for number in range(100):
            (taken,) = await worker.take()
            assert bodies([taken]) == [str(number)]
            await settle(worker, Outcome.DONE, taken)
        await d.clock.advance(1)
        assert bodies(await worker.take()) == ["bad"]


@pytest.mark.parametrize(
    ("case", "terms", "waits"),
    [
        ("H2.2", ServiceOptions(backoff=(1.0, 5.0), doubles=True, jitter=False), [1, 2, 4, 5]),
        ("H2.3", ServiceOptions(backoff=(1.0, 10.0), doubles=False, jitter=False), [1, 10, 10]),
        ("a number", ServiceOptions(backoff=(3.0,), doubles=False, jitter=False), [3, 3, 3]),
    ],
)
async def test_how_long_it_waits(case: str, terms: ServiceOptions, waits: list[float]) -> None:
    """H2.2, H2.3."""
    terms = terms._replace(attempts=len(waits) + 1, dead_letter="DEAD")
    async with desk() as d, d.worker(terms) as worker:
        await d.put("a")
        for wait in waits:
            (taken,) = await worker.take()
            await settle(worker, Outcome.FAILED, taken)
            take = asyncio.ensure_future(worker.take())
            await d.clock.advance(wait - 0.001)
            assert not take.done(), case
            await d.clock.advance(0.001)
            (taken,) = await take
            await settle(worker, Outcome.RETURNED, taken)
        (last,) = await worker.take()
        assert (await settle(worker, Outcome.FAILED, last))[0].became == Became.DEAD


def test_a_handler_that_names_no_retry_is_tried_for_more_than_an_hour() -> None:
    waits = [backoff.wait_after(ServiceOptions(jitter=False), charged, bytes(24)) for charged in range(1, ATTEMPTS)]
    assert (len(waits), waits[:3], waits[10:]) == (17, [0.5, 1.0, 2.0], [512.0, *[600.0] * 6])
    assert sum(waits) == 4623.5
    assert (DEFAULT_RETRY.n, DEFAULT_RETRY.waits) == (ATTEMPTS - 1, ServiceOptions().backoff)


def test_the_spread_is_the_same_each_time_and_half_at_least() -> None:
    terms = ServiceOptions(backoff=(1.0, 60.0))
    waits = [backoff.wait_after(terms, 1, number.to_bytes(24, "big")) for number in range(1000)]
    assert waits == [backoff.wait_after(terms, 1, number.to_bytes(24, "big")) for number in range(1000)]
    assert 0.5 <= min(waits) < 0.51 < 0.99 < max(waits) <= 1.0


async def test_h2_12_a_member_of_a_group_that_fails_is_not_overtaken() -> None:
    async with desk() as d, d.worker(FOR_EVER._replace(order_by="group_id")) as worker:
        async with d.connection.open("Q", 16) as out:
            for number, flags in ((1, MQMF.MSG_IN_GROUP), (2, MQMF.MSG_IN_GROUP), (3, MQMF.LAST_MSG_IN_GROUP)):
                await out.put(
                    str(number), MessageDescriptor(group_id=b"G" * 24, msg_seq_number=number, msg_flags=flags)
                )
        await d.put("alone")
        first, alone = await worker.take(5)
        assert bodies([first, alone]) == ["1", "alone"]
        await settle(worker, Outcome.DONE, first, alone)
        (second,) = await worker.take(5)
        await settle(worker, Outcome.FAILED, second)
        take = asyncio.ensure_future(worker.take(5))
        await d.clock.advance(0.9)
        assert not take.done()
        await d.clock.advance(0.1)
        (second,) = await take
        assert bodies([second]) == ["2"]
        await settle(worker, Outcome.DONE, second)
        assert bodies(await worker.take(5)) == ["3"]


async def test_segments_come_as_one_message() -> None:
    async with desk() as d, d.worker() as worker:
        async with d.connection.open("Q", 16) as out:
            for offset, flags in ((0, MQMF.SEGMENT), (1, MQMF.SEGMENT), (2, MQMF.LAST_SEGMENT)):
                md = MessageDescriptor(group_id=b"G" * 24, offset=offset, msg_flags=flags)
                await out.put("abc"[offset], md)
        (taken,) = await worker.take(5)
        assert bodies([taken]) == ["abc"]
        await settle(worker, Outcome.FAILED, taken)
        await d.clock.advance(1)
        (again,) = await worker.take(5)
        assert (bodies([again]), again.attempt) == (["abc"], 2)
        await settle(worker, Outcome.DONE, again)
        assert d.depth() == 0


async def dead_of(outcome: Outcome, why: str, **fields: object) -> Message:
    """The dead letter of a message that ends so, at its only attempt."""
    async with desk() as d:
        md = MessageDescriptor(correl_id=b"C" * 24, priority=3, expiry=36000)
        await d.put(b"\x00body\xff", md=md, properties={"colour": "red"})
        async with d.worker(TERMS._replace(attempts=1)) as worker:
            (taken,) = await worker.take()
            put = taken.messages[0].md
            await settle(worker, outcome, taken, **fields)
        (dead,) = await d.got("DEAD")
        reported = dead.properties
        assert (dead.data[172:], dead.md.format, dead.md.expiry) == (b"\x00body\xff", "MQDEAD", -1)
        kept = ("msg_id", "correl_id", "priority", "persistence", "put_date", "put_time", "put_appl_name")
        assert [getattr(dead.md, name) for name in kept] == [getattr(put, name) for name in kept]
        assert reported["colour"] == "red"
        assert (reported["evermq.why"], reported["evermq.queue"], reported["evermq.handler"]) == (
            why,
            "Q",
            "tests:handler",
        )
        assert (reported["evermq.attempts"], reported["evermq.put_expiry"], reported["evermq.worker"]) == (
            1,
            36000,
            "worker",
        )
        assert (reported["evermq.exception"], reported["evermq.error"]) == (FAILURE.exception, FAILURE.error)
        assert reported["evermq.traceback"] == FAILURE.traceback
        assert reported["evermq.first_failed"] == reported["evermq.last_failed"] == d.clock.time()
        return dead


@pytest.mark.parametrize(
    ("outcome", "why", "fields", "reason"),
    [
        (Outcome.FAILED, "failed", {}, 2362),
        (Outcome.FAILED, "timed_out", {"timed_out": True}, 2362),
        (Outcome.REJECTED, "rejected", {}, 2362),
        (Outcome.REJECTED, "rejected", {"feedback": 70_000}, 70_000),
        (Outcome.UNREADABLE, "unreadable", {}, 2110),
    ],
)
async def test_h7_1_every_why_once(outcome: Outcome, why: str, fields: dict[str, object], reason: int) -> None:
    """`crashed` is in test_crashes.py, `backed_out` in test_deliveries.py."""
    dead = await dead_of(outcome, why, **fields)
    assert int.from_bytes(dead.data[8:12], "little") == reason


async def test_h7_3_without_a_target_it_is_held_and_that_is_told(caplog: pytest.LogCaptureFixture) -> None:
    terms = TERMS._replace(attempts=1, dead_letter="")
    async with desk() as d, d.worker(terms) as worker:
        await d.put("poison")
        (taken,) = await worker.take()
        assert (await settle(worker, Outcome.FAILED, taken))[0].became == Became.HELD
        take = asyncio.ensure_future(worker.take())
        await d.clock.advance(59)
        assert not take.done()
        lines = [record.message for record in caplog.records if "dead letters held" in record.message]
        assert len(lines) == 1
        await d.clock.advance(120)
        lines = [record.message for record in caplog.records if "dead letters held" in record.message]
        assert 2 <= len(lines) <= 3
        found = await d.connection.explain("Q")
        assert any("dead" in finding.text for finding in found.findings), found
        assert d.depth() == 1
        take.cancel()


async def test_h7_11_no_confirmation_and_the_exception_report() -> None:
    async with desk() as d, d.worker(TERMS._replace(attempts=1)) as worker:
        options = MQRO.COD | MQRO.EXCEPTION_WITH_FULL_DATA
        await d.put("poison", md=MessageDescriptor(report=options, reply_to_q="OUT"))
        (taken,) = await worker.take()
        await settle(worker, Outcome.FAILED, taken)
        (report,) = await d.got("OUT")
        assert (report.md.feedback, report.data, report.md.correl_id) == (2362, b"poison", taken.messages[0].md.msg_id)


async def test_h6_8_a_long_handler_holds_nobody_elsewhere() -> None:
    async with desk() as d, d.worker() as busy, d.worker() as other:
        await d.put("long", "a", "b")
        (long,) = await busy.take(1)
        for body in ("a", "b"):
            (taken,) = await other.take(1)
            assert bodies([taken]) == [body]
            await settle(other, Outcome.DONE, taken)
        await d.clock.advance(600)
        await settle(busy, Outcome.DONE, long)
        assert d.depth() == 0


async def test_h12_1_one_of_a_turn_is_undone_and_the_others_commit_together() -> None:
    async with desk("DEFINE QLOCAL(FULL) MAXDEPTH(1)") as d, d.worker() as worker:
        await d.put("x", queue="FULL")
        await d.put(*map(str, range(100)))
        taken = await worker.take(100)
        connection = await worker.connect(taken[7])
        await connection.put1("FULL", "y", options=MQPMO.SYNCPOINT | MQPMO.ASYNC_RESPONSE)  # which nobody hears fail
        before = d.manager.journal.units
        settled = await settle(worker, Outcome.DONE, *taken)
        assert [each.id for each in settled if each.became != Became.GONE] == [taken[7].id]
        assert d.manager.journal.units - before <= 3  # the 99 are one submission
        assert d.depth() == 1


async def test_h12_5_maxumsgs_is_of_the_delivery_alone() -> None:
    async with desk("ALTER QMGR MAXUMSGS(3)\nALTER QLOCAL(OUT) MAXDEPTH(100)") as d, d.worker() as worker:
        await d.put(*map(str, range(10)))
        taken = await worker.take(10)
        connection = await worker.connect(taken[0])
        for _ in range(3):
            await connection.put1("OUT", "x")
        with pytest.raises(Exception, match="2024"):
            await connection.put1("OUT", "x")
        settled = await settle(worker, Outcome.DONE, *taken)
        assert [each.became for each in settled] == [Became.GONE] * 10  # who catches the error, keeps what it has put
        assert d.depth("OUT") == 3


_BOUND = "a number of seconds, 0 or more and at most 316224000, which is ten years"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Later(1e12), f"Later(1000000000000.0): {_BOUND}"),
        (lambda: Later(10**5000), f"Later(an integer of 16610 bits): {_BOUND}"),
        (lambda: Later(math.nan), f"Later(nan): {_BOUND}"),
        (lambda: Later(-1), f"Later(-1): {_BOUND}"),
        (lambda: Retry(5, backoff=1e12), f"Retry(backoff=...) with a wait of 1000000000000.0: {_BOUND}"),
        (lambda: Retry(5, backoff=(1, 1e12)), f"Retry(backoff=...) with a wait of 1000000000000.0: {_BOUND}"),
        (lambda: Retry(5, backoff=[math.nan]), f"Retry(backoff=...) with a wait of nan: {_BOUND}"),
    ],
)
def test_a_wait_that_nobody_can_live_to_see_is_refused_in_words(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        make()


def test_ten_years_are_a_wait() -> None:
    assert Later(SECONDS_MAX).seconds == Retry(5, backoff=SECONDS_MAX).waits[0] == SECONDS_MAX
