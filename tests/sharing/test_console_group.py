"""The console at a member of a group (N3.8), and while the group's database is away (N4.4)."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import httpx
from starlette.applications import Starlette
from starlette.routing import Mount

from broker.http.console.console import Console
from broker.http.served_manager import ManagerInProcess
from broker.mqi import MQPMO, MQRC
from tests.conformance.expect import fails
from tests.http.console.conftest import Doorman, words
from tests.http.console.forms import form, sent
from tests.sharing.test_membership import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import QueueManager
    from tests.sharing.members import Members

DEFINITIONS = """
DEFINE CFSTRUCT(APP1) CFLEVEL(4)
DEFINE QLOCAL(Q) QSGDISP(SHARED) CFSTRUCT(APP1)
DEFINE QLOCAL(Q.DEAD) QSGDISP(SHARED) CFSTRUCT(APP1)
DEFINE QLOCAL(OWN)
"""


SHARED: Final = (
    "/", "/queues", "/queues/Q", "/queues/Q/messages", "/queues/Q.DEAD/messages", "/dead-letters", "/handlers",
    "/units", "/group", "/objects?kind=QLOCAL", "/objects?kind=CFSTRUCT", "/objects/QUEUE/Q", "/commands", "/log",
)  # fmt: skip
"""The pages that show something of what is shared, and those that do not need it."""


@asynccontextmanager
async def browsing(manager: QueueManager) -> AsyncIterator[httpx.AsyncClient]:
    """A browser at the console of a member."""
    console = Console(ManagerInProcess(manager), Doorman(manager), manager.clock, manager.start_soon)
    app = Starlette(routes=[Mount("/console", console)])
    try:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as browser:
            yield browser
    finally:
        console.end()


async def test_n4_4_while_the_database_is_away_each_page_says_so_and_goes_on_when_it_is_back(members: Members) -> None:
    manager = members["QM1"]
    await members.mqsc("ALTER QMGR CFCONLOS(TOLERATE)")
    connection = await members.connect("QM1")
    await connection.put1("Q", b"x")
    held = await connection.put1("Q", b"held", options=MQPMO.SYNCPOINT)
    await connection.put1("OWN", b"private")
    async with browsing(manager) as browser:
        for path in SHARED:
            assert ((await browser.get(f"/console{path}")).status_code, path) == (200, path)
        assert f"…{held.msg_id.hex()[-12:]} uncommitted put" in words(await browser.get("/console/queues/Q/messages"))
        await members.lapse("QM1")
        await members.clock.advance(5)  # so that the console looks
        with anyio.fail_after(60):
            for path in SHARED:
                page = await browser.get(f"/console{path}")
                assert ("queue-sharing group" in page.text, path) == (True, path)
                assert (page.status_code in (200, 400, 503), path) == (True, path)
            assert "1 to 1" in words(await browser.get("/console/queues/OWN/messages"))  # what is private goes on
            for path, action, fields in (
                ("/group", "backup", {"name": "APP1"}), ("/queues/Q", "put", {"value": "DISABLED"}),
                ("/handlers", "pause", {"queue": "Q"}),
                ("/commands", "run", {"script": "DEFINE QLOCAL(NEW) QSGDISP(SHARED)"}),
            ):  # fmt: skip
                _, told = await sent(browser, path, form(action, **fields))
                assert (path, "the queue manager has lost its queue-sharing group" in told) == (path, True)
        await members.lines["QM1"].mend()
        await until(partial(joined, manager))
        await members.clock.advance(5)
        for path in SHARED:
            page = await browser.get(f"/console{path}")
            assert ((page.status_code, "Not ready, group" in page.text), path) == ((200, False), path)
        with fails(MQRC.BACKED_OUT):
            await connection.commit()


async def joined(manager: QueueManager) -> bool:
    """True if nothing of a member is not ready."""
    return not manager.failing_checks(ready=True)


async def test_n3_8_members_structures_and_shared_queues_are_shown_and_a_structure_is_backed_up(
    members: Members,
) -> None:
    manager = members["QM1"]
    connection = await members.connect("QM2")
    await connection.put1("Q", b"x")
    async with browsing(manager) as browser:
        page = await browser.get("/console/group")
        text = words(page)
        assert page.status_code == 200
        assert "joined" in text
        assert re.search(r"QM1 active .*QM2 active", text)
        assert "APP1 active 2 1" in text
        assert "Q 1 APP1" in text
        assert "BACKUP CFSTRUCT('APP1')" in text.replace("&#39;", "'")
        form = {"form_token": "the word", "action": "backup", "name": "APP1"}
        done = await browser.post("/console/group", data=form)
        told = await browser.get(done.headers["location"])
        assert "notice" in told.text
        shared = await browser.get("/console/objects/QUEUE/Q?set-MAXDEPTH=7")
        assert "QSGDISP(SHARED) MAXDEPTH(7)" in shared.text
