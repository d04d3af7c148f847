"""A stranger does something to a queue manager that serves a bystander: what the bystander sees of it."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

import broker
from broker.benchmarks.child import MeasurementError
from broker.benchmarks.daemon import resident_mib
from broker.mqi import MQOO, MQError
from tests.hostile.bystander import BYSTANDER_QUEUE, PATIENCE_SECONDS
from tests.hostile.rawline import HUNG_UP, RawLine, raw_line, stream_to

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager

    from anyio.abc import ByteStream

    from broker.benchmarks.child import Child
    from broker.mqi import MessageDescriptor

ATTACK_SECONDS: Final = 60.0
"""So long an attack may take; then its lines are cut."""

TARGET: Final = "TARGET"

TARGET_DEFINITIONS: Final = f"DEFINE QLOCAL({TARGET}) DEFPSIST(NO) MAXDEPTH(999999999) REPLACE\n"

_PREPARE_SECONDS: Final = 60.0
_TURNS: Final = 50
_LOOK_SECONDS: Final = 0.02


def queues(count: int) -> str:
    """The definitions of many queues."""
    return "".join(f"DEFINE QLOCAL({TARGET}.{number}) REPLACE\n" for number in range(count))


class UnansweredError(Exception):
    """The queue manager owes a stranger an answer, or the end of his line; the text says which."""


class Scene:
    """What an attack finds: a queue manager at `url`, process `pid`.

    It prepares what it needs, awaits `begin`, and from there on the bystander is watched. The queue manager may hang up
    on any of its lines: that ends the block of the line, and is no error.
    """

    def __init__(self, url: str, pid: int, bystander: Child) -> None:
        self.url = url
        self.pid = pid
        self.begun = False
        self.bound = anyio.CancelScope(deadline=anyio.current_time() + _PREPARE_SECONDS)
        """What ends an attack that does not end."""
        self._bystander = bystander

    async def begin(self) -> None:
        """All is prepared."""
        await self._bystander.go()
        self.begun = True
        self.bound.deadline = anyio.current_time() + ATTACK_SECONDS

    def connect(self) -> AbstractAsyncContextManager[broker.Connection]:
        """A connection of a client that keeps to the rules."""
        return broker.connect(self.url, appl_name="stranger")

    @asynccontextmanager
    async def line(self) -> AsyncIterator[RawLine]:
        """A line, and conversation 1 on it."""
        async with raw_line(self.url) as line:
            with suppress(*HUNG_UP):
                yield line

    @asynccontextmanager
    async def socket(self) -> AsyncIterator[ByteStream]:
        """A line before its handshake."""
        async with stream_to(self.url) as stream:
            with suppress(*HUNG_UP):
                yield stream

    async def fill(self, q_name: str, data: Iterable[bytes], md: MessageDescriptor | None = None) -> None:
        """Put these messages, each with this descriptor."""
        async with self.connect() as connection, connection.open(q_name, MQOO.OUTPUT) as queue:
            await queue.put_many(data, md)

    async def define(self, script: str) -> None:
        """Run commands, none of which may fail."""
        async with self.connect() as connection:
            for reply in await connection.mqsc(script):
                if not reply.ok:
                    raise MeasurementError(reply.text)

    async def handled(self) -> None:
        """Return when the queue manager has had the time to handle what was written to it."""
        async with self.connect() as connection:
            for _ in range(_TURNS):
                await connection.commit()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """What a stranger does: `run` does it, `count` times or with so many of what it is about.

    `title` may name the `{count}`. `worst_ms` bounds the time of a call of the bystander, `peak_mib` the memory of the
    queue manager's process. `errors` are patterns of the errors that the log may have, `logs` of what it must have.
    """

    name: str
    title: str
    run: Callable[[Scene, int], Awaitable[None]]
    count: int = 1
    definitions: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    worst_ms: float = 500.0
    peak_mib: float = 300.0
    errors: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """How it went.

    `worst_ms` is the longest time of a call of the bystander, from the moment when it was due, and `worst` tells which
    it was; `late` of its `calls` took more than 50 ms. `complaints` are what should not be: a call that was not
    answered, a message that was lost, an attack that did not end. `peak_mib` is the most memory that the queue
    manager's process occupied.
    """

    worst_ms: float
    worst: str
    calls: int
    late: int
    complaints: tuple[str, ...]
    peak_mib: float


async def watched(attack: Attack, url: str, pid: int, bystander: Child) -> Seen:
    """Let `attack` happen to the queue manager at `url`, process `pid`, beside the bystander (a child of `stand_by`).

    The bystander's queue is defined (`BYSTANDER_DEFINITIONS`), and what the attack defines. Raises MeasurementError
    when the attack cannot be prepared.
    """
    await bystander.prepared()
    await bystander.go(url)
    await bystander.prepared()
    scene = Scene(url, pid, bystander)
    complaints = await _happen(attack, scene)
    complaints += await _left_behind(scene)
    await bystander.prepared()  # to stop
    await bystander.go()
    reported = await bystander.result()
    if reported["complaint"]:
        complaints.append(f"the bystander: {reported['complaint']}")
    return Seen(
        worst_ms=reported["worst_ms"],
        worst=reported["worst"],
        calls=reported["calls"],
        late=reported["late"],
        complaints=tuple(complaints),
        peak_mib=peak_mib(pid),
    )


async def _happen(attack: Attack, scene: Scene) -> list[str]:
    """Run the attack; what is wrong with how it went."""
    complaints = []
    with scene.bound as bound:
        try:
            await attack.run(scene, attack.count)
        except (MQError, OSError, *HUNG_UP) as error:
            complaints.append(f"a client was refused: {error!r}")
        except UnansweredError as error:
            complaints.append(str(error))
    if bound.cancelled_caught:
        complaints.append(f"the attack was not over after {ATTACK_SECONDS:g} s")
    if not scene.begun:
        raise MeasurementError("; ".join([f"{attack.name} could not be prepared", *complaints]))
    return complaints


async def _left_behind(scene: Scene) -> list[str]:
    """Whether a new client is not served after the attack, or finds something that the stranger should have taken with
    him: it defines a queue, then asks for the figures until nothing is left.
    """
    left = "no answer"
    try:
        with anyio.fail_after(PATIENCE_SECONDS):
            await scene.define("DEFINE QLOCAL(AFTERWARDS) REPLACE")
            async with scene.connect() as connection:
                while left := held((await connection.status())["queues"]):  # noqa: ASYNC110  # by another process
                    await anyio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        return [f"{PATIENCE_SECONDS:g} s after the attack: {left}"]
    except MQError as error:
        return [f"a new client was not served: {error}"]
    return []


def held(queues: Iterable[Mapping[str, Any]]) -> str:
    """What is held on queues other than the bystander's: nothing, once all strangers have gone."""
    return ", ".join(
        f"{queue['name']} has {queue[what]} {what}"
        for queue in queues
        for what in ("getters", "ipprocs", "uncommitted")
        if queue[what] and queue["name"] != BYSTANDER_QUEUE
    )


def peak_mib(pid: int) -> float:
    """The most memory that a process has occupied so far, 0 when it has gone; where the system does not tell, what it
    occupies now.
    """
    if not Path("/proc/self/status").exists():
        return resident_mib(pid)
    status = Path(f"/proc/{pid}/status")
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status.read_text(), re.MULTILINE) if status.exists() else None
    return int(found[1]) / 1024 if found else 0.0
