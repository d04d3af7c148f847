"""A queue manager for each test, and the triggered queues of those that are about triggering."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.core.triggered import EVERY, FIRST, TRIGGERED
from tests.core.world import World

if TYPE_CHECKING:
    from broker.core.queues.queue import LocalQueue


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def every(world: World) -> LocalQueue:
    """A queue of trigger type EVERY, and its process."""
    world.define_process("P")
    return world.define("Q", TRIGTYPE=EVERY, **TRIGGERED)


@pytest.fixture
def first(world: World) -> LocalQueue:
    """A queue of trigger type FIRST, and its process."""
    world.define_process("P")
    return world.define("Q", TRIGTYPE=FIRST, **TRIGGERED)
