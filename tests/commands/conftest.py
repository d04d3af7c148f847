"""A queue manager for each test."""

from __future__ import annotations

import pytest

from tests.commands.catalog import Manager


@pytest.fixture
def manager() -> Manager:
    return Manager()
