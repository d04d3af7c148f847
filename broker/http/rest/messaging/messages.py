"""`.../queue/{queue}/message` and `.../messagelist`: put, take, look, and list (rest 3 to 5)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from broker.http.rest.messaging.bodies import BodyLimit, body_limit, body_of
from broker.http.rest.messaging.gets import BROWSE, INPUT, first, listed, opened, take, take_later
from broker.http.rest.messaging.identifiers import id_out
from broker.http.rest.messaging.messaging_call import (
    MessagingAnswer,
    message_answer,
    no_content,
    text_answer,
    while_there,
)
from broker.http.rest.messaging.parameters import SELECTORS, asked
from broker.http.rest.messaging.put_fields import check_content_type, put_fields
from broker.http.rest.messaging.refusals import unsupported_type
from broker.mqi import MQRC, MQError

if TYPE_CHECKING:
    from broker import Connection, Queue
    from broker.http.rest.messaging.bodies import RoomForBodies
    from broker.http.rest.messaging.messaging_call import MessagingCall
    from broker.http.rest.messaging.parameters import AskedMessages

_JSON: Final = (b"content-type", b"application/json; charset=utf-8")


async def put(call: MessagingCall, room: RoomForBodies) -> MessagingAnswer:
    """POST message: put it, outside syncpoint. Raises RestError, MQError, InvalidValueError."""
    asked(call.version, call.query, ())
    kind = [value for name, value in call.headers if name == b"content-type"]
    if not check_content_type(kind[0].decode("latin-1") if len(kind) == 1 else None):
        raise unsupported_type(b", ".join(kind).decode("latin-1"))
    fields = put_fields(call.version, call.headers)

    async def limit() -> BodyLimit:
        async with call.caller.connection() as connection:
            call.check(connection)
            return await body_limit(connection, call.q_name)

    try:
        body = await body_of(call.headers, call.receive, limit, room)
        md, data = fields.message(call.q_name, body)
        async with call.caller.connection() as connection:
            call.check(connection)
            result = await connection.put1(call.q_name, data, md)
    finally:
        room.leave()
    return text_answer(201, [(b"ibm-mq-md-messageId", id_out(call.version, result.msg_id).encode())])


async def browse(call: MessagingCall) -> MessagingAnswer:
    """GET message: the first that is meant, which stays. Raises NotTextError, MQError, InvalidValueError."""
    meant = asked(call.version, call.query, SELECTORS)
    async with call.caller.connection() as connection, await _queue(call, connection, BROWSE, meant) as queue:
        text = await first(queue, meant)
    return no_content() if text is None else message_answer(call.version, text, [])


async def remove(call: MessagingCall) -> MessagingAnswer:
    """DELETE message: take the next that is meant, if need be when it comes. It is committed when all of the answer is
    ready, and before it is written. Raises NotTextError, MQError, InvalidValueError, ClientGoneError.
    """
    meant = asked(call.version, call.query, (*SELECTORS, "wait"))
    async with call.caller.connection() as connection, await _queue(call, connection, INPUT, meant) as queue:
        text = await take(queue, meant)
        if text is not None:
            answer = message_answer(call.version, text, [])
            await connection.commit()
            return answer
    if not meant.wait_ms:
        return no_content()
    return await _removed_later(call, meant)


async def _removed_later(call: MessagingCall, meant: AskedMessages) -> MessagingAnswer:
    """Wait for a message on a connection of its own: those of the pool are for calls that take no time."""
    own = await call.own_connection()
    try:
        async with await opened(own.connection, call.q_name, INPUT, meant.selection) as queue:
            text = await while_there(call.receive, take_later(queue, meant))
            if text is None:
                return no_content()
            answer = message_answer(call.version, text, [])
            await own.connection.commit()
            return answer
    finally:
        await own.close()


async def message_list(call: MessagingCall) -> MessagingAnswer:
    """GET messagelist: what the messages that are meant are, without their data. A queue with GET(DISABLED) has none to
    give. Raises MQError, InvalidValueError.
    """
    meant = asked(call.version, call.query, (*SELECTORS, "limit"))
    found: list[dict[str, str]] = []
    async with call.caller.connection() as connection, await _queue(call, connection, BROWSE, meant) as queue:
        try:
            async for message in listed(queue, meant):
                md = message.md
                found.append(
                    {
                        "messageId": id_out(call.version, md.msg_id),
                        "correlationId": id_out(call.version, md.correl_id),
                        "format": md.format.rstrip(" \0"),
                    }
                )
        except MQError as error:
            if error.reason != MQRC.GET_INHIBITED:
                raise
    body = json.dumps({"messages": found}).encode()
    return MessagingAnswer(200, [_JSON, (b"content-length", b"%d" % len(body))], body)


async def _queue(call: MessagingCall, connection: Connection, options: int, meant: AskedMessages) -> Queue:
    """Open the queue of a call. Raises RestError where it names another queue manager, and what MQOPEN does."""
    call.check(connection)
    return await opened(connection, call.q_name, options, meant.selection)
