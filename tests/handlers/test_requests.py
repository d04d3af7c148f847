"""Requests and replies (handlers section 10)."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from broker.mqi import MQMT, MQOO, MQPMO, MQRC, MQRO, MessageDescriptor, MQError
from broker.testing.clock import settle
from tests.handlers.apps import Seen, Shop
from tests.handlers.loops import asyncio_alone
from triggers import App, Reject, RequestError, Retry, UnreadableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(params=["embedded", "tcp"])
async def shop(request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    async with Shop(request.param) as shop:
        yield shop


@dataclass
class Price:
    article: str
    euros: float


async def test_a_returned_value_is_the_reply(shop: Shop) -> None:
    @shop.app.handler("Q")
    async def quote(body: dict[str, str]) -> Price:
        return Price(body["article"], 1.5)

    async with shop.running():
        assert await shop.app.request("Q", {"article": "pen"}, timeout=2) == {"article": "pen", "euros": 1.5}
        assert await shop.app.request("Q", {"article": "pen"}, timeout=2, type=Price) == Price("pen", 1.5)
        with pytest.raises(UnreadableError, match="is missing"):
            await shop.app.request("Q", {"article": "pen"}, timeout=2, type=Missing)


@dataclass
class Missing:
    name: str


@asyncio_alone
@pytest.mark.parametrize(("way", "count"), [("embedded", 10_000), ("tcp", 2_000)])
async def test_h10_1_ten_thousand_at_once_each_get_their_own(way: str, count: int) -> None:
    async with Shop(way) as shop:
        await ask_at_once(shop, count)


async def ask_at_once(shop: Shop, count: int) -> None:
    """Make so many requests at once, answered in random order."""
    wave = 500
    order = random.Random(10)
    waiting: list[asyncio.Future[None]] = []

    @shop.app.handler("Q", concurrency=wave)
    async def answer(body: dict[str, int]) -> dict[str, int]:
        turn = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        if len(waiting) == wave:
            order.shuffle(waiting)
            for each in waiting:
                each.set_result(None)
            waiting.clear()
        await turn
        return {"n": body["n"] + 1}

    async with shop.running() as session:
        asked = [shop.app.request("Q", {"n": n}, timeout=600) for n in range(count)]
        assert await asyncio.gather(*asked) == [{"n": n + 1} for n in range(count)]
        assert (len(session.requests), session.requests.late) == (0, 0)
        queues = await shop.mqsc("DISPLAY QLOCAL(EVERMQ.REPLIES.*) IPPROCS")
        assert [each["IPPROCS"] for each in queues] == [1]


async def test_h10_2_a_late_reply_is_dropped_and_counted() -> None:
    async with Shop() as shop:
        go_on, seen = asyncio.Event(), Seen()

        @shop.app.handler("Q")
        async def answer(body: str) -> str:
            seen.add(body)
            await go_on.wait()
            return body

        async with shop.running() as session:
            asking = asyncio.ensure_future(shop.app.request("Q", "a", timeout=2))
            await seen.so_many(1)
            await shop.clock.advance(1.9)
            assert len(session.requests) == 1
            await shop.clock.advance(0.1)
            with pytest.raises(TimeoutError, match="no reply from Q within 2 s"):
                await asking
            assert len(session.requests) == 0
            go_on.set()
            await settle()
            assert session.requests.late == 1


async def test_h10_3_a_request_that_expired_meets_no_handler() -> None:
    async with Shop() as shop:
        seen = Seen()

        @shop.app.handler("Q")
        async def answer(body: str) -> None:
            seen.add(body)

        async with shop.running(handlers=False):
            asking = asyncio.ensure_future(shop.app.request("Q", "a", timeout=2))
            await settle()
            assert await shop.depth("Q") == 1
            await shop.clock.advance(2.1)
            with pytest.raises(TimeoutError):
                await asking
        async with shop.running():
            await shop.app.put("Q", "b")
            assert await seen.so_many(1) == ["b"]


@pytest.mark.parametrize(
    ("error", "reason"), [(ValueError("no"), 2362), (Reject("no", feedback=70001), 70001), (None, 2110)], ids=str
)
async def test_h10_4_a_request_that_is_a_dead_letter_is_an_error_at_once(
    shop: Shop, error: Exception | None, reason: int
) -> None:
    @shop.app.handler("Q", retry=Retry(2, 0))
    async def answer(body: dict[str, int]) -> None:
        assert error is not None
        raise error

    async with shop.running():
        with pytest.raises(RequestError) as raised:
            await shop.app.request("Q", {"a": 1 if error else "x"}, timeout=600)
        assert raised.value.reason == reason
        assert "Traceback" not in str(raised.value)


async def test_h10_4_a_request_that_would_expire_before_its_next_attempt_is_an_error_at_once(shop: Shop) -> None:
    @shop.app.handler("Q", retry=Retry(17, (0.5, 600), jitter=False))
    async def answer(body: str) -> str:
        raise ConnectionError("no warehouse")

    async with shop.running():
        asked = asyncio.ensure_future(shop.app.request("Q", "chair", timeout=3))
        await settle()
        for wait in (0.5, 1.0):  # the next would be after two seconds more
            await shop.clock.advance(wait)
            await settle()
        with pytest.raises(RequestError) as raised:
            await asked
        assert raised.value.reason == MQRC.BACKOUT_THRESHOLD_REACHED
        assert (await shop.get("Q.DEAD")).properties["evermq.attempts"] == 3


async def test_what_is_no_request_waits_for_its_next_attempt_though_it_will_have_expired(shop: Shop) -> None:
    @shop.app.handler("Q", retry=Retry(1, 5))
    async def handle(body: str) -> None:
        raise ConnectionError("no warehouse")

    async with shop.running():
        await shop.app.put("Q", "chair", expiry=1)
        await settle()
        assert (await shop.depth("Q"), await shop.depth("Q.DEAD")) == (1, 0)


async def test_h10_5_a_reply_that_nobody_can_have_does_not_fail_the_work(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    @shop.app.handler("Q", retry=Retry(0))
    async def answer(body: str) -> str:
        await shop.app.put("OUT", body)
        return body

    async with shop.running() as session:
        await shop.mqsc("DEFINE QLOCAL(OUT)\nDEFINE QLOCAL(FULL) MAXDEPTH(1)")
        await shop.connection.put1("FULL", b"")
        for reply_to in ("NO.SUCH.QUEUE", "FULL"):
            await shop.app.put("Q", reply_to, reply_to=reply_to)
        assert {(await shop.get("OUT")).data for _ in range(2)} == {b"NO.SUCH.QUEUE", b"FULL"}
        assert session.puts.replies_lost == 2
        assert await shop.depth("Q.DEAD") == 0
    lost = [each.getMessage() for each in caplog.records if "a reply is lost" in each.getMessage()]
    assert len(lost) == 2
    assert sum("MQRC_UNKNOWN_OBJECT_NAME (2085)" in each for each in lost) == 1
    assert sum("MQRC_Q_FULL (2053)" in each for each in lost) == 1


async def test_h10_6_a_request_inside_a_handler_does_not_wait_for_itself(shop: Shop) -> None:
    @shop.app.handler("Q", concurrency=1)
    async def outer(body: str) -> dict[str, Any]:
        await shop.app.put("OUT", body)
        return {"inner": await shop.app.request("INNER", body, timeout=600)}

    @shop.app.handler("INNER", concurrency=1)
    async def inner(body: str) -> dict[str, Any]:
        async with shop.connection.open("OUT", MQOO.INQUIRE | MQOO.BROWSE):
            return {"body": body}

    async with shop.running():
        await shop.mqsc("DEFINE QLOCAL(OUT)")
        assert await shop.app.request("Q", "a", timeout=600) == {"inner": {"body": "a"}}
        assert await shop.depth("OUT") == 1


async def test_h10_7_a_plain_program_may_answer_and_ask(shop: Shop) -> None:
    async with shop.running():
        await shop.mqsc("DEFINE QLOCAL(PLAIN)")
        asking = asyncio.ensure_future(shop.app.request("PLAIN", {"a": 1}, timeout=600))
        request = await shop.get("PLAIN")
        md = request.md
        assert (md.msg_type, md.persistence, md.expiry, md.format) == (MQMT.REQUEST, 0, 6000, "MQSTR")
        reply = MessageDescriptor(msg_type=MQMT.REPLY, correl_id=md.msg_id)
        await shop.connection.put1(md.reply_to_q, '{"b": 2}', reply)
        assert await asking == {"b": 2}
        asking = asyncio.ensure_future(shop.app.request("PLAIN", b"?", timeout=600))
        md = (await shop.get("PLAIN")).md
        await shop.connection.put1(md.reply_to_q, b"\x00", MessageDescriptor(correl_id=md.msg_id))
        assert await asking == b"\x00"

    @shop.app.handler("Q")
    async def answer(body: str) -> str:
        return body.upper()

    async with shop.running():
        await shop.mqsc("DEFINE QLOCAL(REPLIES) DEFPSIST(NO)")
        for report in (MQRO.NONE, MQRO.PASS_CORREL_ID | MQRO.PASS_MSG_ID):
            md = MessageDescriptor(
                msg_type=MQMT.REQUEST, reply_to_q="REPLIES", correl_id=b"c" * 24, report=report, persistence=1,
                priority=7, expiry=5000,
            )  # fmt: skip
            asked = await shop.connection.put1("Q", "a", md, MQPMO.NO_SYNCPOINT)
            reply = (await shop.get("REPLIES")).md
            expected = (asked.md.msg_id, b"c" * 24) if report else (None, asked.md.msg_id)
            assert (reply.msg_id if report else None, reply.correl_id) == expected
            assert (reply.msg_type, reply.persistence, reply.priority) == (MQMT.REPLY, 1, 7)
            assert 0 < reply.expiry <= 5000


async def test_requests_that_are_open_fail_when_the_connection_is_lost_and_later_ones_do_not() -> None:
    async with Shop("tcp") as shop:

        @shop.app.handler("Q")
        async def answer(body: str) -> str:
            if body == "silent":
                await asyncio.Event().wait()
            return body

        async with shop.running(grace=0) as session:
            asking = asyncio.ensure_future(shop.app.request("Q", "silent", timeout=600))
            while session.requests._line is None or not len(session.requests):
                await settle()
            shop.way.cut(session.requests._line.connection)
            with pytest.raises(MQError) as raised:
                await asking
            assert raised.value.reason == MQRC.CONNECTION_BROKEN
            assert await shop.app.request("Q", "a", timeout=600, type=str) == "a"
            session.cancel()


async def test_a_request_outside_a_running_app_says_what_to_do() -> None:
    app = App("mq://127.0.0.1:1")
    with pytest.raises(RuntimeError, match="does not run"):
        await app.request("Q", "a", timeout=1)
    async with Shop() as shop, shop.running():
        with pytest.raises(ValueError, match=r"timeout=0: seconds, above 0"):
            await shop.app.request("Q", "a", timeout=0)
        with pytest.raises(MQError) as raised:
            await shop.app.request("NO.SUCH.QUEUE", "a", timeout=1)
        assert raised.value.reason == MQRC.UNKNOWN_OBJECT_NAME
