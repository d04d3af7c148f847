"""The event loop that a test runs on: asyncio's own, or uvloop, which `evermq run` and workers use.

They differ where a timer fires, a callback comes round, or an exception leaves one. Each test of the App layer runs on
one of the two, told by its name; what is about such things runs on both.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest

Backend = tuple[str, dict[str, Any]]

ASYNCIO: Backend = ("asyncio", {"use_uvloop": False})
UVLOOP: Backend = ("asyncio", {"use_uvloop": True})

both_loops = pytest.mark.parametrize("anyio_backend", [ASYNCIO, UVLOOP], ids=["asyncio", "uvloop"])
"""Marks a test, or a class of them, that concerns what the loops do differently."""

asyncio_alone = pytest.mark.parametrize("anyio_backend", [ASYNCIO], ids=["asyncio"])
"""Marks a long random run that looks at what holds at rest: uvloop shows nobody what it is about to call."""


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    """One of the two, always the same for a test."""
    return UVLOOP if crc32(request.node.name.encode()) % 2 else ASYNCIO
