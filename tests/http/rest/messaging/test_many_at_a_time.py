"""Messaging by REST with many clients, and with some that go (rest 9)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQOO
from broker.testing import settle
from tests.http.client import answer_of
from tests.http.rest.messaging.conftest import CSRF, TEXT, basic, refusal
from tests.server.security.conftest import until

if TYPE_CHECKING:
    from tests.http.rest.messaging.conftest import Rest


async def test_rest_9_each_of_50_that_wait_is_given_another_message(rest: Rest) -> None:
    waits = [asyncio.ensure_future(rest.delete("Q", "?wait=2000")) for _ in range(50)]
    await rest.waiting(50)
    for number in range(50):
        assert (await rest.put("Q", b"%d" % number)).status == 201
    answers = [await each for each in waits]
    assert {each.status for each in answers} == {200}
    assert {each.text for each in answers} == set(map(str, range(50)))
    assert await rest.depth("Q") == 0


async def test_rest_9_a_client_that_goes_while_it_waits_loses_nothing(rest: Rest) -> None:
    for resource in ("DELETE message", "POST delivery"):
        method, name = resource.split()
        line = await rest.dialled(rest.request(method, rest.url("Q", f"{name}?wait=60000"), TEXT))
        await rest.waiting(1)
        line.close()
        await rest.waiting(0)
        await rest.put("Q", b"kept")
        async with rest.owner.open("Q", MQOO.INPUT_SHARED) as queue:
            message = await queue.get(options=MQGMO.NO_SYNCPOINT)
        assert (message.data, message.backout_count) == (b"kept", 0)


async def test_rest_9_a_client_that_goes_with_its_message_on_the_way_loses_nothing_that_was_not_committed(
    rest: Rest,
) -> None:
    line = await rest.dialled(rest.request("DELETE", rest.url("Q", "message?wait=60000")))
    await rest.waiting(1)
    line.close()  # in the same turn of the loop as the put
    await rest.owner.put1("Q", "kept")
    await rest.waiting(0)
    assert await rest.depth("Q") in (0, 1)  # it went before, or the answer was written
    if await rest.depth("Q"):
        assert (await rest.delete("Q")).text == "kept"


async def test_rest_9_requests_that_wait_do_not_stand_before_those_that_do_not(rest: Rest) -> None:
    """Those that wait have connections of their own: the pool of the user is for calls that take no time."""
    waits = [asyncio.ensure_future(rest.delete("Q", "?wait=60000")) for _ in range(120)]
    await rest.waiting(120)
    assert (await rest.put("DEV/Q1")).status == 201
    for _ in range(120):
        await rest.owner.put1("Q", "x")
    assert [(await each).status for each in waits] == [200] * 120


# Bodies


async def test_rest_9_a_body_may_come_in_chunks(rest: Rest) -> None:
    answer = await rest.ask("POST", rest.url("Q", "message"), TEXT, body="größe".encode(), chunks=True)
    assert answer.status == 201
    assert (await rest.delete("Q")).text == "größe"


@pytest.mark.parametrize("chunks", [False, True])
async def test_rest_9_a_body_that_is_longer_than_maxmsgl_is_refused(rest: Rest, chunks: bool) -> None:
    await rest.run("ALTER QLOCAL(Q) MAXMSGL(100000)")
    longer = await rest.ask("POST", rest.url("A", "message"), TEXT, body=b"x" * 100_001, chunks=chunks)
    assert refusal(longer) == (500, 2030)
    short = await rest.ask("POST", rest.url("A", "message"), TEXT, body=b"x" * 100_000, chunks=chunks)
    assert short.status == 201
    await rest.run("ALTER QLOCAL(Q) MAXMSGL(3)")
    assert refusal(await rest.ask("POST", rest.url("Q", "message"), TEXT, body=b"four", chunks=chunks)) == (500, 2030)
    assert await rest.depth("Q") == 1


async def test_rest_9_a_body_that_is_longer_than_any_message_may_be_is_413(rest: Rest) -> None:
    await rest.run("ALTER QMGR MAXMSGL(90000)")
    answer = await rest.ask("POST", rest.url("Q", "message"), TEXT, body=b"x" * 90_001)
    assert refusal(answer) == (413, 2031)


async def test_a_long_body_is_refused_before_any_of_it_has_come(rest: Rest) -> None:
    await rest.run("ALTER QLOCAL(Q) MAXMSGL(100000)")
    head = f"POST {rest.url('Q', 'message')} HTTP/1.1\r\nHost: localhost\r\n{basic()}\r\n{CSRF}\r\n{TEXT}\r\n"
    line = await rest.dialled(f"{head}Content-Length: 50000000\r\n\r\n".encode())
    head_of_answer = await line.head()
    await rest.clock.advance(1)  # for so long what still comes is thrown away
    answer = answer_of(head_of_answer + await line.rest())
    assert refusal(answer) == (500, 2030)


async def test_a_client_that_waits_to_be_told_sends_no_body_that_is_refused(rest: Rest) -> None:
    for length, said in ((100, b"100 Continue"), (50_000_000, b"500 Internal")):
        head = f"POST {rest.url('Q', 'message')} HTTP/1.1\r\nHost: localhost\r\n{basic()}\r\n{CSRF}\r\n{TEXT}\r\n"
        line = await rest.dialled(f"{head}Expect: 100-continue\r\nContent-Length: {length}\r\n\r\n".encode())
        assert said in await line.head()


async def test_a_client_that_goes_in_the_middle_of_its_body_puts_nothing(rest: Rest) -> None:
    data = rest.request("POST", rest.url("Q", "message"), TEXT, body=b"x" * 200_000)
    line = await rest.dialled(data[:100_000])
    await settle()
    line.close()
    assert (await rest.put("Q", b"whole")).status == 201
    assert await rest.depth("Q") == 1


async def test_a_slow_sender_keeps_no_connection_from_others(rest: Rest) -> None:
    data = rest.request("POST", rest.url("Q", "message"), TEXT, body=b"slow")
    lines = [await rest.dialled(data[:-1]) for _ in range(110)]
    assert (await rest.put("Q", b"quick")).status == 201
    await lines[0].say(data[-1:])
    assert answer_of(await lines[0].rest()).status == 201
    assert await rest.depth("Q") == 2


async def test_long_bodies_wait_for_room_in_the_memory_that_lines_share(rest: Rest) -> None:
    server = rest.server
    server._reserve.limit = 300_000
    body = b"x" * 200_000
    data = rest.request("POST", rest.url("Q", "message"), TEXT, body=body)
    first = await rest.dialled(data[:-1])
    await until(lambda: server._reserve.held == 200_000)
    second = await rest.dialled(data)  # which needs no room: one at a time does not
    assert answer_of(await second.rest()).status == 201
    server._reserve.admit(object(), 400_000)  # type: ignore[arg-type]  # that one is another
    third = await rest.dialled(data)
    await settle()
    assert server._reserve.held == 200_000
    await first.say(data[-1:])
    assert answer_of(await first.rest()).status == 201
    assert answer_of(await third.rest()).status == 201
    assert server._reserve.held == 0
