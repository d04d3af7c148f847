"""The checks of the rows in the snapshot: no byte that was changed on the disk reaches a program (journal rule 13).

Each is a CRC-32 that begins with the key of the store, over what names the row and what is in it. So a row whose bytes
were changed, and one that lies where another belongs, are both told.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

if TYPE_CHECKING:
    from broker.storage.store import KeyRow, MessageRow, ObjectRow, StepRow

_HEAD: Final = Struct("<qqqqq").pack
_COUNTERS: Final = Struct("<qqq").pack
_HELD: Final = Struct("<qqqqqq").pack
_KEY: Final = Struct("<qqdqq").pack
_STEP: Final = Struct("<qqq").pack
_ID: Final = Struct("<q").pack
_TALLY: Final = Struct("<16sqqqQqQq")

TALLY_MAX: Final = 2**64


class Tally(NamedTuple):
    """The contents of a snapshot: all up to the record `number` of the log, which was of `generation`. Counts of rows,
    and the sums of their checks mod 2^64: an older page in the middle of newer ones is told by them. Among the objects
    are the keys of puts, and steps.
    """

    number: int = 0
    generation: int = 1
    messages: int = 0
    message_sum: int = 0
    objects: int = 0
    object_sum: int = 0
    high_water: int = 0


class Checks:
    """The checks of one store. `seed` is the CRC-32 of its key."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def head(self, id: int, queue: int, rank: int, persistent: int, length: int, descriptor: bytes) -> int:
        """Of what never changes in the row of a message."""
        return crc32(descriptor, crc32(_HEAD(id, queue, rank, persistent, length), self._seed))

    def counters(  # the fields of a row
        self,
        id: int,
        backout_count: int,
        hardened: int,
        holder: int = 0,
        sequence: int = 0,
        place: int = 0,
        handling: bytes = b"",
    ) -> int:
        """Of what may change in it. The numbers at the end are part of it where one is not 0, as in version 2 none was,
        and `handling` where it is not empty, as in version 3 it was.
        """
        if holder or sequence or place:
            check = crc32(_HELD(id, backout_count, hardened, holder, sequence, place), self._seed)
        else:
            check = crc32(_COUNTERS(id, backout_count, hardened), self._seed)
        return crc32(handling, check) if handling else check

    def data(self, id: int, data: bytes) -> int:
        """Of the data of a message."""
        return crc32(data, crc32(_ID(id), self._seed))

    def object(self, row: ObjectRow) -> int:
        """Of a definition."""
        names = b"\0".join(each.encode() for each in (row.space, row.name, row.kind))
        return crc32(row.attributes, crc32(names, crc32(_ID(row.number), self._seed)))

    def key(self, row: KeyRow) -> int:
        """Of the key of a put."""
        fields = _KEY(row.queue, row.id, row.until, len(row.key), len(row.msg_id))
        return crc32(b"".join((fields, row.key, row.msg_id, row.digest)), self._seed)

    def step(self, row: StepRow) -> int:
        """Of a finished step."""
        name = row.name.encode()
        return crc32(row.value, crc32(name, crc32(_STEP(row.id, row.place, len(name)), self._seed)))

    def message(self, row: MessageRow) -> int:
        """Return the share of a message's row in the sum."""
        head = self.head(row.id, row.queue, row.rank, row.persistent, row.length, row.descriptor)
        return head + self.counters(
            row.id, row.backout_count, row.hardened, row.holder, row.sequence, row.place, row.handling
        )

    def seal(self, instance: bytes, tally: Tally) -> bytes:
        """The value of the state row: the tally of a snapshot of this instance, and its check."""
        value = _TALLY.pack(
            instance, tally.number, tally.generation, tally.messages, tally.message_sum,
            tally.objects, tally.object_sum, tally.high_water,
        )  # fmt: skip
        return value + crc32(value, self._seed).to_bytes(4, "little")

    @staticmethod
    def sealed(value: bytes) -> tuple[bytes, int]:
        """Return the part of a state row that its check covers, and the check."""
        return value[:-4], int.from_bytes(value[-4:], "little")

    def unseal(self, value: bytes) -> tuple[bytes, Tally] | None:
        """The instance and the tally of a state row; None when it is damaged."""
        if len(value) != _TALLY.size + 4 or crc32(value[:-4], self._seed) != int.from_bytes(value[-4:], "little"):
            return None
        instance, *fields = _TALLY.unpack(value[:-4])
        return instance, Tally(*fields)
