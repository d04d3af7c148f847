"""The page of a report: one file of HTML, with its charts and style in it. Nothing of it comes from elsewhere."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker.mqi import MQFB, MQFB_APPL_FIRST, MQRC
from broker.spark.pipelines.reporting import charts
from broker.spark.pipelines.reporting.axes import bytes_words, number, seconds_words
from broker.spark.pipelines.reporting.charts import COLOURS, Series

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Row = dict[str, Any]

_OTHERS: Final = "all others"
_REASONS_MAX: Final = 20
_BARS_MAX: Final = 16
_FEW_POWERS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContents:
    """The contents of a page: the path of the archive, whether its messages were moved there, when the report was made,
    and the rows of its tables. Times in them are seconds since 1970.
    """

    archive: str
    moved: bool
    made: datetime
    tables: dict[str, list[Row]]

    def shown(self) -> list[str]:
        """The queues with a colour of their own: those with the most messages."""
        rows = sorted(self.tables["queues"], key=lambda row: (-row["messages"], row["queue"]))
        names = [row["queue"] for row in rows]
        return sorted(names if len(names) <= COLOURS else names[: COLOURS - 1])


def page(contents: PageContents) -> str:
    """The page, as HTML."""
    style = Path(__file__).with_name("page.css").read_text("utf-8")
    body = "\n".join(
        [*_head(contents), *(section for make in _SECTIONS for section in make(contents)), *_foot(contents)]
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Queues: {escape(contents.archive)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _head(contents: PageContents) -> Iterator[str]:
    rows = contents.tables["queues"]
    puts = [row for row in rows if row["first_put"] is not None]
    yield "<header>\n<h1>Queues</h1>"
    verb = "moved" if contents.moved else "copied"
    yield f'<p class="quiet">Messages {verb} to the archive <code>{escape(contents.archive)}</code>'
    if puts:
        first, last = min(row["first_put"] for row in puts), max(row["last_put"] for row in puts)
        yield f"<br>put from {_instant(first)} to {_instant(last)} (UTC)"
    yield "</p>"
    figures = {
        "messages": number(sum(row["messages"] for row in rows)),
        "on queues": number(len(rows)),
        "of data": bytes_words(sum(row["bytes"] or 0 for row in rows)),
        "backed out": number(sum(row["backed_out"] for row in rows)),
        "dead letters": number(sum(row["messages"] for row in contents.tables["dead_letters"])),
    }
    yield f"<dl>{''.join(f'<div><dt>{name}</dt><dd>{figure}</dd></div>' for name, figure in figures.items())}</dl>"
    yield "</header>"


def _queues(contents: PageContents) -> Iterator[str]:
    names = ["queue", "messages", "data", "first put", "last put", "size, median", "99 %", "largest"]
    rows = [
        [
            row["queue"], number(row["messages"]), bytes_words(row["bytes"] or 0), _instant(row["first_put"]),
            _instant(row["last_put"]), bytes_words(row["size_p50"]), bytes_words(row["size_p99"]),
            bytes_words(row["size_max"]),
        ]
        for row in contents.tables["queues"]
    ]  # fmt: skip
    note = "" if rows else "The archive has no messages yet."
    yield _section("By queue", note, _table(names, rows) if rows else "")


def _arrivals(contents: PageContents) -> Iterator[str]:
    rows = contents.tables["arrivals"]
    if rows:
        seconds = rows[0]["seconds"]
        series = _series(contents, rows, lambda row: row["since"])
        busiest = max(rows, key=lambda row: row["messages"])
        note = (
            f"The most was {number(busiest['messages'] / seconds)} messages a second, on {escape(busiest['queue'])} at "
            f"{_instant(busiest['since'])}."
        )
        yield _section("Arrivals", note, _figure(charts.rates("Arrivals over time", series, seconds), series))


def _sizes(contents: PageContents) -> Iterator[str]:
    rows = contents.tables["sizes"]
    if rows:
        bins = size_bins([(row["size_from"], row["size_below"]) for row in rows])
        series = _series(contents, rows, lambda row: bisect_right(bins, row["size_from"]) - 1)
        texts = ["0 B" if size == 0 else bytes_words(size) for size in bins]
        drawn = charts.bars("Messages by size", texts, series, "size of the data: from this on, below the next")
        yield _section("Sizes", "", _figure(drawn, series))


def size_bins(found: Sequence[tuple[int, int]]) -> list[int]:
    """Return the lower ends of a histogram's bars for these sizes: in quarters of the way from one power of two to the
    next where there are few, else at the powers.
    """
    bins, last = [min(size for size, _ in found)], max(size for size, _ in found)
    quarters = last < bins[0] * _FEW_POWERS
    if not quarters and bins[0] > 0:
        bins = [1 << (bins[0].bit_length() - 1)]
    while bins[-1] < last:
        size = bins[-1]
        power = 1 << max(size.bit_length() - 1, 0)
        bins.append(size + max(1, power // 4) if quarters else max(1, 2 * size))
    return bins


def _time_on_queue(contents: PageContents) -> Iterator[str]:
    if not contents.moved:
        note = "Only where messages are moved (<code>--move</code>) is known how long they were on their queue."
        yield _section("Time on the queue", note, "")
        return
    rows = contents.tables.get("time_on_queue", [])
    if rows:
        names = ["queue", "messages", "shortest", "median", "90 %", "99 %", "longest"]
        keys = ("least", "p50", "p90", "p99", "most")
        table = [[row["queue"], number(row["messages"]), *(seconds_words(row[key]) for key in keys)] for row in rows]
        shown = set(contents.shown())
        curve = [row for row in contents.tables["time_curve"] if row["queue"] in shown]
        points = _by_queue(curve, lambda row: (row["percentile"], row["seconds"]))
        series = [Series(name, sorted(found)) for name, found in sorted(points.items())]
        note = "From the put of a message until the batch began that moved it to the archive."
        drawn = charts.times("Time on the queue by percentile", series)
        yield _section("Time on the queue", note, _figure(drawn, series) + _table(names, table))


def _depths(contents: PageContents) -> Iterator[str]:
    rows = contents.tables["depths"]
    if not rows:
        note = "Name live queues (<code>--queue</code>), and each run of the report adds how deep they are."
        yield _section("Depth", note, "")
        return
    points = _by_queue(rows, lambda row: (row["observed"], row["depth"]))
    deepest = sorted(points, key=lambda name: -max(depth for _, depth in points[name]))[:COLOURS]
    series = [Series(name, sorted(points[name])) for name in sorted(deepest)]
    last = max(row["observed"] for row in rows)
    table = [
        [
            row["queue"],
            number(row["depth"]),
            "" if row["oldest_seconds"] is None else seconds_words(row["oldest_seconds"]),
        ]
        for row in rows
        if row["observed"] == last
    ]
    note = f"Messages that a get would find, at each run of this report; the last was at {_instant(last)}."
    names = ["queue", "messages now", "the oldest is"]
    yield _section("Depth", note, _figure(charts.depths("Depth at each run", series), series) + _table(names, table))


def _backouts(contents: PageContents) -> Iterator[str]:
    rows = [row for row in contents.tables["backouts"] if row["backout_count"] > 0]
    if not rows:
        yield _section("Backouts", "No message was backed out before it came to the archive.", "")
        return
    counts = range(1, min(max(row["backout_count"] for row in rows), _BARS_MAX) + 1)
    texts = [f"{count} or more" if count == _BARS_MAX else str(count) for count in counts]
    series = _series(contents, rows, lambda row: min(row["backout_count"], _BARS_MAX) - 1)
    drawn = charts.bars("Messages by backout count", texts, series, "backout count (BackoutCount)")
    yield _section(
        "Backouts", "How often messages were backed out before they came to the archive.", _figure(drawn, series)
    )


def _dead_letters(contents: PageContents) -> Iterator[str]:
    rows = contents.tables["dead_letters"]
    if not rows:
        yield _section("Dead letters", "No message has a dead-letter header.", "")
        return
    counts: defaultdict[int, int] = defaultdict(int)
    for row in rows:
        counts[row["reason"]] += row["messages"]
    ranks = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:_REASONS_MAX]
    drawn = charts.ranked("Dead letters by reason", [(reason_words(reason), count) for reason, count in ranks])
    names = ["was for queue", "reason", "messages", "first put", "last put"]
    table = [
        [row["dest_q_name"], reason_words(row["reason"]), number(row["messages"]), _instant(row["first_put"]),
         _instant(row["last_put"])]
        for row in sorted(rows, key=lambda row: (row["dest_q_name"], -row["messages"]))
    ]  # fmt: skip
    note = "By the reason in the dead-letter header (MQDLH)."
    yield _section("Dead letters", note, _figure(drawn, []) + _table(names, table, texts=2))


def _handlers(contents: PageContents) -> Iterator[str]:
    rows = contents.tables.get("handlers", [])
    if not rows:
        return
    counts: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        counts[row["why"]] += row["messages"]
    ranks = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:_REASONS_MAX]
    drawn = charts.ranked("Dead letters of handlers by why", ranks)
    names = ["was on queue", "handler", "why", "raised last", "messages", "attempts", "crashes", "last failed"]
    table = [
        [row["from_queue"], row["handler"], row["why"], row["exception"], number(row["messages"]),
         number(row["attempts"]), number(row["crashes"]), _instant(row["last_failed"])]
        for row in sorted(rows, key=lambda row: (row["from_queue"], row["handler"], -row["messages"]))
    ]  # fmt: skip
    note = "What handlers could not handle, by the properties that such dead letters bear."
    yield _section("Dead letters of handlers", note, _figure(drawn, []) + _table(names, table, texts=4))


_SECTIONS: Final = (_queues, _arrivals, _sizes, _time_on_queue, _depths, _backouts, _dead_letters, _handlers)


def _foot(contents: PageContents) -> Iterator[str]:
    yield (
        f"<footer>Made by <code>evermq pipeline report</code> at {_instant(contents.made.timestamp())} (UTC). "
        "Percentiles are of KLL sketches, whose rank is right to about 1 %. "
        "The tables are beside this page, as Parquet.</footer>"
    )


def reason_words(reason: int) -> str:
    """The name of a reason of a dead letter: one of MQ's, or a feedback code of an application."""
    if reason >= MQFB_APPL_FIRST:
        return f"{reason} (of the application)"
    for family, prefix in ((MQRC, "MQRC"), (MQFB, "MQFB")):
        if reason in family._value2member_map_:
            return f"{prefix}_{family(reason).name} ({reason})"
    return str(reason)


def _series(contents: PageContents, rows: Iterable[Row], place: Callable[[Row], float]) -> list[Series]:
    """The messages of rows, added up by queue and place; queues without a colour of their own together."""
    shown = set(contents.shown())
    counts: defaultdict[str, defaultdict[float, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        counts[row["queue"] if row["queue"] in shown else _OTHERS][place(row)] += row["messages"]
    names = [*(name for name in contents.shown() if name in counts), *([_OTHERS] if _OTHERS in counts else [])]
    return [Series(name, sorted(counts[name].items())) for name in names]


def _by_queue(rows: Iterable[Row], point: Callable[[Row], tuple[float, float]]) -> dict[str, list[tuple[float, float]]]:
    found: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        found[row["queue"]].append(point(row))
    return found


def _section(title: str, note: str, content: str) -> str:
    """A section; its note is HTML."""
    return f"<section>\n<h2>{title}</h2>\n{f'<p>{note}</p>' if note else ''}\n{content}\n</section>"


def _figure(drawn: str, series: Sequence[Series]) -> str:
    items = "".join(f'<li class="c{colour}">{escape(each.name)}</li>' for colour, each in enumerate(series))
    return f"<figure>\n{drawn}\n{f'<ul class=legend>{items}</ul>' if items else ''}\n</figure>\n"


def _table(names: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> str:
    """A table whose first columns, so many, are texts, which may be broken behind a dot; all others are numbers."""
    head = "".join(_cell("th", name, text=place < texts) for place, name in enumerate(names))
    lines = ("".join(_cell("td", cell, text=place < texts) for place, cell in enumerate(row)) for row in rows)
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="table"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>\n'


def _cell(tag: str, content: str, *, text: bool) -> str:
    kind = ' class="text"' if text else ""
    return f"<{tag}{kind}>{escape(content).replace('.', '.<wbr>') if text else escape(content)}</{tag}>"


def _instant(seconds: float | None) -> str:
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
