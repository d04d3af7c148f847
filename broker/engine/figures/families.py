"""Families of figures: their names, what they tell, and where their values are read off."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeAlias, TypeVar

from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from broker.core.queues.counts.duration import Duration
    from broker.engine.figures.scrape import Scrape

S = TypeVar("S")

_REASONS: Final = frozenset(MQRC)

Number: TypeAlias = "int | float"

Labels: TypeAlias = tuple[str, ...]
"""The values of the labels that a section has, in their order."""


class FamilyKind(Enum):
    """The types of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family(Generic[S]):
    """A figure that things of one kind have.

    `read` is given a thing and the time (wall-clock seconds). It returns the value, which of a histogram is a
    `Duration`; None where the thing has none; where the family has a `label` beside those of its section, the values by
    that label.
    """

    name: str
    kind: FamilyKind
    help: str
    read: Callable[[S, float], Number | Duration | Mapping[str, Number] | None]
    label: str = ""


class Thing(NamedTuple, Generic[S]):
    """Something that has figures, and the values of its labels."""

    labels: Labels
    subject: S


@dataclass(frozen=True, slots=True)
class Section(Generic[S]):
    """Families of things of one kind. `things` yields those that a scrape shows."""

    title: str
    labels: tuple[str, ...]
    families: tuple[Family[S], ...]
    things: Callable[[Scrape], Iterator[Thing[S]]]


def by_reason(counts: Mapping[int, int] | None) -> dict[str, int] | None:
    """Return counts by the names of their reasons."""
    if not counts:
        return None
    return {MQRC(reason).name if reason in _REASONS else str(reason): counts[reason] for reason in counts}


def counter(name: str, help: str, read: Callable[[S, float], Number | None]) -> Family[S]:
    """A family that only grows."""
    return Family(name, FamilyKind.COUNTER, help, read)


def counter_by(label: str, name: str, help: str, read: Callable[[S, float], Mapping[str, Number] | None]) -> Family[S]:
    """A family that only grows, with a label of its own."""
    return Family(name, FamilyKind.COUNTER, help, read, label)


def gauge(name: str, help: str, read: Callable[[S, float], Number | None]) -> Family[S]:
    """A family that rises and falls."""
    return Family(name, FamilyKind.GAUGE, help, read)


def histogram(name: str, help: str, read: Callable[[S, float], Duration | None]) -> Family[S]:
    """A family of durations."""
    return Family(name, FamilyKind.HISTOGRAM, help, read)
