"""Handlers of trigger EVERY queues that are shared: a monitor runs at each member, and each message is handled once."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import anyio
import pytest

from broker.mqi import MQGMO, MQOO, MQRC, MessageDescriptor, MQError
from tests.conformance.expect import ALL, drained
from tests.sharing.members import Members
from tests.triggers.fake import handlers
from triggers import TriggerMessage, TriggerMonitor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from broker import Connection, Message
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

PERSISTENT = MessageDescriptor(persistence=1)


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    """Two members; Q is trigger EVERY, and messages of it that cannot be handled go to BAD."""
    async with Members(group, 2) as members:
        for name in members.running:
            await members.mqsc("DEFINE PROCESS(P)", name)
        await members.mqsc(
            "DEFINE QLOCAL(BAD) QSGDISP(SHARED)\n"
            "DEFINE QLOCAL(Q) QSGDISP(SHARED) TRIGGER TRIGTYPE(EVERY) PROCESS(P) BOTHRESH(2) BOQNAME(BAD)"
        )
        group.forgive("units of work")  # those that a member asks for at its next start
        yield members


class Handling:
    """The messages that handlers have got, by member; those that found nothing; `begun` is called with each message."""

    def __init__(self, begun: Callable[[Connection, Message], Awaitable[None]]) -> None:
        self.begun = begun
        self.handled: list[tuple[str, bytes, int]] = []
        self.empty = 0

    async def monitor(self, members: Members, name: str, stack: AsyncExitStack) -> TriggerMonitor:
        """A monitor at a member, until the stack ends."""

        async def handler(trigger: TriggerMessage, connection: Connection) -> None:
            async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
                try:
                    message = await queue.get(options=MQGMO.SYNCPOINT)
                except MQError as error:
                    assert error.reason == MQRC.NO_MSG_AVAILABLE
                    self.empty += 1
                    return
                await self.begun(connection, message)
                self.handled.append((name, message.data, message.backout_count))

        return await stack.enter_async_context(TriggerMonitor(members[name], [handlers(P=handler)], stop_timeout=0))


async def at_once(connection: Connection, message: Message) -> None:
    """Nothing is to be done for it."""


async def put(members: Members, name: str, *bodies: bytes) -> None:
    connection = await members.connect(name)
    for body in bodies:
        await connection.put1("Q", body, PERSISTENT)


async def depth(members: Members, q_name: str = "Q") -> int:
    count: int = await members.group.value("SELECT depth_of($1)", q_name)
    return count


async def test_two_members_handle_each_message_once(members: Members) -> None:
    handling = Handling(at_once)
    async with AsyncExitStack() as stack:
        for name in members.running:
            await handling.monitor(members, name, stack)
        for number in range(20):
            await put(members, ("QM1", "QM2")[number % 2], b"%d" % number)
        await members.clock.advance(5)
    assert Counter(body for _, body, _ in handling.handled) == Counter(b"%d" % number for number in range(20))
    assert Counter(name for name, _, _ in handling.handled) == {"QM1": 10, "QM2": 10}
    assert (handling.empty, await depth(members)) == (0, 0)


async def test_what_the_handlers_of_a_killed_member_had_is_handled_at_its_peer_once(members: Members) -> None:
    hang = anyio.Event()
    taken: list[bytes] = []

    async def begun(connection: Connection, message: Message) -> None:
        if connection.q_mgr_name == "QM1":
            taken.append(message.data)
            await hang.wait()

    handling = Handling(begun)
    async with AsyncExitStack() as stack:
        await handling.monitor(members, "QM2", stack)
        await handling.monitor(members, "QM1", stack)
        await put(members, "QM1", b"1", b"2", b"3")
        await members.clock.advance(1)
        assert sorted(taken) == [b"1", b"2", b"3"]
        await members.fail("QM1")
        await members.clock.advance(5)
    assert sorted(handling.handled) == [("QM2", b"1", 1), ("QM2", b"2", 1), ("QM2", b"3", 1)]
    assert (handling.empty, await depth(members)) == (0, 0)


async def test_a_message_whose_handler_fails_is_started_again_and_then_moved(members: Members) -> None:
    async def begun(connection: Connection, message: Message) -> None:
        if message.data == b"bad" or not message.backout_count:
            raise ValueError("not now")

    handling = Handling(begun)
    async with AsyncExitStack() as stack:
        monitor = await handling.monitor(members, "QM1", stack)
        await handling.monitor(members, "QM2", stack)
        await put(members, "QM1", b"bad", b"good")
        await members.clock.advance(600)
        assert monitor.statistics().held_back == {}
    assert handling.handled == [("QM1", b"good", 1)]
    bad = await (await members.connect("QM2")).open("BAD", ALL)
    assert (await drained(bad), await depth(members)) == ([b"bad"], 0)


async def test_a_start_whose_handler_fails_when_its_message_is_gone_is_not_tried_again(members: Members) -> None:
    async def begun(connection: Connection, message: Message) -> None:
        await connection.commit()
        raise ValueError("too late")

    handling = Handling(begun)
    async with AsyncExitStack() as stack:
        monitor = await handling.monitor(members, "QM1", stack)
        await put(members, "QM1", b"1")
        await members.clock.advance(600)
        assert (monitor.statistics().failed, monitor.statistics().held_back) == (1, {})
    assert (handling.empty, await depth(members)) == (0, 0)


async def test_a_monitor_sweeps_what_a_member_has_put_that_was_ended(members: Members) -> None:
    handling = Handling(at_once)
    await put(members, "QM1", b"1", b"2")
    async with AsyncExitStack() as stack:
        await handling.monitor(members, "QM2", stack)
        await members.stop("QM1")
        await members.clock.advance(61)
    assert sorted(handling.handled) == [("QM2", b"1", 0), ("QM2", b"2", 0)]
