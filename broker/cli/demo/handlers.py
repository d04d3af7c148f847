"""The handler of the demonstration: one reservation in, one reply or one dead letter out, in one unit of work.

It runs in the daemon; the trigger monitor starts it for each message that arrives on the triggered queue.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from broker import Clock
from broker.cli.demo.reservation import Refusal, RefusedError, parsed
from broker.cli.demo.stamp import Stamp, microseconds
from broker.mqi import MQAT, MQDLH, MQFMT, MQMT, MQOO, MQRC, MessageDescriptor, MQError
from triggers import TriggerMessage, process

if TYPE_CHECKING:
    from broker import Connection, Message

PROCESS: Final = "DEMO"
REQUEST_QUEUE: Final = "DEMO.RESERVATIONS"
REPLY_QUEUE: Final = "DEMO.REPLY"
DEAD_LETTER_QUEUE: Final = "DEMO.DEAD.LETTER.QUEUE"

_clock = Clock()


@process(PROCESS)
async def reserve(trigger: TriggerMessage, connection: Connection) -> None:
    """Answer one reservation. What is none goes to the dead-letter queue as it came, with the reason before it."""
    begun = microseconds(_clock.monotonic())
    async with connection.unit_of_work(), connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
        try:
            message = await queue.get()
        except MQError as error:
            if error.reason == MQRC.NO_MSG_AVAILABLE:
                return  # somebody else has taken it
            raise
        line, put = Stamp.of(message.md.correl_id)
        stamp = bytes(Stamp(line, max(0, begun - put)))
        try:
            reply = parsed(message.data).reply()
        except RefusedError as error:
            await _bury(connection, trigger, message, stamp, error.refusal)
        else:
            md = MessageDescriptor(msg_type=MQMT.REPLY, correl_id=stamp, persistence=message.md.persistence)
            await connection.put1(REPLY_QUEUE, reply, md)


async def _bury(
    connection: Connection, trigger: TriggerMessage, message: Message, stamp: bytes, refusal: Refusal
) -> None:
    now = datetime.fromtimestamp(_clock.time(), UTC)
    header = MQDLH(
        reason=refusal,
        dest_q_name=trigger.q_name,
        dest_q_mgr_name=connection.q_mgr_name,
        encoding=message.md.encoding,
        coded_char_set_id=message.md.coded_char_set_id,
        format=message.md.format,
        put_appl_type=MQAT.TPF,
        put_appl_name=trigger.appl_id,
        put_date=now.strftime("%Y%m%d"),
        put_time=now.strftime("%H%M%S%f")[:8],
    )
    md = MessageDescriptor(
        msg_id=message.md.msg_id,
        correl_id=stamp,
        persistence=message.md.persistence,
        format=MQFMT.DEAD_LETTER_HEADER,
    )
    await connection.put1(DEAD_LETTER_QUEUE, header.to_bytes() + message.data, md)
