"""`evermq status`: the queue manager in figures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

from broker.cli.conversation import converse, with_url
from broker.cli.moment import instant_in_words
from broker.cli.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from broker import Connection

KIB: Final = 1024
PAGE_WIDTH: Final = 100

_IN_BYTES: Final = frozenset({"budget", "bytes", "free_bytes", "lag_bytes", "log_bytes", "log_bytes_max"})
_LISTS: Final = {"queues": "queue", "handlers": "handler", "consumers": "consumer", "prepared_units": "prepared unit"}
"""The figures that are lists, with what each element of them is."""

_OF_HANDLERS: Final = ("workers", "started", "running", "succeeded", "failed")
"""Columns of the handlers that are shown in any case; of the others those that have a figure."""

_SELDOM: Final = (
    "waiting", "next_release", "keys", "duplicates", "duplicates_with_other_data", "damaged", "claimed", "prepared"
)  # fmt: skip
"""Columns of the queues that are shown only where one of them has a figure."""

_IN_JSON_ONLY: Final = ("queues",)
_IF_ANY: Final = ("passed_over",)
"""Columns of other lists that are too wide for a page."""
_HEADS: Final = {
    "uncommitted": "uncom",
    "ipprocs": "inputs",
    "opprocs": "outputs",
    "trigger_pending": "starts",
    "trigger_running": "running",
}
"""Of the columns, what is not said by the name of the figure, or not as briefly."""


@click.command()
@click.option("--json", "in_json", is_flag=True, help="Everything, as one JSON object.")
@with_url
def status(*, in_json: bool, url: str) -> None:
    """Show the queue manager in figures.

    Connections, journal, queues, and the starts that their triggers have pending; consumers with their claims and how
    far they are behind; prepared units.
    """
    figures = converse(url, _figures)
    if in_json:
        print(json.dumps(figures))
    else:
        say("\n".join(in_words(figures)))


async def _figures(connection: Connection) -> dict[str, Any]:
    return await connection.status()


def in_words(figures: Mapping[str, Any]) -> Iterator[str]:
    """The figures as lines: the queue manager, a section for each of its parts, then as tables the queues that hold,
    did or await something, the handlers with their last errors, the consumers and the prepared units.
    """
    parts = {name: value for name, value in figures.items() if isinstance(value, dict)}
    yield from _section(
        "queue manager", {name: each for name, each in figures.items() if name not in (*parts, *_LISTS)}
    )
    for name, values in parts.items():
        yield ""
        yield from _section(name, values)
    queues = [queue for queue in figures.get("queues", ()) if _worth_showing(queue)]
    empty = [name for name in _SELDOM if not any(queue.get(name) for queue in queues)]
    yield from _listed(_LISTS["queues"], queues, empty)
    yield from _handlers(figures.get("handlers", ()))
    for list_name in ("consumers", "prepared_units"):
        elements = figures.get(list_name, ())
        nothing = [name for name in _IF_ANY if not any(each.get(name) for each in elements)]
        yield from _listed(_LISTS[list_name], elements, [*_IN_JSON_ONLY, *nothing])


def _listed(what: str, elements: Iterable[Mapping[str, Any]], without: Sequence[str]) -> Iterator[str]:
    """A table of what there is of something, a line for each, without these columns."""
    shown = [{name: value for name, value in each.items() if name not in without} for each in elements]
    if shown:
        yield ""
        yield from narrow_table([_heads(what, shown[0]), *map(_cells, shown)])


def _handlers(handlers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What has become of the messages of each queue under each handler, and what went wrong last."""
    counted = [name for name, value in (handlers[0] if handlers else {}).items() if isinstance(value, int)]
    shown = [name for name in counted if name in _OF_HANDLERS or any(each.get(name) for each in handlers)]
    times = {"waited": "wait", "ran": "run"}
    rows = [
        {
            "name": _handler(each),
            **{name: each[name] for name in shown},
            **{times[name]: _mean(each[name]) for name in times},
        }
        for each in handlers
    ]
    yield from _listed(_LISTS["handlers"], rows, ())
    for each in handlers:
        if each["last_error"]:
            at = instant_in_words(each["last_error_at"], "{:%Y-%m-%d %H:%M:%S} UTC".format)
            error = str(each["last_error"]).partition("\n")[0]
            yield f"last error of {_handler(each)}, {at}: {error}"


def _handler(figures: Mapping[str, Any]) -> str:
    return f"{figures['queue']} {figures['handler']}".rstrip()


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
        case float():
            return f"{value:,.3f} s"
        case dict():
            return ", ".join(f"{key} {_shown(key, each)}" for key, each in value.items()) or "none"
        case _:
            return str(value)


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
    """Whether a queue is a user's, or one of the system's that something happens on."""
    return not str(queue.get("name", "")).startswith("SYSTEM.") or any(value for value in list(queue.values())[1:])


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
