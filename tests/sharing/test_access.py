"""Rights on shared queues: what is refused is told, and explained (security 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.core.security.rights import Q, Right
from broker.mqi import MQOO, MQRC
from tests.conformance.expect import fails
from tests.security.world import MANAGER, give
from tests.sharing.members import Members

if TYPE_CHECKING:
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres


async def test_x9_2_an_open_of_a_shared_queue_that_is_refused_is_told_and_explained(
    group: GroupDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "broker.engine.admin.security_log")
    async with Members(group, 1) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        manager = members["QM1"]
        give(manager, "alice", {MANAGER: Right.CONNECT, (Q, "Q"): Right.PUT})  # which for a shared queue is none
        async with manager.connect("program", as_user="alice") as connection:
            with fails(MQRC.NOT_AUTHORIZED):
                async with connection.open("Q", MQOO.OUTPUT):
                    pass
            assert caplog.messages == [
                "not_authorized user=alice application=program step=open rule=alice has no PUT on QUEUE Q"
            ]
            access = await connection.explain_open("Q", for_="put")
            assert access.grant == (
                "SET AUTHREC PROFILE('Q') OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(PUT) QSGDISP(SHARED)"
            )
            give(manager, "alice", {(Q, "Q"): Right.PUT}, shared=True)
            assert (await connection.explain_open("Q", for_="put")).allowed
            async with connection.open("Q", MQOO.OUTPUT):
                pass
