"""Lines that come, many or all at once, and lines that are there: what it takes to let programs in."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import broker
from broker import MQError
from broker.benchmarks.body import now
from broker.benchmarks.child import MeasurementError
from broker.benchmarks.daemon import MIB
from broker.benchmarks.protection import Protection
from broker.benchmarks.workload import FigureUnit, Measured, Workload, rate_of

if TYPE_CHECKING:
    from broker import Connection
    from broker.benchmarks.child import Ready, Told
    from broker.benchmarks.workload import Trial

_AT_ONCE: Final = 16
"""Lines that are being made at a time, where not all are."""

_WARM_UP: Final = 50

_PROCESSES: Final = 4
"""Among which a herd is divided."""

_KIB: Final = 1024


async def come_and_go(ready: Ready, url: str, size: int, count: int) -> Told:
    """Connect, each on a line of its own, and disconnect."""

    async def come(times: int) -> None:
        numbers = iter(range(times))

        async def one_by_one() -> None:
            for _ in numbers:
                async with broker.connect(url):
                    pass

        await asyncio.gather(*(one_by_one() for _ in range(_AT_ONCE)))

    await come(_WARM_UP)
    await ready()
    begun = now()
    await come(count)
    return {"rate": count / ((now() - begun) / 1e9)}


async def stay(ready: Ready, url: str, size: int, count: int) -> Told:
    """Hold some lines, then so many more; each time say when they are there."""
    async with AsyncExitStack() as stack:
        for lines in (_WARM_UP, count):
            for _ in range(lines):
                await stack.enter_async_context(broker.connect(url))
            await ready()
    return {}


async def log_in_at_once(ready: Ready, url: str, size: int, count: int) -> Told:
    """Dial on so many lines at once; how many were refused, and the words of the first that was."""
    await ready()
    dialled = await asyncio.gather(*(_dialled(url) for _ in range(count)))
    ended = now()
    refused = [each for each in dialled if isinstance(each, MQError)]
    for each in dialled:
        if not isinstance(each, MQError):
            await each.close()
    return {"ended": ended, "refused": len(refused), "words": str(refused[0]) if refused else ""}


async def _dialled(url: str) -> Connection | MQError:
    try:
        return await broker.connect(url)
    except MQError as error:
        return error


async def count_hashes(ready: Ready, url: str, size: int, count: int) -> Told:
    """Ask how many passwords the daemon has verified."""
    async with broker.connect(url) as connection:
        await ready()
        return {"hashes": (await connection.status())["security"]["passwords_verified"]}


async def _rate(trial: Trial) -> Measured:
    return rate_of(await trial.alone(come_and_go))


async def _memory(trial: Trial) -> Measured:
    async with trial.client(stay) as client:
        await client.prepared()
        before = trial.daemon.resident_mib
        await client.go()
        await client.prepared()
        mib = trial.daemon.resident_mib - before
        await client.go()
        await client.result()
    return Measured(value=mib * MIB / _KIB / trial.count)


async def _herd(trial: Trial) -> Measured:
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(trial.client(log_in_at_once, count=trial.count // _PROCESSES))
            for _ in range(_PROCESSES)
        ]
        for client in clients:
            await client.prepared()
        before, begun = trial.daemon.processor_seconds, now()
        for client in clients:
            await client.go()
        results = [await client.result() for client in clients]
        daemon_ms = (trial.daemon.processor_seconds - before) * 1e3
    refused = [each for each in results if each["refused"]]
    if refused:
        lines = sum(each["refused"] for each in refused)
        raise MeasurementError(f"{lines} of {trial.count} lines were refused: {refused[0]['words']}")
    hashes = (await trial.alone(count_hashes))["hashes"]
    took = max(each["ended"] for each in results) - begun
    return Measured(value=took / 1e6, details={"hashes": hashes, "daemon_ms": daemon_ms})


CONNECT: Final = Workload(
    name="connect",
    title="connect and disconnect, a line each, 16 at a time",
    unit=FigureUnit.CONNECTS_PER_SECOND,
    sizes=(0,),
    count=2_000,
    run=_rate,
    ways=lambda count: (),
    settings={"EVERMQ_LIMITS_HANDSHAKE_RATE": "100000"},
)

LINES: Final = Workload(
    name="lines",
    title="memory of the daemon for a line that is idle",
    unit=FigureUnit.KIBIBYTES,
    sizes=(0,),
    count=1_000,
    run=_memory,
    ways=lambda count: (),
)

HERD: Final = Workload(
    name="herd",
    title="{count} workers of one address, with one password, log in at once, all",
    unit=FigureUnit.MILLISECONDS,
    sizes=(0,),
    count=1_000,
    run=_herd,
    ways=lambda count: (),
    protection=Protection.USERS,
)
