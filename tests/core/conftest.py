"""A queue manager for each test."""

from __future__ import annotations

import pytest

from tests.core.world import World


@pytest.fixture
def world() -> World:
    return World()
