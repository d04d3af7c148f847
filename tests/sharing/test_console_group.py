"""The console's page of the group, at a member of it (N3.8)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx
from starlette.applications import Starlette
from starlette.routing import Mount

from broker.http.console.console import Console
from broker.http.served_manager import ManagerInProcess
from tests.http.console.conftest import Doorman

if TYPE_CHECKING:
    from tests.sharing.members import Members

DEFINITIONS = "DEFINE CFSTRUCT(APP1) CFLEVEL(4)\nDEFINE QLOCAL(Q) QSGDISP(SHARED) CFSTRUCT(APP1)"


async def test_n3_8_members_structures_and_shared_queues_are_shown_and_a_structure_is_backed_up(
    members: Members,
) -> None:
    manager = members["QM1"]
    connection = await members.connect("QM2")
    await connection.put1("Q", b"x")
    console = Console(ManagerInProcess(manager), Doorman(manager), manager.clock, manager.start_soon)
    app = Starlette(routes=[Mount("/console", console)])
    try:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as browser:
            page = await browser.get("/console/group")
            main = page.text.partition("<main")[2].partition("</main>")[0]
            words = " ".join(re.sub(r"<[^>]*>", " ", main).split())
            assert page.status_code == 200
            assert "joined" in words
            assert re.search(r"QM1 active .*QM2 active", words)
            assert "APP1 active 1 1" in words
            assert "Q 1 APP1" in words
            assert "BACKUP CFSTRUCT('APP1')" in words.replace("&#39;", "'")
            form = {"form_token": "the word", "action": "backup", "name": "APP1"}
            done = await browser.post("/console/group", data=form)
            told = await browser.get(done.headers["location"])
            assert "notice" in told.text
            shared = await browser.get("/console/objects/QUEUE/Q?set-MAXDEPTH=7")
            assert "QSGDISP(SHARED) MAXDEPTH(7)" in shared.text
    finally:
        console.end()
