"""The command `evermq top`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Final

import anyio
import click

from broker.cli.administration.status import table
from broker.cli.conversation import converse, with_url
from broker.cli.program import CannotRunError
from broker.cli.terminal.terminal import say
from broker.cli.top.tables import HANDLERS, ORDERS, QUEUES, UNITS, handler_rows, queue_rows, title, unit_rows
from broker.presentation.rates import UPDATE_SECONDS, Observation, Rates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker import Connection

_NEEDS_EXTRA: Final = "evermq top needs textual: pip install 'evermq[top]'; without it: evermq top --once"
_NEEDS_TERMINAL: Final = "evermq top needs a terminal; for one frame in a pipe: evermq top --once"


@click.command()
@click.option("--once", is_flag=True, help="Print one frame, and end.")
@click.option("--sort", type=click.Choice(ORDERS), default=ORDERS[0], show_default=True, help="The order of queues.")
@click.option(
    "--filter", "pattern", metavar="TEXT", default="", help="Only queues with this in their names, or like ORDERS.*"
)
@with_url
def top(*, once: bool, sort: str, pattern: str, url: str) -> None:
    """Show the queue manager at work, twice a second: queues by the age of their oldest message, by rate or by depth;
    handlers with their rates and failures; units of work and who holds them.

    Keys: s the next order, / only queues with a text, p pause and go on, e explain the queue, q quit. It needs the
    extra `top`, pip install 'evermq[top]', but for --once.
    """
    if once:
        say(converse(url, lambda connection: frame(connection, sort, pattern)))
        return
    if not _on_terminal():
        raise CannotRunError(_NEEDS_TERMINAL)
    try:
        from broker.cli.top.screen import run
    except ModuleNotFoundError as error:
        raise CannotRunError(_NEEDS_EXTRA) from error
    converse(url, lambda connection: run(connection, sort, pattern))


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


async def frame(connection: Connection, order: str, pattern: str) -> str:
    """Return one frame as text: the rates are those of half a second."""
    before = Observation(monotonic(), await connection.status())
    await anyio.sleep(UPDATE_SECONDS)
    return "\n".join(lines(Rates(before, Observation(monotonic(), await connection.status())), order, pattern))


def lines(rates: Rates, order: str, pattern: str) -> Iterator[str]:
    """Yield the lines of a frame."""
    yield title(rates, f"{datetime.now(UTC):%H:%M:%S} UTC")
    shown = (QUEUES, queue_rows(rates, order, pattern)), (HANDLERS, handler_rows(rates)), (UNITS, unit_rows(rates))
    for heads, rows in shown:
        if rows:
            yield ""
            yield from table([list(heads), *rows])
