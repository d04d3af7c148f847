"""The ways to do the work of `peers_deaths.py`: how each puts orders, what its workers run, and what it has left.

A way is entered for one trial. Its packages are imported there, so that those which are installed can be tried.
"""

from __future__ import annotations

import base64
import json
import sys
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final, Self

import anyio

from broker.cli.demo.daemon import DemoDaemon
from broker.cli.messages.get import gathered
from broker.mqi import MQIA, MQOO
from peers_deaths_work import FOLLOW_UPS, ORDERS, PeerTask

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from psycopg import AsyncConnection

SCHEMAS: Final = "evermq_deaths_"
NODE: Final = "NODE"
"""The word of a command that stands for the name of the worker."""

_AT_A_TIME: Final = 100


@dataclass(frozen=True, kw_only=True)
class PeerWay:
    """A way as it is named in the table. `own` is what the program has done for it, beside the work itself."""

    name: str
    kind: type[PeerSystem]
    own: str
    app: str = ""
    keyed: bool = False
    together: bool = False

    @property
    def missing(self) -> list[str]:
        """The packages that it needs and that are not installed."""
        return [name for name in self.kind.PACKAGES if version_of(name) is None]


class PeerSystem:
    """A queue with its workers, over a connection to the database whose schema is the task's."""

    PACKAGES: tuple[str, ...] = ()
    needs_redis = False

    def __init__(self, way: PeerWay, task: PeerTask, rows: AsyncConnection, folder: Path) -> None:
        self.way = way
        self.task = task
        self.rows = rows
        self.folder = folder
        self.stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self.stack.__aenter__()
        await self.open()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.stack.__aexit__(*error)

    async def open(self) -> None:
        """Make its queues. `stack` removes what was made."""

    @property
    def worker(self) -> list[str]:
        """The command of a worker."""
        raise NotImplementedError

    async def put(self, numbers: Iterable[int]) -> None:
        """Put orders."""
        raise NotImplementedError

    async def waiting(self) -> int:
        """Return how many orders wait or are handled."""
        raise NotImplementedError

    async def given_up(self) -> int:
        """Return how many orders are set aside: nobody handles them any more."""
        return 0

    async def follow_ups(self) -> Counter[int]:
        """Return how many follow-ups each order has."""
        raise NotImplementedError


class CeleryOnRedis(PeerSystem):
    """Celery's workers with processes of their own, and lists in Redis."""

    PACKAGES = ("celery", "redis", "psycopg")
    needs_redis = True

    async def open(self) -> None:
        import redis

        url = self.task.redis.replace("redis+socket://", "unix://")
        self._redis: Any = redis.Redis.from_url(url)
        self.stack.callback(self._redis.close)
        self.stack.callback(self._remove)
        self._program: Any = import_module("peers_deaths_celery")
        self._program.app.conf.broker_url = self.task.redis
        self._program.app.conf.broker_transport_options["global_keyprefix"] = self.task.prefix

    def _remove(self) -> None:
        for key in self._redis.scan_iter(match=f"{self.task.prefix}*", count=1000):
            self._redis.delete(key)

    @property
    def worker(self) -> list[str]:
        program = ["-m", "celery", "-A", "peers_deaths_celery"]
        return [*program, "worker", "-Q", ORDERS, "-n", f"{NODE}@deaths", "--without-gossip", "--without-mingle"]

    async def put(self, numbers: Iterable[int]) -> None:
        await anyio.to_thread.run_sync(self._program.put, numbers)

    async def waiting(self) -> int:
        with self._redis.pipeline(transaction=True) as both:  # a task goes from one to the other
            both.llen(f"{self.task.prefix}{ORDERS}")
            both.hlen(f"{self.task.prefix}unacked")
            return sum(both.execute())

    async def given_up(self) -> int:
        logs = [path.read_text("utf-8", "replace") for path in self.folder.glob("*/log")]
        return sum(log.count(" raised unexpected: ") for log in logs)

    async def follow_ups(self) -> Counter[int]:
        told = [json.loads(each) for each in self._redis.lrange(f"{self.task.prefix}{FOLLOW_UPS}", 0, -1)]
        return Counter(json.loads(base64.b64decode(each["body"]))[0][0] for each in told)


class Procrastinate(PeerSystem):
    """Procrastinate's workers, and jobs in the schema of the rows."""

    PACKAGES = ("procrastinate", "psycopg")

    async def open(self) -> None:
        from procrastinate import PsycopgConnector

        module = import_module("peers_deaths_procrastinate")
        connector = PsycopgConnector(conninfo=self.task.dsn, min_size=1, max_size=2)
        app = self.stack.enter_context(module.app.replace_connector(connector))
        await self.stack.enter_async_context(app.open_async())
        await app.schema_manager.apply_schema_async()
        self._handle: Any = module.handle

    @property
    def worker(self) -> list[str]:
        return [
            "-m",
            "procrastinate",
            "--app",
            "peers_deaths_procrastinate.app",
            "worker",
            "--queues",
            f"{ORDERS},default",
        ]

    async def put(self, numbers: Iterable[int]) -> None:
        await self._handle.batch_defer_async(*[{"number": number} for number in numbers])

    async def waiting(self) -> int:
        return await self._jobs("todo", "doing")

    async def given_up(self) -> int:
        return await self._jobs("failed", "aborted", "cancelled")

    async def _jobs(self, *states: str) -> int:
        select = "SELECT count(*) FROM procrastinate_jobs WHERE queue_name = %s AND status::text = ANY(%s)"
        found = await (await self.rows.execute(select, (ORDERS, list(states)))).fetchone()
        return int(found[0]) if found else 0

    async def follow_ups(self) -> Counter[int]:
        select = "SELECT (args->>'number')::bigint FROM procrastinate_jobs WHERE queue_name = %s"
        return Counter([row[0] async for row in await self.rows.execute(select, (FOLLOW_UPS,))])


class EverMQ(PeerSystem):
    """A daemon of EverMQ, and its workers."""

    PACKAGES = ("psycopg", "psycopg_pool")

    async def open(self) -> None:
        import broker
        from triggers import App

        self._names: Any = import_module("peers_deaths_evermq")
        tasks = await self.stack.enter_async_context(anyio.create_task_group())
        self.stack.callback(tasks.cancel_scope.cancel)
        self._daemon = DemoDaemon(self.folder)
        await self._daemon.start(tasks)
        self._app = App(self._daemon.url, name="deaths")
        for name in (self._names.Q_ORDERS, self._names.Q_FOLLOW_UPS):
            self._app.queue(name)
        await self.stack.enter_async_context(self._app.running(handlers=False))
        self._connection = await self.stack.enter_async_context(broker.connect(self._daemon.url))

    @property
    def worker(self) -> list[str]:
        target = f"peers_deaths_evermq:{self.way.app}"
        return ["-m", "broker", "worker", target, "--url", self._daemon.url, "--grace", "5"]

    async def put(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            await self._app.put(self._names.Q_ORDERS, {"number": number})

    async def waiting(self) -> int:
        return await self._depth(self._names.Q_ORDERS)

    async def given_up(self) -> int:
        return await self._depth(f"{self._names.Q_ORDERS}.DEAD")

    async def _depth(self, q_name: str) -> int:
        async with self._connection.open(q_name, MQOO.INQUIRE) as queue:
            return int((await queue.inquire(MQIA.CURRENT_Q_DEPTH))[MQIA.CURRENT_Q_DEPTH])

    async def follow_ups(self) -> Counter[int]:
        found: Counter[int] = Counter()
        async with self._connection.open(self._names.Q_FOLLOW_UPS, MQOO.INPUT_SHARED) as queue:
            while messages := await gathered(queue, _AT_A_TIME, wait=0):
                found.update(json.loads(message.data)["number"] for message in messages)
                await self._connection.commit()
        return found


_LATE: Final = "settings of acknowledgement, and of how soon a worker's death is found out"
_STALLED: Final = "a periodic task that retries stalled jobs"

WAYS: Final = (
    PeerWay(name="Celery on Redis", kind=CeleryOnRedis, own=_LATE),
    PeerWay(name="Celery on Redis, keyed rows", kind=CeleryOnRedis, own=f"{_LATE}; a key", keyed=True),
    PeerWay(name="procrastinate", kind=Procrastinate, own=_STALLED),
    PeerWay(name="procrastinate, `connection=`", kind=Procrastinate, own=_STALLED, together=True),
    PeerWay(
        name="procrastinate, `connection=`, keyed rows",
        kind=Procrastinate,
        own=f"{_STALLED}; a key, and no follow-up where its row is there",
        keyed=True,
        together=True,
    ),
    PeerWay(name="EverMQ, its own COMMIT", kind=EverMQ, own="nothing", app="by_hand"),
    PeerWay(name="EverMQ, `database=`", kind=EverMQ, own="`database=`", app="exact"),
)


def version_of(package: str) -> str | None:
    """Return the version of a package; None where it is not installed."""
    try:
        return version(package.replace("_", "-"))
    except PackageNotFoundError:
        return None


def command_of(system: PeerSystem) -> list[str]:
    """Return the command line of a worker."""
    return [sys.executable, *system.worker]
