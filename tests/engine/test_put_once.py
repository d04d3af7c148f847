"""An MQPUT1 by a name that was put to before opens nothing, and finds what has changed since."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker import QueueManager
from broker.core.names import opening
from broker.mqi import MQOO, MQPMO, MQRC, MessageDescriptor, MQError, ObjectDescriptor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection


@pytest.fixture
async def manager() -> AsyncIterator[QueueManager]:
    async with QueueManager.open(name="QM1") as manager:
        yield manager


@pytest.fixture
async def connection(manager: QueueManager) -> AsyncIterator[Connection]:
    """A connection that has put to Q and to OTHER, and to Q by an alias."""
    async with manager.connect() as connection:
        script = "DEFINE QLOCAL(Q)\nDEFINE QLOCAL(OTHER) DEFPRTY(5)\nDEFINE QALIAS(A) TARGET(Q)"
        await connection.mqsc(script, check=True)
        for name in ("Q", "OTHER", "A"):
            for _ in range(4):
                await connection.put1(name, b"before")
        await connection.mqsc("CLEAR QLOCAL(Q)\nCLEAR QLOCAL(OTHER)", check=True)
        for name in ("Q", "OTHER", "A"):
            for _ in range(4):
                await connection.put1(name, b"known")
        yield connection


async def reason(connection: Connection, name: str | ObjectDescriptor = "Q", options: int = 0) -> int:
    """How a put ends."""
    try:
        return int((await connection.put1(name, b"put", options=options)).reason)
    except MQError as error:
        return int(error.reason)


async def last(connection: Connection, q_name: str) -> bytes:
    """The data of the last message of a queue."""
    async with connection.open(q_name, MQOO.INPUT_SHARED) as queue:
        return (await queue.get_many(256))[-1].data


async def test_nothing_is_opened(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "open_object", None)
    result = await connection.put1("A", b"not opened")
    assert (result.resolved_q_name, result.resolved_q_mgr_name) == ("Q", "QM1")


async def test_a_queue_that_is_deleted_is_not_found_and_one_defined_again_is_another(connection: Connection) -> None:
    await connection.mqsc("DELETE QLOCAL(Q) PURGE", check=True)
    assert await reason(connection) == MQRC.UNKNOWN_OBJECT_NAME
    await connection.mqsc("DEFINE QLOCAL(Q) DEFPRTY(7)", check=True)
    assert (await connection.put1("Q", b"another")).md.priority == 7
    assert await last(connection, "Q") == b"another"


async def test_a_name_leads_where_it_leads_now(connection: Connection) -> None:
    await connection.mqsc("ALTER QALIAS(A) TARGET(OTHER)", check=True)
    assert (await connection.put1("A", b"there")).resolved_q_name == "OTHER"
    assert await last(connection, "OTHER") == b"there"


async def test_definitions_count_as_they_are_now(connection: Connection) -> None:
    await connection.mqsc("ALTER QALIAS(A) PUT(DISABLED)", check=True)
    assert await reason(connection, "A") == MQRC.PUT_INHIBITED
    await connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)", check=True)
    assert await reason(connection) == MQRC.Q_FULL


async def test_a_temporary_dynamic_queue_is_gone_with_the_handle_that_made_it(connection: Connection) -> None:
    od = ObjectDescriptor(object_name="SYSTEM.DEFAULT.MODEL.QUEUE", dynamic_q_name="TEMPORARY")
    async with connection.open(od, MQOO.INPUT_SHARED):
        assert [await reason(connection, "TEMPORARY") for _ in range(3)] == [0, 0, 0]
    assert await reason(connection, "TEMPORARY") == MQRC.UNKNOWN_OBJECT_NAME


async def test_handles_and_the_ends_of_a_queue_manager_count_as_for_a_queue_that_is_opened(
    manager: QueueManager, connection: Connection
) -> None:
    await connection.mqsc("ALTER QMGR MAXHANDS(1)", check=True)
    assert [await reason(connection) for _ in range(3)] == [0, 0, 0]
    async with connection.open("OTHER", MQOO.OUTPUT):
        assert await reason(connection) == MQRC.HANDLE_NOT_AVAILABLE
    assert await reason(connection) == 0


async def test_a_put_in_a_unit_is_backed_out_with_it(connection: Connection) -> None:
    for _ in range(3):
        await connection.put1("Q", b"in the unit", options=MQPMO.SYNCPOINT)
    await connection.backout()
    assert await last(connection, "Q") == b"known"


async def test_a_descriptor_that_is_changed_between_two_puts_is_read_anew(connection: Connection) -> None:
    md = MessageDescriptor()
    for _ in range(4):
        await connection.put1("Q", b"", md)
    md.priority = 8
    assert (await connection.put1("Q", b"", md)).md.priority == 8


async def test_nobody_has_the_queue_open_afterwards(connection: Connection) -> None:
    [queue] = (await connection.mqsc("DISPLAY QLOCAL(Q) OPPROCS", check=True))[0].attributes
    assert queue["OPPROCS"] == 0
    await connection.mqsc("CLEAR QLOCAL(Q)\nDELETE QLOCAL(Q)", check=True)
