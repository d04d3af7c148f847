"""The HTTP server on free ports, over a queue manager in memory or over one that a test makes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from broker.config import Config, HttpConfig
from broker.http.served_manager import ManagerInProcess
from broker.server.http_server import HttpServer
from broker.server.security.entry_policy import EntryPolicy
from tests.server.conftest import anyio_backend, clock, manager

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import QueueManager
    from broker.config import TlsConfig
    from broker.http.served_manager import ServedManager

__all__ = ["anyio_backend", "clock", "manager"]

FREE = "127.0.0.1:0"


def port_of(server: HttpServer, address: int = 0) -> int:
    """The port of one of its addresses."""
    return int(server.addresses[address].rpartition(":")[2])


def serving(
    manager: QueueManager, served: ServedManager | None = None, files: TlsConfig | None = None, **settings: Any
) -> HttpServer:
    """A server with these settings of [http], to be entered; without any, on a free port of this machine."""
    config = Config(http=HttpConfig(**(settings or {"listen": FREE})))
    if files is not None:
        config = replace(config, tls=files)
    return HttpServer(
        served or ManagerInProcess(manager), config, manager.clock, EntryPolicy.by(manager),
        manager.authentication.log, manager.start_soon,
    )  # fmt: skip


@pytest.fixture
async def server(manager: QueueManager) -> AsyncIterator[HttpServer]:
    async with serving(manager) as server:
        yield server


@pytest.fixture
def port(server: HttpServer) -> int:
    return port_of(server)
