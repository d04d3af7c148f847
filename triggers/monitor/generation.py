"""One instance of the trigger monitor, as TPF runs it for five seconds before the next one takes over.

It goes round the queues whose TriggerPendingCount is above zero, in the order of their names. From each it takes at
most a batch of starts, starts their handlers, waits for the throttle delay, and goes to the next queue, until all
counts are zero. Then it waits for a post.

No start is lost, none is made twice:

1. A count is lowered by the queue manager when it gives the starts: whoever got a start, nobody else can.
2. `retire` comes before the next generation's first step, and no await lies between looking at `retired` and asking
   for starts. So only the current generation asks.
3. What a generation asked for may arrive when it has been retired. It starts it all the same, with its own handlers:
   the count went down while it was the current one. Only a monitor that stops starts nothing more; it gives back.
4. `pending` remembers the number of posts, `wait` returns for any after it. A pass that started nothing is therefore
   followed by `wait` without looking twice, and a retired generation's `pending` was answered before the next one's.
5. A queue that must wait for a cap is looked at again when a handler ends, one whose handlers fail when its wait is
   over. One that nobody serves is only looked at after a post, so it never makes the loop spin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anyio import CancelScope

from broker.mqi import MQRC, MQError
from triggers.monitor.process import delivery_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anyio.abc import TaskGroup

    from broker import Clock, PendingQueue, TriggerStart, TriggerStarts
    from triggers.app.handler import Handler
    from triggers.monitor.handlers import Handlers
    from triggers.monitor.launch import Launcher
    from triggers.monitor.process import HandlerFunction
    from triggers.monitor.retries import Retries
    from triggers.monitor.servers import Servers
    from triggers.monitor.unserved import Unserved
    from triggers.serving.capacity import Capacity

_DELETED: Final = frozenset({MQRC.UNKNOWN_OBJECT_NAME, MQRC.Q_DELETED})


@dataclass(slots=True)
class Shared:
    """The state that the generations of one monitor share, and that one hands on to the next."""

    tasks: TaskGroup
    starts: TriggerStarts
    launcher: Launcher
    servers: Servers
    capacity: Capacity
    retries: Retries
    clock: Clock
    batch_size: int
    throttle_delay: float
    unserved: Unserved
    cuir: HandlerFunction | None = None
    """The handler for queues that name no process."""
    stopping: bool = False
    last_q_name: str = ""
    """The queue that started something last. A pass begins behind it: else caps would favour the first names."""


class Generation:
    """The monitor between two ticks of its timer, with the handlers of that time."""

    def __init__(self, number: int, handlers: Handlers, shared: Shared) -> None:
        self.number = number
        self.retired = False
        self.died = False
        self._handlers = handlers
        self._shared = shared
        self._at_cap = False
        self._news = False
        self._waiting: CancelScope | None = None

    async def run(self) -> None:
        """Start handlers until retired. Raises MQError when the queue manager can give no more starts."""
        while not self.retired:
            if not await self._pass():
                await self._wait()

    def retire(self) -> None:
        """Ask for nothing more. The handlers that it started go on."""
        self.retired = True
        self.look_again()

    def handler_ended(self) -> None:
        """A place is free: look again at the queues that had to wait for one."""
        if self._at_cap:
            self.look_again()

    def look_again(self) -> None:
        """Make a pass, whether something was posted or not."""
        self._news = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def _wait(self) -> None:
        """Wait for a post, unless there was news during the pass."""
        if self._news:
            return
        with CancelScope() as self._waiting:
            await self._shared.starts.wait()
        self._waiting = None

    async def _pass(self) -> bool:
        """Go round the queues once. True if anything was started."""
        self._at_cap = self._news = False
        any_started = False
        for queue, handler in self._served(await self._shared.starts.pending()):
            if self.retired:
                break
            if await self._start_batch(queue, handler):
                any_started = True
                self._shared.last_q_name = queue.q_name
                await self._shared.clock.sleep(self._shared.throttle_delay)
        return any_started

    def _served(self, queues: Iterable[PendingQueue]) -> list[tuple[PendingQueue, HandlerFunction]]:
        """The queues whose processes have handlers, in the order of this pass."""
        served = []
        unserved = []
        for queue in queues:
            handler = self._find(queue)
            if handler is None:
                unserved.append(queue)
            elif delivery := delivery_of(handler, queue.process_name):
                self._deliver(queue, delivery)
            else:
                served.append((queue, handler))
        self._report(unserved)
        last = self._shared.last_q_name
        return sorted(served, key=lambda pair: (pair[0].q_name <= last, pair[0].q_name))

    def _find(self, queue: PendingQueue) -> HandlerFunction | None:
        if not queue.process_name:
            return self._shared.cuir
        return self._handlers.find(queue.process_name, queue.appl_id)

    def _deliver(self, queue: PendingQueue, delivery: Handler) -> None:
        """Have messages of the queue handed to a handler together with their starts."""
        if not self.retired and not self._shared.stopping:
            self._shared.servers.serve(self._shared.tasks, queue, delivery)

    def _report(self, queues: list[PendingQueue]) -> None:
        """Report which of the queues that nobody here serves are served by nobody."""
        news = self._shared.unserved.news(queues)
        if news:
            self._shared.tasks.start_soon(self._shared.unserved.report, news, self._handlers.process_names)

    async def _start_batch(self, queue: PendingQueue, handler: HandlerFunction) -> int:
        """Take up to a batch of starts of one queue and start their handlers; return how many.

        The handler is that of the process definition as it was when the pass began.
        """
        if self._shared.retries.waits(queue.q_name):
            return 0
        capacity = self._shared.capacity
        places = min(self._shared.batch_size, queue.starts, capacity.room(queue.q_name))
        if places < 1:
            self._at_cap = True
            return 0
        starts: list[TriggerStart] = []
        capacity.occupy(queue.q_name, places)
        try:
            starts = await self._take(queue.q_name, places)
        finally:
            if self._shared.stopping:
                starts = []  # they are given back when the monitor leaves
            capacity.release(queue.q_name, places - len(starts))
        for start in starts:
            self._shared.launcher.launch(self._shared.tasks, start, handler, self.number)
        return len(starts)

    async def _take(self, q_name: str, places: int) -> list[TriggerStart]:
        try:
            return await self._shared.starts.take(q_name, places)
        except MQError as error:
            if error.reason in _DELETED:  # deleted since the pass began
                return []
            raise
