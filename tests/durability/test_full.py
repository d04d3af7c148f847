"""A daemon whose disk is full."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from broker import MQError
from broker.mqi import MQRC
from tests.durability import full
from tests.durability.daemon import daemon
from tests.durability.ledger import Ledger
from tests.durability.outcome import UnavailableError
from tests.durability.program import DEFINITIONS, Program, browsed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.durability.outcome import Outcome


@pytest.mark.parametrize("scenario", [full.database_full, full.disk_full, full.disk_filled_by_another])
async def test_a_full_disk_refuses_puts_and_loses_nothing(
    scenario: Callable[[Path], Awaitable[Outcome]], tmp_path: Path
) -> None:
    try:
        await scenario(tmp_path)
    except UnavailableError as why:
        pytest.skip(str(why))


async def test_a_daemon_whose_disk_is_full_starts_with_the_definitions_that_it_has(tmp_path: Path) -> None:
    try:
        with full.small_disk(tmp_path) as disk:
            async with daemon(tmp_path, DEFINITIONS, disk / "data", full.SETTINGS) as server:
                await server.kill()
                full.occupy(disk / "other")
                await server.launch()
                try:
                    await server.ready()
                finally:
                    (disk / "other").unlink()
                    await server.end()
    except UnavailableError as why:
        pytest.skip(str(why))


async def test_the_gets_of_a_commit_that_found_no_room_count_as_backed_out(tmp_path: Path) -> None:
    async with full.defined(tmp_path, tmp_path / "data") as server:
        await server.kill()
        server.pages = full.PAGES
        await server.start()
        async with AsyncExitStack() as stack:
            program = await Program.start(stack, server.url, "A", Ledger())
            await full.fill_up(program)
            unit = program.ledger.begin()
            await program.get(unit, "R")
            for _ in range(20):
                await program.put(unit, "Q", 16_000)
            with pytest.raises(MQError) as refusal:
                await program.commit(unit)
            assert refusal.value.reason == MQRC.BACKED_OUT
            (key,) = unit.gets
            assert [each.backout_count for each in (await browsed(server.url))["R"] if each.key == key] == [1]


async def test_messages_are_got_one_by_one_on_a_full_disk(tmp_path: Path) -> None:
    try:
        await full.got_one_by_one(tmp_path, 2_000)
    except UnavailableError as why:
        pytest.skip(str(why))


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_a_hundred_thousand_messages_are_got_one_by_one_on_a_full_disk(tmp_path: Path) -> None:
    try:
        await full.got_one_by_one(tmp_path, 100_000)
    except UnavailableError as why:
        pytest.skip(str(why))
