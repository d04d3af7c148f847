"""Charts as SVG, for a page that needs nothing else: no script, no font, no network. Colours are the page's."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.spark.pipelines.reporting.axes import (
    AxisTick,
    Scale,
    duration_ticks,
    number,
    round_ticks,
    seconds_words,
    time_ticks,
    time_words,
    whole_ticks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

COLOURS: Final = 8
"""The number of series that have a colour of their own."""

_WIDTH: Final = 760
_HEIGHT: Final = 270
_LEFT: Final = 64
_RIGHT: Final = 22
_TOP: Final = 26
_BOTTOM: Final = 46
_ROW: Final = 28


class Series(NamedTuple):
    """A series of points in one colour, and its name."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class _Frame:
    """The frame of a chart with two axes: the place of its plot."""

    x: Scale
    y: Scale
    x_ticks: Sequence[AxisTick]
    y_ticks: Sequence[AxisTick]
    x_label: str
    y_label: str

    def drawn(self, name: str, marks: Iterator[str]) -> str:
        """The chart: the axes, and the marks in front of them."""
        return _svg(name, _HEIGHT, [*self._axes(), *marks])

    def _axes(self) -> Iterator[str]:
        bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        for tick in self.y_ticks:
            y = self.y(tick.value)
            yield f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text class="tick" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(tick.text)}</text>'
        for tick in self.x_ticks:
            x = self.x(tick.value)
            yield f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}"/>'
            yield f'<text class="tick" x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{escape(tick.text)}</text>'
        yield f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>'
        place = f'x="{(_LEFT + right) / 2:.0f}" y="{_HEIGHT - 8}" text-anchor="middle"'
        yield f'<text class="label" {place}>{escape(self.x_label)}</text>'
        yield f'<text class="label" x="4" y="14">{escape(self.y_label)}</text>'


def rates(name: str, series: Sequence[Series], seconds: float) -> str:
    """Counts in buckets of so many seconds, as rates a second: a step for each bucket, and zero where there is none."""
    times = [x for each in series for x, _ in each.points]
    first, last = min(times), max(times) + seconds
    most = max(y / seconds for each in series for _, y in each.points)
    y_ticks = round_ticks(most)
    frame = _Frame(
        Scale(first, last, _LEFT, _WIDTH - _RIGHT),
        Scale(0, y_ticks[-1].value, _HEIGHT - _BOTTOM, _TOP),
        time_ticks(first, last),
        y_ticks,
        f"{time_words(first, last)}; a step is {seconds_words(seconds)}",
        "messages per second",
    )
    return frame.drawn(name, _steps(frame, series, seconds))


def _steps(frame: _Frame, series: Sequence[Series], seconds: float) -> Iterator[str]:
    zero = frame.y(0)
    for colour, each in enumerate(series):
        path, at = "", None
        for x, count in sorted(each.points):
            begin, end, y = frame.x(x), frame.x(x + seconds), frame.y(count / seconds)
            if at is None or begin - at > 0.05:
                path += f"V{zero:.1f}" if path else ""
                path += f"M{begin:.1f} {zero:.1f}"
            path += f"V{y:.1f}H{end:.1f}"
            at = end
        yield f'<path class="area c{colour}" d="{path}V{zero:.1f}"/>'
        yield f'<path class="line c{colour}" d="{path}V{zero:.1f}"><title>{escape(each.name)}</title></path>'


def bars(name: str, texts: Sequence[str], series: Sequence[Series], x_label: str) -> str:
    """Counts by category: a bar for each, with the series on one another. The points of a series are the number of a
    category, and its count.
    """
    heights = [sum(dict(each.points).get(place, 0) for each in series) for place in range(len(texts))]
    y_ticks = whole_ticks(max(heights))
    frame = _Frame(
        Scale(0, len(texts), _LEFT, _WIDTH - _RIGHT),
        Scale(0, y_ticks[-1].value, _HEIGHT - _BOTTOM, _TOP),
        [AxisTick(place + 0.5, text) for place, text in enumerate(texts)],
        y_ticks,
        x_label,
        "messages",
    )
    return frame.drawn(name, _columns(frame, texts, series))


def _columns(frame: _Frame, texts: Sequence[str], series: Sequence[Series]) -> Iterator[str]:
    width = min(56.0, (frame.x(1) - frame.x(0)) * 0.7)
    tops = [0.0] * len(texts)
    for colour, each in enumerate(series):
        for place, count in each.points:
            below, at = tops[int(place)], frame.x(place + 0.5) - width / 2
            tops[int(place)] = below + count
            y, height = frame.y(below + count), frame.y(below) - frame.y(below + count)
            title = f"{each.name}, {texts[int(place)]}: {number(count)} messages"
            yield _bar(at, y, width, height, colour, title)


def times(name: str, series: Sequence[Series]) -> str:
    """Times by percentile: how long the quickest hundredth took at most, the next, and so on."""
    most = max(y for each in series for _, y in each.points)
    y_ticks = duration_ticks(most)
    frame = _Frame(
        Scale(0, 100, _LEFT, _WIDTH - _RIGHT),
        Scale(0, y_ticks[-1].value, _HEIGHT - _BOTTOM, _TOP),
        [AxisTick(rank, f"{rank} %") for rank in range(0, 101, 10)],
        y_ticks,
        "share of the messages that were on the queue so long at most",
        "time on the queue",
    )
    return frame.drawn(name, _lines(frame, series, dots=False, words=seconds_words))


def depths(name: str, series: Sequence[Series]) -> str:
    """Depths at instants: a dot for each run, and a line from one to the next."""
    times = [x for each in series for x, _ in each.points]
    first, last = min(times), max(times)
    if first == last:
        first, last = first - 30, last + 30
    y_ticks = whole_ticks(max(y for each in series for _, y in each.points))
    frame = _Frame(
        Scale(first, last, _LEFT + 8, _WIDTH - _RIGHT - 8),
        Scale(0, y_ticks[-1].value, _HEIGHT - _BOTTOM, _TOP),
        time_ticks(first, last),
        y_ticks,
        time_words(first, last).replace("time of put", "time of the report"),
        "messages on the queue",
    )
    return frame.drawn(name, _lines(frame, series, dots=True, words=number))


def _lines(frame: _Frame, series: Sequence[Series], *, dots: bool, words: Callable[[float], str]) -> Iterator[str]:
    for colour, each in enumerate(series):
        places = [(frame.x(x), frame.y(y)) for x, y in each.points]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        yield f'<path class="line c{colour}" d="{path}"><title>{escape(each.name)}</title></path>'
        if dots:
            for (x, y), (_, value) in zip(places, each.points, strict=True):
                title = f"<title>{escape(each.name)}: {escape(words(value))}</title>"
                yield f'<circle class="dot c{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3.5">{title}</circle>'


def ranked(name: str, rows: Sequence[tuple[str, float]]) -> str:
    """Counts with long names: a bar to the right for each, its name before and its count behind it."""
    left, right, most = 300, _WIDTH - 70, max(count for _, count in rows)
    marks = []
    for place, (text, count) in enumerate(rows):
        y, length = place * _ROW + 4, (right - left) * count / most
        marks.append(f'<text class="tick" x="{left - 10}" y="{y + 15}" text-anchor="end">{escape(text)}</text>')
        marks.append(_bar(left, y, length, _ROW - 8, 0, f"{text}: {number(count)} messages"))
        marks.append(f'<text class="tick" x="{left + length + 8:.1f}" y="{y + 15}">{number(count)}</text>')
    return _svg(name, len(rows) * _ROW + 4, marks)


def _bar(x: float, y: float, width: float, height: float, colour: int, title: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="bar c{colour}" {place}><title>{escape(title)}</title></rect>'


def _svg(name: str, height: int, marks: Sequence[str]) -> str:
    head = f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(name)}">'
    return "\n".join([head, *marks, "</svg>"])
