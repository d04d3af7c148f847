"""The attributes of queues that matter while messages flow, taken over from the definition when it is made or altered.

They stand on the queue itself (`queue.max_depth`), as plain numbers and truth values: `LocalQueue` and `IndirectQueue`
derive from the classes here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.message.entry import MAX_PRIORITY
from broker.mqi.constants.attribute_values import MQNPM, MQPRT, MQUS
from broker.mqi.constants.objects import MQQDT
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.core.names.definitions import Definition
    from broker.core.queues.handles import Handle

_TEMPORARY = MQQDT.TEMPORARY_DYNAMIC.value
_TRANSMISSION = MQUS.TRANSMISSION.value
_HIGH = MQNPM.CLASS_HIGH.value
_ASYNC_RESPONSE = MQPRT.ASYNC_RESPONSE.value


class QueueAttributes:
    """The attributes of every definition that a name may lead through, and the handles that are open by that name."""

    def __init__(self, definition: Definition) -> None:
        self.name = definition.name
        self.handles: set[Handle] = set()
        self.configure(definition)

    def configure(self, definition: Definition) -> None:
        """Take over the attributes of the definition. A remote queue has no GET and no PROPCTL."""
        self.definition = definition
        number = definition.attributes
        self.put_inhibited = bool(number["PUT"])
        self.get_inhibited = bool(number.get("GET", 0))
        self.default_priority = int(number["DEFPRTY"])
        self.default_persistence = int(number["DEFPSIST"])
        self.property_control = int(number.get("PROPCTL", 0))
        self.answers_puts_later = int(number["DEFPRESP"]) == _ASYNC_RESPONSE


class LocalQueueAttributes(QueueAttributes):
    """The attributes of a local queue: these and more, and what they mean for a message that is put."""

    depth: int
    deleted: bool

    def configure(self, definition: Definition) -> None:
        """Take over the attributes of the definition. Positions of queued messages do not change."""
        super().configure(definition)
        number = definition.attributes
        self.max_depth = int(number["MAXDEPTH"])
        self.max_length = int(number["MAXMSGL"])
        self.fifo = bool(number["MSGDLVSQ"])
        self.shareable = bool(number["SHARE"])
        self.default_input = int(number["DEFSOPT"])
        self.definition_type = int(number["DEFTYPE"])
        self.temporary = self.definition_type == _TEMPORARY
        self.refuses_persistent = self.temporary
        self.transmits = int(number["USAGE"]) == _TRANSMISSION
        self.keeps_nonpersistent = int(number["NPMCLASS"]) == _HIGH and not self.temporary  # over an orderly stop
        self.hardens_backout = bool(number["HARDENBO"])
        self.trigger_on = bool(number["TRIGGER"])
        self.trigger_type = int(number["TRIGTYPE"])
        self.trigger_depth = int(number["TRIGDPTH"])
        self.trigger_priority = int(number["TRIGMPRI"])
        self.trigger_data = str(number["TRIGDATA"])
        self.process_name = str(number["PROCESS"])
        self.initiation_q_name = str(number["INITQ"])

    def rank(self, priority: int) -> int:
        """The effective priority of a message: that of the queue for all, where it delivers in order of arrival."""
        if self.fifo:
            return self.default_priority
        return priority if priority < MAX_PRIORITY else MAX_PRIORITY

    def room(self) -> int:
        """Return the number of messages for which it has room: 0 or less when it is full, or MAXDEPTH was lowered."""
        return self.max_depth - self.depth

    def check_room(self) -> None:
        """Raise Q_FULL (2053)."""
        if self.room() <= 0:
            raise self.full()

    def full(self) -> MQError:
        """Q_FULL (2053) for what it has no room for."""
        return MQError(MQRC.Q_FULL, f"{self.name} holds {self.depth} messages, its MAXDEPTH is {self.max_depth}")

    def check_deleted(self) -> None:
        """Raise Q_DELETED (2052)."""
        if self.deleted:
            raise MQError(MQRC.Q_DELETED, f"{self.name} is being deleted")
