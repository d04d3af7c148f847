"""Structures: CFSTRUCT, what fails with one, and what is recovered (queue-sharing 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker import QueueManager, QueueSharingGroup
from broker.mqi import MQGMO, MQOO, MQRC, MessageDescriptor
from tests.conformance.expect import ALL, fails, reason_of
from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker.mqi.replies import CommandReply
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

KEPT, VOLATILE = MessageDescriptor(persistence=1), MessageDescriptor(persistence=0)


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group, 2) as members:
        yield members


async def run(members: Members, text: str, name: str = "QM1") -> CommandReply:
    async with members[name].connect("runmqsc") as connection:
        (reply,) = await connection.mqsc(text)
    await members.clock.rest()
    return reply


async def status(members: Members, name: str, structure: str = "APPL") -> tuple[object, object]:
    (shown,) = (await run(members, f"DISPLAY CFSTATUS({structure})", name)).attributes
    return shown["STATUS"], shown["ENTSUSED"]


async def test_a_group_has_a_structure_for_queues_that_name_none(members: Members) -> None:
    reply = await run(members, "DISPLAY CFSTRUCT(*) RECOVER CFCONLOS", "QM2")
    assert [(each["CFSTRUCT"], each["RECOVER"], each["CFCONLOS"]) for each in reply.attributes] == [
        ("APPL", "YES", "ASQMGR"),
        ("CSQSYSAPPL", "YES", "ASQMGR"),
    ]


async def test_structures_are_defined_altered_and_deleted_for_all_members(members: Members) -> None:
    await members.mqsc("DEFINE CFSTRUCT(S) DESCR(ONE)\nALTER CFSTRUCT(S) CFCONLOS(TOLERATE)")
    (shown,) = (await run(members, "DISPLAY CFSTRUCT(S)", "QM2")).attributes
    assert (shown["DESCR"], shown["CFCONLOS"], shown["RECOVER"]) == ("ONE", "TOLERATE", "NO")
    assert (await run(members, "DEFINE CFSTRUCT(S)", "QM2")).code == "AMQ8150E"
    await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED) CFSTRUCT(S)")
    assert (await run(members, "DELETE CFSTRUCT(S)")).text == (
        "AMQ8148E: IBM MQ object in use. queues are in the structure S, such as Q."
    )
    await members.mqsc("DELETE QLOCAL(Q)\nDELETE CFSTRUCT(S)", "QM2")
    assert (await run(members, "DISPLAY CFSTRUCT(S)")).code == "AMQ8147E"


async def test_a_shared_queue_needs_a_structure_that_is_there(members: Members) -> None:
    assert (await run(members, "DEFINE QLOCAL(Q) QSGDISP(SHARED) CFSTRUCT(NONE)")).code == "AMQ8147E"


async def test_a_queue_changes_its_structure_only_when_it_is_empty_and_closed(members: Members) -> None:
    await members.mqsc("DEFINE CFSTRUCT(S)\nDEFINE QLOCAL(Q) QSGDISP(SHARED)")
    connection = await members.connect("QM2")
    queue = await connection.open("Q", ALL)
    await queue.put(b"", KEPT)
    assert (await run(members, "ALTER QLOCAL(Q) CFSTRUCT(S) FORCE")).code == "AMQ8148E"
    await queue.close()
    assert (await run(members, "ALTER QLOCAL(Q) CFSTRUCT(S)")).code == "AMQ8143E"
    await members.mqsc("CLEAR QLOCAL(Q)\nALTER QLOCAL(Q) CFSTRUCT(S)")


async def test_a_structure_that_is_not_recovered_takes_no_persistent_messages(members: Members) -> None:
    await members.mqsc("DEFINE CFSTRUCT(S)\nDEFINE QLOCAL(Q) QSGDISP(SHARED) CFSTRUCT(S)")
    connection = await members.connect("QM2")
    queue = await connection.open("Q", ALL)
    with fails(MQRC.PERSISTENT_NOT_ALLOWED):
        await queue.put(b"", KEPT)
    await queue.put(b"", VOLATILE)
    await members.mqsc("ALTER CFSTRUCT(S) RECOVER(YES)")
    await queue.put(b"", KEPT)
    await members.mqsc("ALTER QLOCAL(Q) DESCR(X)")
    await queue.put(b"", KEPT)


async def test_s5_2_a_structure_that_fails_loses_nonpersistent_messages_and_waits_for_recovery(
    members: Members,
) -> None:
    await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
    connection = await members.connect("QM2")
    queue = await connection.open("Q", ALL | MQOO.BROWSE)
    await queue.put(b"kept", KEPT)
    await queue.put(b"lost", VOLATILE)
    assert (await run(members, "RESET CFSTRUCT(APPL) ACTION(FAIL)")).text == (
        "EMQ0014I: EverMQ structure APPL has failed."
    )
    assert [await status(members, name) for name in members.running] == [("FAILED", 1)] * 2
    for call in (queue.get(), queue.put(b"", KEPT), queue.get(options=MQGMO.BROWSE_FIRST)):
        assert await reason_of(call) == MQRC.CF_STRUC_FAILED
    await members.mqsc("RECOVER CFSTRUCT(APPL)")
    assert [await status(members, name) for name in members.running] == [("ACTIVE", 1)] * 2
    assert (await queue.get()).data == b"kept"
    assert await reason_of(queue.get()) == MQRC.NO_MSG_AVAILABLE


async def test_recovery_with_purge_empties_the_queues(members: Members) -> None:
    await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
    connection = await members.connect("QM2")
    await connection.put1("Q", b"", KEPT)
    await members.mqsc("RESET CFSTRUCT(APPL) ACTION(FAIL)\nRECOVER CFSTRUCT(APPL) TYPE(PURGE)")
    assert await status(members, "QM1") == ("ACTIVE", 0)
    await connection.put1("Q", b"", KEPT)


async def test_a_backup_is_written_down(members: Members) -> None:
    assert (await run(members, "BACKUP CFSTRUCT(*)")).text == "EMQ0012I: EverMQ structure APPL, CSQSYSAPPL backed up."
    (shown,) = (await run(members, "DISPLAY CFSTATUS(APPL)", "QM2")).attributes
    assert shown["BKUPDATE"] == "2026-01-01"
    assert (await run(members, "BACKUP CFSTRUCT(NONE)")).code == "AMQ8147E"


async def test_s10_6_a_crash_of_the_database_takes_nonpersistent_messages_and_the_depths_are_right(
    durable_group: GroupDatabase,
) -> None:
    group = QueueSharingGroup(durable_group.name, durable_group.dsn)
    async with QueueManager.open(name="QM1", group=group) as manager, manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        await connection.put1("Q", b"kept", KEPT)
        await connection.put1("Q", b"lost", VOLATILE)
    durable_group.server.stop("immediate")
    durable_group.server.start()
    async with QueueManager.open(name="QM1", group=group) as manager, manager.connect() as connection:
        (shown,) = await connection.mqsc("DISPLAY QLOCAL(Q) CURDEPTH")
        assert shown.attributes[0]["CURDEPTH"] == 1
        queue = await connection.open("Q", ALL)
        assert (await queue.get()).data == b"kept"
        assert await reason_of(queue.get()) == MQRC.NO_MSG_AVAILABLE
