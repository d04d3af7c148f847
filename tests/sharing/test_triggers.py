"""Triggering on shared queues (triggers 4): each queue manager judges for itself."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from broker import MQError, QueueManager, QueueSharingGroup
from broker.engine.outbox import Outbox
from broker.mqi import MQGMO, MQMF, MQOO, MQRC, MQTM, MessageDescriptor
from broker.sharing.handlers.triggering import Triggering

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from broker import Connection, Queue
    from broker.core.group_triggers import Census
    from broker.core.message.generated.trigger_message import TriggerMessage
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

SOON = 60.0  # seconds, for what comes in milliseconds


class Member(NamedTuple):
    """A queue manager of the group, a connection to it, and its initiation queue, which a monitor serves."""

    manager: QueueManager
    connection: Connection
    initiation_queue: Queue

    async def triggered(self, wait: float = SOON) -> int:
        """Return the number of trigger messages, once there is one."""
        count = 0
        while True:
            try:
                await self.initiation_queue.get(wait=wait)
            except MQError as error:
                assert error.reason == MQRC.NO_MSG_AVAILABLE
                return count
            count, wait = count + 1, 0.0

    async def heard(self) -> None:
        """Return when all has been heard that was told before this put: notifications come in order."""
        await self.connection.put1("MARK", b"")
        async with self.connection.open("MARK", MQOO.INPUT_SHARED) as mark:
            await mark.get(wait=SOON)

    async def none(self) -> bool:
        """Return True if nothing is triggered by what was told before."""
        await self.heard()
        return await self.triggered(wait=0) == 0


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[list[Member]]:
    """Two queue managers with a process P and an initiation queue each."""
    async with AsyncExitStack() as stack:
        found = []
        for name in ("QM1", "QM2"):
            joined = QueueSharingGroup(group.name, group.dsn)
            manager = await stack.enter_async_context(QueueManager.open(name=name, group=joined))
            connection = await stack.enter_async_context(manager.connect("test"))
            await run(connection, "DEFINE QLOCAL(INIT)\nDEFINE PROCESS(P) APPLICID('p')")
            initiation_queue = await stack.enter_async_context(connection.open("INIT", MQOO.INPUT_SHARED))
            found.append(Member(manager, connection, initiation_queue))
        yield found


async def run(connection: Connection, text: str) -> None:
    replies = await connection.mqsc(text)
    assert [reply.text for reply in replies if not reply.ok] == []


async def define(members: list[Member], attributes: str) -> None:
    """The shared queue Q, known to all."""
    await run(
        members[0].connection,
        "DEFINE QLOCAL(MARK) QSGDISP(SHARED)\n"
        f"DEFINE QLOCAL(Q) QSGDISP(SHARED) TRIGGER PROCESS(P) INITQ(INIT) {attributes}",
    )
    for member in members:
        while "Q" not in member.manager.core.objects.queues:
            await member.connection.status()


async def test_one_message_on_a_first_queue_is_a_trigger_message_on_each_member(members: list[Member]) -> None:
    await define(members, "TRIGTYPE(FIRST)")
    await members[0].connection.put1("Q", b"1")
    assert [await member.triggered() for member in members] == [1, 1]
    await members[1].connection.put1("Q", b"2")
    assert [await member.none() for member in members] == [True, True]


async def test_an_uncommitted_message_triggers_nothing_before_its_commit(members: list[Member]) -> None:
    await define(members, "TRIGTYPE(FIRST)")
    connection = members[0].connection
    async with connection.unit_of_work():
        await connection.put1("Q", b"1")
        assert await members[1].none()
    assert [await member.triggered() for member in members] == [1, 1]


async def test_a_message_that_was_cut_is_one_event_at_its_commit(members: list[Member]) -> None:
    await define(members, "TRIGTYPE(EVERY) MAXMSGL(64)")
    connection = members[0].connection
    async with connection.unit_of_work():
        await connection.put1("Q", bytes(150), MessageDescriptor(msg_flags=MQMF.SEGMENTATION_ALLOWED))
    assert [await member.triggered() for member in members] == [1, 1]
    assert [await member.none() for member in members] == [True, True]


async def test_an_exclusive_handle_anywhere_keeps_all_from_triggering_and_its_close_is_an_event(
    members: list[Member],
) -> None:
    await define(members, "TRIGTYPE(FIRST)")
    first, second = members
    async with second.connection.open("Q", MQOO.INPUT_EXCLUSIVE):
        await first.connection.put1("Q", b"1")
        assert [await member.none() for member in members] == [True, True]
    assert await second.triggered() == 1
    assert await first.none()


async def test_a_queue_that_others_have_open_triggers_as_first_whatever_its_definition(members: list[Member]) -> None:
    await define(members, "TRIGTYPE(DEPTH) TRIGDPTH(5) TRIGMPRI(9)")
    first, second = members
    async with second.connection.open("Q", MQOO.INPUT_SHARED):
        await first.connection.put1("Q", b"1")
        assert await first.triggered() == 1
        assert await second.none()


async def test_every_on_the_fast_path_is_counted_by_the_member_that_committed_the_put(members: list[Member]) -> None:
    await define(members, "TRIGTYPE(EVERY)")
    first, second = members
    await run(first.connection, "ALTER QLOCAL(Q) QSGDISP(SHARED) INITQ(' ')")
    for member in members:
        while member.manager.core.objects.queues["Q"].initiation_q_name:
            await member.connection.status()
    for member, number in ((first, 2), (second, 3)):
        for _ in range(number):
            await member.connection.put1("Q", b"")
    assert [member.manager.core.objects.queues["Q"].pending_starts for member in members] == [2, 3]
    async with second.connection.open("Q", MQOO.INPUT_SHARED) as queue:
        for _ in range(5):
            await queue.get(options=MQGMO.NO_SYNCPOINT)


async def test_what_is_triggered_by_the_open_of_an_initiation_queue_is_one_unit_of_work(
    members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = members
    await first.initiation_queue.close()
    await define(members, "TRIGTYPE(NONE)")
    names = ["Q1", "Q2", "Q3"]
    for name in names:
        await run(first.connection, f"DEFINE QLOCAL({name}) QSGDISP(SHARED) TRIGGER PROCESS(P) INITQ(INIT)")
        await first.connection.put1(name, b"")
    await first.heard()
    put, ask = Outbox._trigger, Triggering._ask
    units = []

    def noted(self: Outbox, messages: Sequence[TriggerMessage], done: Callable[[], None]) -> None:
        if self is first.manager.context.outbox:
            units.append([MQTM.from_bytes(message.data).q_name for message in messages])
        put(self, messages, done)

    async def beside(self: Triggering, *arguments: Any, **options: Any) -> Census:
        census = await ask(self, *arguments, **options)
        first.manager.context.perform()  # as every other call does
        return census

    monkeypatch.setattr(Outbox, "_trigger", noted)
    monkeypatch.setattr(Triggering, "_ask", beside)
    async with first.connection.open("INIT", MQOO.INPUT_SHARED) as initiation_queue:
        for _ in names:
            await initiation_queue.get(wait=SOON)
    assert units == [names]
