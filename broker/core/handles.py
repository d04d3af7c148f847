"""Connections and handles, as the core knows them: Hconn and Hobj."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.logical import CLOSED, Position
from broker.core.selection import START
from broker.mqi.descriptor import MQAT
from broker.mqi.errors import MQError
from broker.mqi.options import MQOO
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.core.context import Context
    from broker.core.entry import Entry
    from broker.core.queue import LocalQueue
    from broker.core.unit import Unit
    from broker.core.waiters import Waiter

_REMOVING = (MQOO.INPUT_AS_Q_DEF | MQOO.INPUT_SHARED | MQOO.INPUT_EXCLUSIVE).value
_BROWSE = MQOO.BROWSE.value
_OUTPUT = MQOO.OUTPUT.value


class Hconn:
    """A connection: whose messages these are, what it has open, and its unit of work (None until a call starts one)."""

    def __init__(self, appl_name: str = "", user: str = "") -> None:
        self.appl_name = appl_name[:28]
        self.appl_type = MQAT.USER.value
        self.user = user[:12]
        self.handles: dict[int, Handle] = {}
        self.unit: Unit | None = None
        self._hobj = 0

    def add(self, handle: Handle) -> None:
        """Give an object handle its number."""
        self._hobj += 1
        handle.hobj = self._hobj
        self.handles[self._hobj] = handle

    def handle(self, hobj: int) -> Handle:
        """The open handle; raises HOBJ_ERROR (2019)."""
        try:
            return self.handles[hobj]
        except KeyError:
            raise MQError(MQRC.HOBJ_ERROR, f"there is no open handle {hobj} on this connection") from None

    def queue(self, hobj: int) -> tuple[Handle, LocalQueue]:
        """The handle and its queue; raises HOBJ_ERROR (2019), Q_DELETED (2052)."""
        handle = self.handle(hobj)
        queue = handle.queue
        if queue is None:
            raise MQError(MQRC.HOBJ_ERROR, f"{handle.name} is not a queue: nothing can be put to it or got from it")
        if queue.deleted:
            raise MQError(MQRC.Q_DELETED, f"{queue.name} was deleted after it was opened")
        return handle, queue


class Marker(NamedTuple):
    """Who marks messages while browsing: a handle, or, for None, the co-operating handles of the queue together."""

    handle: Handle | None


CO_OPERATING = Marker(None)


class Handle:
    """An open object. `queue` is None for objects that hold no messages."""

    def __init__(self, hconn: Hconn, space: str, name: str, options: int, queue: LocalQueue | None) -> None:
        self.hconn = hconn
        self.hobj = 0
        self.space = space
        self.name = name
        self.options = options
        self.queue = queue
        self.cursor = START  # the key of the message browsed last
        self.anchor = START  # in a browse in logical order, the key of the first message of the last group
        self.browsed_logically: bool | None = None  # by the last browse; None before the first
        self.last_put: Position = CLOSED
        self.last_get: Position = CLOSED
        self.last_browse: Position = CLOSED
        self.saved_context: Context | None = None
        self.locked: list[Entry] = []
        self.marked: set[Entry] = set()
        self.marker = Marker(self)
        self.waiting: dict[Waiter, None] = {}

    @property
    def removes(self) -> bool:
        """Whether it is open for destructive gets."""
        return bool(self.options & _REMOVING)

    @property
    def browses(self) -> bool:
        return bool(self.options & _BROWSE)

    @property
    def puts(self) -> bool:
        return bool(self.options & _OUTPUT)
