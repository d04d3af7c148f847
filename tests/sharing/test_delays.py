"""Delayed messages on shared queues (handlers rule 3): the database's clock tells when it has come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQMF, MQPMO, MQRC, GetMessageOptions, MessageDescriptor
from tests.conformance.expect import ALL, drained, fails, reason_of
from tests.sharing.members import Members

if TYPE_CHECKING:
    from broker import Queue

pytestmark = pytest.mark.postgres

DEFINITIONS = "DEFINE QLOCAL(Q) QSGDISP(SHARED)"


async def test_a_message_is_available_on_every_member_when_its_time_has_come(
    members: Members, here: Queue, there: Queue
) -> None:
    await here.put(b"later", delay=10)
    await here.put(b"in an hour", deliver_at=members.clock.time() + 3600)
    await here.put(b"now")
    assert await drained(there) == [b"now"]
    await members.clock.advance(9.9)
    assert await reason_of(there.get()) == MQRC.NO_MSG_AVAILABLE
    await members.clock.advance(0.1)
    assert (await there.get()).data == b"later"
    await members.clock.advance(3590)
    assert (await here.get()).data == b"in an hour"


async def test_a_message_that_was_put_first_comes_first_when_it_is_due(
    members: Members, here: Queue, there: Queue
) -> None:
    await here.put(b"1", delay=5)
    await here.put(b"2")
    await members.clock.advance(5)
    assert await drained(there) == [b"1", b"2"]


async def test_a_getter_of_another_member_that_waits_is_given_it_at_its_instant(
    members: Members, here: Queue, there: Queue
) -> None:
    await here.put(b"later", delay=10)
    wait = GetMessageOptions(options=MQGMO.WAIT, wait_interval=60_000)
    getting = asyncio.ensure_future(there.get(options=wait))
    await members.clock.advance(9.99)
    assert not getting.done()
    await members.clock.advance(0.01)
    assert (await getting).data == b"later"


@pytest.mark.parametrize(("waits", "found"), [(0.5, []), (2.0, [b"x"])])
async def test_the_delay_of_a_put_in_a_unit_of_work_runs_from_the_put(
    members: Members, here: Queue, there: Queue, waits: float, found: list[bytes]
) -> None:
    await here.put(b"x", options=MQPMO.SYNCPOINT, delay=1)
    await members.clock.advance(waits)
    await here._connection.commit()
    assert await drained(there) == found
    await members.clock.advance(2)
    assert await drained(there) == ([] if found else [b"x"])


async def test_a_message_whose_member_has_gone_is_released_by_another(
    members: Members, here: Queue, there: Queue
) -> None:
    await here.put(b"x", MessageDescriptor(persistence=1), delay=10)
    members.group.forgive("handles", "connection tags")
    await members.crash("QM1")
    await members.clock.advance(10)
    assert await reason_of(there.get()) == MQRC.NO_MSG_AVAILABLE
    await members.clock.advance(1)
    assert (await there.get()).data == b"x"


async def test_it_is_released_when_nobody_has_heard_of_it(members: Members, here: Queue, there: Queue) -> None:
    await here.put(b"x", MessageDescriptor(persistence=1), delay=10)
    await members.stop("QM1")
    await members.stop("QM2")
    await members.clock.advance(20)
    await members.start("QM2")
    await members.clock.rest()
    again = await (await members.connect("QM2")).open("Q", ALL)
    assert (await again.get()).data == b"x"


async def test_h3_3_and_h3_12_hold_on_shared_queues(members: Members, here: Queue, there: Queue) -> None:
    with fails(MQRC.EXPIRY_ERROR):
        await here.put(b"x", MessageDescriptor(expiry=50), delay=10)
    connection = here._connection
    for number in (1, 2):
        flags = MQMF.MSG_IN_GROUP if number == 1 else MQMF.LAST_MSG_IN_GROUP
        await here.put(
            b"%d" % number, MessageDescriptor(msg_flags=flags), MQPMO.SYNCPOINT | MQPMO.LOGICAL_ORDER, delay=3
        )
    await connection.commit()
    whole = MQGMO.ALL_MSGS_AVAILABLE | MQGMO.LOGICAL_ORDER
    assert await reason_of(there.get(options=whole)) == MQRC.NO_MSG_AVAILABLE
    await members.clock.advance(3)
    assert [(await there.get(options=whole)).data for _ in range(2)] == [b"1", b"2"]


async def test_a_message_that_waits_counts_in_the_depth(members: Members, here: Queue) -> None:
    await here.put(b"x", delay=10)
    assert await members.group.value("SELECT depth_of('Q')") == 1
    assert (await here.get(options=MQGMO.BROWSE_FIRST, delayed=True)).data == b"x"
