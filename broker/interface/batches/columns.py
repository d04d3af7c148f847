"""Many messages as columns: how claims are read, queues browsed by number, and prepared units staged.

A frame is one msgpack array; each column is one byte string, little-endian, so that a program which wants columns (the
Spark source, by Arrow) makes them of it without touching a message. It stands in place of the messages of many MQGETs.

`pack` and `unpack` go between `Columns` and the bytes of a frame; `broker.interface.batches.column_messages` between
columns and messages.
"""

from __future__ import annotations

from itertools import accumulate, pairwise, repeat
from operator import gt
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeVar

import msgpack

from broker.mqi.errors import MQError
from broker.mqi.names import NAME_LENGTH
from broker.mqi.reasons import MQRC
from broker.mqi.structures import NO_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

V = TypeVar("V")

MESSAGES_MAX: Final = 1024
SHORT_MESSAGES_MAX: Final = 4096
SHORT_BYTES: Final = 256
BYTES_MAX: Final = 2 * 1024 * 1024
"""A frame ends at MESSAGES_MAX messages (SHORT_MESSAGES_MAX where they are short, SHORT_BYTES each on the average) or
BYTES_MAX of data; a longer message goes alone.
"""

ENVELOPE_BYTES: Final = 200
"""The bytes that a message may take of a frame beside its data, its descriptor and its properties."""

ID_LENGTH: Final = 24
LEAST_PRIORITY: Final = -1


class Columns(NamedTuple):
    """The messages of a frame. A column of identifiers has 24 bytes a message, `keys` is int64, `queues` int16,
    `persistences` int8, the offsets and all others int32. None stands for a column whose values are all the default:
    NO_ID, MsgSeqNumber 1, Offset 0, MsgFlags 0, OriginalLength -1, BackoutCount 0, expiry -1, the first queue or
    descriptor, no properties. Priorities and MsgFlags may reach beyond 31 bits: then the sign is their highest bit.

    `first` is the sequence of the first message where these are claims, `keys` the arrival numbers where the frame
    is of a browse; neither where it is staged. `descriptors` are packed (`broker.mqi.layouts.packing`), `descriptor_of`
    says which of them each message has. `expiries` are what is left, in tenths of a second. Body i is
    `bodies[body_offsets[i]:body_offsets[i + 1]]`, and so are the packed properties.
    """

    messages: int
    first: int
    keys: bytes | None
    msg_ids: bytes | None
    correl_ids: bytes | None
    group_ids: bytes | None
    msg_seq_numbers: bytes | None
    offsets: bytes | None
    msg_flags: bytes | None
    original_lengths: bytes | None
    backout_counts: bytes | None
    expiries: bytes | None
    priorities: bytes
    persistences: bytes
    q_names: list[str]
    queues: bytes | None
    descriptors: list[bytes]
    descriptor_of: bytes | None
    property_offsets: bytes | None
    properties: bytes
    body_offsets: bytes
    bodies: bytes


NO_MESSAGES: Final = Columns(
    0, 0, None, None, None, None, None, None, None, None, None, None, b"", b"", [], None, [], None, None, b"",
    bytes(4), b"",
)  # fmt: skip
"""A frame without messages."""

_UNSIGNED: Final = 2**32 - 1
_COLUMNS: Final = len(Columns._fields)
_FIRST_MAX: Final = 2**63 - 1
_DESCRIPTOR_BYTES_MAX: Final = 64 * 1024
_LISTS: Final = 3  # the frame, its names of queues, its descriptors
_WIDTHS: Final = {
    "keys": 8, "msg_ids": ID_LENGTH, "correl_ids": ID_LENGTH, "group_ids": ID_LENGTH, "msg_seq_numbers": 4,
    "offsets": 4, "msg_flags": 4, "original_lengths": 4, "backout_counts": 4, "expiries": 4, "priorities": 4,
    "persistences": 1, "queues": 2, "descriptor_of": 4,
}  # fmt: skip
"""By column: how many bytes a message has of it."""

_ALWAYS: Final = frozenset(("priorities", "persistences"))
_BIN: Final = Struct(">BI")  # the head of a long byte string in msgpack
_BIN_32: Final = 0xC6
_ARRAY: Final = b"\xdc" + _COLUMNS.to_bytes(2, "big")
_COUNT: Final = Struct(">3sBH")  # the head of a frame, and how many messages it has
_FIXINT_MAX: Final = 0x7F
_UINT_8: Final = 0xCC
_UINT_16: Final = 0xCD

_pack: Final = msgpack.Packer().pack


def integers(column: bytes, kind: str = "i") -> tuple[int, ...]:
    """The values of a column: `kind` as `struct` has it, "q" for int64, "i" int32, "h" int16, "b" int8."""
    width = Struct(kind).size
    values: tuple[int, ...] = Struct(f"<{len(column) // width}{kind}").unpack(column)
    return values


def values_in(column: bytes | None, default: int) -> Iterable[int]:
    """The values of a column of int32, or its default without end."""
    return repeat(default) if column is None else integers(column)


def unsigned(column: bytes | None, least: int) -> Iterable[int]:
    """As `values_in` with the default 0, of a field whose highest bit is no sign; but none is below `least`."""
    values = () if column is None else integers(column)
    if min(values, default=least) < least:
        return [value if value >= least else value + _UNSIGNED + 1 for value in values]
    return repeat(0) if column is None else values


def identifiers_in(column: bytes | None) -> Iterable[bytes]:
    """The identifiers of a column, or NO_ID without end."""
    if column is None:
        return repeat(NO_ID)
    return [column[start : start + ID_LENGTH] for start in range(0, len(column), ID_LENGTH)]


def spread(values: Sequence[V], places: bytes | None, kind: str) -> Iterable[V]:
    """The value of each message, of those that messages share; without end, where all have the first."""
    if places is None:
        return repeat(values[0]) if values else ()
    return [values[place] for place in integers(places, kind)]


def parts_of(whole: bytes, offsets: bytes) -> list[bytes]:
    """The parts that are joined, such as bodies."""
    return [whole[start:end] for start, end in pairwise(integers(offsets))]


def packed(values: Sequence[int], kind: str = "i") -> bytes:
    """A column of these values, which fit into `kind`; of "i" they may be without a sign, up to 32 bits."""
    if kind == "i" and values and max(values) > _UNSIGNED >> 1:
        return Struct(f"<{len(values)}I").pack(*[value & _UNSIGNED for value in values])
    return Struct(f"<{len(values)}{kind}").pack(*values)


def unless_default(values: list[int], default: int) -> bytes | None:
    """A column of int32; None where all values are the default."""
    return packed(values) if values.count(default) < len(values) else None


def identifiers(values: list[bytes]) -> bytes | None:
    """A column of identifiers; None where all are NO_ID."""
    return b"".join(values) if values.count(NO_ID) < len(values) else None


def offsets_of(parts: Sequence[bytes]) -> bytes:
    """Return the offsets at which these parts begin when joined, and the end of the last one."""
    return packed([0, *accumulate(map(len, parts))])


class Fill:
    """The fill of a frame of at most `longest` bytes: `take` counts messages into it. The first one goes into it,
    however long it is.
    """

    __slots__ = ("_data", "_longest", "_whole", "messages")

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._data = self._whole = self.messages = 0

    def take(self, sizes: Iterable[tuple[int, int]]) -> int:
        """Return how many of these messages, from the first, go into the frame: each has so many bytes of data, and so
        many of descriptor and properties.
        """
        before = count = self.messages
        data, whole = self._data, self._whole
        for length, others in sizes:
            then, then_whole = data + length, whole + length + others + ENVELOPE_BYTES
            if count:
                if then > BYTES_MAX or then_whole > self._longest:
                    break
                if count >= MESSAGES_MAX and (count == SHORT_MESSAGES_MAX or then > (count + 1) * SHORT_BYTES):
                    break
            data, whole, count = then, then_whole, count + 1
        self._data, self._whole, self.messages = data, whole, count
        return count - before


def pack(columns: Columns, bodies: list[bytes] | None = None) -> bytes:
    """The frame of these columns. `bodies` may be given one by one: then `columns.bodies` is not looked at, and none is
    copied twice.
    """
    parts = [columns.bodies] if bodies is None else bodies
    length = sum(map(len, parts))
    head = [_pack(column) for column in columns[:-1]]
    return b"".join([_ARRAY, *head, _BIN.pack(_BIN_32, length), *parts])


def unpack(frame: bytes) -> Columns:
    """The columns of a frame, which may have come from anybody. Raises BUFFER_ERROR (2004) for bytes that are no frame
    of columns.
    """
    if type(frame) is not bytes:
        _bad(f"it is of type {type(frame).__name__}, not bytes")
    columns = _taken_apart(frame)
    _check_kinds(columns)
    _check_lengths(columns)
    _check_offsets("property_offsets", columns.property_offsets, columns)
    _check_offsets("body_offsets", columns.body_offsets, columns)
    _check_lists(columns)
    return columns


def messages_in(frame: object) -> int:
    """Return the largest number of messages that a supposed frame may have, without a look at them."""
    if type(frame) is not bytes or len(frame) < _COUNT.size:
        return 0
    array, kind, count = _COUNT.unpack_from(frame)
    if array != _ARRAY:
        return SHORT_MESSAGES_MAX
    if kind <= _FIXINT_MAX:
        return int(kind)
    if kind == _UINT_8:
        return int(count >> 8)
    return min(count, SHORT_MESSAGES_MAX) if kind == _UINT_16 else SHORT_MESSAGES_MAX


def _taken_apart(frame: bytes) -> Columns:
    """Unpack a frame with msgpack: no more lists than a frame has, and none with more than it has messages."""
    lists = 0

    def counted(found: list[Any]) -> list[Any]:
        nonlocal lists
        lists += 1
        if lists > _LISTS:
            raise ValueError("it has more lists than a frame has")
        return found

    try:
        columns = msgpack.unpackb(
            frame,
            raw=False,
            list_hook=counted,
            ext_hook=_refuse_extension,
            max_array_len=SHORT_MESSAGES_MAX,
            max_map_len=0,
            max_ext_len=0,
        )
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        _bad(str(error))
    if type(columns) is not list or len(columns) != _COLUMNS:
        _bad(f"it is no array of {_COLUMNS} columns")
    return Columns(*columns)


def _refuse_extension(code: int, data: bytes) -> object:
    raise ValueError(f"extension type {code} is not used here")


def _check_kinds(columns: Columns) -> None:
    messages, first, q_names, descriptors = columns.messages, columns.first, columns.q_names, columns.descriptors
    if type(messages) is not int or not 0 <= messages <= SHORT_MESSAGES_MAX:
        _bad(f"it has {messages!r} messages, a frame has 0 to {SHORT_MESSAGES_MAX}")
    if type(first) is not int or not 0 <= first <= _FIRST_MAX:
        _bad(f"first={first!r}: a sequence, or 0")
    if type(q_names) is not list or any(type(name) is not str or len(name) > NAME_LENGTH for name in q_names):
        _bad("the names of its queues are no list of names")
    if type(descriptors) is not list or any(
        type(each) is not bytes or len(each) > _DESCRIPTOR_BYTES_MAX for each in descriptors
    ):
        _bad("its descriptors are no list of byte strings")
    if type(columns.properties) is not bytes or type(columns.bodies) is not bytes:
        _bad("its properties or bodies are no byte string")
    if messages and not (q_names and descriptors):
        _bad(f"its {messages} messages have no queue, or no descriptor")


def _check_lengths(columns: Columns) -> None:
    for name, width in _WIDTHS.items():
        column = getattr(columns, name)
        if column is None and name not in _ALWAYS:
            continue
        if type(column) is not bytes or len(column) != width * columns.messages:
            _bad(f"{name} is not {columns.messages} times {width} bytes")


def _check_offsets(name: str, offsets: bytes | None, columns: Columns) -> None:
    """Offsets begin at 0, never go back, and end where the bytes end that they take apart."""
    whole = columns.bodies if name == "body_offsets" else columns.properties
    if offsets is None and name == "property_offsets":
        if whole:
            _bad(f"{len(whole)} bytes of properties belong to no message")
        return
    if type(offsets) is not bytes or len(offsets) != 4 * (columns.messages + 1):
        _bad(f"{name} is not {columns.messages + 1} times 4 bytes")
    places = integers(offsets)
    if places[0] != 0 or places[-1] != len(whole) or any(gt(*pair) for pair in pairwise(places)):
        _bad(f"{name} does not run from 0 to {len(whole)}")


def _check_lists(columns: Columns) -> None:
    for name, column, kind, among in (
        ("queues", columns.queues, "h", columns.q_names),
        ("descriptor_of", columns.descriptor_of, "i", columns.descriptors),
    ):
        if column:
            places = integers(column, kind)
            if min(places) < 0 or max(places) >= len(among):
                _bad(f"{name} has places beyond the {len(among)} that there are")


def _bad(why: str) -> NoReturn:
    raise MQError(MQRC.BUFFER_ERROR, f"this is no frame of columns: {why}")
