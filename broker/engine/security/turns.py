"""Who is next: addresses take turns, then the users of an address, then who came first (security 8.2)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Turns(Generic[_T]):
    """Things that wait, each for a user at an address. Whoever brings many waits behind itself alone. Each step takes
    the same time, however many wait.
    """

    def __init__(self) -> None:
        self._addresses: OrderedDict[str, OrderedDict[str, OrderedDict[_T, None]]] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, address: str, user: str, thing: _T) -> None:
        """Let a thing wait, which waits nowhere else."""
        self._addresses.setdefault(address, OrderedDict()).setdefault(user, OrderedDict())[thing] = None
        self._length += 1

    def take(self) -> _T:
        """Take the thing that is next. Raises KeyError where none waits."""
        address = next(iter(self._addresses), "")
        users = self._addresses[address]
        user = next(iter(users))
        thing = next(iter(users[user]))
        self._addresses.move_to_end(address)
        users.move_to_end(user)
        self.discard(address, user, thing)
        return thing

    def discard(self, address: str, user: str, thing: _T) -> None:
        """Let a thing wait no longer; harmless when it does not."""
        users = self._addresses.get(address, OrderedDict())
        things = users.get(user, OrderedDict())
        if thing not in things:
            return
        del things[thing]
        self._length -= 1
        if not things:
            del users[user]
        if not users:
            del self._addresses[address]
