"""The account of a demonstration: what became of each line, how fast, and whether anything is missing."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from math import ceil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from broker.cli.demo.reservation import Refusal
    from broker.cli.demo.working import Worked

EXAMPLES_MAX: Final = 3
PERCENTILES: Final = (50, 90, 99)

STEADY_RATE: Final = 200
"""The file is put as fast as can be, so most of its lines wait for those before them. How long a message takes to its
handler is measured afterwards, with the first lines once more, so many a second.
"""


class Account:
    """Every line is put, refused or too long; every line put comes back once, as a reply or as a dead letter."""

    def __init__(self) -> None:
        self.worked: Worked | None = None
        """The fate of the tasks of the workers."""
        self.put = 0
        self.put_seconds = 0.0
        self.total_seconds = 0.0
        self.too_long: list[int] = []
        self.refused: dict[int, str] = {}
        self.confirmed = 0
        self.rejected: Counter[Refusal] = Counter()
        self.doubled = 0
        self._examples: dict[Refusal, list[int]] = {}
        self.handled = 0
        """The number of lines that have come back."""
        self.steady: list[int] = []
        """The times that messages put at a steady rate took to their handlers, in microseconds."""
        self._back = bytearray()  # one byte a line, set when it has come back

    @property
    def lines(self) -> int:
        """The number of lines that were read."""
        return self.put + len(self.refused) + len(self.too_long)

    @property
    def missing(self) -> int:
        """The number of lines that were put and have not come back."""
        return self.put - self.handled

    @property
    def complete(self) -> bool:
        """True if each line put has come back once, and none was refused by the queue manager."""
        worked = self.worked is None or self.worked.complete
        return worked and self.missing == 0 and self.doubled == 0 and not self.refused

    def back(self, line: int, refusal: Refusal | None = None) -> None:
        """A line came back: as a reply, or with a refusal as a dead letter."""
        if line >= len(self._back):
            self._back.extend(bytes(max(line + 1 - len(self._back), len(self._back))))
        if self._back[line]:
            self.doubled += 1
            return
        self._back[line] = True
        self.handled += 1
        if refusal is None:
            self.confirmed += 1
            return
        self.rejected[refusal] += 1
        examples = self._examples.setdefault(refusal, [])
        if len(examples) < EXAMPLES_MAX:
            examples.append(line)

    def report(self) -> Iterator[str]:
        """The account as lines of text."""
        yield _entry("lines", self.lines)
        yield _entry("  confirmed", self.confirmed, "a reply each")
        yield _entry("  rejected", self.rejected.total(), "on the dead-letter queue")
        for refusal, count in sorted(self.rejected.items()):
            yield _entry(f"    {refusal.words}", count, f"line {_some(sorted(self._examples[refusal]), count)}")
        if self.too_long:
            yield _entry("  too long to put", len(self.too_long), f"line {_some(self.too_long, len(self.too_long))}")
        if self.missing:
            yield _entry("  missing", self.missing, f"put, but not back: line {self._missing_lines()}")
        if self.doubled:
            yield _entry("  doubled", self.doubled, "back more than once")
        if self.refused:
            line, reason = next(iter(self.refused.items()))
            yield _entry("  refused", len(self.refused), f"not put: line {line:,}: {reason}")
        yield ""
        yield _rate("put", self.put, self.put_seconds, "persistent, over TCP")
        yield _rate("handled", self.handled, self.total_seconds, "one handler each, one unit of work each")
        if self.steady:
            yield f"put to handler, at {STEADY_RATE} messages a second:  {self._percentiles()}"

    def _missing_lines(self) -> str:
        not_put = {*self.too_long, *self.refused}
        lines = (line for line in range(1, self.lines + 1) if line not in not_put and not self._is_back(line))
        return _some(list(islice(lines, EXAMPLES_MAX)), self.missing)

    def _is_back(self, line: int) -> bool:
        return line < len(self._back) and bool(self._back[line])

    def _percentiles(self) -> str:
        ordered = sorted(self.steady)
        figures = [f"p{rank} {_milliseconds(percentile(ordered, rank))}" for rank in PERCENTILES]
        return "  ".join([*figures, f"longest {_milliseconds(ordered[-1])}"])


def percentile(ordered: Sequence[int], rank: int) -> int:
    """The nearest-rank percentile of numbers in ascending order."""
    return ordered[max(0, ceil(len(ordered) * rank / 100) - 1)]


def _entry(name: str, count: int, remark: str = "") -> str:
    return f"{name:<24}{count:>10,}{'  ' if remark else ''}{remark}"


def _rate(name: str, count: int, seconds: float, remark: str) -> str:
    rate = f"{count / seconds:,.0f}" if seconds else "-"
    return f"{name:<10}{seconds:>10,.2f} s{rate:>12} lines/s  {remark}"


def _milliseconds(us: int) -> str:
    return f"{us / 1000:,.1f} ms"


def _some(lines: Sequence[int], count: int) -> str:
    shown = ", ".join(f"{line:,}" for line in lines[:EXAMPLES_MAX])
    return f"{shown}, ..." if count > EXAMPLES_MAX else shown
