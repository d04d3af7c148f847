"""The programs beside Spark when everything is killed: a producer and a rival getter, each with a ledger file.

A line of a ledger is written, and flushed, before a call is made and after it is answered; so the file knows what its
program knows, and nothing of the queue manager's.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import count
from random import Random
from typing import TYPE_CHECKING, TextIO

import broker
from broker.mqi import MQMF, MQOO, MQPMO, MQRC, MessageDescriptor, MQError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from broker import Connection, Queue

ARCHIVED, MOVED = "IN", "SRC"
"""The queues that the producer puts to: one is archived, with a rival; of the other all is moved to `TARGET`."""

TARGET = "OUT"

_LOST = frozenset(
    (
        MQRC.CONNECTION_BROKEN, MQRC.HCONN_ERROR, MQRC.HOST_NOT_AVAILABLE, MQRC.Q_MGR_NOT_AVAILABLE,
        MQRC.Q_MGR_STOPPING, MQRC.Q_MGR_QUIESCING, MQRC.CONNECTION_STOPPING, MQRC.CONNECTION_QUIESCING,
    )
)  # fmt: skip
_PAUSE = 0.05


class _Program:
    """A program that connects again whenever its line has broken. `running` ends it."""

    def __init__(self, url: str, ledger: Path, seed: int) -> None:
        self.running = True
        self.random = Random(seed)
        self._url = url
        self._path = ledger
        self._ledger: TextIO
        self._numbers = count()

    async def run(self) -> None:
        with self._path.open("w") as self._ledger:
            while self.running:
                try:
                    async with broker.connect(self._url) as connection:
                        await self._connected(connection)
                except MQError as error:
                    if error.reason not in _LOST:
                        raise
                    await asyncio.sleep(_PAUSE)

    async def _connected(self, connection: Connection) -> None:
        raise NotImplementedError

    def _note(self, unit: int, state: str, names: Iterable[str] = ()) -> None:
        self._ledger.write(f"{unit} {state} {' '.join(names)}\n")
        self._ledger.flush()


class Producer(_Program):
    """Puts single messages, units of work and groups to both queues."""

    async def _connected(self, connection: Connection) -> None:
        async with connection.open(ARCHIVED, MQOO.OUTPUT) as one, connection.open(MOVED, MQOO.OUTPUT) as other:
            while self.running:
                await self._unit(connection, one, other)
                await asyncio.sleep(_PAUSE)

    async def _unit(self, connection: Connection, one: Queue, other: Queue) -> None:
        unit = next(self._numbers)
        size = self.random.choice((1, 3, 10, 20))
        grouped = self.random.random() < 0.3
        queue, letter = self.random.choice(((one, "i"), (other, "s")))
        names = [f"{letter}{unit}.{number}" for number in range(size)]
        self._note(unit, "asked", names)
        for number, name in enumerate(names, 1):
            md = MessageDescriptor(persistence=1, priority=self.random.choice((0, 4)))
            if grouped:
                md.group_id, md.msg_seq_number = f"g{unit}".encode().ljust(24), number
                md.msg_flags = MQMF.LAST_MSG_IN_GROUP if number == size else MQMF.MSG_IN_GROUP
            await queue.put(f"{name} ".ljust(self.random.choice((20, 300, 2000))).encode(), md, MQPMO.SYNCPOINT)
        await connection.commit()
        self._note(unit, "done")


class Rival(_Program):
    """Gets messages of the queue that is archived, under syncpoint."""

    async def _connected(self, connection: Connection) -> None:
        async with connection.open(ARCHIVED, MQOO.INPUT_SHARED) as queue:
            while self.running:
                await self._unit(connection, queue)
                await asyncio.sleep(2 * _PAUSE)

    async def _unit(self, connection: Connection, queue: Queue) -> None:
        unit = next(self._numbers)
        try:
            async with connection.unit_of_work():
                got = [name_of(each.data) for each in await queue.get_many(self.random.randint(1, 20))]
                self._note(unit, "asked", got)
                if self.random.random() < 0.2:
                    raise _Regret
        except _Regret:
            self._note(unit, "undone")
        except MQError as error:
            if error.reason not in (MQRC.NO_MSG_AVAILABLE, MQRC.BACKED_OUT):
                raise
            self._note(unit, "undone")
        else:
            self._note(unit, "done")


class _Regret(Exception):  # it is no error
    """The rival gives back what it has got."""


def name_of(data: bytes) -> str:
    """The name with which the data of a message begins."""
    return data.split(b" ")[0].decode()


class Units:
    """A ledger as it was left: the names of its units by what their program knows of them."""

    def __init__(self, path: Path) -> None:
        asked: dict[str, list[str]] = {}
        ended: dict[str, str] = {}
        for line in path.read_text().splitlines():
            unit, state, *names = line.split(" ")
            if state == "asked":
                asked[unit] = [name for name in names if name]
            else:
                ended[unit] = state
        self.done = [names for unit, names in asked.items() if ended.get(unit) == "done"]
        self.doubtful = [names for unit, names in asked.items() if unit not in ended]


def judge(put: Units, taken: Units, found: dict[str, list[str]]) -> list[str]:
    """Return what is lost, doubled or torn: nothing. `found` has the names in the archive, and left on the queues."""
    there = Counter(name for names in found.values() for name in names)
    there.update(name for names in taken.done for name in names)
    maybe = {name: names for names in taken.doubtful for name in names}  # a whole unit is there, or nothing of it
    complaints = [f"{name} is doubled: {count} times" for name, count in there.items() if count > 1]
    for names in put.done:
        lost = [name for name in names if not there[name]]
        sure = [name for name in lost if name not in maybe or any(there[each] for each in maybe[name])]
        complaints += [f"{name} is lost" for name in sure]
    for names in put.doubtful:
        known = [bool(there[name] or name in maybe) for name in names]
        if any(known) and not all(known):
            complaints.append(f"of {names} only a part was put")
    known_names = {name for units in (put.done, put.doubtful) for names in units for name in names}
    return complaints + [f"nobody has put {name}" for name in there.keys() - known_names]
