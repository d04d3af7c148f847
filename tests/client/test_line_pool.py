"""A program with more connections than a line takes: the client dials another line by itself (security 4.3)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from broker import TLS, Connection, MQError, SyncConnection, connect, connect_sync
from broker.client.port import RemotePort
from broker.client.reconnecting import ReconnectingPort
from broker.mqi import MQOO, MQPMO, MQRC
from broker.testing import VirtualClock
from tests.client.gate import HastyClock
from tests.security.lines import PASSWORD, Listener, listening
from tests.security.test_channels import channels
from tests.server.proxy import Proxy
from tests.server.security.conftest import files, until
from tests.server.security.conftest import listening as securely_listening
from triggers import App

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker import QueueManager
    from broker.client.line import Line
    from tests.server.security.conftest import Files

__all__ = ["files"]

BOTH = MQOO.INPUT_SHARED | MQOO.OUTPUT


class Secrets:
    """The password, and how often it was asked for: once for each dial."""

    def __init__(self, *fails_at: int) -> None:
        self.asked = 0
        self._fails_at = fails_at

    def __call__(self) -> str:
        self.asked += 1
        if self.asked in self._fails_at:
            raise LookupError("canary")
        return PASSWORD


def bob(url: str, secrets: Secrets | None = None, **options: Any) -> Any:
    return connect(url, user="bob", password=secrets or PASSWORD, channel="APP", **options)


def line_of(connection: Connection) -> Line:
    port = connection.port
    if isinstance(port, ReconnectingPort):
        port = port._port
    assert isinstance(port, RemotePort)
    return port.line


def sharing(connections: Sequence[Connection]) -> list[int]:
    """Return the number of connections on each of their lines, in the order of these."""
    lines = [line_of(each) for each in connections]
    return [lines.count(line) for line in dict.fromkeys(lines)]


def down(connection: Connection) -> bool:
    assert isinstance(connection.port, ReconnectingPort)
    return connection.port.down


async def works(connection: Connection) -> None:
    """It has a unit of work of its own."""
    async with connection.open("Q", BOTH) as queue:
        await queue.put("a", options=MQPMO.SYNCPOINT)
        await connection.commit()
        assert (await queue.get()).data == b"a"


async def reason_of(awaitable: Any) -> int:
    with pytest.raises(MQError) as caught:
        await awaitable
    return caught.value.reason


def all_down(connections: Sequence[Connection]) -> bool:
    return all(map(down, connections))


def depth(listener: Listener, q_name: str) -> int:
    return listener.manager.core.objects.queues[q_name].depth


async def gone(listener: Listener) -> None:
    """All lines are hung up."""
    await until(lambda: listener.server.sessions == 0)


@pytest.mark.parametrize("at_once", [False, True])
async def test_one_connection_more_than_share_a_line_is_on_another(at_once: bool) -> None:
    secrets = Secrets()
    async with listening(channels("SHARECNV(2)")) as listener:
        async with bob(listener.url, secrets) as first, AsyncExitStack() as stack:
            if at_once:
                further = await asyncio.gather(*(first.connect() for _ in range(4)))
            else:
                further = [await first.connect() for _ in range(4)]
            for each in (first, *further):
                await works(each)
            assert sorted(sharing([first, *further])) == [1, 2, 2]
            assert (listener.server.sessions, secrets.asked) == (3, 3)
            for each in further:
                await stack.enter_async_context(each)
        await gone(listener)


async def test_a_line_that_was_dialled_for_one_connection_is_shared_by_the_next() -> None:
    async with listening(channels("SHARECNV(3)")) as listener, bob(listener.url) as first, AsyncExitStack() as stack:
        further = [await stack.enter_async_context(await first.connect()) for _ in range(3)]
        further += [await stack.enter_async_context(await further[-1].connect()) for _ in range(3)]
        assert sharing([first, *further]) == [3, 3, 1]


async def test_a_connection_that_ends_leaves_its_room_to_the_next_one() -> None:
    async with listening(channels("SHARECNV(2)")) as listener, bob(listener.url) as first:
        async with await first.connect() as second, await first.connect() as third:
            assert sharing([first, second, third]) == [2, 1]
            await second.disconnect()
            async with await third.connect() as fourth, await third.connect() as fifth:
                assert sharing([first, third, fourth, fifth]) == [2, 2]
        await until(lambda: listener.server.sessions == 1)


@pytest.mark.parametrize("at_once", [1, 3])
async def test_a_user_with_as_many_connections_as_it_may_dials_one_line_for_each_more_and_hears_2025(
    at_once: int,
) -> None:
    secrets = Secrets()
    async with listening(channels("SHARECNV(2)")) as listener:
        await listener.command("ALTER USER('bob') MAXCONNS(3)")
        async with bob(listener.url, secrets) as first, await first.connect() as second, await first.connect() as third:
            with pytest.raises(MQError, match=r"2025\).*MAXCONNS"):
                await bob(listener.url)
            assert secrets.asked == 2
            refused = await asyncio.gather(*(reason_of(third.connect()) for _ in range(at_once)))
            assert refused == [MQRC.MAX_CONNS_LIMIT_REACHED] * at_once
            assert secrets.asked == 2 + at_once
            await until(lambda: listener.server.sessions == 2)
            await second.disconnect()
            async with await first.connect() as again:
                assert line_of(again) is line_of(first)
        await gone(listener)


async def test_a_refusal_that_was_not_for_the_lines_leaves_their_room_to_the_next_connection() -> None:
    async with (
        listening(channels("SHARECNV(2)")) as listener,
        bob(listener.url) as first,
        await first.connect() as second,
        await first.connect() as third,
    ):
        await listener.command("ALTER USER('bob') MAXCONNS(3)")
        assert await reason_of(first.connect()) == MQRC.MAX_CONNS_LIMIT_REACHED
        await listener.command("ALTER USER('bob') MAXCONNS(4)")
        async with await first.connect() as fourth:
            assert sharing([first, second, third, fourth]) == [2, 2]


async def test_a_line_that_is_full_is_not_asked_for_each_connection() -> None:
    async with listening(channels("SHARECNV(1)")) as listener, bob(listener.url) as first, AsyncExitStack() as stack:
        further = [await stack.enter_async_context(await first.connect()) for _ in range(6)]
        asked = [line_of(each)._last_conversation for each in (first, *further)]
        assert asked == [7, 2, 2, 2, 2, 2, 1]


async def test_a_channel_with_as_many_lines_as_it_may_have_is_2537() -> None:
    async with listening(channels("SHARECNV(1) MAXINST(2)")) as listener:
        async with bob(listener.url) as first, await first.connect() as second:
            assert await reason_of(second.connect()) == MQRC.CHANNEL_NOT_AVAILABLE
            await until(lambda: listener.server.sessions == 2)
            await works(first)
        await gone(listener)


async def test_a_queue_manager_with_as_many_lines_as_it_may_have_is_2025() -> None:
    async with listening(channels("SHARECNV(1)")) as listener, bob(listener.url) as first:
        limits = listener.server.limits
        listener.server.limits = type(limits)(connections=1)
        assert await reason_of(first.connect()) == MQRC.MAX_CONNS_LIMIT_REACHED
        listener.server.limits = limits
        async with await first.connect() as second:
            await works(second)


async def test_another_line_is_to_the_queue_manager_of_the_first_and_as_its_user() -> None:
    async with (
        listening(channels("SHARECNV(1)")) as listener,
        bob(f"{listener.url},{listener.url.removeprefix('mq://')}/QM1") as first,
        await first.connect("other") as second,
    ):
        assert (second.q_mgr_name, line_of(second).where) == ("QM1", line_of(first).where)
        assert {each.hconn.caller.user for each in listener.manager.conversations if each.hconn.caller} == {"bob"}
        assert await reason_of(second.open("SYSTEM.ADMIN.QMGR.EVENT", MQOO.BROWSE)) == MQRC.NOT_AUTHORIZED


async def test_a_connection_that_nobody_waits_for_any_more_leaves_no_line() -> None:
    asked = asyncio.Event()

    async def never() -> str:
        if not asked.is_set():
            asked.set()
            return PASSWORD
        waiting.set()
        await asyncio.Event().wait()
        raise AssertionError

    waiting = asyncio.Event()
    async with listening(channels("SHARECNV(1)")) as listener:
        async with connect(listener.url, user="bob", password=never, channel="APP") as first:
            call = asyncio.ensure_future(first.connect())
            await waiting.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await until(lambda: not [each for each in asyncio.all_tasks() if "127.0.0.1" in each.get_name()])
            assert listener.server.sessions == 1
        await gone(listener)


async def test_a_dial_that_takes_too_long_is_2538() -> None:
    clock, waiting = VirtualClock(), asyncio.Event()

    async def slow() -> str:
        if line:
            waiting.set()
            await asyncio.Event().wait()
        return PASSWORD

    line: list[object] = []
    async with (
        listening(channels("SHARECNV(1)")) as listener,
        connect(listener.url, user="bob", password=slow, channel="APP", clock=clock) as first,
    ):
        line.append(line_of(first))
        calls = [asyncio.ensure_future(reason_of(first.connect())) for _ in range(2)]
        for call in calls:
            await waiting.wait()
            waiting.clear()
            await clock.advance(10)
            assert await call == MQRC.HOST_NOT_AVAILABLE


async def test_the_secret_of_another_line_that_cannot_be_had_is_what_the_connection_raises() -> None:
    async with listening(channels("SHARECNV(1)")) as listener, bob(listener.url, Secrets(2)) as first:
        with pytest.raises(LookupError, match="canary"):
            await first.connect()
        async with await first.connect() as second:
            await works(second)


async def test_tls_lines_are_as_many_as_it_takes(files: Files, manager: QueueManager) -> None:
    files.hosts.cert_pem.write_to_path(files.folder / "hosts.pem")
    async with securely_listening(manager, files.config) as server, manager.connect() as owner:
        await owner.mqsc("ALTER CHANNEL(EVERMQ.SVRCONN) CHLTYPE(SVRCONN) SHARECNV(2)", check=True)
        async with (
            connect(f"mqs://{server.addresses[-1]}", tls=TLS(ca=files.folder / "hosts.pem")) as first,
            await first.connect() as second,
            await second.connect() as third,
        ):
            assert sharing([first, second, third]) == [2, 1]
            assert server.sessions == 2
        await until(lambda: server.sessions == 0)


# Threads


async def test_a_thread_has_as_many_connections_as_it_wants() -> None:
    def program(url: str) -> list[bytes]:
        seen = []
        with (
            connect_sync(url, user="bob", password=PASSWORD, channel="APP") as first,
            first.connect() as second,
            second.connect() as third,
        ):
            for each in (first, second, third):
                with each.open("Q", BOTH) as queue:
                    queue.put("a")
                    seen.append(queue.get().data)
        return seen

    async with listening(channels("SHARECNV(1)")) as listener:
        assert await asyncio.to_thread(program, listener.url) == [b"a"] * 3
        await gone(listener)


# Lines that are made again


async def test_connections_that_came_on_one_line_come_back_on_several_where_it_takes_less(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "broker.client")
    secrets = Secrets()
    async with (
        listening(channels("SHARECNV(10)")) as listener,
        Proxy(listener.server.addresses[0]) as proxy,
        bob(proxy.url, secrets, reconnect=True, clock=HastyClock()) as first,
        AsyncExitStack() as stack,
    ):
        all = [first, *[await stack.enter_async_context(await first.connect()) for _ in range(4)]]
        queues = [await stack.enter_async_context(each.open("Q", BOTH)) for each in all]
        assert (sharing(all), secrets.asked) == ([5], 1)
        for most, expected in ((2, [2, 2, 1]), (1, [1] * 5), (10, [5])):
            await listener.command(f"ALTER CHANNEL(APP) CHLTYPE(SVRCONN) SHARECNV({most})")
            dials = secrets.asked + len(expected)
            caplog.clear()
            proxy.cut()
            await until(lambda: all_down(all))
            for queue in queues:
                await queue.put("a")
                assert (await queue.get()).data == b"a"
            assert (sharing(all), secrets.asked) == (expected, dials)
            assert [each.levelname for each in caplog.records] == ["WARNING", "INFO"]
        async with await all[-1].connect() as other:
            await works(other)


async def test_a_line_that_is_lost_takes_no_connection_along_that_is_on_another() -> None:
    async with (
        listening(channels("SHARECNV(2)")) as listener,
        bob(listener.url, reconnect=True, clock=HastyClock()) as first,
        await first.connect() as second,
        await first.connect() as third,
    ):
        before = [line_of(each) for each in (first, second)]
        async with first.open("Q", BOTH) as queue:
            await queue.put("a", options=MQPMO.SYNCPOINT)
            line_of(third).abort("cut")
            await until(lambda: down(third))
            await works(third)
            await first.commit()
            assert (await queue.get()).data == b"a"
        assert [line_of(each) for each in (first, second)] == before
        assert sharing([first, second, third]) == [2, 1]


async def test_a_line_that_is_made_again_leads_to_where_the_others_of_the_program_are() -> None:
    async with (
        listening(channels("SHARECNV(1)")) as one,
        listening(channels("SHARECNV(1)")) as other,
        bob(f"{one.url},{other.url.removeprefix('mq://')}", reconnect=True, clock=HastyClock()) as first,
        await first.connect() as second,
    ):
        for _ in range(10):  # chance would find it once in a thousand times
            line_of(second).abort("cut")
            await until(lambda: down(second))
            await works(second)
            assert line_of(second).where == line_of(first).where


async def test_lines_that_cannot_all_be_made_again_are_tried_together() -> None:
    """A channel that lets in less lines than the program needs: until it lets in more, no connection goes on."""
    async with (
        listening(channels("SHARECNV(10)")) as listener,
        Proxy(listener.server.addresses[0]) as proxy,
        bob(proxy.url, reconnect=True, clock=HastyClock()) as first,
        await first.connect() as second,
        await first.connect() as third,
    ):
        await listener.command("ALTER CHANNEL(APP) CHLTYPE(SVRCONN) SHARECNV(1) MAXINST(2)")
        proxy.cut()
        await until(lambda: all_down([first, second, third]))
        waiting = asyncio.ensure_future(works(first))
        for _ in range(3):
            await until(lambda: listener.server.sessions == 3)
            await until(lambda: listener.server.sessions == 0)
        assert not waiting.done()
        await listener.command("ALTER CHANNEL(APP) CHLTYPE(SVRCONN) MAXINST(3)")
        await waiting
        await works(second)
        await works(third)
        assert sharing([first, second, third]) == [1, 1, 1]


async def test_a_line_that_is_lost_while_the_next_one_is_made_is_made_once_more() -> None:
    dials, second_dial, go_on = 0, asyncio.Event(), asyncio.Event()

    async def secret() -> str:
        nonlocal dials
        dials += 1
        if dials == 4:
            second_dial.set()
            await go_on.wait()
        return PASSWORD

    async with (
        listening(channels("SHARECNV(1)")) as listener,
        Proxy(listener.server.addresses[0]) as proxy,
        connect(proxy.url, user="bob", password=secret, channel="APP", reconnect=True, clock=HastyClock()) as first,
        await first.connect() as second,
    ):
        proxy.cut()
        await second_dial.wait()
        line_of(first).abort("cut")
        go_on.set()
        await works(second)
        await works(first)
        assert dials == 5


async def test_a_line_more_whose_secret_fails_while_lines_are_made_again_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    secrets = Secrets(3, 4)
    async with (
        listening(channels("SHARECNV(1)")) as listener,
        Proxy(listener.server.addresses[0]) as proxy,
        bob(proxy.url, secrets, reconnect=True, clock=HastyClock()) as first,
        await first.connect() as second,
    ):
        proxy.cut()
        await until(lambda: down(first) and down(second))
        await works(first)
        await works(second)
    assert "no secret, for LookupError" in caplog.text
    assert "canary" not in caplog.text


async def test_a_connection_that_is_left_while_its_line_is_made_again_holds_no_line() -> None:
    async with listening(channels("SHARECNV(1)")) as listener, Proxy(listener.server.addresses[0]) as proxy:
        async with bob(proxy.url, reconnect=True, clock=HastyClock()) as first:
            second, third = await first.connect(), await first.connect()
            proxy.cut()
            await until(lambda: all_down([first, second, third]))
            await asyncio.gather(second.disconnect(), works(third))
            await third.disconnect()
            await works(first)
            await until(lambda: listener.server.sessions == 1)
        await gone(listener)


# Apps

SERVED = """
DEFINE PROCESS(Q)
ALTER QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(Q)
DEFINE QLOCAL(OUT)
DEFINE QLOCAL(Q.DEAD)
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(DSP)
SET AUTHREC PROFILE('**') OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(GET,PUT,PASSALL,INQ,DSP)
SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(DSP)
SET AUTHREC PROFILE('**') OBJTYPE(PROCESS) PRINCIPAL('bob') AUTHADD(DSP)
"""


@pytest.mark.parametrize("by_thread", [False, True])
async def test_the_connections_of_deliveries_share_one_line_and_those_of_handlers_have_others(by_thread: bool) -> None:
    together = asyncio.Event()
    sessions: list[int] = []
    async with listening(channels("SHARECNV(1)") + SERVED) as listener:
        app = App(listener.url, user="bob", password=PASSWORD, channel="APP")

        async def asynchronous(body: str, connection: Connection) -> None:
            sessions.append(listener.server.sessions)
            if len(sessions) == 3:
                together.set()
            await together.wait()
            async with await connection.connect() as other:
                await other.put1("OUT", body)

        def blocking(body: str, connection: SyncConnection) -> None:
            with connection.connect() as other:
                other.put1("OUT", body)

        app.handler("Q", concurrency=3)(blocking if by_thread else asynchronous)
        async with app.running():
            for body in ("1", "2", "3"):
                await app.put("Q", body)
            await until(lambda: depth(listener, "OUT") == 3)
            await app.put_group("OUT", ["4", "5"])
        assert depth(listener, "OUT") == 5
        assert sessions == ([] if by_thread else [2, 2, 2])  # that of the deliveries, and that of what the app puts
        await gone(listener)
