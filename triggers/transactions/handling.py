"""One delivery under a handler that has a database: BEGIN before the handler, and both are committed, or neither.

1. What the handler raises, a timeout and a stop roll back first, and are settled then as for any other handler.
2. The timeout ends when PREPARE is sent. From there nothing cancels the attempt, and its outcome is the database's.
3. A COMMIT that hangs keeps its place, and is named once a minute. A stop leaves it to a resolver.
4. The queue manager is told of a commit, with what else is decided in that turn of the loop, when the place is free.
5. A database that is away charges nobody: the message comes later.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from broker.mqi import MQRC, Became, Failure, MQError, Outcome, Settled, Settlement
from broker.transactions import (
    SHARED_UNIT,
    CommitRefusedError,
    DatabaseAwayError,
    Decision,
    PreparedDelivery,
    TransactionStep,
    driven,
    end_prepared,
    finished,
)
from triggers.app.unawaited import attempt
from triggers.app.verdicts import BatchError
from triggers.serving.run import DONE, OVERDUE_INTERVAL, QueueServer, Run, current
from triggers.transactions.ends import RunEnds, commit_and_release
from triggers.transactions.own_thread import OwnThread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from broker import Connection, Delivered
    from broker.mqi import Returned
    from broker.transactions import Coordinator
    from triggers.serving.run import Cancellable
    from triggers.transactions.handler_database import HandlerDatabase

logger = logging.getLogger(__name__)

_HELD: Final = (MQRC.OBJECT_IN_USE, MQRC.SYNCPOINT_LIMIT_REACHED, MQRC.OPTION_NOT_VALID_FOR_TYPE)
"""The reasons of a PREPARE that is refused, and leaves the delivery in the hands of its worker."""

LIMIT_WAIT: Final = 5.0
"""Seconds until a message comes again for which there is no room among the units in doubt."""

CLEAN_UP: Final = 5.0
"""Seconds for which a settlement waits for its ROLLBACK, and a stop for a COMMIT that hangs."""


class TransactionServer(QueueServer, Protocol):
    """The server of a queue whose handler has a database."""

    database: HandlerDatabase | None
    runs: set[Run]

    def reported(self, run: Run, settlement: Settlement, settled: Settled | None) -> None: ...


class TransactionRun(Run):
    """A delivery that was taken, and the task of its handler, with a transaction of the program's database."""

    __slots__ = (
        "_committing", "_connects", "_coordinator", "_database", "_hanging", "_held", "_returned", "_sending",
        "_sent", "_thread", "_transaction", "unit",
    )  # fmt: skip

    def __init__(self, server: QueueServer, delivered: Delivered) -> None:
        super().__init__(server, delivered)
        database = cast("TransactionServer", server).database
        assert database is not None
        self.unit = b""
        self._database = database
        self._coordinator: Coordinator = database.coordinator
        self._connects = False  # it has asked for its connection
        self._transaction: Any = None
        self._thread: OwnThread | None = None
        self._held: Settlement | None = None  # until the transaction is rolled back
        self._returned: Returned | None = None  # for the history of the queue
        self._sending: Cancellable | None = None
        self._committing = False
        self._hanging: Cancellable | None = None
        self._sent = 0.0

    @property
    def database_connection(self) -> Any:
        """The connection to the database, or the session, in whose transaction the handler is."""
        return self._transaction.connection

    @property
    def label(self) -> str:
        """The database, for people."""
        return self._coordinator.label

    @property
    def _is_decided(self) -> bool:
        """True if its outcome has been decided meanwhile: by its timeout, or a stop."""
        return self.decided is not None

    # Its life

    async def live(self) -> None:
        """The task: begin, call the handler, and end both as it has."""
        server = self.server
        try:
            if self.decided is not None:  # stopped before it began
                return
            self.begun = True
            current.set(self)
            attempt.set(self)
            self._connect_ahead()
            if not await self._begin():
                return
            self.began = server.clock.monotonic()
            timeout = server.handler.timeout
            if timeout is not None:
                self._timer = server.clock.call_later(timeout, self._time_out)
            failed = await self._handled()
            self._database.connects = self._connects
            if self._is_decided:
                return
            if len(failed) < len(self.messages):
                await self._commit(failed)
            else:
                self._decide(DONE, failed=failed)
        except BaseException as error:
            self._raised(error)
        finally:
            self._coordinator.open.discard(self)
            if self._connection is None:
                server.forget_ahead(self.delivered)
            try:
                if self._transaction is not None or self._thread is not None:
                    await finished(self._release())
            finally:
                self._send()
                if self._overdue is not None:
                    self._overdue.cancel()
                server.ended(self)

    async def _handled(self) -> tuple[tuple[int, Failure], ...]:
        """Call the handler, and put what it returns as a reply. Return the messages of a batch that have failed."""
        server = self.server
        try:
            value = await (self._call() if server.around is None else server.around(self, self._call()))
            if value is not None and self.decided is None:
                await server.reply(self, value)
                if server.handler.options.history:
                    self._returned = server.returned(self, value)
            del value  # it may be what it should have awaited
            if self.forgotten is not None:
                raise self.forgotten
        except BatchError as error:
            if not self._in_range(error):
                raise
            if self.decided is None:
                self.error = error
            return self._failed_ones(error)
        return self._unread_ones()

    def hurry(self) -> None:
        """The worker stops, and COMMIT is not answered: a resolver is to find out what has become of it."""
        if self._committing and self.task is not None:
            self.server.clock.call_later(CLEAN_UP, self.task.cancel)

    def _connect_ahead(self) -> None:
        """Have the connection of the delivery made while its transaction begins, where the delivery before has used its
        own: others may wait for what this transaction locks.
        """
        if self._database.connects:
            self.server.connect_ahead(self.delivered)

    async def connected(self) -> Connection:
        """As that of `Run`. It is noted that it is used."""
        self._connects = True
        return await super().connected()

    # The transaction

    async def _begin(self) -> bool:
        """Begin a transaction. False: the database is away, and the message comes later."""
        transaction = self._transaction = self._coordinator.opened.transaction()
        if self.server.handler.threaded:
            self._thread = OwnThread(self.server.limiter)
        self._database.beginning += 1
        try:
            await self._there(transaction.begin)
        except DatabaseAwayError as error:
            self._transaction = None
            if self.decided is None:
                self.error = error
                failure = Failure(type(error).__name__, f"database {self.label}: {error}")
                self._decide(Outcome.LATER.value, seconds=self._database.away(error), failure=failure)
            return False
        finally:
            self._database.beginning -= 1
        self._database.is_there()
        self._coordinator.open.add(self, f"handler {self.server.handler.name}")
        await self.reached(TransactionStep.BEGIN)
        return self.decided is None

    async def _commit(self, failed: tuple[tuple[int, Failure], ...]) -> None:
        """Write the marker, prepare the unit, commit, and decide."""
        await self.reached(TransactionStep.WORK)
        self.unit = secrets.token_bytes(16)
        await self._there(partial(self._transaction.mark, self.unit, self._database.q_mgr))
        await self.reached(TransactionStep.MARK)
        if self._is_decided:
            return
        self._disarm()
        done = Settlement(self.delivered.id, DONE, ran=self._ran(), failed=failed)
        self.decided = done if self._returned is None else done._replace(value=self._returned)
        self._end_calls()
        self._committing = True
        self._database.committing.add(self)
        self._look_whether_it_hangs()
        try:
            await end_prepared(RunEnds(self), self)
        except CommitRefusedError:
            pass  # decided, with what it charges
        except MQError as error:
            self._refused(error)
        except BaseException as error:  # the event loop ends, or a step of a test
            self.error = self.error or error
            self._report(None)
            raise
        finally:
            self._committing = False
            self._database.committing.discard(self)
            if self._hanging is not None:
                self._hanging.cancel()

    def _refused(self, error: MQError) -> None:
        """PREPARE was refused or not answered, or COMMIT is not answered in time; the program's part is rolled back, or
        in a resolver's hands.
        """
        self.error = error
        if error.reason in _HELD:
            self.unit = b""
            again = error.reason == MQRC.SYNCPOINT_LIMIT_REACHED
            later = partial(Settlement, self.delivered.id, Outcome.LATER.value, ran=self._ran())
            self._settle(later(seconds=LIMIT_WAIT) if again else self._judged(error))
            return
        if error.reason == MQRC.OUTCOME_PENDING:
            logger.warning("%s: handler=%s", error, self.server.handler.name, extra={"event": "unit_in_doubt"})
        self._report(None)

    async def _release(self) -> None:
        """Roll back what is open, and give the connection back."""
        thread, self._thread = self._thread, None
        transaction, self._transaction = self._transaction, None
        if thread is None:
            if transaction is not None:
                await transaction.release()
            return
        if transaction is None:
            await thread.end()
            return
        thread.run(lambda: driven(transaction.release()))
        await thread.end()

    def _settle(self, settlement: Settlement) -> None:
        """The outcome is decided, and sent when the transaction is rolled back, or cannot be in time."""
        self._disarm()
        self.decided = settlement
        self._end_calls()
        self._held = settlement
        if self._transaction is None:
            self._send()
        else:
            self._sending = self.server.clock.call_later(CLEAN_UP, self._send)

    def _send(self) -> None:
        held, self._held = self._held, None
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None
        if held is not None:
            self.server.settle(self, held)

    # The queue manager's side (`broker.transactions.Side`)

    async def prepare(self) -> None:
        """Prepare the unit of the delivery. Raises MQError."""
        assert self.decided is not None
        reason = await self._database.prepare(PreparedDelivery(self.unit, self.decided))
        if reason:
            why = SHARED_UNIT if reason == MQRC.OPTION_NOT_VALID_FOR_TYPE else "it is not prepared"
            raise MQError(reason, f"the unit of work of this delivery of {self.server.handler.q_name}: {why}")

    async def ask(self) -> bool | None:
        """Ask for the outcome of a COMMIT that was not answered."""
        return await self._coordinator.ask(self.unit, self._database.q_mgr, self._sent)

    async def decide(self, *, committed: bool | None, error: BaseException | None = None) -> None:
        """Tell the queue manager, and do not wait for its answer: the place is free."""
        settlement = None
        if isinstance(error, CommitRefusedError):
            self.error = error
            settlement = self._judged(error)
        elif committed is False:
            self.error = error
        answered = self._database.decide(Decision(self.unit, committed, settlement), self)
        if committed:
            answered.add_done_callback(lambda _: self._report(Settled(self.delivered.id, Became.GONE)))
        elif settlement is not None:
            became = self._charged(settlement)
            answered.add_done_callback(lambda _: self._report(Settled(self.delivered.id, became), settlement))
        elif committed is False and not isinstance(error, MQError):
            answered.add_done_callback(lambda _: self._report(Settled(self.delivered.id, Became.RETURNED)))

    def _charged(self, settlement: Settlement) -> Became:
        """Return what becomes of the messages of an attempt that the database has refused."""
        limit = self.delivered.limit
        if settlement.outcome != Outcome.FAILED or 0 < limit <= self.delivered.attempt:
            return Became.DEAD
        return Became.DELAYED

    def _report(self, settled: Settled | None, settlement: Settlement | None = None) -> None:
        """Say what has become of the delivery; once."""
        if self.unit:
            self.unit = b""
            reported = settlement or self.decided
            assert reported is not None
            cast("TransactionServer", self.server).reported(self, reported, settled)

    async def reached(self, step: TransactionStep) -> None:
        """A step has been made, for a test that looks."""
        if self._coordinator.reached is not None:
            await self._coordinator.reached(step)

    # Where the transaction is

    async def commit_there(self) -> None:
        """Send COMMIT, and wait for its answer for as long as it takes."""
        self._sent = self.server.clock.monotonic()
        if self._thread is None:
            await self._transaction.commit()
            return
        transaction, thread = self._transaction, self._thread
        committing = thread.run(lambda: driven(commit_and_release(transaction)))
        try:
            await committing
            self._transaction = None
        except asyncio.CancelledError:  # the thread goes on, and ends by itself
            thread.run(lambda: driven(transaction.release()))
            thread.leave()
            self._thread = self._transaction = None
            raise

    async def release_there(self) -> None:
        """Give the connection to the database back."""
        self._coordinator.open.discard(self)
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            await self._there(transaction.release)

    async def roll_back_there(self) -> None:
        """Roll back."""
        if self._transaction is not None:
            await self._there(self._transaction.rollback)

    async def _there(self, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Make a step of the transaction: here, or in its thread, where nobody can cancel it."""
        if self._thread is None:
            await step()
        else:
            _, cancelled = await self._outlasted(self._thread.run(lambda: driven(step())))
            if cancelled is not None:
                raise cancelled

    def _begin_thread(self, call: Callable[[], Any]) -> asyncio.Future[Any]:
        assert self._thread is not None
        return self._thread.run(call)

    def _look_whether_it_hangs(self) -> None:
        self._hanging = self.server.clock.call_later(OVERDUE_INTERVAL, self._hangs)

    def _hangs(self) -> None:
        if self._committing:
            logger.warning(
                "the database has not answered COMMIT: handler=%s queue=%s database=%s since_s=%.0f",
                self.server.handler.name, self.server.handler.q_name, self.label,
                self.server.clock.monotonic() - self._sent, extra={"event": "commit_hangs"},
            )  # fmt: skip
            self._look_whether_it_hangs()
