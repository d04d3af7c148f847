"""A daemon whose power is cut. Skipped where a file system cannot be mounted, or nothing be put before a daemon."""

from __future__ import annotations

import os
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.durability.cuts import cut_under_load, without_syncs
from tests.durability.image import failing_image, image, thin_image
from tests.durability.outcome import UnavailableError
from tests.durability.writeback import carry_over_failing, log_failing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def where_it_can_be_run() -> Iterator[None]:
    try:
        yield
    except UnavailableError as why:
        pytest.skip(str(why))


def test_what_is_synced_survives_a_cut_and_what_is_not_is_gone(tmp_path: Path) -> None:
    with where_it_can_be_run(), image(tmp_path) as disk:
        file = disk.path / "file"
        file.write_bytes(b"synced")
        disk.sync()
        file.write_bytes(b"written")
        disk.cut()
        with pytest.raises(OSError, match="Input/output error"):
            file.write_bytes(b"too late")
        disk.remount()
        assert file.read_bytes() == b"synced"


def test_a_cut_may_keep_some_pages_of_what_is_not_synced(tmp_path: Path) -> None:
    with where_it_can_be_run(), image(tmp_path) as disk:
        file = disk.path / "file"
        file.write_bytes(bytes(1_000_000))
        disk.sync()
        with file.open("r+b") as opened:
            opened.write(b"x" * 1_000_000)
        disk.write_back_some(Random(1))
        disk.cut()
        disk.remount()
        assert 0 < file.read_bytes().count(b"x") < 1_000_000


def test_a_thin_volume_without_room_takes_only_what_is_written_over_something(tmp_path: Path) -> None:
    with (
        where_it_can_be_run(),
        thin_image(tmp_path) as thin,
        (thin.disk.path / "file").open("wb", buffering=0) as file,
    ):
        file.write(b"first")
        thin.disk.sync()
        with thin.short_of_room():
            file.seek(0)
            file.write(b"again")
            thin.disk.sync()
            file.write(bytes(100_000))
            with pytest.raises(OSError, match="No space left"):
                os.fsync(file.fileno())


def test_a_page_whose_write_back_failed_is_taken_for_written_until_it_is_read_again(tmp_path: Path) -> None:
    with where_it_can_be_run(), failing_image(tmp_path) as device:
        with (device.disk.path / "file").open("w+b", buffering=0) as file:
            file.write(b"first")
            device.disk.sync()
            with device.failing():
                file.seek(0)
                file.write(b"again")
                with pytest.raises(OSError, match="Input/output error"):
                    os.fsync(file.fileno())
            os.fsync(file.fileno())
            file.seek(0)
            assert file.read() == b"again"
        device.disk.remount()
        assert (device.disk.path / "file").read_bytes() == b"first"


async def test_a_daemon_whose_power_is_cut_keeps_its_promises(tmp_path: Path) -> None:
    with where_it_can_be_run():
        await cut_under_load(tmp_path, seed=1, cuts=3)


async def test_a_daemon_that_syncs_nothing_is_found_out(tmp_path: Path) -> None:
    with where_it_can_be_run():
        await without_syncs(tmp_path, seed=1, cuts=1)


@pytest.mark.parametrize(
    "orderly",
    [pytest.param(False, id="power cut"), pytest.param(True, id="orderly stop", marks=pytest.mark.slow)],
)
async def test_a_carry_over_that_fails_for_a_moment_loses_nothing(orderly: bool, tmp_path: Path) -> None:
    with where_it_can_be_run():
        await carry_over_failing(tmp_path, range(1, 2), orderly=orderly)


@pytest.mark.parametrize(
    "direct",
    [pytest.param(True, id="past the page cache"), pytest.param(False, id="through it", marks=pytest.mark.slow)],
)
async def test_a_write_of_the_log_that_fails_for_a_moment_loses_nothing(direct: bool, tmp_path: Path) -> None:
    with where_it_can_be_run():
        await log_failing(tmp_path, range(1, 2), direct=direct)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(100, 105))
async def test_a_daemon_whose_power_is_cut_fifty_times_keeps_its_promises(tmp_path: Path, seed: int) -> None:
    with where_it_can_be_run():
        await cut_under_load(tmp_path, seed, cuts=50)
