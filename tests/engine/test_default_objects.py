"""What a queue manager defines by itself, once: its own definition, the default objects and the system queues."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from broker import QueueManager, StoreUnusableError
from broker.config import Config
from broker.core.message.rows import Rows
from broker.mqi import MQCA, MQOO, MQOT, MQRC, MQError, ObjectDescriptor
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore, VirtualClock
from broker.testing.clock import NEW_YEAR_2026

if TYPE_CHECKING:
    import logging
    from pathlib import Path

    from broker import Connection

DEFAULT_QUEUES = [f"SYSTEM.DEFAULT.{kind}.QUEUE" for kind in ("ALIAS", "LOCAL", "REMOTE")]
PUT_AND_GET = MQOO.OUTPUT | MQOO.INPUT_SHARED


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def started(store: MemoryStore | FaultStore, *, day: int = 0, defaults: str | None = None) -> QueueManager:
    """The queue manager of this store, started so many days later."""
    return QueueManager.open(store=store, defaults=defaults, clock=VirtualClock(NEW_YEAR_2026 + day * 86400))


async def shown(connection: Connection, command: str) -> dict[str, dict[str, int | str | bool]]:
    """Return what DISPLAY shows, by name of the object."""
    (reply,) = await connection.mqsc(command)
    assert reply.ok, reply.text
    return {str(next(iter(each.values()))): each for each in reply.attributes}


async def everything(manager: QueueManager) -> list[dict[str, dict[str, int | str | bool]]]:
    async with manager.connect() as connection:
        commands = "DISPLAY QUEUE(*) ALL", "DISPLAY PROCESS(*) ALL", "DISPLAY QMGR ALL"
        return [await shown(connection, command) for command in commands]


# Once


async def test_definitions_are_the_same_at_each_start(store: MemoryStore) -> None:
    async with started(store) as manager:
        first = await everything(manager)
    async with started(store, day=1) as manager:
        assert await everything(manager) == first
    async with started(store, day=2) as manager:
        assert await everything(manager) == first


async def test_an_altered_default_object_stays_altered(store: MemoryStore) -> None:
    async with started(store) as manager, manager.connect() as connection:
        await connection.mqsc("ALTER QLOCAL(SYSTEM.DEFAULT.LOCAL.QUEUE) MAXDEPTH(7)")
    async with started(store, day=1) as manager, manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(A)")
        queues = await shown(connection, "DISPLAY QLOCAL(*) MAXDEPTH")
    assert (queues["SYSTEM.DEFAULT.LOCAL.QUEUE"]["MAXDEPTH"], queues["A"]["MAXDEPTH"]) == (7, 7)


async def test_the_identifier_of_a_queue_manager_never_changes(store: MemoryStore) -> None:
    found: set[int | str] = set()
    for day in range(3):
        async with started(store, day=day) as manager, manager.connect() as connection:
            od = ObjectDescriptor(object_type=MQOT.Q_MGR)
            async with connection.open(od, MQOO.INQUIRE) as handle:
                found.update((await handle.inquire(MQCA.Q_MGR_IDENTIFIER)).values())
    assert found == {"QM1_2026-01-01_00.00.00"}


async def test_a_directory_belongs_to_the_queue_manager_that_made_it(tmp_path: Path) -> None:
    async with QueueManager.open(name="QM1", data=tmp_path):
        pass
    with pytest.raises(StoreUnusableError, match="the data is that of queue manager QM1, not of QM2"):
        async with QueueManager.open(name="QM2", data=tmp_path):
            pass
    async with QueueManager.open(name="QM1", data=tmp_path):
        pass


async def test_a_queue_manager_whose_objects_find_no_room_does_not_start() -> None:
    store = FaultStore(MemoryStore())
    store.fill()
    with pytest.raises(StoreUnusableError, match="the objects of QM1 cannot be written"):
        async with started(store):
            pass
    store.make_room()
    async with started(store) as manager:
        assert "SYSTEM.DEFAULT.LOCAL.QUEUE" in manager.core.objects.queues


# What an earlier version left


async def earlier(store: MemoryStore) -> None:
    """Make the store what an earlier version left: six objects, one of them altered, and no queue manager."""
    async with started(store, defaults="mq") as manager, manager.connect() as connection:
        await connection.mqsc("ALTER QLOCAL(SYSTEM.DEFAULT.LOCAL.QUEUE) DESCR('mine')\nDEFINE QLOCAL(KEPT)")
        await connection.put1("KEPT", b"A", persistence=1)
        kept = {*DEFAULT_QUEUES, "SYSTEM.DEFAULT.MODEL.QUEUE", "SYSTEM.DEFAULT.PROCESS", "SYSTEM.DEAD.LETTER.QUEUE"}
        dropped = [key for key in manager.core.objects.definitions if key[1] not in {*kept, "KEPT"}]
    assert ("QMGR", "QM1") in dropped
    await store.open()
    await store.write(Rows(dropped=dropped))
    await store.close()


async def test_the_data_of_an_earlier_version_is_adopted(store: MemoryStore) -> None:
    await earlier(store)
    async with started(store, day=1) as manager, manager.connect() as connection:
        queues = await shown(connection, "DISPLAY QUEUE(*) DESCR DEFPSIST CRDATE")
        async with connection.open("KEPT", PUT_AND_GET) as queue:
            assert (await queue.get()).data == b"A"
    mine = queues["SYSTEM.DEFAULT.LOCAL.QUEUE"]
    assert (mine["DESCR"], mine["DEFPSIST"], mine["CRDATE"]) == ("mine", "NO", "2026-01-01")
    assert queues["SYSTEM.ADMIN.PERFM.EVENT"]["CRDATE"] == "2026-01-02"
    async with started(store, day=2) as manager:
        assert manager.core.objects.definition.attributes["QMID"] == "QM1_2026-01-02_00.00.00"
    with pytest.raises(StoreUnusableError, match="queue manager QM1, not of QM2"):
        async with QueueManager.open(name="QM2", store=store):
            pass


async def test_a_queue_of_the_name_of_a_missing_one_stays_what_it_is(store: MemoryStore) -> None:
    async with started(store) as manager, manager.connect() as connection:
        event_queue = "SYSTEM.ADMIN.PERFM.EVENT"
        replies = await connection.mqsc(f"DELETE QLOCAL({event_queue})\nDEFINE QALIAS({event_queue}) TARGET(Q)")
        assert all(reply.ok for reply in replies)
    async with started(store, day=1) as manager, manager.connect() as connection:
        assert (await shown(connection, f"DISPLAY QUEUE({event_queue})"))[event_queue]["TYPE"] == "QALIAS"


async def test_a_full_store_starts_without_what_is_missing(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    await earlier(store)
    full = FaultStore(store)
    full.fill()
    async with started(full, day=1) as manager, manager.connect() as connection:
        assert "SYSTEM.ADMIN.PERFM.EVENT" not in manager.core.objects.queues
        async with connection.open("KEPT", PUT_AND_GET) as queue:
            assert (await queue.get()).data == b"A"
        async with connection.open(ObjectDescriptor(object_type=MQOT.Q_MGR), MQOO.INQUIRE) as handle:
            assert await handle.inquire(MQCA.Q_MGR_NAME) == {MQCA.Q_MGR_NAME: "QM1"}
    assert warnings(caplog) == ["default objects not created name=QM1 objects=61: no room"]
    async with started(store, day=2) as manager:
        assert "SYSTEM.ADMIN.PERFM.EVENT" in manager.core.objects.queues


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    records: list[logging.LogRecord] = caplog.records
    return [record.getMessage().partition(":")[0] + ": no room" for record in records if record.levelname == "WARNING"]


# Whether messages are persistent


@pytest.mark.parametrize(("defaults", "kept"), [(None, True), ("durable", True), ("mq", False)])
async def test_the_messages_of_a_new_queue_outlive_a_restart(
    store: MemoryStore, defaults: str | None, *, kept: bool
) -> None:
    async with started(store, defaults=defaults) as manager, manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(Q)\nDEFINE QALIAS(A) TARGET(Q)\nDEFINE QLOCAL(N) DEFPSIST(NO)")
        for name in ("Q", "A", "N"):
            await connection.put1(name, name)
    async with started(store, day=1) as manager:
        assert (manager.core.objects.queues["Q"].depth, manager.core.objects.queues["N"].depth) == (2 * kept, 0)


@pytest.mark.parametrize(("defaults", "word"), [("durable", "YES"), ("mq", "NO")])
async def test_which_default_objects_make_messages_persistent(store: MemoryStore, defaults: str, word: str) -> None:
    async with started(store, defaults=defaults) as manager, manager.connect() as connection:
        queues = await shown(connection, "DISPLAY QUEUE(SYSTEM.DEFAULT.*) DEFPSIST")
    persistent = {name for name, each in queues.items() if each["DEFPSIST"] == "YES"}
    assert persistent == (set(DEFAULT_QUEUES) if word == "YES" else set())
    assert queues["SYSTEM.DEFAULT.MODEL.QUEUE"]["DEFPSIST"] == "NO"


async def test_temporary_queues_take_messages_as_before(store: MemoryStore) -> None:
    async with started(store) as manager, manager.connect() as connection:
        od = ObjectDescriptor(object_name="SYSTEM.DEFAULT.MODEL.QUEUE")
        async with connection.open(od, MQOO.INPUT_EXCLUSIVE | MQOO.OUTPUT) as queue:
            assert (await queue.put(b"A")).md.persistence == 0
            with pytest.raises(MQError) as caught:
                await queue.put(b"B", persistence=1)
    assert caught.value.reason == MQRC.PERSISTENT_NOT_ALLOWED


async def test_an_existing_queue_manager_keeps_its_default_objects(store: MemoryStore) -> None:
    async with started(store, defaults="mq"):
        pass
    async with started(store, day=1, defaults="durable") as manager:
        assert manager.core.objects.definitions["QUEUE", "SYSTEM.DEFAULT.LOCAL.QUEUE"].attributes["DEFPSIST"] == 0


async def test_the_configuration_says_which_defaults() -> None:
    config = Config(queue_manager=replace(Config().queue_manager, defaults="mq"))
    async with QueueManager.open(config, store=MemoryStore()) as manager:
        assert manager.core.objects.definitions["QUEUE", "SYSTEM.DEFAULT.LOCAL.QUEUE"].attributes["DEFPSIST"] == 0


def test_other_defaults_are_refused() -> None:
    with pytest.raises(ValueError, match=r"defaults='ibm': one of durable, mq"):
        QueueManager.open(defaults="ibm")
    with pytest.raises(ValueError, match="defaults= are for a queue manager without a file"):
        QueueManager.open(Config(), defaults="mq")
