"""A disk that is full: persistent puts are refused with STORAGE_MEDIUM_FULL (2192), gets go through, nothing is lost.

Three ways to come to that: a database that may not grow (everywhere), a small disk that the messages fill, and a disk
that another program fills. The last two need a tmpfs, which only root can mount.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

from broker import MQError
from broker.client import connect
from broker.mqi import MQPER, MQRC
from tests.durability.daemon import daemon
from tests.durability.ledger import Ledger
from tests.durability.outcome import Outcome, UnavailableError
from tests.durability.program import ALL, DEFINITIONS, EXACT, HARDENED, QUEUES, Program, browsed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from tests.durability.daemon import Daemon

PAGES: Final = 1_500
_LENGTH: Final = 16_000
_GETS_A_UNIT: Final = 20
_MEGABYTE: Final = 1024 * 1024
_DISK_MEGABYTES: Final = 72  # the ballast, a log as long as it may be, and some messages
_LEFT_MEGABYTES: Final = 4


async def database_full(folder: Path) -> Outcome:
    """The database has as many pages as it may."""
    async with defined(folder, folder / "data") as server:
        await server.kill()
        server.pages = PAGES
        await server.start()
        return Outcome(f"database limited to {PAGES} pages", await _fill_and_drain(server))


async def disk_full(folder: Path) -> Outcome:
    """The messages fill the disk."""
    with small_disk(folder) as disk:
        async with defined(folder, disk / "data") as server:
            return Outcome(f"disk of {_DISK_MEGABYTES} MiB filled by messages", await _fill_and_drain(server))


async def disk_filled_by_another(folder: Path) -> Outcome:
    """Another program's file fills the disk, and goes again."""
    with small_disk(folder) as disk:
        async with defined(folder, disk / "data") as server:
            other = disk / "other"
            occupy(other, _LEFT_MEGABYTES * _MEGABYTE)
            ended = await _fill_and_drain(server, other.unlink)
            return Outcome(f"disk of {_DISK_MEGABYTES} MiB filled by another program", ended)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A small disk, mounted in `folder`. Raises UnavailableError where it cannot be mounted."""
    if sys.platform != "linux":
        raise UnavailableError("there is no tmpfs on this system")
    path = folder / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MEGABYTES}m", "tmpfs", str(path)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        raise UnavailableError(f"a tmpfs cannot be mounted: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


@asynccontextmanager
async def defined(folder: Path, data: Path) -> AsyncIterator[Daemon]:
    """A daemon that has the queues. Its start does not define them again, for which there may be no room."""
    async with daemon(folder, "", data) as server:
        async with connect(server.url) as connection:
            assert all(reply.ok for reply in await connection.mqsc(DEFINITIONS))
        yield server


async def _fill_and_drain(server: Daemon, make_room: Callable[[], None] | None = None) -> str:
    """Put until puts are refused, restart, and see what works; then make room, by gets alone if there is no other way.

    Both restarts are after a SIGKILL: one on the full disk, one when there is room again.
    """
    ledger = Ledger(HARDENED)
    async with AsyncExitStack() as stack:
        await fill_up(await Program.start(stack, server.url, "A", ledger))
        held = len(ledger.there)
        await server.kill()
    await server.start()
    ledger.reconcile(await browsed(server.url))
    async with AsyncExitStack() as stack:
        program = await Program.start(stack, server.url, "B", ledger)
        await fill_up(program)
        await _expect_service(program)
        if make_room is not None:
            make_room()
        got = await _drain_until_accepted(program)
        await server.kill()
    await server.start()
    ledger.reconcile(await browsed(server.url))
    return (
        f"{held} messages were on the queues when puts were refused (2192), {ledger.figures.refusals} times; "
        "nonpersistent puts and all gets went through; persistent puts were accepted again "
        f"{'when there was room' if make_room else f'after {got} gets'}; nothing was lost or doubled over two restarts"
    )


def occupy(file: Path, left: int = 0) -> None:
    """Fill a disk with a file, but for so many bytes."""
    disk = os.statvfs(file.parent)
    file.write_bytes(bytes(disk.f_bavail * disk.f_frsize - left))


async def fill_up(program: Program) -> None:
    """Put until a put outside syncpoint and a unit of work are refused. The connection goes on."""
    refusals: list[BaseException | None] = [None]
    while None in refusals:
        puts = [program.put_alone(queue, _LENGTH) for queue in QUEUES * 6]
        refusals = await asyncio.gather(*puts, return_exceptions=True)
    for refusal in refusals:
        assert isinstance(refusal, MQError), refusal
        assert refusal.reason == MQRC.STORAGE_MEDIUM_FULL, refusal
    unit = program.ledger.begin()
    try:
        for queue in EXACT * 20:
            await program.put(unit, queue, _LENGTH)
        await program.commit(unit)
    except MQError as error:
        if error.reason == MQRC.STORAGE_MEDIUM_FULL:
            await program.backout(unit)
        else:
            assert error.reason == MQRC.BACKED_OUT, error
    else:
        raise AssertionError("a unit of work was written to a full disk")


async def _expect_service(program: Program) -> None:
    """What needs no room goes through on a full disk: a nonpersistent message, a backout, gets of both kinds."""
    connection = program.connection
    await connection.put1("N", b"nonpersistent", persistence=MQPER.NOT_PERSISTENT)
    async with connection.open("N", ALL) as queue:
        assert (await queue.get()).data == b"nonpersistent"
    unit = program.ledger.begin()
    for name in EXACT:
        await program.get(unit, name)
    await program.backout(unit)
    await program.get_alone("S")


async def _drain_until_accepted(program: Program) -> int:
    """Get until a put is accepted again; how many messages that took."""
    got = 0
    while program.ledger.there:
        unit = program.ledger.begin()
        for queue in list(program.ledger.there.values())[:_GETS_A_UNIT]:
            await program.get(unit, queue)
        await program.commit(unit)
        got += len(unit.gets)
        try:
            await program.put_alone("Q", _LENGTH)
        except MQError as error:
            assert error.reason == MQRC.STORAGE_MEDIUM_FULL, error
        else:
            return got
    raise AssertionError("all is drained, and puts are refused")
