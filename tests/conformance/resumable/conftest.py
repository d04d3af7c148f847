"""Fixtures of the scenarios of resumable groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.resumable.crashes import FORMS, Form

if TYPE_CHECKING:
    from broker import Connection
    from tests.conformance.system import System


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Form:
    """Return the form of the status."""
    form: Form = request.param
    return form


@pytest.fixture
async def program(system: System, connection: Connection) -> Connection:
    """The connection of the program that puts or gets; QLOCAL(Q) and QLOCAL(ST) are defined."""
    await system.mqsc("DEFINE QLOCAL(ST)")
    return await system.connect("program")
