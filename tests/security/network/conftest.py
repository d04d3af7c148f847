"""Hosts for the tests of this folder: the server, and one elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.security.network.namespaces import NoNamespacesError, network
from tests.security.network.served import HOST_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.security.network.namespaces import Host

SERVER = "192.0.2.10"
ELSEWHERE = "192.0.2.7"


@pytest.fixture
def anyio_backend() -> str:
    """One event loop: the daemon has its own."""
    return "asyncio"


@pytest.fixture
def hosts() -> Iterator[dict[str, Host]]:
    try:
        with network({"server": SERVER, "elsewhere": ELSEWHERE}, {HOST_NAME: SERVER}) as made:
            yield made
    except NoNamespacesError as error:
        pytest.skip(str(error))
