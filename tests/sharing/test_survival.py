"""What survives the members of a group (queue-sharing 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker import MQError
from broker.mqi import MQOO, MQRC, MessageDescriptor
from tests.sharing.members import Members

if TYPE_CHECKING:
    from broker import Connection
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

KINDS = {b"nonpersistent": MessageDescriptor(persistence=0), b"persistent": MessageDescriptor(persistence=1)}


async def found(connection: Connection, name: str) -> list[bytes]:
    async with connection.open(name, MQOO.INPUT_SHARED) as queue:
        messages = []
        while True:
            try:
                messages.append((await queue.get()).data)
            except MQError as error:
                assert error.reason == MQRC.NO_MSG_AVAILABLE
                return sorted(messages)


async def test_s5_1_nonpersistent_messages_of_shared_queues_survive_all_members(group: GroupDatabase) -> None:
    async with Members(group, 2) as members:
        async with members["QM1"].connect() as connection:
            replies = await connection.mqsc("DEFINE QLOCAL(S) QSGDISP(SHARED)\nDEFINE QLOCAL(P)")
            assert all(reply.ok for reply in replies)
            for name in ("S", "P"):
                for data, md in KINDS.items():
                    await connection.put1(name, data, md)
        await members.stop("QM1")
        await members.stop("QM2")
        manager = await members.start("QM1")
        async with manager.connect() as connection:
            assert await found(connection, "S") == [b"nonpersistent", b"persistent"]
            assert await found(connection, "P") == [b"persistent"]
