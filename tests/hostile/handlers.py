"""Handlers that no monitor would wish to start, and what makes it start them."""

from __future__ import annotations

import os
import time
from asyncio import CancelledError
from signal import SIGHUP
from typing import TYPE_CHECKING, Final

import anyio

from broker import MQError, connect
from broker.mqi import MQOO
from tests.hostile.scene import Attack, UnansweredError
from triggers import process

if TYPE_CHECKING:
    from broker import Connection
    from tests.hostile.scene import Scene
    from triggers import TriggerMessage

_STARTED: Final = "STARTED"
_START_SECONDS: Final = 20.0


class NotAnException(BaseException):
    """An exception that `except Exception` lets pass."""


_KINDS: Final[dict[str, type[BaseException]]] = {
    kind.__name__: kind for kind in (NotAnException, SystemExit, KeyboardInterrupt, GeneratorExit, CancelledError)
}


@process("RAISE")
async def raise_base_exception(trigger: TriggerMessage, connection: Connection) -> None:
    """Raise what the queue says."""
    await connection.put1(_STARTED, trigger.q_name)
    raise _KINDS[trigger.trigger_data]


@process("IGNORE")
async def ignore_cancellation(trigger: TriggerMessage, connection: Connection) -> None:
    """Handle no cancellation."""
    await connection.put1(_STARTED, trigger.q_name)
    while True:
        try:
            await anyio.sleep_forever()
        except CancelledError:
            pass


@process("BLOCK")
async def block_the_loop(trigger: TriggerMessage, connection: Connection) -> None:
    """Keep the event loop for longer than anybody should."""
    await connection.put1(_STARTED, trigger.q_name)
    time.sleep(1.5)  # noqa: ASYNC251  # it is what the test is about


DEFINITIONS: Final = (
    f"DEFINE QLOCAL({_STARTED}) DEFPSIST(NO) REPLACE\n"
    + "".join(
        f"DEFINE PROCESS({name}) REPLACE\n"
        f"DEFINE QLOCAL({name}) DEFPSIST(YES) TRIGGER TRIGTYPE(EVERY) PROCESS({name}) REPLACE\n"
        for name in ("IGNORE", "BLOCK", "RAISE")
    )
    + "".join(
        f"DEFINE QLOCAL(RAISE.{name.upper()}) LIKE(RAISE) TRIGGER TRIGDATA('{name}') REPLACE\n" for name in _KINDS
    )
)

SETTINGS: Final = {
    "EVERMQ_TRIGGER_MONITOR_ENABLED": "true",
    "EVERMQ_TRIGGER_MONITOR_HANDLERS": __name__,
}


async def start(url: str, *q_names: str) -> None:
    """Trigger these queues, and return when a handler of each has been started."""
    async with connect(url) as connection, connection.open(_STARTED, MQOO.INPUT_SHARED) as started:
        for name in q_names:
            await connection.put1(name, b"work")
        for _ in q_names:
            try:
                await started.get(wait=_START_SECONDS)
            except MQError as error:
                raise UnansweredError(f"the handlers of {', '.join(q_names)} were not all started") from error


async def raised(scene: Scene, count: int) -> None:
    await scene.begin()
    await start(scene.url, *(f"RAISE.{name.upper()}" for name in _KINDS))
    await scene.handled()


async def blocked(scene: Scene, count: int) -> None:
    await scene.begin()
    await start(scene.url, "BLOCK")
    await scene.handled()


async def hang_up_signal(scene: Scene, count: int) -> None:
    await scene.begin()
    os.kill(scene.pid, SIGHUP)
    await scene.handled()


RAISING: Final = Attack(
    name="handlers that raise BaseException",
    title="handlers that raise BaseException",
    run=raised,
    definitions=DEFINITIONS,
    settings=SETTINGS,
    errors=("trigger handler failed",),
    logs=tuple(_KINDS),
)

ATTACKS: Final = (
    RAISING,
    Attack(
        name="handler that blocks the loop",
        title="a handler that blocks the event loop for 1.5 s",
        run=blocked,
        definitions=DEFINITIONS,
        settings=SETTINGS,
        logs=("block_the_loop",),
        worst_ms=float("inf"),
    ),
    Attack(name="SIGHUP", title="SIGHUP", run=hang_up_signal),
)
