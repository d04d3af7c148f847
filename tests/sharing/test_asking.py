"""Work that is done in the group for the engine: what of it waits for what, and what is told of its outcome."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from broker.engine.calls.gets import GetCall
from broker.engine.conversation import Conversation
from broker.mqi import MQGMO, MQRC, MQError
from broker.sharing.database.errors import OutcomeUnknownError
from broker.storage.store import StoreFailedError, StoreFullError
from tests.conformance.expect import ALL, drained, reason_of
from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection
    from broker.core.queues.effects import Grant
    from broker.engine.calls.call_order import CallOrder
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

FULL = MQError(MQRC.Q_FULL, "Q holds 5000 messages")
STORE_FULL = StoreFullError("no room")
STORE_FAILED = StoreFailedError("gone")


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        yield members


def order_of(program: Connection) -> CallOrder:
    assert isinstance(program.port, Conversation)
    return program.port.call_order


async def outcome(members: Members, error: Exception | None, hold: CallOrder | None = None) -> Exception | None:
    """The outcome that is told of work that raises this."""

    async def work() -> None:
        if error is not None:
            raise error

    reported: asyncio.Future[Exception | None] = asyncio.Future()
    members.member("QM1").ask(work, "a test", reported.set_result, hold)
    return await reported


@pytest.mark.parametrize("held", [False, True])
async def test_an_outcome_is_none_or_the_error_as_it_is(members: Members, held: bool) -> None:
    hold = order_of(await members.connect("QM1")) if held else None
    for error in (None, FULL, STORE_FULL, STORE_FAILED):
        assert await outcome(members, error, hold) is error


async def test_an_outcome_that_nobody_knows_names_the_work(members: Members) -> None:
    error = await outcome(members, OutcomeUnknownError("gone"))
    assert isinstance(error, MQError)
    assert (error.reason, error.detail) == (MQRC.CF_NOT_AVAILABLE, "the outcome of a test is unknown")


async def test_a_mistake_is_logged_and_is_an_unexpected_error(
    members: Members, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "broker.engine.mistakes"):
        error = await outcome(members, KeyError("injected"))
    assert isinstance(error, MQError)
    assert error.reason == MQRC.UNEXPECTED_ERROR
    assert [record.getMessage() for record in caplog.records] == ["a test failed by a mistake of the queue manager"]


async def test_what_fails_when_it_is_told_ends_nothing_else(members: Members) -> None:
    def fails(_: Exception | None) -> None:
        raise KeyError("injected")

    async def nothing() -> None: ...

    program = await members.connect("QM1")
    members.member("QM1").ask(nothing, "a test", fails, order_of(program))
    queue = await program.open("Q", ALL)
    assert await drained(queue) == []


async def test_calls_wait_for_work_that_holds_them_and_work_for_one_connection_is_done_alone(members: Members) -> None:
    program, other = await members.connect("QM1"), await members.connect("QM1")
    steps: list[str] = []
    go_on = asyncio.Event()

    async def first() -> None:
        steps.append("first begins")
        await go_on.wait()
        steps.append("first ends")

    async def second() -> None:
        steps.append("second")

    def reported(error: Exception | None) -> None:
        assert error is None
        steps.append("told")

    member, order = members.member("QM1"), order_of(program)
    member.ask(first, "a test", reported, order)
    member.ask(second, "a test", reported, order)
    opening = asyncio.ensure_future(program.open("Q", ALL))
    await (await other.open("Q", ALL)).put(b"by another")  # nothing holds this connection
    assert (steps, opening.done()) == (["first begins"], False)
    go_on.set()
    assert await drained(await opening) == [b"by another"]
    assert steps == ["first begins", "first ends", "told", "second", "told"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FULL, MQRC.Q_FULL),
        (STORE_FULL, MQRC.STORAGE_MEDIUM_FULL),
        (STORE_FAILED, MQRC.CONNECTION_BROKEN),
        (OutcomeUnknownError("gone"), MQRC.CF_NOT_AVAILABLE),
    ],
)
async def test_a_held_call_is_answered_with_the_error(members: Members, error: Exception, reason: int) -> None:
    program = await members.connect("QM1")
    call: Any = asyncio.get_running_loop().create_future()

    async def work() -> int:
        raise error

    members.member("QM1").answer(order_of(program), call, work)
    with pytest.raises(MQError) as raised:
        await call
    assert raised.value.reason == reason


async def test_a_get_that_fails_when_it_has_a_message_puts_it_back(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, other = await members.connect("QM1"), await members.connect("QM1")
    queue, rest = await program.open("Q", ALL), await other.open("Q", ALL)
    await queue.put(b"stays")

    def damaged(call: GetCall, grant: Grant) -> None:
        call._keep(grant)
        raise MQError(MQRC.OBJECT_DAMAGED, "")

    with monkeypatch.context() as patched:
        patched.setattr(GetCall, "granted", damaged)
        assert await reason_of(queue.get(options=MQGMO.SYNCPOINT)) == MQRC.OBJECT_DAMAGED
    await members.clock.rest()
    assert await drained(rest) == [b"stays"]
