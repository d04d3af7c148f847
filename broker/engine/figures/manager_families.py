"""The figures of the queue manager as a whole, and of the scrape itself."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from platform import python_version
from typing import TYPE_CHECKING, Final

from broker.engine.figures.families import Section, Thing, gauge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.engine.figures.scrape import Scrape
    from broker.engine.figures.scraped import ScrapedManager


@cache
def _version() -> str:
    try:
        return version("evermq")
    except PackageNotFoundError:  # a source tree that is not installed
        return ""


def _info(scrape: Scrape) -> Iterator[Thing[Scrape]]:
    group = scrape.manager.config.queue_sharing_group.name
    yield Thing((scrape.manager.name, _version(), python_version(), group), scrape)


def _manager(scrape: Scrape) -> Iterator[Thing[ScrapedManager]]:
    yield Thing((), scrape.manager)


def _scrape(scrape: Scrape) -> Iterator[Thing[Scrape]]:
    yield Thing((), scrape)


def _oldest_unit(manager: ScrapedManager, now: float) -> float:
    """Return the age of the oldest unit of work in seconds; 0 when there is none."""
    began = min([unit.since for unit in manager.conversations.units()], default=now)
    return max(0.0, round(now - began, 3))


INFO: Final = Section(
    title="The queue manager",
    labels=("name", "version", "python", "group"),
    things=_info,
    families=(gauge("evermq_info", "The queue manager, its release, and its queue-sharing group.", lambda *_: 1),),
)

MANAGER: Final = Section(
    title="The queue manager",
    labels=(),
    things=_manager,
    families=(
        gauge(
            "evermq_conversations",
            "Connections of programs (Hconn), embedded ones included.",
            lambda m, _: len(m.conversations),
        ),
        gauge(
            "evermq_units_of_work",
            "Units of work that have begun and not ended.",
            lambda m, _: len(list(m.conversations.units())),
        ),
        gauge(
            "evermq_oldest_unit_of_work_age_seconds",
            "Seconds since the oldest unit of work began; 0 when there is none.",
            _oldest_unit,
        ),
        gauge(
            "evermq_bodies_bytes",
            "Bytes of persistent bodies in memory.",
            lambda m, _: m.bodies.bytes,
        ),
        gauge("evermq_quiescing", "1 while the queue manager quiesces.", lambda m, _: int(m.core.quiescing)),
    ),
)

SCRAPE: Final = Section(
    title="The scrape",
    labels=(),
    things=_scrape,
    families=(
        gauge(
            "evermq_queues_left_out",
            "Queues that have no series of their own, since there are more than queues_max.",
            lambda scrape, _: scrape.left_out,
        ),
    ),
)
