"""Processes that are suspended (SIGSTOP) and go on (SIGCONT): a daemon under load, a client with a message in hand."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import AsyncExitStack
from random import Random
from signal import SIGCONT, SIGSTOP
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

from broker.client import line
from broker.mqi import MQRC
from tests.durability.daemon import ROOT, daemon, environment
from tests.durability.ledger import Ledger
from tests.durability.load import Load
from tests.durability.outcome import Outcome
from tests.durability.program import DEFINITIONS, HARDENED, Program, browsed

if TYPE_CHECKING:
    from pathlib import Path

HEARTBEAT: Final = 1.0
"""The shortest heartbeat that a daemon agrees to, in seconds."""

_MOMENT: Final = 0.2


async def short(folder: Path, seed: int) -> Outcome:
    """A daemon is suspended for less than its clients wait for a sign of life, several times."""
    random = Random(seed)
    ledger = Ledger(HARDENED)
    load = Load(ledger, random)
    async with daemon(folder, DEFINITIONS) as server:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(load.run(server.url))
            for _ in range(5):
                await load.progress(random.randrange(1, 50))
                server.suspend()
                await asyncio.sleep(_MOMENT)
                server.resume()
            await load.progress(50)
            await server.kill()
        await server.start()
        ledger.reconcile(await browsed(server.url))
    return Outcome(
        f"daemon suspended 5 times for {_MOMENT:g} s under load",
        "all connections went on; nothing was lost or doubled over a restart",
    )


async def long(folder: Path, seed: int) -> Outcome:
    """A daemon is suspended until its clients give it up."""
    random = Random(seed)
    ledger = Ledger(HARDENED)
    load = Load(ledger, random)
    async with daemon(folder, DEFINITIONS) as server:
        with patch.object(line, "HEARTBEAT_SECONDS", HEARTBEAT):
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(load.run(server.url))
                await load.progress(random.randrange(1, 100))
                server.suspend()
                await running
        server.resume()
        async with AsyncExitStack() as stack:
            await (await Program.start(stack, server.url, "after", ledger)).put_alone("Q")
        await server.kill()
        await server.start()
        ledger.reconcile(await browsed(server.url))
    return Outcome(
        "daemon suspended under load until its clients gave it up",
        "programs were told 2009 after two and a half heartbeats; it went on when it was resumed, and nothing was "
        f"lost or doubled over a restart: {ledger.figures.outcomes()}",
    )


async def client(folder: Path) -> Outcome:
    """A client is suspended with a message in its hands, until the daemon gives it up."""
    ledger = Ledger(HARDENED)
    async with daemon(folder, DEFINITIONS) as server, AsyncExitStack() as stack:
        program = await Program.start(stack, server.url, "A", ledger)
        await program.put_alone("R")
        holder = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.durability.holder", server.url, "R", str(HEARTBEAT),
            stdin=PIPE, stdout=PIPE, stderr=DEVNULL, cwd=ROOT, env=environment(),
        )  # fmt: skip
        assert holder.stdout is not None
        assert (await holder.stdout.readline()).decode().strip() == "A.0"
        os.kill(holder.pid, SIGSTOP)
        try:
            unit = ledger.begin()
            assert (await program.get(unit, "R", wait=30)).md.backout_count == 1
            await program.commit(unit)
        finally:
            os.kill(holder.pid, SIGCONT)
        reported, _ = await holder.communicate(b"\n")
        assert reported.decode().strip() == MQRC.CONNECTION_BROKEN.name, reported
        ledger.reconcile(await browsed(server.url))
    return Outcome(
        "client suspended with a message under syncpoint",
        "the daemon gave it up after two and a half heartbeats and backed its unit of work out; another program got "
        "the message, with BackoutCount 1; the client, resumed, was told 2009 by its commit",
    )
