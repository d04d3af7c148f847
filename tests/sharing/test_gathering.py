"""Calls of one kind gather while statements that make others are under way (`StatementLine`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from broker.sharing.database.gathering import AT_ONCE, StatementLine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from anyio.abc import TaskGroup

TWO = 2


class Statements:
    """Calls, by number; the statements that make them, which end when they are told to."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._line: StatementLine[int] = StatementLine()
        self.under_way: dict[int, tuple[Sequence[int], anyio.Event]] = {}  # by the call that leads
        self.made: list[Sequence[int]] = []

    @property
    def idle(self) -> bool:
        return not self._line.under_way

    async def call(self, *numbers: int, most: int = TWO) -> None:
        for number in numbers:
            self._tasks.start_soon(self._call, number, most)
        await anyio.wait_all_tasks_blocked()

    async def _call(self, number: int, most: int) -> None:
        async with self._line.turn(number, most) as calls:
            if calls:
                ends = anyio.Event()
                self.under_way[number] = calls, ends
                await ends.wait()
                self.made.append(calls)

    async def end(self, number: int) -> None:
        self.under_way.pop(number)[1].set()
        await anyio.wait_all_tasks_blocked()

    @property
    def now(self) -> list[list[int]]:
        """The calls of the statements under way."""
        return [list(calls) for calls, _ in self.under_way.values()]


@pytest.fixture
async def statements() -> AsyncIterator[Statements]:
    async with anyio.create_task_group() as tasks:
        made = Statements(tasks)
        yield made
        while made.under_way:
            await made.end(next(iter(made.under_way)))
        assert made.idle


async def test_two_calls_are_two_statements_at_a_time(statements: Statements) -> None:
    await statements.call(1, 2)
    assert statements.now == [[1], [2]]
    await statements.end(1)
    await statements.call(3)
    assert statements.now == [[2], [3]]


async def test_of_four_callers_two_are_served_while_two_are_answered(statements: Statements) -> None:
    await statements.call(1, 2, 3, 4)
    assert statements.now == [[1], [2]]
    await statements.end(1)
    assert statements.now == [[2], [3, 4]]
    await statements.call(5)
    await statements.end(2)
    assert statements.now == [[3, 4]], "5 is one, and two are under way: it waits for another"
    await statements.call(6)
    assert statements.now == [[3, 4], [5, 6]]
    await statements.call(7, 8)
    await statements.end(3)
    assert statements.now == [[5, 6], [7, 8]]


async def test_what_waits_for_more_begins_when_nothing_is_under_way(statements: Statements) -> None:
    await statements.call(1, 2, 3, 4)
    await statements.end(1)
    await statements.end(2)
    await statements.call(5)
    assert statements.now == [[3, 4]]
    await statements.end(3)
    assert statements.now == [[5]]


async def test_calls_that_may_be_one_statement_at_a_time_all_go_into_the_next(statements: Statements) -> None:
    await statements.call(1, 2, 3, most=1)
    assert statements.now == [[1]]
    await statements.end(1)
    assert statements.now == [[2, 3]]


async def test_no_statement_makes_more_calls_than_it_may_and_none_is_forgotten(statements: Statements) -> None:
    calls = range(1, 3 * AT_ONCE)
    await statements.call(*calls, most=1)
    while statements.under_way:
        await statements.end(next(iter(statements.under_way)))
    assert [len(made) for made in statements.made] == [1, AT_ONCE, AT_ONCE, AT_ONCE - 2]
    assert [number for made in statements.made for number in made] == list(calls)
    assert statements.idle
