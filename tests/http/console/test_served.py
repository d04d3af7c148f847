"""The console on a socket, with the users of a queue manager: sessions, rights, streams, the end of the server."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from broker import QueueManager
from broker.engine.security import passwords
from broker.mqi import MQOO
from broker.testing import VirtualClock, settle
from tests.http.client import Answer, answer_of, dial, said
from tests.http.conftest import anyio_backend, port_of
from tests.http.door import doors
from tests.security.lines import PASSWORD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection
    from broker.server.http_server import HttpServer

__all__ = ["anyio_backend"]

USERS = """
DEFINE QLOCAL(Q) REPLACE
DEFINE QLOCAL(R) REPLACE
DEFINE USER('alice') GROUPS('mqm') PASSWORD('{0}')
DEFINE USER('ben') GROUPS('app') PASSWORD('{0}')
DEFINE USER('carol') GROUPS('MQWebAdminRO', 'app') PASSWORD('{0}')
SET AUTHREC OBJTYPE(QMGR) GROUP('app') AUTHADD(CONNECT, INQ, DSP)
SET AUTHREC PROFILE('Q') OBJTYPE(QUEUE) GROUP('app') AUTHADD(BROWSE, INQ, DSP, GET)
"""


class Visitor:
    """Somebody with a browser: a cookie, and the token of forms."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cookie = ""

    async def get(self, path: str) -> Answer:
        return await self._ask("GET", path, b"")

    async def post(self, path: str, origin: str = "", **fields: str) -> Answer:
        return await self._ask("POST", path, urlencode(fields).encode(), origin)

    async def log_in(self, user: str, password: str = PASSWORD) -> Answer:
        answer = await self.post("/login", user=user, password=password)
        self.cookie = answer.headers.get("set-cookie", "").partition(";")[0]
        return answer

    async def token(self, path: str = "/") -> str:
        found = re.search('name="form_token" value="([^"]+)"', (await self.get(path)).text)
        assert found is not None
        return found[1]

    async def press(self, path: str, action: str, **fields: str) -> str:
        """Press a button of a page; the notice, or the status where there is none."""
        answer = await self.post(path, form_token=await self.token(path), action=action, **fields)
        if answer.status != 303:
            return str(answer.status)
        page = await self.get(answer.headers["location"].removeprefix("/console"))
        return re.sub("<[^>]*>", "", page.text.partition('<p class="notice')[2].partition(">")[2].partition("</p>")[0])

    def head(self, method: str, path: str, body: bytes, origin: str = "") -> bytes:
        lines = [f"{method} /console{path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}",
                 "Content-Type: application/x-www-form-urlencoded"]  # fmt: skip
        lines += [f"Cookie: {self.cookie}"] if self.cookie else []
        lines += [f"Origin: {origin}"] if origin else []
        return "\r\n".join([*lines, "", ""]).encode() + body

    async def _ask(self, method: str, path: str, body: bytes, origin: str = "") -> Answer:
        request = self.head(method, path, body, origin).replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        return answer_of(await said(self.port, request))


@pytest.fixture
async def manager() -> AsyncIterator[QueueManager]:
    async with QueueManager.open(name="QM1", defaults="mq", clock=VirtualClock()) as manager:
        yield manager


@pytest.fixture(params=[False, True], ids=["in the process", "by a URL"])
async def server(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[HttpServer]:
    async with doors(manager, monkeypatch, by_url=request.param) as door:
        await door.command(USERS.format(passwords.hash_of(PASSWORD)))
        yield door.server


@pytest.fixture
async def owner(manager: QueueManager, server: HttpServer) -> AsyncIterator[Connection]:
    async with manager.connect("orders") as connection:
        yield connection


@pytest.fixture
def visitor(server: HttpServer) -> Visitor:
    return Visitor(port_of(server))


async def test_a_session_is_begun_by_the_login_page_and_ended_by_the_button(visitor: Visitor) -> None:
    assert (await visitor.get("/")).headers["location"] == "/console/login"
    assert (await visitor.log_in("alice", "wrong")).status == 401
    answer = await visitor.log_in("alice")
    assert (answer.status, answer.headers["location"]) == (303, "/console/")
    assert "httponly" in answer.headers["set-cookie"].lower()
    assert "samesite=strict" in answer.headers["set-cookie"].lower()
    page = await visitor.get("/")
    assert (page.status, "alice" in page.text) == (200, True)
    assert (await visitor.post("/logout", form_token=await visitor.token())).status == 303
    assert (await visitor.get("/")).status == 303


async def test_a_form_of_elsewhere_does_nothing(visitor: Visitor, owner: Connection) -> None:
    await visitor.log_in("alice")
    token = await visitor.token()
    form = {"action": "get", "value": "DISABLED"}
    assert (await visitor.post("/queues/Q", form_token="", **form)).status == 403
    assert (await visitor.post("/queues/Q", "http://evil.example", form_token=token, **form)).status == 403
    other = Visitor(visitor.port)
    await other.log_in("ben")
    assert (await visitor.post("/queues/Q", form_token=await other.token(), **form)).status == 403
    [reply] = await owner.mqsc("DISPLAY QLOCAL(Q) GET")
    assert reply.attributes[0]["GET"] == "ENABLED"


async def test_n4_1_each_action_is_judged_as_its_user(visitor: Visitor, owner: Connection) -> None:
    put = await owner.put1("Q", "x")
    path = f"/queues/Q/messages/{put.md.msg_id.hex()}"
    await visitor.log_in("carol")
    assert "needs role MQWebAdmin or MQWebUser" in re.sub("<[^>]*>", "", (await visitor.get(path)).text)
    assert await visitor.press(path, "remove") == "403"
    await visitor.log_in("ben")
    assert "needs chg on Q" in re.sub("<[^>]*>", "", (await visitor.get("/queues/Q")).text)
    assert "2035" in await visitor.press("/queues/Q", "put", value="DISABLED") or "AMQ8135E" in await visitor.press(
        "/queues/Q", "put", value="DISABLED"
    )
    assert "2035" in await visitor.press(path, "move", to="R")
    assert (await visitor.get("/queues/R")).status in (403, 404)
    assert (await visitor.get("/queues/R/messages")).status == 403
    assert ">R<" not in (await visitor.get("/queues")).text
    assert await visitor.press(path, "remove") == "Removed."


async def test_n4_5_two_who_do_the_same_one_does_it_and_the_other_is_told(visitor: Visitor, owner: Connection) -> None:
    put = await owner.put1("Q", "x")
    path = f"/queues/Q/messages/{put.md.msg_id.hex()}"
    other = Visitor(visitor.port)
    await visitor.log_in("alice")
    await other.log_in("ben")
    tokens = await visitor.token(path), await other.token(path)
    answers = await asyncio.gather(
        visitor.post(path, form_token=tokens[0], action="remove"),
        other.post(path, form_token=tokens[1], action="remove"),
    )
    said_to = [
        (await each.get(answer.headers["location"].removeprefix("/console"))).text
        for each, answer in zip((visitor, other), answers, strict=True)
    ]
    assert sorted("Removed." in each for each in said_to) == [False, True]
    assert sum("nothing was done" in each for each in said_to) == 1


@pytest.mark.parametrize(
    "command",
    ["ALTER USER('ben') STATUS(DISABLED)", "ALTER USER('ben') PASSWORD('{0}')",
     "DELETE USER('ben')", "ALTER USER('ben') GROUPS('others')"],
)  # fmt: skip
async def test_n5_1_a_session_ends_with_what_its_user_was(visitor: Visitor, owner: Connection, command: str) -> None:
    await visitor.log_in("ben")
    assert (await visitor.get("/queues/Q/messages")).status == 200
    await owner.mqsc(command.format(passwords.hash_of("another password")), check=True)
    assert (await visitor.get("/queues/Q/messages")).status == 303


async def test_n5_1_a_right_that_was_taken_away_holds_at_the_next_page(visitor: Visitor, owner: Connection) -> None:
    await visitor.log_in("ben")
    assert (await visitor.get("/queues/Q/messages")).status == 200
    await owner.mqsc("SET AUTHREC PROFILE('Q') OBJTYPE(QUEUE) GROUP('app') AUTHRMV(BROWSE)", check=True)
    assert (await visitor.get("/queues/Q/messages")).status == 403


@pytest.mark.parametrize("command", ["ALTER USER('ben') STATUS(DISABLED)", "ALTER USER('ben') GROUPS('app', 'others')"])
async def test_n5_1_a_form_of_a_session_that_has_ended_does_nothing_on_any_page(
    visitor: Visitor, owner: Connection, command: str
) -> None:
    put = await owner.put1("Q", "x")
    await visitor.log_in("ben")
    form = {"form_token": await visitor.token(), "queue": "Q", "unit": "x", "name": "x", "to": "R", "value": "DISABLED"}
    await owner.mqsc(command, check=True)
    pages = {
        f"/queues/Q/messages/{put.msg_id.hex()}": "remove", f"/dead-letters/Q/{put.msg_id.hex()}": "remove",
        "/dead-letters/letters": "remove-all", "/queues/Q": "get", "/handlers": "pause", "/units": "backout",
        "/group": "backup", "/objects/QLOCAL/Q": "alter", "/commands": "run",
    }  # fmt: skip
    for path, action in pages.items():
        assert ((await visitor.post(path, action=action, **form)).status, path) == (401, path)
    async with owner.open("Q", MQOO.INPUT_SHARED) as queue:
        assert (await queue.get()).data == b"x"


async def test_n5_1_a_right_that_was_taken_away_holds_at_the_next_page_whichever_it_is(
    visitor: Visitor, manager: QueueManager, owner: Connection
) -> None:
    await owner.mqsc("DEFINE QLOCAL(Q.DEAD)\nALTER QLOCAL(Q) BOQNAME(Q.DEAD)")
    await owner.mqsc("SET AUTHREC PROFILE('Q.DEAD') OBJTYPE(QUEUE) GROUP('app') AUTHADD(BROWSE, INQ, DSP)", check=True)
    await owner.put1("Q.DEAD", "a letter")
    await visitor.log_in("ben")
    assert "Not shown: Q.DEAD" not in words((await visitor.get("/dead-letters")).text)
    for path in ("/objects?kind=QLOCAL", "/queues", "/dead-letters"):
        assert "Q.DEAD" in (await visitor.get(path)).text, path
    for path in ("/objects/QLOCAL/Q.DEAD", "/queues/Q.DEAD", "/queues/Q.DEAD/messages"):
        assert (await visitor.get(path)).status == 200, path
    command = "SET AUTHREC PROFILE('Q.DEAD') OBJTYPE(QUEUE) GROUP('app') AUTHRMV(BROWSE, INQ, DSP)"
    await owner.mqsc(command, check=True)
    clock = manager.clock
    assert isinstance(clock, VirtualClock)
    await clock.advance(11)  # so long it is remembered of which queues a user is told figures
    for path in ("/objects?kind=QLOCAL", "/queues", "/dead-letters"):
        assert "Q.DEAD" not in words((await visitor.get(path)).text), path
    for path in ("/objects/QLOCAL/Q.DEAD", "/queues/Q.DEAD", "/queues/Q.DEAD/messages"):
        assert (await visitor.get(path)).status in (403, 404), path


async def test_n5_1_what_a_session_has_kept_ends_with_it(visitor: Visitor, owner: Connection) -> None:
    async with owner.open("Q", MQOO.OUTPUT) as queue:
        await queue.put_many(["x"] * 150)
    await visitor.log_in("alice")
    await visitor.press("/commands", "run", script="DISPLAY QLOCAL(Q) DESCR")
    assert "DISPLAY QLOCAL(Q) DESCR" in (await visitor.get("/commands")).text
    [behind] = re.findall(r'href="/console([^"]*page=2)"', (await visitor.get("/queues/Q/messages")).text)
    behind = behind.replace("&amp;", "&")
    assert "this is the beginning" not in (await visitor.get(behind)).text
    await owner.mqsc(f"ALTER USER('alice') PASSWORD('{passwords.hash_of(PASSWORD)}')", check=True)
    assert (await visitor.get("/commands")).status == 303
    await visitor.log_in("alice")
    assert "DISPLAY QLOCAL(Q) DESCR" not in (await visitor.get("/commands")).text
    assert "this is the beginning" in (await visitor.get(behind)).text


async def test_n4_2_while_the_queue_manager_quiesces_the_page_says_so(
    visitor: Visitor, manager: QueueManager, owner: Connection
) -> None:
    await visitor.log_in("alice")
    await visitor.get("/")
    clock = manager.clock
    assert isinstance(clock, VirtualClock)
    quiescing = asyncio.create_task(manager.quiesce(5))
    await settle()
    await clock.advance(1)
    for path in ("/", "/queues", "/dead-letters", "/handlers", "/units", "/group", "/objects", "/commands", "/log"):
        assert "QM1 is quiescing" in (await visitor.get(path)).text, path
    newcomer = Visitor(visitor.port)
    assert "quiescing" in (await newcomer.post("/login", user="ben", password=PASSWORD)).text.lower()
    await clock.advance(10)
    await quiescing


@pytest.mark.parametrize("by_url", [False, True], ids=["in the process", "by a URL"])
async def test_a_stream_tells_what_changes_and_does_not_hold_the_end_of_the_server(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch, by_url: bool
) -> None:
    clock, now = manager.clock, asyncio.get_running_loop().time
    assert isinstance(clock, VirtualClock)
    async with doors(manager, monkeypatch, by_url=by_url) as door:
        await door.command(USERS.format(passwords.hash_of(PASSWORD)))
        visitor = Visitor(door.port)
        await visitor.log_in("alice")
        line = await dial(visitor.port)
        await line.say(visitor.head("GET", "/?live=1", b""))
        head = (await line.head()).decode()
        assert "content-type: text/event-stream" in head.lower()
        assert "event: version" in await _until(line, "event: parts")
        async with manager.connect("orders") as connection:
            await connection.put1("Q", "x")
        told = asyncio.create_task(_until(line, "data-key="))
        while not told.done():
            await clock.advance(1)
            await asyncio.sleep(0)
        began = now()
        await door.server.__aexit__(None, None, None)
        assert now() - began < 1.5  # a line that asks something is waited for 2 s
    assert (await line.rest()).endswith(b"0\r\n\r\n")
    line.close()


def words(text: str) -> str:
    return " ".join(re.sub("<[^>]*>", " ", text).split())


async def _until(line: object, word: str) -> str:
    """Read a line up to the chunk that has a word in it."""
    from tests.http.client import Dialled

    assert isinstance(line, Dialled)
    text = ""
    while word not in text:
        size = int((await line.line()).strip(), 16)
        text += (await line.exactly(size)).decode()
        await line.exactly(2)
    return text
