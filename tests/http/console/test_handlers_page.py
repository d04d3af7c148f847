"""The page of handlers and schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from broker.presentation.durations import percentile
from tests.http.console.conftest import words
from tests.http.console.forms import form, sent
from triggers import App

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from broker import Connection, QueueManager
    from broker.testing import VirtualClock
    from tests.http.console.conftest import Doorman


@pytest.mark.parametrize(
    ("buckets", "part", "told"),
    [([0] * 20, 0.5, ""), ([10] + [0] * 19, 0.5, "≤ 0.1 ms"), ([5, 0, 5] + [0] * 17, 0.95, "≤ 0.5 ms"),
     ([0] * 19 + [1], 0.5, "> 100 s"), ([19, 0, 0, 1] + [0] * 16, 0.95, "≤ 0.1 ms")],
)  # fmt: skip
def test_a_percentile_is_the_bound_that_it_lies_below(buckets: list[int], part: float, told: str) -> None:
    assert percentile(buckets, part) == told


def test_the_bounds_in_words_are_those_that_the_queue_manager_counts_by() -> None:
    from broker.core.queues.counts.duration import BOUNDS

    words = [percentile([0] * number + [1] + [0] * (19 - number), 0.5) for number in range(len(BOUNDS))]
    seconds = [float(each[2:].split()[0]) / (1000 if each.endswith("ms") else 1) for each in words]
    assert seconds == pytest.approx(list(BOUNDS))


class Shop:
    """An app with a handler that fails, that waits, or that is done; and a schedule."""

    def __init__(self, manager: QueueManager) -> None:
        self.go = anyio.Event()
        self.began = anyio.Event()
        self.ran = anyio.Event()
        self.app = App(manager, name="shop")

        @self.app.handler("ORDERS", retry=0)
        async def ship(data: bytes) -> None:
            if data == b"bad":
                raise ValueError("<b>bad</b>")
            self.began.set()
            await self.go.wait()

        @self.app.every(3600)
        async def report() -> None:
            self.ran.set()


@pytest.fixture
async def shop(manager: QueueManager) -> AsyncIterator[Shop]:
    shop = Shop(manager)
    async with shop.app.running(grace=0):
        yield shop
        shop.go.set()


async def test_n3_6_with_nothing_the_page_says_so(browser: httpx.AsyncClient) -> None:
    page = words(await browser.get("/console/handlers"))
    assert "No handler has served a queue since the start." in page
    assert "No handler has a message in hand." in page
    assert "There is no periodic work" in page


async def test_n3_6_outcomes_what_runs_now_and_the_last_error(
    browser: httpx.AsyncClient, shop: Shop, clock: VirtualClock, connection: Connection
) -> None:
    await shop.app.put("ORDERS", b"bad")
    while not (await connection.status())["handlers"][0]["dead_lettered"]:
        await anyio.lowlevel.checkpoint()
    slow = await shop.app.put("ORDERS", b"slow")
    await shop.began.wait()
    await clock.advance(120)
    page = await browser.get("/console/handlers")
    text = words(page)
    assert "ship on ORDERS" in text
    assert f"ORDERS …{slow.md.msg_id.hex()[-12:]} 2 m ago shop" in text
    assert "ValueError: <b>bad</b>" in text.replace("&lt;", "<").replace("&gt;", ">")
    assert "<b>bad" not in page.text
    assert "every 1 h" in text or "every" in text
    assert "no run since the start" in text


async def test_n1_6_a_queue_is_paused_and_resumed(
    browser: httpx.AsyncClient, shop: Shop, connection: Connection
) -> None:
    page = await browser.get("/console/handlers")
    assert "ALTER QLOCAL(&#39;ORDERS&#39;) NOTRIGGER" in page.text
    _, told = await sent(browser, "/handlers", form("pause", queue="ORDERS"))
    assert "ORDERS is paused: handlers that run go on." in told
    assert "Resume ORDERS" in told
    [reply] = await connection.mqsc("DISPLAY QLOCAL(ORDERS) TRIGGER")
    assert reply.attributes[0]["TRIGGER"] is False
    _, told = await sent(browser, "/handlers", form("resume", queue="ORDERS"))
    assert "ORDERS is resumed." in told
    _, told = await sent(browser, "/handlers", form("pause", queue="NOT.THERE"))
    assert "AMQ8147E" in told


async def test_n1_4_a_schedule_is_run_now_and_paused(browser: httpx.AsyncClient, shop: Shop) -> None:
    page = await browser.get("/console/handlers")
    q_name = page.text.partition("MQPUT1(")[2].partition(".RUN)")[0]
    assert q_name.startswith("PERIODIC.SHOP.")
    _, told = await sent(browser, "/handlers", form("run", queue=q_name))
    assert "is to run now." in told
    with anyio.fail_after(10):
        await shop.ran.wait()
    _, told = await sent(browser, "/handlers", form("pause", queue=q_name))
    assert f"{q_name} is paused" in told
    _, told = await sent(browser, "/handlers", form("run", queue="NOBODY.HAS.IT"))
    assert "there is no schedule NOBODY.HAS.IT" in told


async def test_n4_1_who_may_look_and_nothing_else_pauses_nothing(
    browser: httpx.AsyncClient, shop: Shop, doorman: Doorman, connection: Connection
) -> None:
    doorman.caller.roles = ("MQWebAdminRO",)
    main = (await browser.get("/console/handlers")).text.partition("<main")[2].partition("</main>")[0]
    assert main.count("<button") == main.count("disabled>") > 0
    assert (await browser.post("/console/handlers", data=form("pause", queue="ORDERS"))).status_code == 403
    [reply] = await connection.mqsc("DISPLAY QLOCAL(ORDERS) TRIGGER")
    assert reply.attributes[0]["TRIGGER"] is True


async def test_n1_1_a_message_that_was_given_up_before_anybody_looked_is_told_by_the_verdict(
    browser: httpx.AsyncClient, shop: Shop, clock: VirtualClock, connection: Connection
) -> None:
    await shop.app.put("ORDERS", b"bad")
    while not (await connection.status())["handlers"][0]["dead_lettered"]:
        await anyio.lowlevel.checkpoint()
    text = words(await browser.get("/console/"))
    assert "All is well" not in text
    assert "ship, which failed in the last minutes" in text
    await clock.advance(400)
    assert "which failed in the last minutes" not in words(await browser.get("/console/"))
