"""DECIDE: prepared units end as the databases of their programs have decided (transactions rule 2.4).

The decisions of one call go to the journal in one submission, but for those that put dead letters, which a full store
refuses. A decision that it has no room for is carried out when there is some: a commit stays in doubt until then.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from broker.core.deliveries import in_doubt
from broker.core.prepared.branches import returned
from broker.core.queues.unit import IN_DOUBT, PREPARED
from broker.engine.calls.answers import fail_written, succeed
from broker.engine.handlers.delivery_ends import unheard
from broker.engine.mistakes import mistake
from broker.mqi.delivery_fields import Outcome
from broker.mqi.external_units import Decided, Decision, label_of
from broker.mqi.reasons import MQRC
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.clock import Timer
    from broker.core.deliveries.steps import Ending
    from broker.core.message.rows import Rows
    from broker.core.prepared.branches import PreparedBranch
    from broker.core.queues.unit import Unit
    from broker.engine.context import EngineContext
    from broker.engine.conversation import Conversation
    from broker.engine.external.external_units import ExternalUnits
    from broker.interface.port import Call

    Answered = Callable[[int], None]
    """Called with the answer about one decision: a `Decided`, or a reason."""

logger = logging.getLogger(__name__)

AGAIN_MIN: Final = 1.0
AGAIN_MAX: Final = 60.0
"""Seconds until the store is tried again that had no room: the first time, and at most."""

_FULL: Final = int(MQRC.STORAGE_MEDIUM_FULL)
_STORE_FAILED: Final = int(MQRC.CONNECTION_BROKEN)


class _Deciding(NamedTuple):
    """A decision on its way to the store. `ending` is that of the delivery of a branch that is backed out; `left`: its
    owner had left it.
    """

    branch: PreparedBranch
    commit: bool
    rows: Rows
    ending: Ending | None
    left: bool
    answered: Answered


class UnitDecisions:
    """Carries out the decisions about the units of a queue manager."""

    def __init__(self, context: EngineContext, external: ExternalUnits) -> None:
        self._context = context
        self._core = context.core
        self._external = external
        self._waiting: dict[UUID, list[Callable[[], None]]] = {}  # decisions about units that are on their way
        self._ending: set[UUID] = set()  # units whose decision is on its way
        self._refused: dict[UUID, bool] = {}  # decisions that the store has no room for: commits
        self._owed: dict[PreparedBranch, Rows] = {}  # ends of units that are backed out, but for the store
        self._resolutions = context.core.branches.resolutions
        self._gathered: list[_Deciding] | None = None  # those that are submitted together
        self._timer: Timer | None = None
        self._wait = AGAIN_MIN
        self._ended = False

    def decide(
        self, conversation: Conversation, call: Call[list[int]], database: bytes, decisions: Sequence[Decision]
    ) -> None:
        """Carry out decisions; answer when all of them are durable."""
        answers: dict[int, int] = {}

        def answered(place: int, answer: int) -> None:
            answers[place] = answer
            if len(answers) < len(decisions):
                return
            if _STORE_FAILED in answers.values():
                fail_written(call, RuntimeError(), MQRC.STORAGE_MEDIUM_FULL)
            succeed(call, [answers[each] for each in range(len(decisions))])

        if not decisions:
            succeed(call, [])
        with_all = [partial(self._decide, conversation, database, each) for each in decisions]
        self._together([partial(decide, partial(answered, place)) for place, decide in enumerate(with_all)])

    def resolve(self, branch: PreparedBranch, *, commit: bool, answered: Answered) -> None:
        """An administrator decides about a unit in doubt. The decision is remembered durably, with the unit's end."""
        decider = branch.decider
        logger.warning(
            "unit in doubt resolved unit=%s action=%s database=%s: to see what that has decided, SELECT outcome FROM "
            "evermq_unit WHERE unit = x'%s' ('\\x%s' in PostgreSQL); no row, or 'aborted', is BACKOUT",
            branch.id, "COMMIT" if commit else "BACKOUT", label_of(*decider), branch.id.hex, branch.id.hex,
        )  # fmt: skip
        self._resolutions.add(branch, self._core.ids.next(), commit=commit)
        self._together([partial(self._end, branch, Decision(branch.id.bytes, commit), answered)])

    def under_way(self, id: UUID) -> bool:
        """True if a decision about a unit is on its way to the store, or waits for room there."""
        return id in self._ending or id in self._refused

    def come(self, id: UUID) -> None:
        """A unit is prepared, or could not be, or its decision is durable, or could not be made so: decisions about it
        go on.
        """
        waiting = self._waiting.pop(id, ())
        if waiting:
            self._together(waiting)

    def end(self) -> None:
        """The queue manager ends."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()

    def _together(self, steps: Sequence[Callable[[], None]]) -> None:
        """Take steps, and submit what comes of them together."""
        if self._gathered is not None:
            for step in steps:
                step()
            return
        gathered = self._gathered = []
        try:
            for step in steps:
                step()
        finally:
            self._gathered = None
        for together in (
            [each for each in gathered if not each.rows.grows],
            *([each] for each in gathered if each.rows.grows),
        ):
            if together:
                self._external.submit(together, self._written)

    def _decide(self, conversation: Conversation, database: bytes, decision: Decision, answered: Answered) -> None:
        id, branches = UUID(bytes=decision.unit), self._core.branches
        branch = branches.by_id.get(id) or branches.coming.get(id)
        if branch is None or branch.decider.database != database:
            answered(self._answer_unknown(id, database, decision))
        elif id in self._ending or id in branches.coming:
            again = partial(self._decide, conversation, database, decision, answered)
            self._waiting.setdefault(id, []).append(again)
        elif decision.commit is None:
            if branch.owner is conversation.hconn:
                self._external.abandon(branch)
            answered(int(Decided.DONE))
        elif branch in self._owed:
            answered(_FULL if not decision.commit else int(MQRC.UOW_CANCELED))
        elif self._refused.get(id, decision.commit) != decision.commit:
            answered(int(MQRC.UOW_COMMITTED))
        else:
            self._end(branch, decision, answered)

    def _answer_unknown(self, id: UUID, database: bytes, decision: Decision) -> int:
        """Answer a decision about a unit that is not there: an administrator may have decided otherwise."""
        resolved = self._resolutions.find(id, database)
        if resolved is None or decision.commit in (None, resolved.commit):
            return int(Decided.UNKNOWN)
        logger.error(
            "a unit of work is torn: an administrator resolved it otherwise unit=%s database=%s database_committed=%s",
            id, label_of(database, ""), decision.commit, extra={"event": "unit_of_work_torn"},
        )  # fmt: skip
        return int(MQRC.UOW_COMMITTED if resolved.commit else MQRC.UOW_CANCELED)

    # A unit ends

    def _end(self, branch: PreparedBranch, decision: Decision, answered: Answered) -> None:
        self._ending.add(branch.id)
        self._external.doubts.drop(branch)
        settlement = decision.settlement
        delivery = None if decision.commit else in_doubt.delivery_of(self._core, branch)
        if delivery is None or (settlement is not None and settlement.outcome == Outcome.RETURNED):
            self._freeze(branch, decision, answered)
        else:
            self._context.delivery_ends.with_bodies(delivery.entries, partial(self._freeze, branch, decision, answered))

    def _freeze(self, branch: PreparedBranch, decision: Decision, answered: Answered) -> None:
        """Freeze a unit for its end. The bodies of what is backed out are in memory, or cannot be."""
        left, ending, rows = branch.abandoned, None, self._resolutions.rows(branch.id)
        delivery = None if decision.commit else in_doubt.delivery_of(self._core, branch)
        if delivery is None:
            rows.extend(self._core.branches.freeze(branch, committed=bool(decision.commit)))
        else:
            moment = self._context.moment()
            try:
                ending = in_doubt.backed_out(self._core, branch, delivery, decision.settlement, moment)
            except Exception as error:
                mistake(error, "the end of a delivery")
                ending = self._core.deliveries.salvage(delivery, delivery.entries, moment)
            rows.extend(branch.backout_rows())
            for step in ending.steps:
                rows.extend(step.rows)
        deciding = _Deciding(branch, bool(decision.commit), rows, ending, left, answered)
        if self._gathered is None:
            self._external.submit([deciding], self._written)
        else:
            self._gathered.append(deciding)

    def _written(self, deciding: _Deciding, error: Exception | None) -> None:
        """A decision is durable, or could not be made so."""
        branch = deciding.branch
        if error is not None and not isinstance(error, StoreFullError):
            deciding.answered(_STORE_FAILED)  # journal rule 7: nothing definite is answered
            return
        self._ending.discard(branch.id)
        if deciding.commit:
            if error is None:
                self._context.settle(branch.unit, committed=True)
                in_doubt.committed(self._core, branch)
            else:
                branch.unit.become(PREPARED)
                if deciding.left or branch.owner is None:
                    branch.unit.become(IN_DOUBT)
                self._refused[branch.id] = True
        else:
            self._back_out(deciding, error)
        if error is None:
            self._refused.pop(branch.id, None)
            self._core.branches.over(branch)
        else:
            self._try_again_later()
        deciding.answered(int(Decided.DONE) if error is None else _FULL)
        self.come(branch.id)

    def _back_out(self, deciding: _Deciding, full: StoreFullError | None) -> None:
        """A unit is backed out, without room for that too; then the store is told when it has some."""
        branch, ending, moment = deciding.branch, deciding.ending, self._context.moment()
        undone: list[Unit] = []
        if ending is None:
            undone.append(branch.unit)
            self._context.settle(branch.unit, committed=False)
        else:
            assert branch.delivery is not None
            for step in list(ending.steps):
                if not step.committed and not step.entries:
                    undone.append(step.unit)
                self._context.delivery_ends.written(ending, step, unheard, full, moment)
            in_doubt.over(self._core, branch.delivery)
        if deciding.left:
            for unit in undone:
                returned(self._core, unit, moment)
        if full is not None:
            owed = self._owed[branch] = self._resolutions.rows(branch.id)
            owed.extend(branch.backout_rows())

    # What the store has no room for

    def _try_again_later(self) -> None:
        if self._timer is None and not self._ended:
            self._timer = self._context.clock.call_later(self._wait, self._try_again)
            self._wait = min(AGAIN_MAX, self._wait * 2)

    def _try_again(self) -> None:
        self._timer = None
        branches = self._core.branches.by_id
        again = [branches[id] for id in self._refused if id not in self._ending]
        self._together(
            [partial(self._end, branch, Decision(branch.id.bytes, commit=True), _nobody) for branch in again]
        )
        for branch, rows in list(self._owed.items()):
            self._context.journal.submit(rows, partial(self._owed_written, branch))
        if not (self._refused or self._owed):
            self._wait = AGAIN_MIN

    def _owed_written(self, branch: PreparedBranch, error: Exception | None) -> None:
        if error is None:
            if self._owed.pop(branch, None) is not None:
                self._core.branches.over(branch)
        else:
            self._try_again_later()


def _nobody(_: int) -> None:
    """Nobody waits for this answer any more."""
