"""The queue manager that the trigger monitor is tested against."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.handlers.loops import anyio_backend
from tests.triggers.fake import FakeManager

if TYPE_CHECKING:
    from broker.testing import VirtualClock

__all__ = ["anyio_backend"]


@pytest.fixture(params=[0, 3], ids=["at once", "three turns later"])
def manager(request: pytest.FixtureRequest) -> FakeManager:
    """A queue manager that answers at once, as an embedded one, and one that answers later."""
    return FakeManager(turns=request.param)


@pytest.fixture
def clock(manager: FakeManager) -> VirtualClock:
    return manager.clock
