"""A put by REST costs the daemon that has the queue manager in it so many function calls, which no machine changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.calls import Calls
from tests.http.client import dial
from tests.http.rest.messaging.conftest import CSRF, TEXT, basic

if TYPE_CHECKING:
    from tests.http.rest.messaging.conftest import Rest

PUTS = 10
PYTHON = 182
C = 110


@pytest.fixture
def way() -> str:
    return "embedded"


async def test_a_put_on_a_line_that_stays_calls_few_functions(rest: Rest) -> None:
    lines = (
        f"POST {rest.url('Q', 'message')} HTTP/1.1", "Host: localhost", basic(), CSRF, TEXT, "Content-Length: 5",
        "", "",
    )  # fmt: skip
    line = await dial(rest.port)
    costs = []
    for _ in range(PUTS):
        with Calls() as calls:
            await line.say("\r\n".join(lines).encode() + b"Hello")
            assert (await line.head()).startswith(b"HTTP/1.1 201 ")
        costs.append((calls.python, calls.c, calls.names))
    line.close()
    python, c, names = min(costs)
    assert (python <= PYTHON, c <= C) == (True, True), (python, c, names)
