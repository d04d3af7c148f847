"""Ten thousand of a thing: each page is bounded, leads to the others by place, and holds nobody up."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from time import thread_time
from typing import TYPE_CHECKING

import pytest

from broker.interface.claims.claims import UnitName
from broker.interface.claims.staging import Row, frames
from broker.mqi import MQPMO, MessageDescriptor
from broker.mqi.layouts.layouts import MQDLH
from tests.http.console.conftest import words

if TYPE_CHECKING:
    import httpx

    from broker import Connection, QueueManager
    from broker.testing import VirtualClock

MANY = 10_000
ROWS = 100
STEP_SECONDS = 0.005
"""Of the processor, at most, in one turn of the event loop: what else the machine does is left out."""


class LoopSteps:
    """The processor time of each step of the event loop, while it is entered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.longest = 0.0
        run = asyncio.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            began = thread_time()
            run(handle)
            self.longest = max(self.longest, thread_time() - began)

        monkeypatch.setattr(asyncio.Handle, "_run", timed)


async def walked(browser: httpx.AsyncClient, path: str, part: str, pages: int = 3) -> list[str]:
    """The keys of the rows of a table on some pages, each found by the way to the next."""
    keys: list[str] = []
    for _ in range(pages):
        page = await browser.get(path)
        assert page.status_code == 200
        found = page.text.partition(f'aria-label="{part}"')[2].partition("</table>")[0]
        rows = re.findall(r'<tr data-key="([^"]+)"', found)
        assert len(rows) == ROWS
        keys += rows
        [following] = re.findall(r'href="([^"]+)">Next', page.text)
        path = following.replace("&amp;", "&")
    return keys


async def defined(connection: Connection, number: int = MANY) -> None:
    for first in range(0, number, 500):
        lines = (f"DEFINE QLOCAL(BULK.{each:05})" for each in range(first, min(first + 500, number)))
        await connection.mqsc("\n".join(lines))


async def test_n3_9_ten_thousand_queues_are_led_to_by_place(browser: httpx.AsyncClient, connection: Connection) -> None:
    await defined(connection)
    wanted = [f"BULK.{number:05}" for number in range(3 * ROWS)]
    assert await walked(browser, "/console/queues", "Queues") == wanted
    assert await walked(browser, "/console/objects?kind=QLOCAL", "Local queues") == wanted
    await connection.mqsc("DELETE QLOCAL(BULK.00100)")  # what goes moves nothing
    assert (await walked(browser, "/console/objects?kind=QLOCAL&after=BULK.00099", "Local queues", 1))[
        0
    ] == "BULK.00101"


async def test_n3_6_ten_thousand_handlers_are_led_to_by_place_and_those_that_fail_come_first(
    browser: httpx.AsyncClient, connection: Connection, manager: QueueManager
) -> None:
    await defined(connection)
    for number in range(MANY):
        counts = manager.core.deliveries.counts_of(f"BULK.{number:05}", "shop:ship")
        counts.last_error, counts.last_error_at = "ValueError: x", 5.0 + number
    page = await browser.get("/console/handlers")
    assert f"100 of {MANY:,}, those that fail most first" in words(page)
    assert page.text.count("ValueError: x") == 20
    keys = await walked(browser, "/console/handlers?by=name", "Handlers")
    assert keys == [f"BULK.{number:05} shop:ship" for number in range(3 * ROWS)]
    assert len(re.findall("(?:Pause|Resume) BULK[^<]*</button>", page.text)) == ROWS


async def test_n3_7_very_many_units_and_consumers_are_led_to_by_place(
    browser: httpx.AsyncClient, connection: Connection, manager: QueueManager, clock: VirtualClock
) -> None:
    for number in range(1000):
        [frame] = frames([Row("Q", b"x", MessageDescriptor())])
        await connection.sinks.stage(UnitName("IMPORT", 7, number, bytes(16)), frame)
    keys = await walked(browser, "/console/units", "Prepared units and units in doubt")
    assert len(set(keys)) == 3 * ROWS
    async with AsyncExitStack() as stack:
        for number in range(250):
            other = await stack.enter_async_context(manager.connect(f"program {number}"))
            await other.put1("Q", "x", options=MQPMO.SYNCPOINT)
        await clock.advance(1)
        text = (await browser.get("/console/units")).text
        found = text.partition('aria-label="Open units of work"')[2].partition("</table>")[0]
        assert found.count("<tr data-key") == ROWS


@pytest.mark.parametrize("path", ["/queues", "/", "/handlers", "/units", "/queues/BULK.00000", "/objects?kind=QLOCAL"])
async def test_n2_2_no_step_is_long_with_very_many_of_each(
    browser: httpx.AsyncClient,
    connection: Connection,
    manager: QueueManager,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
) -> None:
    """With slices that end by the time of the processor, as those of a queue manager do by its clock."""
    await defined(connection, 2_000)
    for number in range(2_000):
        manager.core.deliveries.counts_of(f"BULK.{number:05}", "shop:ship").failed = 1
    monkeypatch.setattr("broker.engine.jobs.slices.SLICE_STEPS", 20)
    await browser.get(f"/console{path}")
    longest = []
    for _ in range(5):
        with monkeypatch.context() as patched:
            steps = LoopSteps(patched)
            await browser.get(f"/console{path}")
        longest.append(steps.longest)
    assert min(longest) < STEP_SECONDS


async def test_n3_5_ten_thousand_dead_letters_are_read_in_short_steps(
    browser: httpx.AsyncClient, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await connection.mqsc(f"DEFINE QLOCAL(DEAD) MAXDEPTH({2 * MANY})\nALTER QMGR DEADQ(DEAD)")
    header = MQDLH(reason=2053, dest_q_name="Q", dest_q_mgr_name="QM1", format="MQSTR", encoding=546).to_bytes()
    async with connection.open("DEAD", 16) as queue:
        for _ in range(20):
            await queue.put_many([header] * 500, MessageDescriptor(format="MQDEAD"))
    assert f"MQRC_Q_FULL – {MANY:,}" in words(await browser.get("/console/dead-letters"))
    longest = []
    for _ in range(3):
        with monkeypatch.context() as patched:
            steps = LoopSteps(patched)
            page = await browser.get("/console/dead-letters/letters?why=MQRC_Q_FULL")
        longest.append(steps.longest)
    assert min(longest) < STEP_SECONDS
    assert page.text.count('type="checkbox" name="letter"') + page.text.count('name="letter"') >= ROWS
    assert "Next 100" in page.text
