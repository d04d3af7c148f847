"""The console of a queue manager in memory, asked without a socket; and a doorman who lets everybody in."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from broker.http.console.console import Console
from broker.http.entrance import NotAdmittedError
from broker.http.served_manager import ManagerInProcess
from tests.server.conftest import clock, manager

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from broker import Connection, QueueManager

__all__ = ["clock", "manager"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class KnownCaller:
    """One who was let in: an administrator, or somebody of less."""

    def __init__(self, manager: QueueManager, roles: tuple[str, ...], *, administrator: bool) -> None:
        self.user = "alice"
        self.roles = roles
        self.form_token = "the word"
        self.administrator = administrator
        self.admitted = True
        self._manager = manager

    async def still_admitted(self) -> bool:
        return self.admitted

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        async with self._manager.connect("evermq http") as connection:
            yield connection


class Doorman:
    """Lets everybody in, as one caller, while the door is open."""

    def __init__(self, manager: QueueManager) -> None:
        self.open = True
        self.users = True
        self.caller = KnownCaller(manager, ("MQWebAdmin", "MQWebUser"), administrator=True)

    async def admit(self, request: Request) -> KnownCaller:
        if not self.open:
            raise NotAdmittedError
        return self.caller

    async def log_in(self, request: Request, user: str, password: str) -> tuple[KnownCaller, str]:
        if password != "right":
            raise NotAdmittedError
        self.open = True
        return self.caller, "session=1; Path=/"

    def log_out(self, request: Request) -> str:
        self.open = False
        return "session=; Max-Age=0"

    async def has_users(self) -> bool:
        return self.users


@pytest.fixture
def doorman(manager: QueueManager) -> Doorman:
    return Doorman(manager)


@pytest.fixture
async def console(manager: QueueManager, doorman: Doorman) -> AsyncIterator[Console]:
    console = Console(ManagerInProcess(manager), doorman, manager.clock, manager.start_soon)
    yield console
    console.end()


@pytest.fixture
async def browser(console: Console) -> AsyncIterator[httpx.AsyncClient]:
    """A client that follows nothing, and has no script."""
    app = Starlette(routes=[Mount("/console", console)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        yield client


@pytest.fixture
async def connection(manager: QueueManager) -> AsyncIterator[Connection]:
    async with manager.connect("orders") as connection:
        yield connection


def words(page: httpx.Response) -> str:
    """The text of a page, without its elements."""
    main = page.text.partition("<main")[2].partition("</main>")[0]
    return " ".join(re.sub(r"<[^>]*>", " ", main).split())
