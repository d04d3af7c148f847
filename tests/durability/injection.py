"""Errors of the disk itself: strace makes system calls of a daemon fail while client programs put and get.

Each injection is named for the system calls and the error. The log and the manifest are written with `pwritev2`, on
whose return the medium has the bytes; SQLite writes with `pwrite64` and syncs with `fdatasync` or `fsync`. Nothing else
in a daemon does, so the injected errors meet the store alone. An error comes once, and the disk is well again.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random
from signal import SIGINT
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from broker import MQError
from broker.mqi import MQRC
from tests.durability.daemon import COULD_NOT_RUN, daemon
from tests.durability.ledger import Ledger
from tests.durability.load import Load
from tests.durability.outcome import Outcome, UnavailableError
from tests.durability.program import DEFINITIONS, HARDENED, Program, browsed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from tests.durability.daemon import Daemon

FAILED: Final = "has failed"
"""What the last line of a daemon's log says of its store."""


class Injection(NamedTuple):
    """The system calls that fail, and with which error."""

    calls: str
    error: str

    def __str__(self) -> str:
        return f"{self.error} from {self.calls}"

    def command(self, when: str) -> list[str]:
        """Return the command line for strace; `when` as in its manual: "3" is the third call, "1+" every one."""
        return [
            _strace(), "-f", "-o", os.devnull, "-e", f"trace={self.calls}",
            "-e", f"inject={self.calls}:error={self.error}:when={when}",
        ]  # fmt: skip


_SYNCS: Final = "fdatasync,fsync"
_DIRECT: Final = "pwritev2"
_CALLS: Final = 20

FATAL: Final = (
    Injection(_DIRECT, "EIO"),
    Injection("pwrite64", "EIO"),
    Injection(_SYNCS, "EIO"),
    Injection(_DIRECT, "ENOSPC"),
    Injection(_SYNCS, "ENOSPC"),
)
"""What a store does not survive: the outcome of the write is unknown (journal rule 7)."""

_OFTEN: Final[Mapping[str, int]] = MappingProxyType({_DIRECT: 100, "pwrite64": 200, _SYNCS: 8})
"""Among how many calls the one that fails is chosen."""

_SHORT_LOG: Final[Mapping[str, str]] = MappingProxyType({"EVERMQ_JOURNAL_FILE_BYTES": str(1024 * 1024)})
"""A log that is carried over often."""

NO_ROOM: Final = Injection("pwrite64", "ENOSPC")
"""What it does: nothing of the batch is written (journal rule 6)."""


async def failing(folder: Path, injection: Injection, seed: int) -> Outcome:
    """An error that the store does not survive: the daemon ends, and the next one takes what the disk has."""
    random = Random(seed)
    ledger = Ledger(HARDENED)
    load = Load(ledger, random)
    async with daemon(folder, DEFINITIONS, settings=_SHORT_LOG) as server:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(load.run(server.url))
            await load.progress(random.randrange(1, 50))
            async with injected(server.pid, injection, str(random.randrange(1, _OFTEN[injection.calls]))):
                await _expect_end(server)
        await server.start()
        ledger.reconcile(await browsed(server.url))
    return Outcome(
        f"{injection}, under load",
        f"programs were told 2009, and the daemon ended with code {COULD_NOT_RUN} and named its store; after a restart "
        f"nothing was lost or doubled: {ledger.figures.outcomes()}",
    )


async def refusing(folder: Path, seed: int) -> Outcome:
    """No room for one write in a few, and then for none; and then there is room again."""
    random = Random(seed)
    ledger = Ledger(HARDENED, counts=False)
    load = Load(ledger, random)
    async with daemon(folder, DEFINITIONS, settings=_SHORT_LOG) as server:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(load.run(server.url))
            await load.progress(random.randrange(1, 50))
            load.large = True
            async with injected(server.pid, NO_ROOM, f"{random.randrange(1, 20)}+{random.randrange(200, 400)}"):
                await load.refused(5)
                await load.progress(50)
            async with injected(server.pid, NO_ROOM, "1+"):
                await load.refused(20)
            await load.progress(50)
            await server.kill()
        await server.start()
        ledger.reconcile(await browsed(server.url))
    return Outcome(
        f"{NO_ROOM}, under load",
        f"{load.refusals} calls were refused with 2192 or 2003, and had done nothing; the others went on, and all of "
        "them when there was room again; nothing was lost or doubled over a restart",
    )


async def failing_while_quiescing(folder: Path) -> Outcome:
    """The store fails when the daemon has been told to end, and a program is still connected."""
    ledger = Ledger(HARDENED)
    async with daemon(folder, DEFINITIONS) as server:
        async with AsyncExitStack() as stack:
            program = await Program.start(stack, server.url, "A", ledger)
            await program.put_alone("Q")
            async with injected(server.pid, FATAL[0], "1"):
                server.terminate()
                await server.logged("queue manager quiesces")
                with pytest.raises(MQError) as broken:
                    await program.put_alone("Q")
                assert broken.value.reason == MQRC.CONNECTION_BROKEN
                await _expect_end(server)
        await server.start()
        ledger.reconcile(await browsed(server.url))
    return Outcome(
        f"{FATAL[0]}, after SIGTERM",
        f"the daemon ended with code {COULD_NOT_RUN} at once, and did not wait for the connections",
    )


async def failing_start(folder: Path, injection: Injection) -> Outcome:
    """The first start of a daemon on a disk that takes nothing."""
    async with daemon(folder, "") as server:
        await server.stop()
        shutil.rmtree(server.data)
        server.prefix = tuple(injection.command("1+"))
        await server.launch()
        code = await server.ended()
        assert code == COULD_NOT_RUN, f"it ended with {code}: {''.join(server.log)}"
    line = server.log[-1].strip().replace(f"{folder}/", "")
    assert line.startswith("evermq: "), line
    return Outcome(f"{injection}, at the first start", f"it ended with code {COULD_NOT_RUN} and the line `{line}`")


async def synced(folder: Path) -> Outcome:
    """Calls are made one at a time, so that none can share the sync of another; the writes that wait are counted."""
    ledger = Ledger(HARDENED)
    trace = folder / "trace"
    async with daemon(folder, DEFINITIONS) as server, AsyncExitStack() as stack:
        program = await Program.start(stack, server.url, "A", ledger)
        waits = _writes_wait(server.pid)
        async with _traced(server.pid, [_strace(), "-f", "-y", "-o", str(trace), "-e", f"trace={_DIRECT},{_SYNCS}"]):
            for _ in range(_CALLS):
                await program.put_alone("S")
                unit = ledger.begin()
                await program.put(unit, "Q")
                await program.commit(unit)
                await program.get_alone("S")
    calls = [line for line in trace.read_text("utf-8").splitlines() if "/log." in line]
    syncs = sum(("pwritev2(" in line) is waits for line in calls)
    assert syncs >= 3 * _CALLS, f"{syncs} syncs of the log for {3 * _CALLS} calls"
    return Outcome(
        "none: system calls are counted",
        f"{_CALLS} puts, {_CALLS} commits and {_CALLS} gets outside syncpoint, made one at a time, had {syncs} "
        f"{'writes of the log that wait for the medium' if waits else 'syncs of the log'}",
    )


def _writes_wait(pid: int) -> bool:
    """True if a write of the log returns only when the medium has it: the file is open so (O_DIRECT and O_DSYNC)."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        if "/log." in os.readlink(link):
            (flags,) = re.findall(r"flags:\s+(\d+)", Path(f"/proc/{pid}/fdinfo/{link.name}").read_text("ascii"))
            return (int(flags, 8) & (os.O_DIRECT | os.O_DSYNC)) == os.O_DIRECT | os.O_DSYNC
    raise AssertionError("the log is not open")


@asynccontextmanager
async def injected(pid: int, injection: Injection, when: str) -> AsyncIterator[None]:
    """Let system calls of a process fail. Raises UnavailableError where strace is missing or may not do it."""
    async with _traced(pid, injection.command(when)):
        yield


@asynccontextmanager
async def _traced(pid: int, command: Sequence[str]) -> AsyncIterator[None]:
    """Have strace at work on a process."""
    tracer = await asyncio.create_subprocess_exec(
        *command, "-p", str(pid), stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, env={"LC_ALL": "C"}
    )
    assert tracer.stderr is not None
    reported = (await tracer.stderr.readline()).decode()
    try:
        if "attached" not in reported:
            raise UnavailableError(f"strace cannot trace: {reported.strip()}")
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(tracer.pid, SIGINT)
        await tracer.communicate()


def _strace() -> str:
    found = shutil.which("strace")
    if found is None:
        raise UnavailableError("strace is not installed")
    return found


async def _expect_end(server: Daemon) -> None:
    """The daemon ends by itself, and says why."""
    code = await server.ended()
    assert code == COULD_NOT_RUN, f"it ended with {code}: {''.join(server.log)}"
    assert FAILED in server.log[-1], server.log[-1]
