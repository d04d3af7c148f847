"""The trigger monitor: the timer that lets one generation follow another, and the lifetime of all that they start.

One task group holds the generations and their handlers; the timer is the task that owns the group. Nothing here decides
what is started: that is `triggers.monitor.generation`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from broker import Clock, Connection
from broker.mqi import MQRC, MQError
from triggers.app.lifetime import Lifetime, check_least
from triggers.monitor.connections import ENDED, connected
from triggers.monitor.cuir import cuir_handler
from triggers.monitor.generation import Generation, Shared
from triggers.monitor.launch import Launcher
from triggers.monitor.loadset import Loadset
from triggers.monitor.retries import Retries
from triggers.monitor.servers import Servers
from triggers.monitor.unserved import Unserved
from triggers.serving.capacity import Capacity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType

    from anyio.abc import TaskStatus

    from broker import TriggerStarts
    from triggers.monitor.connections import EmbeddedManager
    from triggers.monitor.cuir import CuirExit

logger = logging.getLogger(__name__)

APPL_NAME: Final = "trigger monitor"
"""The name under which the monitor itself is connected; a handler has the name of its process."""

RESPITE: Final = 0.1
"""Seconds before a generation is replaced that died although it replaced a dead one: a lasting fault must not spin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerStatistics:
    """A trigger monitor in figures, at one moment."""

    generation: int
    """The number of the current generation, from 1; 0 before the monitor is entered."""
    running: int
    """Handlers that run now."""
    started: int
    """Handlers started so far."""
    failed: int
    """Handlers that ended by an exception so far."""
    running_by_queue: Mapping[str, int] = field(default_factory=dict)
    """Handlers that run now, for each queue that has any."""
    unserved: Mapping[str, str] = field(default_factory=dict)
    """Queues whose starts nobody here serves, and the process definitions that they name."""
    held_back: Mapping[str, int] = field(default_factory=dict)
    """Starts whose handlers failed and that wait to be tried again, for each queue that has any."""
    delivering: Mapping[str, int] = field(default_factory=dict)
    """Handlers that messages are delivered to and that run now, for each queue that is served so. They are not in the
    figures above: the queue manager counts what they do."""
    swept: int = 0
    """Starts that were missing, and were made by a sweep, so far."""
    loads: int = 0
    """The number of times that changed handler modules were loaded while the monitor ran."""
    load_error: str = ""
    """The reason why changed modules do not load, while those loaded before go on; empty when there is nothing
    wrong.
    """


class TriggerMonitor(Lifetime):
    """Starts handlers for the triggered queues of a queue manager, for as long as its context is entered.

    `source` is a queue manager in this process, or a connection to one, embedded or over the wire: the monitor and each
    handler get connections of their own from it. `handlers` are modules or their dotted names, see `Handlers`.

    - `batch_size`: starts from one queue before the next queue has its turn.
    - `throttle_delay`: seconds to wait after each queue that started something; 0 only lets other tasks run.
    - `generation_interval`: seconds until the next generation takes over. Handlers outlive their generation.
    - `max_tasks`, `max_handlers`: handlers that run at a time, in all (a tenth is kept for queues that have none) and
      for one queue.
    - `sweep_interval`: seconds between two looks for EVERY queues whose messages nobody is on the way to, since a
      handler did not get its message: each is given one start.
    - `cuir`: what queues of trigger type FIRST start that name no process; a function of the descriptor and the MQTM.
    - `stop_timeout`: seconds that handlers have left when the context is left. Then they are cancelled, their units
      of work backed out, and their starts given back. Leaving by cancellation cancels them at once.
    - `user`: the user as whose the calls of handlers are judged, where `source` is a queue manager in this process and
      `@process` names no other; by default they are the owner's.
    - `clock`: by default the queue manager's, or the real one.

    A handler that fails is started again: after 0.1 s, then each time after twice as long, up to 60 s, until one of its
    queue succeeds. Meanwhile nothing is started for that queue. Whatever it raises is a failure of the handler, be it
    KeyboardInterrupt or SystemExit.

    When the connection ends, the monitor does. Over a connection that was given, the MQError is raised out of the
    context, whose body is cancelled: CONNECTION_BROKEN (2009), Q_MGR_QUIESCING (2161), Q_MGR_STOPPING (2162). With a
    queue manager in this process, which is then stopping, it ends quietly.

    Raises HandlerImportError for a module that does not import; ValueError for two handlers of one process and for
    numbers out of range.
    """

    def __init__(  # noqa: PLR0913  # each a choice of the caller
        self,
        source: EmbeddedManager | Connection,
        handlers: Iterable[ModuleType | str] = (),
        *,
        batch_size: int = 10,
        throttle_delay: float = 0.001,
        generation_interval: float = 5.0,
        max_tasks: int = 1000,
        max_handlers: int = 100,
        sweep_interval: float = 60.0,
        cuir: CuirExit | None = None,
        stop_timeout: float = 10.0,
        clock: Clock | None = None,
        user: str = "",
    ) -> None:
        if user and isinstance(source, Connection):
            raise ValueError(f"user={user!r}: over a connection handlers are of the user of that connection")
        super().__init__(APPL_NAME)
        check_least(0, stop_timeout=stop_timeout)
        self._capacity = Capacity(max_tasks, max_handlers)
        self._shared: Shared | None = None
        self._resting: anyio.CancelScope | None = None  # the pause between two sweeps
        self._turn = asyncio.Event()
        self.adjust(
            batch_size=batch_size,
            throttle_delay=throttle_delay,
            generation_interval=generation_interval,
            sweep_interval=sweep_interval,
            max_tasks=max_tasks,
            max_handlers=max_handlers,
        )
        self._loadset = Loadset(handlers)
        self._source = source
        self._clock = clock or (Clock() if isinstance(source, Connection) else source.clock)
        self._cuir = None if cuir is None else cuir_handler(cuir, self._clock)
        self._stop_timeout = stop_timeout
        self._servers = Servers(source, self._clock, user)
        self._retries = Retries(self._clock, self._look_again)
        self._launcher = Launcher(
            source,
            self._capacity,
            self._retries,
            self._clock,
            freed=self._handler_ended,
            lost=self._connection_ended,
            user=user,
        )
        self._current: Generation | None = None
        self._fault: MQError | None = None
        self._swept = 0
        self._stopping = False

    def adjust(
        self,
        *,
        batch_size: int,
        throttle_delay: float,
        generation_interval: float,
        sweep_interval: float,
        max_tasks: int,
        max_handlers: int,
    ) -> None:
        """Work by other figures from now on, the next generation at once. Handlers that run go on, also beyond a cap
        that is lower now. Raises ValueError for numbers out of range, and changes nothing then.
        """
        check_least(1, batch_size=batch_size, max_tasks=max_tasks, max_handlers=max_handlers)
        check_least(0, throttle_delay=throttle_delay)
        for name, seconds in (("generation_interval", generation_interval), ("sweep_interval", sweep_interval)):
            if not seconds > 0:
                raise ValueError(f"{name}={seconds}: must be above 0 seconds")
        self._batch_size = batch_size
        self._throttle_delay = throttle_delay
        self._generation_interval = generation_interval
        self._sweep_interval = sweep_interval
        self._capacity.limit(max_tasks, max_handlers)
        if self._shared is not None:
            self._shared.batch_size, self._shared.throttle_delay = batch_size, throttle_delay
            self._turn.set()
        if self._resting is not None:
            self._resting.cancel()

    def statistics(self) -> TriggerStatistics:
        """The figures of this moment."""
        return TriggerStatistics(
            generation=self._current.number if self._current else 0,
            running=self._capacity.total,
            started=self._launcher.started,
            failed=self._launcher.failed,
            running_by_queue=dict(self._capacity.by_queue),
            unserved=dict(self._shared.unserved.queues) if self._shared else {},
            held_back=self._retries.held_back,
            delivering=self._servers.running,
            swept=self._swept,
            loads=self._loadset.loads,
            load_error=self._loadset.error,
        )

    def _stop(self) -> None:
        self._stopping = True
        self._turn.set()

    async def _run(self, *, task_status: TaskStatus[None]) -> None:
        """The monitor's own task, from connecting to disconnecting."""
        try:
            connection = await connected(self._source, APPL_NAME)
            # `Capacity` bounds what runs. Starts held back are leases too, and must not keep others from running.
            async with connection, connection.trigger_starts(limit=sys.maxsize) as starts:
                await self._serve(connection, starts, task_status)
        except MQError as error:
            if self._shared is None or isinstance(self._source, Connection) or error.reason not in ENDED:
                raise
            logger.info(
                "the trigger monitor ends with its queue manager: %s", error, extra={"event": "trigger_monitor_ends"}
            )
        self._ended.set()  # after an error, the task group cancels those who wait

    async def _serve(self, connection: Connection, starts: TriggerStarts, task_status: TaskStatus[None]) -> None:
        """Run generations until stopped or until the connection has ended; then see the handlers out."""
        async with anyio.create_task_group() as tasks:
            self._shared = Shared(
                tasks,
                starts,
                self._launcher,
                self._servers,
                self._capacity,
                self._retries,
                self._clock,
                self._batch_size,
                self._throttle_delay,
                Unserved(connection, self._clock),
                self._cuir,
            )
            tasks.start_soon(self._sweep, starts, name=f"{APPL_NAME} sweep")
            task_status.started()
            try:
                await self._supervise(self._shared)
                if self._fault is None or self._fault.reason == MQRC.Q_MGR_QUIESCING:
                    await self._see_off()
            finally:
                self._retries.end()
            # Without a connection handlers can end nothing: their units are backed out, their starts pending elsewhere.
            tasks.cancel_scope.cancel()
        if self._fault is not None:
            raise self._fault

    async def _see_off(self) -> None:
        """Give handlers the stop timeout to end."""
        end = self._clock.monotonic() + self._stop_timeout
        self._servers.stop()
        await self._capacity.empty(self._clock, self._stop_timeout)
        await self._servers.ended(max(0.0, end - self._clock.monotonic()))

    async def _supervise(self, shared: Shared) -> None:
        """The timer: the next generation after each interval, and at once when one has died."""
        deaths = 0
        while not self._stopping:
            generation = self._next_generation(shared)
            await self._pause(self._generation_interval)
            deaths = deaths + 1 if generation.died else 0
            if deaths > 1:
                await self._pause(RESPITE)
        shared.stopping = True
        if self._current is not None:
            self._current.retire()

    async def _sweep(self, starts: TriggerStarts) -> None:
        """Have the queue manager look for starts that are missing, now and then."""
        while True:
            with anyio.CancelScope() as self._resting:
                await self._clock.sleep(self._sweep_interval)
            if self._resting.cancelled_caught:
                continue  # the interval is another one now
            try:
                missing = await starts.sweep()
            except MQError as error:
                if error.reason in ENDED:
                    return  # the generation will say so
                logger.warning("the sweep for missing starts failed: reason=%s", error, extra={"event": "sweep_failed"})
            else:
                self._swept += missing
                if missing:
                    logger.warning(
                        "messages were waiting with no start on the way to them: queues=%d",
                        missing,
                        extra={"event": "starts_missing"},
                    )

    def _next_generation(self, shared: Shared) -> Generation:
        """Let the current generation ask for nothing more, then start the next."""
        previous = self._current
        handlers = self._loadset.refresh()
        self._current = Generation(previous.number + 1 if previous else 1, handlers, shared)
        if previous is not None:
            previous.retire()
        self._servers.renew(shared.tasks, handlers)
        shared.tasks.start_soon(self._live, self._current, name=f"{APPL_NAME} generation {self._current.number}")
        return self._current

    async def _live(self, generation: Generation) -> None:
        logger.debug("trigger monitor generation %d starts", generation.number, extra={"event": "generation_starts"})
        try:
            await generation.run()
        except Exception as error:
            generation.died = True
            if isinstance(error, MQError) and error.reason in ENDED:
                self._connection_ended(error)
            else:
                logger.exception(
                    "trigger monitor generation %d died; the next one takes over",
                    generation.number,
                    extra={"event": "generation_died"},
                )
        if generation is self._current:
            self._turn.set()

    async def _pause(self, seconds: float) -> None:
        """Wait so long, or until something has happened that the timer must see."""
        self._turn = asyncio.Event()
        timer = self._clock.call_later(seconds, self._turn.set)
        try:
            if not self._stopping:
                await self._turn.wait()
        finally:
            timer.cancel()

    def _connection_ended(self, error: MQError) -> None:
        self._fault = error
        self._stop()

    def _look_again(self) -> None:
        if self._current is not None:
            self._current.look_again()

    def _handler_ended(self) -> None:
        if self._current is not None:
            self._current.handler_ended()
