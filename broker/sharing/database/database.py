"""The transactions of one member in the database of its group.

Every writing transaction begins with the fence: this member, in this life of it, may still write (queue-sharing rule
10.3.1). One that the database gives up for others' sake (40001, 40P01), or whose session is lost before it was
committed, is made again as a whole; the caller restores what it has changed in memory first.

A session may be lost while a transaction is being committed, or while the server still works on it. Then another
session asks for its number: either it stands there, since it was committed, or the number is taken, so that it never
can be (`settle_turn` in the schema). Nothing is guessed, and nothing made twice (queue-sharing rule 10.2.6).
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import asyncpg

from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.database.connecting import Connector, GroupAddress
from broker.sharing.database.errors import (
    AGAIN,
    FENCED,
    LOST,
    MaybeMadeError,
    NotMadeError,
    OutcomeUnknownError,
    before_commit,
    mq_error_of,
    sqlstate_of,
)
from broker.sharing.database.flushes import Flushes
from broker.sharing.database.schema import released
from broker.sharing.database.sessions import RECOVERY, DatabaseSession, Lane, Lanes, SessionFigures
from broker.sharing.database.settings import settings_for
from broker.sharing.members.lease_times import LeaseTimes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

logger = logging.getLogger(__name__)

T = TypeVar("T")

ATTEMPTS: Final = 5
"""Of a transaction that others keep from being made."""

SETTLE_SECONDS: Final = 30.0
"""The time to find out the outcome of a transaction, before it is said to be unknown."""

_FIRST: Final = ("start", "administration")
"""The purposes of sessions before which there is none."""

_OVER: Final = "the queue manager has lost its queue-sharing group, and joined it again, meanwhile"
_PAUSE_SECONDS: Final = 0.1
_ANNOUNCE: Final = "SELECT announce_to_watchers($1, $2, depth_of($1) - $2)"

_ENTER: Final = "BEGIN; SELECT enter({:d})"
"""One round trip: a number of ours alone, the session knows the name."""

SETTLE: Final = "SELECT settle_turn($1, $2, $3)"
"""With the lane of a transaction, its queue and its number."""


def _nothing() -> None:
    """Nothing was changed in memory."""


class Database:
    """The database of a group, as one member works on it. `epoch` is that of the member's present life."""

    def __init__(self, group: GroupAddress, member: str) -> None:
        self.member = member
        self.figures = SessionFigures()
        self.over: Callable[[str], None] = lambda _: None
        """Called, with the reason, when the fence says that this life of the member is over."""
        self.sql = released()
        """Of this member's release."""
        self.epoch = 0
        self._group = group
        self._connector = Connector(group)
        self._times = LeaseTimes(group.lease)
        self._lanes = Lanes(partial(self.session, "calls"), self.figures)
        self._recovery = Lanes(partial(self.session, "calls"), self.figures, RECOVERY)
        self._flushes = Flushes(self.figures)

    @property
    def group_name(self) -> str:
        return self._group.name

    @property
    def schema(self) -> str:
        return self._group.schema

    def begin(self, epoch: int) -> None:
        """A life of the member begins: sessions say whose and of which life they are. There are none for calls yet."""
        self._lanes.shut("the queue manager has not recovered yet what it has left in its queue-sharing group")
        self._recovery.drop()
        self.epoch = epoch
        self._lanes.begin(epoch)
        self._recovery.begin(epoch)
        self._recovery.open()

    async def open(self) -> None:
        """Let calls have sessions: what earlier lives have left has come to its end."""
        await self._recovery.close()
        self._lanes.open()

    def shut(self, why: str) -> None:
        """The life is over, or not begun yet: all transactions end with CF_NOT_AVAILABLE (2345), `why`."""
        self._lanes.shut(why)
        self._recovery.shut(why)

    async def close(self) -> None:
        """End all sessions."""
        await self._recovery.close()
        await self._lanes.close()

    async def tidy(self) -> None:
        """End what commits have begun and nobody goes on with, for as long as this life of the member lasts."""
        await self._lanes.tidy(self._times.watch)

    async def session(self, purpose: str, lane: int = 0) -> DatabaseSession:
        """A session of one's own, to be closed by the caller; for calls on this lane."""
        name = f"{self._group.name}/{self.member}/{self.epoch}/{purpose}"
        own = {
            "search_path": self._group.schema,
            "evermq.member": self.member,
            "evermq.epoch": str(self.epoch),
            "evermq.version": str(self.sql.version),
        }
        settings = own | settings_for(purpose, lane, self._times)
        session = await self._connector.session(name, settings, first=purpose in _FIRST)
        session.figures = self.figures
        if purpose != "calls":
            return session
        session.add_log_listener(session.heard)
        try:
            risen, session.crashes = await session.fetchrow("SELECT risen, crashes FROM rise()")
        except BaseException:
            session.terminate()
            raise
        if risen:
            logger.warning(
                "the database has crashed: nonpersistent messages are gone, depths were counted again",
                extra={"event": "database_crashed"},
            )
        return session

    # Transactions

    def transact(
        self,
        work: Callable[[DatabaseSession], Awaitable[T]],
        restore: Callable[[], None] = _nothing,
        *,
        joining: bool = False,
    ) -> Coroutine[Any, Any, T]:
        """Do `work` in one transaction behind the fence, and commit it. `restore` takes back what it has changed in
        memory when it was not committed, for whatever reason. `joining`: there are no sessions for calls yet.

        Raises MQError: CF_NOT_AVAILABLE (2345), CF_STRUC_IN_USE (2346), and what `work` does; OutcomeUnknownError.
        """

        async def in_session(lane: Lane) -> T:
            return await work(lane.session)

        return self._transact(in_session, restore, joining=joining)

    def transact_in_hand(self, work: Callable[[Lane], Awaitable[T]]) -> Coroutine[Any, Any, T]:
        """As `transact_at_once`, but it is committed when its result is in hand: where the session is lost before,
        nothing has happened. Behind one with a result the next is likely to come: its commit begins that.
        """
        return self._transact(work, _nothing, in_hand=True)

    def _transact(
        self,
        work: Callable[[Lane], Awaitable[T]],
        restore: Callable[[], None],
        *,
        joining: bool = False,
        in_hand: bool = False,
    ) -> Coroutine[Any, Any, T]:

        async def in_transaction(lane: Lane) -> T:
            session = lane.session
            try:
                if not lane.chained:
                    await session.execute("BEGIN" if in_hand else _ENTER.format(lane.sequence))
                result = await work(lane)
            except Exception:
                await lane.roll_back()
                raise
            except BaseException:
                lane.drop()  # nobody waits for what the server makes of it
                raise
            try:
                await (lane.commit_and_wait(chain=bool(result)) if in_hand else session.execute("COMMIT"))
            except LOST as error:
                if lane.is_lost(error):
                    raise MaybeMadeError(result) from error
                raise
            except BaseException:
                lane.drop()
                raise
            return result

        return self._make(in_transaction, restore, self._recovery if joining else self._lanes, chained=in_hand)

    def transact_at_once(
        self, work: Callable[[Lane], Awaitable[T]], restore: Callable[[], None] = _nothing
    ) -> Coroutine[Any, Any, T | None]:
        """As `transact`, for work that is one statement, a transaction by itself in one round trip: its function
        fences, and counts on a queue with the number of the lane (`count_in` in the schema). `work` tells the lane
        which queue that is, and may tell that it has done nothing that is `lasting`. None where it was made, and its
        result lost with the session.

        Work that puts messages which have `arrived` commits them, and tells of them behind that: where this fails, it
        is asked whether they were put, and told again.
        """

        async def by_itself(lane: Lane) -> T | None:
            try:
                return await work(lane)
            except (asyncpg.PostgresError, *LOST) as error:
                lost = lane.is_lost(error)
                if lost or (lane.arrived and not before_commit(error)):
                    raise MaybeMadeError(None, None if lost else error) from error
                raise

        return self._make(by_itself, restore, self._lanes)

    async def _make(
        self, make: Callable[[Lane], Awaitable[T]], restore: Callable[[], None], lanes: Lanes, *, chained: bool = False
    ) -> T:
        self.figures.transactions += 1
        life = self.epoch
        try:
            async with lanes.lend(chained=chained) as lane:
                for attempt in range(1, ATTEMPTS + 1):
                    if self.epoch != life:
                        raise MQError(MQRC.CF_NOT_AVAILABLE, _OVER)
                    try:
                        return await self._attempt(lane, make)
                    except NotMadeError as error:
                        restore()
                        self.figures.retries += 1
                        logger.debug("transaction made again member=%s attempt=%d: %s", self.member, attempt, error)
                        await lane.renew()
        except OutcomeUnknownError:
            raise
        except BaseException:
            restore()
            raise
        raise _kept_away()

    async def _attempt(self, lane: Lane, make: Callable[[Lane], Awaitable[T]]) -> T:
        lane.sequence += 2
        lane.lasting, lane.q_name, lane.arrived = True, "", 0
        try:
            result = await make(lane)
        except MaybeMadeError as maybe:
            if not await self._was_made(lane, maybe.result):
                if maybe.error is not None:
                    raise self._reported(maybe.error) from maybe.error
                raise NotMadeError("the session was lost") from maybe
            result = maybe.result
        except (asyncpg.PostgresError, *LOST) as error:
            if sqlstate_of(error) in AGAIN or lane.is_lost(error):
                raise NotMadeError(str(error)) from error
            raise self._reported(error) from error
        if lane.lasting:
            await self._make_durable(lane)
        return result

    async def _make_durable(self, lane: Lane) -> None:
        """Wait until the transaction that a lane has committed outlives a crash of the database."""
        for _ in range(ATTEMPTS):
            try:
                await self._flushes.flush(lane)
            except (asyncpg.PostgresError, *LOST) as error:
                if not await self._was_made(lane):
                    raise NotMadeError("the database has crashed") from error
            else:
                return
        raise OutcomeUnknownError("the database does not say whether the transaction is durable")

    def _reported(self, error: BaseException) -> MQError:
        """Return the error as a program is told it; end this life if the error says that it is over."""
        if sqlstate_of(error) == FENCED:
            self.over("a peer has taken over")
        return error if isinstance(error, MQError) else mq_error_of(error)

    async def _was_made(self, lane: Lane, result: Any = None) -> bool:
        """True if the last transaction of a lane, whose session is lost, was made. If it was not made it never will be:
        its server may be at it still. Raises OutcomeUnknownError.
        """
        self.figures.unknown += 1
        life = self.epoch
        transaction = lane.number, lane.q_name, lane.sequence
        lane.drop()
        until = anyio.current_time() + SETTLE_SECONDS
        while True:
            if self.epoch != life or lane.why_shut:  # and with it goes all that is known of its transactions
                raise OutcomeUnknownError(lane.why_shut or _OVER)
            try:
                await lane.renew()
                made = await lane.session.fetchval(SETTLE, *transaction)
                if made and lane.arrived:  # nobody may have been told
                    await lane.session.execute(_ANNOUNCE, lane.q_name, lane.arrived)
            except (MQError, asyncpg.PostgresError, *LOST) as error:
                lane.drop()
                if sqlstate_of(error) == FENCED or anyio.current_time() > until:
                    raise OutcomeUnknownError("the database cannot be reached", transaction, result) from error
                await anyio.sleep(_PAUSE_SECONDS)
            else:
                return bool(made)

    async def repeat(self, query: str, *arguments: Any) -> list[Any]:
        """Call a function of the schema that fences, is a transaction by itself, and may be called again after it has
        been committed, where the session was lost. Its rows.

        Raises MQError: CF_NOT_AVAILABLE (2345), CF_STRUC_IN_USE (2346).
        """
        return list(await self._again(lambda session: session.fetch(query, *arguments), lasting=True))

    async def decide(self, query: str, *arguments: Any) -> Any:
        """As `repeat`, for what must not be said to have failed where it may have been made: it is asked again for a
        while. Its row, which says whether it has `waited` for the disk. Raises OutcomeUnknownError too.
        """
        self.figures.transactions += 1
        life, attempts, until = self.epoch, ATTEMPTS, 0.0
        async with self._lanes.lend() as lane:
            while attempts:
                try:
                    if self.epoch != life:
                        raise MQError(MQRC.CF_NOT_AVAILABLE, _OVER)
                    await lane.renew()
                    found = await lane.session.fetchrow(query, *arguments)
                    if not found["waited"] or lane.session.unreplicated:
                        await self._flushes.flush(lane)
                    return found
                except (MQError, asyncpg.PostgresError, *LOST) as error:
                    if sqlstate_of(error) in AGAIN:
                        attempts -= 1
                        self.figures.retries += 1
                        continue
                    away = isinstance(error, MQError) or lane.is_lost(error)
                    if not until and (isinstance(error, MQError) or not away):
                        raise self._reported(error) from error
                    if not until:
                        self.figures.unknown += 1
                        until = anyio.current_time() + SETTLE_SECONDS
                    elif not away or self.epoch != life or anyio.current_time() > until:
                        raise OutcomeUnknownError(f"the database cannot be asked: {error}") from error
                    self.figures.retries += 1
                    if isinstance(error, MQError):
                        await anyio.sleep(_PAUSE_SECONDS)
        raise _kept_away()

    async def look_again(self, work: Callable[[DatabaseSession], Awaitable[T]]) -> T:
        """Do `work`, which changes nothing; where the session is lost, with another. Raises what `repeat` does."""
        return await self._again(work, lasting=False)

    async def _again(self, work: Callable[[DatabaseSession], Awaitable[T]], *, lasting: bool) -> T:
        life = self.epoch
        async with self._lanes.lend() as lane:
            for _ in range(ATTEMPTS):
                if self.epoch != life:  # what `work` says of itself is of a life that is over
                    raise MQError(MQRC.CF_NOT_AVAILABLE, _OVER)
                try:
                    found = await work(lane.session)
                    if lasting:
                        await self._flushes.flush(lane)
                    return found
                except (asyncpg.PostgresError, *LOST) as error:
                    if sqlstate_of(error) not in AGAIN and not lane.is_lost(error):
                        raise self._reported(error) from error
                    self.figures.retries += 1
                    await lane.renew()
        raise _kept_away()

    @asynccontextmanager
    async def look(self) -> AsyncIterator[DatabaseSession]:
        """A session for what changes nothing."""
        async with self._lanes.lend() as lane:
            try:
                yield lane.session
            except (asyncpg.PostgresError, *LOST) as error:
                lane.is_lost(error)
                raise mq_error_of(error) from error


def _kept_away() -> MQError:
    return MQError(MQRC.CF_STRUC_IN_USE, f"others have kept this call from being made {ATTEMPTS} times: make it again")
