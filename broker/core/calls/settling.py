"""The outcome of a unit of work: it is frozen, once, and settles when its rows are durable or could not be made so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.calls import postponing
from broker.core.calls.gets import dispatch
from broker.core.calls.puts import delaying, sending, stepping
from broker.core.message.logical_order import Instant
from broker.core.message.rows import Rows
from broker.core.queues import unit as units
from broker.core.queues.unit import Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.moment import Moment
    from broker.core.queues.message_queue import MessageQueue
    from broker.core.triggers import Triggers


def commit(manager: Manager, unit: Unit, moment: Moment | None = None, rows: Rows | None = None) -> Rows:
    """Freeze a unit for its commit; return its rows. The reports it causes become part of it now, and only they need a
    `moment`; the bodies they carry must be in memory (`reports.unread`). `rows`: those of units that are written
    together, to which its own are added.
    """
    unit.become(units.COMMITTING)
    if unit.reports:
        assert moment is not None
        sending.send_reports(manager, unit, moment)
    return unit.commit_rows(rows)


def back_out(unit: Unit) -> Rows:
    """Freeze a unit for its backout."""
    unit.become(units.BACKING_OUT)
    unit.restore()
    return give_up(unit)


def give_up(unit: Unit) -> Rows:
    """Freeze the backout of a unit that was frozen for its commit and could not be written."""
    for entry in unit.gets:
        entry.backout_count += 1
    return unit.backout_rows()


def settle(manager: Manager, unit: Unit, *, committed: bool, now: float = 0.0) -> None:
    """Let a frozen unit take effect, all of it in this step. Messages whose time is up at `now` are offered to
    nobody.
    """
    if not committed and unit.state == units.COMMITTING:
        unit.restore()  # as a backout does when it is asked for
    unit.become(units.COMMITTED if committed else units.BACKED_OUT)
    if committed:
        puts = unit.puts if unit.extras is None else _commit_extras(manager, unit, now)
        if manager.delays.taken:
            manager.delays.remove(unit.gets)
        for entry in unit.gets:
            entry.queue.remove(entry)
        if len(puts) == 1:  # as with nearly every put outside syncpoint
            (entry,) = puts
            _arrive(manager.triggers, entry.queue, puts)
            if entry.queue.waiters.count:
                dispatch.offer_one(manager, entry, now)
        elif puts:
            for queue, entries in _runs(puts):
                _arrive(manager.triggers, queue, entries)
            dispatch.offer(manager, puts, now)
    else:
        _undo(manager, unit, now)
    if unit.triggers:
        manager.triggers.over(unit.triggers, committed=committed)


def _undo(manager: Manager, unit: Unit, now: float) -> None:
    """Nothing of the unit has happened."""
    if unit.extras is not None:
        unit.extras.undo()
    for entry in unit.puts:
        entry.queue.withdraw(entry)
    for entry in unit.gets:
        _reinstate(manager, entry)
    dispatch.offer(manager, unit.gets, now)


def give_back(manager: Manager, entry: Entry, now: float) -> None:
    """Let a message that was got leave its open unit, back to its place."""
    unit = entry.unit
    if unit is None or unit.state != units.ACTIVE or entry not in unit.gets:
        return
    unit.forget(entry)
    _reinstate(manager, entry)
    dispatch.offer(manager, (entry,), now)


def put_again(entry: Entry) -> Unit | None:
    """An implicit unit that puts a message, whose removal has settled, back at its place. One that was got while it
    was delayed is delayed again.
    """
    if entry.queue.deleted:
        return None
    unit = Unit()
    entry.backout_count += 1
    entry.queue.counts.backed_out += 1
    entry.queue.place(entry, unit)
    unit.puts.append(entry)
    if entry.handling is not None:
        if entry.delayed:
            entry.queue.delay(entry)
            delaying.join(unit, unit.puts, Instant(wall=entry.handling.not_before))
        stepping.come_back(entry, unit)
    return unit


def _commit_extras(manager: Manager, unit: Unit, now: float) -> list[Entry]:
    """Delay messages put with a delivery instant until then, and let the keys of puts be known to all; what of the
    unit is available now.
    """
    assert unit.extras is not None
    unit.extras.commit(now)
    there, delayed = delaying.take_out(unit)
    for entry, due in delayed:
        postponing.postpone(manager, entry, due)
    return there


def softened(entries: Iterable[Entry]) -> Rows:
    """Return the rows that undo on disk the hardening of these messages. In memory this undoes it at once."""
    rows = Rows()
    for entry in entries:
        if entry.hardened:
            entry.hardened = False
            rows.backouts.append((entry.id, entry.backout_count))
    return rows


def _runs(entries: Sequence[Entry]) -> Sequence[tuple[MessageQueue, Sequence[Entry]]]:
    """Messages by queue, cut where one does not stand behind the one before it."""
    runs, start = [], 0
    for end in range(1, len(entries) + 1):
        before = entries[end - 1]
        if end == len(entries) or entries[end].queue is not before.queue or entries[end].key < before.key:
            runs.append((before.queue, entries[start:end]))
            start = end
    return runs


def _arrive(triggers: Triggers, queue: MessageQueue, entries: Sequence[Entry]) -> None:
    if queue.deleted:
        for entry in entries:
            queue.withdraw(entry)
    else:
        queue.arrive(entries)
        if queue.trigger_on:
            triggers.arrived(queue, entries)


def _reinstate(manager: Manager, entry: Entry) -> None:
    if entry.queue.deleted:
        entry.queue.remove(entry)
    elif entry.handling is not None and entry.delayed:
        postponing.postpone_again(manager, entry)
    else:
        entry.queue.reinstate(entry)
