"""What is called round a handler (handlers rule 13.4), with a run that the test plays."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.mqi import MessageDescriptor
from triggers.app.middleware import Delivery, Middleware, around
from triggers.app.verdicts import Later
from triggers.serving.attempt import Attempt

pytestmark = pytest.mark.filterwarnings("error")


MESSAGE = SimpleNamespace(md=MessageDescriptor(), length=0, properties={})


class Told(Middleware):
    """Writes down what it is told."""

    def __init__(self, name: str, reported: list[str], wrong: str = "") -> None:
        self._name = name
        self._reported = reported
        self._wrong = wrong

    async def before(self, delivery: Delivery) -> None:
        self._tell(f"before {delivery.q_name} {delivery.handler} {delivery.attempt.number}")

    async def after(self, delivery: Delivery) -> None:
        self._tell("after")

    async def failed(self, delivery: Delivery, error: BaseException) -> None:
        self._tell(f"failed {error!r}")

    def _tell(self, words: str) -> None:
        self._reported.append(f"{self._name} {words}")
        if self._wrong and words.startswith(self._wrong):
            raise KeyError(self._name)


def run(**state: Any) -> Any:
    """A run as the middleware sees it."""
    handler = SimpleNamespace(q_name="ORDERS", name="shop:ship")
    server = SimpleNamespace(handler=handler, cancelled=False)
    attempt = Attempt(2, 6, 0.0, "ORDERS")
    return SimpleNamespace(
        **{"server": server, "attempt": attempt, "messages": [MESSAGE], "error": None, "decided": None, **state}
    )


async def call(
    middleware: list[Middleware], reported: list[str], raises: BaseException | None = None, **state: Any
) -> Any:
    async def handler() -> str:
        reported.append("handler")
        if raises is not None:
            raise raises
        return "value"

    wrapped = around(middleware)
    assert wrapped is not None
    return await wrapped(run(**state), handler())


async def test_each_is_called_before_in_its_order_and_after_in_the_opposite_one() -> None:
    reported: list[str] = []
    assert await call([Told("A", reported), Told("B", reported)], reported) == "value"
    assert reported == ["A before ORDERS shop:ship 2", "B before ORDERS shop:ship 2", "handler", "B after", "A after"]


async def test_what_before_raises_fails_the_attempt_without_the_handler() -> None:
    reported: list[str] = []
    with pytest.raises(KeyError):
        await call([Told("A", reported), Told("B", reported, "before")], reported)
    assert reported[2:] == ["B failed KeyError('B')", "A failed KeyError('B')"]


async def test_what_after_raises_fails_the_attempt() -> None:
    reported: list[str] = []
    with pytest.raises(KeyError):
        await call([Told("A", reported), Told("B", reported, "after")], reported)
    assert reported[2:] == ["handler", "B after", "B failed KeyError('B')", "A failed KeyError('B')"]


async def test_what_the_handler_raises_is_told_and_raised() -> None:
    reported: list[str] = []
    with pytest.raises(ValueError, match="no"):
        await call([Told("A", reported)], reported, ValueError("no"))
    assert reported[1:] == ["handler", "A failed ValueError('no')"]


async def test_what_failed_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    reported: list[str] = []
    with pytest.raises(ValueError, match="no"):
        await call([Told("A", reported), Told("B", reported, "failed")], reported, ValueError("no"))
    assert reported[-1] == "A failed ValueError('no')"
    assert caplog.messages == ["Told.failed raised, of <Delivery of ORDERS to shop:ship, attempt 2>"]


async def test_a_timeout_is_told_as_one() -> None:
    reported: list[str] = []
    with pytest.raises(asyncio.CancelledError):
        await call(
            [Told("A", reported)], reported, asyncio.CancelledError(), decided=object(), error=TimeoutError("30 s")
        )
    assert reported[-1] == "A failed TimeoutError('30 s')"


@pytest.mark.parametrize(
    "state",
    [{"decided": object()}, {"server": SimpleNamespace(handler=SimpleNamespace(q_name="Q", name="h"), cancelled=True)}],
)
async def test_a_stop_is_no_failure(state: dict[str, Any]) -> None:
    reported: list[str] = []
    with pytest.raises(asyncio.CancelledError):
        await call([Told("A", reported)], reported, asyncio.CancelledError(), **state)
    assert reported[-1] == "handler"


async def test_later_is_told_and_raised() -> None:
    reported: list[str] = []
    with pytest.raises(Later):
        await call([Told("A", reported)], reported, Later(5))
    assert reported[-1].startswith("A failed Later(")
