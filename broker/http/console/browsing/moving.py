"""A message that is moved, copied or removed, by its MsgId; in one unit of work, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.http.console.browsing.search import MessageSearch
from broker.mqi import MQGMO, MQMO, MQOO, MQPMO, MQRC, GetMessageOptions, MQError, PutMessageOptions

if TYPE_CHECKING:
    from broker import Connection, Message, Queue

_GET: Final = MQGMO.FAIL_IF_QUIESCING | MQGMO.PROPERTIES_FORCE_MQRFH2


async def moved(connection: Connection, name: str, msg_id: bytes, to: str) -> bool:
    """Move a message to another queue, as it is, with its context; a delay is over. False if it is not there. Raises
    MQError where it cannot be put there: then it stays where it was.
    """
    inputs = MQOO.INPUT_SHARED | MQOO.SAVE_ALL_CONTEXT | MQOO.FAIL_IF_QUIESCING
    outputs = MQOO.OUTPUT | MQOO.PASS_ALL_CONTEXT | MQOO.FAIL_IF_QUIESCING
    options = MQPMO.SYNCPOINT | MQPMO.PASS_ALL_CONTEXT | MQPMO.FAIL_IF_QUIESCING
    async with (
        connection.open(name, inputs) as source,
        connection.open(to, outputs) as target,
        connection.unit_of_work(),
    ):
        message = await _got(source, msg_id, MQGMO.SYNCPOINT)
        if message is not None:
            await target.put(message.data, message.md, PutMessageOptions(options=int(options), context=source))
    return message is not None


async def copied(connection: Connection, name: str, msg_id: bytes, to: str) -> bool:
    """Put a copy of a message to a queue, with its MsgId; who puts it is who copies it. False if it is not there."""
    async with connection.open(name, MQOO.BROWSE | MQOO.FAIL_IF_QUIESCING) as source:
        message = await _got(source, msg_id, MQGMO.BROWSE_FIRST)
    if message is None:
        return False
    await connection.put1(to, message.data, message.md, MQPMO.NO_SYNCPOINT | MQPMO.FAIL_IF_QUIESCING)
    return True


async def removed(connection: Connection, name: str, msg_id: bytes) -> bool:
    """Remove a message for good. False if it is not there."""
    options = MQOO.INPUT_SHARED | MQOO.FAIL_IF_QUIESCING
    async with connection.open(name, options) as source, connection.unit_of_work():
        return await _got(source, msg_id, MQGMO.SYNCPOINT) is not None


async def _got(queue: Queue, msg_id: bytes, step: MQGMO) -> Message | None:
    options = GetMessageOptions(options=int(_GET | step), match_options=int(MQMO.MATCH_MSG_ID))
    try:
        return await queue.get(MessageSearch(msg_id=msg_id).descriptor, options, delayed=True)
    except MQError as error:
        if error.reason != MQRC.NO_MSG_AVAILABLE:
            raise
        return None
