"""Messaging by REST, served in the process of the queue manager, and at a URL of it; each on its event loop."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from broker import QueueManager
from broker.config import LimitsConfig, ListenerConfig
from broker.core.security import password_hash
from broker.engine.security import passwords
from broker.http.served_manager import ManagerAtUrl
from broker.server import Server
from broker.testing import VirtualClock
from tests.http.client import answer_of, dial
from tests.http.conftest import port_of, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection
    from broker.server.http_server import HttpServer
    from tests.http.client import Answer, Dialled

CSRF = "ibm-mq-rest-csrf-token: blank"
TEXT = "Content-Type: text/plain;charset=utf-8"
LN = 9

OBJECTS = """
DEFINE QLOCAL(Q)
DEFINE QLOCAL('DEV/Q1')
DEFINE QMODEL(M)
DEFINE QALIAS(A) TARGET(Q)
DEFINE QLOCAL(X) USAGE(XMITQ)
DEFINE QREMOTE(R) RNAME(RQ) RQMNAME(QM2) XMITQ(X)
DEFINE USER('root') GROUPS('mqm') PASSWORD('{0}')
DEFINE USER('app') PASSWORD('{0}')
DEFINE USER('other') PASSWORD('{0}')
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(CONNECT,INQ)
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('other') AUTHADD(CONNECT,INQ)
SET AUTHREC PROFILE('**') OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(PUT,GET,BROWSE,INQ)
ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) AUTHTYPE(IDPWOS) FAILDLAY(0)
"""


def basic(user: str = "app", password: str = "secret") -> str:
    return f"Authorization: Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


@dataclass
class Rest:
    """A client of REST, and the queue manager behind it."""

    manager: QueueManager
    clock: VirtualClock
    port: int
    owner: Connection
    server: HttpServer
    serving: AsyncExitStack
    user: str = "app"
    lines: list[Dialled] = field(default_factory=list)

    def url(self, q_name: str, resource: str, version: int = 2, q_mgr_name: str = "QM1") -> str:
        name = quote(q_name, safe="")
        return f"/ibmmq/rest/v{version}/messaging/qmgr/{q_mgr_name}/queue/{name}/{resource}"

    def request(self, method: str, path: str, *headers: str, body: bytes = b"", chunks: bool = False) -> bytes:
        """A request, behind which the line ends."""
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", basic(self.user), *headers]
        if method != "GET":
            lines.append(CSRF)
        if chunks:
            body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:3], body[3:])) + b"0\r\n\r\n"
            lines.append("Transfer-Encoding: chunked")
        elif method == "POST":
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode() + body

    async def said(self, data: bytes) -> Answer:
        line = await dial(self.port)
        try:
            await line.say(data)
            return answer_of(await line.rest())
        finally:
            line.close()

    async def ask(self, method: str, path: str, *headers: str, body: bytes = b"", chunks: bool = False) -> Answer:
        return await self.said(self.request(method, path, *headers, body=body, chunks=chunks))

    async def put(self, q_name: str, body: bytes = b"Hello", *headers: str, version: int = 2) -> Answer:
        return await self.ask("POST", self.url(q_name, "message", version), TEXT, *headers, body=body)

    async def get(self, q_name: str, query: str = "", version: int = 2) -> Answer:
        return await self.ask("GET", self.url(q_name, f"message{query}", version))

    async def delete(self, q_name: str, query: str = "", version: int = 2) -> Answer:
        return await self.ask("DELETE", self.url(q_name, f"message{query}", version))

    async def listed(self, q_name: str, query: str = "", version: int = 2) -> list[dict[str, str]]:
        answer = await self.ask("GET", self.url(q_name, f"messagelist{query}", version))
        assert answer.status == 200
        found: dict[str, list[dict[str, str]]] = json.loads(answer.text)
        assert list(found) == ["messages"]
        return found["messages"]

    async def depth(self, q_name: str) -> int:
        (reply,) = await self.owner.mqsc(f"DISPLAY QLOCAL('{q_name}') CURDEPTH")
        return int(reply.attributes[0]["CURDEPTH"])

    async def stop(self) -> None:
        """End the HTTP server."""
        await self.serving.aclose()

    async def run(self, commands: str) -> None:
        for reply in await self.owner.mqsc(commands):
            assert reply.ok, reply.text

    async def dialled(self, data: bytes) -> Dialled:
        """A line on which something was said; it is closed at the end of the test."""
        line = await dial(self.port)
        self.lines.append(line)
        await line.say(data)
        return line

    async def waiting(self, count: int, q_name: str = "Q") -> None:
        """Return when so many gets wait on a queue."""
        while True:
            found = {each.code: each.figures for each in (await self.owner.explain(q_name)).findings}
            if found.get("GETTERS_WAITING", {}).get("getters", 0) == count:
                return
            await asyncio.sleep(0)


def error_of(answer: Answer) -> dict[str, Any]:
    """The error in an answer, whole (rest 6)."""
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    found = json.loads(answer.text)
    assert list(found) == ["error"]
    (error,) = found["error"]
    assert sorted(error) == sorted(
        ("action", "completionCode", "explanation", "message", "msgId", "reasonCode", "type")
    )
    assert error["message"].startswith(f"{error['msgId']}:")
    return dict(error)


def refusal(answer: Answer) -> tuple[int, int]:
    """The status and the reason of an answer that is an error."""
    return answer.status, error_of(answer)["reasonCode"]


@pytest.fixture(params=["embedded", "url"])
def way(request: pytest.FixtureRequest) -> str:
    way: str = request.param
    return way


@pytest.fixture
def anyio_backend(way: str) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": way == "url"}


@pytest.fixture
async def rest(way: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rest]:
    monkeypatch.setattr(passwords, "LN", LN)  # or each test takes a tenth of a second for passwords
    monkeypatch.setattr(password_hash, "LN_MIN", LN)
    clock = VirtualClock()
    async with AsyncExitStack() as stack:
        manager = await stack.enter_async_context(QueueManager.open(name="QM1", defaults="mq", clock=clock))
        owner = await stack.enter_async_context(manager.connect())
        served = None
        if way == "url":
            listening = Server(manager, ListenerConfig(port=0), LimitsConfig())
            url = f"mq://{(await stack.enter_async_context(listening)).addresses[0]}/QM1"
            served = ManagerAtUrl(url, url, clock)
        http = await stack.enter_async_context(AsyncExitStack())
        server = await http.enter_async_context(serving(manager, served))
        found = Rest(manager, clock, port_of(server), owner, server, http)
        await found.run(OBJECTS.format(passwords.hash_of("secret")))
        yield found
        for line in found.lines:
            line.close()
