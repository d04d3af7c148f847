"""Decisions on their way to the queue manager: those of one turn of the event loop in one call.

A decision is known for good. Where its call fails it is kept (`kept`), and sent again over the next connection.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING, Final

from broker.mqi.errors import MQError
from broker.mqi.external_units import UNITS_MAX, Decided, Decision
from broker.mqi.reasons import MQRC

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
        self._gathered: dict[Connection, list[tuple[Decision, asyncio.Future[int]]]] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._idle: asyncio.Event | None = None

    def send(self, connection: Connection, decision: Decision) -> asyncio.Future[int]:
        """Send a decision with what else is decided in this turn of the loop. The answer is that of DECIDE, or
        `NOT_SENT`; it is no exception.
        """
        loop = asyncio.get_running_loop()
        if not self._gathered:
            loop.call_soon(self._send)
        answer: asyncio.Future[int] = loop.create_future()
        self._gathered.setdefault(connection, []).append((decision, answer))
        return answer

    async def send_kept(self, connection: Connection) -> None:
        """Send again what nobody has answered."""
        self.keeps.clear()
        kept = list(self.kept.values())
        if kept:
            await asyncio.wait([self.send(connection, each) for each in kept])

    @property
    def busy(self) -> bool:
        """True if something that was sent is not answered."""
        return bool(self._gathered or self._calls)

    async def drain(self) -> None:
        """Return when all that was sent is answered."""
        while self.busy:
            self._idle = asyncio.Event()
            await self._idle.wait()

    def _send(self) -> None:
        gathered, self._gathered = self._gathered, {}
        for connection, decisions in gathered.items():
            for start in range(0, len(decisions), UNITS_MAX):
                call = asyncio.get_running_loop().create_task(
                    self._call(connection, decisions[start : start + UNITS_MAX]), name="decide units"
                )
                self._calls.add(call)
                call.add_done_callback(self._answered)

    async def _call(self, connection: Connection, decisions: Sequence[tuple[Decision, asyncio.Future[int]]]) -> None:
        answers: Sequence[int] = [NOT_SENT] * len(decisions)
        try:
            answers = await connection.decide(self._database, [decision for decision, _ in decisions])
        except MQError as error:
            logger.debug("decisions are kept: count=%d %s", len(decisions), error)
        finally:
            for (decision, future), answer in zip(decisions, answers, strict=True):
                self._note(decision, answer)
                if not future.done():
                    future.set_result(answer)

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

    def _answered(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if self._idle is not None:
            self._idle.set()
        if not call.cancelled() and (error := call.exception()) is not None:
            raise error  # a mistake of ours: the loop's exception handler tells it
