"""Decisions on their way to the queue manager: those of one turn of the event loop in one call.

A decision is known for good. Where its call fails it is kept (`kept`), and sent again over the next connection.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING, Final

from broker.mqi.errors import MQError
from broker.mqi.external_units import Decided, Decision
from broker.mqi.reasons import MQRC
from broker.transactions.turn_calls import TurnCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.interface.connection import Connection

logger = logging.getLogger(__name__)

_TORN: Final = (MQRC.UOW_CANCELED, MQRC.UOW_COMMITTED)
"""The reasons of a unit that an administrator has decided, and otherwise."""

NOT_SENT: Final = -1
"""The answer about a decision that is kept, since nobody has answered it."""


class DecisionSender:
    """The decisions about units of one database. `decided` is called with each unit that the queue manager has ended as
    this program's decision says, and whether it is committed.
    """

    def __init__(self, database: bytes, label: str, decided: Callable[[bytes, bool], None]) -> None:
        self.kept: dict[bytes, Decision] = {}
        self.keeps = asyncio.Event()  # something is kept that was not
        self._database = database
        self._label = label
        self._decided = decided
        self._calls = TurnCalls(self._decide, "decide units")

    def send(self, connection: Connection, decision: Decision, *, within: float = 0.0) -> asyncio.Future[int]:
        """Send a decision with what else is decided in this turn of the loop, or within so many seconds. The answer is
        that of DECIDE, or `NOT_SENT`; it is no exception.
        """
        return self._calls.add(connection, decision, within=within)

    def hurry(self, within: float) -> None:
        """Send in this turn of the loop what would wait for so many seconds, or less."""
        self._calls.hurry(within)

    async def send_kept(self, connection: Connection) -> None:
        """Send again what nobody has answered."""
        self.keeps.clear()
        kept = list(self.kept.values())
        if kept:
            await asyncio.wait([self.send(connection, each) for each in kept])

    @property
    def busy(self) -> bool:
        """True if something that was sent is not answered."""
        return self._calls.busy

    async def drain(self) -> None:
        """Return when all that was sent is answered."""
        await self._calls.drain()

    async def _decide(self, connection: Connection, decisions: Sequence[Decision]) -> Sequence[int]:
        answers: Sequence[int] = [NOT_SENT] * len(decisions)
        try:
            answers = await connection.decide(self._database, decisions)
        except MQError as error:
            logger.debug("decisions are kept: count=%d %s", len(decisions), error)
        except Exception as error:  # a mistake of ours; they are decided still
            message = "decisions could not be sent"
            asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
        finally:
            for decision, answer in zip(decisions, answers, strict=True):
                self._note(decision, answer)
        return answers

    def _note(self, decision: Decision, answer: int) -> None:
        """See what has become of a decision."""
        if decision.commit is None:
            return  # nobody has decided anything: what is not given up now is given up with the connection
        if answer in (Decided.DONE, Decided.UNKNOWN):
            self.kept.pop(decision.unit, None)
            if answer == Decided.DONE:
                self._decided(decision.unit, decision.commit)
        elif answer in _TORN:
            self.kept.pop(decision.unit, None)
            logger.error(
                "torn: an administrator has decided a unit otherwise than its database: unit=%s database=%s "
                "committed_there=%s", uuid.UUID(bytes=decision.unit), self._label, decision.commit,
                extra={"event": "unit_of_work_torn"},
            )  # fmt: skip
        else:
            self.kept[decision.unit] = decision
            self.keeps.set()
