"""Dead letters: messages whose attempts are used up, or that nobody can handle, go to another queue (handlers rule 7).

It stays what it is, but that it does not expire any more; properties of the folder `evermq` say what has happened.
Everywhere but on the queue's own BOQNAME, where programs look for the message itself, an MQDLH stands before the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from broker.core.calls.puts import sending
from broker.core.calls.puts.stepping import FOLDER, STEPS
from broker.core.message import report_options
from broker.core.message.generated import reports
from broker.core.message.generated.dead_letter import dead_letter
from broker.core.message.generated.generated import GeneratedMessage, descriptor_of
from broker.core.message.headers import properties
from broker.core.message.stepped import steps_of
from broker.mqi.errors import MQError
from broker.mqi.layouts import folders, rfh2
from broker.mqi.reasons import MQRC
from broker.mqi.step_fields import pack_steps

if TYPE_CHECKING:
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.message.handling import FailureRecord
    from broker.core.moment import Moment
    from broker.core.queues.message_queue import MessageQueue
    from broker.core.queues.unit import Unit
    from broker.mqi.delivery_fields import ServiceOptions
    from broker.mqi.layouts.folders import Value

REPLAYS: Final = "evermq.replays"
"""The number of times that it was put back from a dead-letter queue: kept, unlike all else in the folder."""

_REASONS: Final = {"unreadable": int(MQRC.FORMAT_ERROR)}
_REASON: Final = int(MQRC.BACKOUT_THRESHOLD_REACHED)


@dataclass(frozen=True, slots=True)
class DeadLetterTarget:
    """The queue for dead letters of a queue; `headed`: an MQDLH stands before them."""

    q_name: str
    headed: bool


def target_of(manager: Manager, queue: MessageQueue, options: ServiceOptions) -> DeadLetterTarget:
    """Return the target by the options, else BOQNAME, DEADQ, or the last resort of the options (handlers rule 7.1)."""
    if options.dead_letter:
        return DeadLetterTarget(options.dead_letter, headed=True)
    backout_q_name = str(queue.definition.attributes["BOQNAME"])
    if backout_q_name:
        return DeadLetterTarget(backout_q_name, headed=False)
    return DeadLetterTarget(
        str(manager.objects.definition.attributes["DEADQ"]) or options.last_dead_letter, headed=True
    )


def reason_of(record: FailureRecord) -> int:
    """Return the reason of the dead letter that is made of a message."""
    return record.feedback or _REASONS.get(record.why, _REASON)


def put(
    manager: Manager, target: DeadLetterTarget, entry: Entry, record: FailureRecord, unit: Unit, moment: Moment
) -> None:
    """Put the dead letter that is made of a message, whose body is in memory, and the exception report that it asks
    for, as part of a unit. Raises why the target takes it not.
    """
    source = entry.queue.name
    if not target.q_name:
        raise MQError(MQRC.UNKNOWN_OBJECT_NAME, f"{source} has no BOQNAME, and the queue manager no DEADQ")
    if target.q_name == source:
        raise MQError(MQRC.OBJECT_IN_USE, f"{source} cannot be its own dead-letter queue")
    if entry.data is None:
        raise MQError(MQRC.OBJECT_DAMAGED, f"the data of the message on {source} cannot be read")
    reason = reason_of(record)
    md = descriptor_of(entry)
    letter = GeneratedMessage(target.q_name, "", md, entry.data, _properties(entry, record, moment))
    if target.headed:
        origin = letter._replace(q_name=source)
        letter = dead_letter(origin, target.q_name, reason, manager.ids, moment.wall)
    before = len(unit.puts)
    sending.put(manager, letter, unit, moment)
    for placed in unit.puts[before:]:
        if placed in unit.reports:  # it has arrived long ago
            unit.reports.pop(placed)
            unit.calls -= 1
    kind = reports.ReportKind(reason, report_options.EXCEPTION)
    if reports.asked(entry, kind):
        sending.send(manager, reports.report_on(entry, kind, manager.ids, moment.wall), unit, moment)


def _properties(entry: Entry, record: FailureRecord, moment: Moment) -> bytes:
    """The properties of the message, with what has happened to it."""
    texts = rfh2.unpack(properties.folders_of(entry.properties)) if entry.properties else []
    own = [text for text in texts if folders.read(text).name == FOLDER]
    reports: dict[str, Value] = {
        "evermq.why": record.why,
        "evermq.queue": entry.queue.name,
        "evermq.handler": record.handler,
        "evermq.worker": record.worker,
        "evermq.attempts": entry.backout_count,
        "evermq.crashes": record.crashes,
        "evermq.first_failed": record.first_failed,
        "evermq.last_failed": record.last_failed,
        "evermq.exception": record.exception,
        "evermq.error": record.error,
        "evermq.traceback": record.traceback,
        "evermq.put_expiry": entry.expiry_left(moment.wall),
    }
    steps = steps_of(entry)
    if steps is not None and steps.values:
        reports[STEPS] = pack_steps(steps.values)
    reports |= {name: value for name, value in folders.decode(own).items() if name == REPLAYS}
    kept = [text for text in texts if folders.read(text).name != FOLDER]
    return rfh2.pack([*kept, *folders.encode(reports)])
