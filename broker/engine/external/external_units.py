"""Units of work that a database of a program's own decides (transactions rule 2): prepared here, without effect until
somebody who sees that database says what it has decided.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from broker.core.deliveries import in_doubt
from broker.core.message.rows import Rows
from broker.core.queues.unit import IN_DOUBT, PREPARED
from broker.engine.calls.answers import fail
from broker.engine.external.deciding import UnitDecisions
from broker.engine.external.doubt_watch import DoubtWatch
from broker.engine.external.doubts import DoubtWaits
from broker.engine.external.preparing import Preparations
from broker.engine.mistakes import contained
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from broker.core.prepared.branches import PreparedBranch
    from broker.engine.context import EngineContext
    from broker.engine.conversation import Conversation
    from broker.interface.port import Call


class OwnRows(Protocol):
    """One of those that are prepared, or decided, together."""

    @property
    def rows(self) -> Rows:
        """The rows that are to be written for it."""


T = TypeVar("T", bound=OwnRows)


class ExternalUnits:
    """Those of a queue manager, which makes this when it has the first."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._core = context.core
        self.doubts = DoubtWaits(context)
        self.decisions = UnitDecisions(context, self)
        self.preparations = Preparations(context, self)
        self._watch = DoubtWatch(context)
        self._calls: dict[Conversation, set[Call[Any]]] = {}
        for branch in self._core.branches.by_id.values():
            if branch.external:
                in_doubt.loaded(self._core, branch)
                self.doubts.add(branch)
                self._watch.keep()

    def follow(self, conversation: Conversation, call: Call[Any]) -> None:
        """A call is under way, and ends with its connection where that breaks: what the store does with it when it has
        failed nobody will know.
        """
        calls = self._calls.setdefault(conversation, set())
        calls.add(call)
        call.add_done_callback(partial(self._answered, conversation))

    def _answered(self, conversation: Conversation, call: Call[Any]) -> None:
        calls = self._calls.get(conversation, set())
        calls.discard(call)
        if not calls:
            self._calls.pop(conversation, None)

    def entered(self, branch: PreparedBranch, conversation: Conversation) -> None:
        """A branch is durable. Its connection decides it, if that is still there."""
        self._core.branches.enter(branch)
        in_doubt.entered(self._core, branch)
        self._watch.keep()
        if conversation.broken:
            self.abandon(branch)
        self.decisions.come(branch.id)

    def abandon(self, branch: PreparedBranch) -> None:
        """Its owner does not decide it any more: whoever sees its database may."""
        self._core.branches.own(branch, None)
        if branch.unit.state == PREPARED:
            branch.unit.become(IN_DOUBT)
            in_doubt.let_go(branch)
        if branch.unit.state == IN_DOUBT and not self.decisions.under_way(branch.id):
            self.doubts.add(branch)

    def in_doubt(self, database: bytes, ids: Sequence[UUID]) -> list[bytes]:
        """Return which of these units of a database are undecided, as far as that is durable."""
        branches = self._core.branches
        found = []
        for id in ids:
            branch = branches.by_id.get(id) or branches.coming.get(id)
            if branch is not None and branch.decider.database == database:
                found.append(id.bytes)
        return found

    def submit(self, together: Sequence[T], written: Callable[[T, Exception | None], None]) -> None:
        """Submit the rows of those that are prepared, or decided, together. `written` is called for each when these are
        durable, or could not be made so; at once where there are none.
        """
        rows = Rows()
        for each in together:
            rows.extend(each.rows)

        def settled(error: Exception | None) -> None:
            for each in together:
                contained(written, each, error)
            self._context.perform()
            self._context.deliveries.run()

        if rows:
            self._context.journal.submit(rows, settled)
        else:
            settled(None)

    def leaving(self, conversation: Conversation, reason: int) -> None:
        """A connection ends: what it has prepared, and what was leased to it, is for others to decide."""
        self.doubts.leaving(conversation, reason)
        if reason != MQRC.HCONN_ERROR:
            for call in list(self._calls.get(conversation, ())):
                fail(call, reason)
        for branch in self._core.branches.owned_by(conversation.hconn):
            self.abandon(branch)
        self._context.deliveries.run()

    def end(self) -> None:
        """The queue manager ends: what one connection leaves is for nobody."""
        self.doubts.end()
        self.decisions.end()
        self._watch.end()
