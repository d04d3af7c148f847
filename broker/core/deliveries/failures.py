"""Record failed attempts with the message (`broker.core.message.handling`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.message.handling import FailureRecord, Handling
from broker.mqi.delivery_fields import failure_text

if TYPE_CHECKING:
    from broker.core.deliveries.delivery import Delivery
    from broker.core.message.entry import Entry
    from broker.core.moment import Moment
    from broker.mqi.delivery_fields import Failure, Settlement

TEXT_MAX: Final = 1024
"""Characters of a name, or of the text of an exception, that are kept."""


def failure_of(entry: Entry) -> FailureRecord:
    """The record of failed attempts of a message that has one."""
    assert entry.handling is not None
    assert entry.handling.failure is not None
    return entry.handling.failure


def failed(delivery: Delivery, entry: Entry, why: str, failure: Failure, moment: Moment) -> FailureRecord:
    """The failure record of a message, after one more failed attempt. It is quarantined no more."""
    handling = entry.handling = entry.handling or Handling()
    record = handling.failure = handling.failure or FailureRecord()
    options = delivery.service.options
    record.handler, record.worker = options.handler[:TEXT_MAX], delivery.worker.name
    record.why, record.feedback = why, 0
    record.exception, record.error = failure.exception[:TEXT_MAX], failure.error[:TEXT_MAX]
    record.traceback = failure.traceback[-options.traceback :] if options.traceback > 0 else ""
    record.last_failed = moment.wall
    record.quarantined = record.exclusive = False
    record.first_failed = record.first_failed or moment.wall
    if not options.history:
        record.history = None
    counts = delivery.service.counts
    counts.last_error, counts.last_error_at = failure_text(record.exception or why, record.error), moment.wall
    return record


def quarantine(entry: Entry) -> None:
    """Record that the message was in flight when its worker went, be it charged for that or not."""
    handling = entry.handling = entry.handling or Handling()
    handling.not_before = 0.0
    record = handling.failure = handling.failure or FailureRecord()
    record.quarantined = True


def postponed(entry: Entry, settlement: Settlement, moment: Moment) -> Entry:
    """The handler wants the message later."""
    handling = entry.handling = entry.handling or Handling()
    if handling.failure is not None:
        handling.failure.quarantined = handling.failure.exclusive = False
    if settlement.counted:
        entry.backout_count += 1
        if handling.failure is None:
            handling.failure = FailureRecord(why="later", first_failed=moment.wall, last_failed=moment.wall)
    elif handling.failure is None:
        handling.failure = FailureRecord(why="later")  # by which its release is told from that of a delayed put
    handling.not_before = moment.wall + max(settlement.seconds, 0.0)
    return entry
