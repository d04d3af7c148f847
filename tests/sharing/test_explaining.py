"""`explain` of a shared queue: what programs of other members do to its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker import JobState, job_status
from broker.mqi import MQGMO, MQOO, Cause
from tests.sharing.members import Members

if TYPE_CHECKING:
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres


async def test_programs_of_another_member_are_told_of_by_its_name(group: GroupDatabase) -> None:
    async with Members(group, 2) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        here, there = await members.connect("QM1"), await members.connect("QM2", "there")
        for data in (b"A", b"B", b"C"):
            await here.put1("Q", data)
        queues = [await there.open("Q", MQOO.INPUT_SHARED | MQOO.BROWSE) for _ in range(2)]
        for queue in queues:
            await queue.get(options=MQGMO.BROWSE_FIRST | MQGMO.LOCK)
        await queues[0].get(options=MQGMO.SYNCPOINT)  # its own lock ends
        explained = await here.explain("Q")
        assert explained.codes == (Cause.UNCOMMITTED_GET, Cause.LOCKED, Cause.AVAILABLE)
        assert [(each.figures["messages"], each.figures["appl_name"]) for each in explained.causes] == [
            (1, "a program of QM2"),
            (1, "a program of QM2"),
        ]
        explained = await there.explain("Q")
        assert [each.figures["appl_name"] for each in explained.causes] == ["there"] * 2
        for queue in queues:
            await queue.close()
        await there.open("Q", MQOO.OUTPUT)
        await members.clock.rest()
        assert Cause.NOT_OPEN_FOR_INPUT in (await here.explain("Q")).codes


async def test_the_status_of_a_message_is_told_wherever_it_is_in_hand(group: GroupDatabase) -> None:
    async with Members(group, 2) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        here, there = await members.connect("QM1"), await members.connect("QM2", "there")
        id = (await here.put1("Q", b"A")).md.msg_id
        later = await here.put1("Q", b"B", delay=60)
        assert (await job_status(there, "Q", id)).state is JobState.WAITING
        delayed = await job_status(there, "Q", later.md.msg_id)
        assert delayed.state is JobState.DELAYED
        assert delayed.until == pytest.approx(later.deliver_at, abs=0.01)
        async with there.open("Q", MQOO.INPUT_SHARED) as queue:
            await queue.get(options=MQGMO.SYNCPOINT)
            running = await job_status(here, "Q", id)
            assert (running.state, running.where) == (JobState.RUNNING, "a program of QM2")
            await there.commit()
        assert (await job_status(here, "Q", id)).state is JobState.GONE
