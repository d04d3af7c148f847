"""Staging: a piece of a prepared unit passes the checks of MQPUT, message by message, and joins its unit as a whole.

The checks are those of any put (`broker.core.calls.puts.putting`); they take many steps, since a piece has thousands of
messages. When all have passed them the piece is frozen in one step: it is counted on its queues and in its unit from
then on, and taken back if there is no room for it in the store (claims rule 3.2).

Messages that differ in nothing but their data, identifiers and expiry from one before them are completed by a template
of that, as puts through one handle are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgpack

from broker.core.calls import expiring
from broker.core.calls.puts import putting
from broker.core.calls.puts.put import Put
from broker.core.message.entry import Entry, PreparedEntry, rank_of
from broker.core.message.headers.mqmde import FORMAT as EXTENSION_FORMAT
from broker.core.message.headers.properties import FORMAT as PROPERTIES_FORMAT
from broker.core.message.logical_order import CLOSED
from broker.core.message.rows import MessageRow, Rows
from broker.core.names import judging
from broker.core.prepared.sink import other_queues
from broker.core.prepared.sinks import UNITS_MAX, by_queue
from broker.core.prepared.unit import PreparedUnit
from broker.core.queues.handle_position import AT_REST
from broker.core.queues.handles import Handle
from broker.core.queues.unit import BACKED_OUT, PREPARED, PREPARING
from broker.core.security.authority import NotAuthorizedError
from broker.mqi.constants.options import MQOO, MQPMO
from broker.mqi.errors import MQError
from broker.mqi.layouts.packing import unpack_md
from broker.mqi.reasons import MQRC
from broker.mqi.structures import NO_ID, MessageDescriptor, PutMessageOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from broker.core.manager import Manager
    from broker.core.message.logical_order import Position
    from broker.core.prepared.sinks import Sinks
    from broker.core.prepared.unit import Mark, UnitName
    from broker.core.queues.handles import Hconn
    from broker.core.queues.message_queue import MessageQueue
    from broker.core.queues.queue import LocalQueue

StagedRow: TypeAlias = tuple[str, bytes, int, int, int, bytes, bytes, bytes, int, int, int, int, bytes, bytes]
"""A message as it is given: queue name, packed fields of the descriptor (`broker.mqi.layouts.packing`), priority,
persistence, expiry, MsgId, CorrelId, GroupId, MsgSeqNumber, Offset, MsgFlags, OriginalLength, packed properties, data.
"""

MESSAGES_A_STEP: Final = 16

_SYNCPOINT: Final = MQPMO.SYNCPOINT.value
_LOGICAL_ORDER: Final = MQPMO.LOGICAL_ORDER.value
_OUTPUT: Final = MQOO.OUTPUT.value
_Q_FULL: Final = int(MQRC.Q_FULL)
_WITH_HEADERS: Final = (EXTENSION_FORMAT, PROPERTIES_FORMAT)


@dataclass(slots=True, eq=False)
class StagedPiece:
    """A piece as it is given: whose it is, the index of its first message in the unit, its messages, put options, and
    whether no other comes after it.
    """

    hconn: Hconn
    name: UnitName
    query: str | None
    first: int
    messages: Sequence[StagedRow]
    options: int
    last: bool


class _Template:
    """The fields that messages with one descriptor, for one queue, share once one of them has passed all checks."""

    __slots__ = ("handle", "length_max", "packed_md", "persistence", "priority", "queue", "rank")

    def __init__(self, handle: Handle, entry: Entry, length_max: int) -> None:
        self.handle = handle
        self.queue = entry.queue
        self.rank = rank_of(entry.key)
        self.priority = entry.priority
        self.persistence = entry.persistence
        self.packed_md = entry.packed_md
        self.length_max = length_max

    def entry(self, row: StagedRow, now: float) -> PreparedEntry | None:
        """The message completed; None when it is not like the others."""
        _, _, _, _, expiry, msg_id, correl_id, _, _, _, flags, _, properties, data = row
        length = len(data)
        if flags or properties or length > self.length_max or (expiry < 1 and expiry != -1):
            return None
        if self.handle.position.last_put is not CLOSED:
            return None
        entry = PreparedEntry(self.queue, 0, self.rank, data, length)
        entry.priority = self.priority
        entry.persistence = self.persistence
        entry.packed_md = self.packed_md
        if msg_id != NO_ID:
            entry.given_msg_id = msg_id
        entry.correl_id = correl_id
        if expiry > 0:
            entry.deadline = now + expiry / 10
        return entry


class Staging:
    """One piece on its way into its unit."""

    def __init__(self, manager: Manager, piece: StagedPiece, sinks: Sinks | None = None) -> None:
        check_options(piece.options)
        self._manager = manager
        self._piece = piece
        self._sinks = manager.sinks if sinks is None else sinks
        self._unit: PreparedUnit | None = None
        self._new = False
        self._entries: list[PreparedEntry] = []
        self._inserts: list[MessageRow] = []
        self._changes = -1  # of definitions, when the messages were checked
        self._handles: dict[str, Handle] = {}
        self._before: tuple[Mark, int, bool, dict[str, Position], float]

    # The checks

    def check(self, now: float) -> Iterator[None]:
        """Check and complete the messages, a few in each step. Raises what MQPUT does, and UOW_CANCELED (2297) for a
        piece whose predecessor is not there.
        """
        manager, piece = self._manager, self._piece
        objects = manager.objects
        self._changes = objects.changes
        self._entries, self._inserts, self._handles = [], [], {}
        self._unit = self._sinks.unit(piece.name)
        self._new = self._unit is None
        if self._unit is None:
            self._unit = PreparedUnit(piece.name, manager.ids.next(), piece.query, now)
        unit = self._unit
        _check_index(unit, piece)
        templates: dict[tuple[Any, ...], _Template | None] = {}
        slow = False
        for index, row in enumerate(piece.messages):
            if index and (slow or index % MESSAGES_A_STEP == 0):
                yield
                if objects.changes != self._changes:
                    return  # it is to be checked again
            key = row[:4]
            template = templates.get(key)
            entry = None if template is None else template.entry(row, now)
            slow = entry is None  # it may have ten thousand properties
            if entry is not None:
                self._entries.append(entry)
            else:
                try:
                    self._put(row, key, templates, now)
                except NotAuthorizedError:
                    raise
                except MQError as error:
                    raise MQError(
                        error.reason, f"message {piece.first + index} of {piece.name}: {error.detail}"
                    ) from error
        number, sequence = manager.ids.next_of(len(self._entries)), len(unit.entries) + 1
        for index, entry in enumerate(self._entries):
            if index % (8 * MESSAGES_A_STEP) == 0 and index:
                yield
            entry.number_as(number + index)
            self._inserts.append(entry.held_row(unit.number, sequence + index))

    def _put(self, row: StagedRow, key: tuple[Any, ...], templates: dict[Any, _Template | None], now: float) -> None:
        """Check a message as any put is checked, and complete it."""
        manager, piece = self._manager, self._piece
        handle = self._handle(row[0], now)
        route = handle.route
        assert route is not None
        md = _descriptor(row)
        pmo = PutMessageOptions(options=piece.options | _SYNCPOINT)
        try:
            prepared = putting.prepare(manager, Put(piece.hconn, handle, route, md, pmo, row[13], row[12]), now)
        except MQError as error:
            route.queue.counts.refuse(int(error.reason))
            manager.events.refused(route.queue, route.first.name, int(error.reason), piece.hconn, now)
            if error.reason == _Q_FULL:
                raise self._full(route.queue, sum(each[0] == row[0] for each in piece.messages)) from None
            raise
        if prepared.position is not None:
            handle.position = handle.position._replace(last_put=prepared.position)
        self._entries += [PreparedEntry.of(entry) for entry in prepared.entries]
        plain = type(prepared.shown) is Entry or (md.expiry > 0 and not md.msg_flags and not row[12])
        here = not (route.remote or route.queue.transmits)
        if key not in templates and plain and here and md.format not in _WITH_HEADERS:
            templates[key] = _Template(handle, prepared.shown, min(route.queue.max_length, manager.max_length))

    def _handle(self, q_name: str, now: float) -> Handle:
        """A handle that stands where the pieces before have left this queue."""
        handle = self._handles.get(q_name)
        if handle is None:
            assert self._unit is not None
            objects, caller = self._manager.objects, self._piece.hconn.caller
            if caller is None:
                route = objects.destination(q_name, "")
            else:
                route = judging.route(objects, caller, (q_name, ""), judging.options_of_put1(self._piece.options), "")
            self._check_open(route.queue)
            if route.queue.room() <= 0:
                expiring.expire(self._manager, route.queue, now)
            handle = self._handles[q_name] = Handle(self._piece.hconn, "QUEUE", q_name, _OUTPUT, route.queue)
            handle.route = route
            handle.position = AT_REST._replace(last_put=self._unit.positions.get(q_name, CLOSED))
        return handle

    @property
    def checked(self) -> bool:
        """True if the findings of the checks still hold."""
        unit = self._unit
        if unit is None or self._changes != self._manager.objects.changes:
            return False
        return self._sinks.unit(self._piece.name) is (None if self._new else unit)

    # Its way into the unit

    def freeze(self, now: float) -> Rows:
        """Let the piece join its unit. Return the rows to write. Raises Q_FULL (2053), SYNCPOINT_LIMIT_REACHED (2024),
        INCOMPLETE_GROUP (2241), Q_DELETED (2052), OBJECT_IN_USE (2042).
        """
        manager, piece, unit = self._manager, self._piece, self._unit
        assert unit is not None
        _check_index(unit, piece)
        found = by_queue(self._entries)
        positions = unit.positions | {name: handle.position.last_put for name, handle in self._handles.items()}
        positions = {name: position for name, position in positions.items() if position.open}
        self._check_limits()
        for queue, entries in found.items():
            self._check_room(queue, len(entries), now)  # type: ignore[arg-type]  # only such a queue is put to here
        if piece.last:
            _check_ended(piece.name, positions)
        self._before = unit.mark(), unit.rows, unit.closed, unit.positions, unit.touched
        bytes_before = unit.bytes
        if self._new:
            self._sinks.enter(unit)
        unit.add(self._entries)
        self._sinks.bytes += unit.bytes - bytes_before
        unit.rows += len(piece.messages)
        unit.closed, unit.positions, unit.touched = piece.last, positions, now
        unit.coming += 1
        for queue, entries in found.items():
            queue.prepare(entries)
            manager.events.staged(queue, now)
        rows = Rows(inserts=self._inserts)
        (rows.objects if self._new else rows.states).append(unit.row())
        self._inserts = []
        return rows

    def settle(self, *, written: bool) -> Sequence[Entry]:
        """The piece is durable, or there was no room for it: it has never been there. The messages that it staged."""
        unit, sinks = self._unit, self._sinks
        assert unit is not None
        unit.coming -= 1
        if written:
            if unit.state == PREPARING:
                unit.become(PREPARED)
            return self._entries
        mark, unit.rows, unit.closed, unit.positions, unit.touched = self._before
        bytes_before = unit.bytes
        left = unit.cut_back(mark)
        sinks.bytes -= bytes_before - unit.bytes
        for queue, entries in by_queue(left).items():
            queue.drop(entries)
        if unit.state == PREPARING:
            unit.become(BACKED_OUT)
            sinks.leave(unit)
        return ()

    def _check_limits(self) -> None:
        sinks, name = self._sinks, self._piece.name
        if self._new:
            check_count(name, len(sinks.units))
        size = sum(entry.length for entry in self._entries)
        if sinks.bytes + size > sinks.bytes_max:
            raise MQError(
                MQRC.SYNCPOINT_LIMIT_REACHED,
                f"{name}: prepared units hold {sinks.bytes} bytes, and with {size} more that is above prepared_bytes, "
                f"{sinks.bytes_max}",
            )

    def _check_room(self, queue: LocalQueue, count: int, now: float) -> None:
        self._check_open(queue)
        if queue.room() >= count:
            return
        expiring.expire(self._manager, queue, now)
        if queue.room() < count:
            queue.counts.refuse(_Q_FULL)
            self._manager.events.refused(queue, queue.name, _Q_FULL, self._piece.hconn, now)
            raise self._full(queue, count)

    def _check_open(self, queue: LocalQueue) -> None:
        if queue.shared != self._sinks.shared:
            raise other_queues(self._piece.name.sink, queue.name, shared=queue.shared)
        queue.check_deleted()
        if queue.clearing:
            raise MQError(MQRC.OBJECT_IN_USE, f"{queue.name} is being cleared: stage when that is done")

    def _full(self, queue: MessageQueue, count: int) -> MQError:
        """Q_FULL (2053): for now, or for good where the batch has more messages than the queue may hold."""
        name, unit = self._piece.name, self._unit
        assert unit is not None
        wanted = count + unit.counts.get(queue, 0) + self._others(queue)
        if wanted > queue.max_depth:
            return MQError(
                MQRC.Q_FULL,
                f"batch {name.batch} of sink {name.sink} never fits: it has {wanted} messages or more for "
                f"{queue.name}, whose MAXDEPTH is {queue.max_depth}; raise that, or write fewer rows in a batch",
            )
        return queue.full()

    def _others(self, queue: MessageQueue) -> int:
        """Return the number of messages that the batch's other partitions have for a queue, by one attempt of each."""
        name = self._piece.name
        sink = self._sinks.by_name.get(name.sink)
        most: dict[int, int] = {}
        for each in sink.units.values() if sink is not None else ():
            if each.name.batch == name.batch and each.name.partition != name.partition:
                most[each.name.partition] = max(most.get(each.name.partition, 0), each.counts.get(queue, 0))
        return sum(most.values())


def check_options(options: int) -> None:
    """Raise OPTIONS_ERROR (2046) for put options other than LOGICAL_ORDER."""
    if options & ~_LOGICAL_ORDER:
        raise MQError(MQRC.OPTIONS_ERROR, f"options={options:#x}: a prepared unit takes MQPMO_LOGICAL_ORDER or none")


def check_count(name: UnitName, count: int) -> None:
    """Raise SYNCPOINT_LIMIT_REACHED (2024) where there are as many prepared units as may be."""
    if count >= UNITS_MAX:
        raise MQError(
            MQRC.SYNCPOINT_LIMIT_REACHED,
            f"{name}: there are {UNITS_MAX} prepared units, and no more may be; DISPLAY THREAD(*) TYPE(INDOUBT) lists "
            "them",
        )


def is_known(unit: PreparedUnit | None, first: int) -> bool:
    """True if a piece that begins with this index is in the unit already."""
    if unit is None or unit.lacks or unit.state not in (PREPARING, PREPARED):
        return False
    return first < unit.rows


def _check_index(unit: PreparedUnit, piece: StagedPiece) -> None:
    """Raise UOW_CANCELED (2297) for a piece whose predecessors are not there, OPERATION_NOT_ALLOWED (2534) for one
    behind the last.
    """
    if unit.lacks or unit.state not in (PREPARING, PREPARED) or piece.first != unit.rows:
        rows = 0 if unit.lacks else unit.rows
        raise MQError(
            MQRC.UOW_CANCELED,
            f"{piece.name}: a piece begins with message {piece.first}, and {rows} are there: the others were "
            "discarded, or never staged; stage all of it again as another attempt",
        )
    if unit.closed and piece.messages:
        raise MQError(
            MQRC.OPERATION_NOT_ALLOWED, f"{piece.name} was ended after {unit.rows} messages: no other piece may come"
        )


def _check_ended(name: UnitName, positions: Mapping[str, Position]) -> None:
    for q_name, position in positions.items():
        if position.logical and position.unfinished:
            raise MQError(
                position.unfinished,
                f"{name}: what LOGICAL_ORDER has begun for {q_name} has no end, and this is the last piece",
            )


def _descriptor(row: StagedRow) -> MessageDescriptor:
    """The descriptor of a message as it is given; raises MD_ERROR (2026)."""
    _, kept, priority, persistence, expiry, msg_id, correl_id, group_id, number, offset, flags, original, _, _ = row
    md = MessageDescriptor(
        expiry=expiry, priority=priority, persistence=persistence, msg_id=msg_id, correl_id=correl_id,
        group_id=group_id, msg_seq_number=number, offset=offset, msg_flags=flags, original_length=original,
    )  # fmt: skip
    try:
        unpack_md(kept, md)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise MQError(MQRC.MD_ERROR, f"not a packed descriptor: {error}") from None
    return md
