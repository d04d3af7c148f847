"""A queue manager with users behind an HTTP server, in its process and in one of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.conftest import clock, manager
from tests.http.door import Door, doors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import QueueManager

__all__ = ["clock", "manager"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=[False, True], ids=["in the process", "by a URL"])
async def door(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[Door]:
    async with doors(manager, monkeypatch, by_url=request.param) as door:
        yield door
