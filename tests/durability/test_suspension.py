"""A daemon, and a client, that are suspended and go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.durability import suspension

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_daemon_suspended_for_a_moment_goes_on(tmp_path: Path) -> None:
    await suspension.short(tmp_path, seed=1)


async def test_a_daemon_suspended_until_it_is_given_up_loses_nothing(tmp_path: Path) -> None:
    await suspension.long(tmp_path, seed=1)


async def test_a_client_suspended_until_it_is_given_up_commits_nothing(tmp_path: Path) -> None:
    await suspension.client(tmp_path)
