"""The trigger messages whose handlers failed: each is put on its initiation queue again, later and later.

Meanwhile other trigger messages of the same queue are dropped, unless its trigger type is EVERY: its close is an event
that makes one, and the one that waits is as good.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from anyio import CancelScope

from broker.mqi import MQIA, MQOO, MQPMO, MQTT, MQError
from triggers.monitor.retries import RetryDelays

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from broker import Clock, Connection, Message


class MessageRetries:
    """The trigger messages of an initiation queue that wait to be tried again, counted by the queues that they name."""

    def __init__(self, initiation_q_name: str, clock: Clock) -> None:
        self._initiation_q_name = initiation_q_name
        self._clock = clock
        self._delays = RetryDelays()
        self._waiting: Counter[str] = Counter()
        self._one_is_enough: set[str] = set()  # of these queues, whose trigger type is not EVERY

    @property
    def waiting(self) -> int:
        """The number of trigger messages that wait."""
        return self._waiting.total()

    def covers(self, q_name: str) -> bool:
        """True if a trigger message of this queue that waits is as good as another one."""
        return self._waiting[q_name] > 0 and q_name in self._one_is_enough

    def succeeded(self, q_name: str) -> None:
        """A handler of this queue has done its work: the next wait is a short one."""
        self._delays.succeeded(q_name)

    async def failed(self, tasks: TaskGroup, connection: Connection, q_name: str, message: Message) -> float:
        """Have a trigger message of this queue tried again; return after how many seconds. A task of the group waits
        for that.
        """
        delay = self._delays.failed(q_name)
        await self._look_at_type(connection, q_name)
        self._waiting[q_name] += 1
        tasks.start_soon(self._put_again, connection, q_name, message, delay, name=f"again:{q_name}")
        return delay

    async def _look_at_type(self, connection: Connection, q_name: str) -> None:
        """Find out if a queue needs each of its trigger messages."""
        self._one_is_enough.discard(q_name)
        with suppress(MQError):
            async with connection.open(q_name, MQOO.INQUIRE) as queue:
                values = await queue.inquire(MQIA.TRIGGER_TYPE)
            if values[MQIA.TRIGGER_TYPE] != MQTT.EVERY:
                self._one_is_enough.add(q_name)

    async def _put_again(self, connection: Connection, q_name: str, message: Message, delay: float) -> None:
        """Put a trigger message on its queue when it has waited, or when the monitor stops."""
        try:
            await self._clock.sleep(delay)
        finally:
            self._waiting[q_name] -= 1
            with CancelScope(shield=True), suppress(MQError):
                await connection.put1(self._initiation_q_name, message.data, message.md, MQPMO.NO_SYNCPOINT)
