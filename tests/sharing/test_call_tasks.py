"""Tasks that work for calls on shared queues are kept for the next, and end with the queue manager."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from unittest.mock import patch

import anyio

from broker.sharing.members.call_tasks import CallTasks

_program: ContextVar[str] = ContextVar("program")


class Work:
    """Work that goes on until it may end."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.may_end = asyncio.Event()
        self.ended = False
        self.program = ""

    async def __call__(self) -> None:
        self.task = asyncio.current_task()
        self.program = _program.get("")
        await self.may_end.wait()
        self.ended = True


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def begun(tasks: CallTasks, count: int) -> list[Work]:
    works = [Work() for _ in range(count)]
    for work in works:
        tasks.start(work())
    await turns()
    return works


async def end(works: list[Work]) -> None:
    for work in works:
        work.may_end.set()
    await turns()


async def test_works_at_the_same_time_have_a_task_each_and_later_ones_have_theirs() -> None:
    async with anyio.create_task_group() as group:
        tasks = CallTasks(group.start_soon)
        first = await begun(tasks, 3)
        assert len({work.task for work in first}) == 3
        await end(first)
        second = await begun(tasks, 3)
        assert {work.task for work in second} == {work.task for work in first}
        await end(second)
        tasks.stop()
    assert all(work.ended for work in first + second)


async def test_no_more_are_kept_than_may_be() -> None:
    with patch("broker.sharing.members.call_tasks.IDLE_MAX", 2):
        async with anyio.create_task_group() as group:
            tasks = CallTasks(group.start_soon)
            works = await begun(tasks, 5)
            await end(works)
            assert sum(work.task is not None and work.task.done() for work in works) == 3
            tasks.stop()


async def test_those_at_work_end_behind_it_when_the_queue_manager_ends_even_cancelled() -> None:
    async with anyio.create_task_group() as group:
        tasks = CallTasks(group.start_soon)
        (idle,) = await begun(tasks, 1)
        await end([idle])
        (working,) = await begun(tasks, 1)
        group.cancel_scope.cancel()
        tasks.stop()
        await turns_shielded()
        assert not working.ended
        working.may_end.set()
    assert working.ended


async def test_work_that_begins_when_the_queue_manager_ends_is_done() -> None:
    async with anyio.create_task_group() as group:
        tasks = CallTasks(group.start_soon)
        tasks.stop()
        works = await begun(tasks, 2)
        await end(works)
    assert all(work.ended for work in works)


async def test_a_task_has_nothing_of_the_program_that_called_first() -> None:
    async with anyio.create_task_group() as group:
        tasks = CallTasks(group.start_soon)
        token = _program.set("first")
        works = await begun(tasks, 1)
        _program.reset(token)
        await end(works)
        assert works[0].program == ""
        tasks.stop()


async def turns_shielded() -> None:
    with anyio.CancelScope(shield=True):
        await turns()
