"""Handlers in the daemon are of its owner, or of a user that configuration or decorator names (security 5.6)."""

from __future__ import annotations

from types import ModuleType

import anyio
import pytest

from broker import Connection
from broker.core.security.rights import Right
from broker.mqi import MQOO, MQRC, MQError, ServiceOptions
from tests.security.world import world
from triggers import TriggerMessage, TriggerMonitor, process


def handlers(user: str, seen: list[object], done: anyio.Event) -> ModuleType:
    @process("WORK", user=user)
    async def work(trigger: TriggerMessage, connection: Connection) -> None:
        async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
            await queue.get()
        try:
            await connection.put1("OTHER", b"y")
        except MQError as error:
            seen.append(error.reason)
        done.set()

    module = ModuleType("judged_handlers")
    module.work = work  # type: ignore[attr-defined]
    work.__module__ = module.__name__
    return module


@pytest.mark.parametrize(
    ("monitor_user", "own_user", "puts"),
    [("", "", True), ("alice", "", False), ("", "alice", False), ("bob", "alice", False), ("alice", "bob", True)],
)
async def test_the_calls_of_a_handler_are_of_its_user(monitor_user: str, own_user: str, puts: bool) -> None:
    async with world() as it:
        it.let_connect("alice", {"Q": Right.GET})
        it.let_connect("bob", {"Q": Right.GET, "OTHER": Right.PUT})
        await it.owner.mqsc("ALTER QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(WORK)")
        seen: list[object] = []
        done = anyio.Event()
        async with TriggerMonitor(it.manager, [handlers(own_user, seen, done)], user=monitor_user):
            await it.owner.put1("Q", b"x")
            with anyio.fail_after(10):
                await done.wait()
        assert seen == ([] if puts else [MQRC.NOT_AUTHORIZED])


async def test_who_defines_a_process_chooses_no_user() -> None:
    async with world() as it, it.manager.connect() as connection:
        with pytest.raises(ValueError, match="user='alice'"):
            TriggerMonitor(connection, [], user="alice")


async def test_who_serves_a_queue_with_a_history_may_put_to_that() -> None:
    """Transactions rule 6.8."""
    async with world() as it:
        await it.owner.mqsc("ALTER QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(WORK)")
        options = ServiceOptions(history="OTHER", history_span=60.0)
        for others, may in ({}, False), ({"OTHER": Right.GET}, False), ({"OTHER": Right.PUT}, True):
            it.let_connect("alice", {"Q": Right.GET, **others})
            async with it.connect("alice") as connection:
                try:
                    async with connection.deliveries("Q", options=options):
                        assert may
                except MQError as error:
                    assert (error.reason, may) == (MQRC.NOT_AUTHORIZED, False)
