"""The end of a delivery: what becomes of its messages and of what its handler has put (handlers rule 1).

A delivery ends in steps, each a unit of work: what is committed, what goes back delayed or at once, what goes to the
dead-letter queue, and what the handler has put and is not to be seen. A step is frozen, made durable, and settled, as
any unit is; the delivery is over with the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.calls import expiring
from broker.core.calls.settling import softened
from broker.core.deliveries import backoff, finishing
from broker.core.deliveries.failures import TEXT_MAX, failed, failure_of, postponed, quarantine
from broker.core.deliveries.steps import (
    Ending,
    Fate,
    JointEnds,
    Step,
    back_off,
    freeze,
    judge,
    own_unit,
    part,
    put_back,
    undo_rest,
)
from broker.core.message.entry import AVAILABLE
from broker.core.message.handling import FailureRecord, Handling
from broker.core.message.rows import Rows
from broker.core.queues.unit import Unit
from broker.mqi.delivery_fields import DONE, NO_FAILURE, Became, Outcome, Settled, Settlement
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.deliveries.delivery import Delivery
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.moment import Moment
    from broker.mqi.delivery_fields import Failure

_FULL: Final = int(MQRC.STORAGE_MEDIUM_FULL)
_GONE: Final = Became.GONE  # as `DONE`
_COMMITTED, _RETURNED, _DEAD = Fate.COMMITTED, Fate.RETURNED, Fate.DEAD


def end(
    manager: Manager,
    delivery: Delivery,
    settlement: Settlement,
    moment: Moment,
    together: JointEnds | None = None,
) -> Ending:
    """A delivery ends as its worker says. Bodies that a dead letter or a report needs are in memory.

    `together`, for an end that is one commit: the ends that it is written with.
    """
    counts = delivery.service.counts
    counts.running -= len(delivery.entries)
    counts.ran.add(settlement.ran)
    outcome = settlement.outcome
    if outcome == DONE:
        return done(manager, delivery, settlement, moment, together)
    if outcome == Outcome.RETURNED:
        return _returned(delivery)
    ending = Ending(delivery, ran=settlement.ran)
    entries = delivery.entries
    if outcome == Outcome.LATER:
        counts.later += len(entries)
        if settlement.failure != NO_FAILURE:
            delivery.service.could_not_begin(settlement.failure, moment.wall)
        delayed = [postponed(entry, settlement, moment) for entry in entries]
        attempts = backoff.attempts(delivery.service.options, delivery.service.queue)
        over = settlement.counted and attempts is not None and any(each.backout_count >= attempts for each in entries)
        part(manager, ending, [] if over else delayed, delayed if over else [], moment)
    elif outcome == Outcome.FAILED and finishing.refused(entries):
        _refused_step(manager, ending, moment)
    elif outcome == Outcome.FAILED or (outcome == Outcome.UNREADABLE and delivery.service.options.retry_unreadable):
        counts.failed += len(entries)
        counts.timed_out += settlement.timed_out * len(entries)
        why = "timed_out" if settlement.timed_out else "failed"
        _charge(manager, ending, entries, why, settlement.failure, moment)
    else:
        unreadable = outcome == Outcome.UNREADABLE
        if unreadable:
            counts.unreadable += len(entries)
        else:
            counts.rejected += len(entries)
        for entry in entries:
            entry.backout_count += 1
            record = failed(delivery, entry, "unreadable" if unreadable else "rejected", settlement.failure, moment)
            record.feedback = settlement.feedback
        part(manager, ending, [], entries, moment)
    return ending


def _refused_step(manager: Manager, ending: Ending, moment: Moment) -> None:
    """The store had no room for a step: the message waits uncharged, as where it has none for a commit."""
    delivery = ending.delivery
    assert delivery is not None
    service, entries = delivery.service, delivery.entries
    service.counts.returned += len(entries)
    for entry in entries:
        tries = service.refusals[entry.key] = service.refusals.get(entry.key, 0) + 1
        postponed(entry, Settlement(delivery.id, Outcome.LATER.value, seconds=backoff.refused(tries)), moment)
    part(manager, ending, entries, [], moment)
    ending.answer = ending.answer._replace(reason=_FULL)


def give_back(manager: Manager, delivery: Delivery) -> Ending:
    """A delivery ends as if it had not been taken: its connection has ended in order, or nobody took the answer."""
    delivery.service.counts.running -= len(delivery.entries)
    return _returned(delivery)


def bury(manager: Manager, delivery: Delivery, moment: Moment) -> Ending:
    """Messages whose attempts were used up before a handler began (handlers rule 1.3)."""
    for entry in delivery.entries:
        handling = entry.handling
        failure = None if handling is None else handling.failure
        if failure is not None and failure.exclusive:  # the queue manager ended while it ran alone: that says why
            failure.handler = failure.handler or delivery.service.options.handler[:TEXT_MAX]
        elif failure is None or not failure.dead:
            record = failed(delivery, entry, "backed_out", NO_FAILURE, moment)
            record.error = record.error or f"backed out {entry.backout_count} times"
    ending = Ending(delivery)
    part(manager, ending, [], delivery.entries, moment)
    return ending


def crash(manager: Manager, deliveries: Sequence[Delivery], moment: Moment, *, suspected: bool = False) -> list[Ending]:
    """A worker has gone with these in flight (handlers rule 1.4). All are quarantined; charged are those that were it
    before, or all, if none was; the others go back. `suspected`: it had one more that was, which is prepared.
    """
    quarantined = [delivery for delivery in deliveries if delivery.quarantined]
    charged = set(map(id, quarantined or ([] if suspected else deliveries)))
    return [
        lost(manager, each, moment, charged=id(each) in charged, alone=each.service.exclusive is each)
        for each in deliveries
    ]


def lost(manager: Manager, delivery: Delivery, moment: Moment, *, charged: bool, alone: bool) -> Ending:
    """The worker of a delivery has gone: its messages are quarantined, and charged or not. Only where it was `alone`
    can they be given up.
    """
    counts, service = delivery.service.counts, delivery.service
    counts.running -= len(delivery.entries)
    ending = Ending(delivery, ran=moment.tick - delivery.since)
    if not charged:
        for entry in delivery.entries:
            quarantine(entry)
        if service.options.history:
            manager.deliveries.history.plan(delivery, delivery.entries, ending.ran, moment)
        put_back(ending, delivery.unit, delivery.entries, Became.RETURNED)
        return ending
    counts.crashed += len(delivery.entries)
    attempts = backoff.attempts(service.options, service.queue)
    over = False
    for entry in delivery.entries:
        entry.backout_count += 1
        record = failed(delivery, entry, "crashed", NO_FAILURE, moment)
        record.quarantined = True
        record.crashes += 1
        record.error = "the worker went while it handled the message"
        used_up = attempts is not None and entry.backout_count >= attempts
        over = over or used_up or record.crashes >= service.options.crashes
    if not (over and alone):
        back_off(delivery.entries, service.options, moment)
    dead = delivery.entries if over and alone else []
    part(manager, ending, [] if dead else delivery.entries, dead, moment)
    return ending


def charge_marked(marked: Sequence[tuple[Entry, bool]], now: float) -> Rows:
    """Charge messages that handlers in this process had when the queue manager ended, each with True if it was alone.
    They are judged as in any crash (handlers rule 1.4), before anybody serves their queues. Return the rows to write.
    """
    quarantined = [
        entry for entry, _ in marked if entry.handling and entry.handling.failure and entry.handling.failure.quarantined
    ]
    charged = set(map(id, quarantined or [entry for entry, _ in marked]))
    rows = Rows()
    for entry, exclusive in marked:
        quarantine(entry)
        if id(entry) in charged:
            entry.backout_count += 1
            record = failure_of(entry)
            record.first_failed = record.first_failed or now
            record.why, record.error = "crashed", "the queue manager ended while its handler ran"
            record.crashes += 1
            record.exclusive = exclusive
            record.last_failed = now
        assert entry.handling is not None
        rows.handled.append((entry.id, entry.backout_count, entry.handling.pack()))
    return rows


def bury_again(manager: Manager, entry: Entry, moment: Moment) -> Ending:
    """A message that is held for the dead-letter queue is tried once more (handlers rule 7.3)."""
    unit = Unit()
    entry.queue.take(entry, unit, moment.wall)
    unit.gets[entry] = True
    ending = Ending(None)
    part(manager, ending, [], [entry], moment, unit)
    return ending


def refuse(manager: Manager, step: Step, ending: Ending, moment: Moment) -> Rows:
    """The store has no room for a commit: its messages are delayed for a while, uncharged (handlers rule 1). Before the
    step is settled as a backout. What takes back on disk that they are in somebody's hands: that needs no room.
    """
    delivery = ending.delivery
    for entry in step.entries:
        handling = entry.handling = entry.handling or Handling()
        if handling.failure is None:
            handling.failure = FailureRecord()  # it has been tried: so it holds its order, and asks for a start again
        if step.fate is _DEAD:
            handling.failure.dead = True
            handling.failure.tries += 1
            tries = handling.failure.tries
        elif delivery is not None:
            refusals = delivery.service.refusals
            tries = refusals[entry.key] = refusals.get(entry.key, 0) + 1
        else:
            tries = 1
        handling.not_before = moment.wall + backoff.refused(tries)
        ending.answer = ending.answer._replace(became=Became.DELAYED, reason=_FULL, next_at=handling.not_before)
    if delivery is not None and delivery.service.options.history and step.fate is not _DEAD:
        manager.deliveries.history.plan(delivery, step.entries, ending.ran, moment)
    return softened(step.entries)


def settled(manager: Manager, ending: Ending, step: Step, moment: Moment, *, undone: bool) -> None:
    """A step has settled; `undone`: it was a commit that the store had no room for."""
    delivery, entries = ending.delivery, step.entries
    if delivery is not None:
        _count(delivery, step, undone=undone)
    if step.fate is _DEAD and not undone:
        for entry in entries:
            record = failure_of(entry)
            own = None if delivery is None else delivery.service.counts
            (own or manager.deliveries.counts_of(entry.queue.name, record.handler)).bury(record.why)
    if step.fate is _RETURNED and not entries[0].queue.deleted:
        manager.triggers.again(entries[0].queue, len(entries))
    late = [each for each in entries if each.state == AVAILABLE and each.expired(moment.wall)]
    if late:
        expiring.discard(manager, late)
        ending.answer = ending.answer._replace(became=Became.EXPIRED)
    ending.steps.remove(step)
    if delivery is not None:
        delivery.pending = len(ending.steps)
        if not ending.steps:
            manager.deliveries.over(delivery)


def _count(delivery: Delivery, step: Step, *, undone: bool) -> None:
    """Count what has become of the messages of a step."""
    counts, refusals, number = delivery.service.counts, delivery.service.refusals, len(step.entries)
    if step.fate is _RETURNED or (undone and step.fate is _COMMITTED):
        counts.returned += number
    elif step.fate is _COMMITTED:
        counts.succeeded += number
        if refusals:
            for entry in step.entries:
                refusals.pop(entry.key, None)


# The steps


def done(
    manager: Manager,
    delivery: Delivery,
    settlement: Settlement,
    moment: Moment,
    together: JointEnds | None = None,
) -> Ending:
    """The handler has returned: commit, but for the messages of a batch that failed alone."""
    ending = Ending(delivery, answer=Settled(delivery.id, _GONE), ran=settlement.ran)
    unit, entries = delivery.unit, delivery.entries
    if settlement.failed:
        failing = charge_failing(delivery, settlement, moment)
        entries = [entry for entry in entries if entry not in failing]
        apart = Unit()
        for entry in failing:
            unit.pass_on(entry, apart)
        judge(manager, ending, failing, moment, apart)
        if not entries:  # all have failed, and with them what the handler has put
            undo_rest(ending, unit)
            delivery.pending = len(ending.steps)
            return ending
        ending.answer = ending.answer._replace(became=_GONE)
    rows = manager.commit(unit, moment, None if together is None else together.rows)
    step = Step(_COMMITTED, unit, rows, entries)
    ending.steps.append(step)
    if delivery.service.options.history:
        if together is None:
            manager.deliveries.history.succeeded([(delivery, settlement, step)], rows, moment)
        else:
            together.done.append((delivery, settlement, step))
    delivery.pending = len(ending.steps)
    return ending


def charge_failing(delivery: Delivery, settlement: Settlement, moment: Moment) -> list[Entry]:
    """Charge the messages of a batch that failed alone; return them."""
    pieces = delivery.pieces()
    failing: list[Entry] = []
    for place, failure in settlement.failed:
        for entry in pieces[place] if 0 <= place < len(pieces) else ():
            if entry in delivery.unit.gets and entry not in failing:
                failing.append(entry)
                entry.backout_count += 1
                failed(delivery, entry, "failed", failure, moment)
    delivery.service.counts.failed += len(failing)
    return failing


def _returned(delivery: Delivery) -> Ending:
    """As if it had not been taken, at once."""
    ending = Ending(delivery)
    unit = own_unit(ending, delivery.entries, delivery.unit)
    for entry in delivery.entries:
        if entry.handling is not None:
            entry.handling.not_before = 0.0
    freeze(ending, _RETURNED, unit, delivery.entries, softened(delivery.entries))
    ending.answer = Settled(delivery.id, Became.RETURNED, attempts=delivery.entries[0].backout_count)
    return ending


def _charge(manager: Manager, ending: Ending, entries: list[Entry], why: str, failure: Failure, moment: Moment) -> None:
    """An attempt has failed: count it, and judge."""
    delivery = ending.delivery
    assert delivery is not None
    for entry in entries:
        entry.backout_count += 1
        failed(delivery, entry, why, failure, moment)
    judge(manager, ending, entries, moment, delivery.unit)
