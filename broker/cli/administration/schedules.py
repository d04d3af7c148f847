"""`evermq schedules`: periodic work, listed, paused and resumed, run at once, removed."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from broker.cli.administration.status import table
from broker.cli.conversation import converse, with_url
from broker.cli.messages.pause import switched
from broker.cli.program import SomeFailedError
from broker.cli.terminal.terminal import say
from broker.presentation.moments import instant_in_words

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from broker import Connection
    from triggers.schedule.schedules import ListedSchedule


@click.group()
def schedules() -> None:
    """List schedules of periodic work, pause and resume them, run them at once, remove them.

    NAME is app and function, as in shop.report, the function alone where that is clear, or the name of its queue. What
    a schedule says is what the code says that was started last.
    """


@schedules.command("list")
@click.option("--json", "in_json", is_flag=True, help="One JSON object a schedule.")
@with_url
def list_schedules(*, in_json: bool, url: str) -> None:
    """List the schedules, with the instants of their next runs in UTC."""
    from triggers.schedule.schedules import listed

    found = converse(url, listed)
    if in_json:
        for each in found:
            print(json.dumps(reported(each)))
    elif found:
        say("\n".join(table(in_rows(found))))


@schedules.command("pause")
@click.argument("name")
@with_url
def pause_schedule(name: str, *, url: str) -> None:
    """Let NAME come due no more, until it is resumed. Runs that there are go on.

    When it is resumed, what was missed is made up for as the schedule says (missed=).
    """

    async def paused(connection: Connection, schedule: ListedSchedule) -> str:
        await switched(connection, schedule.q_name, on=False)
        return f"{schedule.name} is paused"

    say(_with(url, name, paused))


@schedules.command("resume")
@click.argument("name")
@with_url
def resume_schedule(name: str, *, url: str) -> None:
    """Let NAME come due again."""

    async def resumed(connection: Connection, schedule: ListedSchedule) -> str:
        await switched(connection, schedule.q_name, on=True)
        return f"{schedule.name} is resumed, next run {moment_of(schedule.next_at)}"

    say(_with(url, name, resumed))


@schedules.command("run")
@click.argument("name")
@with_url
def run_schedule(name: str, *, url: str) -> None:
    """Run NAME at once. Its next run comes when it would have come."""
    from triggers.schedule.schedules import run_now

    async def put(connection: Connection, schedule: ListedSchedule) -> str:
        if not await run_now(connection, schedule, time.time()):
            raise SomeFailedError(f"{schedule.name} runs already, or is to be tried again, and its runs do not overlap")
        return f"{schedule.name} is to run now"

    say(_with(url, name, put))


@schedules.command("remove")
@click.argument("name")
@with_url
def remove_schedule(name: str, *, url: str) -> None:
    """Remove NAME with its queues and the runs on them, when no program has the function any more.

    One that has it registers it again when it starts.
    """
    from triggers.schedule.schedules import remove

    async def removed(connection: Connection, schedule: ListedSchedule) -> str:
        await remove(connection, schedule)
        return f"{schedule.name} is removed"

    say(_with(url, name, removed))


def _with(url: str, name: str, work: Callable[[Connection, ListedSchedule], Awaitable[str]]) -> str:
    """Do something with the schedule of a name."""
    from triggers.schedule.schedules import NoScheduleError, found

    async def conversation(connection: Connection) -> str:
        try:
            return await work(connection, await found(connection, name))
        except NoScheduleError as error:
            raise SomeFailedError(str(error)) from error

    return converse(url, conversation)


def reported(schedule: ListedSchedule) -> dict[str, Any]:
    """A schedule as it is written in JSON."""
    said = schedule.schedule
    fields = {
        "name": schedule.name,
        "queue": schedule.q_name,
        "schedule": None if said is None else said.words(),
        "missed": None if said is None else said.missed,
        "overlap": None if said is None else said.overlap,
        "next": moment_of(schedule.next_at) if schedule.next_at else None,
        "paused": schedule.paused,
        "runs": schedule.runs,
    }
    return {name: value for name, value in fields.items() if value is not None}


def in_rows(schedules: Sequence[ListedSchedule]) -> list[list[str]]:
    """Schedules as the rows of a table, with its heads."""
    rows = [
        [
            each.name,
            "" if each.schedule is None else each.schedule.words(),
            "paused" if each.paused else moment_of(each.next_at),
            str(each.runs),
        ]
        for each in schedules
    ]
    return [["schedule", "comes", "next", "runs"], *rows]


def moment_of(instant: float) -> str:
    """An instant as text, in UTC; a dash for none."""
    return instant_in_words(instant) if instant else "-"
