"""The calls of the engine whose answers must not be lost: a get, and what else gives a program something to hold."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.engine.answers import fail, fail_written
from broker.engine.delivery import NOTHING, delivery
from broker.engine.hardening import mark
from broker.engine.undelivered import put_back
from broker.interface.port import Call, Delivery, T
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.clock import Timer
    from broker.core.effects import Grant
    from broker.core.unit import Unit
    from broker.core.waiters import Waiter
    from broker.engine.conversation import Conversation
    from broker.engine.delivery import Form

_TRUNCATED_FAILED = int(MQRC.TRUNCATED_MSG_FAILED)


class ReceivingCall(Call[T]):
    """A call that only gives something to the program: cancelled before its turn, it is not made at all."""


class WaitingCall(ReceivingCall[T]):
    """A call that may wait for a message, as the owner of a waiter of the core. Up to the grant it may just leave the
    line.
    """

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self._conversation = conversation
        self.waiter: Waiter | None = None
        self.timer: Timer | None = None

    def cancel(self, msg: object = None) -> bool:
        """Stop waiting at once, so that nothing is granted to a call that has been cancelled."""
        self._stop_waiting()
        return super().cancel(msg)

    def ended(self, reason: int) -> None:
        """The wait is over, without a message."""
        self._stop_waiting()
        fail(self, reason)

    def _stop_waiting(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.waiter is not None:
            self._conversation.core.stop_waiting(self.waiter)
            self.waiter = None


class GetCall(WaitingCall[Delivery]):
    """An MQGET on its way: it waits, is granted a message, has its body fetched and its removal made durable, is
    answered.

    It may be cancelled at each of these moments, and after the answer be abandoned. Up to the grant it just leaves
    the line. From then on the message is out of everybody's sight, and goes back to its place if nobody takes the
    answer.
    """

    def __init__(self, conversation: Conversation, form: Form) -> None:
        super().__init__(conversation)
        self._form = form
        self._grant: Grant | None = None
        self._unit: Unit | None = None  # the unit of work, implicit or not, that got the message

    def granted(self, grant: Grant) -> None:
        """A message: fetch its body, make its removal or its mark durable, then answer."""
        self._stop_waiting()
        self._grant = grant
        if not grant.entries:
            self._answer(NOTHING._replace(reason=grant.reason))
            return
        self._unit = grant.entries[0].unit
        if any(entry.data is None for entry in grant.entries):
            self._conversation.manager.bodies.fetch(grant.entries, self._fetched)
        else:
            self._secure(grant)

    def handed(self, grant: Grant) -> None:
        """A message whose removal has taken effect with its put: answer."""
        self._stop_waiting()
        self._grant = grant
        self._unit = grant.unit
        now = self._conversation.manager.clock.time()
        self._answer(delivery(grant.entries, grant.reason, self._form, now))

    def _fetched(self, error: Exception | None) -> None:
        """The bodies are in memory, or cannot be read."""
        if error is not None:
            fail_written(self, error, MQRC.CONNECTION_BROKEN)
        elif self._grant is not None:
            self._secure(self._grant)

    def _secure(self, grant: Grant) -> None:
        """Make what the answer stands for durable: the removal, or that the message is in somebody's hands."""
        now = self._conversation.manager.clock.time()
        answer = delivery(grant.entries, grant.reason, self._form, now)
        if grant.unit is not None:
            self._conversation.turns.commit(grant.unit, partial(self._removed, answer))
        elif not (
            grant.destructive and mark(self._conversation.manager.journal, grant.entries, partial(self._marked, answer))
        ):
            self._answer(answer)

    def _removed(self, delivery: Delivery, error: Exception | None) -> None:
        """The implicit unit of a get outside syncpoint is over."""
        if error is None:
            self._answer(delivery)
        else:
            fail_written(self, error, MQRC.STORAGE_MEDIUM_FULL)

    def _marked(self, delivery: Delivery, error: Exception | None) -> None:
        """It is on disk that the message is in somebody's hands, or it could not be written."""
        if error is None:
            self._answer(delivery)
            return
        if isinstance(error, StoreFullError):
            self._undo()
        fail_written(self, error, MQRC.STORAGE_MEDIUM_FULL)

    def cancel(self, msg: object = None) -> bool:
        """Put back at once what it has got by now: a commit that comes next does not remove it."""
        cancelled = super().cancel(msg)
        if cancelled:
            self._undo()
        return cancelled

    def take(self) -> None:
        self._grant = None

    def unclaimed(self, result: Delivery) -> None:
        self._undo()

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
        if grant is not None and grant.destructive and self._unit is not None:
            if grant.move is not None:
                grant.move.undo()
            put_back(self._conversation, [(entry, self._unit) for entry in grant.entries])


class HeldCall(ReceivingCall[T]):
    """A call whose answer opens something that `release` closes again when nobody takes it."""

    def __init__(self, release: Callable[[T], None]) -> None:
        super().__init__()
        self._release = release

    def unclaimed(self, result: T) -> None:
        self._release(result)
