"""The puts that the queue manager makes of its own accord, outside every unit of work: expiration reports, event
messages and trigger messages.

The core has taken expired messages off their queues already. Their removal and the reports on them are written in one
transaction (journal rule 9): after a crash before it a message is there again, expired as before, and its report is
made then. Where a report carries data that is only on disk, it is read first, a run of messages at a time; where that
is damaged, the report comes without data.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.core.calls.puts import sending
from broker.core.message.generated.reports import EXPIRATION, unread
from broker.engine.journal.bodies import RUN_LENGTH, damaged, tell_damage
from broker.engine.journal.pending_unit import PendingUnit
from broker.engine.mistakes import mistake
from broker.storage.store import DataDamagedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.core.message.entry import Entry
    from broker.core.message.generated.generated import GeneratedMessage
    from broker.core.message.generated.trigger_message import TriggerMessage
    from broker.core.message.rows import Rows
    from broker.core.queues.effects import Effects
    from broker.core.queues.unit import Unit
    from broker.engine.calls.call_order import CallOrder
    from broker.engine.context import EngineContext

logger = logging.getLogger(__name__)


class Outbox:
    """Carries out what the core leaves to be removed, sent or told."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context

    def send(self, effects: Effects, caller: CallOrder | None) -> None:
        """Write off what expired, put trigger messages, send the events, tell what was lost. Calls of `caller` that
        look at queues wait for it.
        """
        if effects.expired:
            self._take(self._write_off, effects.expired, done=_done_for(caller))
        if effects.triggered:
            self._take(self._trigger, effects.triggered, done=_done_for(caller))
        if effects.generated:
            self._take(self._publish, effects.generated, done=_done_for(caller))
        for message, error in effects.lost:
            logger.warning("message lost queue=%s feedback=%s: %s", message.q_name, message.md.feedback, error)

    def _take(self, step: Callable[..., None], *arguments: Any, done: Callable[[], None]) -> None:
        """Take a step that leads to `done`, now or later. One that fails by a mistake of ours is over: nobody waits for
        it for good.
        """
        try:
            step(*arguments, done)
        except Exception as error:
            mistake(error, "the outbox of the queue manager")
            done()

    def _trigger(self, messages: Sequence[TriggerMessage], done: Callable[[], None]) -> None:
        """Put trigger messages. They are nonpersistent, and there at once."""
        self._put(partial(sending.trigger, self._context.core, messages, self._context.moment()), done)

    def _publish(self, messages: Sequence[GeneratedMessage], done: Callable[[], None]) -> None:
        """Send the events that have gathered."""
        self._put(partial(sending.publish, self._context.core, messages, self._context.moment()), done)

    def _write_off(self, expired: Sequence[Entry], done: Callable[[], None]) -> None:
        """Remove discarded messages and put the reports on them; call `done` when that has taken effect."""
        for entry in expired:
            self._context.bodies.gone(entry)
        on_disk = unread((entry, EXPIRATION) for entry in expired)
        if not on_disk:
            self._write(expired, done)
            return
        left_out = set(on_disk)
        others = [entry for entry in expired if entry not in left_out]
        self._write(others, partial(self._take, self._read, on_disk, done=done))

    def _read(self, entries: Sequence[Entry], done: Callable[[], None]) -> None:
        """Go on with messages whose bodies are to be read."""
        run, rest = entries[:RUN_LENGTH], entries[RUN_LENGTH:]

        def fetched(error: Exception | None) -> None:
            if error is None:
                then = partial(self._take, self._read, rest, done=done) if rest else done
                self._take(self._write, run, done=then)
            elif isinstance(error, DataDamagedError):
                self._without_data(entries, damaged(run, error), error, done)
            else:
                logger.error("expired messages not removed messages=%d: %s", len(entries), error)
                done()

        self._context.bodies.fetch(list(run), fetched)

    def _without_data(
        self, entries: Sequence[Entry], without: Sequence[Entry], error: DataDamagedError, done: Callable[[], None]
    ) -> None:
        """The reports on some of these messages come without data, since that is damaged; the others as they should."""
        for entry in without:
            tell_damage(entry, str(error))
        left_out = set(without)
        others = [entry for entry in entries if entry not in left_out]
        self._take(self._write, without, done=partial(self._take, self._write_off, others, done=done))

    def _write(self, expired: Sequence[Entry], then: Callable[[], None]) -> None:
        self._put(partial(sending.write_off, self._context.core, expired, self._context.moment()), then)
        if self._context.core.effects.unrecorded:
            self._context.deliveries.report_unrecorded()

    def _put(self, make: Callable[[], tuple[Unit, Rows]], then: Callable[[], None]) -> None:
        """Put, and settle when it is durable. What goes to shared queues is there first: should this queue manager fail
        before the rest is written, it is put once more.
        """
        unit, rows = make()
        if unit.shared is None:
            self._submit(unit, rows, then)
        else:
            self._context.settle(unit, committed=False)
            self._context.member.puts.send(make, partial(self._submit, then=then))

    def _submit(self, unit: Unit, rows: Rows, then: Callable[[], None]) -> None:
        """Settle a frozen unit when it is durable, at once if it writes nothing."""
        pending = PendingUnit(unit, rows, lambda _: then(), committed=True, reveals=True)
        if rows:
            self._context.journal.submit(rows, partial(self._written, pending))
        else:
            self._written(pending, None)

    def _written(self, pending: PendingUnit, error: Exception | None) -> None:
        pending.then(pending.settle(self._context, error))


def _done_for(caller: CallOrder | None) -> Callable[[], None]:
    return _nobody_waits if caller is None else caller.reveal()


def _nobody_waits() -> None:
    """It was no program's call that led to this."""
