"""What a handler raises is told and kept in bounds, and does not hold the event loop (handlers rule 13.2)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from broker import Connection
from tests.handlers.apps import Shop
from tests.handlers.loops import both_loops
from triggers import App, Reject, Retry, TriggerMessage, TriggerMonitor, process

if TYPE_CHECKING:
    from collections.abc import Callable

RECORD_BYTES = 64 * 1024


class Exits(Exception):
    def __str__(self) -> str:
        raise SystemExit(7)


def nested(depth: int) -> Exception:
    error: Exception = ValueError("the innermost")
    for number in range(depth):
        error = ExceptionGroup(f"group {number}", [error, ValueError(str(number))])
    return error


ERRORS: dict[str, Callable[[], BaseException]] = {
    "20 MB": lambda: ValueError("x" * 20_000_000),
    "200 deep": lambda: nested(200),
    "exits": Exits,
    "reject": lambda: Reject("x" * 20_000_000),
}


def check_log(caplog: pytest.LogCaptureFixture, said: str) -> None:
    """Check that what was logged of it is there, and short, whoever formats it."""
    formatter = logging.Formatter("%(levelname)s %(message)s")
    written = [formatter.format(each) for each in caplog.records]
    assert any(said in each for each in written)
    assert all(len(each.encode()) <= RECORD_BYTES for each in written)


@pytest.mark.parametrize("plain", [False, True], ids=["async def", "def"])
@pytest.mark.parametrize("way", ["embedded", "tcp"])
@pytest.mark.parametrize("what", ERRORS)
async def test_whatever_a_handler_raises_is_a_dead_letter_and_a_short_record(
    what: str, way: str, caplog: pytest.LogCaptureFixture, *, plain: bool
) -> None:
    async with Shop(way) as shop:
        if plain:

            @shop.app.handler("ORDERS", retry=Retry(0))
            def handle(body: str) -> None:
                raise ERRORS[what]()

        else:

            @shop.app.handler("ORDERS", retry=Retry(0))
            async def handle_it(body: str) -> None:
                raise ERRORS[what]()

        async with shop.running():
            await shop.app.put("ORDERS", "a")
            letter = await shop.get("ORDERS.DEAD")
    kept: Any = letter.properties
    assert kept["evermq.exception"] == type(ERRORS[what]()).__name__
    assert len(kept["evermq.error"].encode()) <= 1024
    assert 0 < len(kept["evermq.traceback"].encode()) <= 4096
    check_log(caplog, "outcome=dead")


@both_loops
@pytest.mark.parametrize("what", ERRORS)
async def test_the_test_kit_raises_it_as_it_is(what: str) -> None:
    app = App("mq://127.0.0.1:1", name="KIT")
    error = ERRORS[what]()

    @app.handler("ORDERS", retry=Retry(0))
    def handle(body: str) -> None:
        raise error

    async with app.test() as t:
        await t.put("ORDERS", "a")
        with t.failures() as seen:
            await t.idle()
        assert seen[0] is error


@pytest.mark.parametrize("plain", [False, True], ids=["async def", "def"])
@pytest.mark.parametrize("what", ["20 MB", "200 deep", "exits"])
async def test_a_handler_of_a_process_too(what: str, caplog: pytest.LogCaptureFixture, *, plain: bool) -> None:
    async with Shop() as shop:
        await shop.mqsc("DEFINE PROCESS(P)\nDEFINE QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P)")
        module = type(logging)("handlers_of_p")
        if plain:

            @process("P")
            def handle(trigger: TriggerMessage, connection: Connection) -> None:
                raise ERRORS[what]()

            module.handle = handle  # type: ignore[attr-defined]
        else:

            @process("P")
            async def handle_it(trigger: TriggerMessage, connection: Connection) -> None:
                raise ERRORS[what]()

            module.handle = handle_it  # type: ignore[attr-defined]
        async with TriggerMonitor(shop.manager, handlers=[module], clock=shop.clock) as monitor:
            await shop.connection.put1("Q", b"a")
            await shop.clock.advance(0.05)
            while not monitor.statistics().failed:
                await shop.clock.advance(0.001)
    check_log(caplog, "trigger handler failed")
