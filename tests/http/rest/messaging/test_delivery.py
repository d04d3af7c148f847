"""Deliveries by REST: a get that loses nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQOO, MessageDescriptor
from broker.testing import settle
from tests.http.rest.messaging.conftest import error_of, refusal

if TYPE_CHECKING:
    from tests.http.client import Answer
    from tests.http.rest.messaging.conftest import Rest


async def deliver(rest: Rest, query: str = "", version: int = 2) -> Answer:
    return await rest.ask("POST", rest.url("Q", f"delivery{query}", version))


def id_of(answer: Answer) -> str:
    return answer.headers["evermq-delivery-id"]


async def test_a_delivery_is_gone_when_its_client_is_done_with_it(rest: Rest) -> None:
    await rest.put("Q", b"A")
    answer = await deliver(rest, "?lease=10000")
    assert (answer.status, answer.text) == (200, "A")
    assert (answer.headers["evermq-lease"], answer.headers["evermq-attempt"]) == ("10000", "1")
    assert answer.headers["location"] == rest.url("Q", f"delivery/{id_of(answer)}")
    assert answer.headers["ibm-mq-md-persistence"] == "nonPersistent"
    assert (await rest.delete("Q")).status == 204
    for _ in range(2):  # the first answer may have been lost
        assert (await rest.ask("DELETE", answer.headers["location"])).status == 204
    await rest.clock.advance(60)
    assert await rest.depth("Q") == 0


async def test_a_delivery_comes_back_when_its_lease_is_over(rest: Rest) -> None:
    await rest.put("Q", b"A")
    first = await deliver(rest, "?lease=10000")
    await rest.clock.advance(9.9)
    assert (await deliver(rest)).status == 204
    await rest.clock.advance(0.2)
    await settle()
    second = await deliver(rest)
    assert (second.text, second.headers["evermq-attempt"], second.headers["evermq-lease"]) == ("A", "2", "30000")
    late = await rest.ask("DELETE", first.headers["location"])
    assert refusal(late) == (410, 0)
    assert "lapsed" in error_of(late)["explanation"]
    assert (await rest.ask("DELETE", second.headers["location"])).status == 204


async def test_a_lease_is_made_longer_or_given_back(rest: Rest) -> None:
    await rest.put("Q", b"A")
    where = (await deliver(rest, "?lease=1000")).headers["location"]
    answer = await rest.ask("PATCH", f"{where}?lease=60000")
    assert (answer.status, answer.headers["evermq-lease"]) == (204, "60000")
    await rest.clock.advance(59)
    assert (await deliver(rest)).status == 204
    for _ in range(2):
        assert (await rest.ask("PATCH", f"{where}?lease=0")).status == 204
    assert refusal(await rest.ask("PATCH", f"{where}?lease=5")) == (410, 0)
    assert refusal(await rest.ask("DELETE", where)) == (410, 0)
    assert (await rest.delete("Q")).text == "A"


async def test_a_delivery_waits_for_a_message(rest: Rest) -> None:
    waits = asyncio.ensure_future(deliver(rest, "?wait=5000", 3))
    await rest.waiting(1)
    put = await rest.put("Q", b"A")
    answer = await waits
    assert answer.headers["ibm-mq-md-messageid"] == f"ID:{put.headers['ibm-mq-md-messageid']}"
    waits = asyncio.ensure_future(deliver(rest, "?wait=5000"))
    await rest.waiting(1)
    await rest.clock.advance(5)
    assert (await waits).status == 204


async def test_identifiers_choose_what_is_delivered(rest: Rest) -> None:
    ids = [(await rest.put("Q", text)).headers["ibm-mq-md-messageid"] for text in (b"A", b"B")]
    assert (await deliver(rest, f"?messageId={ids[1]}")).text == "B"


async def test_what_is_no_text_is_not_delivered_and_stays(rest: Rest) -> None:
    await rest.owner.put1("Q", b"\0", MessageDescriptor(format="MYFORMAT"))
    assert refusal(await deliver(rest)) == (501, 0)
    assert await rest.depth("Q") == 1


async def test_a_delivery_is_its_users_and_its_queues_alone(rest: Rest) -> None:
    await rest.run("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('other') AUTHADD(GET,PUT)")
    await rest.put("Q", b"A")
    answer = await deliver(rest)
    elsewhere = rest.url("DEV/Q1", f"delivery/{id_of(answer)}")
    assert refusal(await rest.ask("DELETE", elsewhere)) == (404, 0)
    rest.user = "other"
    assert refusal(await rest.ask("DELETE", answer.headers["location"])) == (404, 0)
    rest.user = "app"
    assert refusal(await rest.ask("DELETE", rest.url("Q", "delivery/none"))) == (404, 0)
    assert (await rest.ask("DELETE", answer.headers["location"])).status == 204


async def test_the_number_of_deliveries_in_hand_is_bounded(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.http.rest.messaging.leases.LEASES_OF_USER_MAX", 2)
    for text in (b"A", b"B", b"C"):
        await rest.put("Q", text)
    answers = [await deliver(rest) for _ in range(3)]
    assert [each.status for each in answers] == [200, 200, 500]
    assert error_of(answers[2])["reasonCode"] == 2102
    assert (await rest.ask("DELETE", answers[0].headers["location"])).status == 204
    assert (await deliver(rest)).text == "C"


async def test_what_is_in_hand_comes_back_when_the_server_ends(rest: Rest) -> None:
    await rest.put("Q", b"A")
    assert (await deliver(rest)).status == 200
    await rest.stop()
    assert rest.server.parts is not None
    assert len(rest.server.parts.messaging.leases) == 0
    async with rest.owner.open("Q", MQOO.INPUT_SHARED) as queue:
        assert (await queue.get()).data == b"A"


async def test_done_and_the_end_of_the_lease_at_one_time_are_one_of_them(rest: Rest) -> None:
    await rest.put("Q", b"A")
    where = (await deliver(rest, "?lease=1000")).headers["location"]
    answers = [asyncio.ensure_future(rest.ask("DELETE", where)) for _ in range(3)]
    await rest.clock.advance(1)
    statuses = {(await each).status for each in answers}
    assert statuses in ({204}, {410})
    assert await rest.depth("Q") == (0 if statuses == {204} else 1)


@pytest.mark.parametrize("query", ["?lease=0", "?lease=3600001", "?lease=x", "?limit=1"])
async def test_parameters_that_are_none_are_400(rest: Rest, query: str) -> None:
    await rest.put("Q", b"A")
    assert refusal(await deliver(rest, query)) == (400, 0)
    assert await rest.depth("Q") == 1


@pytest.mark.parametrize("remembered", [60, 900])
async def test_a_lease_outlives_the_connections_that_its_user_has_left(
    rest: Rest, remembered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.http.entrance.entrance.REMEMBERED_SECONDS", remembered)
    await rest.put("Q", b"A")
    where = (await deliver(rest, "?lease=3600000")).headers["location"]
    for _ in range(12):
        await rest.clock.advance(10)
        await settle()
    assert (await rest.ask("DELETE", where)).status == 204
    assert await rest.depth("Q") == 0


async def test_a_lease_whose_user_is_no_user_any_more_comes_back(rest: Rest) -> None:
    await rest.put("Q", b"A")
    where = (await deliver(rest, "?lease=3600000")).headers["location"]
    await rest.run("ALTER USER('app') STATUS(DISABLED)")
    assert (await rest.ask("DELETE", where)).status == 401
    async with rest.owner.open("Q", MQOO.INPUT_SHARED) as queue:
        assert (await queue.get(wait=60)).data == b"A"
