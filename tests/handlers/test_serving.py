"""Handlers under an app: what decides an outcome, and what becomes of the message (handlers sections 1, 8.5, 9.1)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
from typing import TYPE_CHECKING, Any

import anyio.from_thread
import pytest

from broker import Connection, Message, QueueManager  # read when the program runs, as those of any handler
from broker.mqi import MQDLH, MQOO, MQRC, MQError
from broker.testing.clock import settle
from tests.handlers.apps import Seen, Shop
from triggers import App, Attempt, BatchError, Group, Later, Reject, Retry
from triggers.serving.serving import CLEAN_UP

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WAYS = ("embedded", "tcp")


@pytest.fixture(params=WAYS)
async def shop(request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    async with Shop(request.param) as shop:
        yield shop


def reason(error: BaseException) -> int | None:
    return error.reason if isinstance(error, MQError) else None


async def test_h1_1_a_handler_that_returns_has_put_and_its_message_is_gone(shop: Shop) -> None:
    @shop.app.handler("Q")
    async def handle(body: dict[str, int]) -> None:
        await shop.app.put("OUT", {"n": body["n"] + 1})

    async with shop.running():
        await shop.mqsc("DEFINE QLOCAL(OUT)")
        await shop.app.put("Q", {"n": 1})
        assert (await shop.get("OUT")).data == b'{"n":2}'
        assert await shop.depth("Q") == 0


async def test_h1_2_a_handler_that_raises_has_put_nothing(shop: Shop) -> None:
    seen = Seen()

    @shop.app.handler("Q", retry=Retry(1, 0))
    async def handle(body: str, attempt: Attempt, message: Message) -> None:
        for _ in range(3):
            await shop.app.put("OUT", body)
        await shop.app.put("KEPT", str(attempt.number), syncpoint=False)
        seen.add((attempt.number, attempt.limit, message.md.backout_count))
        raise ValueError("no")

    async with shop.running():
        await shop.mqsc("DEFINE QLOCAL(OUT)\nDEFINE QLOCAL(KEPT)")
        await shop.app.put("Q", "a")
        dead = await shop.get("Q.DEAD")
        assert seen == [(1, 2, 0), (2, 2, 1)]
        assert await shop.depth("OUT") == 0
        assert [(await shop.get("KEPT")).data for _ in seen] == [b"1", b"2"]
        found = dead.properties
        assert (found["evermq.why"], found["evermq.attempts"], found["evermq.exception"], found["evermq.error"]) == (
            "failed", 2, "ValueError", "no",
        )  # fmt: skip
        assert str(found["evermq.traceback"]).startswith('Traceback (most recent call last):\n  File "' + __file__)


async def test_h1_6_a_handler_that_swallows_its_cancellation_has_failed(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    began, go_on, over = asyncio.Event(), asyncio.Event(), Seen()
    calls: list[int | None] = []

    @shop.app.handler("Q", timeout=0.1, retry=Retry(0), concurrency=1)
    async def handle(body: str, connection: Connection) -> None:
        if body == "good":
            over.add(body)
            return
        began.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await go_on.wait()
        for put in (
            shop.app.put("OUT", body),
            shop.app.put("OUT", body, syncpoint=False),
            connection.put1("OUT", body),
        ):
            try:
                await put
            except MQError as error:
                calls.append(reason(error))
        over.add(body)

    async with shop.running():
        await shop.mqsc("DEFINE QLOCAL(OUT)")
        await shop.app.put("Q", "bad")
        await began.wait()
        await shop.app.put("Q", "good")
        await shop.clock.advance(0.1)
        dead = await shop.get("Q.DEAD")
        assert (dead.properties["evermq.why"], dead.properties["evermq.attempts"]) == ("timed_out", 1)
        assert "Event().wait()" in str(dead.properties["evermq.traceback"])
        await shop.clock.advance(60)
        assert await shop.depth("Q") == 1  # it keeps its place in `concurrency` until it ends
        go_on.set()
        assert await over.so_many(2) == ["bad", "good"]
    assert calls == [MQRC.HCONN_ERROR] * 3
    overdue = [each.getMessage() for each in caplog.records if "goes on after its end" in each.getMessage()]
    assert len(overdue) == 1
    assert "outcome=failed since_s=60" in overdue[0]


async def test_h1_7_a_handler_that_returns_in_the_turn_of_its_timer_is_committed_once() -> None:
    async with Shop() as shop:
        calls = 0

        @shop.app.handler("Q", timeout=1, retry=Retry(0))
        async def handle(body: str) -> None:
            nonlocal calls
            calls += 1
            await shop.clock.sleep(1)  # its timer is later than that of the timeout, in the same instant
            await shop.app.put("OUT", body)

        @shop.app.handler("DONE", timeout=1, retry=Retry(0))
        async def done(body: str) -> None:
            nonlocal calls
            calls += 1
            ended = asyncio.current_task()
            assert ended is not None
            shop.clock.call_later(1 - 1e-10, lambda: None)

        async with shop.running():
            await shop.mqsc("DEFINE QLOCAL(OUT)")
            for q_name in ("Q", "DONE"):
                await shop.app.put(q_name, "a")
            await settle()
            await shop.clock.advance(1)
            await shop.clock.advance(100)
            assert calls == 2
            outcome = (await shop.depth("OUT"), await shop.depth("Q.DEAD"))
            assert outcome in ((1, 0), (0, 1))
            assert (await shop.depth("Q"), await shop.depth("DONE"), await shop.depth("DONE.DEAD")) == (0, 0, 0)


@pytest.mark.parametrize("call", ["commit", "backout", "begin"])
async def test_h1_13_the_unit_of_work_is_not_the_handlers_to_end(shop: Shop, call: str) -> None:
    @shop.app.handler("Q", retry=Retry(0))
    async def handle(body: str, connection: Connection) -> None:
        await shop.app.put("OUT", body)
        await getattr(connection, call)()

    async with shop.running():
        await shop.mqsc("DEFINE QLOCAL(OUT)")
        await shop.app.put("Q", "a")
        dead = await shop.get("Q.DEAD")
        assert str(dead.properties["evermq.error"]).startswith("MQRC_ENVIRONMENT_ERROR (2012)")
        assert await shop.depth("OUT") == 0


async def test_h1_15_what_would_end_a_program_or_a_task_is_a_failure_like_others(shop: Shop) -> None:
    seen = Seen()

    @shop.app.handler("Q", retry=Retry(1, 0))
    async def handle(body: str) -> None:
        seen.add(body)
        if body == "exit":
            sys.exit(3)
        if body == "cancelled":
            raise asyncio.CancelledError
        if body == "interrupted":
            raise KeyboardInterrupt
        if body == "itself":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)

    async with shop.running():
        bodies = ["exit", "cancelled", "interrupted", "itself"]
        for body in bodies:
            await shop.app.put("Q", body)
        dead = [await shop.get("Q.DEAD") for _ in bodies]
        assert {str(each.properties["evermq.exception"]) for each in dead} == {
            "SystemExit", "CancelledError", "KeyboardInterrupt",
        }  # fmt: skip
        await shop.app.put("Q", "good")
        assert (await seen.so_many(9))[-1] == "good"
        assert sorted(seen[:8]) == sorted(bodies * 2)


async def test_what_never_names_or_on_does_not_is_a_dead_letter_at_once(shop: Shop) -> None:
    seen = Seen()

    @shop.app.handler("NEVER", retry=Retry(5, 0, never=(KeyError,)))
    async def never(body: str) -> None:
        seen.add(body)
        raise KeyError(body) if body == "key" else ValueError(body)

    @shop.app.handler("ON", retry=Retry(5, 0, on=(OSError,)), dead_letter="NEVER.DEAD", traceback=0)
    async def on(body: str) -> None:
        seen.add(body)
        raise LookupError(body)

    async with shop.running():
        await shop.app.put("NEVER", "key")
        await shop.app.put("ON", "other")
        dead = [await shop.get("NEVER.DEAD") for _ in range(2)]
        assert sorted(str(each.properties["evermq.why"]) for each in dead) == ["rejected", "rejected"]
        assert [bool(each.properties["evermq.traceback"]) for each in dead].count(False) == 1
        assert sorted(seen) == ["key", "other"]


async def test_a_message_is_rejected_with_a_reason_of_the_programs_own(shop: Shop) -> None:
    @shop.app.handler("Q")
    async def handle(body: str) -> None:
        raise Reject("no such customer", feedback=70000)

    async with shop.running():
        await shop.app.put("Q", "a")
        dead = await shop.get("Q.DEAD")
        header = MQDLH.from_bytes(dead.data)
        assert (header.reason, dead.properties["evermq.error"]) == (70000, "no such customer")


async def test_h8_4_what_cannot_be_read_is_a_dead_letter_at_once_unless_it_is_to_be_retried(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    called = Seen()

    async def handle(body: dict[str, int]) -> None:
        called.add(body)

    shop.app.handler("Q")(handle)
    shop.app.handler("R", retry_unreadable=True, retry=Retry(2, 0))(handle)
    async with shop.running():
        for q_name in ("Q", "R"):
            await shop.app.put(q_name, {"a": {"b": "SECRET"}})
        reported = [(await shop.get(q_name)).properties for q_name in ("Q.DEAD", "R.DEAD")]
        assert [(each["evermq.why"], each["evermq.attempts"]) for each in reported] == [
            ("unreadable", 1),
            ("failed", 3),
        ]
        assert reported[0]["evermq.error"] == "[*] is an object, not an integer"
    assert not called
    assert "SECRET" not in caplog.text


async def test_later_is_no_attempt_unless_it_is_counted(shop: Shop) -> None:
    seen = Seen()

    @shop.app.handler("Q", retry=Retry(1))
    async def handle(body: str, attempt: Attempt) -> None:
        await shop.app.put("OUT", body)
        seen.add(attempt.number)
        if len(seen) < 4:
            raise Later(10, counted=len(seen) == 3)

    async with shop.running():
        await shop.mqsc("DEFINE QLOCAL(OUT)")
        await shop.app.put("Q", "a")
        for count in (1, 2, 3):
            await seen.so_many(count)
            await settle()
            assert await shop.depth("OUT") == 0
            await shop.clock.advance(10)
        assert (await shop.get("OUT")).data == b"a"
        assert seen == [1, 1, 1, 2]


async def test_h8_6_of_a_batch_that_fails_each_message_comes_alone() -> None:
    async with Shop() as shop:
        seen = Seen()

        @shop.app.handler("Q", batch=10, retry=Retry(2, 1))
        async def handle(bodies: list[dict[str, int]], attempt: Attempt) -> None:
            seen.add((attempt.number, list(bodies)))
            for body in bodies:
                await shop.app.put("OUT", body)
            if {"n": 3} in bodies:
                raise ValueError("no threes")

        async with shop.running():
            await shop.mqsc("DEFINE QLOCAL(OUT)")
            await shop.app.put_group("Q", [{"n": n} for n in range(10)])
            await seen.so_many(1)
            for _ in range(3):
                await shop.clock.advance(1)
            dead = await shop.get("Q.DEAD")
            assert dead.properties["evermq.attempts"] == 3
            assert await shop.depth("OUT") == 9
        assert len(seen) == 12
        assert [len(bodies) for _, bodies in seen] == [10, *[1] * 11]


async def test_h8_7_of_a_batch_only_those_named_fail_and_the_puts_stay() -> None:
    async with Shop() as shop:
        seen = Seen()

        @shop.app.handler("Q", batch=10, retry=Retry(1, 1))
        async def handle(bodies: list[dict[str, int]]) -> None:
            seen.add([body["n"] for body in bodies])
            await shop.app.put("OUT", {"handled": len(bodies)})
            if len(bodies) > 1:
                raise BatchError({3: ValueError("no threes")})
            raise ValueError("nor alone")

        async with shop.running():
            await shop.mqsc("DEFINE QLOCAL(OUT)")
            await shop.app.put_group("Q", [{"n": n} for n in range(10)])
            assert (await shop.get("OUT")).data == b'{"handled":10}'
            await settle()
            assert await shop.depth("Q") == 1
            await shop.clock.advance(1)
            dead = await shop.get("Q.DEAD")
            assert (dead.properties["evermq.attempts"], dead.properties["evermq.error"]) == (2, "nor alone")
            assert await shop.depth("OUT") == 0
        assert seen == [list(range(10)), [3]]


async def test_a_batch_error_that_names_all_of_the_batch_commits_no_put() -> None:
    async with Shop() as shop:

        @shop.app.handler("Q", batch=2, retry=Retry(1, 1))
        async def handle(bodies: list[str]) -> None:
            await shop.app.put("OUT", bodies)
            raise BatchError({place: ValueError(f"no {body}") for place, body in enumerate(bodies)})

        async with shop.running():
            await shop.mqsc("DEFINE QLOCAL(OUT)")
            await shop.app.put_group("Q", ["a", "b"])
            await settle()
            assert (await shop.depth("Q"), await shop.depth("OUT")) == (2, 0)
            await shop.clock.advance(1)
            dead = [await shop.get("Q.DEAD") for _ in range(2)]
            assert {each.properties["evermq.error"] for each in dead} == {"no a", "no b"}
            assert (await shop.depth("Q"), await shop.depth("OUT")) == (0, 0)


async def test_a_batch_error_that_names_none_of_the_batch_fails_all_of_it() -> None:
    async with Shop() as shop:

        @shop.app.handler("Q", batch=2, retry=Retry(0))
        async def handle(bodies: list[str]) -> None:
            raise BatchError({7: ValueError("which?")})

        async with shop.running():
            await shop.app.put_group("Q", ["a", "b"])
            dead = [await shop.get("Q.DEAD") for _ in range(2)]
            assert {str(each.properties["evermq.exception"]) for each in dead} == {"BatchError"}


async def test_what_cannot_be_read_in_a_batch_fails_alone() -> None:
    async with Shop() as shop:
        seen = Seen()

        @shop.app.handler("Q", batch=4, retry=Retry(3, 1))
        async def handle(bodies: list[dict[str, int]]) -> None:
            seen.add(bodies)
            raise BatchError({1: ValueError("the second that could be read")})

        async with shop.running():
            await shop.app.put_group("Q", [{"a": "x"}, {"a": 1}, {"a": 2}, {"a": 3}])
            assert await seen.so_many(1) == [[{"a": 1}, {"a": 2}, {"a": 3}]]
            await settle()
            assert await shop.depth("Q") == 2
            await shop.clock.advance(1)
            dead = await shop.get("Q.DEAD")
            assert (dead.properties["evermq.why"], dead.properties["evermq.error"]) == (
                "unreadable", "[*] is text, not an integer",
            )  # fmt: skip
            assert await seen.so_many(2) == [[{"a": 1}, {"a": 2}, {"a": 3}], [{"a": 2}]]


async def test_h8_9_a_batch_that_is_not_full_is_given_when_its_wait_is_over() -> None:
    async with Shop() as shop:
        seen = Seen()

        @shop.app.handler("Q", batch=10)
        async def handle(bodies: list[str]) -> None:
            seen.add((shop.clock.monotonic(), bodies))

        async with shop.running():
            for body in ("a", "b", "c"):
                await shop.app.put("Q", body)
            await settle()
            assert not seen
            await shop.clock.advance(1)
            assert [(round(at, 3), bodies) for at, bodies in await seen.so_many(1)] == [(0.05, ["a", "b", "c"])]


async def test_a_group_is_given_whole_and_fails_whole(shop: Shop) -> None:
    seen = Seen()

    @shop.app.handler("Q", retry=Retry(1, 0))
    async def handle(group: Group[dict[str, int]], attempt: Attempt) -> None:
        seen.add((type(group), list(group)))
        if attempt.number == 1:
            raise ValueError("again")

    async with shop.running():
        await shop.app.put_group("Q", [{"n": 1}, {"n": 2}, {"n": 3}])
        whole = (Group, [{"n": 1}, {"n": 2}, {"n": 3}])
        assert await seen.so_many(2) == [whole, whole]


async def test_a_plain_function_runs_in_a_thread_and_may_put(shop: Shop) -> None:
    seen = Seen()
    loop_thread = threading.get_ident()

    @shop.app.handler("Q")
    def handle(body: str) -> None:
        assert threading.get_ident() != loop_thread
        anyio.from_thread.run(shop.app.put, "OUT", body)
        anyio.from_thread.run_sync(seen.add, body)

    async with shop.running():
        await shop.mqsc("DEFINE QLOCAL(OUT)")
        await shop.app.put("Q", "a")
        assert (await shop.get("OUT")).data == b"a"


async def test_a_thread_that_runs_over_its_time_keeps_its_place_until_it_ends() -> None:
    async with Shop() as shop:
        began, go_on = asyncio.Event(), threading.Event()
        seen = Seen()

        @shop.app.handler("Q", timeout=1, retry=Retry(0), concurrency=1)
        def handle(body: str) -> None:
            if body == "slow":
                anyio.from_thread.run_sync(began.set)
                go_on.wait(20)
                try:
                    anyio.from_thread.run(shop.app.put, "OUT", body)
                except MQError as error:
                    anyio.from_thread.run_sync(seen.add, error.reason)
            else:
                anyio.from_thread.run_sync(seen.add, body)

        async with shop.running():
            await shop.mqsc("DEFINE QLOCAL(OUT)")
            await shop.app.put("Q", "slow")
            await began.wait()
            await shop.app.put("Q", "next")
            await shop.clock.advance(1)
            assert (await shop.get("Q.DEAD")).properties["evermq.why"] == "timed_out"
            assert not seen
            go_on.set()
            assert await seen.so_many(2) == [MQRC.HCONN_ERROR, "next"]


async def test_a_stop_returns_what_has_not_begun_and_lets_what_runs_end(shop: Shop) -> None:
    began, go_on = Seen(), asyncio.Event()

    @shop.app.handler("Q", concurrency=2)
    async def handle(body: str) -> None:
        began.add(body)
        await go_on.wait()
        await shop.app.put("OUT", body)

    async with shop.running() as session:
        await shop.mqsc("DEFINE QLOCAL(OUT)")
        for body in ("a", "b", "c"):
            await shop.app.put("Q", body)
        await began.so_many(2)
        session.stop()
        go_on.set()
    assert session.cancelled == 0
    assert (await shop.depth("OUT"), await shop.depth("Q")) == (2, 1)
    assert (await shop.get("Q")).md.backout_count == 0


async def test_h9_2_a_stop_cancels_after_the_grace_and_returns_uncharged(shop: Shop) -> None:
    began = Seen()
    stubborn = asyncio.Event()

    @shop.app.handler("Q")
    async def handle(body: str) -> None:
        began.add(body)
        await shop.app.put("OUT", body)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if body == "ignores":
                await stubborn.wait()
            raise

    async def stop() -> None:
        async with shop.running(grace=10) as session:
            await shop.mqsc("DEFINE QLOCAL(OUT)")
            for body in ("ignores", "obeys"):
                await shop.app.put("Q", body)
            await began.so_many(2)
        assert session.cancelled == 2

    stopping = asyncio.ensure_future(stop())
    await began.so_many(2)
    await settle()
    await shop.clock.advance(9.9)
    assert not stopping.done()
    await shop.clock.advance(0.2 + CLEAN_UP)
    await asyncio.wait_for(stopping, 20)
    assert (await shop.depth("OUT"), await shop.depth("Q")) == (0, 2)
    assert [(await shop.get("Q")).md.backout_count for _ in range(2)] == [0, 0]
    stubborn.set()
    await settle()


async def test_leaving_by_cancellation_returns_what_runs(shop: Shop) -> None:
    began = asyncio.Event()

    @shop.app.handler("Q")
    async def handle(body: str) -> None:
        began.set()
        await asyncio.Event().wait()

    async def run() -> None:
        async with shop.running():
            await shop.app.put("Q", "a")
            await asyncio.Event().wait()

    running = asyncio.ensure_future(run())
    await began.wait()
    running.cancel()
    await asyncio.wait((running,))
    assert running.cancelled()
    assert (await shop.get("Q")).md.backout_count == 0


async def test_h6_9_what_cannot_be_served_is_one_line_that_prints_the_alter(shop: Shop) -> None:
    @shop.app.handler("Q")
    async def handle(body: str) -> None: ...

    from triggers import NotServableError

    await shop.mqsc("DEFINE QLOCAL(Q) TRIGTYPE(FIRST)")
    with pytest.raises(NotServableError) as raised:
        async with shop.running():
            pass
    assert str(raised.value).endswith(
        "cannot serve queue Q: it has TRIGTYPE(FIRST) PROCESS() INITQ(); to have it served: "
        "ALTER QLOCAL('Q') TRIGTYPE(EVERY) PROCESS('Q')"
    )
    await shop.mqsc("ALTER QLOCAL('Q') TRIGTYPE(EVERY) PROCESS('Q')")
    async with shop.running():
        pass
    with pytest.raises(ValueError, match=r"queue Q has two handlers: .*handle \(.* and .*second \(") as twice:

        @shop.app.handler("Q")
        async def second(body: str) -> None: ...

    assert "\n" not in str(raised.value) + str(twice.value)


async def test_h6_9_a_second_app_with_another_order_is_refused(shop: Shop) -> None:
    async def handle(body: str) -> None: ...

    shop.app.handler("Q", order_by="customer")(handle)
    other = App(shop.manager, name="OTHER")
    other.source = shop.source()
    other.handler("Q", order_by="country")(handle)
    async with shop.running():
        with pytest.raises(MQError) as raised:
            async with other.running():
                pass
    assert raised.value.reason == MQRC.OBJECT_IN_USE
    assert "with order_by='customer', not 'country'" in str(raised.value)


async def test_what_an_app_names_is_defined_when_it_is_missing_and_never_altered(shop: Shop) -> None:
    async def handle(body: str) -> None: ...

    shop.app.handler("orders.New")(handle)
    shop.app.handler("PAID", dead_letter="LOST")(handle)
    shop.app.handler("MINE")(handle)
    await shop.mqsc(
        "DEFINE QLOCAL(MINE) NOTRIGGER TRIGTYPE(EVERY) PROCESS(OWN) MAXDEPTH(7) BOQNAME(BACK)\nDEFINE QLOCAL(BACK)"
    )
    async with shop.running(handlers=False):
        pass
    async with shop.running():
        queues = {each["QUEUE"]: each for each in await shop.mqsc("DISPLAY QLOCAL(*) ALL")}
        queue = queues["orders.New"]
        wanted = {
            "DEFPSIST": "YES", "TRIGGER": True, "TRIGTYPE": "EVERY", "PROCESS": "orders.New", "MAXDEPTH": 999999999,
            "BOTHRESH": 0, "BOQNAME": "",
        }  # fmt: skip
        assert {name: queue[name] for name in wanted} == wanted
        assert (queues["MINE"]["MAXDEPTH"], queues["MINE"]["TRIGGER"]) == (7, False)
        for name in ("orders.New.DEAD", "LOST"):
            assert (queues[name]["MAXDEPTH"], queues[name]["MAXMSGL"]) == (999999999, 104857600)
        assert not {"PAID.DEAD", "MINE.DEAD"} & queues.keys()
        processes = {each["PROCESS"] for each in await shop.mqsc("DISPLAY PROCESS(*)")}
        assert {"orders.New", "PAID", "OWN"} <= processes


async def test_without_handlers_nothing_is_served(shop: Shop) -> None:
    @shop.app.handler("Q")
    async def handle(body: str) -> None: ...

    async with shop.running(handlers=False):
        await shop.app.put("Q", "a")
        await settle()
        assert await shop.depth("Q") == 1


async def test_an_app_that_does_not_run_says_what_to_do(shop: Shop) -> None:
    with pytest.raises(RuntimeError, match=r"the app SHOP does not run: async with app.running\(\)"):
        await shop.app.put("Q", "a")
    async with shop.running():
        with pytest.raises(RuntimeError, match=r"the app SHOP runs already"):
            async with shop.running():
                pass


async def test_a_value_that_nobody_asked_for_is_warned_of_once(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    seen = Seen()

    @shop.app.handler("Q")
    async def handle(body: str) -> str:
        seen.add(body)
        return body

    async with shop.running():
        for _ in range(3):
            await shop.app.put("Q", "a")
        await seen.so_many(3)
    warned = [each for each in caplog.records if "asks for no reply" in each.getMessage()]
    assert len(warned) == 1
    assert warned[0].levelno == logging.WARNING


async def test_a_queue_that_is_deleted_is_served_again_when_it_is_there_again() -> None:
    async with Shop() as shop:
        seen = Seen()

        @shop.app.handler("Q")
        async def handle(body: str) -> None:
            seen.add(body)

        async with shop.running():
            await shop.mqsc("DELETE QLOCAL(Q)")
            await settle()
            await shop.mqsc("DEFINE QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(Q) DEFPSIST(YES)")
            await shop.app.put("Q", "a")
            await shop.clock.advance(1)
            assert await seen.so_many(1) == ["a"]


async def test_a_connection_that_is_lost_is_made_anew_and_what_ran_is_cancelled() -> None:
    async with Shop("tcp") as shop:
        seen, cancelled = Seen(), Seen()

        @shop.app.handler("Q", retry=Retry(5, 0))
        async def handle(body: str, attempt: Attempt) -> None:
            seen.add(attempt.number)
            if len(seen) == 1:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cancelled.add(True)
                    raise

        async with shop.running() as session:
            await shop.app.put("Q", "a")
            await seen.so_many(1)
            service = session.services["Q"]
            shop.way.cut(service._connection)
            await cancelled.so_many(1)
            while len(seen) < 2:
                await shop.clock.advance(1)
            assert seen == [1, 2]


async def test_a_queue_manager_in_this_process_that_stops_ends_its_app_quietly() -> None:
    async with Shop() as shop:
        opened, stop = asyncio.Event(), asyncio.Event()
        managers: list[QueueManager] = []

        async def manage() -> None:
            async with QueueManager.open(name="QM2", clock=shop.clock) as manager:
                managers.append(manager)
                opened.set()
                await stop.wait()

        managing = asyncio.ensure_future(manage())
        await opened.wait()
        app = App(managers[0])

        @app.handler("Q")
        async def handle(body: str) -> None: ...

        async with app.running() as session:
            stop.set()
            await asyncio.wait_for(session.wait(), 20)
        await managing


def test_an_app_wants_a_url_a_folder_or_a_queue_manager(tmp_path: Any) -> None:
    for source in ("mq://127.0.0.1:1414", "mq+unix:///tmp/mq", str(tmp_path), tmp_path):
        App(source)
    with pytest.raises(TypeError, match=r"App takes a URL \(mq://host:port\), a folder, or a QueueManager, not 5"):
        App(5)  # type: ignore[arg-type]


async def test_an_app_in_a_folder_keeps_what_was_put(tmp_path: Any) -> None:
    app = App(tmp_path / "data")
    seen = Seen()

    @app.handler("Q")
    async def handle(body: str) -> None:
        seen.add(body)

    async with app.running(handlers=False):
        await app.put("Q", "kept")
    async with app.running():
        assert await seen.so_many(1) == ["kept"]


async def test_a_queue_manager_that_is_not_there_is_an_error_at_once_or_waited_for(caplog: Any) -> None:
    app = App("mq://127.0.0.1:1")
    with pytest.raises(MQError) as raised:
        async with app.running():
            pass
    assert raised.value.reason == MQRC.HOST_NOT_AVAILABLE
    async with Shop() as shop:
        app.source = source = shop.source()
        source.embedded = False
        away = [MQError(MQRC.HOST_NOT_AVAILABLE, "not yet")] * 3
        connect = source.connect

        def not_at_first(appl_name: str) -> Any:
            if away:
                raise away.pop()
            return connect(appl_name)

        source.connect = not_at_first  # type: ignore[method-assign]
        served = asyncio.Event()

        async def run() -> None:
            async with app.running(wait=True):
                served.set()

        running = asyncio.ensure_future(run())
        await shop.clock.advance(2)
        await asyncio.wait_for(running, 20)
        assert served.is_set()
        assert [each.getMessage() for each in caplog.records if "tried again for ever" in each.getMessage()] != []


async def test_a_handler_may_open_queues_with_its_connection(shop: Shop) -> None:
    @shop.app.handler("Q")
    async def handle(body: str, connection: Connection) -> None:
        async with connection.open("OUT", MQOO.OUTPUT) as queue:
            await queue.put(body)
            await queue.put(body, options=4)  # MQPMO.NO_SYNCPOINT

    async with shop.running():
        await shop.mqsc("DEFINE QLOCAL(OUT)")
        await shop.app.put("Q", "a")
        assert [(await shop.get("OUT")).data for _ in range(2)] == [b"a", b"a"]
