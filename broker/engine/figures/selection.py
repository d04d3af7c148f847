"""What a scrape asks for: which queues, and by whose names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.commands.selection import generic_match
from broker.core.security.rights import Right
from broker.mqi import checks
from broker.mqi.errors import MQError
from broker.mqi.names import is_generic_name
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.core.queues.queue import LocalQueue
    from broker.core.security.caller import Caller

PER: Final = ("queue", "none")
NAMES: Final = ("evermq", "ibmmq")

_ALL: Final = "*"
_SYSTEM: Final = "SYSTEM."


class FigureSelection(NamedTuple):
    """The queues of a scrape by their names, at most `queues_max` of them, as far as `caller` may display them."""

    queue: str = _ALL
    per: str = "queue"
    names: str = "evermq"
    queues_max: int = 2000
    caller: Caller | None = None

    def admits(self, queue: LocalQueue) -> bool:
        """True if a queue is among them. Temporary dynamic queues and SYSTEM.* have to be asked for by their names."""
        if self.queue == _ALL:
            named = not (queue.temporary or queue.name.startswith(_SYSTEM))
        else:
            named = generic_match(self.queue, queue.name)
        return named and self.shows(queue.name)

    def shows(self, *q_names: str) -> bool:
        """True if the caller may display these queues."""
        return self.caller is None or all(self.caller.may(Right.DSP, name) for name in q_names)


def checked(queue: str, per: str, names: str, queues_max: int, caller: Caller | None) -> FigureSelection:
    """The selection of a call with these arguments. Raises OBJECT_NAME_ERROR (2152), OPTIONS_ERROR (2046)."""
    if not is_generic_name(checks.name(queue)):
        raise MQError(MQRC.OBJECT_NAME_ERROR, f"queue={queue!r}: the name of a queue, or its beginning and an asterisk")
    for word, given, known in (("per", per, PER), ("names", names, NAMES)):
        if given not in known:
            raise MQError(MQRC.OPTIONS_ERROR, f"{word}={given!r}: one of {', '.join(known)}")
    if not isinstance(queues_max, int) or isinstance(queues_max, bool) or queues_max < 0:
        raise MQError(MQRC.OPTIONS_ERROR, f"queues_max={queues_max!r}: a number of queues, 0 or more")
    return FigureSelection(queue, per, names, queues_max, caller)
