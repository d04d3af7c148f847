"""Backups as programs ask for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker import MQError, QueueManager
from broker.mqi import MQOO, MQRC
from broker.storage.disk.system_disk import SystemDisk
from broker.storage.tools.verify import verify

if TYPE_CHECKING:
    from pathlib import Path

    from broker import Connection, Queue
    from tests.conformance.crashes import DurableSystem
    from tests.conformance.system import System


async def test_a_queue_manager_is_started_on_a_backup_of_another(durable: DurableSystem, tmp_path: Path) -> None:
    connection = await durable.connect()
    async with connection.open("Q", MQOO.OUTPUT | MQOO.INPUT_SHARED) as queue:
        await queue.put_many([b"one", b"two"])
        await queue.get()
        await connection.backup(tmp_path / "backup")
        await queue.put(b"three")
        assert [message.data for message in await queue.get_many(3)] == [b"two", b"three"]
    assert verify(SystemDisk(tmp_path / "backup")).findings == []
    async with (
        QueueManager.open(name="QM1", data=tmp_path / "backup") as restored,
        restored.connect() as copy,
        copy.open("Q", MQOO.INPUT_SHARED) as kept,
    ):
        assert [message.data for message in await kept.get_many(3)] == [b"two"]


async def test_a_directory_with_something_in_it_is_refused(durable: DurableSystem, tmp_path: Path) -> None:
    connection = await durable.connect()
    (tmp_path / "mine").touch()
    with pytest.raises(MQError, match="is not empty; a backup needs a directory that is new or empty") as refused:
        await connection.backup(tmp_path)
    assert refused.value.reason == MQRC.FILE_SYSTEM_ERROR


async def test_a_queue_manager_without_a_data_directory_has_no_backup(
    system: System, connection: Connection, queue: Queue, tmp_path: Path
) -> None:
    if system.manager.status()["store"]:
        pytest.skip("this one has")
    with pytest.raises(MQError, match="without a data directory") as refused:
        await connection.backup(tmp_path / "backup")
    assert refused.value.reason == MQRC.FILE_SYSTEM_ERROR


async def test_a_backup_that_nobody_waits_for_is_broken_off(durable: DurableSystem, tmp_path: Path) -> None:
    connection = await durable.connect()
    backup = asyncio.create_task(connection.backup(tmp_path / "backup"))
    await durable.until((tmp_path / "backup").exists)
    backup.cancel()
    with pytest.raises(asyncio.CancelledError):
        await backup
    await durable.until(lambda: not (tmp_path / "backup").exists())
    await connection.backup(tmp_path / "backup")


async def test_a_line_that_is_cut_takes_its_backup_along(durable: DurableSystem, tmp_path: Path) -> None:
    connection, other = await durable.connect(), await durable.connect()
    backup = asyncio.create_task(connection.backup(tmp_path / "backup"))
    await durable.until((tmp_path / "backup").exists)
    durable.cut(connection)
    with pytest.raises(MQError) as broken:
        await backup
    assert broken.value.reason == MQRC.CONNECTION_BROKEN
    await durable.until(lambda: not (tmp_path / "backup").exists())
    await other.backup(tmp_path / "backup")


async def test_calls_of_other_connections_go_on_meanwhile(durable: DurableSystem, tmp_path: Path) -> None:
    connection, other = await durable.connect(), await durable.connect()
    backup = asyncio.create_task(connection.backup(tmp_path / "backup"))
    await durable.until((tmp_path / "backup").exists)
    await other.put1("Q", b"meanwhile")
    await backup
    async with other.open("Q", MQOO.INPUT_SHARED) as queue:
        assert (await queue.get()).data == b"meanwhile"
