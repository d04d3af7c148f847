"""Order by key: of the messages of one key only the first may be taken, and none while one is being handled or waits
for its next attempt (handlers rule 6.2).

It is kept as a view of the shelf is, message by message as they come and go, so a million messages of a key that is
busy cost the taking of another key nothing. A message without a key waits for no other and no other waits for it: of it
nothing is kept but that it may be taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.message.headers import properties
from broker.core.queues.shelf.sorted_keys import SortedKeys
from broker.core.queues.shelf.views import View
from broker.mqi.layouts import folders, rfh2
from broker.mqi.structures import NO_ID

if TYPE_CHECKING:
    from broker.core.message.entry import Entry

WHOLE_QUEUE: Final = "*"


def value_of(entry: Entry, order_by: str) -> object:
    """Return the value that orders a message: the property, or the field; a message that has none is its own key, the
    only value that is an int.
    """
    if order_by == WHOLE_QUEUE:
        return WHOLE_QUEUE
    if order_by in ("correl_id", "group_id"):
        id = entry.correl_id if order_by == "correl_id" else entry.group_id
        return entry.key if id == NO_ID else id
    if entry.properties:
        texts = rfh2.unpack(properties.folders_of(entry.properties))
        found = folders.decode(texts)
        for name in (order_by, f"usr.{order_by}", order_by.removeprefix("usr.")):
            if name in found:
                return (name.removeprefix("usr."), found[name])
    return entry.key


class _Heads(SortedKeys[int]):
    """The keys of the messages that may be taken. To discard one that has gone lets the next of its value come up."""

    def __init__(self, order: Order) -> None:
        super().__init__()
        self._order = order

    def discard(self, key: int) -> None:
        """A message is not available any more."""
        self._order.gone(key)

    def drop(self, key: int) -> None:
        """A message may not be taken now."""
        super().discard(key)


class Order(View):
    """The messages of a shelf by the values of their keys."""

    __slots__ = ("_available", "_heads", "_held", "_retried", "_values", "by")

    def __init__(self, by: str) -> None:
        super().__init__(self._may_be_taken, lambda _: ())
        self.complete = True  # all messages have been looked at, or are before they are available
        self.by = by
        self.keys = self._heads = _Heads(self)
        self._values: dict[int, object] = {}  # of the available messages that are not their own key
        self._available: dict[object, SortedKeys[int]] = {}  # by value
        self._held: dict[object, int] = {}  # how many are in flight, or wait for their next attempt
        self._retried: dict[int, object] = {}  # those that wait, by key

    def _may_be_taken(self, entry: Entry) -> bool:
        value = self._values.get(entry.key)
        return value is None or (value not in self._held and self._available[value].first() == entry.key)

    def refresh(self, entry: Entry) -> None:
        """An available message came, or what it is judged by has changed."""
        key = entry.key
        if key in self._values:
            return
        value = value_of(entry, self.by)
        if value == key:
            self._show_single(key)
            return
        retried = self._retried.pop(key, None)
        self._values[key] = value
        before = self._available.setdefault(value, SortedKeys())
        first = before.first()
        before.add(key)
        if retried is not None:
            self.free(retried)
        if value not in self._held and (first is None or key < first):
            if first is not None:
                self._heads.drop(first)
            if key not in self.keys:
                self.keys.add(key)

    def gone(self, key: int) -> None:
        """A message is not available any more: the next of its value comes up."""
        self._heads.drop(key)
        value = self._values.pop(key, None)
        if value is None:
            return
        same = self._available[value]
        same.discard(key)
        if not same:
            del self._available[value]
        else:
            self._show(value)

    def value(self, entry: Entry) -> object:
        """Return the value that orders an available message."""
        return self._values.get(entry.key, entry.key)

    def following(self, value: object, count: int) -> list[int]:
        """The keys of the first available messages of a value."""
        if type(value) is int:
            return [value]
        same = self._available.get(value)
        return [] if same is None else [key for key, _ in zip(same, range(count), strict=False)]

    def hold(self, value: object) -> None:
        """A message of this value is in flight: no other may be taken."""
        if type(value) is int:
            return
        self._held[value] = self._held.get(value, 0) + 1
        same = self._available.get(value)
        first = None if same is None else same.first()
        if first is not None:
            self._heads.drop(first)

    def free(self, value: object) -> None:
        """It is in flight no more, or waits no more."""
        if type(value) is int:
            return
        left = self._held.get(value, 0) - 1
        if left > 0:
            self._held[value] = left
        else:
            self._held.pop(value, None)
            self._show(value)

    def hold_retried(self, entry: Entry) -> None:
        """A message waits for its next attempt: it holds back the others of its value until it is available again, or
        has gone.
        """
        value = value_of(entry, self.by)
        if type(value) is not int and entry.key not in self._retried:
            self._retried[entry.key] = value
            self.hold(value)

    def _show_single(self, key: int) -> None:
        """A message that is its own key may be taken."""
        last = self._heads.last()
        if last is None or key > last or key not in self._heads:
            self._heads.add(key)

    def _show(self, value: object) -> None:
        same = self._available.get(value)
        first = None if same is None or value in self._held else same.first()
        if first is not None and first not in self.keys:
            self.keys.add(first)
