"""EverMQ among its peers: the adapter for a harness that measures brokers side by side in one run.

The harness names this file in PEERS_ADAPTER, and gives it `adapters.base.Adapter`: an instance lives in each client
process and does what a workload asks. `evermq run` is started by `SERVERS`, with everything at its default but where
it keeps its data and where it listens.

Gets are under syncpoint, and the commit of what was got travels together with the next get: calls of one connection
take effect in the order in which they are made.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from adapters.base import Adapter  # type: ignore[import-not-found]  # the harness has it

sys.path.append(str(Path(__file__).parent))

import broker
import peers_handlers
from broker.mqi import MQGMO, MQIA, MQOO, GetMessageOptions
from triggers import App

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from broker import Message, Queue

PORT: Final = 5414
FOLDER: Final = Path(os.environ.get("PEERS_DATA", "/tmp/peers-data")) / "evermq"

BATCH: Final = 128
"""Most messages got in one unit of work."""

COMMITS: Final = 32
"""Commits on their way at a time."""

# HARDENBO, the default, writes a mark before each get under syncpoint is answered, so that a backout count survives a
# crash of the queue manager between the get and its commit: none of the peers keeps one.
QUEUE: Final = "DEFPSIST(YES) NOHARDENBO MAXDEPTH(999999999)"

UNDER_SYNCPOINT: Final = GetMessageOptions(options=MQGMO.WAIT | MQGMO.SYNCPOINT, wait_interval=-1)
OUTSIDE_SYNCPOINT: Final = GetMessageOptions(options=MQGMO.WAIT | MQGMO.NO_SYNCPOINT, wait_interval=-1)


class EverMQ(Adapter):  # type: ignore[misc]  # the base class is the harness's
    name, server = "evermq", "evermq"
    url = f"mq://127.0.0.1:{PORT}"
    durability = "a log of its own, synced (O_DIRECT and O_DSYNC, or fdatasync) before a put returns; group commit"
    ack_note = "get under syncpoint, up to 128 a unit of work; the commit, durable, travels with the next get"

    async def connect(self) -> None:
        self.stack = AsyncExitStack()
        self.connection = await self.stack.enter_async_context(broker.connect(self.url, appl_name="peers"))
        self.outputs: dict[str, Queue] = {}
        self.inputs: dict[str, Queue] = {}
        self.commit: asyncio.Future[Any] | None = None

    async def close(self) -> None:
        await self.stack.aclose()

    async def setup(self, queues: Sequence[str], wake: bool = False) -> None:
        commands = ["ALTER QMGR MAXHANDS(10000)"]
        commands += [f"DEFINE QLOCAL('{name}') REPLACE {QUEUE}" for name in queues]
        commands += [f"CLEAR QLOCAL('{name}')" for name in queues]
        await self._command(commands)
        await self.attach(queues, wake)
        for name in queues:
            self.inputs[name] = await self.connection.open(name, MQOO.INPUT_SHARED | MQOO.INQUIRE)

    async def attach(self, queues: Sequence[str], wake: bool = False) -> None:
        for name in queues:
            self.outputs[name] = await self.connection.open(name, MQOO.OUTPUT)

    async def cleanup(self, queues: Sequence[str]) -> None:
        for queue in (*self.outputs.values(), *self.inputs.values()):
            await queue.close()
        await self._command([f"DELETE QLOCAL('{name}') PURGE" for name in queues])

    async def _command(self, commands: Sequence[str]) -> None:
        for reply in await self.connection.mqsc("\n".join(commands)):
            if not reply.ok:
                raise RuntimeError(reply.text)

    async def put_one(self, q: str, body: bytes) -> None:
        await self.outputs[q].put(body)

    async def put_many(self, q: str | Callable[[int], str], bodies: Iterable[bytes], window: int = 256) -> None:
        """On one queue; two frames of 128 messages are on their way at a time, so the window needs no care."""
        if callable(q):
            await super().put_many(q, bodies, window)
        else:
            await self.outputs[q].put_many(bodies)

    async def get_many(self, q: str, n: int) -> None:
        await self.consume(q, n, lambda body: None)

    async def consume(self, q: str, n: int, cb: Callable[[bytes], object]) -> None:
        async for messages in self._batches(await self._input(q), n):
            for message in messages:
                cb(message.data)

    async def _batches(self, queue: Queue, n: int) -> AsyncIterator[list[Message]]:
        """Batches under syncpoint, until there were `n` messages; a batch is committed when the next one is asked for.

        The next batch does not wait for the commit before it, but at most `COMMITS` are on their way.
        """
        commits: deque[asyncio.Future[Any]] = deque()
        while n:
            batch = asyncio.ensure_future(queue.get_many(min(n, BATCH), None, UNDER_SYNCPOINT))
            if len(commits) == COMMITS:
                await commits.popleft()
            messages = await batch
            yield messages
            n -= len(messages)
            commits.append(asyncio.ensure_future(self.connection.commit()))
        await asyncio.gather(*commits)

    async def _input(self, q: str) -> Queue:
        if q not in self.inputs:
            self.inputs[q] = await self.connection.open(q, MQOO.INPUT_SHARED)
        return self.inputs[q]

    async def wait_one(self, q: str) -> bytes:
        if self.commit is not None:
            await self.commit
        message = await self.inputs[q].get(None, UNDER_SYNCPOINT)
        self.commit = asyncio.ensure_future(self.connection.commit())
        return message.data

    async def wait_all(self, queues: Sequence[str], cb: Callable[[bytes], object], ready: Callable[[], None]) -> None:
        """All on one connection: a commit covers all the messages that have come in one turn of the event loop."""
        commits = _Commits(self.connection)

        async def waiter(queue: Queue) -> None:
            message = await queue.get(None, UNDER_SYNCPOINT)
            cb(message.data)
            await commits.next()

        waiters = [asyncio.ensure_future(waiter(self.inputs[name])) for name in queues]
        await asyncio.sleep(0)
        await self.inputs[queues[0]].inquire(MQIA.CURRENT_Q_DEPTH)  # made after the gets, so answered after they wait
        ready()
        await asyncio.gather(*waiters)

    async def trigger(self, q: str, n: int, handler: Callable[[bytes], Any], ready: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(ready)
        async for messages in self._batches(self.inputs[q], n):
            await asyncio.gather(*(asyncio.create_task(handler(message.data)) for message in messages))


class _Commits:
    """Commits of a connection, one for all who ask in a turn of the event loop."""

    def __init__(self, connection: broker.Connection) -> None:
        self._connection = connection
        self._next: asyncio.Future[Any] | None = None

    def next(self) -> asyncio.Future[Any]:
        if self._next is None:
            self._next = asyncio.ensure_future(self._commit())
        return self._next

    async def _commit(self) -> None:
        self._next = None
        await self._connection.commit()


class EverMQOutsideSyncpoint(EverMQ):
    """For the blocked getter alone: a get outside syncpoint, whose message was never written when it waited."""

    name = "evermq-nosync"
    ack_note = "get outside syncpoint: a put that meets a waiting get is handed over without a write (journal rule 5)"
    skip = ("W1", "W2", "W3", "W4", "W4p", "W6", "W7", "W7p", "W8")

    async def wait_one(self, q: str) -> bytes:
        return (await self.inputs[q].get(None, OUTSIDE_SYNCPOINT)).data


class EverMQUnix(EverMQ):
    name = "evermq-unix"
    url = f"mq+unix://{FOLDER}/evermq.sock"


class _Handlers(EverMQ):
    """For W7 and W7p alone: handlers of EverMQ itself. Each message is asserted to have been handled once."""

    skip = ("W1", "W2", "W3", "W4", "W4p", "W5", "W6", "W8")
    process = "PEERS"

    async def setup(self, queues: Sequence[str], wake: bool = False) -> None:
        commands = ["ALTER QMGR MAXHANDS(10000)", f"DEFINE PROCESS({self.process}) REPLACE"]
        for name in queues:
            commands += [
                f"DEFINE QLOCAL('{name}') REPLACE {QUEUE} TRIGGER TRIGTYPE(EVERY) PROCESS({self.process})",
                f"CLEAR QLOCAL('{name}')",
            ]
        await self._command(commands)

    async def _emptied(self, q: str) -> None:
        """Return when the last message has gone: what its handler did is durable."""
        async with asyncio.timeout(60), self.connection.open(q, MQOO.INQUIRE) as queue:
            while await queue.inquire(MQIA.CURRENT_Q_DEPTH) != {MQIA.CURRENT_Q_DEPTH: 0}:  # noqa: ASYNC110  # by others
                await asyncio.sleep(0.005)


class EverMQTrigger(_Handlers):
    """Handlers in the daemon, which are handed their message."""

    name, server = "evermq-trigger", "evermq-trigger"
    url = f"mq://127.0.0.1:{PORT + 1}"
    ack_note = "the handler's return, durable: the message is removed"
    process = peers_handlers.MESSAGE

    async def setup(self, queues: Sequence[str], wake: bool = False) -> None:
        await super().setup(queues, wake)
        ask, reported = peers_handlers.ASK, peers_handlers.TOLD
        await self._command(
            [
                f"DEFINE PROCESS({ask}) REPLACE",
                f"DEFINE QLOCAL({ask}) REPLACE TRIGGER TRIGTYPE(EVERY) PROCESS({ask})",
                f"DEFINE QLOCAL({reported}) REPLACE MAXMSGL(104857600)",
            ]
        )

    async def trigger(
        self, q: str, n: int, handler: Callable[[bytes], Awaitable[None]], ready: Callable[[], None]
    ) -> None:
        await self.connection.put1(q, bytes(8))  # the daemon serves the queue from now on
        await self._stamps(1)
        ready()
        stamps = await self._stamps(n)
        await self._emptied(q)
        stamps += await self._stamps(0)
        if not len({body for body, _ in stamps}) == len(stamps) == n:
            raise AssertionError(f"{len(stamps)} handlers ran for {n} messages")
        for body, began in stamps:  # the harness's handler, with the clock as it was when that of the daemon began
            handler.__globals__["now"] = lambda began=began: began
            await handler(body)

    async def _stamps(self, count: int) -> list[tuple[bytes, int]]:
        await self.connection.put1(peers_handlers.ASK, str(count))
        async with self.connection.open(peers_handlers.TOLD, MQOO.INPUT_SHARED) as reported:
            data = (await reported.get(wait=120)).data
        return list(peers_handlers.STAMPS.iter_unpack(data))


class EverMQTriggerGets(EverMQTrigger):
    """Handlers in the daemon of deliver="trigger": each gets its message and commits. The throttle is the default."""

    name = "evermq-trigger-gets"
    process = peers_handlers.TRIGGER


class EverMQTriggerGetsAtOnce(EverMQTriggerGets):
    """The same with throttle_delay = 0."""

    name, server = "evermq-trigger-gets-0", "evermq-trigger-0"
    url = f"mq://127.0.0.1:{PORT + 2}"


class EverMQWorker(_Handlers):
    """Handlers in a worker process, the consumer's, which are handed their message over TCP."""

    name = "evermq-worker"
    ack_note = "the handler's return, durable: the message is removed"

    async def trigger(
        self, q: str, n: int, handler: Callable[[bytes], Awaitable[None]], ready: Callable[[], None]
    ) -> None:
        app, all_handled = App(self.url, name="peers"), asyncio.Event()
        handled: list[bytes] = []

        @app.handler(q, concurrency=1000)
        async def handle(body: bytes) -> None:
            await handler(body)
            handled.append(body[:8])
            if len(handled) == n:
                all_handled.set()

        async with app.running():
            ready()
            await all_handled.wait()
            await self._emptied(q)
        if not len(set(handled)) == len(handled) == n:
            raise AssertionError(f"{len(handled)} handlers ran for {n} messages")


ADAPTERS = [
    EverMQ, EverMQOutsideSyncpoint, EverMQUnix, EverMQTrigger, EverMQTriggerGets, EverMQTriggerGetsAtOnce, EverMQWorker,
]  # fmt: skip


def _server(data_dir: str, port: int) -> tuple[list[str], dict[str, str]]:
    """`evermq run`: its arguments, and what its environment has besides."""
    settings = {
        "EVERMQ_QUEUE_MANAGER_DATA": f"{data_dir}/data",
        "EVERMQ_LISTENER_PORT": str(port),
        "EVERMQ_LISTENER_UNIX": f"{data_dir}/evermq.sock",
    }
    return [sys.executable, "-m", "broker", "run"], settings


def _with_handlers(**settings: str) -> Callable[[str, int], tuple[list[str], dict[str, str]]]:
    """`evermq run` with the handlers of `peers_handlers` inside."""

    def server(data_dir: str, port: int) -> tuple[list[str], dict[str, str]]:
        command, others = _server(data_dir, port)
        paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        monitor = {"EVERMQ_TRIGGER_MONITOR_ENABLED": "true", "EVERMQ_TRIGGER_MONITOR_HANDLERS": "peers_handlers"}
        return command, {**others, **monitor, "PYTHONPATH": os.pathsep.join(paths), **settings}

    return server


SERVERS = {
    "evermq": (PORT, _server),
    "evermq-trigger": (PORT + 1, _with_handlers()),
    "evermq-trigger-0": (PORT + 2, _with_handlers(EVERMQ_TRIGGER_MONITOR_THROTTLE_DELAY="0")),
}
