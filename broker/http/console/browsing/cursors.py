"""Browse cursors: each is a handle on a connection of its own, kept for five minutes behind its last page.

1. A cursor belongs to the caller that has opened it, and is found by a word that nobody can guess.
2. The pages that it has read are kept as they were, so that the way back shows what was there; the last page is the
   one behind which the handle stands. A cursor that has come to the end of the queue holds no handle any more.
3. There are at most 64, four a caller; for one more the one goes that was used longest ago.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final

import anyio

from broker.http.console.browsing.listed import HEAD_BYTES, ListedMessage, listed
from broker.mqi import MQGMO, MQOO, MQRC, MQError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker import Clock, Connection, Queue
    from broker.http.console.admission import ConsoleCaller
    from broker.http.console.browsing.search import MessageSearch

PAGE_MESSAGES: Final = 100
KEPT_SECONDS: Final = 300.0
CURSORS_MAX: Final = 64
CURSORS_A_CALLER: Final = 4
PAGES_KEPT: Final = 50
APPLICATION: Final = "evermq console"
_SWEEP_SECONDS: Final = 30.0
_STEP: Final = 25
"""So many messages are browsed before others have a turn."""


class BrowseCursor:
    """A place on a queue, and the pages before it. `read` is called by one request at a time."""

    def __init__(self, word: str, owner: str, q_name: str, search: MessageSearch, at: float) -> None:
        self.word = word
        self.owner = owner
        self.q_name = q_name
        self.search = search
        self.at = at
        self.used = 0.0
        self.pages: dict[int, Sequence[ListedMessage]] = {}
        self.ended = False
        self.lock = anyio.Lock()
        self._count = 0
        self._connection: Connection | None = None
        self._queue: Queue | None = None

    async def open(self, connection: Connection) -> None:
        """Open the queue on a connection of its own. Raises what MQOPEN does."""
        own = await (await connection.connect(APPLICATION))
        try:
            self._queue = await own.open(self.search.object(self.q_name), MQOO.BROWSE | MQOO.FAIL_IF_QUIESCING)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await own.close()
            raise
        self._connection = own

    async def page(self, number: int) -> Sequence[ListedMessage] | None:
        """Return a page, from 1 on; None for one that is not kept, and is not the next."""
        async with self.lock:
            if number in self.pages:
                return self.pages[number]
            if number != len(self.pages) + 1 or self._queue is None or number > PAGES_KEPT:
                return None
            self.pages[number] = found = await self._read(self._queue)
            if len(found) < PAGE_MESSAGES or number == PAGES_KEPT:
                self.ended = len(found) < PAGE_MESSAGES
                await self.close()
            return found

    async def close(self) -> None:
        """Close the handle; the pages stay."""
        connection, self._connection, self._queue = self._connection, None, None
        if connection is not None:
            with anyio.CancelScope(shield=True), suppress(MQError):
                await connection.close()

    async def _read(self, queue: Queue) -> list[ListedMessage]:
        found: list[ListedMessage] = []
        options, md = self.search.options(MQGMO.BROWSE_NEXT), self.search.descriptor
        while len(found) < PAGE_MESSAGES:
            try:
                message = await queue.get(md, options, max_length=HEAD_BYTES, delayed=True)
            except MQError as error:
                if error.reason == MQRC.NO_MSG_AVAILABLE:
                    break
                raise
            self._count += 1
            found.append(listed(message, self._count))
            if len(found) % _STEP == 0:
                await anyio.lowlevel.checkpoint()
        return found


class BrowseCursors:
    """The cursors of a console."""

    def __init__(self, clock: Clock, start_soon: Callable[..., object]) -> None:
        self._clock = clock
        self._start_soon = start_soon
        self._cursors: OrderedDict[str, BrowseCursor] = OrderedDict()  # the one used last at the end
        self._scope: anyio.CancelScope | None = None  # while there are any

    def __len__(self) -> int:
        return len(self._cursors)

    async def open(self, caller: ConsoleCaller, q_name: str, search: MessageSearch) -> BrowseCursor:
        """Return a new cursor at the begin of a queue. Raises what MQOPEN does."""
        owner = _owner(caller)
        cursor = BrowseCursor(token_urlsafe(12), owner, q_name, search, self._clock.time())
        async with caller.connection() as connection:
            await cursor.open(connection)
        self._cursors[cursor.word] = cursor
        self._use(cursor)
        own = [each for each in self._cursors.values() if each.owner == owner]
        for each in own[:-CURSORS_A_CALLER]:
            await self._drop(each)
        while len(self._cursors) > CURSORS_MAX:
            await self._drop(next(iter(self._cursors.values())))
        if self._scope is None:
            self._scope = anyio.CancelScope()
            self._start_soon(self._sweep, self._scope)
        return cursor

    def find(self, caller: ConsoleCaller, word: str, q_name: str) -> BrowseCursor | None:
        """Return a caller's cursor by its word, if it is there still."""
        cursor = self._cursors.get(word)
        if cursor is None or cursor.owner != _owner(caller) or cursor.q_name != q_name:
            return None
        self._use(cursor)
        return cursor

    def end(self) -> None:
        """Close all of them, soon."""
        if self._scope is not None:
            self._scope.cancel()

    def _use(self, cursor: BrowseCursor) -> None:
        cursor.used = self._clock.monotonic()
        self._cursors.move_to_end(cursor.word)

    async def _drop(self, cursor: BrowseCursor) -> None:
        self._cursors.pop(cursor.word, None)
        await cursor.close()

    async def _sweep(self, scope: anyio.CancelScope) -> None:
        """Close what nobody has used for five minutes, until there are none."""
        try:
            with scope:
                while self._cursors:
                    await self._clock.sleep(_SWEEP_SECONDS)
                    old = self._clock.monotonic() - KEPT_SECONDS
                    for cursor in [each for each in self._cursors.values() if each.used <= old]:
                        await self._drop(cursor)
        finally:
            self._scope = None
            while self._cursors and scope.cancel_called:
                await self._drop(next(iter(self._cursors.values())))


def _owner(caller: ConsoleCaller) -> str:
    """A word that is the same for the requests of one session."""
    return f"{caller.user} {caller.form_token}"
