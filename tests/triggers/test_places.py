"""Where tasks wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from triggers.testing.waits import outside_of, places

HERE = __file__


async def inner(event: asyncio.Event) -> None:
    await event.wait()  # inner


async def outer(event: asyncio.Event) -> None:
    await inner(event)  # outer


async def generator(event: asyncio.Event) -> AsyncIterator[int]:
    await event.wait()  # generator
    yield 1


async def loop_over(event: asyncio.Event) -> None:
    async for _ in generator(event):  # loop
        pass


def line(marked: str) -> int:
    """The number of the line that ends with this comment."""
    return next(n for n, text in enumerate(Path(HERE).read_text("utf-8").splitlines(), 1) if text.endswith(marked))


async def test_a_task_waits_at_a_line_of_each_of_its_coroutines() -> None:
    event = asyncio.Event()
    task = asyncio.ensure_future(outer(event))
    await asyncio.sleep(0)
    found = places(task)
    assert [(place.line, place.function) for place in found[:2]] == [
        (line("# outer"), "outer"),
        (line("# inner"), "inner"),
    ]
    assert found[2].function == "Event.wait"
    place = outside_of((str(Path(asyncio.__file__).parent),), found)
    assert str(place) == f"{HERE}:{line('# inner')} in inner"
    event.set()
    await task
    assert places(task) == []
    assert outside_of((), []) is None


async def test_it_may_wait_in_a_generator() -> None:
    event = asyncio.Event()
    task = asyncio.ensure_future(loop_over(event))
    await asyncio.sleep(0)
    assert line("# loop") in [place.line for place in places(task)]
    event.set()
    await task
