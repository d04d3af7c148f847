"""IdentityIndex: from an identifier to the keys of the available messages that carry it, in queue order.

Most identifiers are carried by one message, so one key stands in the table as it is; a set of keys takes its place
when a second comes. The identifier of zeros is none, and is not indexed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.queues.shelf.sorted_keys import SortedKeys
from broker.mqi.structures import NO_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class IdentityIndex:
    """Keys by identifier."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[bytes, int | SortedKeys[int]] = {}

    def add(self, identity: bytes, key: int) -> None:
        """Note that the message at `key` carries `identity`."""
        if identity == NO_ID:
            return
        held = self._keys.get(identity)
        if held is None:
            self._keys[identity] = key
        elif isinstance(held, int):
            several: SortedKeys[int] = SortedKeys()
            several.add(held)
            several.add(key)
            self._keys[identity] = several
        else:
            held.add(key)

    def discard(self, identity: bytes, key: int) -> None:
        """Forget the message at `key`."""
        held = self._keys.get(identity)
        if held is None:
            return
        if isinstance(held, int):
            if held == key:
                del self._keys[identity]
            return
        held.discard(key)
        if not held:
            del self._keys[identity]

    def after(self, identity: bytes, key: int) -> Iterable[int]:
        """The keys greater than `key` whose messages carry `identity`, ascending."""
        held = self._keys.get(identity)
        if held is None:
            return ()
        if isinstance(held, int):
            return (held,) if held > key else ()
        return held.after(key)

    def count(self, identity: bytes) -> int:
        """Return the number of messages that carry `identity`."""
        held = self._keys.get(identity)
        return 0 if held is None else 1 if isinstance(held, int) else len(held)

    def check_invariants(self, carried: Mapping[int, bytes]) -> None:
        """Raise AssertionError unless the index holds exactly `carried` (key to identifier). For tests."""
        indexed = {}
        for identity, held in self._keys.items():
            for key in (held,) if isinstance(held, int) else held:
                indexed[key] = identity
        assert indexed == {key: identity for key, identity in carried.items() if identity != NO_ID}
