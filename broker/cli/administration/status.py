"""`evermq status`: the queue manager in figures."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from broker.cli.conversation import converse, with_url
from broker.cli.terminal.screen import repeat
from broker.cli.terminal.terminal import say
from broker.dead_letters import dead_letter_queues
from broker.mqi import MQRC, MQError
from broker.presentation.moments import in_utc

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from broker import Connection

KIB: Final = 1024
PAGE_WIDTH: Final = 100
UNITS_SHOWN: Final = 10
WATCH_SECONDS: Final = 2.0

_IN_BYTES: Final = frozenset(
    {"budget", "bytes", "free_bytes", "lag_bytes", "log_bytes", "log_bytes_max", "steps_bytes"}
)
_LISTS: Final = {
    "queues": "queue",
    "handlers": "handler",
    "consumers": "consumer",
    "prepared_units": "prepared unit",
    "units_of_work": "unit of work of",
}
"""The figures that are lists, with what each element of them is."""

_OF_HANDLERS: Final = ("workers", "started", "running", "succeeded", "failed")
"""Columns of the handlers that are shown in any case; of the others those that have a figure."""

_SELDOM: Final = (
    "delayed", "next_release", "oldest_age", "keys", "duplicates", "duplicates_with_other_data", "damaged", "claimed",
    "prepared",
)  # fmt: skip
"""Columns of the queues that are shown only where one of them has a figure."""

_OWN_SECTION: Final = ("queue", "handler", "waited", "ran")
"""The figures of a handler that its section has in the title, or as a mean."""

_INSTANTS: Final = frozenset({"next_release", "last_error_at"})
"""The figures that are seconds since 1970."""

_NEW_NAMES: Final = {"waiting": "delayed"}
"""The figures that programs read under an old name too, until 0.2."""

_COUNTS: Final = ("refused_puts", "puts", "gets")
"""The figures of a queue that only grow: its section has them, tables do not."""

_IN_JSON_ONLY: Final = ("queues",)
_IF_ANY: Final = ("passed_over",)
"""Columns of other lists that are too wide for a page."""
_HEADS: Final = {
    "oldest_age": "oldest",
    "uncommitted": "uncom",
    "ipprocs": "inputs",
    "opprocs": "outputs",
    "trigger_pending": "starts",
    "trigger_running": "running",
    "dead_lettered": "dead",
}
"""Of the columns, what is not said by the name of the figure, or not as briefly."""


@click.command()
@click.argument("queue", required=False)
@click.option("--json", "in_json", is_flag=True, help="Everything, as one JSON object.")
@click.option(
    "--watch",
    is_flag=False,
    flag_value=WATCH_SECONDS,
    type=click.FloatRange(0.1, 86_400),
    metavar="[SECONDS]",
    help=f"Again and again, each {WATCH_SECONDS:g} s or as given, until Ctrl-C; with --json an object a line.",
)
@with_url
def status(queue: str | None, *, in_json: bool, watch: float | None, url: str) -> None:
    """Show the queue manager in figures, or QUEUE alone: all of its figures, and its handlers and consumers.

    Connections, journal, queues, and the starts that their triggers have pending; handlers, with their last errors and
    what crashed; consumers with their claims and how far they are behind; prepared units. Empty dead-letter queues are
    counted, not listed.
    """

    async def text(connection: Connection) -> str:
        figures, dead = await _figures(connection, queue)
        if in_json:
            return json.dumps(figures)
        return "\n".join(in_words(figures, dead) if queue is None else about_queue(figures))

    if watch is not None:
        converse(url, lambda connection: repeat(partial(text, connection), watch, in_lines=in_json))
    elif in_json:
        print(converse(url, text))
    else:
        say(converse(url, text))


async def _figures(connection: Connection, queue: str | None) -> tuple[dict[str, Any], list[str]]:
    """The status, or what it has about one queue; and the names of the dead-letter queues."""
    figures = await connection.status()
    if queue is None:
        return figures, await dead_letter_queues(connection)
    [found] = [each for each in figures["queues"] if each["name"] == queue] or [None]
    if found is None:
        raise MQError(MQRC.UNKNOWN_OBJECT_NAME, f"{queue} is no local queue of {figures['name']}")
    consumers = [each for each in figures["consumers"] if queue in each["queues"].split(", ")]
    handlers = [each for each in figures["handlers"] if each["queue"] == queue]
    return {"queue": found, "handlers": handlers, "consumers": consumers}, []


def about_queue(figures: Mapping[str, Any]) -> Iterator[str]:
    """The figures about one queue as lines: its own, a section for each of its handlers, its consumers as a table."""
    own = _by_new_names(figures["queue"])
    yield from _section(f"queue {own.pop('name')}", own)
    for each in map(_by_new_names, figures["handlers"]):
        reported = {name: value for name, value in each.items() if name not in _OWN_SECTION and value != ""}
        yield ""
        yield from _section(f"handler {each['handler']}".rstrip(), {**reported, **_means(each)})
        yield from _crashes([each])
    yield from _consumers(figures["consumers"])


def in_words(figures: Mapping[str, Any], dead: Collection[str] = ()) -> Iterator[str]:
    """The figures as lines: the queue manager, a section for each of its parts, then as tables the queues that hold,
    did or await something, the handlers with their last errors, the consumers and the prepared units. Of the queues in
    `dead`, which are for dead letters, those that are empty are only counted.
    """
    parts = {name: value for name, value in figures.items() if isinstance(value, dict)}
    yield from _section(
        "queue manager", {name: each for name, each in figures.items() if name not in (*parts, *_LISTS)}
    )
    for name, values in parts.items():
        yield ""
        yield from _section(name, values)
    worth = [_by_new_names(queue) for queue in figures.get("queues", ()) if _worth_showing(queue)]
    queues = [queue for queue in worth if queue["name"] not in dead or _busy(queue)]
    empty = [name for name in _SELDOM if not any(queue.get(name) for queue in queues)]
    yield from _listed(_LISTS["queues"], queues, [*empty, *_COUNTS])
    if folded := len(worth) - len(queues):
        yield f"{folded} dead-letter queue{' is' if folded == 1 else 's are'} empty"
    yield from _handlers([_by_new_names(each) for each in figures.get("handlers", ())])
    yield from _consumers(figures.get("consumers", ()))
    yield from _listed(_LISTS["prepared_units"], figures.get("prepared_units", ()), _IN_JSON_ONLY)
    yield from _listed(_LISTS["units_of_work"], figures.get("units_of_work", ())[:UNITS_SHOWN], ())


def _by_new_names(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a queue or a handler, each once: without the old names that are there beside new ones."""
    return {name: value for name, value in figures.items() if _NEW_NAMES.get(name) not in figures}


def _consumers(consumers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    nothing = [name for name in _IF_ANY if not any(each.get(name) for each in consumers)]
    yield from _listed(_LISTS["consumers"], consumers, [*_IN_JSON_ONLY, *nothing])


def _listed(what: str, elements: Iterable[Mapping[str, Any]], without: Sequence[str]) -> Iterator[str]:
    """A table of what there is of something, a line for each, without these columns."""
    shown = [{name: value for name, value in each.items() if name not in without} for each in elements]
    if shown:
        yield ""
        yield from narrow_table([_heads(what, shown[0]), *map(_cells, shown)])


def _handlers(handlers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the counts of each queue under each handler, and its last error."""
    counted = [name for name, value in (handlers[0] if handlers else {}).items() if isinstance(value, int)]
    shown = [name for name in counted if name in _OF_HANDLERS or any(each.get(name) for each in handlers)]
    rows = [{"name": _handler(each), **{name: each[name] for name in shown}, **_means(each)} for each in handlers]
    yield from _listed(_LISTS["handlers"], rows, ())
    for each in handlers:
        if each["last_error"]:
            error = str(each["last_error"]).partition("\n")[0]
            yield f"last error of {_handler(each)}, {in_utc(each['last_error_at'])}: {error}"
    yield from _crashes(handlers)


def _crashes(handlers: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each queue with messages whose worker ended, or was gone, while it had them."""
    for each in handlers:
        if count := each.get("crashed"):
            many = "1 message" if count == 1 else f"{count:,} messages"
            yield f"crashed: {many} of {_handler(each)}, whose worker ended or lost its line while it handled them"


def _handler(figures: Mapping[str, Any]) -> str:
    return f"{figures['queue']} {figures['handler']}".rstrip()


def _means(figures: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean times that messages waited for their handlers, and that these ran."""
    return {"wait": _mean(figures["waited"]), "run": _mean(figures["ran"])}


def _mean(duration: Mapping[str, Any]) -> float:
    """The mean of what took so many seconds in all."""
    return float(duration["sum"]) / max(int(duration["count"]), 1)


def _section(title: str, values: Mapping[str, Any]) -> Iterator[str]:
    """A title, and below it a line for each value."""
    yield title
    for name, value in values.items():
        yield f"  {name.replace('_', ' '):<18} {_shown(name, value)}"


def _shown(name: str, value: object) -> str:
    """A value for people: with its unit, where it has one."""
    match value:
        case None:
            return "never"
        case bool():
            return "yes" if value else "no"
        case int() if name in _IN_BYTES:
            return size(value)
        case int():
            return f"{value:,}"
        case float() if name in _INSTANTS:
            return in_utc(value) if value else "never"
        case float():
            return f"{value:,.3f} s"
        case list():
            return ", ".join(map(str, value)) or "none"
        case dict():
            return ", ".join(f"{key} {_shown(key, each)}" for key, each in value.items()) or "none"
        case _:
            return str(value).replace("\n", f"\n{'':<21}")


def size(count: int) -> str:
    """So many bytes, in the unit that leaves few digits: `512 B`, `1.5 KiB`, `16.0 MiB`."""
    if count < KIB:
        return f"{count} B"
    amount, unit = count / KIB, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if amount < KIB:
            break
        amount, unit = amount / KIB, larger
    return f"{amount:,.1f} {unit}"


def _worth_showing(queue: Mapping[str, Any]) -> bool:
    """True if a queue is a user's, or one of the system's that something happens on."""
    return not str(queue.get("name", "")).startswith("SYSTEM.") or _busy(queue)


def _busy(queue: Mapping[str, Any]) -> bool:
    return any(value for name, value in queue.items() if name not in ("name", *_COUNTS))


def _heads(what: str, element: Mapping[str, Any]) -> list[str]:
    return [what if name == "name" else _HEADS.get(name, name.replace("_", " ")) for name in element]


def _cells(element: Mapping[str, Any]) -> list[str]:
    return [_shown(name, value) for name, value in element.items()]


def narrow_table(rows: Sequence[list[str]]) -> Iterator[str]:
    """A table no wider than a page: where the first column is too wide for it, a long cell of it has its own line."""
    rest = sum(2 + max(map(len, column)) for column in list(zip(*rows, strict=True))[1:])
    room = max(PAGE_WIDTH - rest, 0)
    long = {first for first, *_ in rows if len(first) > room}
    lines = table([["" if row[0] in long else row[0], *row[1:]] for row in rows])
    for row, line in zip(rows, lines, strict=True):
        if row[0] in long:
            yield row[0]
        yield line


def table(rows: Iterable[list[str]]) -> Iterator[str]:
    """Rows in columns as wide as their widest cell; the first column stands left, figures stand right."""
    held = list(rows)
    widths = [max(map(len, column)) for column in zip(*held, strict=True)]
    for first, *others in held:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        yield "  ".join(cells).rstrip()
