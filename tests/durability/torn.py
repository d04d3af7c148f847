"""A torn tail of the log, as a power failure leaves it: cut off, or garbled, in the midst of the last record.

What is promised: all that was acknowledged before the record began is there, and the record's transaction, which
nobody can have been told of at that moment, is wholly absent. A record that the manifest vouches for is another matter:
what is wrong with it is damage, and told (`tests.durability.damage`).
"""

from __future__ import annotations

import shutil
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from broker import QueueManager
from tests.durability.daemon import daemon
from tests.durability.ledger import Ledger
from tests.durability.outcome import Outcome
from tests.durability.program import DEFINITIONS, EXACT, QUEUES, Program, browsed_on
from tests.stores import log_store

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOG: Final = "log.0"
_MANIFEST: Final = "manifest"
_BLOCK: Final = 4096
_MESSAGES: Final = 12
_LENGTH: Final = 3_000


class _Killed(NamedTuple):
    """The remains of a daemon that was killed, in `data`: what was on the queues before its last unit of work and after
    it; the manifest as it was before; and where the unit's record begins and ends in the first file of the log.
    """

    data: Path
    before: dict[str, list[str]]
    after: dict[str, list[str]]
    manifest: bytes
    began: int
    ended: int


async def torn(folder: Path, seed: int, cuts: int) -> Outcome:
    """Kill a daemon after a unit of work, and tear the log at so many places within the unit's record."""
    killed = await _killed_after_a_unit(folder)
    written = (killed.data / _LOG).read_bytes()
    for number, tail in enumerate(_tails(written[killed.began : killed.ended], Random(seed), cuts)):
        data = folder / f"torn {number}"
        shutil.copytree(killed.data, data, ignore=shutil.ignore_patterns("*-shm", "lock", "ballast"))
        (data / _LOG).write_bytes(written[: killed.began] + tail + written[killed.ended :])
        (data / _MANIFEST).write_bytes(killed.manifest)
        found = await _found(data)
        assert found == killed.before, f"a log with its last record at {killed.began} to {killed.ended}: tail {number}"
        shutil.rmtree(data)
    assert await _found(killed.data) == killed.after
    return Outcome(
        f"log torn at {cuts} places within its last record, half of them cut off and half garbled",
        f"each time the transaction of {_MESSAGES} messages over two queues was wholly absent, and the "
        f"{sum(map(len, killed.before.values()))} messages acknowledged before were there",
    )


async def _killed_after_a_unit(folder: Path) -> _Killed:
    ledger = Ledger()
    async with daemon(folder, DEFINITIONS) as server, AsyncExitStack() as stack:
        program = await Program.start(stack, server.url, "A", ledger)
        for queue in QUEUES * 4:
            await program.put_alone(queue, _LENGTH)
        before, manifest = _by_queue(ledger), (server.data / _MANIFEST).read_bytes()
        log = (server.data / _LOG).read_bytes()
        unit = ledger.begin()
        for queue in EXACT * (_MESSAGES // 2):
            await program.put(unit, queue, _LENGTH)
        await program.commit(unit)
        await server.kill()
    written = (server.data / _LOG).read_bytes()
    changed = [at for at in range(0, len(log), _BLOCK) if log[at : at + _BLOCK] != written[at : at + _BLOCK]]
    return _Killed(server.data, before, _by_queue(ledger), manifest, changed[0], changed[-1] + _BLOCK)


def _by_queue(ledger: Ledger) -> dict[str, list[str]]:
    return {name: [key for key, queue in ledger.there.items() if queue == name] for name in QUEUES}


def _tails(record: bytes, random: Random, cuts: int) -> Iterator[bytes]:
    """The bytes of a record, cut off or garbled, at random places: what is cut off is what lay there before."""
    assert len(record) > _MESSAGES * _LENGTH, "the record is not all in the log"
    end = len(record.rstrip(b"\0"))
    for number in range(cuts):
        place = random.randrange(end)
        if number % 2:
            yield record[:place] + bytes(len(record) - place)
        else:
            garbled = bytearray(record)
            garbled[place] ^= 1 << random.randrange(8)
            yield bytes(garbled)


async def _found(data: Path) -> dict[str, list[str]]:
    """Return what a queue manager that is opened on these files has on its queues."""
    async with (
        QueueManager.open(store=log_store(data)) as manager,
        manager.connect() as connection,
    ):
        return {name: [key for key, *_ in await browsed_on(connection, name)] for name in QUEUES}
