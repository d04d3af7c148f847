"""The plugin of pytest: fixtures for tests of programs that use EverMQ.

- `evermq_manager`: a queue manager in memory, whose clock stands until the test advances it.
- `evermq_connection`: a connection to it.
- `evermq_app`: `app.test()` of the app that the ini option `evermq_app` names, as in `evermq_app = "shop.orders:app"`;
  the option `evermq_seed` says which seed, 0 by default.

They are coroutines. With pytest's plugin of anyio, which comes with EverMQ, they serve tests marked `anyio`, or all of
them in its mode `auto`; with pytest-asyncio in its mode `auto`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection, QueueManager
    from triggers.testing import AppTest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The ini options."""
    parser.addini("evermq_app", 'the app of the fixture evermq_app: "module:name"', default="")
    parser.addini("evermq_seed", "the seed of the fixture evermq_app", default="0")


@pytest.fixture
async def evermq_manager() -> AsyncIterator[QueueManager]:
    """A queue manager in memory; `evermq_manager.clock` is a `broker.testing.VirtualClock`."""
    from triggers.testing import Harness  # only where it is used: the plugin is loaded by every run of pytest

    async with Harness() as harness:
        yield harness.manager


@pytest.fixture
async def evermq_connection(evermq_manager: QueueManager) -> AsyncIterator[Connection]:
    """A connection to `evermq_manager`."""
    async with evermq_manager.connect("test") as connection:
        yield connection


@pytest.fixture
async def evermq_app(request: pytest.FixtureRequest) -> AsyncIterator[AppTest]:
    """A test of the app that the ini option `evermq_app` names."""
    app: Any = _named(str(request.config.getini("evermq_app")))
    async with app.test(seed=int(request.config.getini("evermq_seed"))) as t:
        yield t


def _named(name: str) -> object:
    """Return the object that `module:name` names. Raises pytest.UsageError."""
    from importlib import import_module

    from triggers import App

    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise pytest.UsageError(f'the ini option evermq_app is "module:name", as in "shop.orders:app", not {name!r}')
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise pytest.UsageError(f"the ini option evermq_app is {name!r}: {error}") from error
    if not isinstance(found, App):
        raise pytest.UsageError(f"the ini option evermq_app is {name!r}, and that is no App but {found!r}")
    return found
