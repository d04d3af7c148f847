"""`evermq bench`: how fast this machine lets the queue manager be, and how near to that it comes.

The benchmarks are imported when they run: no other command waits for them.
"""

from __future__ import annotations

import json
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

import anyio
import click

from broker.cli.administration.status import PAGE_WIDTH, narrow_table
from broker.cli.conversation import run
from broker.cli.program import DONE, CannotRunError, SomeFailedError, lone
from broker.cli.signals import handle_signals
from broker.cli.terminal.progress import show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.benchmarks.report import Report
    from broker.benchmarks.session import BenchmarkSession

_RUNS: Final = 3
_QUICK_DIVISOR: Final = 10
_IN: Final = " " * 4


@click.command()
@click.option("--only", "names", multiple=True, metavar="NAME", help="Measure this alone; may be given several times.")
@click.option("--runs", type=click.IntRange(1), help=f"How often everything is measured.  [default: {_RUNS}]")
@click.option("--quick", is_flag=True, help="A tenth of the messages, and one run unless --runs says otherwise.")
@click.option("--json", "in_json", is_flag=True, help="Everything, as one JSON object.")
def bench(names: tuple[str, ...], runs: int | None, *, quick: bool, in_json: bool) -> int:
    """Measure the queue manager, and the limits of the machine beside it.

    Each figure is the median of several runs, with daemon and clients in processes of their own on loopback, and has
    beside it what bounds it and its share of that. Messages are persistent, and every one of them is accounted for.
    Daemons of its own are started with temporary folders: set TMPDIR to measure the disk that counts.
    """
    from broker.benchmarks.child import MeasurementError

    session = _session(names, runs or (1 if quick else _RUNS), _QUICK_DIVISOR if quick else 1)
    try:
        found = run(lambda: _measured(session))
    except Exception as error:
        cause = lone(error)
        if isinstance(cause, MeasurementError):  # of a limit: nothing has a share
            raise CannotRunError(str(cause)) from error
        raise
    show("")
    reported = found.as_json()
    print(json.dumps(reported) if in_json else "\n".join(_tables(reported)))
    if found.errors:
        raise SomeFailedError("; ".join(found.errors))
    return DONE


def _session(names: tuple[str, ...], runs: int, divisor: int) -> BenchmarkSession:
    from broker.benchmarks.catalog import LIMITS, WORKLOADS
    from broker.benchmarks.session import BenchmarkSession

    try:
        return BenchmarkSession.of(names, runs=runs, divisor=divisor, tell=show)
    except KeyError as unknown:
        known = ", ".join([*WORKLOADS, *LIMITS])
        raise click.UsageError(f"no benchmark has the name {unknown}: there are {known}") from None


async def _measured(session: BenchmarkSession) -> Report:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(handle_signals, name="signals")
        found = await session.report()
        tasks.cancel_scope.cancel()
    return found


def _tables(reported: dict[str, Any]) -> Iterator[str]:
    from broker.benchmarks.report import figure_rows, limit_rows

    for name, value in reported["machine"].items():
        yield f"{name}: {value}"
    for lines in (_figures(figure_rows(reported)), narrow_table(limit_rows(reported))):
        held = list(lines)
        if len(held) > 1:
            yield ""
            yield from held
    for each in reported["left_out"]:
        yield ""
        yield from wrap(f"not measured: {each}", PAGE_WIDTH)


def _figures(rows: list[list[str]]) -> Iterator[str]:
    """A line for each figure, and below it what bounds it and what was measured beside it."""
    lines = narrow_table([[*row[:5], row[7]] for row in rows])
    notes = iter(rows)
    for line in lines:
        yield line
        if line.strip() in {row[0] for row in rows[1:]}:  # a title that has a line of its own
            continue
        title, *_, unit, by, limit, _, details = next(notes)
        if title != rows[0][0] and (by or details):
            bound = f"bounded by {by}: {limit} {unit}" if by else ""
            yield from wrap(
                "; ".join(filter(None, (bound, details))), PAGE_WIDTH, initial_indent=_IN, subsequent_indent=_IN
            )
