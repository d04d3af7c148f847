"""Messages that a handler cannot handle: at BOTHRESH of their queue they are moved to its BOQNAME (the JMS rule).

The queue manager counts backouts and does nothing else about them; moving is the part of whoever starts the handlers.
It is for messages that handlers of `deliver="trigger"` get under syncpoint through their connection, from queues whose
BOTHRESH is above 0 and whose BOQNAME is not blank:

1. When a handler has failed and its unit of work is backed out, what was in it and has reached BOTHRESH is moved.
2. A handler that gets one that has reached it all the same (others back out too, and BOTHRESH may have been lowered) is
   given the next message instead. The move is then part of the handler's unit, and done by 1 when that is backed out.
3. A message that cannot be moved, for the backout queue is full or missing, stays: the handler is given it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.mqi import MQCA, MQGMO, MQIA, MQMO, MQOO, MQPMO, GetMessageOptions, MessageDescriptor, MQError
from triggers.monitor.connections import connected

if TYPE_CHECKING:
    from broker import Connection, Message
    from triggers.monitor.connections import EmbeddedManager

logger = logging.getLogger(__name__)


class PoisonGuard:
    """The guard of a handler's connection: it looks at what the handler gets through it."""

    def __init__(self) -> None:
        self._got: list[Message] = []  # since the last commit

    async def admits(self, connection: Connection, message: Message) -> bool:
        """True if the handler is given this message; otherwise it is moved in its unit of work (2)."""
        self._got.append(message)
        if not message.backout_count:
            return True
        threshold, target = await limits(connection, message.resolved_q_name)
        return not (0 < threshold <= message.backout_count and await _moved(connection, message, target))

    def committed(self) -> None:
        """Forget the messages that were got: they are gone."""
        self._got.clear()

    async def bury(self, source: EmbeddedManager | Connection, appl_name: str) -> int:
        """Move what was in the unit that is backed out now, and has reached BOTHRESH (1); how many messages."""
        moved = 0
        got, self._got = self._got, []
        if not got:
            return 0
        try:
            async with await connected(source, appl_name) as connection:
                for q_name in {message.resolved_q_name for message in got}:
                    threshold, target = await limits(connection, q_name)
                    reached = [each for each in got if each.resolved_q_name == q_name]
                    reached = [each for each in reached if 0 < threshold <= each.backout_count + 1]
                    if reached and target:
                        moved += await _buried(connection, q_name, reached, target)
        except MQError as error:
            logger.warning(
                "messages of a failed handler stay where they are: reason=%s",
                error,
                extra={"event": "failed_messages_stay"},
            )
        return moved


async def limits(connection: Connection, q_name: str) -> tuple[int, str]:
    """BOTHRESH and BOQNAME of a queue; 0 where a message cannot be moved anyway."""
    async with connection.open(q_name, MQOO.INQUIRE) as queue:
        values = await queue.inquire(MQIA.BACKOUT_THRESHOLD, MQCA.BACKOUT_REQ_Q_NAME)
    target = str(values[MQCA.BACKOUT_REQ_Q_NAME]).strip()
    return int(values[MQIA.BACKOUT_THRESHOLD]) if target else 0, target


async def _buried(connection: Connection, q_name: str, reached: list[Message], target: str) -> int:
    """Move messages of a queue that others may have got meanwhile, each in a unit of its own; how many."""
    moved = 0
    options = GetMessageOptions(options=MQGMO.SYNCPOINT, match_options=MQMO.MATCH_MSG_ID)
    async with connection.open(q_name, MQOO.INPUT_SHARED) as queue:
        for each in reached:
            try:
                message = await queue.get(MessageDescriptor(msg_id=each.md.msg_id), options)
            except MQError:
                continue
            if await _moved(connection, message, target):
                await connection.commit()
                moved += 1
            else:
                await connection.backout()
    return moved


async def _moved(connection: Connection, message: Message, target: str) -> bool:
    """Put a message that the connection has got to the backout queue, in the same unit, as it is."""
    try:
        await connection.put1(
            target, message.data, message.md, MQPMO.SYNCPOINT | MQPMO.SET_ALL_CONTEXT, properties=message.properties
        )
    except MQError as error:
        logger.warning(
            "a message has reached BOTHRESH and cannot be moved: queue=%s msg_id=%s backout_queue=%s reason=%s",
            message.resolved_q_name, message.md.msg_id.hex(), target, error,
            extra={"event": "failed_message_not_moved"},
        )  # fmt: skip
        return False
    logger.warning(
        "a message has reached BOTHRESH and is moved: queue=%s msg_id=%s backout_count=%d backout_queue=%s",
        message.resolved_q_name, message.md.msg_id.hex(), message.backout_count, target,
        extra={"event": "failed_message_moved"},
    )  # fmt: skip
    return True
