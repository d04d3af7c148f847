"""Puts with a key onto shared queues (handlers rule 4), through any member."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQMO, MQPMO, MQRC, GetMessageOptions, MessageDescriptor
from tests.conformance.expect import ALL, drained, reason_of
from tests.sharing.members import Members

if TYPE_CHECKING:
    from broker import Queue

pytestmark = pytest.mark.postgres

DEFINITIONS = "DEFINE QLOCAL(Q) QSGDISP(SHARED)\nDEFINE QLOCAL(OTHER) QSGDISP(SHARED)"


async def test_h4_1_puts_of_two_members_with_one_key_are_one_message(members: Members, here: Queue) -> None:
    queues = [await (await members.connect(f"QM{1 + number % 2}")).open("Q", ALL) for number in range(10)]
    results = await asyncio.gather(*[queue.put(b"x", key="order 42") for queue in queues for _ in range(3)])
    assert sorted(result.duplicate for result in results) == [False] + [True] * 29
    assert len({result.md.msg_id for result in results}) == 1
    assert await drained(here) == [b"x"]


async def test_h4_2_a_key_is_kept_for_its_window_though_the_message_has_gone(
    members: Members, here: Queue, there: Queue
) -> None:
    first = await here.put(b"x", key="k")
    await drained(there)
    await members.clock.advance(299)
    again = await there.put(b"y", key="k")
    assert (again.duplicate, again.same_data, again.md.msg_id) == (True, False, first.md.msg_id)
    await members.clock.advance(2)
    assert not (await there.put(b"z", key="k")).duplicate
    assert await drained(here) == [b"z"]


async def test_h4_3_a_key_without_a_window_is_kept_as_long_as_the_message(here: Queue, there: Queue) -> None:
    assert not (await here.put(b"1", key="k", window=None)).duplicate
    assert (await there.put(b"2", key="k", window=None)).duplicate
    assert await drained(there) == [b"1"]
    assert not (await there.put(b"3", key="k", window=None)).duplicate


async def test_h4_5_a_key_belongs_to_its_unit_of_work_until_that_ends(here: Queue, there: Queue) -> None:
    await here.put(b"1", key="k", options=MQPMO.SYNCPOINT)
    assert (await here.put(b"1", key="k", options=MQPMO.SYNCPOINT)).duplicate
    assert await reason_of(there.put(b"2", key="k")) == MQRC.OBJECT_IN_USE
    await here._connection.backout()
    assert not (await there.put(b"3", key="k")).duplicate
    await here.put(b"4", key="l", options=MQPMO.SYNCPOINT)
    await here._connection.commit()
    assert (await there.put(b"5", key="l")).duplicate
    assert await drained(there) == [b"3", b"4"]


@pytest.mark.parametrize("commits", [True, False])
async def test_h4_7_who_removes_the_holder_may_put_with_its_key(here: Queue, there: Queue, commits: bool) -> None:
    first = await here.put(b"old", key="k", window=None)
    connection = here._connection
    await here.get(options=MQGMO.SYNCPOINT)
    assert not (await here.put(b"new", key="k", window=None, options=MQPMO.SYNCPOINT)).duplicate
    await (connection.commit() if commits else connection.backout())
    again = await there.put(b"again", key="k", window=None)
    assert (again.duplicate, again.md.msg_id == first.md.msg_id) == (True, not commits)
    assert await drained(there) == [b"new" if commits else b"old"]


async def test_h4_9_keys_of_two_queues_are_two_keys(members: Members, here: Queue) -> None:
    other = await (await members.connect("QM1")).open("OTHER", ALL)
    assert not (await here.put(b"x", key="k")).duplicate
    assert not (await other.put(b"x", key="k")).duplicate


async def test_h3_7_a_message_that_is_cancelled_while_it_waits_frees_its_key(here: Queue, there: Queue) -> None:
    put = await here.put(b"x", key="k", delay=60)
    assert (await there.put(b"x", key="k")).deliver_at == put.deliver_at
    wanted = GetMessageOptions(match_options=MQMO.MATCH_MSG_ID)
    assert (await there.get(MessageDescriptor(msg_id=put.md.msg_id), wanted, delayed=True)).data == b"x"
    assert not (await there.put(b"y", key="k")).duplicate
    assert await drained(here) == [b"y"]


async def test_a_put_that_fails_does_not_take_its_key(members: Members, here: Queue, there: Queue) -> None:
    await members.mqsc("ALTER QLOCAL(Q) QSGDISP(SHARED) MAXDEPTH(1)")
    await there.put(b"in the way")
    assert await reason_of(here.put(b"x", key="k")) == MQRC.Q_FULL
    assert await drained(there) == [b"in the way"]
    assert not (await there.put(b"x", key="k")).duplicate
