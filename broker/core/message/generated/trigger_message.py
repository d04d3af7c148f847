"""Trigger messages: what the queue manager puts on an initiation queue when a queue triggers.

What it says is settled by the event. When it is written it is an MQTM behind a descriptor of the queue manager's own:
nonpersistent, with the priority that the initiation queue has by default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.message.generated.generated import GeneratedMessage
from broker.mqi.constants.descriptor import MQAT, MQENC, MQFMT, MQMT, MQPER, MQPRI
from broker.mqi.layouts.layouts import MQTM
from broker.mqi.structures import MessageDescriptor

if TYPE_CHECKING:
    from broker.core.identifiers import Identifiers
    from broker.core.names.definitions import Definition
    from broker.core.queues.message_queue import MessageQueue

_UNKNOWN = MQAT.UNKNOWN.value
_FORMAT = MQFMT.TRIGGER.value
_DATAGRAM = MQMT.DATAGRAM.value
_NATIVE = MQENC.NATIVE.value
_AS_Q_DEF = MQPRI.PRIORITY_AS_Q_DEF.value
_NOT_PERSISTENT = MQPER.NOT_PERSISTENT.value
_QUEUE_MANAGER = MQAT.QMGR.value


class TriggerMessage(NamedTuple):
    """A trigger message that is to be written: where, and its data. One without `dead_letter` is discarded where it
    cannot be put.
    """

    initiation_q_name: str
    data: bytes
    dead_letter: bool = True

    def written(self, ids: Identifiers, now: float) -> GeneratedMessage:
        """The message to put, now that it is written."""
        put_date, put_time = ids.stamp(now)
        md = MessageDescriptor(
            version=1,
            msg_type=_DATAGRAM,
            encoding=_NATIVE,
            coded_char_set_id=ids.coded_char_set_id,
            format=_FORMAT,
            priority=_AS_Q_DEF,
            persistence=_NOT_PERSISTENT,
            msg_id=ids.identifier(),
            reply_to_q_mgr=ids.q_mgr_name,
            put_appl_type=_QUEUE_MANAGER,
            put_appl_name=ids.q_mgr_name[:28],
            put_date=put_date,
            put_time=put_time,
        )
        return GeneratedMessage(
            self.initiation_q_name, "", md, self.data, dead_letter=self.dead_letter, triggers=False, due=True
        )


class TriggerEvent(NamedTuple):
    """A queue has triggered: what that leads to when the unit of work of its put is over. `type` is the trigger type
    that the queue had; without a message it leads to a start on the fast path.
    """

    queue: MessageQueue
    type: int
    message: TriggerMessage | None = None

    def of_dead_letter(self) -> TriggerEvent:
        """The same event, by a dead letter of the queue manager's own: its trigger message becomes none in turn."""
        if self.message is None:
            return self
        return self._replace(message=self.message._replace(dead_letter=False))


def describe(queue: MessageQueue, process: Definition | None) -> MQTM:
    """Return the trigger message of a queue; without a process it says nothing of the program."""
    if process is None:
        return MQTM(queue.name, "", queue.trigger_data, _UNKNOWN)
    attributes = process.attributes
    return MQTM(
        q_name=queue.name,
        process_name=queue.process_name,
        trigger_data=queue.trigger_data,
        appl_type=int(attributes["APPLTYPE"]),
        appl_id=str(attributes["APPLICID"]),
        env_data=str(attributes["ENVRDATA"]),
        user_data=str(attributes["USERDATA"]),
    )
