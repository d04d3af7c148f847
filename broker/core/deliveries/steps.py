"""The steps with which a delivery ends, each a unit of work: frozen, made durable, and settled as any unit is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from broker.core.deliveries import backoff, dead_lettering
from broker.core.deliveries.failures import TEXT_MAX, failure_of
from broker.core.message.generated.generated import descriptor_of
from broker.core.message.handling import FailureRecord
from broker.core.message.rows import Rows
from broker.core.queues import unit as units
from broker.core.queues.unit import Unit
from broker.mqi.constants.descriptor import MQMT
from broker.mqi.delivery_fields import Became, Settled, failure_text
from broker.mqi.errors import MQError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.core.deliveries.delivery import Delivery
    from broker.core.deliveries.history import RecordPlace
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.message.handling import FailureRecord
    from broker.core.moment import Moment
    from broker.mqi.delivery_fields import ServiceOptions, Settlement

    DoneEnd = tuple[Delivery, Settlement, "Step"]
    """The end of a delivery whose handler is done, and its commit."""

    PutRecord = tuple[Entry, RecordPlace]
    """A record of a history, and where it goes."""

_REQUEST: Final = MQMT.REQUEST.value


class Fate(Enum):
    """The fate of the messages of a step."""

    COMMITTED = "committed"
    DELAYED = "delayed"
    RETURNED = "returned"
    DEAD = "dead"
    UNDONE = "undone"  # of other queues: got, or put, by the handler


_COMMITS: Final = (Fate.COMMITTED, Fate.DEAD)


@dataclass(slots=True)
class Step:
    """A frozen unit of work: what it writes, and what it does with which messages of the delivery. `records` are those
    of its puts that are for a history; the first of several steps that are written together has those of all.
    """

    fate: Fate
    unit: Unit
    rows: Rows
    entries: list[Entry]
    records: Sequence[PutRecord] = ()

    @property
    def committed(self) -> bool:
        """True if it is a commit, False if it is a backout."""
        return self.fate in _COMMITS

    @property
    def only_records(self) -> bool:
        """True if it puts nothing but records."""
        return len(self.records) == len(self.unit.puts)

    @property
    def shared(self) -> bool:
        """True if it concerns shared queues."""
        return self.unit.shared is not None or any(entry.queue.shared for entry in self.entries)


@dataclass(slots=True)
class Ending:
    """The steps with which a delivery ends, and the answer to who settled it. `delivery` is None for a message that was
    held for the dead-letter queue. `ran` is for how many seconds the attempt has; None: it has not begun.
    """

    delivery: Delivery | None
    steps: list[Step] = field(default_factory=list)
    answer: Settled = Settled(0, Became.GONE)  # noqa: RUF009  # a tuple
    ran: float | None = None


@dataclass(slots=True)
class JointEnds:
    """Ends of one commit each that are written together: their `rows`, and those `done` of which there is a history."""

    rows: Rows = field(default_factory=Rows)
    done: list[DoneEnd] = field(default_factory=list)


def judge(manager: Manager, ending: Ending, entries: list[Entry], moment: Moment, unit: Unit) -> None:
    """Messages that have been charged are delayed, or their attempts are used up; a group as a whole."""
    delivery = ending.delivery
    assert delivery is not None
    service = delivery.service
    attempts = backoff.attempts(service.options, service.queue)
    back_off(entries, service.options, moment)
    used_up = [
        entry for entry in entries if (attempts is not None and entry.backout_count >= attempts) or _too_late(entry)
    ]
    if service.options.groups and used_up:
        used_up = entries
    left = [entry for entry in entries if entry not in used_up]
    part(manager, ending, left, used_up, moment, unit)


def _too_late(entry: Entry) -> bool:
    """True for a request that would expire before its next attempt: whoever waits for the reply is told so now."""
    assert entry.handling is not None
    return (
        entry.deadline is not None
        and entry.deadline <= entry.handling.not_before
        and descriptor_of(entry).msg_type == _REQUEST
    )


def back_off(entries: Iterable[Entry], options: ServiceOptions, moment: Moment) -> None:
    """Messages are delayed as the options want it; those of a group as long as its first."""
    wait = 0.0
    for number, entry in enumerate(entries):
        if not number or not options.groups:
            wait = backoff.wait_after(options, entry.backout_count, entry.msg_id)
        assert entry.handling is not None
        expired = entry.deadline is not None and entry.expired(moment.wall)
        entry.handling.not_before = 0.0 if expired else moment.wall + wait


def part(
    manager: Manager,
    ending: Ending,
    delayed: list[Entry],
    dead: list[Entry],
    moment: Moment,
    unit: Unit | None = None,
) -> None:
    """Put the delayed and the dead messages into steps of their own; undo the handler's puts."""
    delivery = ending.delivery
    held: list[Entry] = []
    if unit is None:
        assert delivery is not None
        unit = delivery.unit
    if delivery is not None and delivery.service.options.history:
        manager.deliveries.history.plan(delivery, [*delayed, *dead], ending.ran, moment)
    if dead:
        held = _bury(manager, ending, dead, unit, moment)
    if delayed or held:
        first = (held or delayed)[0]
        put_back(ending, unit, [*delayed, *held], Became.HELD if held else Became.DELAYED)
        ending.answer = ending.answer._replace(attempts=first.backout_count)
    elif delivery is not None:
        undo_rest(ending, unit)
    if delivery is not None:
        ending.answer = ending.answer._replace(id=delivery.id)
        delivery.pending = len(ending.steps)


def _bury(manager: Manager, ending: Ending, dead: list[Entry], unit: Unit, moment: Moment) -> list[Entry]:
    """Dead letters in place of these messages, in one unit of work; the messages, when they must be held instead."""
    grave = Unit()
    delivery = ending.delivery
    for entry in dead:
        unit.pass_on(entry, grave)
        if grave.reports.pop(entry, None) is not None:
            grave.calls -= 1
    try:
        for entry in dead:
            record = failure_of(entry)
            target = _target(manager, delivery, entry, record)
            record.target, record.headed = target.q_name, target.headed
            dead_lettering.put(manager, target, entry, record, grave, moment)
    except MQError as error:
        _take_back(manager, grave)
        for entry in dead:
            grave.pass_on(entry, unit)
            record = failure_of(entry)
            record.dead = True
            record.tries += 1
            record.refusal = f"{error}"[:TEXT_MAX]
            assert entry.handling is not None
            entry.handling.not_before = moment.wall + backoff.refused(record.tries)
        if delivery is not None:
            delivery.service.counts.held += len(dead)
        manager.effects.held.append((dead[0].queue.name, failure_of(dead[0]).target, len(dead), error))
        return dead
    records: list[PutRecord] = []
    for entry in dead:
        if failure_of(entry).history is not None:
            records += manager.deliveries.history.dead_lettered(entry, grave, moment)
    rows = manager.commit(grave, moment)
    ending.steps.append(Step(Fate.DEAD, grave, rows, list(dead), records))
    ending.answer = Settled(0, Became.DEAD, attempts=dead[0].backout_count)
    if delivery is not None:
        counts, record = delivery.service.counts, failure_of(dead[0])
        counts.last_error, counts.last_error_at = failure_text(record.exception, record.error), moment.wall
    return []


def _target(
    manager: Manager, delivery: Delivery | None, entry: Entry, record: FailureRecord
) -> dead_lettering.DeadLetterTarget:
    service = manager.deliveries.find(entry.queue) if delivery is None else delivery.service  # type: ignore[arg-type]
    if service is None:
        return dead_lettering.DeadLetterTarget(record.target, headed=record.headed)
    return dead_lettering.target_of(manager, entry.queue, service.options)


def _take_back(manager: Manager, grave: Unit) -> None:
    """Withdraw all that was put into the unit."""
    for put in grave.puts:
        put.queue.withdraw(put)
    manager.triggers.over(grave.triggers, committed=False)
    grave.puts.clear()
    grave.triggers.clear()
    grave.reports.clear()


def put_back(ending: Ending, unit: Unit, entries: list[Entry], became: Became) -> None:
    """Messages go back, delayed until the instant that they have; the rest of what was in the unit is undone."""
    unit = own_unit(ending, entries, unit)
    rows = Rows()
    for entry in entries:
        entry.hardened = False
        assert entry.handling is not None
        if entry.persistence:
            rows.handled.append((entry.id, entry.backout_count, entry.handling.pack()))
    fate = Fate.RETURNED if became is Became.RETURNED else Fate.DELAYED
    freeze(ending, fate, unit, entries, rows)
    handling = entries[0].handling
    next_at = 0.0 if handling is None else handling.not_before
    ending.answer = Settled(
        0 if ending.delivery is None else ending.delivery.id, became, 0, entries[0].backout_count, next_at
    )


def own_unit(ending: Ending, entries: list[Entry], unit: Unit) -> Unit:
    """A unit with these messages alone: what else the handler got and put is backed out in a step before it."""
    if not unit.puts and len(unit.gets) == len(entries):
        return unit
    own = Unit()
    for entry in entries:
        unit.pass_on(entry, own)
    undo_rest(ending, unit)
    return own


def undo_rest(ending: Ending, unit: Unit) -> None:
    """Back out the gets and puts of the handler."""
    if unit.puts or unit.gets or unit.last_puts or unit.last_gets:
        unit.become(units.BACKING_OUT)
        unit.restore()
        for entry in unit.gets:
            entry.backout_count += 1
        ending.steps.append(Step(Fate.UNDONE, unit, unit.backout_rows(), []))


def freeze(ending: Ending, fate: Fate, unit: Unit, entries: list[Entry], rows: Rows) -> None:
    unit.become(units.BACKING_OUT)
    unit.restore()
    ending.steps.append(Step(fate, unit, rows, list(entries)))
    if ending.delivery is not None:
        ending.delivery.pending = len(ending.steps)
