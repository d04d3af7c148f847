"""Programs, a socket and a queue manager: what a client sees, and what its mishaps leave on the queues."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from anyio import create_task_group, wait_all_tasks_blocked

from broker import Connection, MQError, connect
from broker.mqi import (
    MQCA,
    MQGMO,
    MQIA,
    MQMO,
    MQOO,
    MQPMO,
    MQRC,
    GetMessageOptions,
    MessageDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from broker import QueueManager
    from broker.server import Server
    from broker.testing import VirtualClock
    from tests.server.proxy import Proxy

BOTH = MQOO.INPUT_SHARED | MQOO.OUTPUT


async def visible(manager: QueueManager, name: str = "Q") -> int:
    """Return the number of messages that a program that browses the queue sees."""
    async with manager.connect() as connection, connection.open(name, MQOO.BROWSE) as queue:
        found = 0
        try:
            while True:
                await queue.get(options=MQGMO.BROWSE_NEXT)
                found += 1
        except MQError as error:
            assert error.reason == MQRC.NO_MSG_AVAILABLE
        return found


def figure(manager: QueueManager, key: str, name: str = "Q") -> int:
    """Return a figure of a queue in the status of the queue manager."""
    found: int = next(queue for queue in manager.status()["queues"] if queue["name"] == name)[key]
    return found


async def until(condition: Callable[[], object]) -> None:
    """Let the event loop turn until something has happened on the sockets."""
    for _ in range(200_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise TimeoutError


async def gone(manager: QueueManager, server: Server) -> None:
    """Wait until the server has noticed that its clients are gone, and what they held is back."""
    await until(lambda: not server.sessions and not figure(manager, "uncommitted"))


# The interface is the embedded one.


async def test_a_message_goes_to_a_queue_and_comes_back(url: str) -> None:
    async with connect(url, appl_name="orders") as connection:
        assert connection.q_mgr_name == "QM1"
        async with connection.open("Q", BOTH) as queue:
            assert (queue.name, queue.resolved_q_name, queue.resolved_q_mgr_name) == ("Q", "Q", "QM1")
            result = await queue.put("hello", MessageDescriptor(priority=7, correl_id=b"c" * 24))
            message = await queue.get()
    assert message.data == b"hello"
    assert message.md.msg_id == result.md.msg_id
    assert (message.md.priority, message.md.correl_id, message.md.format) == (7, b"c" * 24, "MQSTR")
    assert message.md.put_appl_name == "orders"


async def test_each_call_of_the_interface_works_over_the_wire(url: str) -> None:
    async with connect(url) as connection:
        (reply,) = await connection.mqsc("DISPLAY QLOCAL(Q) MAXDEPTH")
        assert reply.attributes[0]["MAXDEPTH"] == 5000
        await connection.put1("Q", b"one")
        async with connection.open("Q", MQOO.INQUIRE | MQOO.SET | MQOO.BROWSE) as queue:
            assert await queue.inquire(MQIA.CURRENT_Q_DEPTH, MQCA.Q_NAME) == {
                MQIA.CURRENT_Q_DEPTH: 1,
                MQCA.Q_NAME: "Q",
            }
            await queue.set({MQIA.INHIBIT_GET: 1})
            with pytest.raises(MQError, match="2016"):
                await queue.get(options=MQGMO.BROWSE_FIRST)
        assert (await connection.status())["name"] == "QM1"


async def test_an_error_arrives_with_its_reason_and_detail(url: str) -> None:
    async with connect(url) as connection:
        with pytest.raises(MQError) as caught:
            await connection.open("NO.SUCH.QUEUE", MQOO.OUTPUT)
        assert caught.value.reason == MQRC.UNKNOWN_OBJECT_NAME
        assert "NO.SUCH.QUEUE" in caught.value.detail


async def test_a_message_too_long_for_the_buffer_arrives_in_part_with_its_error(url: str) -> None:
    async with connect(url) as connection, connection.open("Q", BOTH) as queue:
        await queue.put(b"0123456789")
        with pytest.raises(MQError) as caught:
            await queue.get(max_length=4)
        assert caught.value.reason == MQRC.TRUNCATED_MSG_FAILED
        partial: Any = caught.value.message
        assert (partial.data, partial.length) == (b"0123", 10)
        assert (await queue.get()).data == b"0123456789"


async def test_pipelined_puts_stand_on_the_queue_in_the_order_made(url: str) -> None:
    async with connect(url) as connection, connection.open("Q", BOTH) as queue:
        await asyncio.gather(*(queue.put(str(number).encode()) for number in range(500)))
        messages = await asyncio.gather(*(queue.get() for _ in range(500)))
        assert [int(message.data) for message in messages] == list(range(500))


async def test_what_comes_before_a_descriptor_with_a_wrong_field_is_put(url: str, manager: QueueManager) -> None:
    async with connect(url) as connection, connection.open("Q", BOTH) as queue:
        with pytest.raises(MQError, match=r"2026\): messages\[2\]: ") as caught:
            await queue.put_many([b"a", b"b", (b"c", MessageDescriptor(priority=2**40)), b"d"])
        assert len(caught.value.results) == 2
        assert await visible(manager) == 2


async def test_a_waiting_get_holds_up_no_other_call(url: str) -> None:
    async with connect(url) as connection, connection.open("Q", BOTH) as queue:
        waiting = asyncio.ensure_future(queue.get(wait=float("inf")))
        await wait_all_tasks_blocked()
        await connection.put1("R", b"other")
        await queue.put(b"awaited")
        assert (await waiting).data == b"awaited"


async def test_a_unit_of_work_commits_on_a_clean_exit_and_backs_out_on_any_other(
    url: str, manager: QueueManager
) -> None:
    async with connect(url) as connection, connection.open("Q", BOTH) as queue:
        async with connection.unit_of_work():
            await queue.put(b"kept")
        with pytest.raises(ZeroDivisionError):
            async with connection.unit_of_work():
                await queue.put(b"not kept")
                raise ZeroDivisionError
        assert await visible(manager) == 1


async def test_leaving_a_connection_commits_or_backs_out_as_mqdisc(
    url: str, manager: QueueManager, server: Server
) -> None:
    async with connect(url) as connection, connection.open("Q", BOTH) as queue:
        await queue.put(b"kept", options=MQPMO.SYNCPOINT)
    with pytest.raises(ZeroDivisionError):
        async with connect(url) as connection, connection.open("Q", BOTH) as queue:
            await queue.put(b"not kept", options=MQPMO.SYNCPOINT)
            raise ZeroDivisionError
    await gone(manager, server)
    assert await visible(manager) == 1


async def test_a_cancelled_program_backs_out_and_leaves_no_socket(
    url: str, manager: QueueManager, server: Server
) -> None:
    async def program() -> None:
        async with connect(url) as connection, connection.open("Q", BOTH) as queue:
            await queue.put(b"not kept", options=MQPMO.SYNCPOINT)
            await queue.get(wait=float("inf"), md=MessageDescriptor(correl_id=b"x" * 24), options=0)

    for how in ("task", "scope"):
        async with create_task_group() as tasks:
            if how == "task":
                task = asyncio.ensure_future(program())
                await until(lambda: figure(manager, "getters"))
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                tasks.start_soon(program)
                await until(lambda: figure(manager, "getters"))
                tasks.cancel_scope.cancel()
        await gone(manager, server)
        assert (await visible(manager), manager.status()["connections"]) == (0, 0)


# Conversations.


async def test_a_thousand_connections_share_one_socket(url: str, server: Server, manager: QueueManager) -> None:
    async with connect(url) as connection:
        others = await asyncio.gather(*(connection.connect() for _ in range(999)))
        queues = await asyncio.gather(*(other.open("Q", BOTH) for other in others))
        await asyncio.gather(*(queue.put(b"hello", options=MQPMO.SYNCPOINT) for queue in queues))
        assert server.sessions == 1
        assert manager.status()["connections"] == 1000
        assert await visible(manager) == 0
        await asyncio.gather(*(other.disconnect() for other in others))
        assert await visible(manager) == 999
    await gone(manager, server)
    assert manager.status()["connections"] == 0


async def test_connections_on_one_socket_have_units_of_work_of_their_own(url: str, manager: QueueManager) -> None:
    async with connect(url) as one, await one.connect() as two:
        for connection in (one, two):
            await connection.put1("Q", b"hello", options=MQPMO.SYNCPOINT)
        await one.backout()
        await two.commit()
        assert await visible(manager) == 1


async def test_the_socket_outlives_its_first_connection(url: str, server: Server) -> None:
    async with connect(url) as first:
        second = await first.connect()
    await second.put1("Q", b"hello")
    assert server.sessions == 1
    await second.disconnect()


# Cancellation.


async def cancelled_at(turn: int, work: Coroutine[Any, Any, Any]) -> bool:
    """Run `work` and cancel it after so many turns of the event loop; whether that was before its end."""
    task = asyncio.ensure_future(work)
    for _ in range(turn):
        await asyncio.sleep(0)
    cut = task.cancel()
    await asyncio.wait([task])
    return cut


@pytest.mark.parametrize("options", [MQGMO.SYNCPOINT, MQGMO.NO_SYNCPOINT])
@pytest.mark.parametrize("persistence", [0, 1])
async def test_a_get_cancelled_at_any_turn_leaves_its_message_in_one_place(
    url: str, manager: QueueManager, options: MQGMO, persistence: int
) -> None:
    async with connect(url) as connection, connection.open("Q", BOTH) as queue:
        turn = 0
        cut = True
        while cut:
            await queue.put(str(turn).encode(), MessageDescriptor(persistence=persistence))
            got: list[bytes] = []

            async def program(got: list[bytes] = got) -> None:
                got.append((await queue.get(options=options)).data)

            cut = await cancelled_at(turn, program())
            await connection.commit()
            left = await visible(manager)
            assert left + len(got) == 1
            while left:
                await queue.get()
                left -= 1
            turn += 1
        assert turn > 3


async def test_a_get_cancelled_while_it_waits_takes_nothing(url: str, manager: QueueManager) -> None:
    async with connect(url) as connection, connection.open("Q", BOTH) as queue:
        for turn in range(12):
            waiting = asyncio.ensure_future(queue.get(wait=float("inf")))
            await until(lambda: figure(manager, "getters"))
            put = asyncio.ensure_future(queue.put(b"hello"))
            for _ in range(turn):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting, put])
            await connection.commit()
            assert await visible(manager) == waiting.cancelled()
            if waiting.cancelled():
                await queue.get()


@pytest.mark.parametrize(
    "make",
    [
        lambda connection: connection.open("Q", BOTH).__await__(),
        lambda connection: connection.connect().__await__(),
    ],
)
async def test_an_open_or_a_connect_cancelled_at_any_turn_leaves_nothing_open(
    url: str, manager: QueueManager, make: Callable[[Connection], Any]
) -> None:
    class Step:
        def __init__(self, connection: Connection) -> None:
            self._connection = connection

        def __await__(self) -> Any:
            return make(self._connection)

    async with connect(url) as connection:
        turn = 0
        cut = True
        while cut:

            async def program() -> Any:
                return await Step(connection)

            cut = await cancelled_at(turn, program())
            await connection.status()
            await connection.status()
            if cut:
                assert figure(manager, "ipprocs") == 0
                assert manager.status()["connections"] == 1
            turn += 1
        assert turn > 2


async def test_connecting_cancelled_at_any_turn_leaves_no_socket(
    url: str, server: Server, manager: QueueManager
) -> None:
    async def program() -> None:
        async with connect(url):
            pass

    turn = 0
    while await cancelled_at(turn, program()):
        await gone(manager, server)
        assert manager.status()["connections"] == 0
        turn += 1
    assert turn > 3


# Cut lines.


async def exchange(url: str) -> None:
    """Move a message from Q to R under syncpoint, and put another one on Q."""
    async with connect(url) as connection:
        source = await connection.open("Q", BOTH)
        target = await connection.open("R", MQOO.OUTPUT)
        message = await source.get(options=MQGMO.SYNCPOINT)
        await target.put(message.data, options=MQPMO.SYNCPOINT)
        await connection.commit()


@pytest.mark.parametrize("way", ["up", "down"])
async def test_a_line_cut_at_any_byte_moves_a_message_wholly_or_not_at_all(
    way: str, proxy: Proxy, server: Server, manager: QueueManager
) -> None:
    async with manager.connect() as local:
        await local.put1("Q", b"moved", persistence=1)
        await exchange(proxy.url)
        total = proxy.passed[way]
        moved = 1
        for budget in range(1, total + 1, 3):
            await local.put1("Q", b"moved", persistence=1)
            before = await visible(manager, "R")
            proxy.cut_after(**{way: budget})
            with suppress(MQError):  # none, when the cut comes after the last byte that matters
                await exchange(proxy.url)
            await gone(manager, server)
            left, there = await visible(manager, "Q"), await visible(manager, "R") - before
            assert left + there == 1, f"cut after {budget} bytes {way}"
            moved += there
            if left:
                await local.put1("R", (await (await local.open("Q", BOTH)).get()).data)
        assert moved > 1


async def test_a_cut_line_ends_waits_and_gives_back_what_its_connections_hold(
    proxy: Proxy, manager: QueueManager, server: Server
) -> None:
    with pytest.raises(MQError, match="2009"):  # leaving it cleanly would have committed, and nothing else has told
        async with connect(proxy.url) as connection:
            other = await connection.connect()
            for each in (connection, other):
                queue = await each.open("Q", BOTH)
                await queue.put(b"hello", options=MQPMO.SYNCPOINT)
            waiting = asyncio.ensure_future(queue.get(wait=float("inf")))
            await until(lambda: figure(manager, "getters"))
            proxy.cut()
            with pytest.raises(MQError) as caught:
                await waiting
            assert caught.value.reason == MQRC.CONNECTION_BROKEN
            with pytest.raises(MQError, match="2009"):
                await other.commit()
            await other.disconnect()
    await gone(manager, server)
    assert await visible(manager) == 0
    assert figure(manager, "getters") == figure(manager, "ipprocs") == 0


# Size and flow.


async def test_a_message_of_many_megabytes_goes_both_ways(url: str) -> None:
    body = bytes(range(256)) * 4096 * 20
    async with connect(url) as connection:
        await connection.mqsc("ALTER QMGR MAXMSGL(104857600)\nDEFINE QLOCAL(BIG) MAXMSGL(104857600)")
        async with connection.open("BIG", BOTH) as queue:
            await queue.put(body)
            assert (await queue.get()).data == body


async def test_many_puts_of_more_bytes_than_may_be_in_flight_all_arrive(url: str, manager: QueueManager) -> None:
    async with connect(url) as connection, connection.open("Q", BOTH) as queue:
        await asyncio.gather(*(queue.put(bytes(1_000_000), options=MQPMO.NO_SYNCPOINT) for _ in range(40)))
        assert await visible(manager) == 40
        got = await asyncio.gather(*(queue.get() for _ in range(40)))
        assert {len(message.data) for message in got} == {1_000_000}


async def test_two_thousand_waits_by_correlation_id_are_answered(url: str) -> None:
    async with connect(url) as connection, connection.open("Q", BOTH) as queue:
        ids = [number.to_bytes(24, "big") for number in range(1, 2001)]
        options = GetMessageOptions(options=MQGMO.WAIT, wait_interval=-1, match_options=MQMO.MATCH_CORREL_ID)
        waits = [asyncio.ensure_future(queue.get(MessageDescriptor(correl_id=each), options)) for each in ids]
        await asyncio.sleep(0)
        for start in range(0, 2000, 500):
            await asyncio.gather(
                *(queue.put(each, MessageDescriptor(correl_id=each)) for each in ids[start : start + 500])
            )
        assert [(await wait).data for wait in waits] == ids


# Time.


async def test_a_line_with_nothing_to_say_stays_alive(url: str, clock: VirtualClock) -> None:
    async with connect(url, clock=clock) as connection:
        await clock.advance(600)
        await connection.put1("Q", b"hello")


async def test_an_end_that_has_gone_silent_is_noticed_at_the_other(
    url: str, clock: VirtualClock, server: Server
) -> None:
    async with connect(url) as connection:  # on another clock, on which no time passes and no heartbeat is due
        await clock.advance(90)
        await gone(server.manager, server)
        with pytest.raises(MQError, match="2009"):
            await connection.put1("Q", b"hello")


# Commands with very many replies.


async def test_a_long_display_comes_in_parts_and_is_one_reply_again(url: str, manager: QueueManager) -> None:
    async with connect(url) as connection, manager.connect() as embedded:
        await embedded.mqsc("".join(f"DEFINE QLOCAL(M{number});" for number in range(300)))
        script = "DEFINE QLOCAL(FIRST)\nDISPLAY QLOCAL(M*) ALL\nDISPLAY QLOCAL(NONE)\nDISPLAY QLOCAL(M1) MAXDEPTH"
        remote = await connection.mqsc(script)
        await embedded.mqsc("DELETE QLOCAL(FIRST)")
        assert remote == await embedded.mqsc(script)
        assert [len(reply.attributes) for reply in remote] == [0, 300, 0, 1]


async def test_a_program_that_goes_away_from_its_commands_holds_nobody_up(url: str, server: Server) -> None:
    async with connect(url) as connection, connect(url) as other:
        await other.mqsc("".join(f"DEFINE QLOCAL(M{number});" for number in range(300)))
        script = asyncio.ensure_future(connection.mqsc("DISPLAY QLOCAL(M*) ALL;" * 20 + "DEFINE QLOCAL(LAST)"))
        await until(lambda: server.reserve.held > 0)
        script.cancel()
        with pytest.raises(asyncio.CancelledError):
            await script
        (shown,) = await connection.mqsc("DISPLAY QLOCAL(LAST) MAXDEPTH")
        assert shown.ok
    await until(lambda: not server.sessions)
    assert (server.reserve.held, server.reserve.waiting_calls) == (0, 0)
