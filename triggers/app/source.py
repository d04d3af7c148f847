"""The source of an app's queue manager: a URL, a queue manager in this process, or a folder.

A source is all that an app knows of the world outside: connections, time, and chance. So the test kit runs an app on
another one, by `triggers.serving.session.bound`.
"""

from __future__ import annotations

import random
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, TypedDict, cast

import broker
from broker import Clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType
    from typing import Unpack

    from broker import Connection
    from triggers.monitor.connections import EmbeddedManager


class AppSource(Protocol):
    """`embedded`: the queue manager is in this process, and what ends its connections ends the app's work."""

    @property
    def clock(self) -> Clock: ...
    @property
    def random(self) -> random.Random: ...
    @property
    def embedded(self) -> bool: ...

    def connect(self, appl_name: str) -> AbstractAsyncContextManager[Connection]:
        """A connection to enter. Raises MQError."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class SourceIdentity(TypedDict, total=False):
    """Who an app is for the queue manager at its URL, as `broker.connect` takes it."""

    user: str
    password: str | Path | Callable[[], str | Awaitable[str]] | None
    token: str | Path | Callable[[], str | Awaitable[str]] | None
    channel: str
    tls: broker.TLS | None


def source_of(given: str | Path | EmbeddedManager, **identity: Unpack[SourceIdentity]) -> AppSource:
    """The source that is meant: `mq://...` and `mq+unix://...` are URLs, other text is a folder. Raises TypeError, and
    ValueError for a URL with a secret.
    """
    if isinstance(given, str) and "://" in given:
        return UrlSource(given, **identity)
    if identity:
        raise TypeError(f"App takes {', '.join(sorted(identity))} with a URL alone: a queue manager here asks nobody")
    if isinstance(given, str | Path):
        return FolderSource(Path(given))
    if callable(getattr(given, "connect", None)) and isinstance(getattr(given, "clock", None), Clock):
        return ManagerSource(given)
    raise TypeError(f"App takes a URL (mq://host:port), a folder, or a QueueManager, not {given!r}")


class UrlSource:
    """A queue manager in another process."""

    embedded = False

    def __init__(self, url: str, **identity: Unpack[SourceIdentity]) -> None:
        self.clock = Clock()
        self.random = random.Random()
        self._url = url
        self._identity = identity
        if "@" in url or "?" in url or identity:
            broker.connect(url, **identity)  # which refuses a secret in the URL, before it is shown

    def at(self, url: str, named: Collection[str]) -> UrlSource:
        """The same program at another URL, which says what is named of who it is."""
        taken = {name if name in ("user", "channel") else "tls" for name in named}
        kept = {name: value for name, value in self._identity.items() if name not in taken}
        return UrlSource(url, **cast("SourceIdentity", kept))

    def connect(self, appl_name: str) -> AbstractAsyncContextManager[Connection]:
        return broker.connect(self._url, appl_name=appl_name, clock=self.clock, **self._identity)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def __str__(self) -> str:
        return self._url


class ManagerSource:
    """A queue manager in this process, which somebody else has entered."""

    embedded = True

    def __init__(self, manager: EmbeddedManager, seed: int | None = None) -> None:
        self.random = random.Random(seed)
        self._manager = manager

    @property
    def clock(self) -> Clock:
        """That of the queue manager."""
        return self._manager.clock

    @asynccontextmanager
    async def connect(self, appl_name: str) -> AsyncIterator[Connection]:
        async with self._manager.connect(appl_name) as connection:
            yield connection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def __str__(self) -> str:
        return "the queue manager in this process"


class FolderSource:
    """A queue manager in this process that the app opens, with its data in a folder."""

    embedded = True

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.random = random.Random()
        self._folder = folder
        self._manager: EmbeddedManager
        self._exit = AsyncExitStack()

    @asynccontextmanager
    async def connect(self, appl_name: str) -> AsyncIterator[Connection]:
        async with self._manager.connect(appl_name) as connection:
            yield connection

    async def __aenter__(self) -> Self:
        opened = broker.QueueManager.open(data=self._folder, clock=self.clock)
        self._manager = await self._exit.enter_async_context(opened)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit.__aexit__(kind, error, trace)

    def __str__(self) -> str:
        return f"the queue manager in {self._folder}"
