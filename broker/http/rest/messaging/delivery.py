"""`.../queue/{queue}/delivery`: a get that loses nothing. The message is the client's for the time of a lease; it is
gone when the client says that it is done, and comes back otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from broker.http.rest.messaging.gets import INPUT, opened, take, take_later
from broker.http.rest.messaging.leases import LeaseState
from broker.http.rest.messaging.messaging_call import MessagingAnswer, message_answer, no_content, while_there
from broker.http.rest.messaging.parameters import LEASE_MS_MAX, SELECTORS, asked
from broker.http.rest.messaging.refusals import lease_over, no_such_delivery
from broker.http.rest.messaging.versions import InvalidValueError

if TYPE_CHECKING:
    from broker import Connection
    from broker.http.rest.messaging.leases import MessageLease, MessageLeases
    from broker.http.rest.messaging.messaging_call import MessagingCall
    from broker.http.rest.messaging.parameters import AskedMessages
    from broker.http.rest.messaging.text_messages import TextMessage

ID: Final = b"evermq-delivery-id"
LEASE: Final = b"evermq-lease"
ATTEMPT: Final = b"evermq-attempt"


async def deliver(call: MessagingCall, leases: MessageLeases) -> MessagingAnswer:
    """POST delivery: the next message that is meant, for the time of `lease`. Raises NotTextError, MQError,
    InvalidValueError, ClientGoneError.
    """
    meant = asked(call.version, call.query, (*SELECTORS, "wait", "lease"))
    if not meant.lease_ms:
        raise InvalidValueError("lease", f"0 is not milliseconds, 1 to {LEASE_MS_MAX}")
    user = call.caller.user
    leases.reserve(user)
    lease: MessageLease | None = None
    try:
        own = await call.own_connection()
        try:
            text = await _got(call, own.connection, meant)
            if text is None:
                return no_content()
            attempt = (ATTEMPT, b"%d" % (text.md.backout_count + 1))
            answer = message_answer(call.version, text, [attempt, (LEASE, b"%d" % meant.lease_ms)])
            lease = leases.begin(user, call.q_name, own, meant.lease_ms)
        finally:
            if lease is None:
                await own.close()
    finally:
        if lease is None:
            leases.free(user)
    where = f"/ibmmq/rest/v{call.version}/messaging/qmgr/{quote(call.q_mgr_name, safe='')}/queue/"
    where += f"{quote(call.q_name, safe='')}/delivery/{lease.id}"
    answer.raw_headers.extend([(ID, lease.id.encode()), (b"location", where.encode())])
    return answer


async def _got(call: MessagingCall, connection: Connection, meant: AskedMessages) -> TextMessage | None:
    """Get a message under syncpoint; its handle is closed then, and the unit of work stays open."""
    async with await opened(connection, call.q_name, INPUT, meant.selection) as queue:
        text = await take(queue, meant)
        if text is None and meant.wait_ms:
            text = await while_there(call.receive, take_later(queue, meant))
        return text


async def done(call: MessagingCall, leases: MessageLeases, id: str) -> MessagingAnswer:
    """DELETE delivery/{id}: the message is done with, and gone. Harmless when that was said before. Raises RestError
    for a lease that has ended otherwise, or is not known; MQError where the message could not be removed.
    """
    asked(call.version, call.query, ())
    lease = _found(call, leases, id)
    await leases.finish(lease, LeaseState.DONE)
    if lease.state is not LeaseState.DONE:
        raise lease_over(lease.id, lease.state)
    return no_content()


async def change(call: MessagingCall, leases: MessageLeases, id: str) -> MessagingAnswer:
    """PATCH delivery/{id}?lease=: hold it for so long from now on; 0 gives the message back at once. Raises RestError,
    InvalidValueError.
    """
    lease_ms = asked(call.version, call.query, ("lease",)).lease_ms
    lease = _found(call, leases, id)
    if lease.state is LeaseState.HELD:
        if lease_ms:
            leases.extend(lease, lease_ms)
            return MessagingAnswer(204, [(LEASE, b"%d" % lease_ms)])
        await leases.finish(lease, LeaseState.RELEASED)
    await lease.over.wait()
    if lease_ms or lease.state is LeaseState.DONE:
        raise lease_over(lease.id, lease.state)
    return no_content()


def _found(call: MessagingCall, leases: MessageLeases, id: str) -> MessageLease:
    lease = leases.find(call.caller.user, call.q_name, id)
    if lease is None:
        raise no_such_delivery(id)
    return lease
