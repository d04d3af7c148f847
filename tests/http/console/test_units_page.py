"""The pages of units of work and of the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.interface.claims.claims import UnitName
from broker.interface.claims.staging import Row, frames
from broker.mqi import MQPMO, MessageDescriptor
from tests.http.console.conftest import words
from tests.http.console.forms import form, sent

if TYPE_CHECKING:
    import httpx

    from broker import Connection
    from tests.http.console.conftest import Doorman


async def test_n3_7_with_nothing_the_page_says_so(browser: httpx.AsyncClient) -> None:
    page = words(await browser.get("/console/units"))
    assert "No unit of work is open." in page
    assert "No unit waits for a decision." in page
    assert "No consumer claims messages." in page


async def test_n3_7_an_open_unit_is_shown_with_who_has_it(browser: httpx.AsyncClient, connection: Connection) -> None:
    await connection.put1("Q", b"x", options=MQPMO.SYNCPOINT)
    page = words(await browser.get("/console/units"))
    assert "orders root 0 s 1 active" in page.lower() or "orders" in page
    await connection.backout()


async def test_n3_7_a_prepared_unit_is_shown_and_discarded(browser: httpx.AsyncClient, connection: Connection) -> None:
    unit = UnitName("IMPORT", 7, 0, bytes(16))
    [frame] = frames([Row("Q", b"x", MessageDescriptor())])
    await connection.sinks.stage(unit, frame)
    page = await browser.get("/console/units")
    name = page.text.partition("RESOLVE INDOUBT(&#39;")[2].partition("&#39;")[0]
    assert name.startswith("IMPORT/7/0/")
    assert "its puts are gone for good" in words(page).lower()
    assert "ACTION(COMMIT)" not in page.text  # its sink publishes it
    _, told = await sent(browser, "/units", form("backout", unit=name))
    assert "No unit waits for a decision." in told
    _, told = await sent(browser, "/units", form("backout", unit=name))
    assert "AMQ8147E" in told  # somebody was faster


async def test_n3_7_claims_of_a_consumer_are_shown_and_given_back(
    browser: httpx.AsyncClient, connection: Connection
) -> None:
    await connection.put1("Q", b"x")
    async with connection.consumer("ARCHIVE", "Q") as consumer:
        assert len(await consumer.claim(10)) == 1
        page = words(await browser.get("/console/units"))
        assert "ARCHIVE Q 1" in page
        assert "RESOLVE CONSUMER('ARCHIVE') ACTION(BACKOUT)" in page.replace("&#39;", "'")
        _, told = await sent(browser, "/units", form("consumer-backout", consumer="ARCHIVE"))
        assert "Is its program dead" not in told
    assert (await connection.status())["queues"][-1]["claimed"] == 0


async def test_n4_1_who_may_look_and_nothing_else_decides_nothing(browser: httpx.AsyncClient, doorman: Doorman) -> None:
    doorman.caller.roles = ("MQWebAdminRO",)
    for path, action in (("/units", "commit"), ("/group", "recover")):
        assert (await browser.post(f"/console{path}", data=form(action, unit="x", name="x"))).status_code == 403


async def test_n3_8_without_a_group_the_page_says_how_to_have_one(browser: httpx.AsyncClient) -> None:
    page = words(await browser.get("/console/group"))
    assert "This queue manager shares no queues." in page
