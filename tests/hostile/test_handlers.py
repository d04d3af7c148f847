"""Handlers can neither end the daemon nor keep it alive, and a signal ends it only if it says so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.durability.daemon import COULD_NOT_RUN, daemon
from tests.hostile import handlers
from tests.hostile.test_hostile import name
from tests.hostile.verdict import judged

if TYPE_CHECKING:
    from pathlib import Path

    from tests.hostile.scene import Attack


@pytest.mark.parametrize("attack", handlers.ATTACKS, ids=name)
async def test_no_handler_or_signal_harms_others(attack: Attack, tmp_path: Path) -> None:
    assert (await judged(attack, tmp_path)).faults == ()


async def test_a_daemon_starts_again_where_a_handler_raised_a_base_exception(tmp_path: Path) -> None:
    async with daemon(tmp_path, handlers.DEFINITIONS, settings=handlers.SETTINGS) as server:
        for _ in range(2):
            await handlers.start(server.url, "RAISE.NOTANEXCEPTION")
            await server.stop()
            await server.start()
        await handlers.start(server.url, "RAISE.SYSTEMEXIT")


async def test_a_handler_that_handles_no_cancellation_cannot_keep_the_daemon_alive(tmp_path: Path) -> None:
    settings = {**handlers.SETTINGS, "EVERMQ_QUEUE_MANAGER_QUIESCE_TIMEOUT": "1"}
    async with daemon(tmp_path, handlers.DEFINITIONS, settings=settings) as server:
        await handlers.start(server.url, "IGNORE")
        server.terminate()
        async with asyncio.timeout(60):
            assert await server.ended() == COULD_NOT_RUN
        assert "ignore_cancellation" in "".join(server.log)
