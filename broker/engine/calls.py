"""The calls of the engine whose answers must not be lost: a get, and what else gives a program something to hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.rows import Rows
from broker.interface.port import Call, Delivery, T
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.clock import Timer
    from broker.core.effects import Grant
    from broker.core.entry import Entry
    from broker.core.waiters import Waiter
    from broker.engine.conversation import Conversation

_TRUNCATED_FAILED = int(MQRC.TRUNCATED_MSG_FAILED)


class GetCall(Call[Delivery]):
    """An MQGET on its way: it waits, is granted a message, has its body fetched and its removal made durable, is
    answered.

    It may be cancelled at each of these moments, and after the answer be abandoned. Up to the grant it just leaves
    the line. From then on the message is out of everybody's sight, and goes back to its place if nobody takes the
    answer.
    """

    def __init__(self, conversation: Conversation, max_length: int | None) -> None:
        super().__init__()
        self._conversation = conversation
        self._max_length = max_length
        self._grant: Grant | None = None
        self.waiter: Waiter | None = None
        self.timer: Timer | None = None

    def cancel(self, msg: object = None) -> bool:
        """Stop waiting at once, so that nothing is granted to a call that has been cancelled."""
        self._stop_waiting()
        return super().cancel(msg)

    def granted(self, grant: Grant) -> None:
        """A message: fetch its body, make its removal or its mark durable, then answer."""
        self._stop_waiting()
        self._grant = grant
        entry = grant.entry
        if entry.data is None:
            self._conversation.manager.bodies.fetch(entry, lambda: self.granted(grant))
            return
        now = self._conversation.manager.clock.time()
        delivery = _delivery(entry, entry.data, grant.reason, self._max_length, now)

        def written(error: Exception | None) -> None:
            self._written(delivery, error)

        if grant.unit is not None:
            self._conversation.commit_unit(grant.unit, written)
        elif grant.destructive and entry.persistence and entry.queue.hardens_backout:
            entry.marked = True
            self._conversation.manager.journal.submit(Rows(marks=[entry.id]), written)
        else:
            self._answer(delivery)

    def ended(self, reason: int) -> None:
        """The wait is over, without a message."""
        self._stop_waiting()
        self._conversation.fail(self, reason)

    def take(self) -> None:
        self._grant = None

    def unclaimed(self, result: Delivery) -> None:
        self._undo()

    def _stop_waiting(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.waiter is not None:
            self._conversation.core.stop_waiting(self.waiter)
            self.waiter = None

    def _written(self, delivery: Delivery, error: Exception | None) -> None:
        if error is None:
            self._answer(delivery)
            return
        if isinstance(error, StoreFullError) and self._grant is not None and self._grant.unit is None:
            self._undo()  # an implicit unit has been undone as a whole
        self._conversation.fail_written(self, error, MQRC.Q_SPACE_NOT_AVAILABLE)

    def _answer(self, delivery: Delivery) -> None:
        if self.done():
            self._undo()
        elif delivery.reason == _TRUNCATED_FAILED:
            self.set_exception(MQError(_TRUNCATED_FAILED, f"the message has {delivery.length} bytes", message=delivery))
        else:
            self.set_result(delivery)

    def _undo(self) -> None:
        """Put back a message that was removed for this call."""
        grant, self._grant = self._grant, None
        if grant is None or not grant.destructive:
            return
        if grant.unit is None:
            self._conversation.manager.give_back(grant.entry)
        else:
            self._conversation.manager.put_again(grant.entry)


class HeldCall(Call[T]):
    """A call whose answer opens something that `release` closes again when nobody takes it."""

    def __init__(self, release: Callable[[T], None]) -> None:
        super().__init__()
        self._release = release

    def unclaimed(self, result: T) -> None:
        self._release(result)


def _delivery(entry: Entry, data: bytes, reason: int, max_length: int | None, now: float) -> Delivery:
    expiry = -1
    if entry.deadline is not None:
        expiry = max(1, -int(-(entry.deadline - now) * 10 // 1))  # tenths of a second, rounded up
    return Delivery(
        entry.kept,
        entry.msg_id,
        entry.correl_id,
        entry.group_id,
        entry.msg_seq_number,
        entry.offset,
        entry.msg_flags,
        entry.original_length,
        entry.priority,
        entry.persistence,
        expiry,
        entry.backout_count,
        entry.token,
        data if max_length is None or len(data) <= max_length else data[:max_length],
        entry.length,
        reason,
    )
