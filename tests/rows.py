"""The runs of a scenario: on which system each is, and with which row of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

ROWS_IN_HALF: Final = 3
"""A scenario that is told of so many rows of a table has each of them on half of the systems."""


def system_of(item: pytest.Item) -> tuple[str, str] | None:
    """The way and the store of the system that a test of `tests/conformance/` runs on, where it takes one."""
    called = getattr(item, "callspec", None)
    system = called.params.get("system") if called is not None else None
    return system if isinstance(system, tuple) else None


def row_of(item: pytest.Item) -> str:
    """The id of its other parameters: the same on each system. (Their numbers count all runs in some versions.)"""
    called, system = getattr(item, "callspec", None), system_of(item)
    return called.id.replace("-".join(system), "", 1) if called is not None and system is not None else ""
