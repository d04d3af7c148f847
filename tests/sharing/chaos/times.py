"""`python -m tests.sharing.chaos.times`: how long a wait on one member takes after a commit on another, and how long a
message stays away whose getter is killed with its member, under syncpoint.

All members are processes of their own, the lease is that of members in production, and nothing else runs.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple

from broker import MQError
from broker.client import connect
from broker.mqi import MQGMO, MQOO, MQPMO
from tests.sharing.chaos.processes import Member
from tests.sharing.database import GroupDatabase
from tests.sharing.postgres import Postgres

if TYPE_CHECKING:
    from broker.client.dial import ConnectCall

_WAITS: Final = 300
_TAKEOVERS: Final = 3
_REST_SECONDS: Final = 0.02
"""After it a get that was begun has looked, and waits."""


class Times(NamedTuple):
    """Of each wait, and of each takeover, in seconds; and the lease."""

    waits: list[float]
    takeovers: list[float]
    lease: float

    def __str__(self) -> str:
        ordered = sorted(1000 * wait for wait in self.waits)
        most = ordered[len(ordered) * 99 // 100]
        return (
            f"wait on another member, ms: p50 {median(ordered):.1f}, p99 {most:.1f}, longest {ordered[-1]:.1f}\n"
            f"takeover, s: {', '.join(f'{each:.1f}' for each in self.takeovers)}, with a lease of {self.lease:.0f}\n"
        )


async def measure(folder: Path) -> Times:
    """Measure both, with the data of the members under `folder`."""
    with Postgres(in_memory=False) as server:
        group = GroupDatabase(server)
        await group.make()
        members = [Member(f"QM{number}", folder / f"QM{number}", group.name, group.dsn) for number in (1, 2, 3)]
        try:
            for member in members:
                await member.start()
            first, second, third = members
            await first.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED) DEFPSIST(YES)")
            waits = await _waits(first, second)
            takeovers = []
            for _ in range(_TAKEOVERS):
                takeovers.append(await _takeover(first, third))
                await third.start()
        finally:
            for member in members:
                await member.kill()
    return Times(waits, takeovers, third.lease)


async def _waits(put_at: Member, got_at: Member) -> list[float]:
    waits = []
    async with _to(put_at) as putting, _to(got_at) as getting:
        puts, gets = await putting.open("Q", MQOO.OUTPUT), await getting.open("Q", MQOO.INPUT_SHARED)
        for _ in range(_WAITS):
            waiter = asyncio.ensure_future(gets.get(options=MQGMO.NO_SYNCPOINT, wait=60))
            await asyncio.sleep(_REST_SECONDS)
            await puts.put(b"", options=MQPMO.SYNCPOINT)
            await putting.commit()
            committed = perf_counter()
            await waiter
            waits.append(max(perf_counter() - committed, 0.0))
    return waits


async def _takeover(peer: Member, killed: Member) -> float:
    async with _to(peer) as connection:
        queue = await connection.open("Q", MQOO.OUTPUT | MQOO.INPUT_SHARED)
        await queue.put(b"")
        since = perf_counter()
        with suppress(MQError):  # CONNECTION_BROKEN, in the end
            async with _to(killed) as gone:
                await (await gone.open("Q", MQOO.INPUT_SHARED)).get(options=MQGMO.SYNCPOINT)
                since = perf_counter()
                await killed.kill()
        await queue.get(options=MQGMO.NO_SYNCPOINT, wait=60)
        return perf_counter() - since


def _to(member: Member) -> ConnectCall:
    return connect(f"mq://{member.address}/{member.name}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(str(asyncio.run(measure(Path(folder)))))


if __name__ == "__main__":
    main()
