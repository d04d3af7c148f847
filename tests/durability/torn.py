"""A torn tail of the write-ahead log, as a power failure leaves it: cut off, or garbled, in the midst of a transaction.

What is promised: all that was acknowledged before the transaction began is there, and the transaction, which nobody can
have been told of at that moment, is wholly absent. (What was synced and is damaged later is another matter: no log can
give that back.)
"""

from __future__ import annotations

import shutil
from contextlib import AsyncExitStack
from random import Random
from typing import TYPE_CHECKING, Final

from broker.storage.sqlite import SqliteStore

from broker import QueueManager
from tests.durability.daemon import daemon
from tests.durability.ledger import Ledger
from tests.durability.outcome import Outcome
from tests.durability.program import DEFINITIONS, EXACT, QUEUES, Program, browsed_on

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MESSAGES: Final = 12
_LENGTH: Final = 3_000


async def torn(folder: Path, seed: int, cuts: int) -> Outcome:
    """Kill a daemon after a unit of work, and tear the log at so many places within the unit's transaction."""
    before, after, whole, began = await _killed_after_a_unit(folder)
    log = whole / "evermq.db-wal"
    written = log.read_bytes()
    torn = 0
    for number, tail in enumerate(_tails(written[began:], Random(seed), cuts)):
        data = folder / f"torn {number}"
        shutil.copytree(whole, data, ignore=shutil.ignore_patterns("*-shm", "lock", "ballast"))
        (data / log.name).write_bytes(written[:began] + tail)
        found = await _found(data)
        assert found == before, f"a log of {len(written)} bytes with its last transaction at {began}: tail {number}"
        shutil.rmtree(data)
        torn += 1
    assert await _found(whole) == after
    return Outcome(
        f"log torn at {torn} places within its last transaction, half of them cut off and half garbled",
        f"each time the transaction of {_MESSAGES} messages over two queues was wholly absent, and the "
        f"{sum(map(len, before.values()))} messages acknowledged before were there",
    )


async def _killed_after_a_unit(folder: Path) -> tuple[dict[str, list[str]], dict[str, list[str]], Path, int]:
    """What was there before the last unit of work and after it, the files that a daemon killed then has left, and where
    the unit's transaction begins in the log.
    """
    ledger = Ledger()
    async with daemon(folder, DEFINITIONS) as server, AsyncExitStack() as stack:
        program = await Program.start(stack, server.url, "A", ledger)
        for queue in QUEUES * 4:
            await program.put_alone(queue, _LENGTH)
        before = _by_queue(ledger)
        began = (server.data / "evermq.db-wal").stat().st_size
        unit = ledger.begin()
        for queue in EXACT * (_MESSAGES // 2):
            await program.put(unit, queue, _LENGTH)
        await program.commit(unit)
        await server.kill()
    return before, _by_queue(ledger), server.data, began


def _by_queue(ledger: Ledger) -> dict[str, list[str]]:
    return {name: [key for key, queue in ledger.there.items() if queue == name] for name in QUEUES}


def _tails(transaction: bytes, random: Random, cuts: int) -> Iterator[bytes]:
    """The bytes of a transaction, cut off or garbled, at random places."""
    assert len(transaction) > _MESSAGES * _LENGTH, "the transaction is not all in the log"
    for number in range(cuts):
        place = random.randrange(len(transaction))
        if number % 2:
            yield transaction[:place]
        else:
            garbled = bytearray(transaction)
            garbled[place] ^= 1 << random.randrange(8)
            yield bytes(garbled)


async def _found(data: Path) -> dict[str, list[str]]:
    """What a queue manager that is opened on these files has on its queues."""
    async with (
        QueueManager.open(store=SqliteStore(data, ballast_bytes=4096)) as manager,
        manager.connect() as connection,
    ):
        return {name: [key for key, *_ in await browsed_on(connection, name)] for name in QUEUES}
