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
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import anyio
import anyio.to_thread
import asyncpg
from asyncpg.exceptions import ClientConfigurationError

from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.secret_files import SecretFileError, read_secret
from broker.sharing.database.errors import AGAIN, FENCED, LOST, OutcomeUnknownError, mq_error_of, sqlstate_of
from broker.sharing.database.flushes import Flushes
from broker.sharing.database.schema import released
from broker.sharing.database.sessions import CONNECT_SECONDS, RECOVERY, DatabaseSession, Lane, Lanes, SessionFigures
from broker.sharing.members.lease_times import LeaseTimes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
    from pathlib import Path

logger = logging.getLogger(__name__)

T = TypeVar("T")

ATTEMPTS: Final = 5
"""Of a transaction that others keep from being made."""

SETTLE_SECONDS: Final = 30.0
"""The time to find out the outcome of a transaction, before it is said to be unknown."""

_OVER: Final = "the queue manager has lost its queue-sharing group, and joined it again, meanwhile"
_PAUSE_SECONDS: Final = 0.1
_UNREADABLE: Final = (
    "the dsn cannot be read: characters of a user or a password that have a meaning in URLs are written as %40 and so "
    "on; better have the password in dsn_password_file"
)


class _MaybeMadeError(Exception):
    """The session was lost while the transaction was being committed. `result` is what it leads to if it was."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result


class _NotMadeError(Exception):
    """The transaction was not made, for no fault of its own."""


class GroupAddress(Protocol):
    """Where the database of a group is, and how long a lease lasts there (`QueueSharingGroup`)."""

    @property
    def name(self) -> str: ...

    @property
    def dsn(self) -> str: ...

    @property
    def schema(self) -> str: ...

    @property
    def lease(self) -> float: ...

    @property
    def dsn_password_file(self) -> Path | None: ...


class Database:
    """The database of a group, as one member works on it. `epoch` is that of the member's present life."""

    def __init__(self, group: GroupAddress, member: str) -> None:
        self.member = member
        self.figures = SessionFigures()
        self.over: Callable[[str], None] = _not_reported
        """Called, with the reason, when the fence says that this life of the member is over."""
        self.sql = released()
        """Of this member's release."""
        self.epoch = 0
        self._warned_of = {""}  # peers, "" among them
        self._group = group
        self._times = LeaseTimes(group.lease)
        self._lanes = Lanes(lambda: self.session("calls"), self.figures)
        self._recovery = Lanes(lambda: self.session("calls"), self.figures, RECOVERY)
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

    async def session(self, purpose: str) -> DatabaseSession:
        """A session of one's own, to be closed by the caller."""
        session = await self._connected(self._settings(purpose))
        session.figures = self.figures
        if purpose != "calls":
            return session
        session.add_log_listener(session.heard)
        risen, session.crashes = await session.fetchrow("SELECT risen, crashes FROM rise()")
        if risen:
            logger.warning(
                "the database has crashed: nonpersistent messages are gone, depths were counted again",
                extra={"event": "database_crashed"},
            )
        return session

    async def _connected(self, settings: dict[str, str]) -> DatabaseSession:
        """Raises what LOST has, also for a dsn or a file of its password that is of no use."""
        file = self._group.dsn_password_file
        try:
            password = None if file is None else await anyio.to_thread.run_sync(read_secret, file)
            session = await asyncpg.connect(
                self._group.dsn,
                password=None if password is None else password.decode("utf-8", "surrogateescape"),
                timeout=CONNECT_SECONDS,
                server_settings=settings,
                connection_class=DatabaseSession,
            )
        except (asyncpg.InterfaceError, OSError):  # some of both are a ValueError
            raise
        except SecretFileError as error:
            raise ClientConfigurationError(f"dsn_password_file: {error}") from None
        except ValueError:  # whose text may have a part of a password
            raise ClientConfigurationError(_UNREADABLE) from None
        assert isinstance(session, DatabaseSession)
        if (peer := session.peer_in_the_clear) not in self._warned_of:
            self._warned_of.add(peer)
            logger.warning(
                "database_without_tls peer=%s: the password of the database, and messages, can be read on the way: "
                "add sslmode=verify-full to the dsn",
                peer,
                extra={"event": "database_without_tls", "peer": peer},
            )
        return session

    def _settings(self, purpose: str) -> dict[str, str]:
        """`application_name` tells peers whose sessions these are, to end those of a life that is over. Nothing of a
        call takes longer than the lease, so that a takeover waits for nobody.
        """
        settings = {
            "search_path": self._group.schema,
            "application_name": f"{self._group.name}/{self.member}/{self.epoch}/{purpose}",
            "evermq.member": self.member,
            "evermq.epoch": str(self.epoch),
            "evermq.version": str(self.sql.version),
            "synchronous_commit": "off" if purpose == "calls" else "on",  # of calls `Flushes` makes it durable
            "jit": "off",
            "idle_in_transaction_session_timeout": _milliseconds(self._times.idle),
            "tcp_user_timeout": _milliseconds(self._times.idle),
        }
        if purpose == "calls":
            settings["statement_timeout"] = settings["lock_timeout"] = _milliseconds(self._times.statement)
        return settings

    # Transactions

    def transact(
        self, work: Callable[[DatabaseSession], Awaitable[T]], restore: Callable[[], None], *, joining: bool = False
    ) -> Coroutine[Any, Any, T]:
        """Do `work` in one transaction behind the fence, and commit it. `restore` takes back what it has changed in
        memory when it was not committed, for whatever reason. `joining`: there are no sessions for calls yet.

        Raises MQError: CF_NOT_AVAILABLE (2345), CF_STRUC_IN_USE (2346), and what `work` does; OutcomeUnknownError.
        """

        async def in_transaction(lane: Lane) -> T:
            session = lane.session
            try:
                # one round trip: numbers of ours alone, the session knows the name
                await session.execute(f"BEGIN; SELECT enter({lane.number:d}, {lane.sequence:d})")
                result = await work(session)
            except Exception:
                await _roll_back(lane)
                raise
            except BaseException:
                lane.drop()  # nobody waits for what the server makes of it
                raise
            try:
                await session.execute("COMMIT")
            except LOST as error:
                if _is_lost(lane, error):
                    raise _MaybeMadeError(result) from error
                raise
            except BaseException:
                lane.drop()
                raise
            return result

        return self._make(in_transaction, restore, self._recovery if joining else self._lanes)

    def transact_at_once(
        self, work: Callable[[Lane], Awaitable[T]], restore: Callable[[], None]
    ) -> Coroutine[Any, Any, T | None]:
        """As `transact`, for work that is one statement, whose function enters with the number of the lane (`enter` in
        the schema): a transaction by itself, in one round trip. It may say of its lane that it has done nothing that is
        `lasting`. None where it was made, and its result lost with the session.
        """

        async def by_itself(lane: Lane) -> T | None:
            try:
                return await work(lane)
            except LOST as error:
                if _is_lost(lane, error):
                    raise _MaybeMadeError(None) from error
                raise

        return self._make(by_itself, restore, self._lanes)

    async def _make(self, make: Callable[[Lane], Awaitable[T]], restore: Callable[[], None], lanes: Lanes) -> T:
        self.figures.transactions += 1
        life = self.epoch
        try:
            async with lanes.lend() as lane:
                for attempt in range(1, ATTEMPTS + 1):
                    if self.epoch != life:
                        raise MQError(MQRC.CF_NOT_AVAILABLE, _OVER)
                    try:
                        return await self._attempt(lane, make)
                    except _NotMadeError as error:
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
        lane.lasting = True
        try:
            result = await make(lane)
        except _MaybeMadeError as lost:
            if not await self._was_made(lane):
                raise _NotMadeError("the session was lost") from lost
            result = lost.result
        except (asyncpg.PostgresError, *LOST) as error:
            if sqlstate_of(error) in AGAIN or _is_lost(lane, error):
                raise _NotMadeError(str(error)) from error
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
                    raise _NotMadeError("the database has crashed") from error
            else:
                return
        raise OutcomeUnknownError("the database does not say whether the transaction is durable")

    def _reported(self, error: BaseException) -> MQError:
        """Return the error as a program is told it; end this life if the error says that it is over."""
        if sqlstate_of(error) == FENCED:
            self.over("a peer has taken over")
        return mq_error_of(error)

    async def _was_made(self, lane: Lane) -> bool:
        """True if the last transaction of a lane, whose session is lost, was made. If it was not made it never will be:
        its server may be at it still. Raises OutcomeUnknownError.
        """
        self.figures.unknown += 1
        life = self.epoch
        lane.drop()
        until = anyio.current_time() + SETTLE_SECONDS
        while True:
            if self.epoch != life or lane.why_shut:  # and with it goes all that is known of its transactions
                raise OutcomeUnknownError(lane.why_shut or _OVER)
            try:
                await lane.renew()
                made = await lane.session.fetchval("SELECT settle_turn($1, $2)", lane.number, lane.sequence)
            except (MQError, asyncpg.PostgresError, *LOST) as error:
                lane.drop()
                if sqlstate_of(error) == FENCED or anyio.current_time() > until:
                    raise OutcomeUnknownError("the database cannot be reached", (lane.number, lane.sequence)) from error
                await anyio.sleep(_PAUSE_SECONDS)
            else:
                return bool(made)

    async def repeat(self, query: str, *arguments: Any) -> list[Any]:
        """Call a function of the schema that fences, is a transaction by itself, and may be called again after it has
        been committed, where the session was lost. Its rows.

        Raises MQError: CF_NOT_AVAILABLE (2345), CF_STRUC_IN_USE (2346).
        """
        return list(await self._again(lambda session: session.fetch(query, *arguments), lasting=True))

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
                    if sqlstate_of(error) not in AGAIN and not _is_lost(lane, error):
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
                _is_lost(lane, error)
                raise mq_error_of(error) from error


async def _roll_back(lane: Lane) -> None:
    """End a transaction that is not to be committed; where that cannot be, its session with it."""
    try:
        if lane.session is not None and not lane.session.is_closed():
            await lane.session.execute("ROLLBACK")
    except (asyncpg.PostgresError, *LOST):
        lane.drop()


def _is_lost(lane: Lane, error: BaseException) -> bool:
    """True if the session of a lane has ended with this error: then it is of no use, whether it is closed already or
    not.
    """
    if isinstance(error, (asyncpg.QueryCanceledError, asyncpg.InterfaceError)):
        return lane.session is None or bool(lane.session.is_closed())
    if isinstance(error, LOST):
        lane.drop()
        return True
    return False


def _kept_away() -> MQError:
    return MQError(MQRC.CF_STRUC_IN_USE, f"others have kept this call from being made {ATTEMPTS} times: make it again")


def _milliseconds(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"


def _not_reported(why: str) -> None:
    """Nobody asks."""
