"""The commit of a transaction that is half the program's database's, half the queue manager's.

1. The marker is written before the unit is prepared. So the row of a unit that is found prepared stands in a
   transaction that is open or has ended, never in one that has still to write it.
2. COMMIT is sent when PREPARE is answered. Without an answer the program's transaction is rolled back, and only then is
   the unit, which may be prepared all the same, decided to be backed out.
3. The queue manager is told "commit" when the database has answered COMMIT, never before.
4. A COMMIT without an answer has neither been done nor failed: the marker is asked for on another session, as by a
   resolver. COMMIT is never sent again.

The steps are coroutines of whatever suspends, or of what never does, in the thread of a threaded database (`driven`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from broker.databases.errors import CommitRefusedError, OutcomeUnknownError
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.transactions.asking import pending
from broker.transactions.steps import TransactionStep

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

_UNANSWERED: Final = frozenset(
    {MQRC.CONNECTION_BROKEN, MQRC.HCONN_ERROR, MQRC.Q_MGR_NOT_AVAILABLE, MQRC.Q_MGR_STOPPING}
)
"""The reasons of a PREPARE that may have been done all the same."""


class Ends(Protocol):
    """The program's transaction, as its end needs it: `broker.databases` has one."""

    async def commit(self) -> None: ...
    async def rollback(self) -> None: ...
    async def release(self) -> None: ...


class Side(Protocol):
    """The queue manager's side of one transaction. `label` is the database, for people."""

    unit: bytes

    @property
    def label(self) -> str: ...

    async def prepare(self) -> None:
        """Prepare the unit, durably. Raises MQError."""

    async def ask(self) -> bool | None:
        """Ask the database for the outcome, on another session. None: there is no word in time."""

    async def decide(self, *, committed: bool | None, error: BaseException | None = None) -> None:
        """Tell the queue manager how the unit ends; None: a resolver is to find out. `error` is why it is no commit."""

    async def reached(self, step: TransactionStep) -> None:
        """A step has been made."""


async def end_prepared(transaction: Ends, side: Side) -> None:
    """Prepare, commit and decide, behind the marker: nobody may cancel this to change its outcome.

    Raises MQError as `Side.prepare` does, with the transaction rolled back; CommitRefusedError; OUTCOME_PENDING (2124)
    where a resolver decides.
    """
    try:
        await side.prepare()
    except BaseException as error:
        await transaction.rollback()
        if not isinstance(error, MQError) or error.reason in _UNANSWERED:
            await side.decide(committed=False, error=error)
        raise
    try:
        await side.reached(TransactionStep.PREPARE)
        await transaction.commit()
    except CommitRefusedError as refused:
        await transaction.rollback()
        await side.decide(committed=False, error=refused)
        raise
    except OutcomeUnknownError as lost:
        await transaction.release()  # SQLite has one writer, and who asks writes
        await _find_out(side, lost)
        return
    except BaseException as error:
        await side.decide(committed=None, error=error)
        raise
    await transaction.release()  # its place is for others, while the queue manager is told
    await side.reached(TransactionStep.COMMIT)
    await side.decide(committed=True)
    await side.reached(TransactionStep.DECIDE)


async def _find_out(side: Side, lost: OutcomeUnknownError) -> None:
    """End a unit whose COMMIT was not answered. Raises CommitRefusedError, OUTCOME_PENDING (2124)."""
    try:
        committed = await side.ask()
    except BaseException as error:
        await side.decide(committed=None, error=error)
        raise
    if committed is None:
        unknown = pending(side)
        await side.decide(committed=None, error=unknown)
        raise unknown from lost
    if not committed:
        aborted = CommitRefusedError(f"{lost}: it is not committed, and never will be")
        await side.decide(committed=False, error=lost)
        raise aborted from lost
    await side.decide(committed=True)


async def finished(work: Coroutine[object, object, T]) -> T:
    """Await work to its end, whoever cancels the caller meanwhile; the cancellation is raised behind it."""
    task = asyncio.get_running_loop().create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled() and (failed := task.exception()) is not None:
            raise cancelled from failed
        raise cancelled
    return task.result()
