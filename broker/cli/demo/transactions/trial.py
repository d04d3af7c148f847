"""One account: orders are put while workers die and the queue manager is killed; then all is handled, and counted.

Orders are put as the deaths go on, so that there is work at each of them. Where deaths need more orders than were to be
put, more are put.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from broker.cli.demo.daemon import START_SECONDS_MAX, DemoDaemon
from broker.cli.demo.transactions.account import TransactionAccount
from broker.cli.demo.transactions.death import drawn
from broker.cli.demo.transactions.program import DEAD, MESSAGES, ORDERS
from broker.cli.demo.transactions.task import WorkerTask
from broker.cli.demo.transactions.workers import PLACES, KilledWorkers
from broker.cli.messages.get import gathered
from broker.cli.program import CannotRunError
from broker.client import connect
from broker.clock import Clock
from broker.mqi import MQIA, MQOO, MQRC, MQError
from broker.transactions.markers import clean

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from anyio.abc import TaskGroup

    from broker import Connection, Queue
    from broker.databases.opened import OpenDatabase

LOOK_SECONDS: Final = 0.05
STALL_SECONDS_MAX: Final = 30.0
"""The time in which nothing goes on before what is left is called lost."""

_AT_A_TIME: Final = 100
_LATER: Final = 26 * 3600.0


@dataclass(frozen=True, kw_only=True)
class TrialPlan:
    """A trial of one app: `target`, as `evermq worker` takes it, with a database at an address.

    `has_units` says whether its handler has `database=`. `stall` are the seconds in which nothing goes on before it is
    given up.
    """

    target: str
    address: str
    orders: int
    kills: int
    seed: int
    server_kills: int = 2
    has_units: bool = True
    stall: float = STALL_SECONDS_MAX


class KillTrial:
    """A plan that is carried out, once. `events` are called when so many workers have died."""

    def __init__(self, plan: TrialPlan) -> None:
        self.events: dict[int, Callable[[], Awaitable[None]]] = {}
        self._plan = plan
        self._task = WorkerTask(address=plan.address, table=f"evermq_demo_{secrets.token_hex(4)}")
        kills = plan.server_kills
        self._server_kills = [(turn + 1) * plan.kills // (kills + 1) for turn in range(kills)]
        self._put = 0

    async def run(self, folder: Path) -> TransactionAccount:
        """Run it in a folder of its own. Raises CannotRunError."""
        table = self._task.orders()
        await table.create()
        try:
            async with anyio.create_task_group() as tasks:
                server = DemoDaemon(folder)
                await server.start(tasks)
                account = await self._worked(server, folder, tasks)
                tasks.cancel_scope.cancel()
            return account
        finally:
            with anyio.CancelScope(shield=True):
                await table.drop()

    async def _worked(self, server: DemoDaemon, folder: Path, tasks: TaskGroup) -> TransactionAccount:
        workers = KilledWorkers(
            self._plan.target, server.url, folder, self._task, drawn(self._plan.kills, self._plan.seed)
        )
        async with connect(server.url, appl_name="evermq demo", reconnect=True) as connection:
            workers.start(tasks)
            async with await _defined(connection, ORDERS) as queue:
                await self._go_on(connection, queue, workers, server, tasks)
            await workers.stop()
            return await self._counted(connection, workers, server)

    async def _go_on(
        self, connection: Connection, queue: Queue, workers: KilledWorkers, server: DemoDaemon, tasks: TaskGroup
    ) -> None:
        """Put orders until all workers have died, and all is handled or nothing goes on any more."""
        seen: object = None
        with anyio.move_on_after(self._plan.stall) as limit:
            while True:
                deaths = workers.deaths
                for due in [each for each in self._server_kills if deaths >= each]:
                    self._server_kills.remove(due)
                    await server.kill(tasks)
                for due in [each for each in self.events if deaths >= each]:
                    await self.events.pop(due)()
                depth = await _unfinished(connection, queue)
                if deaths == self._plan.kills and self._put >= self._plan.orders and depth == 0:
                    return
                await self._put_due(queue, deaths, depth)
                if (now := (deaths, depth, self._put)) != seen:
                    seen, limit.deadline = now, anyio.current_time() + self._plan.stall
                await anyio.sleep(LOOK_SECONDS)

    async def _put_due(self, queue: Queue, deaths: int, depth: int) -> None:
        due = self._plan.orders * (deaths + 1) // (self._plan.kills + 1) - self._put
        if depth == 0 and deaths < self._plan.kills:
            due = max(due, PLACES)
        if due > 0:
            numbers = range(self._put + 1, self._put + due + 1)
            await queue.put_many(json.dumps({"number": number}) for number in numbers)
            self._put += due

    async def _counted(self, connection: Connection, workers: KilledWorkers, server: DemoDaemon) -> TransactionAccount:
        table = self._task.orders()
        account = TransactionAccount(
            kills=self._plan.kills,
            orders=self._put,
            rows=await table.numbers(),
            messages=tuple([await _numbers(connection, q_name) for q_name in MESSAGES]),
            died=workers.died,
            server_kills=server.kills,
            resolved=workers.resolved,
            waiting=sum([await _depth(connection, q_name) for q_name in (ORDERS, DEAD)]),
        )
        if self._plan.has_units:
            opened = await table.database().open()
            try:
                await _count_units(account, connection, opened)
            finally:
                await opened.close()
        return account


async def _count_units(account: TransactionAccount, connection: Connection, opened: OpenDatabase) -> None:
    account.in_doubt = len(await connection.doubts(opened.id, wait=False))
    account.cleaned = await clean(opened, connection, _LateClock())
    account.markers = sum(row[2] for row in await opened.rows(opened.markers.count()))


class _LateClock(Clock):
    """The clock of a cleaner that comes when the markers of those who died are old enough."""

    @staticmethod
    def time() -> float:
        return Clock.time() + _LATER


async def _defined(connection: Connection, q_name: str) -> Queue:
    """Open a queue that workers define at their start. Raises CannotRunError."""
    for _ in range(round(START_SECONDS_MAX / LOOK_SECONDS)):
        try:
            return await connection.open(q_name, MQOO.OUTPUT | MQOO.INQUIRE)
        except MQError as error:
            if error.reason != MQRC.UNKNOWN_OBJECT_NAME:
                raise
        await anyio.sleep(LOOK_SECONDS)
    raise CannotRunError("the workers of the demonstration did not get ready")


async def _unfinished(connection: Connection, queue: Queue) -> int:
    """Return how many orders are on their queue or under a handler."""
    figures = (await connection.status())["handlers"]
    running = sum(int(each["running"]) for each in figures if each["queue"] == ORDERS)
    return running + int((await queue.inquire(MQIA.CURRENT_Q_DEPTH))[MQIA.CURRENT_Q_DEPTH])


async def _numbers(connection: Connection, q_name: str) -> Counter[int]:
    """Get all messages of a queue: how many there are of each order."""
    found: Counter[int] = Counter()
    async with connection.open(q_name, MQOO.INPUT_SHARED) as queue:
        while messages := await gathered(queue, _AT_A_TIME, wait=0):
            found.update(json.loads(message.data)["number"] for message in messages)
            await connection.commit()
    return found


async def _depth(connection: Connection, q_name: str) -> int:
    async with connection.open(q_name, MQOO.INQUIRE) as queue:
        return int((await queue.inquire(MQIA.CURRENT_Q_DEPTH))[MQIA.CURRENT_Q_DEPTH])
