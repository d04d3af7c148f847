"""The route of a handle: the definitions that its name led through, as they are now.

A name is resolved once, when it is opened. What the definitions on the path say of inhibition, priority and persistence
counts as it is at each call; a change that would lead the name elsewhere makes the handle unusable (OBJECT_CHANGED,
2041) but for closing it.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Self

from broker.core.names.resolution import DIRECTIONS
from broker.core.queues.queue import LocalQueue
from broker.mqi.constants.descriptor import MQPER
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.names.definitions import Definition
    from broker.core.names.resolution import Resolution
    from broker.core.names.sharing_group import SharingGroup
    from broker.core.queues.queue_attributes import QueueAttributes

_PERSISTENCE_AS_Q_DEF = MQPER.PERSISTENCE_AS_Q_DEF.value


class Route:
    """The way from a name to the local queue where messages go. `queue` is the last of the `levels`.

    The first level gives a message its priority and persistence where the program does not. `group` is the one by
    whose intra-group queuing messages go this way, None of every other way; `transmission` then what the definition on
    the way names for those that are too long for that. Rights to open it are those on the name `judged`.
    """

    __slots__ = (
        "by_default", "first", "group", "judged", "levels", "q_mgr_name", "q_name", "queue", "remote", "transmission",
    )  # fmt: skip

    def __init__(
        self, levels: Sequence[QueueAttributes], resolution: Resolution, group: SharingGroup | None = None
    ) -> None:
        last = levels[-1]
        assert isinstance(last, LocalQueue)
        self.levels = tuple(levels)
        self.first = levels[0]
        self.queue = last
        self.judged = levels[resolution.by_alias].name  # a queue manager alias leads on, and is no way to a queue
        self.q_name = resolution.q_name
        self.q_mgr_name = resolution.q_mgr_name
        self.remote = resolution.remote
        self.by_default = resolution.by_default
        self.group = group if resolution.intra_group else None
        self.transmission = resolution.transmission

    # Intra-group queuing (queue-sharing 9)

    def igq_length_max(self) -> int:
        """The longest data that goes this way, which is by intra-group queuing."""
        assert self.group is not None
        return self.group.igq_length_max(self.queue.max_length)

    def conventional(self, queue: LocalQueue) -> Self:
        """The same way, but over this transmission queue: of a message that is too long for intra-group queuing. Where
        the program does not give a priority and a persistence they are those of the way that was opened
        (queue-sharing 9.5).
        """
        other = copy(self)
        other.levels, other.queue, other.group = (*self.levels[:-1], queue), queue, None
        return other

    # What the definitions say

    def get_inhibited(self) -> str:
        """The name of a definition on the way that has GET(DISABLED); empty when there is none."""
        for level in self.levels:
            if level.get_inhibited:
                return level.name
        return ""

    # What is to hold of a message that is put this way

    def check_put(self) -> None:
        """Raise PUT_INHIBITED (2051) when a definition on the way has PUT(DISABLED)."""
        for level in self.levels:  # on the way of every put
            if level.put_inhibited:
                raise MQError(MQRC.PUT_INHIBITED, f"{level.name} has PUT(DISABLED)")

    def priority(self, asked: int) -> int:
        """The priority of a message whose descriptor has this one (semantics 12.2); it may be above the highest."""
        return asked if asked >= 0 else self.first.default_priority

    def persistence(self, asked: int) -> int:
        """The persistence of a message whose descriptor has this one."""
        return self.first.default_persistence if asked == _PERSISTENCE_AS_Q_DEF else asked

    def check_persistence(self, persistence: int) -> None:
        """Raise PERSISTENT_NOT_ALLOWED (2048) for a persistent message on a temporary dynamic queue, or on a shared one
        whose structure has RECOVER(NO).
        """
        if persistence and self.queue.refuses_persistent:
            why = "is a temporary dynamic queue" if self.queue.temporary else "is in a structure with RECOVER(NO)"
            raise MQError(MQRC.PERSISTENT_NOT_ALLOWED, f"{self.queue.name} {why}")

    def too_long(self, length: int, max_length: int, *, of_manager: bool, where: str = "") -> MQError:
        """The error of a message that is too long: for the queue manager, whose MAXMSGL is `max_length`, or else for
        the queue. `where` says where in its logical message it begins.
        """
        queue = self.queue
        if of_manager:
            return MQError(MQRC.MSG_TOO_BIG_FOR_Q_MGR, f"{length} bytes, the queue manager's MAXMSGL is {max_length}")
        text = f"{length} bytes{where}, MAXMSGL of {queue.name} is {queue.max_length}"
        return MQError(MQRC.MSG_TOO_BIG_FOR_Q, text)


def leads_elsewhere(before: Definition, after: Definition) -> bool:
    """True if a name that was resolved through the definition `before` may lead elsewhere now."""
    directions = DIRECTIONS.get(before.kind, ())
    return any(before.attributes[keyword] != after.attributes[keyword] for keyword in directions)
