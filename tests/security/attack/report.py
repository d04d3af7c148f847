"""The report of an attack: what was seen, what must not be, and how long others have waited."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.security.attack.honest import LOGIN_KINDS, Handled, LoggedIn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.security.attack.watch import Sample

QUIET: Final = "quiet"
TIMES_MAX: Final = 1.3
"""The 99th percentile of messages may be so many times that of the quiet."""

LOGIN_TIMES_MAX: Final = 3.0
LINES_MAX: Final = 10
"""Lines of the log a second, for each origin."""

MIB_MAX: Final = 300.0
_SETTLING_SECONDS: Final = 0.5
"""A message or login that begins so shortly behind an attack counts for neither."""

_SHOWN: Final = 20
_LINE: Final = re.compile(
    r"time=(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z level=\S+ logger=\S+ event=(?P<event>\S+) (?P<text>.*)"
)
_PEER: Final = re.compile(r" peer=([\d.]+)")  # the hosts of an attack have addresses of IPv4
_USER: Final = re.compile(r" user=(\S+)")


class Phase(NamedTuple):
    """A part of a run, from one moment of the monotonic clock to another, and what the attacker counted in it."""

    name: str
    began: float
    ended: float
    seen: dict[str, int]


class Figures(NamedTuple):
    """The times that others waited in phases of one name, and what the daemon took meanwhile. `times` are those of the
    quiet before and after: the median of the ratios of the 99th percentiles, so that what else goes on on the machine
    for a while does not tell.
    """

    name: str
    messages: list[float]
    times: float
    logins: dict[str, list[float]]
    processors: float
    loop: float


@dataclass
class Report:
    """The report of a run. `wrong` is what must not be; times are not in it."""

    wrong: list[str]
    phases: list[Phase]
    handled: list[Handled]
    logins: list[LoggedIn]
    samples: list[Sample]
    log: list[str]
    put: int = 0
    figures: list[Figures] = field(init=False)

    def __post_init__(self) -> None:
        names = dict.fromkeys([QUIET, *(phase.name for phase in self.phases)])
        self.figures = [self._figures(name) for name in names]
        if self.peak_mib > MIB_MAX:
            self.wrong.append(f"the daemon's memory came to {self.peak_mib:.0f} MiB, the limit is {MIB_MAX:.0f}")
        for (second, origin), lines in self.lines.items():
            if lines > LINES_MAX:
                self.wrong.append(f"{lines} lines of the log about {origin} at {second}, the limit is {LINES_MAX}")

    @property
    def peak_mib(self) -> float:
        """The most memory that the daemon occupied."""
        return max((each.mib for each in self.samples), default=0.0)

    @property
    def lines(self) -> Counter[tuple[str, str]]:
        """The lines of the log by second and origin: an address, else a user. Counts of lines left out have none, and
        of changes of security none is left out.
        """
        counted: Counter[tuple[str, str]] = Counter()
        for found in filter(None, map(_LINE.match, self.log)):
            if found["event"] == "security_changed":
                continue
            origin = _PEER.search(found["text"])
            user = _USER.search(found["text"])
            if origin is not None:
                counted[found["second"], origin[1]] += 1
            elif user is not None:
                counted[found["second"], user[1]] += 1
        return counted

    @property
    def times(self) -> float:
        """The 99th percentile of all messages under attack, in times of that of the quiet."""
        attacked = [ms for each in self.figures if each.name != QUIET for ms in each.messages]
        return _ratio(percentile(attacked, 99), percentile(self.figures[0].messages, 99))

    def _figures(self, name: str) -> Figures:
        phases = [phase for phase in self.phases if phase.name == name]
        ratios = [
            _ratio(percentile(self._messages(phase), 99), percentile(self._messages(before, after), 99))
            for before, phase, after in zip(self.phases, self.phases[1:], self.phases[2:], strict=False)
            if phase.name == name != QUIET
        ]
        return Figures(
            name,
            self._messages(*phases),
            median(ratios) if ratios else 1.0,
            {kind: [each.ms for each in self.logins if each.kind == kind and _within(each.began, phases)]
             for kind in LOGIN_KINDS},
            self._share(phases, lambda sample: sample.seconds),
            self._share(phases, lambda sample: sample.loop_seconds),
        )  # fmt: skip

    def _messages(self, *phases: Phase) -> list[float]:
        """Return the times of the messages of these phases, but for those beside a login of the same host."""
        return [each.ms for each in self.handled if not each.beside_login and _within(each.due, phases)]

    def _share(self, phases: Iterable[Phase], seconds: Callable[[Sample], float]) -> float:
        """The part of a processor that was taken in these phases."""
        taken = passed = 0.0
        for phase in phases:
            inside = [each for each in self.samples if _within(each.at, (phase,))]
            if len(inside) > 1:
                taken += seconds(inside[-1]) - seconds(inside[0])
                passed += inside[-1].at - inside[0].at
        return taken / passed if passed else 0.0

    def __str__(self) -> str:
        quiet = self.figures[0]
        rows = [f"{'':24} messages    p50     p99   times |  cpu  loop | logins, median ms (times, worst)"]
        for each in self.figures:
            p50, p99 = percentile(each.messages, 50), percentile(each.messages, 99)
            logins = "  ".join(
                f"{kind} {percentile(ms, 50):.0f} ({_times(ms, quiet.logins[kind])}, {max(ms, default=0.0):.0f})"
                for kind, ms in each.logins.items()
            )
            rows.append(
                f"{each.name:24} {len(each.messages):8} {p50:6.2f} {p99:7.2f} {each.times:7.2f} |"
                f" {each.processors:4.2f}  {each.loop:4.2f} | {logins}"
            )
        counted: dict[str, Counter[str]] = {}
        for phase in self.phases:
            counted.setdefault(phase.name, Counter()).update(phase.seen)
        seen = [f"{name}: {_shown(counts)}" for name, counts in counted.items() if counts]
        most = self.lines.most_common(1)
        by_second = Counter(found["second"] for found in filter(None, map(_LINE.match, self.log)))
        return "\n".join(
            [
                *rows, "", *seen, "",
                f"put {self.put}, handled {len(self.handled)}",
                f"p99 under attack: {self.times:.2f} times that of the quiet (limit {TIMES_MAX})",
                f"log: {len(self.log)} lines, at most {max(by_second.values(), default=0)} a second, at most "
                f"{most[0][1] if most else 0} of one origin ({most[0][0] if most else ''}); limit {LINES_MAX}",
                f"memory: {self.peak_mib:.0f} MiB at most (limit {MIB_MAX:.0f})",
                *self.wrong[:_SHOWN],
                f"{len(self.wrong)} wrong",
            ]
        )  # fmt: skip


def _within(moment: float, phases: Iterable[Phase]) -> bool:
    return any(
        phase.began + (_SETTLING_SECONDS if phase.name == QUIET else 0.0) <= moment < phase.ended for phase in phases
    )


def percentile(values: Sequence[float], which: int) -> float:
    """A percentile; 0 of nothing."""
    ordered = sorted(values)
    return ordered[len(ordered) * which // 100] if ordered else 0.0


def _ratio(value: float, base: float) -> float:
    return value / base if base else 0.0


def _times(values: Sequence[float], quiet: Sequence[float]) -> str:
    return f"{_ratio(percentile(values, 50), percentile(quiet, 50)):.1f} x" if values and quiet else "-"


def _shown(seen: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in seen.items())
