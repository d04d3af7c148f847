"""`app.status` and `job_status`: what has become of a message, at once, whatever that is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker import JobState, MQError, QueueManager, job_status
from broker.mqi import MQGMO, MQOO, MQPMO, MQRC
from broker.mqi.external_units import Decision
from broker.testing import VirtualClock, settle
from tests.handlers.apps import Shop
from triggers import App, Later, Reject

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import JobStatus, PutResult

ABSENT = bytes(range(24))
UNIT, DATABASE = b"u" * 16, b"d" * 16


@pytest.fixture(params=["embedded", "tcp"])
async def shop(request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    async with Shop(request.param) as shop:
        yield shop


def brief(status: JobStatus) -> tuple[str, str, int]:
    return status.state.value, status.reason, status.attempts


async def until(app: App, put: PutResult, state: JobState) -> JobStatus:
    """Ask until a message is in this state: a handler has ended, and its outcome is on the way."""
    while (status := await app.status(put)).state is not state:
        await settle()
    return status


async def test_a_message_waits_is_running_and_is_done(shop: Shop) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    @shop.app.handler("QUOTES", history="7d")
    async def quote(customer: str) -> int:
        began.set()
        await go.wait()
        return 40

    async with shop.running():
        put = await shop.app.put("QUOTES", "anna")
        await began.wait()
        second = await shop.app.put("QUOTES", "bert")
        running = await shop.app.status(put)
        assert (running.state, running.where) == (JobState.RUNNING, "SHOP")
        assert running.since == pytest.approx(shop.clock.time(), abs=1)
        assert (await shop.app.status(second.md.msg_id, queue="QUOTES")).state in ("waiting", "running")
        go.set()
        await shop.app.result(put, 60)
        done = await shop.app.status(put)
    assert brief(done) == ("done", "", 1)
    assert done.record is not None
    assert done.fields() == {
        "state": "done",
        "queue": "QUOTES",
        "id": put.md.msg_id.hex(),
        "since": done.record.ended,
        "attempts": 1,
        "result": {"outcome": "succeeded", "attempts": 1, "ended": done.record.ended, "error": None, "value": 40},
    }


async def test_without_a_history_what_is_not_there_is_gone_and_never_done(shop: Shop) -> None:
    @shop.app.handler("ORDERS")
    async def ship(order: str) -> None: ...

    async with shop.running():
        put = await shop.app.put("ORDERS", "A")
        await until(shop.app, put, JobState.GONE)
        assert (await shop.app.status(ABSENT, queue="ORDERS")).fields() == {
            "state": "gone",
            "queue": "ORDERS",
            "id": ABSENT.hex(),
        }


async def test_a_put_with_a_delay_and_a_failed_attempt_are_delayed_until_their_instant(shop: Shop) -> None:
    failed = asyncio.Event()

    @shop.app.handler("ORDERS", retry=3)
    async def ship(order: str) -> None:
        failed.set()
        raise ConnectionError

    async with shop.running():
        put = await shop.app.put("ORDERS", "A", delay=30)
        delayed = await shop.app.status(put)
        assert (delayed.state, delayed.until, delayed.attempts) == ("delayed", put.deliver_at, 0)
        again = await shop.app.put("ORDERS", "B")
        await failed.wait()
        status = await until(shop.app, again, JobState.DELAYED)
        assert status.attempts == 1
        assert status.until is not None
        assert status.until > shop.clock.time()


async def test_a_dead_letter_is_dead_with_its_reason_and_with_a_history_bears_its_record(shop: Shop) -> None:
    @shop.app.handler("ORDERS", history="7d")
    async def ship(order: str) -> None:
        raise Reject("no such article")

    @shop.app.handler("PARCELS", dead_letter="PARCELS.LOST")
    async def post(parcel: str) -> None:
        raise Reject("no such street")

    async with shop.running():
        put, parcel = await shop.app.put("ORDERS", "A"), await shop.app.put("PARCELS", "B")
        await shop.app.result(put, 60)
        dead = await shop.app.status(put)
        assert brief(dead) == ("dead", "rejected", 1)
        assert "no such article" in dead.error
        assert dead.record is not None
        assert dead.record.outcome == "rejected"
        lost = await until(shop.app, parcel, JobState.DEAD)
        assert (lost.reason, lost.record) == ("rejected", None)
        assert (await job_status(shop.connection, "PARCELS", parcel.md.msg_id)).state is JobState.GONE
        named = await job_status(shop.connection, "PARCELS", parcel.md.msg_id, dead_letter="PARCELS.LOST")
        assert named.state is JobState.DEAD
        async with shop.connection.open("ORDERS.DEAD", MQOO.INPUT_SHARED) as letters:
            await letters.get()
        discarded = await shop.app.status(put)
        assert (discarded.state, discarded.fields()["result"]["outcome"]) == ("done", "rejected")


async def test_units_of_work_of_programs_are_seen_as_well(shop: Shop) -> None:
    connection = shop.connection
    await connection.mqsc("DEFINE QLOCAL(Q)")
    async with connection.open("Q", MQOO.INPUT_SHARED | MQOO.OUTPUT) as queue:
        put = await queue.put(b"A", options=MQPMO.SYNCPOINT)
        id = put.md.msg_id
        async with await connection.connect("WEB") as other:
            assert (await job_status(other, "Q", id)).state is JobState.WAITING
            await connection.commit()
            assert (await job_status(other, "Q", id)).state is JobState.WAITING
            await queue.get(options=MQGMO.SYNCPOINT)
            running = await job_status(other, "Q", id)
            assert (running.state, running.where) == (JobState.RUNNING, "test")
            await connection.backout()
            waiting = await job_status(other, "Q", id)
            assert brief(waiting) == ("waiting", "", 1)
            await connection.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
            assert (await job_status(other, "Q", id)).state is JobState.WAITING
            assert (await job_status(other, "Q", ABSENT)).state is JobState.GONE
            await connection.mqsc("ALTER QLOCAL(Q) GET(ENABLED)")
            await queue.get(options=MQGMO.NO_SYNCPOINT)
            assert (await job_status(other, "Q", id)).state is JobState.GONE


async def test_what_a_database_decides_is_in_doubt_until_it_is_known(shop: Shop) -> None:
    connection = shop.connection
    await connection.mqsc("DEFINE QLOCAL(Q)")
    id = (await connection.put1("Q", b"A")).md.msg_id
    async with await connection.connect("WORKER") as worker, worker.open("Q", MQOO.INPUT_SHARED) as queue:
        await queue.get(options=MQGMO.SYNCPOINT)
        await worker.prepare(UNIT, DATABASE, "shop")
        in_doubt = await job_status(connection, "Q", id)
        assert in_doubt.state is JobState.IN_DOUBT
        assert in_doubt.since == pytest.approx(shop.clock.time(), abs=1)
        await worker.decide(DATABASE, [Decision(UNIT, commit=True)])
    assert (await job_status(connection, "Q", id)).state is JobState.GONE


async def test_a_message_that_is_locked_or_whose_queue_is_reached_by_an_alias_waits(shop: Shop) -> None:
    connection = shop.connection
    await connection.mqsc("DEFINE QLOCAL(Q)\nDEFINE QALIAS(A) TARGET(Q)")
    put = await connection.put1("A", b"A")
    async with connection.open("Q", MQOO.BROWSE | MQOO.INPUT_SHARED) as queue:
        await queue.get(options=MQGMO.BROWSE_FIRST | MQGMO.LOCK)
        status = await job_status(connection, "A", put.md.msg_id)
    assert (status.state, status.queue) == (JobState.WAITING, "Q")


async def test_mistakes_are_told(shop: Shop) -> None:
    @shop.app.handler("ORDERS")
    async def ship(order: str) -> None: ...

    async with shop.running():
        with pytest.raises(LookupError, match="queue="):
            await shop.app.status(ABSENT)
        with pytest.raises(TypeError, match=r"app\.status takes"):
            await shop.app.status("id", queue="ORDERS")  # type: ignore[arg-type]
        with pytest.raises(LookupError, match="zeros"):
            await shop.app.status(bytes(24), queue="ORDERS")
        with pytest.raises(MQError) as caught:
            await shop.app.status(ABSENT, queue="NOWHERE")
        assert caught.value.reason == MQRC.UNKNOWN_OBJECT_NAME


RIGHTS = """
DEFINE QLOCAL(Q) BOQNAME(Q.DEAD)
DEFINE QLOCAL(Q.DEAD)
DEFINE QLOCAL(Q.HISTORY)
DEFINE USER('web')
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('web') AUTHADD(CONNECT,INQ)
"""


async def test_it_wants_browse_on_the_queue_its_dead_letter_queue_and_its_history() -> None:
    async with (
        QueueManager.open(name="QM1", defaults="mq", clock=VirtualClock()) as manager,
        manager.connect() as owner,
    ):
        await owner.mqsc(RIGHTS)
        id = (await owner.put1("Q", b"A")).md.msg_id
        for name in ("Q", "Q.DEAD", "Q.HISTORY"):
            async with manager.connect(as_user="web") as web:
                with pytest.raises(MQError) as caught:
                    await job_status(web, "Q", id)
            assert caught.value.reason == MQRC.NOT_AUTHORIZED
            (reply,) = await owner.mqsc(
                f"SET AUTHREC PROFILE({name}) OBJTYPE(QUEUE) PRINCIPAL('web') AUTHADD(BROWSE,INQ)"
            )
            assert reply.ok
        async with manager.connect(as_user="web") as web, owner.open("Q", MQOO.INPUT_SHARED) as queue:
            assert (await job_status(web, "Q", id)).state is JobState.WAITING
            await queue.get(options=MQGMO.SYNCPOINT)
            running = await job_status(web, "Q", id)
            assert (running.state, running.where) == (JobState.RUNNING, "")
            with pytest.raises(MQError) as caught:
                await web.explain("Q")
            assert caught.value.reason == MQRC.NOT_AUTHORIZED
            await owner.commit()


async def test_a_test_asks_its_app_and_threads_ask_too() -> None:
    app = App("mq://nowhere", name="shop")
    seen: list[str] = []

    @app.handler("ORDERS", history="7d")
    async def ship(order: str) -> None:
        if order == "later":
            raise Later(60)

    @app.handler("ASKS")
    def ask(id: str) -> None:
        seen.append(app.sync.status(bytes.fromhex(id), queue="ORDERS").state)

    async with app.test() as t:
        put, later = await t.put("ORDERS", "now"), await t.put("ORDERS", "later")
        await t.idle()
        assert (await t.status(put)).state is JobState.DONE
        assert (await t.status(later)).state is JobState.DELAYED
        await t.put("ASKS", later.md.msg_id.hex())
        await t.idle()
    assert seen == ["delayed"]
