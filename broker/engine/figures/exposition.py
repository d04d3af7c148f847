"""The text of figures, in Prometheus' exposition format 0.0.4: the samples of a family stand together, below its help.

A line is `name{label="value"} number`. Names and helps are ours; the values of labels are escaped.
"""

from __future__ import annotations

from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from broker.core.queues.counts.duration import BOUNDS
from broker.engine.figures.families import FamilyKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from broker.core.queues.counts.duration import Duration
    from broker.engine.figures.families import Family, Number, Section, Thing

S = TypeVar("S")

PIECES_JOINED: Final = 64

_BOUNDS: Final = (*map(str, BOUNDS), "+Inf")


class Labelled(NamedTuple):
    """Something that has figures, with its labels as they are written, alone and to be followed by another."""

    labels: str
    before: str
    subject: Any


class SectionText(Generic[S]):
    """The text of a section, written for some things at a time."""

    def __init__(self, section: Section[S]) -> None:
        self._section = section
        self._pieces: list[list[str]] = [[] for _ in section.families]

    def add(self, things: Iterable[Thing[S]], now: float) -> None:
        """Write the samples of these things, as they are now."""
        names = self._section.labels
        labelled = [_labelled(names, thing) for thing in things]
        for family, pieces in zip(self._section.families, self._pieces, strict=True):
            pieces.append(_samples(family, labelled, now))

    def text(self) -> Iterator[str]:
        """The text of the families that have a sample, in pieces that are quickly put together."""
        for family, pieces in zip(self._section.families, self._pieces, strict=True):
            if any(pieces):
                yield heading(family)
                for first in range(0, len(pieces), PIECES_JOINED):
                    yield "".join(pieces[first : first + PIECES_JOINED])


def heading(family: Family[S]) -> str:
    """The help and the type of a family."""
    help = family.help.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {family.name} {help}\n# TYPE {family.name} {family.kind.value}\n"


def escaped(value: str) -> str:
    """The value of a label as it stands between quotation marks."""
    if value.isalnum():
        return value
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _labelled(names: Sequence[str], thing: Thing[S]) -> Labelled:
    pairs = zip(names, thing.labels, strict=True)
    text = ",".join([f'{name}="{escaped(value)}"' for name, value in pairs])
    return Labelled(f"{{{text}}}" if text else "", f"{text}," if text else "", thing.subject)


def _samples(family: Family[S], labelled: Sequence[Labelled], now: float) -> str:
    """The lines of a family for these things."""
    name, read = family.name, family.read
    if family.kind is FamilyKind.HISTOGRAM:
        return "".join([_buckets(name, each, read(each.subject, now)) for each in labelled])
    if not family.label:
        return "".join(
            [
                f"{name}{labels} {value}\n"
                for labels, _, subject in labelled
                if (value := read(subject, now)) is not None
            ]
        )
    return "".join(chain.from_iterable(_by_label(family, each, read(each.subject, now)) for each in labelled))


def _buckets(name: str, labelled: Labelled, duration: Duration | Any) -> str:
    """The lines of a histogram; none where nothing has been counted."""
    if duration is None:
        return ""
    before, counts = f'{name}_bucket{{{labelled.before}le="', list(accumulate(duration.buckets))
    lines = [f'{before}{bound}"}} {count}\n' for bound, count in zip(_BOUNDS, counts, strict=True)]
    lines.append(f"{name}_sum{labelled.labels} {duration.sum}\n{name}_count{labelled.labels} {counts[-1]}\n")
    return "".join(lines)


def _by_label(family: Family[S], labelled: Labelled, values: Mapping[str, Number] | Any) -> Iterator[str]:
    for label, value in sorted((values or {}).items()):
        yield f'{family.name}{{{labelled.before}{family.label}="{escaped(label)}"}} {value}\n'
