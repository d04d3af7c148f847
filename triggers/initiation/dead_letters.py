"""Trigger messages that a monitor cannot serve, put on the dead-letter queue of the queue manager with an MQDLH."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from broker.mqi import MQAT, MQCA, MQDLH, MQENC, MQFMT, MQOO, MQOT, MQPMO, MQRC, MQError, ObjectDescriptor

if TYPE_CHECKING:
    from broker import Clock, Connection, Message, Queue

logger = logging.getLogger(__name__)

_OPEN = MQOO.OUTPUT | MQOO.FAIL_IF_QUIESCING


class DeadLetters:
    """The dead-letter queue, open for output through the connection of a monitor for as long as that lasts."""

    def __init__(self, connection: Connection, appl_name: str, clock: Clock) -> None:
        self._connection = connection
        self._appl_name = appl_name
        self._clock = clock
        self._queue: Queue | None = None

    async def open(self) -> None:
        """Open the queue that DEADQ names now; without one, messages will be discarded."""
        self._queue = None
        async with self._connection.open(ObjectDescriptor(object_type=MQOT.Q_MGR), MQOO.INQUIRE) as manager:
            name = str((await manager.inquire(MQCA.DEAD_LETTER_Q_NAME))[MQCA.DEAD_LETTER_Q_NAME]).strip()
        if name:
            try:
                self._queue = await self._connection.open(name, _OPEN)
            except MQError as error:
                logger.warning(
                    "the dead-letter queue cannot be opened: queue=%s reason=%s",
                    name,
                    error,
                    extra={"event": "dead_letter_queue_not_opened"},
                )

    async def bury(self, message: Message, reason: int, q_name: str, options: MQPMO) -> bool:
        """Put a message of this queue there; false when it could not be, which is logged."""
        held = self._queue is not None
        if not held:
            await self.open()
        try:
            if self._queue is None:
                raise MQError(MQRC.UNKNOWN_OBJECT_NAME, "DEADQ of the queue manager names no queue that can be opened")
            await self._put(self._queue, message, reason, q_name, options)
        except MQError as error:
            self._queue = None
            if held:  # DEADQ may name another one by now
                return await self.bury(message, reason, q_name, options)
            logger.error(
                "a trigger message is discarded: it cannot be put on the dead-letter queue: queue=%s reason=%s",
                q_name, error, extra={"event": "trigger_message_discarded"},
            )  # fmt: skip
            return False
        return True

    async def _put(self, queue: Queue, message: Message, reason: int, q_name: str, options: MQPMO) -> None:
        now = datetime.fromtimestamp(self._clock.time(), UTC)
        header = MQDLH(
            reason=reason,
            dest_q_name=q_name,
            dest_q_mgr_name=self._connection.q_mgr_name,
            encoding=message.md.encoding,
            coded_char_set_id=message.md.coded_char_set_id,
            format=message.md.format,
            put_appl_type=MQAT.TPF,
            put_appl_name=self._appl_name,
            put_date=now.strftime("%Y%m%d"),
            put_time=now.strftime("%H%M%S%f")[:8],
        )
        md = replace(message.md, format=MQFMT.DEAD_LETTER_HEADER, encoding=MQENC.NATIVE)
        await queue.put(header.to_bytes() + message.data, md, options)
