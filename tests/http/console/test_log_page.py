"""The page of the log."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest

from broker.cli.terminal.logs import JsonLines, TextLines
from broker.cli.terminal.recent_log import RecentLog
from broker.http.console.pages.log import fields_of
from broker.mqi import MQRC, MQError
from tests.http.console.conftest import words
from tests.http.console.hostile import HOSTILE

if TYPE_CHECKING:
    import httpx

    from broker import Connection, QueueManager


def recorded(formatter: logging.Formatter, level: int, text: str, *values: object) -> str:
    return formatter.format(
        logging.makeLogRecord(
            {
                "name": "broker.x",
                "levelno": level,
                "levelname": logging.getLevelName(level),
                "msg": text,
                "args": values,
            }
        )
    )


@pytest.fixture(params=[TextLines(), JsonLines()], ids=["text", "json"])
async def recent(request: pytest.FixtureRequest, manager: QueueManager) -> RecentLog:
    """The log that the daemon keeps, in either form."""
    kept = RecentLog(10_000)
    kept.setFormatter(request.param)
    manager.recent_log = kept.after
    return kept


def log(recent: RecentLog, level: int, text: str, *values: object) -> None:
    name = logging.getLevelName(level)
    recent.handle(
        logging.makeLogRecord({"name": "broker.x", "levelno": level, "levelname": name, "msg": text, "args": values})
    )


async def test_n3_11_with_nothing_the_page_says_so(browser: httpx.AsyncClient) -> None:
    assert "No lines are kept" in words(await browser.get("/console/log"))


async def test_n3_11_lines_are_shown_the_newest_first_and_filtered(
    browser: httpx.AsyncClient, recent: RecentLog
) -> None:
    log(recent, logging.INFO, "line dropped peer=%s: %s", "10.0.0.1", "too slow")
    log(recent, logging.WARNING, "store full queue=%s", "ORDERS")
    log(recent, logging.ERROR, "store failed queue=%s: %s", "ORDERS.NEW", 'x = "y"')
    page = words(await browser.get("/console/log"))
    assert page.index("store_failed") < page.index("store_full") < page.index("line_dropped")
    worse = words(await browser.get("/console/log?level=WARNING"))
    assert "store_full" in worse
    assert "line_dropped" not in worse
    event = words(await browser.get("/console/log?event=line_dropped"))
    assert "too slow" in event
    assert "store_full" not in event
    queue = words(await browser.get("/console/log?queue=ORDERS"))
    assert "store_full" in queue
    assert "store_failed" not in queue
    assert "No line is like this." in words(await browser.get("/console/log?q=nothing+like+it"))


async def test_n3_11_ten_thousand_lines_are_shown_by_the_hundred(browser: httpx.AsyncClient, recent: RecentLog) -> None:
    for number in range(10_050):
        log(recent, logging.INFO, "line dropped peer=%s: %s", f"p{number}", "x")
    page = await browser.get("/console/log")
    assert "10,000 lines are kept" in words(page)
    assert page.text.count("<tr") == 101
    assert "p10049" in page.text
    older = page.text.partition('<nav class="pager"')[2].partition('href="')[2].partition('"')[0]
    second = await browser.get(older.replace("&amp;", "&"))
    assert "p9949" in second.text
    assert "p9950" not in second.text


@pytest.mark.parametrize("name", HOSTILE)
async def test_n2_3_hostile_lines_are_text(browser: httpx.AsyncClient, recent: RecentLog, name: str) -> None:
    log(recent, logging.WARNING, "line dropped peer=%s: %s", HOSTILE[name][:5000], HOSTILE[name][:5000])
    page = await browser.get("/console/log")
    main = page.text.partition("<main")[2]
    assert "line_dropped" in main
    for harm in ("<script", "<img src=x", "<svg onload", "<iframe", "<b>x</b>", "<style", "<base", "<meta"):
        assert harm not in main


async def test_it_is_for_administrators_alone(
    browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, connection: Connection
) -> None:
    async def refused(self: Connection) -> list[str]:
        raise MQError(MQRC.NOT_AUTHORIZED, "the log is for administrators")

    monkeypatch.setattr(type(connection), "recent_log", refused)
    page = await browser.get("/console/log")
    assert page.status_code == 403
    assert "MQRC_NOT_AUTHORIZED" in words(page)


@pytest.mark.parametrize("line", ["{", "no fields at all", 'a="b', "", "[1]", '{"a": 1}'])
def test_a_line_that_is_none_is_no_error(line: str) -> None:
    assert isinstance(fields_of(line), dict)
    assert fields_of(json.dumps({"level": "INFO"})) == {"level": "INFO"}
