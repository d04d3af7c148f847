"""`evermq status`: the queue manager in figures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from broker.cli.conversation import converse, with_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from broker import Connection


@click.command()
@click.option("--json", "in_json", is_flag=True, help="Everything, as one JSON object.")
@with_url
def status(*, in_json: bool, url: str) -> None:
    """Show the queue manager in figures.

    Connections, journal, queues, and the starts that their triggers have pending.
    """
    figures = converse(url, _figures)
    print(json.dumps(figures) if in_json else "\n".join(told(figures)))


async def _figures(connection: Connection) -> dict[str, Any]:
    return await connection.status()


def told(figures: Mapping[str, Any]) -> Iterator[str]:
    """The figures as lines: what is single first, then the queues that hold, did or await something, as a table."""
    for name, value in figures.items():
        if name != "queues":
            yield f"{name}: {_inline(value)}"
    queues = [queue for queue in figures.get("queues", ()) if _worth_showing(queue)]
    if queues:
        yield ""
        yield from table([list(queues[0]), *([_inline(value) for value in queue.values()] for queue in queues)])


def _worth_showing(queue: Mapping[str, Any]) -> bool:
    """Whether a queue is a user's, or one of the system's that something happens on."""
    return not str(queue.get("name", "")).startswith("SYSTEM.") or any(value for value in list(queue.values())[1:])


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={_inline(each)}" for key, each in value.items())
    return str(value)


def table(rows: Iterable[list[str]]) -> Iterator[str]:
    """Rows in columns as wide as their widest cell; the first column stands left, figures stand right."""
    held = list(rows)
    widths = [max(map(len, column)) for column in zip(*held, strict=True)]
    for first, *others in held:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        yield "  ".join(cells).rstrip()
