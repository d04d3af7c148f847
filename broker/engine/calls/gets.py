"""The calls of the engine whose answers must not be lost: a get, and what else gives a program something to hold."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from broker.engine.calls.answers import fail, fail_written
from broker.engine.calls.get_answer import NOTHING, PLAIN, delivery
from broker.engine.calls.hardening import harden
from broker.engine.calls.put_back import put_back
from broker.engine.calls.room import BOUNDLESS
from broker.engine.journal.bodies import damaged
from broker.engine.mistakes import contained, mistake
from broker.interface.answers import GetAnswer
from broker.interface.port import Call, T
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.storage.store import DataDamagedError, StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.clock import Timer
    from broker.core.message.entry import Entry
    from broker.core.queues.effects import Grant
    from broker.core.queues.unit import Unit
    from broker.core.queues.waiters import Waiter
    from broker.engine.calls.get_answer import Form
    from broker.engine.conversation import Conversation

_TRUNCATED_FAILED = int(MQRC.TRUNCATED_MSG_FAILED)
_LENGTH = attrgetter("length")


class ReceivingCall(Call[T]):
    """A call that only gives something to the program: cancelled while it is deferred, it is not made at all."""

    receives = True


class WaitingCall(ReceivingCall[T]):
    """A call that may wait for a message, as the owner of a waiter of the core. Up to the grant it may just leave the
    line.
    """

    waiter: Waiter | None = None
    timer: Timer | None = None
    _conversation: Conversation

    @property
    def conversation(self) -> Conversation:
        """The conversation that made the call."""
        return self._conversation

    def cancel(self, msg: object = None) -> bool:
        """Stop waiting at once, so that nothing is granted to a call that has been cancelled."""
        self._stop_waiting()
        return super().cancel(msg)

    def ended(self, reason: int) -> None:
        """The wait is over, without a message."""
        self._stop_waiting()
        if not self.done():
            self._conversation.context.figures.calls.failed(reason)
        fail(self, reason)

    def _stop_waiting(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        waiter, self.waiter = self.waiter, None
        if waiter is not None and waiter.fifo is not None:  # else it has been served
            self._conversation.core.stop_waiting(waiter)


class Got:
    """The messages that a call has got and its program has not taken yet, when the answer is on its way."""

    __slots__ = ("_conversation", "_got", "_grants")

    def __init__(self, conversation: Conversation, grants: list[Grant], got: list[tuple[Entry, Unit]]) -> None:
        self._conversation = conversation
        self._grants = grants
        self._got = got

    def take(self) -> None:
        """The answer has reached the program."""
        self._grants, self._got = [], []

    def abandon(self) -> None:
        """Nobody takes the answer: put everything back."""
        grants, self._grants = self._grants, []
        got, self._got = self._got, []
        _undo(self._conversation, grants, got)


class GettingCall(WaitingCall[T]):
    """A call that gets messages, on its way: they are granted, have their bodies fetched, and their removal or their
    hardening made durable; then it is answered.

    It may be cancelled at each of these moments, and after the answer be abandoned. Up to the grant it just leaves the
    line. From then on its messages are out of everybody's sight, and go back to their places, at once, if nobody takes
    the answer.
    """

    form: Form = PLAIN
    """The form of the messages, known once the call is made."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self._conversation = conversation
        self._grants: list[Grant] = []
        self._got: list[tuple[Entry, Unit]] = []  # what goes back if nobody takes the answer
        self._implicit: Unit | None = None  # what of it is outside syncpoint
        self._deliveries: list[GetAnswer] = []

    def handed(self, grant: Grant) -> None:
        """A message whose removal has taken effect with its put: answer."""
        self._stop_waiting()
        assert grant.unit is not None
        self._grants.append(grant)
        self._got = [(entry, grant.unit) for entry in grant.entries]
        self._deliver()
        self._reply()

    def cancel(self, msg: object = None) -> bool:
        """Put back at once what it has got by now: a commit that comes next does not remove it."""
        cancelled = super().cancel(msg)
        if cancelled:
            self._undo()
        return cancelled

    def take(self) -> None:
        self._grants, self._got = [], []

    def unclaimed(self, result: T) -> None:
        self._undo()

    @property
    def receipt(self) -> Got:
        return Got(self._conversation, self._grants, self._got)

    def spoiled(self, error: MQError) -> None:
        """A step of this call has failed by a mistake of ours."""
        self._stop_waiting()
        contained(self._undo)
        fail(self, error.reason, error.detail)

    def _answer(self) -> None:
        """Answer with the deliveries."""
        raise NotImplementedError

    def _keep(self, grant: Grant) -> None:
        self._grants.append(grant)
        self._got += [(entry, entry.unit) for entry in grant.entries if entry.unit is not None]

    def _hold(self, size: int) -> None:
        """Tell the room that so many bytes have been got."""
        room = self._conversation.room
        if room is not BOUNDLESS:
            held, self.held = self.held, size
            room.got(size - held)

    def _hold_all(self) -> None:
        self._hold(sum(map(_LENGTH, self._grants)))

    def _collect_one(self, grant: Grant) -> None:
        """`_keep` and `_collect` for a call that gets one message, in one piece."""
        (entry,) = grant.entries
        self._grants = [grant]
        if entry.unit is not None:
            self._got = [(entry, entry.unit)]
        self._implicit = grant.unit
        self._hold(entry.length)
        if entry.data is None:
            self._conversation.context.bodies.fetch(grant.entries, self._fetched)
        elif grant.unit is None and entry.queue.hardens_backout:
            self._secure()
        else:
            self._deliveries = [delivery(grant, self.form, self._conversation.context.clock.time())]
            if grant.unit is None:
                self._reply()
            else:
                self._conversation.call_order.commit(grant.unit, self._removed)

    def _collect(self) -> None:
        """Nothing more is got: one implicit unit of work for what is outside syncpoint, then the bodies."""
        self._hold_all()
        for grant in self._grants:
            if self._implicit is None:
                self._implicit = grant.unit
            elif grant.unit is not None:
                self._implicit.take_over(grant.unit)
        self._got = [(entry, entry.unit) for entry, _ in self._got if entry.unit is not None]
        self._read()

    def _read(self) -> None:
        """See to it that all bodies are in memory."""
        entries = [entry for grant in self._grants for entry in grant.entries]
        if any(entry.data is None for entry in entries):
            self._conversation.context.bodies.fetch(entries, self._fetched)
        else:
            self._secure()

    def _fetched(self, error: Exception | None) -> None:
        """The bodies are in memory, or cannot be read."""
        if error is not None and not isinstance(error, DataDamagedError):
            fail_written(self, error, MQRC.CONNECTION_BROKEN)
        elif not self.done():
            try:
                if error is None:
                    self._secure()
                else:
                    self._met_damage(error)
            except Exception as wrong:
                self.spoiled(mistake(wrong, "a get"))

    def _met_damage(self, error: DataDamagedError) -> None:
        """Bodies are damaged (semantics 5.10). The answer is what comes before the first of these messages: the next
        call will meet that. Where nothing does, the message is set aside and the call fails.
        """
        place = next(place for place, grant in enumerate(self._grants) if damaged(grant.entries, error))
        alone = self._go_back(max(place, 1))
        if alone and place:
            self._read()
            return
        refused = [
            self._conversation.context.set_aside(entry, error) for entry in damaged(self._grants[place].entries, error)
        ]
        if not alone:
            del self._grants[place]
        if alone or not self._grants:
            self._undo()
            fail(self, refused[0].reason, refused[0].detail)
        else:
            self._read()

    def _go_back(self, count: int) -> bool:
        """Let all but the first `count` messages go back; False when they are browsed, and that cannot be undone."""
        grants = self._grants[count:]
        if not grants:
            return True
        if not (grants[0].destructive or self._browse_back(count)):
            return False
        entries = {entry for grant in grants for entry in grant.entries}
        got = [each for each in self._got if each[0] in entries]
        self._grants = self._grants[:count]
        self._got = [each for each in self._got if each[0] not in entries]
        _undo(self._conversation, grants, got)
        self._hold_all()
        return True

    def _browse_back(self, count: int) -> bool:
        """Put the browse cursor back to where the first `count` messages left it, if that can be done."""
        return False

    def _secure(self) -> None:
        """Make what the answer stands for durable: the hardening (journal rule 8), then the removal."""
        self._deliver()
        held = (entry for entry, unit in self._got if unit is not self._implicit)
        if not harden(self._conversation.context.journal, held, self._hardened):
            self._remove()

    def _hardened(self, error: Exception | None) -> None:
        """It is on disk that the messages are in somebody's hands, or could not be written."""
        if error is None:
            if not self.done():
                try:
                    self._remove()
                except Exception as wrong:
                    self.spoiled(mistake(wrong, "a get"))
            return
        if isinstance(error, StoreFullError):
            self._undo()
        fail_written(self, error, MQRC.STORAGE_MEDIUM_FULL)

    def _remove(self) -> None:
        if self._implicit is not None:
            self._conversation.call_order.commit(self._implicit, self._removed)
        else:
            self._reply()

    def _removed(self, error: Exception | None) -> None:
        """The implicit unit is over."""
        if error is not None:
            fail_written(self, error, MQRC.STORAGE_MEDIUM_FULL)
            return
        try:
            if not self.done():
                self._answer()
        except Exception as wrong:
            self.spoiled(mistake(wrong, "a get"))

    def _deliver(self) -> None:
        now = self._conversation.context.clock.time()
        if len(self._grants) == 1:
            self._deliveries = [delivery(self._grants[0], self.form, now)]
        else:
            self._deliveries = [delivery(grant, self.form, now) for grant in self._grants]

    def _reply(self) -> None:
        if not self.done():
            self._answer()

    def _undo(self) -> None:
        """Put everything back."""
        grants, self._grants = self._grants, []
        got, self._got = self._got, []
        _undo(self._conversation, grants, got)


class GetCall(GettingCall[GetAnswer]):
    """An MQGET."""

    def granted(self, grant: Grant) -> None:
        """A message, or the answer to UNLOCK, which is none."""
        if self.waiter is not None:
            self._stop_waiting()
        if len(grant.entries) == 1:
            self._collect_one(grant)
        elif grant.entries:
            self._keep(grant)
            self._collect()
        else:
            self.set_result(NOTHING._replace(reason=grant.reason))

    def _answer(self) -> None:
        (answer,) = self._deliveries
        if answer.reason == _TRUNCATED_FAILED:
            self.set_exception(MQError(_TRUNCATED_FAILED, f"the message has {answer.length} bytes", message=answer))
        else:
            self.set_result(answer)


class HeldCall(ReceivingCall[T]):
    """A call whose answer opens something that `release` closes again when nobody takes it."""

    def __init__(self, release: Callable[[T], None]) -> None:
        super().__init__()
        self._release = release

    def unclaimed(self, result: T) -> None:
        self._release(result)


def _undo(conversation: Conversation, grants: list[Grant], got: list[tuple[Entry, Unit]]) -> None:
    for grant in reversed(grants):
        if grant.move is not None:
            grant.move.undo()
    put_back(conversation, got)


def spoil(call: Call[Any], error: MQError) -> None:
    """A call has failed by a mistake of ours: it is answered with that, and what it has got goes back."""
    if isinstance(call, GettingCall):
        call.spoiled(error)
    else:
        fail(call, error.reason, error.detail, error.records)
