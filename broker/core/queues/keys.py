"""The keys of puts: they tell a repeated put from a new one (handlers rule 4).

A key is kept as a keyed hash of 16 bytes, with the message that was put with it first: its *holder*. It is forgotten
when its window is over, or, where it has none, when its holder has gone from the queue. A unit of work that puts with a
key has it to itself until it ends: only then the key is known to all.

Invariants (`check_invariants`): a holder that is on the queue has its key in `_by_holder`; each key that has a window
has a record in `_times`; the total counts the keys of all queues, pending ones too.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.message.rows import KeyRow
from broker.core.queues.delayed.wheel import Wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.message.entry import Entry
    from broker.core.queues.unit import Unit

KEYS_MAX: Final = 1_000_000
"""The number of keys that a queue manager keeps, unless it is told otherwise."""

_FIELDS: Final = Struct("<Qd8s")
_DROPPED_AT_ONCE: Final = 8  # with each put that has a key, of those whose time is over
_DROPPED_A_STEP: Final = 200
_STALE_MAX: Final = 1000


class KeyHolder(NamedTuple):
    """The first put with a key: `id` and the given MsgId (else b"") of the message, the digest of its data, and when
    the key is forgotten (seconds since 1970; 0: when the message has gone).
    """

    id: int
    until: float
    digest: bytes
    msg_id: bytes

    def pack(self) -> bytes:
        return _FIELDS.pack(self.id, self.until, self.digest) + self.msg_id

    @staticmethod
    def unpack(packed: bytes) -> KeyHolder:
        id, until, digest = _FIELDS.unpack_from(packed)
        return KeyHolder(id, until, digest, packed[_FIELDS.size :])


def digest_of(data: bytes) -> bytes:
    """Return a digest that tells the data of one message from that of another."""
    return blake2b(data, digest_size=8).digest()


class KeyCount:
    """The part that the keys of all queues of a queue manager share: their number, its maximum, and the secret of their
    hashes. `freed` are keys that were forgotten with their messages, and are to be forgotten by the store too.
    """

    __slots__ = ("count", "freed", "maximum", "secret")

    def __init__(self) -> None:
        self.count = 0
        self.maximum = KEYS_MAX
        self.secret = b""
        self.freed: list[tuple[int, bytes]] = []

    def hashed(self, key: bytes) -> bytes:
        """The keyed hash under which a key is kept."""
        return blake2b(key, digest_size=16, key=self.secret).digest()


class Keys:
    """The keys of one queue, whose number in the store is `number`."""

    __slots__ = (
        "_by_holder",
        "_deleted",
        "_held",
        "_number",
        "_of_all",
        "_pending",
        "_times",
        "duplicates",
        "other_data",
    )

    def __init__(self, number: int, of_all: KeyCount) -> None:
        self._number = number
        self._of_all = of_all
        self._held: dict[bytes, bytes] = {}  # packed holders
        self._by_holder: dict[int, bytes] = {}  # the keys of messages that are on the queue
        self._pending: dict[bytes, tuple[Unit, Entry, KeyHolder]] = {}  # of units of work that have not ended
        self._times: Wheel[bytes] = Wheel()
        self._deleted = False
        self.duplicates = 0  # how many puts were answered as made before
        self.other_data = 0  # and how many of them had other data

    def __len__(self) -> int:
        return len(self._held) + len(self._pending)

    def find(self, hashed: bytes, now: float) -> KeyHolder | None:
        """Return the holder of the key, units of work that have not ended aside."""
        packed = self._held.get(hashed)
        if packed is None:
            return None
        holder = KeyHolder.unpack(packed)
        if holder.until and holder.until <= now:
            self._forget(hashed, holder)
            return None
        return holder

    def pending(self, hashed: bytes) -> tuple[Unit, Entry, KeyHolder] | None:
        """The unit of work that has the key to itself, and its message."""
        return self._pending.get(hashed)

    def of(self, entry: Entry) -> bytes | None:
        """The key with which a message on the queue was put, as long as it is kept."""
        return self._by_holder.get(entry.id)

    def stored(self) -> list[tuple[int, bytes]]:
        """All that the store may have."""
        return [(self._number, hashed) for hashed in self._held]

    # What becomes of them

    def begin(self, hashed: bytes, unit: Unit, entry: Entry, holder: KeyHolder) -> None:
        """A unit of work puts with a key that nobody else has."""
        self._pending[hashed] = unit, entry, holder
        self._of_all.count += 1

    def undo(self, hashed: bytes) -> None:
        """It is backed out."""
        del self._pending[hashed]
        self._of_all.count -= 1

    def commit(self, hashed: bytes, now: float) -> None:
        """It is committed, before the messages that it has got go: who held the key until now does so no longer."""
        if self._deleted:
            self.undo(hashed)
            return
        _, _, holder = self._pending.pop(hashed)
        before = self._held.get(hashed)
        if before is not None:
            self._by_holder.pop(KeyHolder.unpack(before).id, None)
            self._of_all.count -= 1
        self._hold(hashed, holder, now)
        self._by_holder[holder.id] = hashed

    def row(self, hashed: bytes) -> KeyRow:
        """Return the stored row of a key that a unit of work puts with."""
        _, _, holder = self._pending[hashed]
        return KeyRow(self._number, hashed, holder.id, holder.msg_id, holder.digest, holder.until)

    def gone(self, entry: Entry) -> None:
        """A message is on the queue no longer: a key that it has for as long is forgotten."""
        hashed = self._by_holder.pop(entry.id, None)
        packed = None if hashed is None else self._held.get(hashed)
        if packed is None or hashed is None:
            return
        holder = KeyHolder.unpack(packed)
        if not holder.until and holder.id == entry.id:
            self._forget(hashed, holder)
            if entry.persistence:
                self._of_all.freed.append((self._number, hashed))

    def free(self, hashed: bytes, id: int) -> None:
        """The holder was cancelled: its key is free."""
        packed = self._held.get(hashed)
        if packed is not None and KeyHolder.unpack(packed).id == id:
            self._forget(hashed, KeyHolder.unpack(packed))

    def forget_all(self) -> None:
        """The queue is deleted."""
        self._deleted = True
        self._of_all.count -= len(self._held)
        self._held.clear()
        self._by_holder.clear()
        self._times = Wheel()

    def load(self, row: KeyRow, now: float, *, on_queue: bool) -> bool:
        """Load a stored key. False if it counts no longer. `on_queue`: its holder is there."""
        if (row.until and row.until <= now) or not (row.until or on_queue):
            return False
        self._of_all.count += 1
        self._hold(row.key, KeyHolder(row.id, row.until, row.digest, row.msg_id), now)
        if on_queue:
            self._by_holder[row.id] = row.key
        return True

    def drop_old(self, now: float) -> None:
        """Forget some keys whose time is over: more than come with one put."""
        self._times.cut(now)
        for hashed, _ in self._times.pop(now, _DROPPED_AT_ONCE):
            self.find(hashed, now)

    def tidy(self, now: float) -> Iterator[None]:
        """Forget all of them, in steps, and what was kept of the times of keys that were freed."""
        while self._times.cut(now):
            yield
        while popped := self._times.pop(now, _DROPPED_A_STEP):
            for hashed, _ in popped:
                self.find(hashed, now)
            yield
        if len(self._times) > 2 * len(self._held) + _STALE_MAX:
            yield from self._times.sweep(self._is_stale)

    def _is_stale(self, hashed: bytes, due: float) -> bool:
        packed = self._held.get(hashed)
        return packed is None or KeyHolder.unpack(packed).until != due

    def _hold(self, hashed: bytes, holder: KeyHolder, now: float) -> None:
        self._held[hashed] = holder.pack()
        if holder.until:
            self._times.add(hashed, holder.until, now)

    def _forget(self, hashed: bytes, holder: KeyHolder) -> None:
        del self._held[hashed]
        self._of_all.count -= 1
        if self._by_holder.get(holder.id) == hashed:
            del self._by_holder[holder.id]

    def check_invariants(self) -> None:
        """Raise AssertionError when the structure is broken. For tests."""
        self._times.check_invariants()
        windows = 0
        for packed in self._held.values():
            windows += bool(KeyHolder.unpack(packed).until)
        assert windows <= len(self._times)
        for id, hashed in self._by_holder.items():
            assert KeyHolder.unpack(self._held[hashed]).id == id
