"""The figures that all pages share: one look a second, fifteen minutes of them, what has happened meanwhile."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from broker import QueueManager
from broker.http.console.console import Console
from broker.http.console.figures.lately import Lately
from broker.http.console.figures.series import BUSY_MAX, BYTES_MAX, SECONDS, SERIES_MAX, QueueSeries, SeriesByQueue
from broker.http.console.page import ConsolePage, Content, Keyed
from broker.http.console.stream import events
from broker.http.console.visit import Visit
from broker.http.served_manager import ManagerInProcess
from broker.mqi import MQMF, MQOO, MessageDescriptor
from broker.mqi.layouts.layouts import MQDLH
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore, VirtualClock, settle
from tests.http.console.conftest import Doorman, words
from tests.http.console.test_pages import ids, post

if TYPE_CHECKING:
    from broker import Connection
    from broker.http.console.page import Parts


def looks(**figures: Any) -> dict[str, Any]:
    """A status, with what a test says of its one handler and its one queue."""
    handler = {"queue": "Q", "handler": "shop:ship", "last_error_at": 0.0, "last_error": "", "dead_letters": {}}
    queue = {"name": "Q", "damaged": 0, "refused_puts": 0}
    return {
        "name": "QM1",
        "quiescing": figures.get("quiescing", False),
        "handlers": [{**handler, **{name: figures[name] for name in handler if name in figures}}],
        "queues": [{**queue, **{name: figures[name] for name in queue if name in figures}}],
    }


def told(lately: Lately) -> list[str]:
    return [f"{each.kind} {each} {each.q_name}".rstrip() for each in lately.events]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"dead_letters": {"failed": 3}}, ["bad 3 × dead letter of shop:ship: failed Q"]),
        ({"last_error_at": 5.0, "last_error": "ValueError: x\nmore"}, ["warn shop:ship failed: ValueError: x Q"]),
        ({"refused_puts": 1}, ["bad refused put Q"]),
        ({"damaged": 2}, ["bad 2 × damaged message found Q"]),
        ({"quiescing": True}, ["warn QM1 is quiescing"]),
        ({}, []),
    ],
)
def test_what_happened_is_read_off_two_looks(changed: dict[str, Any], said: list[str]) -> None:
    lately = Lately()
    list(lately.compare(10.0, looks(), looks(**changed)))
    assert told(lately) == said


def test_what_happens_again_in_a_few_minutes_is_told_once_with_its_number() -> None:
    lately, before = Lately(), looks()
    for at, number in ((10.0, 1), (20.0, 3), (400.0, 4)):
        now = looks(dead_letters={"failed": number})
        list(lately.compare(at, before, now))
        before = now
    assert told(lately) == ["bad dead letter of shop:ship: failed Q", "bad 3 × dead letter of shop:ship: failed Q"]


def test_of_the_first_look_only_the_last_errors_tell() -> None:
    lately = Lately()
    list(lately.compare(10.0, None, looks(last_error_at=5.0, last_error="x", dead_letters={"failed": 9})))
    assert told(lately) == ["warn shop:ship failed: x Q"]


def test_a_check_that_fails_is_told_once_and_again_when_it_is_well() -> None:
    lately = Lately()
    for failing in ({}, {"store_full": "no room"}, {"store_full": "no room"}, {}):
        lately.checks(1.0, failing)
    assert told(lately) == ["good store_full is well again", "bad not ready: store_full: no room"]


def test_fifteen_minutes_of_figures_are_kept() -> None:
    series = QueueSeries()
    for second in range(SECONDS + 10):
        series.add((second, 1, 2, 3))
    assert series.last("depth") == list(range(10, SECONDS + 10))
    assert series.last("in", 5) == [1] * 5
    assert len(series.line("depth")) in (59, 60)  # of 15 s each; the last that are whole


def test_n2_2_the_figures_of_very_many_queues_stay_within_their_bytes() -> None:
    kept = SeriesByQueue()
    for number in range(1000):
        series = kept.wants(f"Q{number}", flow=1.0)
        if series is not None:
            series.add((1, 1, 0, 0))
    assert len(kept) == BUSY_MAX
    for number in range(2000, 4000):
        kept.open(f"Q{number}")
    assert len(kept) <= SERIES_MAX
    assert SERIES_MAX * SECONDS * 4 * 4 <= BYTES_MAX
    assert kept.of("Q3999") is not None
    assert kept.of("Q2000") is None
    busier = kept.wants("BUSY", flow=1000.0)
    assert busier is not None
    kept.keep({"BUSY"})
    assert len(kept) == 1


async def test_n2_2_fifty_open_pages_share_a_look_and_what_is_made_of_it(
    manager: QueueManager, connection: Connection, clock: VirtualClock
) -> None:
    made = count()

    async def content(visit: Visit) -> Content:
        return Content("Counted", "")

    async def parts(visit: Visit) -> Parts:
        await anyio.lowlevel.checkpoint()
        return {"a": [Keyed("1", Markup(f"<p data-key=1>{next(made)}</p>"))]}

    page = ConsolePage(path="/counted", content=content, parts=parts)
    doorman = Doorman(manager)
    console = Console(ManagerInProcess(manager), doorman, clock, manager.start_soon, [page])
    scope = {"type": "http", "path": "/counted", "query_string": b"live=1", "headers": [], "method": "GET"}
    said: list[str] = []

    async def watch() -> None:
        visit = Visit(Request(scope), doorman.caller, console.site)
        stream = events(console.site.observatory, lambda: console.shared(page, visit), doorman.caller, "v1")
        said.extend([event async for event in stream])

    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(watch)
        await settle()
        before = (await connection.status())["connections"]
        for _ in range(3):
            await clock.advance(1)
        console.end()
    assert next(made) == 4  # looks: the first, and one for each second
    assert len([each for each in said if "event: parts" in each]) == 4 * 50
    assert before == 2  # the test's own, and that of all pages


async def test_a_console_that_nobody_looks_at_asks_for_nothing(
    browser: httpx.AsyncClient, console: Console, clock: VirtualClock, connection: Connection
) -> None:
    assert (await connection.status())["connections"] == 1
    await browser.get("/console/")
    await clock.advance(5)
    number = console.site.observatory.number
    assert number >= 5
    await clock.advance(1000)
    assert (await connection.status())["connections"] == 1  # it looks no more
    assert (await browser.get("/console/")).status_code == 200


async def test_n4_3_while_the_store_is_full_the_page_says_so_and_an_action_says_why() -> None:
    store, clock = FaultStore(MemoryStore()), VirtualClock()
    async with QueueManager.open(name="QM1", store=store, clock=clock) as manager:
        async with manager.connect("orders") as connection:
            await connection.mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES)\nDEFINE QLOCAL(R) DEFPSIST(YES)")
            await connection.put1("Q", "x")
        console = Console(ManagerInProcess(manager), Doorman(manager), manager.clock, manager.start_soon)
        app = Starlette(routes=[Mount("/console", console)])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as browser:
            [found] = await ids(browser)
            store.fill()
            assert "2192" in await post(browser, f"/queues/Q/messages/{found}", "copy", to="R")
            await clock.advance(1)
            text = words(await browser.get("/console/"))
            assert "not ready: store_full" in text
            assert await post(browser, f"/queues/Q/messages/{found}", "remove") == "Removed."  # what removes goes on
            store.make_room()
        console.end()


async def test_n1_3_a_dead_letter_is_retried_from_its_page(browser: httpx.AsyncClient, connection: Connection) -> None:
    await connection.mqsc("DEFINE QLOCAL(DEAD)\nALTER QMGR DEADQ(DEAD)\nALTER QLOCAL(Q) MAXDEPTH(0)")
    header = MQDLH(reason=2053, dest_q_name="R", dest_q_mgr_name="QM1", format="MQSTR", encoding=546)
    letter = await connection.put1("DEAD", header.to_bytes() + b"an order", MessageDescriptor(format="MQDEAD"))
    path = f"/queues/DEAD/messages/{letter.md.msg_id.hex()}"
    text = words(await browser.get(f"/console{path}"))
    assert "MQRC_Q_FULL" in text
    assert "Came from R" in text
    assert "Retry on R" in text
    assert await post(browser, path, "retry") == "Put back to R."
    assert "somebody was faster" in await post(browser, path, "retry")
    async with connection.open("SYSTEM.ADMIN.AUDIT.QUEUE", MQOO.INPUT_SHARED) as audit:
        record = json.loads((await audit.get()).data)
    assert (record["event"], record["by"], record["to"]) == ("dead-letter-retried", "alice", "R")
    [found] = await ids(browser, "R")
    assert "an order" in words(await browser.get(f"/console/queues/R/messages/{found}"))


async def test_n3_4_a_message_of_a_group_says_which_place_it_has(
    browser: httpx.AsyncClient, connection: Connection
) -> None:
    md = MessageDescriptor(group_id=b"G" * 24, msg_seq_number=7, msg_flags=MQMF.LAST_MSG_IN_GROUP)
    put = await connection.put1("Q", "x", md)
    text = words(await browser.get(f"/console/queues/Q/messages/{put.md.msg_id.hex()}"))
    assert "MsgSeqNumber 7" in text
    assert "MSG_IN_GROUP + LAST_MSG_IN_GROUP" in text
    assert "incomplete group" in text
