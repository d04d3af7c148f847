"""Gets and browses for the messaging resources.

1. What is taken is under syncpoint until the answer is about to be written. What is no text stays on the queue.
2. A get that does not wait looks at the kind of a message before it takes it, so that a message of another kind at the
   head is asked for again and again without being backed out each time. One that waits takes what comes, or backs out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.http.rest.messaging.text_messages import check_kind, text_of
from broker.mqi import MQGMO, MQMO, MQOO, MQRC, GetMessageOptions, MessageDescriptor, MQError, ObjectDescriptor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection, Message, Queue
    from broker.http.rest.messaging.parameters import AskedMessages
    from broker.http.rest.messaging.text_messages import TextMessage

INPUT: Final = (MQOO.INPUT_SHARED | MQOO.FAIL_IF_QUIESCING).value
BROWSE: Final = (MQOO.BROWSE | MQOO.FAIL_IF_QUIESCING).value

_TAKE: Final = (MQGMO.SYNCPOINT | MQGMO.FAIL_IF_QUIESCING | MQGMO.PROPERTIES_FORCE_MQRFH2).value
_LOOK: Final = (MQGMO.SYNCPOINT | MQGMO.FAIL_IF_QUIESCING | MQGMO.PROPERTIES_IN_HANDLE).value
_BROWSE_FIRST: Final = (MQGMO.BROWSE_FIRST | MQGMO.FAIL_IF_QUIESCING | MQGMO.PROPERTIES_FORCE_MQRFH2).value
_LIST: Final = (MQGMO.FAIL_IF_QUIESCING | MQGMO.PROPERTIES_IN_HANDLE | MQGMO.ACCEPT_TRUNCATED_MSG).value
_BY_TOKEN: Final = MQMO.MATCH_MSG_TOKEN.value


async def opened(connection: Connection, q_name: str, options: int, selection: str = "") -> Queue:
    """Open a queue. Raises MQError: what MQOPEN does, and Q_TYPE_ERROR (2057) for a model queue, which it would make
    another queue of.
    """
    queue = await connection.open(ObjectDescriptor(object_name=q_name, selection_string=selection), options)
    if queue.name != q_name:
        await queue.close()
        raise MQError(MQRC.Q_TYPE_ERROR, f"{q_name} is a model queue: name one that was made of it")
    return queue


async def first(queue: Queue, asked: AskedMessages) -> TextMessage | None:
    """Return the first message that is meant, and leave it on its queue. Raises NotTextError."""
    try:
        message = await queue.get(_meant(asked), _options(_BROWSE_FIRST, asked))
    except MQError as error:
        _check_none(error)
        return None
    return text_of(message)


async def take(queue: Queue, asked: AskedMessages) -> TextMessage | None:
    """Take the first message that is meant, under syncpoint, if there is one. Raises NotTextError: it is there still,
    or to be backed out.
    """
    while True:
        try:
            message = await queue.get(_meant(asked), _options(_LOOK, asked), max_length=0)  # one without any data
        except MQError as error:
            if error.reason != MQRC.TRUNCATED_MSG_FAILED:
                _check_none(error)
                return None
            seen: Message = error.message  # type: ignore[assignment]
        else:
            check_kind(message)
            return text_of(message)
        check_kind(seen)
        by_token = GetMessageOptions(options=_TAKE, match_options=_BY_TOKEN, msg_token=seen.token)
        try:
            message = await queue.get(None, by_token)
        except MQError as error:
            _check_none(error)  # another has taken it meanwhile
        else:
            return text_of(message)


async def take_later(queue: Queue, asked: AskedMessages) -> TextMessage | None:
    """Take the first message that is meant, under syncpoint; wait for it as long as is asked. Raises NotTextError: the
    message is to be backed out.
    """
    try:
        message = await queue.get(_meant(asked), _options(_TAKE, asked), wait=(asked.wait_ms or 0) / 1000)
    except MQError as error:
        _check_none(error)
        return None
    return text_of(message)


async def listed(queue: Queue, asked: AskedMessages) -> AsyncIterator[Message]:
    """The messages that are meant, in the order of the queue, without their data: at most as many as are asked for."""
    step = MQGMO.BROWSE_FIRST.value
    for _ in range(asked.limit):
        try:
            message = await queue.get(_meant(asked), _options(_LIST | step, asked), max_length=0)
        except MQError as error:
            _check_none(error)
            return
        yield message
        step = MQGMO.BROWSE_NEXT.value


def _meant(asked: AskedMessages) -> MessageDescriptor:
    msg_id, correl_id = asked.identifiers
    return MessageDescriptor(msg_id=msg_id, correl_id=correl_id)


def _options(options: int, asked: AskedMessages) -> GetMessageOptions:
    return GetMessageOptions(options=options, match_options=asked.match_options)


def _check_none(error: MQError) -> None:
    """Raise an error that is another than that no message is there."""
    if error.reason != MQRC.NO_MSG_AVAILABLE:
        raise error
