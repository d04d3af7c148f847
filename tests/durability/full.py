"""A disk that is full: persistent puts are refused with STORAGE_MEDIUM_FULL (2192), gets go through, nothing is lost.

Three ways to come to that: a database that may not grow (everywhere), a small disk that the messages fill, and a disk
that another program fills. The last two need a file system of their own, which only root can mount.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

from broker import MQError
from broker.client import connect
from broker.mqi import MQPER, MQRC
from tests.durability.daemon import NO_SETTINGS, daemon
from tests.durability.image import MEGABYTE, image
from tests.durability.ledger import Ledger
from tests.durability.outcome import Outcome
from tests.durability.program import ALL, DEFINITIONS, EXACT, HARDENED, QUEUES, Program, browsed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from pathlib import Path

    from tests.durability.daemon import Daemon

PAGES: Final = 1_500
_LENGTH: Final = 16_000
_BLOCK: Final = 4096
_PUTS_A_CALL: Final = 500
_GETS_AT_ONCE: Final = 16
_ACCEPTED_SECONDS: Final = 60.0
_GETS_A_UNIT: Final = 20
_DISK_MEGABYTES: Final = 72  # the log, the ballast, the write-ahead log of the database, and some messages
SETTINGS: Final = {"EVERMQ_JOURNAL_FILE_BYTES": str(2 * MEGABYTE)}
_LEFT_MEGABYTES: Final = 4


async def database_full(folder: Path) -> Outcome:
    """The database has as many pages as it may. No ballast gives it more, so gets have the room of the log alone."""
    ledger = Ledger(HARDENED)
    async with defined(folder, folder / "data") as server:
        await server.kill()
        server.pages = PAGES
        await server.start()
        async with AsyncExitStack() as stack:
            program = await Program.start(stack, server.url, "A", ledger)
            await fill_up(program)
            held = len(ledger.there)
            await _put_nonpersistent(program)
            await server.kill()
        await server.start()
        ledger.reconcile(await browsed(server.url))
        await server.kill()
        server.pages = 0
        await server.start()
        async with AsyncExitStack() as stack:
            await (await Program.start(stack, server.url, "B", ledger)).put_alone("Q", _LENGTH)
        ledger.reconcile(await browsed(server.url))
    return Outcome(
        f"database limited to {PAGES} pages",
        f"{held} messages were on the queues when puts were refused (2192), {ledger.figures.refusals} times; "
        "nonpersistent puts went through; nothing was lost or doubled over a restart; persistent puts were accepted "
        "again after one without the limit",
    )


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
            occupy(other, _LEFT_MEGABYTES * MEGABYTE)
            ended = await _fill_and_drain(server, other.unlink)
            return Outcome(f"disk of {_DISK_MEGABYTES} MiB filled by another program", ended)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A small disk, mounted in `folder`. Raises UnavailableError where it cannot be mounted."""
    with image(folder, _DISK_MEGABYTES) as disk:
        yield disk.path


@asynccontextmanager
async def defined(folder: Path, data: Path, settings: Mapping[str, str] = SETTINGS) -> AsyncIterator[Daemon]:
    """A daemon that has the queues. Its start does not define them again, for which there may be no room."""
    async with daemon(folder, "", data, settings) as server:
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
    with file.open("wb", buffering=0) as filler:
        size, step = 0, 1 << 40
        while step >= _BLOCK:
            try:
                os.posix_fallocate(filler.fileno(), size, step)
                size += step
            except OSError:
                step //= 2
        filler.truncate(max(size - left, 0))


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
    """Check what needs no room on a full disk: a nonpersistent message, a backout, gets of both kinds."""
    await _put_nonpersistent(program)
    unit = program.ledger.begin()
    for name in EXACT:
        await program.get(unit, name)
    await program.backout(unit)
    await program.get_alone("S")


async def got_one_by_one(folder: Path, messages: int, length: int = 2_048) -> Outcome:
    """Messages are got one by one, outside syncpoint, on a disk that is full from the first get on. Half-way the daemon
    is killed and started again.
    """
    ledger = Ledger(HARDENED)
    room = 160 + messages * (length + 1024) // MEGABYTE
    with image(folder, room) as disk:
        async with defined(folder, disk.path / "data", settings=NO_SETTINGS) as server:
            await _put_all(server, ledger, messages, length)
            await server.stop()
            await server.start()
            occupy(disk.path / "other")
            await _get_all(server, ledger, len(ledger.there) - messages // 2)
            await server.kill()
            await server.start()
            ledger.reconcile(await browsed(server.url))
            await _get_all(server, ledger, len(ledger.there))
            await server.kill()
            await server.start()
            ledger.reconcile(await browsed(server.url))
    assert ledger.figures.gets_acknowledged == messages
    return Outcome(
        f"disk full while {messages:,} messages of {length:,} bytes are got one by one, the daemon killed half-way",
        "all gets went through, before the restart and after it",
    )


async def _put_all(server: Daemon, ledger: Ledger, messages: int, length: int) -> None:
    async with AsyncExitStack() as stack:
        program = await Program.start(stack, server.url, "A", ledger)
        for done in range(0, messages, _PUTS_A_CALL):
            await program.put_batch("S", [length] * min(_PUTS_A_CALL, messages - done))


async def _get_all(server: Daemon, ledger: Ledger, messages: int) -> None:
    async with AsyncExitStack() as stack:
        program = await Program.start(stack, server.url, "B", ledger)
        for done in range(0, messages, _GETS_AT_ONCE):
            await asyncio.gather(*(program.get_alone("S") for _ in range(min(_GETS_AT_ONCE, messages - done))))


async def _put_nonpersistent(program: Program) -> None:
    """A message that needs no room goes through."""
    connection = program.connection
    await connection.put1("N", b"nonpersistent", persistence=MQPER.NOT_PERSISTENT)
    async with connection.open("N", ALL) as queue:
        assert (await queue.get()).data == b"nonpersistent"


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
    await asyncio.wait_for(_put_when_accepted(program), _ACCEPTED_SECONDS)
    return got


async def _put_when_accepted(program: Program) -> None:
    """Put again and again until there is room: the store looks once a second."""
    while True:
        try:
            return await program.put_alone("Q", _LENGTH)
        except MQError as error:
            assert error.reason == MQRC.STORAGE_MEDIUM_FULL, error
            await asyncio.sleep(0.05)
