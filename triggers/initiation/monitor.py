"""The monitor of an initiation queue, in the manner of IBM MQ's runmqtrm: `evermq monitor`.

The queue manager puts a trigger message (MQTM) on the initiation queue that a triggered queue names (INITQ). This gets
it, starts what it names, and waits for that to end before it gets the next; with `concurrency` so many do at a time,
each a getter of its own. What is started, APPLTYPE of the process definition says:

1. TPF, which is DEF: a handler in Python, found by the name of the process or by APPLICID as `Handlers` has it. It has
   a connection of its own, committed when it returns and backed out when it raises.
2. UNIX: a command, where `commands` were allowed (`triggers.initiation.commands`).

A trigger message is got under syncpoint, and committed when what it starts has ended, or has been left to the
background: at least once. One that cannot be served goes to the dead-letter queue of the queue manager, in the same
unit of work, with a dead-letter header whose reason says why: it is no trigger message, or not understood
(TM_ERROR, 266); there is no handler of that name, or the shell cannot start the command (APPL_CANNOT_BE_STARTED, 265);
its application type is not served here (APPL_TYPE_ERROR, 267). Without a dead-letter queue it is discarded, with an
error in the log. A program that was started and failed is no error of the monitor.

The trigger message of a handler that raised is put on the initiation queue again: 0.1 s later, then each time after
twice as long, up to 60 s, until a handler of the queue succeeds (`triggers.initiation.retries`).
"""

from __future__ import annotations

import asyncio
import logging
import sys
from asyncio import CancelledError
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
from anyio import CancelScope

from broker import Clock, Connection
from broker.mqi import (
    MQAT,
    MQFB,
    MQGMO,
    MQOO,
    MQPMO,
    MQRC,
    MQTM,
    MQWI,
    GetMessageOptions,
    MQError,
    log_exception,
)
from triggers.app.lifetime import Lifetime, check_least
from triggers.initiation.commands import NOT_STARTED, command_string, in_background, run
from triggers.initiation.dead_letters import DeadLetters
from triggers.initiation.retries import MessageRetries
from triggers.initiation.trigger_messages import UnservedMessage, trigger_of
from triggers.monitor.connections import connected
from triggers.monitor.launch import stopped
from triggers.monitor.loadset import Loadset
from triggers.monitor.poison import PoisonGuard
from triggers.monitor.retries import RETRY_MIN
from triggers.serving.calling import called
from triggers.serving.capacity import Capacity

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from anyio.abc import TaskGroup, TaskStatus

    from broker import Message, Queue
    from triggers.initiation.commands import Commands
    from triggers.monitor.connections import EmbeddedManager
    from triggers.monitor.handlers import Handlers
    from triggers.monitor.process import HandlerFunction

logger = logging.getLogger(__name__)

APPL_NAME: Final = "initiation monitor"
"""The name under which the monitor is connected, and which is in the headers of its dead letters."""

DEFAULT_INITIATION_QUEUE: Final = "SYSTEM.DEFAULT.INITIATION.QUEUE"

_OPEN: Final = MQOO.INPUT_SHARED | MQOO.FAIL_IF_QUIESCING
_GET: Final = GetMessageOptions(
    options=MQGMO.SYNCPOINT | MQGMO.WAIT | MQGMO.FAIL_IF_QUIESCING, wait_interval=MQWI.UNLIMITED
)
_ENDS_IN_ORDER: Final = frozenset({MQRC.Q_MGR_QUIESCING, MQRC.Q_MGR_STOPPING})


@dataclass(frozen=True, slots=True, kw_only=True)
class InitiationStatistics:
    """A monitor of an initiation queue in figures, at one moment."""

    started: int
    """Handlers and commands started so far."""
    failed: int
    """Handlers that raised so far."""
    running: int
    """Handlers and commands that run now."""
    dead_letters: int
    """Trigger messages that could not be served so far."""
    waiting: int
    """Trigger messages whose handlers failed and that wait to be tried again."""
    loads: int = 0
    """The number of times that changed handler modules were loaded while the monitor ran."""
    load_error: str = ""
    """The reason why changed handler modules do not load; empty when there is nothing wrong."""


@dataclass(frozen=True, slots=True)
class _Slot:
    """One of the getters of the monitor, with the task group of what it leaves to the background."""

    connection: Connection
    queue: Queue
    dead_letters: DeadLetters
    background: TaskGroup


class InitiationMonitor(Lifetime):
    """Serves an initiation queue for as long as its context is entered, or until its queue manager ends.

    `source` is a queue manager in this process or a connection to one; the monitor and each handler get connections of
    their own from it. `handlers` are modules or their dotted names; changed ones are loaded anew, at most every
    `generation_interval` seconds. `commands` allows commands. `concurrency` is how many trigger messages are served at
    a time. `stop_timeout` is for how many seconds what runs may go on when the context is left; then handlers are
    cancelled and commands ended, and the trigger messages of those in the foreground are on their queue again.

    Entering raises MQError when the queue cannot be opened. When the queue manager ends in order, so does the monitor;
    any other error that ends it is raised out of the context, whose body is cancelled: GET_INHIBITED (2016),
    CONNECTION_BROKEN (2009).
    """

    def __init__(  # noqa: PLR0913  # each a choice of the caller
        self,
        source: EmbeddedManager | Connection,
        q_name: str = DEFAULT_INITIATION_QUEUE,
        handlers: Iterable[ModuleType | str] = (),
        *,
        commands: Commands | None = None,
        concurrency: int = 1,
        generation_interval: float = 5.0,
        stop_timeout: float = 10.0,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(APPL_NAME)
        check_least(1, concurrency=concurrency)
        check_least(0, generation_interval=generation_interval, stop_timeout=stop_timeout)
        self.q_name = q_name
        self._source = source
        self._loadset = Loadset(handlers)
        self._commands = commands
        self._concurrency = concurrency
        self._generation_interval = generation_interval
        self._stop_timeout = stop_timeout
        self._clock = clock or (Clock() if isinstance(source, Connection) else source.clock)
        self._stopping = asyncio.Event()
        self._waiting: set[CancelScope] = set()  # of gets
        self._capacity = Capacity(sys.maxsize, sys.maxsize)
        self._in_background = asyncio.Semaphore(commands.max_background if commands else 1)
        self._load_at = 0.0
        self._retries = MessageRetries(q_name, self._clock)
        self._fault: MQError | None = None
        self._started = self._failed = self._dead = 0

    def statistics(self) -> InitiationStatistics:
        """The figures of this moment."""
        return InitiationStatistics(
            started=self._started,
            failed=self._failed,
            running=self._capacity.total,
            dead_letters=self._dead,
            waiting=self._retries.waiting,
            loads=self._loadset.loads,
            load_error=self._loadset.error,
        )

    # Its life

    async def _run(self, *, task_status: TaskStatus[None]) -> None:
        began = False
        try:
            async with AsyncExitStack() as stack:
                background = anyio.create_task_group()
                slots = [await self._slot(stack, background) for _ in range(self._concurrency)]
                async with background:
                    began = True
                    await self._serve(slots, background, task_status)
        except* MQError as group:
            error = first_error(group)
            if not began or error.reason not in _ENDS_IN_ORDER:
                raise error from None
            logger.info(
                "the monitor of %s ends with its queue manager: %s",
                self.q_name,
                error,
                extra={"event": "initiation_monitor_ends"},
            )
        self._ended.set()

    async def _slot(self, stack: AsyncExitStack, background: TaskGroup) -> _Slot:
        connection = await stack.enter_async_context(await connected(self._source, APPL_NAME))
        queue = await stack.enter_async_context(connection.open(self.q_name, _OPEN))
        dead_letters = DeadLetters(connection, APPL_NAME, self._clock)
        await dead_letters.open()
        return _Slot(connection, queue, dead_letters, background)

    async def _serve(self, slots: list[_Slot], background: TaskGroup, task_status: TaskStatus[None]) -> None:
        """Let the slots get until stopped, then see off what runs."""
        async with anyio.create_task_group() as getters:
            for number, slot in enumerate(slots, 1):
                getters.start_soon(self._get, slot, name=f"{APPL_NAME} {self.q_name} {number}")
            logger.info("waiting for trigger messages: queue=%s", self.q_name)
            task_status.started()
            await self._stopping.wait()
            if self._fault is None or self._fault.reason == MQRC.Q_MGR_QUIESCING:
                await self._capacity.empty(self._clock, self._stop_timeout)
            getters.cancel_scope.cancel()
            background.cancel_scope.cancel()
        if self._fault is not None:
            raise self._fault

    def _stop(self) -> None:
        self._stopping.set()
        for scope in self._waiting:
            scope.cancel()

    async def _get(self, slot: _Slot) -> None:
        """Get trigger messages and serve them, one after the other, until stopped."""
        try:
            while not self._stopping.is_set():
                message = await self._next(slot)
                if message is None:
                    return
                try:
                    await self._start(slot, message)
                except BaseException:
                    with CancelScope(shield=True), suppress(MQError):
                        await slot.connection.backout()
                    raise
                await slot.connection.commit()
        except MQError as error:
            self._fault = self._fault or error
            self._stop()

    async def _next(self, slot: _Slot) -> Message | None:
        """The next trigger message, in the unit of work of the slot; None when stopped."""
        with CancelScope() as scope:
            self._waiting.add(scope)
            try:
                return await slot.queue.get(options=_GET)
            finally:
                self._waiting.discard(scope)
        return None

    # One trigger message

    async def _start(self, slot: _Slot, message: Message) -> None:
        """Start what a trigger message names, or bury it."""
        try:
            trigger = trigger_of(message)
            if trigger.appl_type == MQAT.UNIX and self._commands is not None:
                await self._command(trigger, slot, message, self._commands)
            elif trigger.appl_type == MQAT.TPF and self._loadset.given:
                await self._handler(trigger, slot, message)
            else:
                raise UnservedMessage(MQFB.APPL_TYPE_ERROR, f"APPLTYPE {trigger.appl_type} is not served here")
        except UnservedMessage as unserved:
            await self._bury(slot, message, unserved, MQPMO.SYNCPOINT)

    async def _bury(self, slot: _Slot, message: Message, why: UnservedMessage, options: MQPMO) -> None:
        logger.warning(
            "a trigger message is not served: queue=%s reason=%d: %s",
            self.q_name,
            why.feedback,
            why,
            extra={"event": "trigger_message_not_served"},
        )
        self._dead += await slot.dead_letters.bury(message, why.feedback, self.q_name, options)

    # Commands

    async def _command(self, trigger: MQTM, slot: _Slot, message: Message, commands: Commands) -> None:
        """Run the command, or leave that to the background."""
        try:
            line = command_string(trigger, trigger.to_tmc2(slot.connection.q_mgr_name))
        except ValueError as error:
            raise UnservedMessage(MQFB.TM_ERROR, str(error)) from error
        if not in_background(trigger):
            await self._run_command(trigger, line, commands)
            return
        await self._in_background.acquire()
        name = f"command:{trigger.q_name}:{self._started + 1}"
        slot.background.start_soon(self._beside, trigger, line, slot, message, commands, name=name)

    async def _beside(self, trigger: MQTM, line: bytes, slot: _Slot, message: Message, commands: Commands) -> None:
        try:
            await self._run_command(trigger, line, commands)
        except UnservedMessage as unserved:
            await self._bury(slot, message, unserved, MQPMO.NO_SYNCPOINT)
        finally:
            self._in_background.release()

    async def _run_command(self, trigger: MQTM, line: bytes, commands: Commands) -> None:
        """Raises Unserved when the shell cannot start it."""
        self._started += 1
        self._capacity.occupy(trigger.q_name, 1)
        logger.info("command starts: queue=%s process=%s", trigger.q_name, trigger.process_name)
        try:
            code = await run(line, commands.timeout, self._clock)
        except OSError as error:
            raise UnservedMessage(
                MQFB.APPL_CANNOT_BE_STARTED, f"no process for {trigger.appl_id!r}: {error}"
            ) from error
        finally:
            self._capacity.release(trigger.q_name)
        if code in NOT_STARTED:
            raise UnservedMessage(
                MQFB.APPL_CANNOT_BE_STARTED, f"the shell cannot start {trigger.appl_id!r}: exit code {code}"
            )
        logger.info("command has ended: queue=%s process=%s code=%d", trigger.q_name, trigger.process_name, code)

    # Handlers

    async def _handler(self, trigger: MQTM, slot: _Slot, message: Message) -> None:
        """Run the handler; when it fails, have it tried again."""
        q_name = trigger.q_name
        handler = self._handlers().find(trigger.process_name, trigger.appl_id)
        if handler is None:
            raise UnservedMessage(
                MQFB.APPL_CANNOT_BE_STARTED,
                f"no handler serves process {trigger.process_name} (APPLICID {trigger.appl_id or 'blank'})",
            )
        if self._retries.covers(q_name):
            return
        self._started += 1
        self._capacity.occupy(q_name, 1)
        guard = PoisonGuard()
        try:
            await self._call(handler, trigger, guard)
        except BaseException as error:
            if isinstance(error, CancelledError) and stopped():
                raise
            await self._handler_failed(trigger, slot, message, guard, error)
        else:
            self._retries.succeeded(q_name)
        finally:
            self._capacity.release(q_name)

    async def _call(self, handler: HandlerFunction, trigger: MQTM, guard: PoisonGuard) -> None:
        connection = await connected(self._source, trigger.process_name)
        connection.before_backout = partial(self._capacity.alone, trigger.q_name, self._clock, RETRY_MIN)
        connection.guard = guard
        async with connection:
            await called(handler, trigger.to_tmc2(connection.q_mgr_name), connection)

    def _handlers(self) -> Handlers:
        """The handlers of now."""
        now = self._clock.monotonic()
        if now < self._load_at:
            return self._loadset.handlers
        self._load_at = now + self._generation_interval
        return self._loadset.refresh()

    async def _handler_failed(
        self, trigger: MQTM, slot: _Slot, message: Message, guard: PoisonGuard, error: BaseException
    ) -> None:
        self._failed += 1
        q_name = trigger.q_name
        if await guard.bury(self._source, trigger.process_name):
            then = "what has reached BOTHRESH is moved"
        else:
            delay = await self._retries.failed(slot.background, slot.connection, q_name, message)
            then = f"it is started again in {delay:.1f} s"
        log_exception(
            logger, logging.ERROR, error,
            "handler failed, its unit of work is backed out, %s: queue=%s process=%s",
            then, q_name, trigger.process_name, extra={"event": "handler_failed"},
        )  # fmt: skip


def first_error(group: BaseExceptionGroup[MQError]) -> MQError:
    """The first exception of a group, however deep."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, MQError)
    return found
