"""`evermq top`: its tables, one frame as text, and the program on a terminal of 80 by 24."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from textual.widgets import DataTable, Static

from broker import QueueManager
from broker.cli.top.command import lines
from broker.cli.top.screen import Explained, Top
from broker.cli.top.tables import handler_rows, queue_rows, unit_rows
from broker.mqi import MQOO, MQPMO
from broker.presentation.ages import age
from broker.presentation.rates import Observation, Rates
from broker.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from click.testing import Result
    from textual.pilot import Pilot

    from broker import Connection
    from tests.cli.conftest import RunningDaemon


def queue(name: str, depth: int = 0, oldest: float = 0.0, **figures: int) -> dict[str, Any]:
    return {"name": name, "depth": depth, "oldest_age": oldest, "getters": 0, **figures}


def handler(name: str, **figures: int) -> dict[str, Any]:
    return {"queue": name, "handler": "h", "running": 1, "succeeded": 0, "failed": 0, "dead_lettered": 0, **figures}


def look(at: float, *queues: dict[str, Any], handlers: tuple[dict[str, Any], ...] = ()) -> Observation:
    figures = {"name": "QM1", "quiescing": False, "connections": 2, "queues": queues, "handlers": handlers}
    unit = {"name": "shop", "user": "bob", "age": 70.0, "puts": 3, "gets": 1, "state": "ACTIVE"}
    return Observation(at, {**figures, "units_of_work": [unit]})


RATES = Rates(
    look(10.0, queue("OLD", 5, 90.0), queue("DEEP", 1000, 1.0), handlers=(handler("OLD"), handler("DEEP"))),
    look(
        12.0,
        queue("OLD", 5, 92.0),
        queue("DEEP", 1300, 3.0),
        queue("EMPTY"),
        queue("SYSTEM.IDLE"),
        queue("SYSTEM.BUSY", 1, 0.5),
        handlers=(handler("OLD", succeeded=7), handler("DEEP", succeeded=100, failed=4)),
    ),
)


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("age", ["OLD", "DEEP", "SYSTEM.BUSY", "EMPTY"]),
        ("rate", ["DEEP", "OLD", "SYSTEM.BUSY", "EMPTY"]),
        ("depth", ["DEEP", "OLD", "SYSTEM.BUSY", "EMPTY"]),
    ],
)
def test_queues_are_ordered_by_age_by_rate_or_by_depth(order: str, names: list[str]) -> None:
    assert [row[0] for row in queue_rows(RATES, order)] == names


def test_a_queue_that_counts_its_puts_and_gets_is_ordered_by_them() -> None:
    before = look(0.0, queue("A", puts=10, gets=10), queue("B", 7, 1.0, puts=0, gets=0))
    rates = Rates(before, look(2.0, queue("A", puts=30, gets=26), queue("B", 9, 3.0, puts=2, gets=0)))
    assert queue_rows(rates, "rate") == [
        ["A", "", "0", "10.0", "8.0", "", ""],
        ["B", "3.0 s", "9", "1.0", "", "+1.0", ""],
    ]


@pytest.mark.parametrize(
    ("pattern", "names"), [("o", ["OLD"]), ("*e*p", ["DEEP"]), ("system", ["SYSTEM.BUSY"]), ("none", [])]
)
def test_queues_are_filtered_by_a_part_of_their_names_or_a_pattern(pattern: str, names: list[str]) -> None:
    assert [row[0] for row in queue_rows(RATES, "age", pattern)] == names


def test_handlers_that_fail_come_first() -> None:
    assert handler_rows(RATES) == [
        ["DEEP h", "1", "50.0", "2.0", "4", "0"],
        ["OLD h", "1", "3.5", "", "0", "0"],
    ]


def test_units_of_work_are_shown_with_who_holds_them() -> None:
    assert unit_rows(RATES) == [["shop", "bob", "1 m 10 s", "3", "1", "ACTIVE"]]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, ""), (0.44, "0.4 s"), (59.9, "59.9 s"), (302, "5 m 02 s"), (11_240, "3 h 07 m"), (390_000, "4 d 12 h")],
)
def test_an_age_takes_few_characters(seconds: float, shown: str) -> None:
    assert age(seconds) == shown


def test_without_an_earlier_look_there_are_no_rates() -> None:
    assert {row[5] for row in queue_rows(Rates(None, RATES.now))} == {""}


def test_a_frame_is_no_wider_than_80_characters() -> None:
    shown = list(lines(RATES, "age", ""))
    assert max(map(len, shown)) <= 80
    assert [line.split()[0] for line in shown if line] == [
        "QM1:", "queue", "OLD", "DEEP", "SYSTEM.BUSY", "EMPTY", "handler", "DEEP", "OLD", "unit", "shop",
    ]  # fmt: skip


def test_one_frame_is_printed_into_a_pipe(daemon: RunningDaemon, evermq: Callable[..., Result]) -> None:
    assert evermq("mqsc", "--url", daemon.url, input=b"DEFINE QLOCAL(TOPPED) REPLACE\n").exit_code == 0
    assert evermq("put", "TOPPED", "x", "--url", daemon.url).exit_code == 0
    shown = evermq("top", "--once", "--filter", "TOPP*", "--url", daemon.url)
    assert (shown.exit_code, shown.stderr) == (0, "")
    first, _, head, row, *_ = shown.stdout.splitlines()
    assert first.startswith("QM1: ")
    assert (head.split()[0], row.split()[0]) == ("queue", "TOPPED")


def test_without_a_terminal_it_says_how_to_have_one_frame(evermq: Callable[..., Result]) -> None:
    refused = evermq("top")
    assert (refused.exit_code, refused.stderr) == (
        20,
        "evermq: evermq top needs a terminal; for one frame in a pipe: evermq top --once\n",
    )


def test_without_its_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, evermq: Callable[..., Result]
) -> None:
    monkeypatch.setattr("broker.cli.top.command._on_terminal", lambda: True)
    monkeypatch.setitem(sys.modules, "broker.cli.top.screen", None)
    refused = evermq("top")
    assert (refused.exit_code, refused.stderr) == (
        20,
        "evermq: evermq top needs textual: pip install 'evermq[top]'; without it: evermq top --once\n",
    )


# On the terminal


@asynccontextmanager
async def topped(commands: str = "") -> AsyncIterator[tuple[Top, Pilot[None], Connection, VirtualClock]]:
    """The program over a queue manager with the queues A, B and ORDERS, at its first look."""
    clock = VirtualClock()
    async with QueueManager.open(name="QM1", clock=clock) as manager, manager.connect("owner") as connection:
        await connection.mqsc(f"DEFINE QLOCAL(A)\nDEFINE QLOCAL(B)\nDEFINE QLOCAL(ORDERS)\n{commands}", check=True)
        top = Top(connection, "age", "")
        async with top.run_test(size=(80, 24)) as pilot:
            await seen(top, pilot)
            yield top, pilot, connection, clock


async def seen(top: Top, pilot: Pilot[None]) -> None:
    """Have it look once, and wait until that is shown."""
    top._look()
    await top.workers.wait_for_complete()
    await pilot.pause()


def shown(top: Top, name: str = "queues") -> list[list[str]]:
    table = top.screen_stack[0].query_one(f"#{name}", DataTable)
    return [[str(cell) for cell in table.get_row_at(number)] for number in range(table.row_count)]


def names(top: Top) -> list[str]:
    return [row[0] for row in shown(top)]


async def test_the_screen_has_queues_by_the_age_of_their_oldest_message() -> None:
    async with topped() as (top, pilot, connection, clock):
        await connection.put1("B", b"x")
        await clock.advance(65.0)
        await connection.put1("A", b"x")
        await seen(top, pilot)
        assert [row[:3] for row in shown(top)] == [["B", "1 m 05 s", "1"], ["A", "", "1"], ["ORDERS", "", "0"]]
        title = str(top.query_one("#title", Static).render())
        assert title.startswith("QM1: 2 messages, 1 connection ")
        assert title.endswith("by age")
        await pilot.press("s")
        assert str(top.query_one("#title", Static).render()).endswith("by rate")
        await pilot.press("s", "s")
        assert top.order == "age"


async def test_it_looks_twice_a_second_until_it_is_paused() -> None:
    async with topped() as (top, pilot, connection, _):
        await pilot.press("p")
        await connection.put1("A", b"x")
        await seen(top, pilot)
        assert [row[2] for row in shown(top)] == ["0", "0", "0"]
        assert "PAUSED" in str(top.query_one("#title", Static).render())
        await pilot.press("p")
        while shown(top)[0][2] != "1":  # it looks by itself
            await pilot.pause(0.05)


async def test_a_filter_is_typed_and_the_cursor_stays_with_its_queue() -> None:
    async with topped() as (top, pilot, connection, _):
        await pilot.press("down")
        assert top._chosen() == "B"
        await connection.put1("ORDERS", b"x")
        await seen(top, pilot)
        assert (names(top)[0], top._chosen()) == ("ORDERS", "B")
        await pilot.press("slash", *"ord", "enter")
        assert names(top) == ["ORDERS"]
        await pilot.press("slash", "backspace", "backspace", "backspace", "enter")
        assert sorted(names(top)) == ["A", "B", "ORDERS"]


async def test_e_explains_the_queue_and_any_of_its_keys_goes_back() -> None:
    async with topped("ALTER QLOCAL(A) GET(DISABLED)\n") as (top, pilot, *_):
        await pilot.press("e")
        assert isinstance(top.screen, Explained)
        assert "A has GET(DISABLED)" in top.screen.text
        await seen(top, pilot)  # the tables go on below
        await pilot.press("escape")
        assert not isinstance(top.screen, Explained)


async def test_units_of_work_are_on_the_screen_and_tables_without_rows_are_not() -> None:
    async with topped() as (top, pilot, connection, clock):
        assert not top.query_one("#units", DataTable).display
        async with connection.open("A", MQOO.OUTPUT) as queue:
            await queue.put(b"x", options=MQPMO.SYNCPOINT)
            await clock.advance(5.0)
            await seen(top, pilot)
            (row,) = shown(top, "units")
            assert (row[0], row[2:]) == ("owner", ["5.0 s", "1", "0", "ACTIVE"])
            assert top.query_one("#units", DataTable).display
            await connection.backout()


async def test_names_are_shown_as_they_are() -> None:
    async with topped() as (top, *_):
        top._fill("queues", [["[bold]A\x1b[0m", *[""] * 6]], ["x"])
        assert names(top) == ["[bold]A\\x1b[0m"]


async def test_it_ends_with_its_queue_manager() -> None:
    clock = VirtualClock()
    async with QueueManager.open(name="QM1", clock=clock) as manager:
        connection = await manager.connect("owner")
        top = Top(connection, "age", "")
        async with top.run_test(size=(80, 24)) as pilot:
            await connection.close()
            await seen(top, pilot)
        assert top.error is not None


async def test_q_quits() -> None:
    async with topped() as (top, pilot, *_):
        await pilot.press("q")
        await pilot.pause()
        assert (top.error, top.is_running) == (None, False)


async def test_an_answer_that_comes_after_somebody_has_quit_is_shown_nowhere() -> None:
    async with topped() as (top, pilot, connection, _):
        await pilot.press("q")
        await pilot.pause()
        await top._shutdown()  # the tables have gone
        await top._take_status()
        assert not connection.port.broken
