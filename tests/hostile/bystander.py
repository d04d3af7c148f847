"""The bystander: a second client, which puts and gets at a steady pace while others do what they please.

Each of its calls is due at a moment that is fixed beforehand, and its time counts from there, not from when it could be
made. So a queue manager that serves nobody for a second is seen as such, though the client that waits for it makes but
one call meanwhile.
"""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import anyio

import broker
from broker.benchmarks.body import Body, body, now
from broker.mqi import MQIA, MQOO, MQError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import TaskStatus

    from broker import Queue
    from broker.benchmarks.child import Ready, Told

BYSTANDER_QUEUE: Final = "BYSTANDER"

BYSTANDER_DEFINITIONS: Final = f"DEFINE QLOCAL({BYSTANDER_QUEUE}) DEFPSIST(YES) REPLACE\n"

PATIENCE_SECONDS: Final = 15.0
"""How long it goes on, when told to stop, with the calls that are due."""

_SIZE: Final = 256
_PUT_NS: Final = 10_000_000
"""A put is due so often, and the get of its message half way to the next."""

_GET_NS: Final = _PUT_NS // 2
_LATE_NS: Final = 50_000_000


async def stand_by(ready: Ready) -> Told:
    """Told where the queue manager listens, put and get from the next order to go until the one after it; what was seen
    meanwhile.

    `worst_ms` is the longest time of a call and `worst` tells which it was; `late` of its `calls` took more than 50 ms.
    `complaint` is empty when every call was
    answered and every message that was put was got, once and in its order.
    """
    bystander = Bystander()
    async with anyio.create_task_group() as tasks:
        await tasks.start(bystander.run, await ready())
        await ready()
        bystander.begin()
        await ready()
        bystander.stop()
        tasks.cancel_scope.deadline = anyio.current_time() + PATIENCE_SECONDS
    return bystander.reported()


class Bystander:
    """What was due, what was answered, and how late."""

    def __init__(self) -> None:
        self._begun = anyio.Event()
        self._stopped = False
        self._call = ""  # under way
        self._due = 0
        self._worst = (0, "")
        self._late = 0
        self._put = 0
        self._got = 0
        self._complaint = "it had no time to finish"

    def begin(self) -> None:
        """The first put is due."""
        self._begun.set()

    def stop(self) -> None:
        """Finish with the calls that are due."""
        self._stopped = True

    async def run(self, url: str, *, task_status: TaskStatus[None]) -> None:
        """Connect, then put and get from `begin` to `stop`."""
        options = MQOO.INPUT_SHARED | MQOO.OUTPUT | MQOO.INQUIRE
        try:
            async with (
                broker.connect(url, appl_name="bystander") as connection,
                connection.open(BYSTANDER_QUEUE, options) as queue,
            ):
                task_status.started()
                await self._begun.wait()
                await self._put_and_get(queue)
                self._complaint = await self._unaccounted(queue)
        except MQError as error:
            self._complaint = f"{self._call or 'the last call'} failed: {error}"

    async def _put_and_get(self, queue: Queue) -> None:
        begun = now()
        for number in count():
            due = begun + number * _PUT_NS
            if self._stopped and due > now():
                return
            await self.timed(f"put {number}", due, partial(queue.put, body(number, _SIZE)))
            self._put += 1
            message = await self.timed(f"get {number}", due + _GET_NS, queue.get)
            if Body.of(message.data).number == number:
                self._got += 1

    async def timed(self, name: str, due: int, call: Callable[[], Awaitable[Any]]) -> Any:
        """Make a call when it is due (`now`), and note the time from then to its answer."""
        self._call, self._due = name, due
        if (early := due - now()) > 0:
            await anyio.sleep(early / 1e9)
        result = await call()
        self._look()
        return result

    def _look(self) -> None:
        """Note the time of the call that has ended, or has waited for so long."""
        time = now() - self._due
        self._worst = max(self._worst, (time, self._call))
        self._late += time > _LATE_NS
        self._call = ""

    async def _unaccounted(self, queue: Queue) -> str:
        left = (await queue.inquire(MQIA.CURRENT_Q_DEPTH))[MQIA.CURRENT_Q_DEPTH]
        if self._got == self._put and not left:
            return ""
        return f"of {self._put} messages put {self._got} were got in their order, and {left} are left"

    def reported(self) -> Told:
        """What `stand_by` tells."""
        if self._call:
            self._look()
        nanoseconds, call = self._worst
        return {
            "worst_ms": nanoseconds / 1e6,
            "worst": call,
            "calls": self._put + self._got,
            "late": self._late,
            "complaint": self._complaint,
        }
