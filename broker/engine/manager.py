"""The queue manager: it owns the core, the store, the journal's task and the connections."""

from __future__ import annotations

import logging
from collections import deque
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from secrets import randbits
from typing import TYPE_CHECKING, Any, Self

import anyio

from broker.clock import Clock
from broker.engine import opening, starting
from broker.engine.admin import backups
from broker.engine.admin.command_server import CommandServer
from broker.engine.admin.decisions import Decisions
from broker.engine.admin.figures import Figures, part_figures
from broker.engine.admin.objects import LiveCatalog
from broker.engine.calls.room import BOUNDLESS, Room
from broker.engine.claims.claim_jobs import ClaimJobs
from broker.engine.claims.claim_watch import ClaimWatch
from broker.engine.claims.sink_jobs import SinkJobs
from broker.engine.context import EngineContext
from broker.engine.conversation import Conversation
from broker.engine.conversations import Conversations, check_named
from broker.engine.expiry_scan import ExpiryScan
from broker.engine.health import failing_checks
from broker.engine.jobs.slices import Slices
from broker.engine.journal.afterwards import Afterwards
from broker.engine.journal.bodies import Bodies
from broker.engine.journal.journal import Journal
from broker.engine.security.authentication import Authentication
from broker.engine.security.login import holds, login
from broker.engine.tags import LocalTags
from broker.interface.blocking import OwnConnection
from broker.interface.connection import Connection
from broker.interface.portal import Portal, check_loop, running_loop, start_task
from broker.interface.tagging import tagging_of
from broker.interface.users import process_user
from broker.life import Life
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.unclosed import caller

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Sequence
    from types import TracebackType

    from broker.config import Config
    from broker.core.manager import Manager
    from broker.core.names.definitions import Change
    from broker.engine.handlers.monitors import Monitors
    from broker.engine.opening import JoinableGroup
    from broker.engine.security.login import Login, LoginProof
    from broker.interface.blocking import SyncConnection
    from broker.storage.store import Store

logger = logging.getLogger(__name__)


class QueueManager:
    """A queue manager in this process: `async with QueueManager.open(name="QM1", data="path") as manager`, or
    `manager = await QueueManager.open(...)` and `await manager.close()`, in any tasks of one event loop.

    When it ends, its connections do (Q_MGR_STOPPING, 2162), as in an immediate stop of MQ: a unit of work that is open
    then is backed out. What fails in its own tasks is raised where the block is left, whose task is cancelled, or by
    `close`. One that is never closed ends with its event loop, and warns with the line where it was opened.
    """

    def __init__(self, config: Config, store: Store, clock: Clock, group: JoinableGroup | None = None) -> None:
        self.config = config
        self.clock = clock
        self.name = config.queue_manager.name
        self.sharing = None if group is None else group.member(self)
        self._group = group
        self.store = store
        self.random_bits: Callable[[int], int] = randbits
        self.recent_log: Callable[[int, int], tuple[int, int, list[str]]] | None = None  # a daemon's: behind, bytes
        self._life = Life(f"queue manager {self.name}", self._live, caller())
        self.conversations = Conversations()
        self.tags = LocalTags()
        self.stopping = anyio.Event()
        self._error: Exception | None = None  # why it has to stop
        self._runs = False
        self.missing: dict[str, str] = {}  # what is still to be begun: checks that fail, each with its reason
        self.core: Manager
        self.journal: Journal
        self.bodies: Bodies
        self.slices: Slices
        self.context: EngineContext
        self.monitors: Monitors
        self.catalog: LiveCatalog
        self.commands: CommandServer

    @classmethod
    def open(
        cls,
        config: str | Path | Config | None = None,
        *,
        name: str | None = None,
        data: str | Path | None = None,
        defaults: str | None = None,
        clock: Clock | None = None,
        store: Store | None = None,
        group: JoinableGroup | None = None,
    ) -> QueueManager:
        """A queue manager to enter with `async with`, or to await: then `close` ends it.

        `config` is a `broker.toml`, or what `broker.config.load` made of one. Without one, `name` and `data` say which
        queue manager in which directory; data=None keeps everything in memory. `defaults` is for the default objects of
        a new queue manager: "durable" (messages are persistent unless the program or the queue says otherwise) or "mq"
        (as IBM MQ has them: nonpersistent). `group`: the `broker.QueueSharingGroup` that it joins. Raises ValueError
        for other words and for what the file says already, and when it is entered StoreUnusableError, where the
        directory belongs to another queue manager, to one that runs, to a newer version, or is damaged.
        """
        config = opening.configuration(config, name, data, defaults)
        clock = clock or Clock()
        group = group or opening.group_for(config)
        manager = cls(config, opening.store_for(config, clock) if store is None else store, clock, group)
        manager._life.opened_at = caller()
        return manager

    # Connections

    def connect(
        self,
        appl_name: str = "",
        user: str = "",
        *,
        as_user: str | Login | None = None,
        options: int = 0,
        conn_tag: bytes = b"",
    ) -> Connection:
        """A connection to enter with `async with`, or to await and `close`, of the program `appl_name`. Its messages
        bear `user`, the one that this process runs as unless another is given. With one of the four MQCNO options for
        it, `conn_tag`, up to 128 bytes, keeps programs from running beside one another (MQCONNX).

        The program owns the queue manager, and may do everything. With `as_user` each call is judged as that user's,
        whom messages bear unless `user` is given (security 1.6): NOT_AUTHORIZED (2035) where it may not connect. With
        what `login` has returned the connection ends when that does, too.

        Raises Q_MGR_QUIESCING (2161), Q_MGR_STOPPING (2162); when it is entered with a tag OPTIONS_ERROR (2046),
        CNO_ERROR (2139), CONN_TAG_IN_USE (2271) while another program has it or has left a unit of work that is not
        over, CONN_TAG_NOT_USABLE (2350) while the queue-sharing group cannot be reached.
        """
        self._check_entered()
        proof = None if as_user is None else self.authentication.proof_of(as_user, appl_name)
        name = user or (process_user() if proof is None else proof.login.user)
        port = self.converse(appl_name, name, proof=proof)
        connection = Connection(port, tagging_of(options, conn_tag))
        connection.opened_at = caller()
        return connection

    def sync(
        self,
        appl_name: str = "",
        user: str = "",
        *,
        as_user: str | Login | None = None,
        options: int = 0,
        conn_tag: bytes = b"",
    ) -> SyncConnection:
        """A connection for other threads, whose calls block: `with manager.sync() as connection:`. The arguments are
        those of `connect`, which is done at its first call; `close` ends it, as leaving it does.

        The event loop of the queue manager must run meanwhile. On its own thread each call raises RuntimeError. Raises
        RuntimeError before the queue manager is entered.
        """
        self._check_open()
        made = partial(self.connect, appl_name, user, as_user=as_user, options=options, conn_tag=conn_tag)
        return OwnConnection(self._portal, made)

    def converse(
        self,
        appl_name: str = "",
        user: str = "",
        channel: str = "",
        room: Room = BOUNDLESS,
        *,
        of_delivery: bool = False,
        proof: LoginProof | None = None,
        like: Conversation | None = None,
    ) -> Conversation:
        """A new conversation: the port behind a connection. `channel` names where it comes from, for `status`; `room`
        is what it has for calls and answers. One of a delivery is made while the queue manager quiesces, too: its
        handler runs, and has the time to end. It lives by a `proof`, and its calls are judged as those of its user, if
        there is one: its own, or that of the conversation that it is `like`, with its limits.
        """
        self._check_entered()
        if self.stopping.is_set():
            raise MQError(MQRC.Q_MGR_STOPPING, f"{self.name} is stopping")
        if self.core.quiescing and not of_delivery:
            raise MQError(MQRC.Q_MGR_QUIESCING, f"{self.name} is quiescing")
        conversation = Conversation(self, appl_name, user, channel, room)
        conversation.of_delivery = of_delivery
        self.authentication.settle_in(conversation, proof, like)
        self.conversations.add(conversation)
        return conversation

    login, holds = login, holds
    failing_checks = failing_checks

    def check_named(self, name: str) -> None:
        """Raise Q_MGR_NAME_ERROR (2058) unless a program that names it so means this queue manager: by its name, that
        of its queue-sharing group, or none (queue-sharing 1); Q_MGR_NOT_AVAILABLE (2059) where it is out of that group.
        """
        check_named(name, self.name, self.sharing, self._group)

    # Life

    def __await__(self) -> Generator[Any, None, Self]:
        return self._opened().__await__()

    async def _opened(self) -> Self:
        await self._life.begin(hosted=False)
        return self

    async def close(self) -> None:
        """End the queue manager, in any task of its event loop: its connections end, units of work that are open are
        backed out, and all that was acknowledged is on disk. Harmless when it has ended. Raises what failed in its own
        tasks meanwhile, once; RuntimeError on another event loop.
        """
        self._life.check_loop()
        self._end()
        await self._life.end()

    async def __aenter__(self) -> Self:
        await self._life.begin(hosted=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()  # in this turn of the loop: nothing more is begun
        await self._life.end(error)

    async def _live(self, life: Life) -> None:
        async with AsyncExitStack() as stack:
            await self.store.open()
            stack.push_async_callback(self._close_store)
            await self._load()
            stack.push_async_callback(self._keep_nonpersistent)
            if self.sharing is not None:
                await self.sharing.start()
                stack.push_async_callback(self.sharing.leave)
            stack.push_async_callback(self.journal.drain)
            tasks = await stack.enter_async_context(anyio.create_task_group())
            self._tasks = tasks
            tasks.start_soon(self._write, name=f"journal of {self.name}")
            tasks.start_soon(self.authentication.run, name=f"keys of {self.name}")
            stack.callback(self.journal.close)
            if self.sharing is not None:
                tasks.start_soon(self.sharing.run, name=f"queue-sharing group of {self.name}")
                stack.callback(self.sharing.stop)
            tidy = partial(self.sinks.tidy, self.config.limits.prepared_age)
            self.expiry_scan = ExpiryScan(self.core, self.clock, self.slices, perform=self.context.perform, tidy=tidy)
            self.claim_watch = ClaimWatch(self.context, self.config.limits.claim_age)
            self._runs = True
            stack.callback(self._end)
            self.context.perform()  # what the counts of the start have led to
            logger.info("queue manager started name=%s queues=%d", self.name, len(self.core.objects.queues))
            await life.until_left(tasks.cancel_scope)
        logger.info("queue manager ended name=%s", self.name)

    async def quiesce(self, timeout: float) -> None:
        """Refuse new connections, end the waits that asked for it with Q_MGR_QUIESCING (2161), and return when the last
        connection has gone, or after `timeout` seconds.
        """
        self._check_entered()
        logger.info("queue manager quiesces name=%s connections=%d", self.name, len(self.conversations))
        self.core.quiesce()
        self.context.perform()
        quiescing = MQError(MQRC.Q_MGR_QUIESCING, f"{self.name} is quiescing")
        self.monitors.end(quiescing)
        self.context.deliveries.quiesce(quiescing)
        await self.conversations.until_ended(self.clock, timeout)

    async def stopped(self) -> Exception | None:
        """Wait until the queue manager has to stop because its store failed (journal rule 7), or because it has lost
        its queue-sharing group; the error.
        """
        self._check_entered()
        await self.stopping.wait()
        return self._error or self.journal.error

    def status(self) -> dict[str, Any]:
        """The queue manager in figures, at once: with very many queues see `figures`."""
        self._check_entered()
        figures = self.figures()
        deque(figures.steps(), maxlen=0)
        return figures.all()

    def figures(self, asking: Conversation | None = None) -> Figures:
        """The queue manager in figures, to be taken down in steps: of queues, those that who asks may display."""
        caller = None if asking is None else asking.hconn.caller
        parts = partial(part_figures, self.journal, self.bodies, self.store, self.sharing, self.authentication)
        return Figures(self.core, self.clock, self.config.limits.claim_age, self.conversations, parts, caller)

    def handler_figures(self) -> list[dict[str, Any]]:
        """The figures of the handlers, as `status` has them, without those of every queue."""
        self._check_entered()
        return self.figures().of_handlers()

    async def backup(self, path: str | Path) -> None:
        """Make a copy of the data in the directory `path`, which is new or empty, while the queue manager works; return
        when it is whole, read back and on the medium. It holds all that was durable before the call: a queue manager of
        the same name can be started there. Cancelled, it leaves nothing.

        Raises STORAGE_MEDIUM_FULL (2192) where there is no room, here or there, and FILE_SYSTEM_ERROR (2208) where the
        directory is not empty, cannot be written, or there is no backup for any other reason.
        """
        self._check_entered()
        await backups.back_up(self.store, Path(path))

    def start_soon(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: object) -> None:
        """Run a task beside the calls. It has to end when what it works for does, at the latest with its connection."""
        start_task(self._tasks, f"{work.__qualname__} of {self.name}", work, *arguments)

    def _check_entered(self) -> None:
        self._check_open()
        check_loop(self._portal.loop, running_loop(), self.name)

    def _check_open(self) -> None:
        if not hasattr(self, "core"):
            raise RuntimeError(
                f"{self.name} is not open yet: enter it, `async with QueueManager.open(...) as manager`, or await it"
            )

    async def _load(self) -> None:
        """Take over what the store holds, and create what a queue manager has from the beginning and is not there."""
        self.core = await starting.load_core(self.store, self.config, self.clock, self.random_bits)
        self._portal = Portal()
        self.afterwards = Afterwards()
        rows_max = self.config.journal.batch_rows_max
        self.journal = Journal(self.store, self.core.ids, self.fail, self.afterwards, rows_max, self.clock)
        self.bodies = Bodies(self.config.limits.body_bytes, self.journal)
        self.slices = Slices(self.clock)
        self.context = EngineContext(self.core, self.clock, self.journal, self.bodies, self.slices, self.sharing)
        self.context.deliveries.marks_awaited_below = self.core.ids.last + 1
        self.monitors = self.context.monitors
        self.claims = ClaimJobs(self.context, self.random_bits)
        self.sinks = SinkJobs(self.context)
        self.catalog = LiveCatalog(self.core, self.clock)
        decisions = Decisions(self.context, self.claims, self.sinks)
        self.commands = CommandServer(self.context, self.catalog, decisions, self.config.limits.script_bytes)
        await starting.create_objects(self.store, self.core, self.config, self.clock.time())
        self.authentication = Authentication(
            self.config, self.core, self.clock, self.conversations, self.context.jobs.change, self.context.security_log
        )
        self.context.followers.append(self.authentication.changed)
        self.context.releases.arm()

    async def define_at_start(self, wanted: Sequence[Change], what: str) -> None:
        """Make changes of definitions before anybody connects, if there is room. Raises StoreUnusableError where the
        store has failed.
        """
        await starting.define(self.store, self.core, wanted, what)

    async def _keep_nonpersistent(self) -> None:
        if self.journal.error is None:
            await starting.keep_nonpersistent(self.store, self.core)

    async def _close_store(self) -> None:
        with anyio.CancelScope(shield=True):
            await self.store.close()

    async def _write(self) -> None:
        """The journal's task: what was submitted is written and settled, whatever is cancelled (journal rule 12)."""
        with anyio.CancelScope(shield=True):
            await self.journal.run()

    def fail(self, error: Exception) -> None:
        """The queue manager cannot go on: break all connections, so that nobody is told anything definite."""
        self._error = self._error or error
        self.stopping.set()
        for conversation in self.conversations:
            conversation.break_()

    def _end(self) -> None:
        if not self._runs:
            return
        self._runs = False
        self.stopping.set()
        self.expiry_scan.end()
        self.claim_watch.end()
        self.context.end_waits()
        stopping = MQError(MQRC.Q_MGR_STOPPING, f"{self.name} is stopping")
        self.context.jobs.end(stopping)
        self.context.deliveries.quiesce(stopping)  # what one connection gives back is for nobody
        for conversation in self.conversations:
            conversation.break_(MQRC.Q_MGR_STOPPING, at_once=True)
        self.authentication.end()
        self.context.mark_expiry.end()
        self.context.releases.end()
        self.slices.end()
        self.context.figures.end()
        self.monitors.end(stopping)
