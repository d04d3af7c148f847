"""Old names work for one more release (`docs/reference/versions.md`): those that users write warn, and do what the new
ones do; those that programs read stand beside the new ones.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

import pytest

from broker import Queue, mqi
from broker.deprecated import RENAMED, Renamed
from broker.mqi import MQGMO, MQMF, Became, Cause, MessageDescriptor, ServiceOptions
from tests.handlers.delayed import ALL, Delayed, delayed
from triggers import App
from triggers.testing import AppTest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from broker import SyncQueue

NEXT = MQGMO.BROWSE_NEXT
EVERY = "TRIGGER TRIGTYPE(EVERY) PROCESS(P)"
TERMS = ServiceOptions(handler="shop:ship")


@asynccontextmanager
async def on_q() -> AsyncIterator[Delayed]:
    """One message is on Q, and delayed."""
    async with delayed(attributes=EVERY) as d:
        await d.put("later", delay=60)
        yield d


# Calls that have an argument with an old name


async def get(d: Delayed, **words: Any) -> bytes:
    return (await d.queue.get(options=NEXT, **words)).data


async def messages(d: Delayed, **words: Any) -> list[bytes]:
    return [each.data async for each in d.queue.messages(options=NEXT, **words)]


async def blocking(d: Delayed, call: Callable[[SyncQueue], list[bytes]]) -> list[bytes]:
    def in_thread() -> list[bytes]:
        with d.manager.sync() as connection, connection.open("Q", ALL) as queue:
            return call(queue)

    return await asyncio.to_thread(in_thread)


async def get_blocking(d: Delayed, **words: Any) -> list[bytes]:
    return await blocking(d, lambda queue: [queue.get(options=NEXT, **words).data])


async def messages_blocking(d: Delayed, **words: Any) -> list[bytes]:
    return await blocking(d, lambda queue: [each.data for each in queue.messages(options=NEXT, **words)])


async def deliveries(d: Delayed, **words: Any) -> list[str]:
    async with d.connection.deliveries("Q", **words):
        return [each["handler"] for each in d.manager.status()["handlers"]]


async def deliveries_blocking(d: Delayed, **words: Any) -> list[str]:
    def in_thread() -> list[str]:
        with d.manager.sync() as connection, connection.deliveries("Q", **words):
            return [each["handler"] for each in connection.status()["handlers"]]

    return await asyncio.to_thread(in_thread)


async def idle(d: Delayed, **words: Any) -> list[str]:
    app = App("mq://127.0.0.1:1", name="deprecated")
    seen: list[str] = []

    @app.handler("CALLS")
    async def call(name: str) -> None:
        seen.append(name)

    async with app.test() as t:
        await t.put("CALLS", "ann", delay=60)
        await t.idle(**words)
    return seen


ARGUMENTS: dict[Callable[..., Awaitable[Any]], tuple[Renamed, object]] = {
    get: (Renamed("Queue.get", "waiting", "delayed"), True),
    get_blocking: (Renamed("Queue.get", "waiting", "delayed"), True),
    messages: (Renamed("Queue.messages", "waiting", "delayed"), True),
    messages_blocking: (Renamed("SyncQueue.messages", "waiting", "delayed"), True),
    idle: (Renamed(AppTest.idle.__qualname__, "waiting", "delayed"), True),
    deliveries: (Renamed("Connection.deliveries", "terms", "options"), TERMS),
    deliveries_blocking: (Renamed("SyncConnection.deliveries", "terms", "options"), TERMS),
}
"""Of each call the argument that was renamed, and a value of it."""

RELEASE = Renamed("Connection.release_delayed", "release_waiting", "release_delayed")


def test_all_old_names_are_told_here() -> None:
    assert {renamed for renamed, _ in ARGUMENTS.values()} | {RELEASE} == RENAMED


@pytest.mark.parametrize("call", ARGUMENTS, ids=lambda call: call.__name__)
async def test_an_old_argument_does_what_the_new_one_does_and_warns_of_the_line_that_has_it(
    call: Callable[..., Awaitable[Any]],
) -> None:
    (_, old, new), value = ARGUMENTS[call]
    async with on_q() as d:
        expected = await call(d, **{new: value})
    assert expected
    async with on_q() as d:
        with pytest.warns(DeprecationWarning, match=rf"{old}=\) is deprecated.*: use {new}=") as warned:
            assert await call(d, **{old: value}) == expected
        assert call is get_blocking or [each.filename for each in warned] == [__file__]  # its get is made by the loop
        with pytest.raises(TypeError, match=f"{new}= and its old name {old}="):
            await call(d, **{old: value, new: value})


async def test_a_get_has_no_other_arguments_and_is_a_coroutine_function_still() -> None:
    """Whoever gives a program its connection watches its coroutine functions; a task begins where no program is."""
    async with on_q() as d:
        with pytest.raises(TypeError, match="unexpected keyword argument 'sleeping'"):
            await d.queue.get(options=NEXT, sleeping=True)  # type: ignore[call-arg]
        with pytest.warns(DeprecationWarning, match="use delayed="):
            await asyncio.create_task(d.queue.get(options=NEXT, waiting=True))
    assert iscoroutinefunction(Queue.get)


async def test_release_waiting_does_what_release_delayed_does_and_warns_of_the_line_that_has_it() -> None:
    def blocking() -> int:
        with d.manager.sync() as connection:
            return connection.release_waiting("Q")

    async with on_q() as d:
        with pytest.warns(DeprecationWarning, match=r"release_waiting\(\) .*: use release_delayed\(\)") as warned:
            assert (await d.connection.release_waiting("Q"), await asyncio.to_thread(blocking)) == (1, 0)
        assert [each.filename for each in warned] == [__file__] * 2
        assert await d.got() == ["later"]


@pytest.mark.parametrize(("old", "new"), [("HandlingTerms", "ServiceOptions"), ("PutTerms", "PutExtras")])
def test_an_old_name_of_a_class_is_the_class_and_warns(old: str, new: str) -> None:
    for _ in range(2):
        with pytest.warns(DeprecationWarning, match=f"{old} is deprecated.*: use {new}") as warned:
            assert getattr(mqi, old) is getattr(mqi, new)
        assert [each.filename for each in warned] == [__file__]


# What programs read


async def test_the_figures_of_queues_and_handlers_have_the_old_key_beside_the_new_one() -> None:
    async with on_q() as d, d.connection.deliveries("Q", options=TERMS):
        for status in (d.manager.status(), await d.connection.status()):
            (queue,) = [each for each in status["queues"] if each["name"] == "Q"]
            for figures in (queue, *status["handlers"]):
                assert (figures["delayed"], figures["waiting"]) == (1, 1)
        (reply,) = await d.connection.mqsc("DISPLAY QSTATUS(Q) TYPE(HANDLER) ALL", check=True)
        (shown,) = reply.attributes
        assert (shown["DELAYED"], shown["WAITING"]) == (1, 1)


async def test_explain_tells_an_incomplete_group_by_both_words_and_a_delayed_message_by_the_old_code() -> None:
    async with delayed() as d:
        await d.put("1", md=MessageDescriptor(group_id=b"G" * 24, msg_flags=MQMF.LAST_MSG_IN_GROUP), delay=60)
        findings = {each.code: each.figures for each in (await d.connection.explain("Q")).findings}
    assert (findings["INCOMPLETE_GROUP"]["delayed"], findings["INCOMPLETE_GROUP"]["waiting"]) == ([1], [1])
    assert findings["WAITING"] == findings[Cause.DELAYED] == findings[Cause.WAITING]


def test_the_names_of_what_became_of_a_delivery_have_both_words() -> None:
    assert Became["WAITING"] is Became["DELAYED"] is Became(1)
