"""A queue with groups and segments, said plainly: one list that is walked from the front for every question.

It has no indexes and no states kept up to date: what is complete, what comes next and what a handle may see is found by
looking at all messages each time. A message is a number, given in the order of the puts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from broker.mqi import MQRC

OK = MQRC.NONE
PUT, HERE, GOT = "PUT_PENDING", "AVAILABLE", "GET_PENDING"
START = (-10, 0)  # before every place


class Flags(NamedTuple):
    """MsgFlags."""

    grouped: bool = False  # in a group, last or not
    last_message: bool = False
    segment: bool = False  # a segment, last or not
    last_segment: bool = False
    segmentable: bool = False

    @property
    def plain(self) -> bool:
        return not (self.grouped or self.segment or self.segmentable)


PLAIN = Flags()


class Item(NamedTuple):
    """GroupId, MsgSeqNumber, Offset."""

    group: bytes
    number: int
    offset: int


WORSE = (MQRC.INCOMPLETE_MSG, MQRC.INCOMPLETE_GROUP)
"""What a put is told of before it is told that persistence or unit of work differ."""

UNGROUPED = Item(bytes(24), 1, 0)


@dataclass(eq=False)
class Message:
    """A message on the queue."""

    number: int
    priority: int
    length: int
    flags: Flags
    item: Item
    persistent: bool
    state: str = HERE
    locked_by: Access | None = None
    backouts: int = 0

    @property
    def place(self) -> tuple[int, int]:
        return (-self.priority, self.number)


@dataclass(frozen=True)
class Record:
    """A handle's record of its last put, get or browse."""

    item: Item = UNGROUPED
    length: int = 0
    flags: Flags = PLAIN
    persistent: bool = False
    in_unit: bool = False
    ordered: bool = False

    @property
    def open_message(self) -> bool:
        return self.flags.segment and not self.flags.last_segment

    @property
    def open_group(self) -> bool:
        return self.flags.grouped and (self.open_message or not self.flags.last_message)

    @property
    def open(self) -> bool:
        return self.open_message or self.open_group

    @property
    def unfinished(self) -> MQRC:
        return MQRC.INCOMPLETE_MSG if self.open_message else MQRC.INCOMPLETE_GROUP if self.open_group else OK

    @property
    def next(self) -> Item:
        group, number, offset = self.item
        return Item(group, number, offset + self.length) if self.open_message else Item(group, number + 1, 0)


CLOSED = Record()


@dataclass(eq=False)
class Unit:
    """A unit of work, and what the handles remembered before it."""

    puts: list[Message] = field(default_factory=list)
    gets: list[Message] = field(default_factory=list)
    get_calls: int = 0
    records: list[tuple[Access, str, Record]] = field(default_factory=list)


@dataclass(eq=False)
class Program:
    """A connection."""

    unit: Unit | None = None


@dataclass(eq=False)
class Access:
    """An open queue."""

    program: Program
    put: Record = CLOSED
    get: Record = CLOSED
    browse: Record = CLOSED
    cursor: tuple[int, int] = START
    anchor: tuple[int, int] = START
    order: bool | None = None  # of the last browse: logical or not

    def rewind(self) -> None:
        self.browse, self.cursor, self.anchor, self.order = CLOSED, START, START, None


class Wanted(NamedTuple):
    """The fields of a get. Match options that are None are not given."""

    browse: str = ""  # first, next, again
    under_cursor: bool = False
    ordered: bool = False
    complete: bool = False
    all_messages: bool = False
    all_segments: bool = False
    lock: bool = False
    syncpoint: str = ""  # always, if persistent
    number: int | None = None  # MATCH_MSG_ID
    group: bytes | None = None
    sequence: int | None = None
    offset: int | None = None
    buffer: int | None = None
    accept_truncated: bool = False


class Got(NamedTuple):
    """The messages that a get was given as one."""

    numbers: list[int]
    reason: MQRC = OK


class Put(NamedTuple):
    """The place of a put."""

    item: Item
    reason: MQRC


class Model:
    """A queue."""

    def __init__(self, max_calls: int) -> None:
        self.max_calls = max_calls
        self.messages: list[Message] = []

    # Puts (semantics 3)

    def put(self, access: Access, message: Message, fresh: bytes, *, ordered: bool, syncpoint: bool) -> Put | MQRC:
        """Put a message whose `item` is what the caller filled in; `fresh` is the next new group identifier."""
        flags, before = message.flags, access.put
        if flags.segment and not flags.last_segment and not message.length:
            return MQRC.SEGMENT_LENGTH_ZERO
        unfit = self.unfit(before, message, in_unit=syncpoint)
        reason = OK
        if ordered:
            if unfit:
                return unfit
            item = before.next if before.open else Item(UNGROUPED.group if flags.plain else fresh, 1, 0)
        else:
            given = message.item
            group = UNGROUPED.group if flags.plain else fresh if given.group == UNGROUPED.group else given.group
            item = Item(group, given.number if flags.grouped else 1, given.offset if flags.segment else 0)
            if before.ordered and before.open:
                reason = before.unfinished if item != before.next and unfit not in WORSE else unfit
        unit = (access.program.unit or Unit()) if syncpoint else Unit()
        if self.full(unit):
            return MQRC.SYNCPOINT_LIMIT_REACHED
        message.item = item
        self.messages.append(message)
        unit.puts.append(message)
        if syncpoint:
            message.state = PUT
            access.program.unit = unit
            unit.records.append((access, "put", before))
        access.put = Record(item, message.length, flags, message.persistent, syncpoint, ordered)
        return Put(item, reason)

    def unfit(self, before: Record, message: Message, *, in_unit: bool) -> MQRC:
        """Return the reason why a message does not go on with what is open."""
        flags = message.flags
        if before.open_message:
            if not flags.segment or flags.grouped != before.open_group:
                return MQRC.INCOMPLETE_MSG
            if flags.grouped and flags.last_message != before.flags.last_message:
                return MQRC.INCOMPLETE_MSG
        elif before.open_group and not flags.grouped:
            return MQRC.INCOMPLETE_GROUP
        if before.open and message.persistent != before.persistent:
            return MQRC.INCONSISTENT_PERSISTENCE
        if before.open and in_unit != before.in_unit:
            return MQRC.INCONSISTENT_UOW
        return OK

    # Gets (semantics 5.4 to 5.7, 6, 7)

    def get(self, access: Access, wanted: Wanted) -> Got | MQRC:
        """A get, and what it does to the lock of its handle."""
        locked = [message for message in self.messages if message.locked_by is access]
        outcome = self.find_and_grant(access, wanted)
        if isinstance(outcome, Got) and outcome.reason != MQRC.TRUNCATED_MSG_FAILED:
            new = outcome.numbers if wanted.lock else []
            released = bool(wanted.browse) or any(message.state == GOT for message in locked)
            for message in locked:
                if released and message.number not in new:
                    message.locked_by = None
        elif outcome == MQRC.NO_MSG_AVAILABLE and wanted.browse:
            for message in locked:
                message.locked_by = None
        return outcome

    def find_and_grant(self, access: Access, wanted: Wanted) -> Got | MQRC:
        record = CLOSED
        if wanted.browse == "next":
            if access.order is not None and access.order != wanted.ordered:
                return MQRC.INCONSISTENT_BROWSE
            record = access.browse if wanted.ordered else CLOSED
        elif not wanted.browse and not wanted.under_cursor and wanted.ordered:
            record = access.get
            if record.open and wanted.syncpoint != "if persistent" and record.in_unit != bool(wanted.syncpoint):
                return MQRC.INCONSISTENT_UOW
        if wanted.browse == "again" or wanted.under_cursor:
            found = self.under_cursor(access, wanted)
        elif wanted.ordered and record.open:
            found = self.next_in_order(access, wanted, record)
        else:
            found = self.first_suitable(access, wanted)
        if isinstance(found, MQRC):
            return found
        return self.grant(access, wanted, record, found)

    def under_cursor(self, access: Access, wanted: Wanted) -> Message | MQRC:
        for message in self.visible(access):
            if message.place == access.cursor:
                if wanted.complete and message.item.offset:
                    return MQRC.INVALID_MSG_UNDER_CURSOR
                if wanted.complete and not self.begins_whole(access, message):
                    return MQRC.NO_MSG_UNDER_CURSOR
                return message
        return MQRC.NO_MSG_UNDER_CURSOR

    def next_in_order(self, access: Access, wanted: Wanted, record: Record) -> Message | MQRC:
        """The message that comes next in what is open."""
        item = record.next
        if self.contradicts(wanted, item, group_too=True):
            return MQRC.MATCH_OPTIONS_ERROR
        message = self.first_at(access, item)
        if message is None:
            return MQRC.NO_MSG_AVAILABLE
        if wanted.number not in (None, message.number):
            return MQRC.MATCH_OPTIONS_ERROR
        if wanted.complete and (item.offset or not self.begins_whole(access, message)):
            return MQRC.NO_MSG_AVAILABLE
        if wanted.all_segments and not record.open_message and not self.message_complete(access, message):
            return MQRC.NO_MSG_AVAILABLE
        return message

    def first_suitable(self, access: Access, wanted: Wanted) -> Message | MQRC:
        """The first message on the queue that the get may be given."""
        if wanted.ordered and self.contradicts(wanted, Item(b"", 1, 0), group_too=False):
            return MQRC.MATCH_OPTIONS_ERROR
        after = START
        if wanted.browse == "next":
            after = access.anchor if wanted.ordered else access.cursor
        for message in self.visible(access):
            if message.place > after and self.suits(access, wanted, message):
                return message
        return MQRC.NO_MSG_AVAILABLE

    def suits(self, access: Access, wanted: Wanted, message: Message) -> bool:
        group, number, offset = message.item
        if wanted.number not in (None, message.number) or wanted.group not in (None, group):
            return False
        if wanted.sequence not in (None, number) or wanted.offset not in (None, offset):
            return False
        if wanted.ordered and (number, offset) != (1, 0):
            return False
        if wanted.complete and offset:
            return False
        if wanted.all_messages and not self.group_complete(access, message):
            return False
        if wanted.complete or (wanted.ordered and (wanted.all_segments or wanted.all_messages)):
            return self.begins_whole(access, message)
        return not (wanted.all_segments or wanted.all_messages) or self.message_complete(access, message)

    def contradicts(self, wanted: Wanted, item: Item, *, group_too: bool) -> bool:
        """True if match options ask for another message than the one that comes next."""
        return (
            (group_too and wanted.group not in (None, item.group))
            or wanted.sequence not in (None, item.number)
            or wanted.offset not in (None, item.offset)
        )

    def grant(self, access: Access, wanted: Wanted, record: Record, first: Message) -> Got | MQRC:  # noqa: C901
        """Give a message to the getter, put together if that is wanted."""
        messages = self.segments_from(access, first) if wanted.complete else [first]
        numbers = [message.number for message in messages]
        length = sum(message.length for message in messages)
        short = wanted.buffer is not None and length > wanted.buffer
        if short and not wanted.accept_truncated:
            if wanted.browse == "first":
                access.rewind()
            return Got(numbers, MQRC.TRUNCATED_MSG_FAILED)
        flags = messages[-1].flags
        if wanted.complete:
            flags = flags._replace(segment=False, last_segment=False)
        if wanted.browse:
            if wanted.ordered and not record.open and (wanted.browse != "again" or not access.order):
                access.anchor = first.place
            access.cursor, access.order = first.place, wanted.ordered
            access.browse = Record(first.item, length, flags, first.persistent, False, wanted.ordered)
            for message in messages:
                message.locked_by = access if wanted.lock else message.locked_by
            return Got(numbers, MQRC.TRUNCATED_MSG_ACCEPTED if short else OK)
        in_unit = wanted.syncpoint == "always" or (wanted.syncpoint == "if persistent" and first.persistent)
        before, program = access.get, access.program
        if wanted.ordered and not wanted.under_cursor and before.open and in_unit != before.in_unit:
            return MQRC.INCONSISTENT_UOW
        if not in_unit and len(messages) > 1 and first.persistent and program.unit is not None:
            return MQRC.UOW_NOT_AVAILABLE
        unit = (program.unit or Unit()) if in_unit else Unit()
        if self.full(unit):
            return MQRC.SYNCPOINT_LIMIT_REACHED
        reason = OK
        if not wanted.ordered and before.ordered and before.open:
            if first.item != before.next:
                reason = before.unfinished
            elif in_unit != before.in_unit:
                reason = MQRC.INCONSISTENT_UOW
        for message in messages:
            message.state, message.locked_by = GOT, None
            if not in_unit:
                self.messages.remove(message)
        if in_unit:
            program.unit = unit
            unit.gets += messages
            unit.records.append((access, "get", before))
            unit.get_calls += 1
        access.get = Record(first.item, length, flags, first.persistent, in_unit, wanted.ordered)
        return Got(numbers, MQRC.TRUNCATED_MSG_ACCEPTED if short else reason)

    # What is there

    def in_order(self) -> list[Message]:
        return sorted(self.messages, key=lambda message: message.place)

    def visible(self, access: Access) -> list[Message]:
        return [message for message in self.in_order() if message.state == HERE and message.locked_by in (None, access)]

    def first_at(self, access: Access, item: Item) -> Message | None:
        return next((message for message in self.visible(access) if message.item == item), None)

    def segments_from(self, access: Access, first: Message) -> list[Message]:
        """End to end from the first segment to the last, or to where one is missing."""
        segments = [first]
        while segments[-1].flags.segment and not segments[-1].flags.last_segment:
            group, number, offset = segments[-1].item
            behind = self.first_at(access, Item(group, number, offset + segments[-1].length))
            if behind is None:
                break
            segments.append(behind)
        return segments

    def begins_whole(self, access: Access, message: Message) -> bool:
        if not message.flags.segment:
            return True
        return message is self.first_at(access, message.item) and self.message_complete(access, message)

    def message_complete(self, access: Access, message: Message) -> bool:
        return not message.flags.segment or self.complete_at(access, message.item.group, message.item.number)

    def complete_at(self, access: Access, group: bytes, number: int) -> bool:
        first = self.first_at(access, Item(group, number, 0))
        if first is None:
            return False
        last = self.segments_from(access, first)[-1].flags
        return last.last_segment or not last.segment

    def group_complete(self, access: Access, message: Message) -> bool:
        """Every logical message from 1 to the last is there, with all its segments."""
        if not message.flags.grouped:
            return self.message_complete(access, message)
        group, number = message.item.group, 1
        while self.complete_at(access, group, number):
            if any(other.flags.last_message and other.item[:2] == (group, number) for other in self.visible(access)):
                return True
            number += 1
        return False

    # Units of work and handles

    def end_unit(self, program: Program, *, commit: bool) -> None:
        unit, program.unit = program.unit, None
        if unit is None:
            return
        for message in unit.gets if commit else unit.puts:
            self.messages.remove(message)
        for message in unit.puts if commit else unit.gets:
            message.state = HERE
            message.backouts += not commit
        if not commit:
            for access, kind, record in reversed(unit.records):
                setattr(access, kind, record)

    def full(self, unit: Unit) -> bool:
        return len(unit.puts) + unit.get_calls >= self.max_calls

    def unlock(self, access: Access) -> bool:
        locked = [message for message in self.messages if message.locked_by is access]
        for message in locked:
            message.locked_by = None
        return bool(locked)

    def close(self, access: Access) -> MQRC:
        """MQCLOSE, with its warning."""
        self.unlock(access)
        warnings = [record.unfinished for record in (access.put, access.get) if record.ordered]
        return next(filter(None, warnings), OK)
