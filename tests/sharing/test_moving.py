"""MOVE QLOCAL between private and shared queues (queue-sharing 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker import MQError
from broker.mqi import MQGMO, MQMF, MQMT, MQOO, MQRC, MQRO, MessageDescriptor
from broker.mqi.delivery_fields import Outcome, ServiceOptions, Settlement
from tests.sharing.members import Members

if TYPE_CHECKING:
    from broker import Connection
    from broker.mqi.replies import CommandReply
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres


async def mqsc(connection: Connection, text: str) -> list[CommandReply]:
    replies = await connection.mqsc(text)
    assert [reply.text for reply in replies if not reply.ok] == []
    return replies


async def code(connection: Connection, text: str) -> str:
    (reply,) = await connection.mqsc(text)
    return reply.code


async def drained(connection: Connection, name: str) -> list[bytes]:
    async with connection.open(name, MQOO.INPUT_SHARED) as queue:
        found = []
        while True:
            try:
                found.append((await queue.get()).data)
            except MQError as error:
                assert error.reason == MQRC.NO_MSG_AVAILABLE
                return found


async def test_messages_of_a_private_queue_become_shared_in_their_order(group: GroupDatabase) -> None:
    async with Members(group, 2) as members, members["QM1"].connect() as here, members["QM2"].connect() as there:
        await mqsc(here, "DEFINE QLOCAL(P)\nDEFINE QLOCAL(S) QSGDISP(SHARED)")
        await members.clock.rest()
        async with here.open("P", MQOO.OUTPUT) as queue:
            for number in range(120):
                await queue.put(b"%03d" % number, MessageDescriptor(priority=number % 2))
        (moved,) = await mqsc(here, "MOVE QLOCAL(P) QSGDISP(PRIVATE) TOQLOCAL(S)")
        assert moved.text == "EMQ0017I: EverMQ queue P: 120 messages moved to S."
        assert await drained(here, "P") == []
        odd_first = [*range(1, 120, 2), *range(0, 120, 2)]
        assert await drained(there, "S") == [b"%03d" % number for number in odd_first]


async def test_messages_with_finished_steps_are_not_moved(group: GroupDatabase) -> None:
    """A shared queue keeps none, so they would be done again."""
    async with Members(group, 1) as members, members["QM1"].connect() as here:
        await mqsc(
            here,
            "DEFINE PROCESS(PR)\nDEFINE QLOCAL(P) TRIGGER TRIGTYPE(EVERY) PROCESS(PR) DEFPSIST(YES)\n"
            "DEFINE QLOCAL(S) QSGDISP(SHARED)",
        )
        await here.put1("P", b"order")
        async with here.deliveries("P", options=ServiceOptions(handler="test")) as deliveries:
            (taken,) = await deliveries.take()
            await deliveries.step(taken, "charge", b"1")
            await deliveries.settle([Settlement(taken.id, Outcome.RETURNED)])
        (refused,) = await here.mqsc("MOVE QLOCAL(P) QSGDISP(PRIVATE) TOQLOCAL(S)")
        assert not refused.ok
        assert "handlers have finished steps for 1 messages of P" in refused.text
        assert await drained(here, "P") == [b"order"]


async def test_a_name_that_two_queues_have_is_cleared_up_by_a_move(group: GroupDatabase) -> None:
    async with Members(group, 1) as members, members["QM1"].connect() as connection:
        await mqsc(connection, "DEFINE QLOCAL(Q)")
        await connection.put1("Q", b"private")
        await mqsc(connection, "DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        with pytest.raises(MQError) as error:
            await connection.put1("Q", b"which?")
        assert error.value.reason == MQRC.OBJECT_NOT_UNIQUE
        await mqsc(connection, "MOVE QLOCAL(Q) QSGDISP(PRIVATE) TOQLOCAL(Q) TYPE(ADD)\nDELETE QLOCAL(Q) QSGDISP(QMGR)")
        assert await drained(connection, "Q") == [b"private"]


async def test_a_message_stays_what_it_is_and_causes_no_report(group: GroupDatabase) -> None:
    sent = MessageDescriptor(
        msg_type=MQMT.REQUEST, report=MQRO.COA | MQRO.COD, reply_to_q="R", correl_id=b"c" * 24, group_id=b"g" * 24,
        msg_flags=MQMF.LAST_MSG_IN_GROUP, msg_seq_number=7, expiry=600, priority=4, persistence=1, format="MQSTR",
        put_appl_name="other",
    )  # fmt: skip
    async with Members(group, 1) as members, members["QM1"].connect("putter") as connection:
        await mqsc(connection, "DEFINE QLOCAL(S) QSGDISP(SHARED)\nDEFINE QLOCAL(P)\nDEFINE QLOCAL(R)")
        async with connection.open("S", MQOO.OUTPUT | MQOO.BROWSE) as queue:
            put = await queue.put(b"data", sent, properties={"usr.colour": "red"})
            before = await queue.get(options=MQGMO.BROWSE_FIRST)
        assert len(await drained(connection, "R")) == 1  # of its arrival
        await mqsc(connection, "MOVE QLOCAL(S) QSGDISP(SHARED) TOQLOCAL(P)")
        assert await drained(connection, "R") == []
        async with connection.open("P", MQOO.INPUT_SHARED) as queue:
            after = await queue.get()
        assert after.md.msg_id == put.md.msg_id
        assert (after.data, after.md, dict(after.properties)) == (before.data, before.md, dict(before.properties))


async def test_what_keeps_a_queue_from_being_moved_is_said(group: GroupDatabase) -> None:
    async with Members(group, 1) as members, members["QM1"].connect() as connection:
        await mqsc(connection, "DEFINE QLOCAL(P)\nDEFINE QLOCAL(S) QSGDISP(SHARED)")
        await connection.put1("P", b"1")
        await connection.put1("S", b"2")
        assert await code(connection, "MOVE QLOCAL(P) QSGDISP(PRIVATE) TOQLOCAL(S)") == "AMQ8143E"
        assert await code(connection, "MOVE QLOCAL(P) QSGDISP(SHARED) TOQLOCAL(S)") == "AMQ8147E"
        assert await code(connection, "MOVE QLOCAL(P) QSGDISP(PRIVATE) TOQLOCAL(P)") == "AMQ8147E"
        async with connection.open("P", MQOO.INPUT_SHARED):
            assert await code(connection, "MOVE QLOCAL(P) QSGDISP(PRIVATE) TOQLOCAL(S) TYPE(ADD)") == "AMQ8148E"
        assert await drained(connection, "P") == [b"1"]
        assert await drained(connection, "S") == [b"2"]
