"""A mistake of the queue manager ends one call with UNEXPECTED_ERROR and nothing else: whatever is asked next is done.

Each test injects one exception, once, at a place where a turn is held or somebody waits.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from broker.core.calls import batches as runs
from broker.core.calls.puts import sending
from broker.core.message.rows import Rows
from broker.engine.calls import batches, gets
from broker.engine.calls.room import Room
from broker.mqi import MQGMO, MQMO, MQOO, MQPMO, MQRC, MQRO, GetMessageOptions, MessageDescriptor, MQError
from tests.engine.bench import ALL, opened, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.bench import Bench

WAIT = GetMessageOptions(options=MQGMO.WAIT, wait_interval=5000)


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], None]:
    """Lets the next call of a method fail."""

    def inject(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def fails(*arguments: Any, **options: Any) -> Any:
            monkeypatch.setattr(owner, name, real)
            raise KeyError("injected")

        monkeypatch.setattr(owner, name, fails)

    return inject


async def works(bench: Bench) -> None:
    """Check that the connection of the bench, and another, can do all that waits its turn."""
    async with bench.manager.connect() as other:
        assert [reply.ok for reply in await other.mqsc("ALTER QLOCAL(Q) DESCR('still here')")] == [True]
    await bench.queue.put(b"in a unit", options=MQPMO.SYNCPOINT)
    await bench.connection.commit()
    got = await bench.queue.get(options=MQGMO.WAIT)
    await bench.connection.backout()
    assert got.data == b"in a unit"
    assert [reply.ok for reply in await bench.connection.mqsc("DISPLAY QLOCAL(Q)")] == [True]


@pytest.mark.parametrize("name", ["put", "get", "commit", "backout"])
async def test_in_a_step_of_the_core(name: str, fault: Callable[[Any, str], None]) -> None:
    async with opened() as bench:
        await bench.queue.put(b"first", options=MQPMO.SYNCPOINT)
        fault(bench.manager.core, name)
        owner = bench.connection if name in ("commit", "backout") else bench.queue
        arguments = (b"x",) if name == "put" else ()
        assert await reason_of(getattr(owner, name)(*arguments)) == MQRC.UNEXPECTED_ERROR
        await bench.connection.backout()
        await works(bench)


@pytest.mark.parametrize("name", ["put", "get"])
async def test_in_a_batch(name: str, fault: Callable[[Any, str], None]) -> None:
    async with opened() as bench:
        await bench.queue.put(b"x")
        if name == "put":
            fault(runs, "put_run")
            assert await reason_of(bench.queue.put_many([b"a", b"b"])) == MQRC.UNEXPECTED_ERROR
        else:
            fault(runs, "get_run")
            assert await reason_of(bench.queue.get_many(5)) == MQRC.UNEXPECTED_ERROR
        assert (await bench.queue.get()).data == b"x"
        await works(bench)


async def test_in_the_settlement_of_a_unit(fault: Callable[[Any, str], None], caplog: pytest.LogCaptureFixture) -> None:
    async with opened() as bench:
        fault(bench.manager.core, "settle")
        puts = [asyncio.ensure_future(reason_of(bench.queue.put(data))) for data in (b"a", b"b")]
        assert await asyncio.gather(*puts) == [MQRC.UNEXPECTED_ERROR, MQRC.NONE]
        assert "KeyError: 'injected'" in caplog.text
        assert (await bench.queue.get()).data == b"b"
        await works(bench)


async def test_in_what_follows_a_call(fault: Callable[[Any, str], None]) -> None:
    async with opened() as bench:
        fault(bench.manager.monitors, "wake")
        await bench.queue.put(b"x", options=MQPMO.SYNCPOINT)
        await bench.connection.commit()
        assert (await bench.queue.get()).data == b"x"
        await works(bench)


@pytest.mark.parametrize("syncpoint", [MQGMO.SYNCPOINT, MQGMO.NO_SYNCPOINT])
async def test_in_the_answer_of_a_get_whose_message_goes_back(
    syncpoint: MQGMO, fault: Callable[[Any, str], None]
) -> None:
    async with opened() as bench:
        await bench.queue.put(b"x")
        fault(gets, "delivery")
        assert await reason_of(bench.queue.get(options=syncpoint)) == MQRC.UNEXPECTED_ERROR
        await bench.idle()
        await bench.connection.commit()
        assert (await bench.queue.get()).data == b"x"
        await works(bench)


@pytest.mark.parametrize("persistence", [0, 1])
async def test_in_the_answer_of_a_waiting_get(persistence: int, fault: Callable[[Any, str], None]) -> None:
    async with opened() as bench, bench.manager.connect() as other, other.open("Q", ALL) as queue:
        wait = asyncio.ensure_future(reason_of(queue.get(None, WAIT)))
        await bench.until(lambda: bench.waiting == 1)
        fault(gets, "delivery")
        await bench.queue.put(b"x", MessageDescriptor(persistence=persistence))
        assert await wait == MQRC.UNEXPECTED_ERROR
        await bench.idle()
        assert (await bench.queue.get(None, WAIT)).data == b"x"
        await works(bench)


async def test_in_the_answer_of_a_waiting_batch(fault: Callable[[Any, str], None]) -> None:
    async with opened() as bench, bench.manager.connect() as other, other.open("Q", ALL) as queue:
        wait = asyncio.ensure_future(reason_of(queue.get_many(5, options=WAIT)))
        await bench.until(lambda: bench.waiting == 1)
        fault(batches.GetManyCall, "_fill")
        await bench.queue.put(b"x", options=MQPMO.SYNCPOINT)
        await bench.connection.commit()
        assert await wait == MQRC.UNEXPECTED_ERROR
        await bench.idle()
        assert (await bench.queue.get()).data == b"x"
        await works(bench)


@pytest.mark.parametrize("name", ["_take_in", "_hold", "fetch", "_read"])
async def test_in_the_return_of_a_body(name: str, fault: Callable[[Any, str], None]) -> None:
    async with opened(body_bytes=0) as bench:
        await bench.queue.put(b"x")
        fault(bench.manager.bodies, name)
        assert await reason_of(bench.queue.get(options=MQGMO.SYNCPOINT)) == MQRC.UNEXPECTED_ERROR
        await bench.idle()
        await bench.connection.backout()
        assert (await bench.queue.get()).data == b"x"
        await works(bench)


@pytest.mark.parametrize("name", ["fetch", "_take_in"])
async def test_in_a_commit_that_reads_bodies_for_its_reports(name: str, fault: Callable[[Any, str], None]) -> None:
    async with opened(body_bytes=0) as bench:
        await bench.connection.mqsc("DEFINE QLOCAL(REPLIES) DEFPSIST(YES)")
        md = MessageDescriptor(reply_to_q="REPLIES", report=MQRO.COD_WITH_FULL_DATA)
        await bench.queue.put(b"x", md)
        await bench.queue.get(options=MQGMO.SYNCPOINT)
        entries = bench.manager.core.objects.queues["Q"].shelf.entries
        entries[next(iter(entries))].data = None
        fault(bench.manager.bodies, name)
        assert await reason_of(bench.connection.commit()) == MQRC.UNEXPECTED_ERROR
        await works(bench)


@pytest.mark.parametrize("name", ["write_off", "settle", "fetch"])
async def test_in_the_mail_about_an_expired_message(
    name: str, fault: Callable[[Any, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(body_bytes=0) as bench:
        await bench.connection.mqsc("DEFINE QLOCAL(REPLIES) DEFPSIST(YES)")
        md = MessageDescriptor(reply_to_q="REPLIES", report=MQRO.EXPIRATION_WITH_FULL_DATA, expiry=10)
        await bench.queue.put(b"x", md)
        await bench.manager.clock.advance(2)  # type: ignore[attr-defined]  # it is a virtual one
        owner = {"write_off": sending, "settle": bench.manager.core, "fetch": bench.manager.bodies}[name]
        fault(owner, name)
        assert await reason_of(bench.queue.get()) == MQRC.NO_MSG_AVAILABLE
        await bench.idle()
        await works(bench)


async def test_in_an_event(fault: Callable[[Any, str], None]) -> None:
    async with opened() as bench:
        await bench.connection.mqsc("DEFINE QLOCAL(SYSTEM.ADMIN.QMGR.EVENT)\nALTER QMGR LOCALEV(ENABLED)")
        fault(sending, "publish")
        with pytest.raises(MQError):
            await bench.connection.open("NONE", ALL)
        await works(bench)


async def test_in_the_end_of_browse_marks(fault: Callable[[Any, str], None]) -> None:
    async with opened() as bench, bench.manager.connect() as other:
        await bench.connection.mqsc("ALTER QMGR MARKINT(1000)")
        await bench.queue.put(b"x")
        options = MQGMO.BROWSE_NEXT | MQGMO.MARK_BROWSE_CO_OP | MQGMO.UNMARKED_BROWSE_MSG
        gmo = GetMessageOptions(options=options | MQGMO.WAIT, wait_interval=60_000, match_options=MQMO.NONE)
        async with other.open("Q", ALL | MQOO.CO_OP) as one, other.open("Q", ALL | MQOO.CO_OP) as two:
            assert (await one.get(None, gmo)).data == b"x"
            wait = asyncio.ensure_future(two.get(None, gmo))
            await bench.until(lambda: bench.waiting == 1)
            fault(bench.manager.core, "end_marks")
            await bench.manager.clock.advance(5)  # type: ignore[attr-defined]  # it is a virtual one
            assert (await wait).data == b"x"


async def test_in_what_the_journal_tells_of_a_write(
    fault: Callable[[Any, str], None], caplog: pytest.LogCaptureFixture
) -> None:
    async with opened() as bench:
        journal = bench.manager.journal
        reported: list[Exception | None] = []

        def wrong(error: Exception | None) -> None:
            raise KeyError("injected")

        journal.submit(Rows(), wrong)
        journal.submit(Rows(), reported.append)
        journal.read([], lambda bodies, error: wrong(error))
        journal.read([], lambda bodies, error: reported.append(error))
        await bench.idle()
        assert reported == [None, None]
        assert caplog.text.count("KeyError: 'injected'") == 2
        await works(bench)


async def test_in_the_end_of_a_connection(fault: Callable[[Any, str], None]) -> None:
    async with opened() as bench:
        port = bench.manager.converse("test")
        fault(bench.manager.monitors, "leave")
        assert await port.disconnect(commit=True) == 0
        await works(bench)


async def test_in_what_a_connection_does_when_its_rows_are_written() -> None:
    async with opened() as bench:
        port = bench.manager.converse("test")

        def wrong(error: Exception | None) -> None:
            raise KeyError("injected")

        port.call_order.write(Rows(), wrong, reveals=True)
        status = port.status()  # it looks at queues, and waits
        assert not status.done()
        assert (await status)["name"] == "QM1"


async def test_in_what_one_of_several_does_with_a_body() -> None:
    async with opened(body_bytes=0) as bench:
        await bench.queue.put(b"x")
        (entry,) = bench.manager.core.objects.queues["Q"].shelf.entries.values()
        reported: list[Exception | None] = []

        def wrong(error: Exception | None) -> None:
            raise KeyError("injected")

        bench.manager.bodies.fetch([entry], wrong)
        bench.manager.bodies.fetch([entry], reported.append)
        await bench.idle()
        assert reported == [None]


async def test_calls_that_have_waited_their_turn_are_made_as_far_as_there_is_room_for_answers() -> None:
    class Narrow(Room):
        congested = True

        def __init__(self) -> None:
            self.waiting: list[Callable[[], None]] = []

        def wait(self, go_on: Callable[[], None]) -> None:
            self.waiting.append(go_on)

    async with opened() as bench:
        room = Narrow()
        port = bench.manager.converse("test", room=room)
        port.call_order.hold()()
        go_on = port.call_order.hold()
        pending = port.trigger_pending()
        go_on()
        assert not pending.done()
        room.congested = False
        room.waiting.pop()()
        assert pending.done()
