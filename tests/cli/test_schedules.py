"""`evermq schedules` against a daemon in a process of its own."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING

import pytest

from triggers import App

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

    from tests.cli.conftest import RunningDaemon

    Evermq = Callable[..., Result]

NAME = "cli.nightly"
QUEUE = "PERIODIC.CLI.NIGHTLY"


async def nightly() -> None:
    """Run never: no test lasts until then."""


@pytest.fixture
def registered(daemon: RunningDaemon, on: Evermq) -> None:
    """The schedule of an app that has run and runs no more."""
    app = App(daemon.url, name="cli")
    app.cron("0 3 29 2 *", tz="Europe/Berlin")(nightly)

    async def run() -> None:
        async with app.running():
            pass

    asyncio.run(run())
    on("mqsc", input=f"CLEAR QLOCAL('{QUEUE}.RUN')\nALTER QLOCAL('{QUEUE}') TRIGGER\n".encode())


@pytest.mark.usefixtures("registered")
def test_schedules_are_listed(on: Evermq) -> None:
    listed = on("schedules", "list")
    assert listed.exit_code == 0
    head, line = listed.stdout.splitlines()
    assert head.split() == ["schedule", "comes", "next", "runs"]
    assert re.fullmatch(r"cli\.nightly +cron 0 3 29 2 \* Europe/Berlin +20\d\d-02-29T02:00:00Z +0", line)
    reported = json.loads(on("schedules", "list", "--json").stdout)
    assert re.fullmatch(r"20\d\d-02-29T02:00:00Z", reported.pop("next"))
    assert reported == {
        "name": NAME,
        "queue": QUEUE,
        "schedule": "cron 0 3 29 2 * Europe/Berlin",
        "missed": "one",
        "overlap": "skip",
        "paused": False,
        "runs": 0,
    }


@pytest.mark.usefixtures("registered")
def test_a_schedule_is_paused_and_resumed(on: Evermq) -> None:
    assert on("schedules", "pause", NAME).stdout == f"{NAME} is paused\n"
    assert " paused " in on("schedules", "list").stdout
    resumed = on("schedules", "resume", "nightly")
    assert (resumed.exit_code, resumed.stdout.split(" next run ")[0]) == (0, f"{NAME} is resumed,")
    assert " paused " not in on("schedules", "list").stdout


@pytest.mark.usefixtures("registered")
def test_a_schedule_is_run_at_once_and_once(on: Evermq) -> None:
    ran = on("schedules", "run", QUEUE)
    assert (ran.exit_code, ran.stdout) == (0, f"{NAME} is to run now\n")
    assert json.loads(on("schedules", "list", "--json").stdout)["runs"] == 1
    again = on("schedules", "run", NAME)
    assert again.exit_code == 10
    assert again.stderr == (f"evermq: {NAME} runs already, or is to be tried again, and its runs do not overlap\n")


@pytest.mark.usefixtures("registered")
def test_a_schedule_is_removed_with_its_queues(on: Evermq) -> None:
    on("schedules", "run", NAME)
    removed = on("schedules", "remove", NAME)
    assert (removed.exit_code, removed.stdout) == (0, f"{NAME} is removed\n")
    assert on("schedules", "list").stdout == ""
    shown = on("mqsc", input=f"DISPLAY QLOCAL('{QUEUE}*')\nDISPLAY PROCESS('{QUEUE}*')\n".encode()).stdout
    assert [line for line in shown.splitlines() if re.search(rf"(QUEUE|PROCESS)\({QUEUE}(\.RUN)?\)", line)] == []


@pytest.mark.parametrize("verb", ["pause", "resume", "run", "remove"])
@pytest.mark.usefixtures("registered")
def test_a_schedule_that_is_not_there_is_one_line_that_names_those_that_are(on: Evermq, verb: str) -> None:
    result = on("schedules", verb, "weekly")
    assert (result.exit_code, result.stderr) == (
        10,
        f"evermq: there is no schedule weekly; there are: {NAME}\n",
    )
