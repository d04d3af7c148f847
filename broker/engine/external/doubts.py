"""DOUBTS: units without owner are leased to those who see their databases (transactions rule 2.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.engine.calls.answers import fail
from broker.engine.calls.gets import ReceivingCall
from broker.mqi.external_units import UNITS_MAX, Doubt

if TYPE_CHECKING:
    from broker.core.prepared.branches import PreparedBranch
    from broker.engine.context import EngineContext
    from broker.engine.conversation import Conversation


class DoubtsCall(ReceivingCall[list[Doubt]]):
    """Somebody asks for units in doubt. Cancelled or abandoned, those that it has been given are free again."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self.conversation = conversation
        self.leased: list[PreparedBranch] = []

    def cancel(self, msg: object = None) -> bool:
        """Stop waiting at once."""
        cancelled = super().cancel(msg)
        if cancelled:
            self.abandon()
        return cancelled

    def take(self) -> None:
        self.leased = []

    def unclaimed(self, result: list[Doubt]) -> None:
        self.abandon()

    def abandon(self) -> None:
        """Nobody takes the answer."""
        leased, self.leased = self.leased, []
        external = self.conversation.context.external
        if external is not None:
            external.doubts.forget(self)
            for branch in leased:
                if branch.owner is self.conversation.hconn:
                    external.abandon(branch)


class DoubtWaits:
    """The units in doubt that nobody has, by their databases, and the calls that wait for some."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._free: dict[bytes, dict[PreparedBranch, None]] = {}
        self._waiting: dict[bytes, dict[DoubtsCall, None]] = {}
        self._resolvers = context.core.branches.resolvers
        self._ended = False

    def ask(self, call: DoubtsCall, database: bytes, *, wait: bool) -> None:
        """Lease units of a database to a connection: at once if there are any, else when there is one, or none."""
        self._resolvers.see(database, call.conversation.hconn, self._context.clock.time())
        if self._free.get(database) or not wait:
            self._answer(call, database)
        else:
            self._waiting.setdefault(database, {})[call] = None

    def add(self, branch: PreparedBranch) -> None:
        """Nobody has a unit in doubt."""
        database = branch.decider.database
        self._free.setdefault(database, {})[branch] = None
        for call in list(self._waiting.get(database, ())):
            if self._ended or database not in self._free:
                return
            if not call.done() and not call.conversation.broken:
                self.forget(call)
                self._answer(call, database)

    def drop(self, branch: PreparedBranch) -> None:
        """A unit is decided, or somebody has it."""
        free = self._free.get(branch.decider.database, {})
        if free.pop(branch, branch) is None and not free:
            del self._free[branch.decider.database]

    def forget(self, call: DoubtsCall) -> None:
        """A call waits no more."""
        for database, calls in list(self._waiting.items()):
            if call in calls:
                del calls[call]
                self._resolvers.see(database, call.conversation.hconn, self._context.clock.time())
                if not calls:
                    del self._waiting[database]

    def leaving(self, conversation: Conversation, reason: int) -> None:
        """A connection ends."""
        for calls in list(self._waiting.values()):
            for call in [each for each in calls if each.conversation is conversation]:
                self.forget(call)
                fail(call, reason)
        now = self._context.clock.time()
        for database in {each.decider.database for each in self._context.core.branches.owned_by(conversation.hconn)}:
            self._resolvers.leave(database, conversation.hconn, now)

    def end(self) -> None:
        """The queue manager ends."""
        self._ended = True

    def _answer(self, call: DoubtsCall, database: bytes) -> None:
        found = list(self._free.get(database, ()))[:UNITS_MAX]
        for branch in found:
            self.drop(branch)
            self._context.core.branches.own(branch, call.conversation.hconn)
        call.leased = found
        call.set_result([Doubt(branch.id.bytes, branch.since) for branch in found])
