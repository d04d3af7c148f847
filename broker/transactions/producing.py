"""The transaction of a producer: the program's own database, and a unit of work of a connection of its own.

It suspends on the event loop, or blocks in a thread (`blocking`): then its database's calls are made there, and what is
the queue manager's is run on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING, Any, TypeVar

from broker.databases.errors import OutcomeUnknownError
from broker.mqi.errors import MQError
from broker.mqi.external_units import Decision
from broker.transactions.commit import end_prepared, finished
from broker.transactions.steps import TransactionStep
from broker.transactions.time_limit import limited

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from broker.transactions.coordinator import Coordinator
    from broker.transactions.unit_port import TransactionConnection

T = TypeVar("T")

logger = logging.getLogger(__name__)


class ProducerTransaction:
    """A transaction, from `begin` to `commit` or `rollback`. `connect` makes the connection of its unit, when it is
    first asked for; `give_back` is called with it at the end, where it is as good as new. `by` is the program, for
    people.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        connect: Callable[[], Awaitable[TransactionConnection]],
        give_back: Callable[[TransactionConnection], None] | None = None,
        given: Any = None,
        *,
        by: str,
    ) -> None:
        self.unit = b""
        self._by = by
        self._coordinator = coordinator
        self._connect = connect
        self._give_back = give_back
        self._transaction = coordinator.opened.transaction(given)
        self._mq: TransactionConnection | None = None
        self._connecting: asyncio.Lock | None = None
        self._sent = 0.0
        self.ended = False
        self.blocking: Callable[[Coroutine[Any, Any, Any]], Any] | None = None
        """In a thread: runs a coroutine on the event loop, and waits for what it returns."""

    @property
    def connection(self) -> Any:
        """The connection to the database, or the session, of the transaction."""
        return self._transaction.connection

    @property
    def label(self) -> str:
        return self._coordinator.label

    # On the event loop

    async def mq(self) -> TransactionConnection:
        """The connection whose unit is that of the transaction. Raises MQError."""
        if self._mq is None:
            if self._connecting is None:
                self._connecting = asyncio.Lock()
            async with self._connecting:
                if self._mq is None:
                    self._mq = await self._connect()
        return self._mq

    # Where the transaction is

    async def begin(self) -> None:
        """Begin. Raises DatabaseAwayError, RuntimeError."""
        await self._transaction.begin()
        self._coordinator.open.add(self, self._by)
        try:
            await self.reached(TransactionStep.BEGIN)
        except BaseException:
            await self.let_go()
            raise

    async def commit(self) -> None:
        """Commit both, and return when the messages are there. Raises MQError, CommitRefusedError, with nothing done;
        OUTCOME_PENDING (2124). Cancelled behind the marker it goes on to its end.
        """
        try:
            await self.reached(TransactionStep.WORK)
            self.ended = True
            if self._mq is None or not self._mq.works:
                await self._transaction.commit()
                return
            self.unit = secrets.token_bytes(16)
            await self._transaction.mark(self.unit, self._mq.q_mgr_instance)
            await self.reached(TransactionStep.MARK)
            ending = end_prepared(_Patient(self), self)
            await (ending if self.blocking is not None else finished(ending))
        finally:
            self.ended = True
            await self._end()

    async def rollback(self) -> None:
        """Roll back both. It never fails."""
        self.ended = True
        await self._end()

    async def _end(self) -> None:
        if self.blocking is not None:
            await self.let_go()
            await self._across(self._end_unit())
        else:
            await finished(self._end_both())

    async def _end_both(self) -> None:
        await self.let_go()
        await self._end_unit()

    async def _end_unit(self) -> None:
        """Back out what is in the unit, unless it is prepared, and give its connection back."""
        mq, self._mq = self._mq, None
        if mq is None:
            return
        try:
            if mq.works:
                await mq.back_out()
            if self._give_back is not None:
                self._give_back(mq)
            else:
                await mq.end()
        except MQError as error:
            logger.debug("unit ended with its connection: %s", error)

    async def commit_patiently(self) -> None:
        """Send COMMIT, and wait for its answer: in a thread for as long as the driver does."""
        transaction, coordinator = self._transaction, self._coordinator
        self._sent = coordinator.clock.monotonic()
        if self.blocking is not None:
            await transaction.commit()
            return
        wait = coordinator.database.outcome_wait
        committing = await limited(coordinator.clock, wait, transaction.commit(), "commit")
        if committing.cancelled():
            raise OutcomeUnknownError("COMMIT was not answered in time")
        committing.result()

    async def undo(self) -> None:
        """Roll the program's transaction back."""
        await self._transaction.rollback()

    async def let_go(self) -> None:
        """Give the connection to the database back."""
        await self._transaction.release()
        self._coordinator.open.discard(self)

    # The queue manager's side (`Side`)

    async def prepare(self) -> None:
        assert self._mq is not None
        await self._across(self._mq.prepare(self.unit, self._coordinator.opened.id, self._coordinator.name))

    async def ask(self) -> bool | None:
        assert self._mq is not None
        return await self._across(self._coordinator.ask(self.unit, self._mq.q_mgr_instance, self._sent))

    async def decide(self, *, committed: bool | None, error: BaseException | None = None) -> None:
        await self._across(self._decide(committed))

    async def _decide(self, committed: bool | None) -> None:
        assert self._mq is not None
        await self._coordinator.decide(self._mq, Decision(self.unit, committed))

    async def reached(self, step: TransactionStep) -> None:
        if self._coordinator.reached is not None:
            await self._across(_reached(self._coordinator, step))

    async def _across(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self.blocking is None:
            return await coroutine
        result: T = self.blocking(coroutine)
        return result


class _Patient:
    """The program's transaction, for its end."""

    def __init__(self, of: ProducerTransaction) -> None:
        self._of = of

    async def commit(self) -> None:
        await self._of.commit_patiently()

    async def rollback(self) -> None:
        await self._of.undo()

    async def release(self) -> None:
        await self._of.let_go()


async def _reached(coordinator: Coordinator, step: TransactionStep) -> None:
    if coordinator.reached is not None:
        await coordinator.reached(step)
