"""The producer: it puts one message after the other, some with a delay, a key, or a value to order by."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from broker.mqi import MQOO, MQPER, MQRC, MQError
from tests.simulation.handlers.records import Put
from tests.simulation.handlers.setting import ORDER_BY, SOURCE

if TYPE_CHECKING:
    from broker import QueueManager
    from tests.simulation.handlers.records import Record
    from tests.simulation.handlers.schedule import Schedule

REFUSALS = {MQRC.STORAGE_MEDIUM_FULL, MQRC.OBJECT_IN_USE, MQRC.Q_MGR_QUIESCING, MQRC.HCONN_ERROR}
"""With these nothing is put."""


class Producer:
    """The producer of one life of the queue manager."""

    def __init__(self, schedule: Schedule, manager: QueueManager) -> None:
        self._schedule = schedule
        self._manager = manager
        self._putting: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """True if a put is under way."""
        return self._putting is not None and not self._putting.done()

    def put(self) -> None:
        """Begin the next put, when the one before is over."""
        if self.busy:
            return
        self.look()
        schedule, random = self._schedule, self._schedule.random
        record = schedule.records.new(
            f"m{len(schedule.records.messages)}",
            persistent=random.random() < 0.9,
            customer=f"c{random.randrange(3)}",
            key="",
        )
        extras: dict[str, Any] = {}
        if record.persistent and random.random() < 0.2:
            record.key = extras["key"] = f"k{random.randrange(6)}"
            extras["window"] = 1e6
            schedule.records.keys.setdefault(record.key, []).append(record)
        if random.random() < 0.2:
            extras["delay"] = random.choice((0.5, 5.0, 60.0))
            record.not_before = schedule.now + extras["delay"] - 1e-3
        self._putting = asyncio.ensure_future(self._put(record, extras))

    async def _put(self, record: Record, extras: dict[str, Any]) -> None:
        records = self._schedule.records
        try:
            async with self._manager.connect("producer") as connection:
                persistence = MQPER.PERSISTENT if record.persistent else MQPER.NOT_PERSISTENT
                async with connection.open(SOURCE, MQOO.OUTPUT) as queue:
                    result = await queue.put(
                        record.name, persistence=persistence, properties={ORDER_BY: record.customer}, **extras
                    )
                    record.put = Put.REFUSED if result.duplicate else Put.MADE
                    if result.duplicate:
                        records.duplicates.append((record.key, result.md.msg_id))
                        records.figures["duplicates"] += 1
                    else:
                        records.ids[result.md.msg_id] = record
                        records.figures["put"] += 1
                    self._schedule.note(f"put {record.name}: {record.put.value}")
        except MQError as error:
            if record.put is Put.UNKNOWN and error.reason in REFUSALS:
                record.put = Put.REFUSED
                if record.key:  # nobody was told that there is one
                    records.keys[record.key].remove(record)
            self._schedule.note(f"put {record.name}: {record.put.value}, {error}")

    def look(self) -> None:
        """Raise what was no error of the MQI."""
        if self._putting is not None and self._putting.done() and not self._putting.cancelled():
            self._putting.result()
