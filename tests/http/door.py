"""A queue manager with users behind an HTTP server, in its process or in one of its own."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
import pytest

from broker.config import LimitsConfig, ListenerConfig
from broker.engine.security import passwords
from broker.http.served_manager import ManagerAtUrl
from broker.server import Server
from tests.http.client import ask
from tests.http.conftest import FREE, port_of, serving
from tests.security.lines import PASSWORD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import QueueManager
    from broker.core.security.password_hash import PasswordHash
    from broker.http.entrance import Entrance
    from broker.server.http_server import HttpServer
    from tests.http.client import Answer

CSRF: Final = "ibm-mq-rest-csrf-token: any"

USERS: Final = """
DEFINE USER('root') GROUPS('mqm') PASSWORD('{password}')
DEFINE USER('bob') PASSWORD('{password}')
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT)
SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(GET,PUT,BROWSE,INQ)
ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) AUTHTYPE(IDPWOS) FAILDLAY(0)
DEFINE USER('admin') GROUPS('MQWebAdmin') PASSWORD('{password}')
DEFINE USER('reader') GROUPS('MQWebAdminRO') PASSWORD('{password}')
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('admin','reader') AUTHADD(CONNECT,DSP,INQ)
SET AUTHREC PROFILE('**') OBJTYPE(QUEUE) PRINCIPAL('admin') AUTHADD(DSP,CRT,CHG,DLT,CLR,PUT,GET,BROWSE,INQ)
SET AUTHREC PROFILE('**') OBJTYPE(QUEUE) PRINCIPAL('reader') AUTHADD(DSP,CRT,CHG,DLT,CLR,PUT,GET,BROWSE,INQ)
"""


def basic(user: str, password: str = PASSWORD) -> str:
    """The header of a user with a password."""
    return f"Authorization: Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


class Door:
    """The server, and who asks there."""

    def __init__(self, manager: QueueManager, server: HttpServer) -> None:
        self.manager = manager
        self.server = server
        self.port = port_of(server)

    @property
    def entrance(self) -> Entrance:
        return self.server.entrance

    async def ask(self, path: str, *headers: str, method: str = "GET", body: object = None, **given: Any) -> Answer:
        """Return the answer to a request; a body that is no bytes is sent as JSON."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers = ("Content-Type: application/json;charset=utf-8", *headers)
        return await ask(self.port, path, *headers, method=method, body=body, **given)

    async def log_in(self, user: str, password: str = PASSWORD, *headers: str) -> str:
        """Log in by REST; the Cookie header to send."""
        body = {"username": user, "password": password}
        answer = await self.ask("/ibmmq/rest/v3/login", *headers, method="POST", body=body)
        assert (answer.status, answer.text) == (204, "")
        return f"Cookie: {answer.headers['set-cookie'].partition(';')[0]}"

    async def command(self, text: str) -> None:
        """Run commands as the owner."""
        async with self.manager.connect() as owner:
            for reply in await owner.mqsc(text):
                assert reply.ok, reply.text


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=[False, True], ids=["in the process", "by a URL"])
async def door(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[Door]:
    async with doors(manager, monkeypatch, by_url=request.param) as door:
        yield door


@asynccontextmanager
async def doors(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch, *, by_url: bool, **settings: Any
) -> AsyncIterator[Door]:
    """Serve a queue manager, to which its users are defined."""
    async with AsyncExitStack() as stack:
        served = None
        monkeypatch.setattr(passwords, "_digest", _digest)  # scrypt has tests of its own, and takes long
        async with manager.connect() as owner:
            await owner.mqsc(USERS.format(password=passwords.hash_of(PASSWORD)))
        if by_url:
            listener = await stack.enter_async_context(Server(manager, ListenerConfig(port=0), LimitsConfig()))
            place = listener.addresses[0]
            monkeypatch.setenv("EVERMQ_PASSWORD", PASSWORD)
            served = ManagerAtUrl(f"mq://root@{place}", f"mq://{place}", manager.clock)
            tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(tasks.cancel_scope.cancel)
            tasks.start_soon(served.run)
            while not served.q_mgr_name:  # it is connecting
                await anyio.lowlevel.checkpoint()
        server = await stack.enter_async_context(serving(manager, served, **{"listen": FREE, **settings}))
        yield Door(manager, server)


def _digest(password: bytes, like: PasswordHash) -> bytes:
    return sha256(like.salt + password).digest()
