"""The CUIR exit: what a queue of trigger type FIRST starts when it names no process (S-3, S-7, P-1)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from broker.mqi import MQAT, MQFMT, MQMT, MQPER, MQTM, MessageDescriptor
from triggers.serving.calling import called

if TYPE_CHECKING:
    from broker import Clock, Connection
    from triggers.monitor.process import HandlerFunction, TriggerMessage

CuirExit: TypeAlias = Callable[[MessageDescriptor, MQTM], object]
"""A function of the descriptor and the trigger message (MQTM) as they would be on an initiation queue; `async def`, or
`def`, which runs in a thread.
"""

_PUT_APPL_NAME: Final = 28


def cuir_handler(cuir: CuirExit, clock: Clock) -> HandlerFunction:
    """The exit as a handler of trigger starts. Raises TypeError for what cannot be called."""
    if not callable(cuir):
        raise TypeError(f"cuir={cuir!r}: a function of a MessageDescriptor and an MQTM")

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        message = MQTM(trigger.q_name, trigger_data=trigger.trigger_data, appl_type=MQAT.UNKNOWN)
        await called(cuir, trigger_md(trigger.q_mgr_name, clock.time()), message)

    return handler


def trigger_md(q_mgr_name: str, now: float) -> MessageDescriptor:
    """The descriptor that a queue manager gives a trigger message; no message is there, so it has no MsgId."""
    md = MessageDescriptor(
        msg_type=MQMT.DATAGRAM,
        format=MQFMT.TRIGGER,
        priority=0,
        persistence=MQPER.NOT_PERSISTENT,
        reply_to_q_mgr=q_mgr_name,
        put_appl_type=MQAT.QMGR,
        put_appl_name=q_mgr_name[:_PUT_APPL_NAME].rstrip(),
        version=1,
    )
    instant = datetime.fromtimestamp(now, UTC)
    md.put_date, md.put_time = instant.strftime("%Y%m%d"), instant.strftime("%H%M%S%f")[:8]
    return md
