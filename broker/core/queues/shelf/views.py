"""Views: the available messages on a shelf that a certain kind of get may be given, in queue order (semantics 5.9).

A shelf makes a view when such a get is first asked for, and keeps it up to date from then on. So a get that wants a
complete group does not step over ten thousand incomplete ones, and queues that are never read so pay nothing.

A view is made as far as somebody has looked: it holds what there is up to its frontier, and knows nothing of what is
behind. What comes or changes before the frontier is judged when it does; what comes behind it, when the frontier gets
there. So a get may look on in many short steps, while others put and get.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.queues.shelf.sorted_keys import SortedKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from broker.core.message.entry import Entry

ANY, MESSAGE_START, GROUP_START = range(3)
"""The items that a get may start with: any, those with offset 0, or those with sequence number 1 and offset 0."""

PART, WHOLE_MESSAGE, WHOLE_GROUP = range(3)
"""The items that must be available with them: no more, all of their logical message, or all of their group."""

LOOKS_AT_ONCE: Final = 500
"""So many messages are judged within one call; more are looked at in steps."""

_STEP: Final = 50

START = -1  # a cursor before every message


class Search(NamedTuple):
    """Work that must be done, in steps, before a get can be answered: then the get is to be made again."""

    steps: Iterator[None]


class View:
    """The keys, up to the frontier, of the available messages that `admits` admits. `source` gives the keys of all that
    may be admitted, from behind a key on.
    """

    __slots__ = ("_frontier", "_source", "admits", "complete", "keys")

    def __init__(
        self, admits: Callable[[Entry], bool], source: Callable[[int], Iterable[int]], frontier: int = START
    ) -> None:
        self.admits = admits
        self.keys: SortedKeys[int] = SortedKeys()
        self.complete = False  # the frontier is behind all messages, and stays there
        self._source = source
        self._frontier = frontier

    def refresh(self, entry: Entry) -> None:
        """An available message came, or what it is judged by has changed."""
        if not self.has_passed(entry.key):
            return
        if not self.admits(entry):
            self.keys.discard(entry.key)
        elif entry.key not in self.keys:
            self.keys.add(entry.key)

    def has_passed(self, key: int) -> bool:
        """True if a message with this key has been judged, or would be now."""
        return self.complete or key <= self._frontier

    def look(self, entries: dict[int, Entry], count: int) -> None:
        """Judge the next messages behind the frontier, so many of them."""
        keys = list(islice(self._source(self._frontier), count))
        for key in keys:
            if self.admits(entries[key]):
                self.keys.add(key)
        if len(keys) < count:
            self.complete = True
        else:
            self._frontier = keys[-1]

    def all_steps(self, entries: dict[int, Entry]) -> Iterator[None]:
        """Look on until nothing is left to look at."""
        while not self.complete:
            self.look(entries, LOOKS_AT_ONCE)
            yield

    def steps(self, entries: dict[int, Entry], after: int) -> Iterator[None]:
        """Look on until there is a message behind `after`, or nothing is left to look at."""
        last = None
        while not self.complete and (last is None or last <= after):
            self.look(entries, _STEP)
            yield
            last = self.keys.last()


def starts(entry: Entry, where: int) -> bool:
    """True if a get that may start at `where` may start with this message."""
    return entry.offset == 0 and (entry.msg_seq_number == 1 or where == MESSAGE_START) if where else True
