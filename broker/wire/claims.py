"""The calls about claims and prepared units as fields of frames: their arguments, and their answers.

What there may be many of is one byte string of records, little-endian: the cuts of a range, the winners of a batch, the
units to discard. So is a frame of columns, which only the ends take apart (`broker.interface.columns`).
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from broker.interface.claims import (
    ConsumerState,
    Cut,
    Publication,
    QueueRange,
    Registration,
    Staged,
    UnitName,
    Wanted,
    Winner,
)
from broker.mqi.checks import identifier
from broker.mqi.errors import MQError
from broker.mqi.names import NAME_LENGTH
from broker.mqi.reasons import MQRC
from broker.wire.frames import Frame, Verb
from broker.wire.values import data, flag, long, number, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from broker.interface.port import Call, Port

_UUID_MAX: Final = 64
_QUERY_MAX: Final = 1024
_ATTEMPT_BYTES: Final = 16
_UNIT: Final = Struct(f"<hqi{_ATTEMPT_BYTES}s")  # place of its sink, batch, partition, attempt
_WINNER: Final = Struct(f"<qi{_ATTEMPT_BYTES}sq")  # batch, partition, attempt, rows
_CUT: Final = Struct("<qqq")


# The client's side: what does not go as it is.


def packed_winners(winners: Iterable[Winner]) -> bytes:
    """Winners as PUBLISH carries them, which names their sink once."""
    return b"".join([_packed(_WINNER, *winner.unit[1:], winner.rows) for winner in winners])


def packed_units(units: Iterable[UnitName]) -> tuple[list[str], bytes]:
    """Units as DISCARD carries them: the sinks, and the units, each with the place of its sink among them."""
    sinks: dict[str, int] = {}
    packed = [_packed(_UNIT, sinks.setdefault(sink, len(sinks)), *others) for sink, *others in units]
    return list(sinks), b"".join(packed)


def _packed(record: Struct, *fields: Any) -> bytes:
    try:
        return record.pack(*fields)
    except struct.error as cause:
        raise TypeError(f"{fields} cannot name a prepared unit: {cause}") from cause


# The queue manager's side: arguments.


def _consumer(port: Port, name: Any, q_names: Any) -> Call[Any]:
    return port.consumer(_name(name, "the name of the consumer"), _names(q_names))


def _register(port: Port, uuid: Any, lineage: Any, start: Any, end: Any, resume: Any) -> Call[Any]:
    return port.register(
        _uuid(uuid),
        None if lineage is None else _lineage(lineage),
        None if start is None else number(start, "the start"),
        None if end is None else number(end, "the end"),
        resume=flag(resume, "REGISTER", "to resume"),
    )


def _claim(port: Port, uuid: Any, generation: Any, *items: Any) -> Call[Any]:
    start, messages, size, before, whole = items
    return port.claim(
        *_reader(uuid, generation),
        number(start, "the start"),
        number(messages, "the number of messages"),
        number(size, "the number of bytes"),
        before=None if before is None else number(before, "the arrival number"),
        whole=flag(whole, "CLAIM", "to claim whole groups"),
    )


def _pin(port: Port, uuid: Any, generation: Any, lineage: Any, start: Any, end: Any) -> Call[Any]:
    reader = _reader(uuid, generation)
    return port.pin(*reader, _lineage(lineage), number(start, "the start"), number(end, "the end"))


def _read_claimed(port: Port, uuid: Any, generation: Any, after: Any, last: Any) -> Call[Any]:
    return port.read_claimed(*_reader(uuid, generation), number(after, "the sequence"), number(last, "the sequence"))


def _acknowledge(port: Port, uuid: Any, generation: Any, to: Any) -> Call[Any]:
    return port.acknowledge(*_reader(uuid, generation), number(to, "the sequence"))


def _release(port: Port, uuid: Any, generation: Any) -> Call[Any]:
    return port.release(*_reader(uuid, generation))


def _queue_ranges(port: Port, q_names: Any) -> Call[Any]:
    return port.queue_ranges(_names(q_names))


def _browse_range(port: Port, q_name: Any, after: Any, last: Any, *identifiers: Any) -> Call[Any]:
    msg_id, correl_id, group_id = identifiers
    wanted = Wanted(
        identifier(msg_id, "msg_id", MQRC.MSG_ID_ERROR),
        identifier(correl_id, "correl_id", MQRC.CORREL_ID_ERROR),
        identifier(group_id, "group_id", MQRC.GROUP_ID_ERROR),
    )
    name, numbers = _name(q_name, "the name"), (number(after, "the number"), number(last, "the number"))
    return port.browse_range(name, *numbers, wanted)


def _browse_cuts(port: Port, q_name: Any, after: Any, last: Any, messages: Any, size: Any) -> Call[Any]:
    numbers = number(after, "the number"), number(last, "the number")
    limits = number(messages, "the number of messages"), number(size, "the number of bytes")
    return port.browse_cuts(_name(q_name, "the name"), *numbers, *limits)


def _sink(port: Port, name: Any) -> Call[Any]:
    return port.sink(_name(name, "the name of the sink"))


def _stage(port: Port, *items: Any) -> Call[Any]:
    sink, batch, partition, attempt, query, first, options, last, rows = items
    if type(attempt) is not bytes or len(attempt) != _ATTEMPT_BYTES:
        raise MQError(MQRC.OPTIONS_ERROR, f"the attempt is not {_ATTEMPT_BYTES} bytes")
    name, numbers = (
        _name(sink, "the name of the sink"),
        (number(batch, "the batch"), number(partition, "the partition")),
    )
    return port.stage(
        UnitName(name, *numbers, attempt),
        _query(query),
        number(first, "the first index"),
        data(rows),
        options=long(options, MQRC.OPTIONS_ERROR, "the options"),
        last=flag(last, "STAGE", "that this piece is the last"),
    )


def _publish(port: Port, sink: Any, batch: Any, query: Any, winners: Any) -> Call[Any]:
    sink = _name(sink, "the name of the sink")
    named = [Winner(UnitName(sink, *unit), rows) for *unit, rows in _records(_WINNER, winners, "the winners")]
    return port.publish(sink, number(batch, "the batch"), _query(query), named)


def _discard(port: Port, sinks: Any, units: Any) -> Call[Any]:
    if type(sinks) is not list:
        raise MQError(MQRC.OBJECT_NAME_ERROR, "the names of sinks are not a list")
    names = [_name(sink, "the name of a sink") for sink in sinks]
    records = _records(_UNIT, units, "the units")
    if any(not 0 <= place < len(names) for place, *_ in records):
        raise MQError(MQRC.OPTIONS_ERROR, "a unit is of none of the sinks that are named")
    return port.discard([UnitName(names[place], *unit) for place, *unit in records])


def _reader(uuid: Any, generation: Any) -> tuple[str, int]:
    return _uuid(uuid), number(generation, "the generation")


def _uuid(value: Any) -> str:
    return text(value, _UUID_MAX, MQRC.NO_SUBSCRIPTION, "the uuid of the consumer")


def _lineage(value: Any) -> str:
    return text(value, _UUID_MAX, MQRC.OPTIONS_ERROR, "the lineage")


def _query(value: Any) -> str | None:
    return None if value is None else text(value, _QUERY_MAX, MQRC.OPTIONS_ERROR, "the query")


def _name(value: Any, what: str) -> str:
    return text(value, NAME_LENGTH, MQRC.OBJECT_NAME_ERROR, what)


def _names(values: Any) -> list[str]:
    if type(values) is not list:
        raise MQError(MQRC.OBJECT_NAME_ERROR, "the names of queues are not a list")
    return [_name(value, "the name of a queue") for value in values]


def _records(record: Struct, packed: Any, what: str) -> list[tuple[Any, ...]]:
    if type(packed) is not bytes or len(packed) % record.size:
        raise MQError(MQRC.OPTIONS_ERROR, f"{what} are not byte strings of {record.size} bytes each")
    return list(record.iter_unpack(packed))


MAKERS: Final[dict[int, tuple[int, Callable[..., Call[Any]]]]] = {
    Verb.CONSUMER: (5, _consumer),
    Verb.REGISTER: (8, _register),
    Verb.CLAIM: (10, _claim),
    Verb.PIN: (8, _pin),
    Verb.READ_CLAIMED: (7, _read_claimed),
    Verb.ACKNOWLEDGE: (6, _acknowledge),
    Verb.RELEASE: (5, _release),
    Verb.QUEUE_RANGES: (4, _queue_ranges),
    Verb.BROWSE_RANGE: (9, _browse_range),
    Verb.SINK: (4, _sink),
    Verb.STAGE: (12, _stage),
    Verb.PUBLISH: (7, _publish),
    Verb.DISCARD: (5, _discard),
    Verb.BROWSE_CUTS: (8, _browse_cuts),
}
"""By verb: how many items its frame has, and what makes the call."""


# Answers, at the queue manager's end and at the client's.


def _single(result: object) -> tuple[Any, ...]:
    return (result,)


def _cuts(cuts: Sequence[Cut]) -> tuple[Any, ...]:
    return (b"".join([_CUT.pack(*cut) for cut in cuts]),)


def _ranges(ranges: Sequence[QueueRange]) -> tuple[Any, ...]:
    return ([tuple(each) for each in ranges],)


def _ledger(ledger: tuple[str, int] | None) -> tuple[Any, ...]:
    return () if ledger is None else tuple(ledger)


FIELDS: Final[dict[int, Callable[[Any], tuple[Any, ...]]]] = {
    Verb.CONSUMER: tuple,
    Verb.REGISTER: tuple,
    Verb.CLAIM: _single,
    Verb.PIN: _cuts,
    Verb.READ_CLAIMED: _single,
    Verb.ACKNOWLEDGE: _single,
    Verb.RELEASE: _single,
    Verb.QUEUE_RANGES: _ranges,
    Verb.BROWSE_RANGE: _single,
    Verb.SINK: _ledger,
    Verb.STAGE: tuple,
    Verb.PUBLISH: tuple,
    Verb.DISCARD: _single,
    Verb.BROWSE_CUTS: _cuts,
}
"""By verb: from what a call has come to, to the items of its ANSWER."""


def _number(items: Frame) -> int:
    (value,) = items
    if type(value) is not int:
        raise TypeError(f"{value!r} is no integer")
    return value


def _frame(items: Frame) -> bytes:
    (value,) = items
    if type(value) is not bytes:
        raise TypeError("a frame of columns is bytes")
    return value


def _found_cuts(items: Frame) -> list[Cut]:
    return list(map(Cut._make, _CUT.iter_unpack(_frame(items))))


def _found_ranges(items: Frame) -> list[QueueRange]:
    (ranges,) = items
    return list(map(QueueRange._make, ranges))


def _found_ledger(items: Frame) -> tuple[str, int] | None:
    if not items:
        return None
    query, batch = items
    return query, batch


RESULTS: Final[dict[int, Callable[[Frame], Any]]] = {
    Verb.CONSUMER: ConsumerState._make,
    Verb.REGISTER: Registration._make,
    Verb.CLAIM: _number,
    Verb.PIN: _found_cuts,
    Verb.READ_CLAIMED: _frame,
    Verb.ACKNOWLEDGE: _number,
    Verb.RELEASE: _number,
    Verb.QUEUE_RANGES: _found_ranges,
    Verb.BROWSE_RANGE: _frame,
    Verb.SINK: _found_ledger,
    Verb.STAGE: Staged._make,
    Verb.PUBLISH: Publication._make,
    Verb.DISCARD: _number,
    Verb.BROWSE_CUTS: _found_cuts,
}
"""By verb: from the items of an ANSWER to what its call returns. Raises TypeError or ValueError."""
