"""Sessions of the database for the calls of one member: a few, lent to one transaction at a time.

Each is a *lane*: its transactions have numbers, and the last that was committed stands in the database. So whoever
loses a session while a transaction is being committed finds out what has become of it (`Database`).
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import anyio
import asyncpg

from broker.core.queues.counts.duration import Duration
from broker.core.security.addresses import is_loopback
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.database.errors import LOST, unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

SESSIONS_MAX: Final = 8
"""Sessions of one member for calls."""

CALLS: Final = range(SESSIONS_MAX)
RECOVERY: Final = range(SESSIONS_MAX, SESSIONS_MAX + 1)
"""Numbers of the lanes for calls, and of the one for what a member does before it lets calls have theirs."""

_LIFE_BITS: Final = 32  # of the number of a transaction, for those of one life

CONNECT_SECONDS: Final = 5.0
"""The time to try to get a session."""


NOT_JOINED: Final = "the queue manager has not joined its queue-sharing group yet"

_WAIT_FOR_STANDBY: Final = "SyncRepWaitForLSN"
"""The function of the server that tells when its wait is cancelled, in whatever language."""


class SessionFigures:
    """The figures of a member's sessions since it joined."""

    def __init__(self) -> None:
        self.transactions = 0
        self.round_trips = 0
        self.flushes = 0
        """Waits for the disk, each for all transactions that were committed by then."""
        self.retries = 0
        """Transactions made again, because others were in the way or a session was lost."""
        self.waits = 0
        """Calls that have waited for a session."""
        self.unknown = 0
        """Transactions whose outcome had to be looked up."""
        self.seconds = Duration()
        """The time that the round trips took."""

    def to_dict(self) -> dict[str, int]:
        """As the status shows them."""
        return {name: value for name, value in vars(self).items() if isinstance(value, int)}


class DatabaseSession(asyncpg.Connection):  # type: ignore[misc]  # asyncpg tells type checkers nothing
    """A session of the database, which counts its round trips; InterfaceError where it is cut off meanwhile."""

    figures: SessionFigures | None = None
    crashes: int | None = None
    """The number of crashes of the database when the session began; known of sessions for calls."""
    unreplicated = False
    """True if it has committed something that a synchronous standby may not have: somebody has cancelled the wait."""

    @property
    def peer_in_the_clear(self) -> str:
        """The address of the server where it is another machine and the session is not encrypted, else ""."""
        peer = self._transport.get_extra_info("peername")
        encrypted = self._transport.get_extra_info("ssl_object") is not None
        if encrypted or not isinstance(peer, tuple) or is_loopback(str(peer[0])):
            return ""
        return f"[{peer[0]}]:{peer[1]}" if ":" in str(peer[0]) else f"{peer[0]}:{peer[1]}"

    def heard(self, _: object, message: asyncpg.PostgresLogMessage) -> None:
        """The server tells of something that is no error."""
        self.unreplicated |= message.server_source_function == _WAIT_FOR_STANDBY

    def execute(self, *arguments: Any, **options: Any) -> Coroutine[Any, Any, Any]:
        return self._make(super().execute(*arguments, **options))

    def fetch(self, *arguments: Any, **options: Any) -> Coroutine[Any, Any, Any]:
        return self._make(super().fetch(*arguments, **options))

    def fetchrow(self, *arguments: Any, **options: Any) -> Coroutine[Any, Any, Any]:
        return self._make(super().fetchrow(*arguments, **options))

    def fetchval(self, *arguments: Any, **options: Any) -> Coroutine[Any, Any, Any]:
        return self._make(super().fetchval(*arguments, **options))

    async def _make(self, call: Coroutine[Any, Any, Any]) -> Any:
        figures, began = self.figures, monotonic()
        if figures is not None:
            figures.round_trips += 1
        try:
            found = await call
            if figures is not None:
                figures.seconds.add(monotonic() - began)
            return found
        except AttributeError as error:
            if not self.is_closed():
                raise
            # asyncpg goes on where a call takes several steps, and has nothing any more to take the next with
            raise asyncpg.InterfaceError("the session was cut off in the course of a call") from error


class Lane:
    """A session that is lent to one transaction at a time. `sequence` is the number of the last; it is even. `lasting`:
    what that does has to outlive a crash of the database. `q_name` is the queue on which it counts, "" for none: the
    row of the lane there says whether it was made. It has put so many messages there that have `arrived`, and tells of
    them when it is committed. `renew` gives it a session, unless it has one; it raises CF_NOT_AVAILABLE
    (2345).
    """

    __slots__ = ("_lanes", "arrived", "lasting", "number", "q_name", "sequence", "session")

    def __init__(self, number: int, lanes: Lanes) -> None:
        self._lanes = lanes
        self.number = number
        self.sequence = 0  # of this life of the member: `Lanes.begin`
        self.lasting = True
        self.q_name = ""
        self.arrived = 0
        self.session: Any = None

    @property
    def why_shut(self) -> str:
        """The reason why it gets no session any more; "" where it does."""
        return self._lanes.why_shut

    @property
    def chained(self) -> bool:
        """True if the commit of its last transaction has begun the next (`COMMIT AND CHAIN`)."""
        session = self.session
        return session is not None and not session.is_closed() and bool(session.is_in_transaction())

    async def renew(self) -> None:
        await self._lanes.renew(self)

    def waited(self) -> None:
        """Its transaction has waited for the disk with its commit, unless a standby may not have it."""
        self.lasting = self.lasting and self.session.unreplicated

    def drop(self) -> None:
        """The session is of no use any more."""
        if self.session is not None:
            self.session.terminate()
            self.session = None

    def is_lost(self, error: BaseException) -> bool:
        """True if the session has ended with this error: then it is of no use, whether it is closed already or not."""
        if isinstance(error, (asyncpg.QueryCanceledError, asyncpg.InterfaceError)):
            return self.session is None or bool(self.session.is_closed())
        if isinstance(error, LOST):
            self.drop()
            return True
        return False

    async def commit_and_wait(self, *, chain: bool) -> None:
        """Commit a transaction, and wait for the disk: it tells nobody, since the commit of a notification keeps all
        others of the cluster waiting as long. To `chain` begins the next with it.
        """
        wait = "SET LOCAL synchronous_commit = on; " if self.lasting else ""
        await self.session.execute(wait + ("COMMIT AND CHAIN" if chain else "COMMIT"))
        self.waited()

    async def roll_back(self) -> None:
        """End a transaction that is not to be committed; where that cannot be, the session with it."""
        try:
            if self.session is not None and not self.session.is_closed():
                await self.session.execute("ROLLBACK")
        except (asyncpg.PostgresError, *LOST):
            self.drop()


class Lanes:
    """Sessions of a member for transactions, with these numbers. `connect` makes one for a lane."""

    def __init__(
        self,
        connect: Callable[[int], Coroutine[Any, Any, DatabaseSession]],
        figures: SessionFigures,
        numbers: range = CALLS,
    ) -> None:
        self._connect = connect
        self._figures = figures
        self._limit = anyio.Semaphore(len(numbers), fast_acquire=True)
        self._all = [Lane(number, self) for number in numbers]
        self._free = self._all[::-1]
        self._shut = NOT_JOINED
        self._cuts = 0  # times that all sessions were cut off
        self._idle: dict[Lane, int] = {}  # those that were chained at the last look, behind these transactions

    @property
    def why_shut(self) -> str:
        """The reason why nobody has a session; "" where they are open."""
        return self._shut

    def begin(self, epoch: int) -> None:
        """Number transactions from now on as those of this life: higher than those of any before it."""
        for lane in self._all:
            lane.sequence = epoch << _LIFE_BITS

    def open(self) -> None:
        """Let transactions have sessions."""
        self._shut = ""

    def shut(self, why: str) -> None:
        """Cut off all sessions, and let nobody have one: `why`."""
        self._shut = why
        self.drop()

    async def close(self) -> None:
        """End all sessions. Those that are lent are cut off."""
        self._shut = self._shut or "the queue manager has left its queue-sharing group"
        self._cuts += 1
        for lane in self._all:
            session, lane.session = lane.session, None
            if session is None:
                continue
            if lane in self._free:
                await session.close(timeout=CONNECT_SECONDS)
            else:
                session.terminate()

    def drop(self) -> None:
        """Cut off all sessions: they are of a life of the member that is over."""
        self._cuts += 1
        for lane in self._all:
            lane.drop()

    @asynccontextmanager
    async def lend(self, *, chained: bool = False) -> AsyncIterator[Lane]:
        """A lane with a session, for as long as the block lasts: a `chained` one only to who can go on with its
        transaction. Raises CF_NOT_AVAILABLE (2345).
        """
        self._figures.waits += not self._free
        async with self._limit:
            last = self._free[::-1]  # the one used last first: its session is warm
            lane = next((lane for lane in last if lane.chained is chained), last[0])
            self._free.remove(lane)
            try:
                if lane.chained and not chained:
                    await lane.roll_back()
                await self.renew(lane)
                yield lane
            finally:
                self._free.append(lane)

    async def tidy(self, pause: float) -> None:
        """Call `end_idle` every so many seconds."""
        while True:
            await anyio.sleep(pause)
            await self.end_idle()

    async def end_idle(self) -> None:
        """End the transactions that have been begun, and not gone on with since this was called before."""
        idle, self._idle = self._idle, {lane: lane.sequence for lane in self._free if lane.chained}
        for lane, sequence in idle.items():
            async with self._limit:
                if lane in self._free and lane.chained and lane.sequence == sequence:
                    self._free.remove(lane)
                    try:
                        await lane.roll_back()
                    finally:
                        self._free.append(lane)

    async def renew(self, lane: Lane) -> None:
        """Give a lane a session, unless it has one. Raises CF_NOT_AVAILABLE (2345)."""
        if self._shut:
            raise MQError(MQRC.CF_NOT_AVAILABLE, self._shut)
        if lane.session is not None and not lane.session.is_closed():
            return
        lane.drop()
        cuts = self._cuts
        try:
            session = await self._connect(lane.number)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise unreachable(error) from error
        if cuts != self._cuts:  # it would tell the next life of the member that this is over
            session.terminate()
            raise MQError(MQRC.CF_NOT_AVAILABLE, self._shut or "the session was asked for in a life that is over")
        lane.session = session
