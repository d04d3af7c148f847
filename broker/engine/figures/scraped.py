"""A queue manager as a scrape sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from broker.clock import Clock
    from broker.config import Config
    from broker.core.manager import Manager
    from broker.core.queues.unit import Unit
    from broker.engine.figures.sources import FigureSources
    from broker.storage.store import Store


class ScrapedConversations(Protocol):
    """The connections of programs."""

    def __len__(self) -> int: ...

    def units(self) -> Iterator[Unit]:
        """The units of work that they have begun and not ended."""


class ScrapedBodies(Protocol):
    """The bodies in memory."""

    @property
    def bytes(self) -> int: ...


class ScrapedJournal(Protocol):
    """What was written."""

    @property
    def transactions(self) -> int: ...

    @property
    def units(self) -> int: ...


class ScrapedRefusals(Protocol):
    """Connections that were refused."""

    @property
    def refused(self) -> Mapping[str, int]: ...


class ScrapedContext(Protocol):
    """Where calls and the turns of the event loop are counted."""

    @property
    def figures(self) -> FigureSources: ...

    @property
    def security_log(self) -> ScrapedRefusals: ...


class ScrapedManager(Protocol):
    """A queue manager: what the families read."""

    @property
    def name(self) -> str: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def config(self) -> Config: ...

    @property
    def core(self) -> Manager: ...

    @property
    def store(self) -> Store: ...

    @property
    def conversations(self) -> ScrapedConversations: ...

    @property
    def journal(self) -> ScrapedJournal: ...

    @property
    def context(self) -> ScrapedContext: ...

    @property
    def bodies(self) -> ScrapedBodies: ...
