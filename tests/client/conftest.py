"""A gate that clients come to, in an environment that says nothing of them, on both event loops."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import evermq
from tests.client.gate import Gate
from tests.server.conftest import clock, manager, server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["clock", "evermq", "manager", "server"]


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Both event loops: their sockets differ in how TLS fails."""
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("EVERMQ_")]:
        monkeypatch.delenv(name)


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    gate = Gate()
    async with gate.listening():
        yield gate
