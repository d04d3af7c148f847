"""The queue-sharing group of a queue manager, as far as name resolution needs it.

A message for a queue of another member need not go by a channel: with IGQ(ENABLED) it waits on a queue that all members
share, and the intra-group queuing agent of its destination takes it from there (queue-sharing 9).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from broker.mqi.constants.attribute_values import MQSQQM
from broker.mqi.layouts.layouts import MQXQH

if TYPE_CHECKING:
    from broker.core.names.definitions import Definition

TRANSMISSION_QUEUE: Final = "SYSTEM.QSG.TRANSMIT.QUEUE"
"""The queue for messages from one member to another: one for the group, with QSGDISP(SHARED) and USAGE(XMITQ)."""

IGQ_BYTES_MAX: Final = 64512
"""The longest message there, with its header (queue-sharing 9.4)."""

_HEADER: Final = MQXQH.SIZE
_ENABLED: Final = 1  # IGQ
_IGNORE: Final = MQSQQM.IGNORE.value


@dataclass(slots=True)
class SharingGroup:
    """The group and all its members, this one among them, whether they run or not. `igq_bytes_max`: what a message that
    goes by intra-group queuing may have with its header. `away`: its repository cannot be read, so there may be shared
    queues that this queue manager does not know.
    """

    name: str
    members: frozenset[str]
    igq_bytes_max: int = IGQ_BYTES_MAX
    away: bool = False

    def igq_length_max(self, queue_length_max: int) -> int:
        """The longest data that goes by intra-group queuing, over a transmission queue with this MAXMSGL."""
        return min(self.igq_bytes_max, queue_length_max) - _HEADER


def uses_igq(manager: Definition) -> bool:
    """True if the queue manager with this definition has IGQ(ENABLED)."""
    return manager.attributes.get("IGQ") == _ENABLED


def ignores_q_mgr_name(manager: Definition) -> bool:
    """True if it has SQQMNAME(IGNORE): a shared queue is opened here, whichever member is named beside it."""
    return manager.attributes.get("SQQMNAME") == _IGNORE
