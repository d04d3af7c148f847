"""A record of the log: one batch of rows as bytes that count only whole, and only where they say they lie.

A record is whole blocks: a header, the batch in msgpack (numbers and bytes only), zeros. Its check begins with the
secret key of the store, so that nothing a program sends can look like a record (log rule 2). All numbers are
little-endian.
"""

from __future__ import annotations

import struct
from itertools import chain, starmap
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

import msgpack

from broker.core.message.rows import KeyRow, MessageRow, Numbering, ObjectRow, Rows, StepRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.storage.disk.disk import Content

MAGIC: Final = b"EVMQ"
FORMAT: Final = 1

_HEADER: Final = struct.Struct("<4sHHIIIIQ12s")  # all but the check
_CHECK: Final = struct.Struct("<I")
HEADER_BYTES: Final = _HEADER.size + _CHECK.size
"""Magic, format, flags, generation, file, block, length of the payload, number, reserved, check."""

_HOLDER: Final = MessageRow._fields.index("holder")
_PLACE: Final = MessageRow._fields.index("place")
_HANDLING: Final = MessageRow._fields.index("handling")
_FREE_FIELDS: Final = _HOLDER
"""So many fields has the row of a message that nobody holds, no unit has placed and no handler has left anything with:
the others are 0 or empty.
"""

_FILE_MAGIC: Final = b"EVMQLOGF"
_FILE_HEADER: Final = struct.Struct("<8sH16sIIQ")  # magic, format, instance, file, block_bytes, file_bytes


class LogPlace(NamedTuple):
    """The place at which a record begins: the number of its file, and of its first block in there."""

    file: int
    block: int


class Record(NamedTuple):
    """A record that counts, as it was found."""

    number: int
    generation: int
    place: LogPlace
    blocks: int
    payload: memoryview


def blocks_of(payload_length: int, block_bytes: int) -> int:
    """Return the number of blocks that a record with so much payload takes."""
    return -(-(HEADER_BYTES + payload_length) // block_bytes)


def encode(
    payload: Content, number: int, generation: int, place: tuple[int, int], *, seed: int, block_bytes: int
) -> bytes:
    """The blocks of a record that is to lie at `place`, a file and a block. `seed` is the CRC-32 of the store's key."""
    header = _HEADER.pack(MAGIC, FORMAT, 0, generation, *place, len(payload), number, b"")
    padding = bytes(-(HEADER_BYTES + len(payload)) % block_bytes)
    check = crc32(padding, crc32(payload, crc32(header, seed)))
    return b"".join((header, _CHECK.pack(check), payload, padding))


def decode(data: memoryview, place: LogPlace, *, seed: int, block_bytes: int) -> Record | None:
    """The record that begins at the block `place`, if there is one that counts; `data` is the file from there on."""
    if len(data) < HEADER_BYTES:
        return None
    magic, form, _, generation, file, block, length, number, _ = _HEADER.unpack_from(data)
    blocks = blocks_of(length, block_bytes)
    if magic != MAGIC or form != FORMAT or (file, block) != place or blocks * block_bytes > len(data):
        return None
    (check,) = _CHECK.unpack_from(data, _HEADER.size)
    if crc32(data[HEADER_BYTES : blocks * block_bytes], crc32(data[: _HEADER.size], seed)) != check:
        return None
    return Record(number, generation, LogPlace(file, block), blocks, data[HEADER_BYTES : HEADER_BYTES + length])


def file_header(instance: bytes, file: int, *, block_bytes: int, file_bytes: int, seed: int) -> bytes:
    """The first block of a log file, which is written when the file is made and never again."""
    header = _FILE_HEADER.pack(_FILE_MAGIC, FORMAT, instance, file, block_bytes, file_bytes)
    return (header + _CHECK.pack(crc32(header, seed))).ljust(block_bytes, b"\0")


class FileHeader(NamedTuple):
    """The first block of a log file as it says of itself. `covered` is what its check covers."""

    instance: bytes
    file: int
    block_bytes: int
    file_bytes: int
    covered: bytes
    check: int


def read_file_header(content: Content) -> FileHeader | None:
    """Return the header in the first block of a log file, unchecked; None when it is none."""
    if len(content) < _FILE_HEADER.size + _CHECK.size:
        return None
    magic, form, instance, file, block_bytes, file_bytes = _FILE_HEADER.unpack_from(content)
    if magic != _FILE_MAGIC or form != FORMAT:
        return None
    (check,) = _CHECK.unpack_from(content, _FILE_HEADER.size)
    return FileHeader(instance, file, block_bytes, file_bytes, bytes(content[: _FILE_HEADER.size]), check)


def pack(rows: Rows) -> bytes:
    """The payload of a batch. Its `states` are among its `objects`: what needs room is asked before."""
    objects: list[tuple[object, ...]] = []
    dropped: list[tuple[bytes, bytes]] = []
    if rows.objects or rows.states or rows.dropped:
        objects = [
            (each.space.encode(), each.name.encode(), each.number, each.kind.encode(), each.attributes)
            for each in chain(rows.objects, rows.states)
        ]
        dropped = [(space.encode(), name.encode()) for space, name in rows.dropped]
    inserts: list[tuple[object, ...]] = []
    for row in rows.inserts:
        inserts += (row if row[_HOLDER] or row[_PLACE] or row[_HANDLING] else row[:_FREE_FIELDS],)  # no call for each
    parts: tuple[object, ...] = (
        inserts, rows.removals, rows.backouts, rows.hardened, objects, dropped, rows.high_water,
    )  # fmt: skip
    by_handlers = rows.handled or rows.marked or rows.keys or rows.freed or rows.steps
    if rows.held or rows.placed or by_handlers:
        parts += (list(map(_packed_run, rows.held)), list(map(_packed_run, rows.placed)))
    if by_handlers:
        parts += (rows.handled, rows.marked, rows.keys, rows.freed)
    if rows.steps:
        parts += ([(each.id, each.place, each.name.encode(), each.value) for each in rows.steps],)
    payload: bytes = msgpack.Packer().pack(parts)  # as `packb` does, which is a call more
    return payload


def unpack(payload: memoryview) -> Rows:
    """The batch of a payload."""
    parts: tuple[Any, ...] = msgpack.unpackb(payload, use_list=False)
    inserts, removals, backouts, hardened, objects, dropped, high_water, *more = parts
    held, placed, handled, marked, keys, freed, steps = (more + [()] * 7)[:7]
    return Rows(
        inserts=_messages(inserts),
        removals=list(removals),
        backouts=list(backouts),
        hardened=list(hardened),
        objects=list(starmap(_object, objects)),
        dropped=[(space.decode(), name.decode()) for space, name in dropped],
        high_water=high_water,
        held=list(starmap(_run, held)),
        placed=list(starmap(_run, placed)),
        handled=list(handled),
        marked=list(marked),
        keys=list(starmap(KeyRow, keys)),
        freed=list(freed),
        steps=[StepRow(id, place, name.decode(), value) for id, place, name, value in steps],
    )


def _packed_run(run: Numbering) -> tuple[int, int, list[int]]:
    """A run with its ids as pieces of numbers that follow one another: how far each piece begins behind the end of the
    one before, and how long it is.
    """
    pieces: list[int] = []
    last = length = 0
    for id in run.ids:
        gap = id - last
        if gap == 1 and length:
            length += 1
        else:
            pieces += (length, gap)
            length = 1
        last = id
    pieces.append(length)
    return run.holder, run.first, pieces[1:]


def _run(holder: int, first: int, pieces: Sequence[int]) -> Numbering:
    ids: list[int] = []
    last = 0
    for gap, length in zip(pieces[::2], pieces[1::2], strict=True):
        ids += range(last + gap, last + gap + length)
        last += gap + length - 1
    return Numbering(holder, first, ids)


def _messages(rows: Iterable[tuple[Any, ...]]) -> list[MessageRow]:
    return [MessageRow(*row) for row in rows]


def _object(space: bytes, name: bytes, number: int, kind: bytes, attributes: bytes) -> ObjectRow:
    return ObjectRow(space.decode(), name.decode(), number, kind.decode(), attributes)
