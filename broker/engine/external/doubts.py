"""DOUBTS: units without owner are leased to those who see their databases (transactions rule 2.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.queues.unit import IN_DOUBT
from broker.engine.calls.answers import fail
from broker.engine.calls.gets import ReceivingCall
from broker.mqi.external_units import UNITS_MAX, Doubt

if TYPE_CHECKING:
    from broker.core.prepared.branches import PreparedBranch
    from broker.core.queues.handles import Hconn
    from broker.engine.context import EngineContext
    from broker.engine.conversation import Conversation

SEEN_MAX: Final = 1000
"""Of so many databases it is known who resolved their units last."""


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
        self._seen: dict[bytes, tuple[str, float]] = {}  # who asked last, and until when, wall clock
        self._ended = False

    def ask(self, call: DoubtsCall, database: bytes, *, wait: bool) -> None:
        """Lease units of a database to a connection: at once if there are any, else when there is one, or none."""
        self._see(database, call.conversation)
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
                self._see(database, call.conversation)
                if not calls:
                    del self._waiting[database]

    def leaving(self, conversation: Conversation, reason: int) -> None:
        """A connection ends."""
        for database, calls in list(self._waiting.items()):
            for call in [each for each in calls if each.conversation is conversation]:
                self.forget(call)
                fail(call, reason)
            self._see_if_last(database, conversation)
        for branch in self._context.core.branches.owned_by(conversation.hconn):
            self._see_if_last(branch.decider.database, conversation)

    def resolver(self, branch: PreparedBranch) -> tuple[str, float]:
        """Return who has the lease of a unit in doubt, and 0; or who asked for those of its database last, and until
        when (seconds since 1970); "" and 0 when nobody has since the start.
        """
        if branch.owner is not None and branch.unit.state == IN_DOUBT:
            return name_of(branch.owner), 0.0
        return self._seen.get(branch.decider.database, ("", 0.0))

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

    def _see(self, database: bytes, conversation: Conversation) -> None:
        self._seen.pop(database, None)
        self._seen[database] = name_of(conversation.hconn), self._context.clock.time()
        if len(self._seen) > SEEN_MAX:
            del self._seen[next(iter(self._seen))]

    def _see_if_last(self, database: bytes, conversation: Conversation) -> None:
        seen = self._seen.get(database)
        if seen is not None and seen[0] == name_of(conversation.hconn):
            self._see(database, conversation)


def name_of(hconn: Hconn) -> str:
    """Return the name of a connection for people."""
    return f"{hconn.appl_name} {hconn.channel}".strip() or "a program without a name"
