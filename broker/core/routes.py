"""The route of a handle: the definitions that its name led through, as they are now.

A name is resolved once, when it is opened. What the definitions on the path say of inhibition, priority and persistence
counts as it is at each call; a change that would lead the name elsewhere makes the handle unusable (OBJECT_CHANGED,
2041) but for closing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from broker.core.queue import LocalQueue
from broker.core.resolution import Resolution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.definitions import Definition
    from broker.core.queue_attributes import QueueAttributes

_DIRECTIONS = {
    "QALIAS": ("TARGET", "TARGTYPE"),
    "QREMOTE": ("RNAME", "RQMNAME", "XMITQ"),
    "QLOCAL": ("USAGE",),
    "QMGR": ("DEFXMITQ",),
}
"""The attributes that decide where a name leads, by kind of object."""


class Route:
    """The way from a name to the local queue where messages go. `queue` is the last of the `levels`.

    The first level gives a message its priority and persistence where the program does not.
    """

    __slots__ = ("by_default", "first", "levels", "q_mgr_name", "q_name", "queue", "remote")

    def __init__(self, levels: Sequence[QueueAttributes], resolution: Resolution) -> None:
        last = levels[-1]
        assert isinstance(last, LocalQueue)
        self.levels = tuple(levels)
        self.first = levels[0]
        self.queue = last
        self.q_name = resolution.q_name
        self.q_mgr_name = resolution.q_mgr_name
        self.remote = resolution.remote
        self.by_default = resolution.by_default

    @classmethod
    def straight(cls, queue: LocalQueue) -> Self:
        """The way to a local queue by its own name."""
        return cls((queue,), Resolution((queue.name,), queue.name, ""))

    def put_inhibited(self) -> str:
        """The name of a definition on the way that has PUT(DISABLED); empty when there is none."""
        for level in self.levels:  # on the way of every put
            if level.put_inhibited:
                return level.name
        return ""

    def get_inhibited(self) -> str:
        """The name of a definition on the way that has GET(DISABLED); empty when there is none."""
        for level in self.levels:
            if level.get_inhibited:
                return level.name
        return ""


def leads_elsewhere(before: Definition, after: Definition) -> bool:
    """Whether a name that was resolved through the definition as it was may lead elsewhere now."""
    directions = _DIRECTIONS.get(before.kind, ())
    return any(before.attributes[keyword] != after.attributes[keyword] for keyword in directions)
