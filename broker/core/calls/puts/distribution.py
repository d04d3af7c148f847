"""Distribution lists: one call that puts a message to many queues (semantics 11).

A list is a handle whose destinations have handles of their own, so that each has its put position among groups and
segments, and its own fate: what goes wrong at one undoes nothing at another. The call as a whole has the outcome that
all of its destinations have, or MULTIPLE_REASONS (2136) where they differ. Outside syncpoint what a call puts is one
implicit unit of work.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgpack

from broker.core.calls.puts.put import Put
from broker.core.calls.puts.putting import check_options
from broker.core.message import logical_order
from broker.core.message.headers.mqmde import take_mqmde
from broker.core.names import opening
from broker.core.queues.handles import Handle
from broker.core.queues.unit import Unit
from broker.core.security.authority import NotAuthorizedError
from broker.mqi import checks
from broker.mqi.constants.objects import MQOT
from broker.mqi.constants.options import MQOO, MQPMO, MQPMRF
from broker.mqi.errors import MQError
from broker.mqi.layouts.packing import PACKED_FIELDS
from broker.mqi.reasons import MQCC, MQRC
from broker.mqi.structures import NO_ID, MessageDescriptor, ResponseRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.core.identifiers import Identifiers
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.moment import Moment
    from broker.core.names.objects import Objects
    from broker.core.names.routes import Route
    from broker.core.queues.handles import Hconn
    from broker.core.queues.queue import LocalQueue
    from broker.mqi.structures import ObjectDescriptor, ObjectRecord, PutMessageOptions, PutMessageRecord

Destination: TypeAlias = Handle | MQError
"""An open queue of the list, or why it could not be opened."""

_OPEN_OPTIONS = (
    MQOO.OUTPUT | MQOO.PASS_IDENTITY_CONTEXT | MQOO.PASS_ALL_CONTEXT | MQOO.SET_IDENTITY_CONTEXT | MQOO.SET_ALL_CONTEXT
    | MQOO.ALTERNATE_USER_AUTHORITY | MQOO.FAIL_IF_QUIESCING | MQOO.BIND_ON_OPEN | MQOO.BIND_NOT_FIXED
    | MQOO.BIND_ON_GROUP
).value  # fmt: skip
_SYNCPOINT = MQPMO.SYNCPOINT.value
_NEW_CORREL_ID = MQPMO.NEW_CORREL_ID.value
_LOGICAL_ORDER = MQPMO.LOGICAL_ORDER.value
_SETS_CONTEXT = (MQPMO.SET_IDENTITY_CONTEXT | MQPMO.SET_ALL_CONTEXT).value
_IN_GROUPS = logical_order.GROUPED | logical_order.SEGMENTS | logical_order.SEGMENTATION_ALLOWED

_FIELDS = tuple((flag.value, flag.name.lower()) for flag in MQPMRF if flag.name)
_ALL_FIELDS = sum(flag for flag, _ in _FIELDS)
_CORREL_ID = MQPMRF.CORREL_ID.value
_GROUP_ID = MQPMRF.GROUP_ID.value
_ACCOUNTING_TOKEN = MQPMRF.ACCOUNTING_TOKEN.value
_PACKED = MQPMRF.FEEDBACK.value | _ACCOUNTING_TOKEN
_FEEDBACK_MAX = 999_999_999
_TOLD = 3  # how many errors the detail of one error holds; the records tell of all

_OF_ONE_DESTINATION = frozenset(
    {
        MQRC.PUT_INHIBITED, MQRC.Q_DELETED, MQRC.OBJECT_CHANGED, MQRC.REPORT_OPTIONS_ERROR, MQRC.INCOMPLETE_MSG,
        MQRC.INCOMPLETE_GROUP, MQRC.INCONSISTENT_PERSISTENCE, MQRC.INCONSISTENT_UOW, MQRC.PERSISTENT_NOT_ALLOWED,
        MQRC.XQH_ERROR, MQRC.MSG_TOO_BIG_FOR_Q, MQRC.MSG_TOO_BIG_FOR_Q_MGR, MQRC.UOW_NOT_AVAILABLE, MQRC.Q_FULL,
        MQRC.SYNCPOINT_LIMIT_REACHED, MQRC.STORAGE_NOT_AVAILABLE,
    }
)  # fmt: skip
"""The reasons for which a put may fail at one queue and not at another. Any other reason is the whole call's."""


class DistributionList(Handle):
    """An open distribution list. `records` tells how the open went, destination by destination."""

    def __init__(self, hconn: Hconn, options: int, destinations: Sequence[Destination]) -> None:
        super().__init__(hconn, "QUEUE", "", options, None)
        self.destinations = tuple(destinations)
        self.records = tuple(map(_opened, destinations))
        self.reason = outcome(self.records)[1]

    @property
    def opened(self) -> list[Handle]:
        """The handles of the destinations that could be opened."""
        return [each for each in self.destinations if isinstance(each, Handle)]

    @property
    def unknown_count(self) -> int:
        """The number of destinations on other queue managers."""
        return sum(each.route.remote for each in self.opened if each.route is not None)

    def usable_queue(self) -> LocalQueue:
        raise MQError(MQRC.NOT_OPEN_FOR_INPUT, "a distribution list is open for output and nothing else")


class Distributed(NamedTuple):
    """The outcome of a put to a list: `records` by destination, `reason` of a warning, `unit` the implicit unit to
    freeze (None under syncpoint), `given` the descriptor of the call, `first` the first message put, `packed_md` the
    fields it keeps packed without those of its record. `unknown_count` is how many messages are for other queue
    managers.
    """

    records: tuple[ResponseRecord, ...]
    unknown_count: int
    reason: int
    unit: Unit | None
    given: MessageDescriptor
    first: Entry
    packed_md: bytes


def outcome(records: Sequence[ResponseRecord]) -> tuple[MQCC, int]:
    """The completion and the reason of a call with these outcomes."""
    completion, reason = records[0][:2]
    if all(record[:2] == (completion, reason) for record in records):
        return completion, int(reason)
    failed = all(record.completion == MQCC.FAILED for record in records)
    return MQCC.FAILED if failed else MQCC.WARNING, int(MQRC.MULTIPLE_REASONS)


# MQOPEN and MQCLOSE


def open_list(
    objects: Objects, hconn: Hconn, od: ObjectDescriptor, options: int, tick: float = 0.0
) -> DistributionList:
    """Open every destination that can be opened (semantics 11.1); the options have been checked by themselves.

    Raises RECS_PRESENT_ERROR (2154), OBJECT_NAME_ERROR (2152), OBJECT_Q_MGR_NAME_ERROR (2153),
    OPTION_NOT_VALID_FOR_TYPE (2045), SELECTOR_INVALID_FOR_TYPE (2516), HANDLE_NOT_AVAILABLE (2017), and when no
    destination could be opened their reason, or MULTIPLE_REASONS (2136).
    """
    _check_descriptor(od, options)
    if hconn.handle_count + len(od.records) > objects.max_handles:
        raise MQError(
            MQRC.HANDLE_NOT_AVAILABLE,
            f"{hconn.handle_count} handles are open, and each destination needs one: MAXHANDS is {objects.max_handles}",
        )
    destinations = [_open(objects, hconn, record, options, od.alternate_user_id) for record in od.records]
    hconn.refused += tuple(each for each in destinations if isinstance(each, NotAuthorizedError))
    opened = DistributionList(hconn, options, destinations)
    if not opened.opened:
        raise _failure(opened.records, (each for each in destinations if isinstance(each, MQError)))
    for each in opened.opened:
        each.opened_at = tick
    hconn.add(opened)
    hconn.in_lists += len(opened.opened) - 1
    return opened


def _check_descriptor(od: ObjectDescriptor, options: int) -> None:
    if int(od.object_type) != MQOT.Q.value:
        raise MQError(MQRC.RECS_PRESENT_ERROR, f"object_type={od.object_type}: a distribution list is of queues")
    if od.object_name:
        raise MQError(MQRC.OBJECT_NAME_ERROR, f"object_name={od.object_name!r} must be blank beside records")
    if od.object_q_mgr_name:
        raise MQError(MQRC.OBJECT_Q_MGR_NAME_ERROR, f"object_q_mgr_name={od.object_q_mgr_name!r} must be blank")
    if options & ~_OPEN_OPTIONS:
        raise MQError(MQRC.OPTION_NOT_VALID_FOR_TYPE, "a distribution list can only be opened for output")
    if od.selection_string:
        raise opening.no_selector()


def _open(objects: Objects, hconn: Hconn, record: ObjectRecord, options: int, alternate_user: str) -> Destination:
    name = record.object_name
    try:
        route = opening.judged_route(objects, hconn, (name, record.object_q_mgr_name), options, alternate_user)
        return opening.enter_queue(hconn, name, route, options)
    except MQError as error:
        return error.with_traceback(None)


def _opened(destination: Destination) -> ResponseRecord:
    if isinstance(destination, MQError):
        return ResponseRecord(MQCC.FAILED, destination.reason)
    return ResponseRecord(MQCC.OK, MQRC.NONE)


# MQPUT and MQPUT1


class ListPut(NamedTuple):
    """A call of MQPUT to a distribution list, or of MQPUT1 (`once`), which no handle remembers: the list, and the
    arguments as the program gave them.
    """

    destinations: DistributionList
    md: MessageDescriptor | None
    pmo: PutMessageOptions
    data: bytes
    once: bool = False


def put(manager: Manager, list_put: ListPut, moment: Moment) -> Distributed:
    """Put a message to every destination that is open and takes it.

    Raises PMO_RECORD_FLAGS_ERROR (2158), PUT_MSG_RECORDS_ERROR (2159), GROUP_ID_ERROR (2258), what is wrong with the
    call itself, and when no destination took the message their reason, or MULTIPLE_REASONS (2136).
    """
    destinations, md, pmo, data, once = list_put
    check_options(pmo, opens=once)
    given = MessageDescriptor() if md is None else checks.descriptor(md)
    each = _PerDestination(given, pmo, data, manager.ids, len(destinations.destinations))
    implicit = None if int(pmo.options) & _SYNCPOINT else Unit()
    tally = _Tally()
    for number, destination in enumerate(destinations.destinations):
        try:
            handle, route = _usable(destination, once=once)
            there = Put(handle.hconn, None if once else handle, route, each.to(number), each.pmo, each.data)
            entry, _, reason = manager.put(there, moment, implicit)
        except MQError as error:
            if isinstance(destination, Handle) and not tally.placed and error.reason not in _OF_ONE_DESTINATION:
                raise  # what is wrong with the call itself shows at the first destination that is open
            tally.fail(error)
        else:
            tally.place(entry, reason, remote=route.remote)
    if not tally.placed:
        raise _failure(tally.records, tally.errors)
    packed_md = _packed_as_given(tally.placed[0], given, each.fields)
    reason = outcome(tally.records)[1]
    return Distributed(tuple(tally.records), tally.remote, reason, implicit, given, tally.placed[0], packed_md)


class _Tally:
    """The successes and failures of one call so far."""

    def __init__(self) -> None:
        self.records: list[ResponseRecord] = []
        self.errors: list[MQError] = []
        self.placed: list[Entry] = []
        self.remote = 0

    def fail(self, error: MQError) -> None:
        """Nothing was put at the next destination."""
        self.errors.append(error)
        self.records.append(ResponseRecord(MQCC.FAILED, error.reason))

    def place(self, entry: Entry, reason: int, *, remote: bool) -> None:
        """A message was put there, perhaps with a warning."""
        self.placed.append(entry)
        self.remote += remote
        completion = MQCC.WARNING if reason else MQCC.OK
        self.records.append(ResponseRecord(completion, MQRC(reason), entry.msg_id, entry.correl_id, entry.group_id))


class _PerDestination:
    """The message of one call, as each of `count` destinations gets it."""

    def __init__(
        self, md: MessageDescriptor, pmo: PutMessageOptions, data: bytes, ids: Identifiers, count: int
    ) -> None:
        options = int(pmo.options)
        records = pmo.records[:count] if pmo.version > 1 else ()
        self._records = _checked_records(records, int(pmo.record_fields), options)
        self.fields = int(pmo.record_fields) if records else 0
        self._md, self.data = take_mqmde(md, data, ids.coded_char_set_id)
        if not options & _LOGICAL_ORDER:
            self._check_group(count)
        if options & _NEW_CORREL_ID:  # one for all, and it counts for more than those in the records
            self._md = _copy(self._md)
            self._md.correl_id = ids.identifier()
            self.fields &= ~_CORREL_ID
        self.pmo = replace(pmo, options=options & ~_NEW_CORREL_ID, records=(), record_fields=0)

    def to(self, number: int) -> MessageDescriptor:
        """The descriptor for the destination of that number in the list."""
        if not self.fields or number >= len(self._records):
            return self._md
        md, record = _copy(self._md), self._records[number]
        for flag, name in _FIELDS:
            if self.fields & flag:
                setattr(md, name, getattr(record, name))
        return md

    def _check_group(self, count: int) -> None:
        """One group id of the program's own cannot be that of several destinations."""
        md = self._md
        grouped = md.version > 1 and md.msg_flags & _IN_GROUPS and md.group_id != NO_ID
        if grouped and (not self.fields & _GROUP_ID or len(self._records) < count):
            raise MQError(MQRC.GROUP_ID_ERROR, "group_id must be zeros, or every destination have its own in a record")


def _checked_records(records: Sequence[PutMessageRecord], fields: int, options: int) -> Sequence[PutMessageRecord]:
    if not records:
        return records
    if not fields or fields & ~_ALL_FIELDS:
        raise MQError(MQRC.PMO_RECORD_FLAGS_ERROR, f"record_fields={fields:#x}: some of MQPMRF, and nothing else")
    if fields & _ACCOUNTING_TOKEN and not options & _SETS_CONTEXT:
        raise MQError(
            MQRC.PMO_RECORD_FLAGS_ERROR, "MQPMRF_ACCOUNTING_TOKEN needs SET_IDENTITY_CONTEXT or SET_ALL_CONTEXT"
        )
    checked = list(map(checks.put_record, records))
    for record in checked:
        if not 0 <= record.feedback <= _FEEDBACK_MAX:
            raise MQError(MQRC.FEEDBACK_ERROR, f"feedback={record.feedback}: 0 to {_FEEDBACK_MAX}")
    return checked


def _usable(destination: Destination, *, once: bool) -> tuple[Handle, Route]:
    """A destination that can be used now, and the way to it."""
    if isinstance(destination, Handle):
        destination.usable_queue()
        assert destination.route is not None
        return destination, destination.route
    if once:
        raise destination
    raise MQError(MQRC.OPEN_FAILED, f"this destination could not be opened: {destination}")


# What both have


def _failure(records: Sequence[ResponseRecord], errors: Iterable[MQError]) -> MQError:
    """The error of a call that did nothing at any destination."""
    _, reason = outcome(records)
    if reason == MQRC.MULTIPLE_REASONS:
        return MQError(reason, "; ".join(islice(map(str, errors), _TOLD)), records=tuple(records))
    return MQError(reason, next(iter(errors)).detail)


def _copy(md: MessageDescriptor) -> MessageDescriptor:
    return MessageDescriptor.from_tuple(md.to_tuple())


def _packed_as_given(entry: Entry, given: MessageDescriptor, record_fields: int) -> bytes:
    """The packed fields of a message, but for what its record brought: that is as the caller's descriptor has it."""
    if not record_fields & _PACKED:
        return entry.packed_md
    fields: list[Any] = msgpack.unpackb(entry.packed_md)
    for flag, name in _FIELDS:
        if flag & record_fields & _PACKED:
            fields[PACKED_FIELDS.index(name)] = getattr(given, name)
    packed: bytes = msgpack.packb(fields)
    return packed
