"""The audit: all that is on the queues, compared with the ledger.

When it is made nothing is under way: the queue manager is quiet, or has just been started. So each unit of work whose
outcome nobody was told is decided now, by what is there, and as a whole; and what is found is what must be found from
now on.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from tests.simulation.ledger import ENDED, NEVER, Message, State, Unit, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from broker.interface import Message as Got
    from tests.simulation.ledger import Ledger, QueueRecord, Want


class After(Enum):
    """The moment of the audit."""

    QUIET = auto()  # in the middle of a life, with nothing on its way
    STOP = auto()  # after an orderly stop and a start
    CRASH = auto()  # after a crash, or a stop because the store failed, and a start
    BROKEN_STOP = auto()  # after a crash in the middle of an orderly stop, and a start


class Audit:
    """One comparison. `found` is what a browse of each queue gave, in its order."""

    def __init__(self, ledger: Ledger, found: Mapping[QueueRecord, Sequence[Got]], after: After) -> None:
        self._ledger = ledger
        self._found = found
        self._after = after
        self._crashed = after in (After.CRASH, After.BROKEN_STOP)
        self._there: dict[Message, Got] = {}
        self._losses = self._possible_losses()

    def run(self) -> None:
        """Compare, raise Violation where something is not as it must be, and start a new page."""
        for queue, messages in self._found.items():
            self._identify(queue, messages)
        if self._after is not After.QUIET:
            self._forget_lost()
        for unit in self._ledger.units:
            self._decide(unit)
        for message in self._ledger.messages.values():
            self._compare(message)
        for message, got in self._there.items():
            self._count(message, got.md.backout_count)
        for queue, messages in self._found.items():
            self._check_order(queue, [self._ledger.message_of(got) for got in messages])
        self._new_page()

    def _identify(self, queue: QueueRecord, messages: Sequence[Got]) -> None:
        for got in messages:
            message = self._ledger.message_of(got)
            if message.queue is not queue or message in self._there:
                raise Violation(f"invariant 2: {message} is found twice, or on {queue.name}")
            self._there[message] = got

    def _forget_lost(self) -> None:
        """A restart: what is not persistent is gone, but for what an orderly stop keeps."""
        for message in self._ledger.messages.values():
            if message.holder is None and not message.gone and not self._may_survive(message):
                message.gone = ", not kept over the restart"

    def _may_survive(self, message: Message) -> bool:
        return message.persistent or (message.queue.keeps and self._after in (After.STOP, After.BROKEN_STOP))

    # Units whose outcome nobody was told

    def _decide(self, unit: Unit) -> None:
        """Commit or back out, as a whole (invariant 3)."""
        if unit.state in ENDED or (unit.state is State.OPEN and self._after is After.QUIET):
            return
        done, undone = list(self._signs_of_commit(unit)), list(self._signs_of_backout(unit))
        if unit.state is not State.COMMITTING:
            if done:
                raise Violation(f"invariant 3: {unit} was not committed, but {_names(done)} says it was")
        elif done and undone:
            raise Violation(f"invariant 3: {unit} is done for {_names(done)}, undone for {_names(undone)}")
        elif done or (not undone and self._cheaper_committed(unit)):
            self._ledger.end(unit, State.COMMITTED)
            return
        self._back_out(unit)

    def _signs_of_commit(self, unit: Unit) -> Iterator[Message]:
        yield from (message for message in unit.puts if message in self._there)
        for message in unit.gets:
            if message.holder is unit and message not in self._there and not self._may_be_missing(message):
                yield message

    def _signs_of_backout(self, unit: Unit) -> Iterator[Message]:
        yield from (message for message in unit.gets if message.holder is unit and message in self._there)
        for message in unit.puts:
            if message not in self._there and not message.perhaps and not self._may_be_missing(message):
                yield message

    def _may_be_missing(self, message: Message) -> bool:
        return (
            bool(message.gone)
            or self._may_be_dropped(message)
            or not message.queue.there
            or self._ledger.mortal(message)
            or any(self._explains(want, message) for want in self._losses)
        )

    def _may_be_dropped(self, message: Message) -> bool:
        """True if the restart may have ended it."""
        if self._after is After.QUIET or message.persistent:
            return False
        return not (message.queue.keeps and self._after is After.STOP) or self._ledger.refused_since

    def _cheaper_committed(self, unit: Unit) -> bool:
        """Nothing decides for certain: take what leaves fewer messages to explain."""
        puts = sum(not message.perhaps for message in unit.puts)
        gets = sum(message.holder is unit for message in unit.gets)
        return gets > puts

    def _back_out(self, unit: Unit) -> None:
        """Back out, with the backout counts that this leaves."""
        state, held = unit.state, [message for message in unit.gets if message.holder is unit]
        asked = state is not State.COMMITTING
        self._ledger.end(unit, State.BACKED_OUT, counted=asked and not self._crashed and not self._ledger.refused_since)
        for message in held if self._crashed else ():
            if message.queue.hardened and message.persistent:
                message.low += 1  # the mark is on disk, or the count
            elif state is State.OPEN:
                message.high -= 1  # nothing of this get is

    # Messages

    def _compare(self, message: Message) -> None:
        there = message in self._there
        if there and (message.gone or not message.committed or message.holder is not None):
            raise Violation(f"invariants 1 and 2: {message} must not be there")
        if there:
            message.perhaps = False
            if message.answered == NEVER:
                message.answered = self._ledger.tick()
        elif message.committed and message.holder is None and not message.gone:
            message.gone = self._explain(message)

    def _explain(self, message: Message) -> str:
        """Return the reason why a message is not there that must be, if there can be one."""
        if message.perhaps:
            return ", never put"
        if not message.queue.there:
            return ", gone with its queue"
        if self._ledger.mortal(message):
            return ""  # expired; a crash may bring it back, and a wall clock that is set back show it again
        if self._may_be_dropped(message):
            return ", not kept over the restart"
        for want in self._losses:
            if self._explains(want, message):
                self._losses.remove(want)
                return ", lost with the answer to a get"
        raise Violation(f"invariant 1: {message} is lost")

    def _possible_losses(self) -> list[Want]:
        """The gets that may have taken a message with them (journal rule 11): their answers were on their way when the
        process died, or there was no room to put the message back. The choosiest come first.
        """
        if not self._crashed and not self._ledger.refused_since:
            return []
        return sorted(self._ledger.strays, key=lambda want: not any(want.msg_id + want.correl_id))

    def _explains(self, want: Want, message: Message) -> bool:
        """True if this get may have taken it. One that stood waiting at the last audit takes only what came later."""
        if not want.accepts(message):
            return False
        stood = want.waits and want.issued < self._ledger.audited
        settled = message.committed and message.holder is None
        return not (stood and settled and message.freed_at < self._ledger.audited) or self._was_given_back(message)

    def _was_given_back(self, message: Message) -> bool:
        fresh = (want for want in self._ledger.strays if want.issued > self._ledger.audited)
        return any(want.accepts(message) for want in fresh)

    # Counts and places

    def _count(self, message: Message, backout_count: int) -> None:
        self._ledger.check_count(message, backout_count)
        message.marked = message.marked and self._after is After.QUIET
        message.high = backout_count + message.marked
        if self._after is not After.QUIET:  # in the middle of a life it may be more than is durable
            message.low = backout_count

    def _check_order(self, queue: QueueRecord, messages: Sequence[Message]) -> None:
        """By priority, then by arrival; and nothing has changed places since it was last found."""
        names = [message.name for message in messages]
        ranks = [0 if queue.fifo else -message.priority for message in messages]
        if ranks != sorted(ranks):
            raise Violation(f"{queue.name} is not in order of priority: {names}")
        latest: dict[int, Message] = {}
        for rank, message in zip(ranks, messages, strict=True):
            before = latest.get(rank)
            if before is not None and before.issued > message.answered:
                raise Violation(f"{before} stands before {message} on {queue.name}, and was put after it")
            if before is None or message.issued > before.issued:
                latest[rank] = message
        for earlier in self._ledger.orders.setdefault(queue, []):
            common = set(earlier).intersection(names)
            if [name for name in earlier if name in common] != [name for name in names if name in common]:
                raise Violation(f"invariant 2: {queue.name} has changed its order: {earlier}, then {names}")
        self._ledger.orders[queue].append(names)

    def _new_page(self) -> None:
        ledger = self._ledger
        ledger.units = [unit for unit in ledger.units if unit.state is State.OPEN]
        ledger.strays.clear()
        ledger.refused_in_life = self._after is After.QUIET and (ledger.refused_in_life or ledger.refused_since)
        if not ledger.refused_in_life:  # else a mark may have found no room to be cleared, until the next restart
            ledger.raises.clear()
        ledger.refused_since = False
        ledger.audited = ledger.tick()


def _names(messages: Sequence[Message]) -> str:
    return ", ".join(message.name for message in messages)
