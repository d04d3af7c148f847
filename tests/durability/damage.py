"""Files of a store that are damaged while nobody works with them: a bit changed, or the file cut off.

Each is told at the start, which refuses; or at the get, which fails with the message in its place; or it changes
nothing that a program can see. Never is a message missing, doubled or changed without a word.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from contextlib import AsyncExitStack
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from broker import MQError, QueueManager
from broker.mqi import MQGMO, MQRC
from broker.storage.store import StoreFailedError, StoreUnusableError
from tests.durability.cuts import first_of
from tests.durability.daemon import daemon
from tests.durability.interposer import Calls, interposer
from tests.durability.ledger import Ledger
from tests.durability.numbered import key_of
from tests.durability.outcome import Outcome
from tests.durability.program import ALL, DEFINITIONS, QUEUES, Program
from tests.stores import log_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from broker import Connection

RESTING: Final = "killed at rest"
CARRYING: Final = "killed while it carried over"
STATES: Final = ("stopped in order", RESTING, CARRYING)

_SHORT_LOG: Final = {"EVERMQ_JOURNAL_FILE_BYTES": str(256 * 1024)}
_UNREAD: Final = ("lock", "ballast", "-shm")
_LENGTHS: Final = (20, 700, 3_000, 9_000, 20_000)
_MESSAGES: Final = 40
_REST_SECONDS: Final = 0.3  # after which the manifest vouches for all that is in the log
_REFUSED: Final = "the start refuses"
_STOPPED: Final = "the queue manager stops"


async def damaged(folder: Path, state: str, seed: int, places: int) -> Outcome:
    """Damage each file of a store in this state at so many places, half of them changed bytes, half of them cuts.

    Raises AssertionError with the file and the place; UnavailableError.
    """
    whole = await _made(folder, state)
    truth = await _found(_copied(whole, folder / "untouched"))
    assert not truth.reported, truth.reported
    assert len(truth.messages) > _MESSAGES / 2
    reported: Counter[str] = Counter()
    random = Random(seed)
    for file in sorted(each.name for each in whole.iterdir() if not each.name.endswith(_UNREAD)):
        for what, content in _damages((whole / file).read_bytes(), random, places):
            data = _copied(whole, folder / "damaged")
            (data / file).write_bytes(content)
            try:
                found = await _found(data)
            except Exception as error:
                raise AssertionError(f"{state}, seed {seed}: {file}, {what}: {error!r}") from error
            verdict = _verdict(found, truth, unvouched=state == CARRYING and file.startswith("log."))
            assert verdict, f"{state}, seed {seed}: {file}, {what}, and nobody says so"
            reported[verdict] += 1
    return Outcome(
        f"a bit changed, or the file cut off, at {places} random places of every file (but lock, ballast and -shm, "
        f"which nobody reads) of a store that was {state}",
        "; ".join(f"{count:,} {verdict}" for verdict, count in reported.most_common()),
    )


async def _made(folder: Path, state: str) -> Path:
    """The files of a store in this state, with messages of many lengths; some were got again."""
    ledger = Ledger()
    with interposer(folder, folder) as between:
        async with (
            daemon(folder, DEFINITIONS, settings=_SHORT_LOG | between.settings) as server,
            AsyncExitStack() as stack,
        ):
            program = await Program.start(stack, server.url, "A", ledger)
            await _put(program, _MESSAGES)
            for _ in range(5):
                await program.get_alone("S")
            if state == CARRYING:
                between.stop_at(1, 100, Calls.SYNC, "-wal")
                assert await first_of(between.stopped(), _put(program, 10 * _MESSAGES)), "nothing was carried over"
            elif state == RESTING:
                await asyncio.sleep(_REST_SECONDS)
            else:
                await server.stop()
            whole = _copied(server.data, folder / "whole")
            await server.end()
            await stack.aclose()
    return whole


async def _put(program: Program, messages: int) -> None:
    for number in range(messages):
        await program.put_alone(QUEUES[number % 3], _LENGTHS[number % len(_LENGTHS)], number % 4)


def _copied(data: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    return shutil.copytree(data, to, ignore=shutil.ignore_patterns(*(f"*{name}" for name in _UNREAD)))


def _damages(content: bytes, random: Random, places: int) -> Iterator[tuple[str, bytes]]:
    """A content with a bit changed, or without its end: how, and what it is then. An empty file is only written to."""
    for number in range(places if content else 1):
        place = random.randrange(len(content)) if content else 0
        if number % 2 or not content:
            yield f"cut off at byte {place}", content[:place] if content else b"x"
        else:
            changed = bytearray(content)
            changed[place] ^= 1 << random.randrange(8)
            yield f"byte {place} changed", bytes(changed)


class _Found(NamedTuple):
    """The contents of a store as a program finds them: messages by queue, key, priority and BackoutCount in their
    order, and what it is told: that the start refuses, or which gets fail.
    """

    messages: list[tuple[str, str, int, int]]
    reported: list[str]


async def _found(data: Path) -> _Found:
    found = _Found([], [])
    try:
        async with QueueManager.open(store=log_store(data)) as manager, manager.connect() as connection:
            for name in QUEUES:
                await _browse(connection, name, found)
    except StoreUnusableError:
        found.reported.append(_REFUSED)
    except StoreFailedError:
        found.reported.append(_STOPPED)
    return found


async def _browse(connection: Connection, name: str, found: _Found) -> None:
    async with connection.open(name, ALL) as queue:
        while True:
            try:
                message = await queue.get(options=MQGMO.BROWSE_NEXT)
            except MQError as error:
                if error.reason == MQRC.NO_MSG_AVAILABLE:
                    return
                found.reported.append(str(error))
                assert len(found.reported) < 1000, found.reported[-1]
                if error.reason == MQRC.CONNECTION_BROKEN:
                    return
            else:
                found.messages.append((name, key_of(message.data), message.md.priority, message.md.backout_count))


def _verdict(found: _Found, truth: _Found, *, unvouched: bool) -> str:
    """Return how this damage showed itself; nothing when it was silent. `unvouched`: the last record may be gone
    too.
    """
    if _REFUSED in found.reported:
        return "were told at the start, which refused"
    if _STOPPED in found.reported:
        return "stopped the queue manager, which said why"
    missing = [message for message in truth.messages if message not in found.messages]
    if [message for message in truth.messages if message not in missing] != found.messages:
        return ""
    if len(missing) == len(found.reported):
        return "were told at the get, with the message in its place" if missing else "changed nothing a program can see"
    last = max(truth.messages, key=lambda message: int(message[1].partition(".")[2]))
    return "took along the last record, which was not vouched for" if unvouched and missing == [last] else ""
