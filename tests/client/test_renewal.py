"""Lines that go on: a fresh secret at each dial, and before the last proof ends."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from broker import Connection, MQError, connect
from broker.client.reconnecting import ReconnectingPort
from broker.mqi import MQRC
from broker.testing import VirtualClock
from tests.client.gate import REFUSED, Gate, HastyClock, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOKEN = 2


async def until(done: Callable[[], bool]) -> None:
    """Return when this is so, which takes some turns of the event loop."""
    while not done():  # noqa: ASYNC110
        await asyncio.sleep(0)


def down(connection: Connection) -> bool:
    assert isinstance(connection.port, ReconnectingPort)
    return connection.port.down


def tokens() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"token {number}"


async def test_a_line_that_is_made_again_brings_a_fresh_token_and_the_program_sees_nothing(gate: Gate) -> None:
    """X4.7."""
    fresh = tokens()
    async with (
        connect(gate.url, token=lambda: next(fresh), clock=HastyClock(), reconnect=True) as connection,
        await connection.connect() as further,
    ):
        for _ in range(3):
            gate.cut()
            await until(lambda: down(connection) and down(further))
            assert (await connection.status())["name"] == (await further.status())["name"] == "QM1"
    assert [each.secret for each in gate.connects] == [
        b"token 1", b"", b"token 2", b"", b"token 3", b"", b"token 4", b""
    ]  # fmt: skip


async def test_a_user_who_is_refused_at_two_dials_in_turn_is_2035_and_tried_no_more(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect(gate.url, password="canary", clock=HastyClock(), reconnect=True) as connection:
        gate.admit = lambda secret: refuse()
        gate.cut()
        await until(lambda: down(connection))
        waiting = [asyncio.ensure_future(connection.status()), asyncio.ensure_future(connection.connect())]
        for each in waiting:
            with pytest.raises(MQError, match="not authorized") as raised:
                await each
            assert raised.value.reason == MQRC.NOT_AUTHORIZED
        assert len(gate.connects) == 3
        assert connection.port.broken
        for call in (connection.status, connection.connect):
            with pytest.raises(MQError, match="not authorized"):
                await call()
    assert len(gate.connects) == 3
    assert "line not made again" in caplog.text
    assert "canary" not in caplog.text


async def test_a_refusal_between_two_other_failures_does_not_count(gate: Gate) -> None:
    outcomes: list[MQError | None] = [None]
    outcomes += [REFUSED, MQError(MQRC.Q_MGR_QUIESCING, "QM1 is quiescing"), REFUSED, None]
    made = iter(outcomes)

    def admit(secret: bytes) -> None:
        if (error := next(made)) is not None:
            raise MQError(error.reason, error.detail)

    gate.admit = admit
    async with connect(gate.url, password="x", clock=HastyClock(), reconnect=True) as connection:
        gate.cut()
        await until(lambda: down(connection))
        assert (await connection.status())["name"] == "QM1"
    assert len(gate.connects) == 5


async def test_a_function_that_fails_at_a_later_dial_is_called_again_and_its_text_is_in_no_log(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    calls = 0

    def secret() -> str:
        nonlocal calls
        calls += 1
        if calls in (2, 3):
            raise LookupError("canary")
        return "x"

    async with connect(gate.url, password=secret, clock=HastyClock(), reconnect=True) as connection:
        gate.cut()
        await until(lambda: down(connection))
        assert (await connection.status())["name"] == "QM1"
    assert calls == 4
    assert "no secret, for LookupError" in caplog.text
    assert "canary" not in caplog.text


# Before a proof ends


async def test_a_fresh_token_is_brought_at_four_fifths_of_the_time_left(gate: Gate) -> None:
    gate.admit = lambda secret: 1000.0
    clock, fresh = VirtualClock(), tokens()
    async with connect(gate.url, token=lambda: next(fresh), clock=clock) as connection:
        await clock.advance(799)
        assert gate.proofs == []
        await clock.advance(1)
        await until(lambda: gate.proofs == [(TOKEN, b"token 2")])
        await connection.status()  # so its answer has come
        await clock.advance(799)
        assert len(gate.proofs) == 1
        await clock.advance(1)
        await until(lambda: gate.proofs[1:] == [(TOKEN, b"token 3")])
        await connection.status()
    await clock.advance(10_000)
    assert len(gate.proofs) == 2


async def test_a_token_that_cannot_be_had_is_asked_for_again_until_the_last_second(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    gate.admit = lambda secret: 100.0
    clock = VirtualClock()
    asked: list[float] = []

    def token() -> str:
        asked.append(clock.monotonic())
        if len(asked) > 1:
            raise LookupError("canary")
        return "x"

    async with connect(gate.url, token=token, clock=clock):
        for _ in range(100):
            await clock.advance(1)
    assert asked == pytest.approx([0, 80, 96, 99.2])
    assert "no fresh token" in caplog.text
    assert "LookupError" in caplog.text
    assert "canary" not in caplog.text


async def test_a_fresh_token_that_is_refused_leaves_the_line_and_is_followed_by_another(gate: Gate) -> None:
    gate.admit = lambda secret: refuse() if secret == b"token 2" else 100.0
    clock, fresh = VirtualClock(), tokens()
    async with connect(gate.url, token=lambda: next(fresh), clock=clock) as connection:
        await clock.advance(80)
        await until(lambda: len(gate.proofs) == 1)
        await connection.status()
        await clock.advance(16)
        await until(lambda: gate.proofs == [(TOKEN, b"token 2"), (TOKEN, b"token 3")])
        assert (await connection.status())["name"] == "QM1"


@pytest.mark.parametrize("secret", [{"token": "fixed"}, {}], ids=["a text", "none"])
async def test_what_cannot_be_had_afresh_is_not_renewed(secret: dict[str, Any], gate: Gate) -> None:
    gate.admit = lambda secret: 100.0
    clock = VirtualClock()
    async with connect(gate.url, clock=clock, **secret) as connection:
        await clock.advance(20)
        await connection.status()
        await clock.advance(20)
        await connection.status()
        await clock.advance(19)
        await connection.status()
        await clock.advance(20)
        await connection.status()
        await clock.advance(20)
    assert gate.proofs == []
