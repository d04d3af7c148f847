"""A shelf: messages in delivery order, found by any identifier. It says which of them a get may be given.

A local queue keeps one shelf for as long as it lives (`LocalQueue.shelf`). A shelf can as well be made of a few
messages alone (`Shelf(ids, entries)`): selection, groups and completeness are then those of these messages.

The order, the indexes, the groups and the views hold the *available* messages only. Whatever is uncommitted, locked or
damaged is in `entries` but in none of them, so ten thousand uncommitted messages at the head cost a get nothing.

Invariants (`check_invariants`): `entries` holds every message that is not GONE, by key; `available` holds exactly the
keys of the AVAILABLE ones, and so do the indexes, each for the entries that have that identifier; a view holds those of
them, up to its frontier, that it admits. `damaged` holds every message that is DAMAGED, and none that is AVAILABLE or
LOCKED. `delayed` holds exactly the keys of the DELAYED ones.
"""

from __future__ import annotations

from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from broker.core.message.entry import (
    AVAILABLE,
    DAMAGED,
    DELAYED,
    GONE,
    ID_BITS,
    ID_MASK,
    LOCKED,
    MAX_PRIORITY,
    PUT_PENDING,
    order_key,
)
from broker.core.queues.shelf.groups import Groups
from broker.core.queues.shelf.identity_index import IdentityIndex
from broker.core.queues.shelf.selection import Request, unmarked
from broker.core.queues.shelf.sorted_keys import SortedKeys
from broker.core.queues.shelf.views import GROUP_START, LOOKS_AT_ONCE, PART, START, WHOLE_GROUP, View, starts
from broker.mqi.structures import NO_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from broker.core.identifiers import Identifiers
    from broker.core.message.entry import Entry
    from broker.core.queues.handles import Marker
    from broker.core.selector import Selector

_TO_NEXT_RANK = order_key(1, 0) - order_key(0, 0)
_NO_KEY = order_key(-1, 0)  # behind all that there can be
_place = attrgetter("place")

_TICKS = 2**22
"""Ticks in a second: the steps of floating-point numbers that are seconds since 1970 in our days. The deadline of a
message in ticks, and its key behind it, are one number, which takes less room than a pair of the two.
"""
_KEY_BITS = 60
_KEY_MASK = (1 << _KEY_BITS) - 1


def _expiry_of(deadline: float, key: int) -> int:
    """Return the place of a message among those that expire."""
    return int(deadline * _TICKS) << _KEY_BITS | key


class Shelf:
    """Messages of one queue, and the structures that find them. `ids` made the MsgIds that are not given ones."""

    __slots__ = (
        "_ids",
        "available",
        "by_correl_id",
        "by_msg_id",
        "damaged",
        "delayed",
        "delayed_by_msg_id",
        "entries",
        "expiring",
        "groups",
        "selectors",
        "views",
    )

    def __init__(self, ids: Identifiers, entries: Sequence[Entry] = ()) -> None:
        self._ids = ids
        self.entries: dict[int, Entry] = {}  # by key, in whatever state
        self.available: SortedKeys[int] = SortedKeys()
        self.by_msg_id = IdentityIndex()  # given ones; `_made` finds the others
        self.by_correl_id = IdentityIndex()
        self.groups = Groups()
        self.views: dict[tuple[object, ...], View] = {}  # by what it is about
        self.selectors: dict[Selector, int] = {}  # of how many handles
        self.expiring: SortedKeys[int] = SortedKeys()  # deadlines and keys of available, damaged, delayed: `_TICKS`
        self.delayed: SortedKeys[int] = SortedKeys()
        self.delayed_by_msg_id = IdentityIndex()  # given ones
        self.damaged: dict[int, str] = {}  # by key, why: messages whose data is known not to be what was put
        self.load(entries)

    # What is on it, and what of that is available

    def load(self, entries: Sequence[Entry]) -> None:
        """Take in messages that are available, in any order. There are no views yet."""
        keys = [entry.key for entry in entries]
        self.entries.update(zip(keys, entries, strict=True))
        self.available.add_all(sorted(keys))
        for entry in entries:
            entry.state = AVAILABLE
            self._index(entry)

    def show(self, entry: Entry) -> None:
        """A message on the shelf becomes available."""
        entry.state = AVAILABLE
        entry.unit = None
        self.available.add(entry.key)
        changed = self._index(entry)
        if self.views:
            for view in self.views.values():
                view.refresh(entry)
                for each in changed:
                    view.refresh(self.entries[each])

    def show_all(self, entries: Sequence[Entry]) -> None:
        """`show` for new messages (PUT_PENDING) that stand one behind the other."""
        if self.views or any(entry.group_id != NO_ID for entry in entries):
            for entry in entries:
                assert entry.state == PUT_PENDING
                self.show(entry)
            return
        self.available.add_all([entry.key for entry in entries])
        expiring = []
        for entry in entries:
            assert entry.state == PUT_PENDING
            entry.state = AVAILABLE
            entry.unit = None
            if entry.given_msg_id is not None:
                self.by_msg_id.add(entry.given_msg_id, entry.key)
            if entry.correl_id != NO_ID:
                self.by_correl_id.add(entry.correl_id, entry.key)
            if entry.deadline is not None:
                expiring.append(_expiry_of(entry.deadline, entry.key))
        if expiring:
            self.expiring.add_all(sorted(expiring))

    def hide(self, entry: Entry) -> Sequence[int]:
        """A message is not available any more; the caller says in which state it is instead. The keys of those whose
        completeness may have changed with it.
        """
        assert entry.state == AVAILABLE
        key = entry.key
        self.available.discard(key)
        changed = self._unindex(entry)
        if self.views:
            for view in self.views.values():
                view.keys.discard(key)
                for each in changed:
                    view.refresh(self.entries[each])
        return changed

    def hide_heads(self, entries: Sequence[Entry]) -> None:
        """`hide` for messages that come first (`heads`) and are in no group, while there is no view."""
        self.available.discard_first(len(entries))
        for entry in entries:
            self._unindex(entry)

    def set_aside(self, entry: Entry, why: str) -> None:
        """A message that has just been hidden is damaged. In its time it expires all the same."""
        entry.state = DAMAGED
        self.damaged[entry.key] = why
        if entry.deadline is not None:
            self.expiring.add(_expiry_of(entry.deadline, entry.key))

    def readmit(self, entry: Entry) -> None:
        """A damaged message is available, for the step that removes it. Should it stay all the same, it will be found
        damaged again.
        """
        assert entry.state == DAMAGED
        del self.damaged[entry.key]
        if entry.deadline is not None:
            self.expiring.discard(_expiry_of(entry.deadline, entry.key))
        self.show(entry)

    def postpone(self, entry: Entry) -> None:
        """A message on the shelf is delayed. In its time it expires all the same."""
        entry.state = DELAYED
        self.delayed.add(entry.key)
        if entry.given_msg_id is not None:
            self.delayed_by_msg_id.add(entry.given_msg_id, entry.key)
        if entry.deadline is not None:
            self.expiring.add(_expiry_of(entry.deadline, entry.key))

    def fall_due(self, entry: Entry) -> None:
        """It is delayed no longer: the caller shows it."""
        self.delayed.discard(entry.key)
        if entry.given_msg_id is not None:
            self.delayed_by_msg_id.discard(entry.given_msg_id, entry.key)
        if entry.deadline is not None:
            self.expiring.discard(_expiry_of(entry.deadline, entry.key))

    def _index(self, entry: Entry) -> Sequence[int]:
        """Let an available message be found; the keys of those whose completeness may have changed with it."""
        if entry.given_msg_id is not None:
            self.by_msg_id.add(entry.given_msg_id, entry.key)
        if entry.correl_id != NO_ID:
            self.by_correl_id.add(entry.correl_id, entry.key)
        if entry.deadline is not None:
            self.expiring.add(_expiry_of(entry.deadline, entry.key))
        return self.groups.add(entry) if entry.group_id != NO_ID else ()

    def _unindex(self, entry: Entry) -> Sequence[int]:
        """The reverse of `_index`."""
        if entry.given_msg_id is not None:
            self.by_msg_id.discard(entry.given_msg_id, entry.key)
        if entry.correl_id != NO_ID:
            self.by_correl_id.discard(entry.correl_id, entry.key)
        if entry.deadline is not None:
            self.expiring.discard(_expiry_of(entry.deadline, entry.key))
        return self.groups.discard(entry) if entry.group_id != NO_ID else ()

    # Looking for them

    def first(self) -> Entry | None:
        """The available message that comes first."""
        key = self.available.first()
        return None if key is None else self.entries[key]

    def heads(self, count: int) -> list[Entry]:
        """The available messages that come first, so many of them."""
        return [self.entries[key] for key in islice(self.available, count)]

    def by_arrival(self, after: int, last: int) -> Iterator[Entry]:
        """The available messages with arrival numbers behind `after`, up to `last`, in order of arrival."""
        bounds = [(order_key(rank, after), order_key(rank, last)) for rank in range(MAX_PRIORITY + 1)]
        some = [self._between(start, end) for start, end in bounds if next(self.available.after(start), _NO_KEY) <= end]
        return some[0] if len(some) == 1 else merge(*some, key=_place)

    def _between(self, start: int, end: int) -> Iterator[Entry]:
        entries = self.entries
        for key in self.available.after(start):
            if key > end:
                return
            yield entries[key]

    def oldest(self) -> int:
        """The arrival number of the available message that has been there longest; 0 when there is none."""
        oldest = next(self.by_arrival(0, ID_MASK), None)
        return 0 if oldest is None else oldest.place

    def candidates(self, request: Request) -> Iterator[Entry]:
        """The available messages that `request` can be about, in queue order, by the narrowest access path."""
        entries = self.entries
        for key in self._path(request):
            yield entries[key]

    def _path(self, request: Request) -> Iterable[int]:
        if request.view is not None:
            return request.view.keys.after(request.after)
        if request.item is not None:
            first = self.groups.first(request.item)
            return () if first is None or first <= request.after else (first,)
        if request.token is not None:
            key = int.from_bytes(request.token, "big")
            return (key,) if key in self.available else ()
        return self.with_fields(request, request.after)

    def with_fields(self, request: Request, after: int) -> Iterable[int]:
        """The keys behind `after` to which the identifiers of a request lead."""
        if request.msg_id is not None:
            return self.with_msg_id(request.msg_id, after)
        if request.correl_id is not None:
            return self.by_correl_id.after(request.correl_id, after)
        if request.group_id is not None:
            return self.groups.after(request.group_id, after)
        return self.available.after(after)

    def with_delayed(self, request: Request, after: int) -> Iterable[int]:
        """The keys behind `after` to which a request leads, of messages that are available or delayed."""
        if request.msg_id is not None:
            return merge(self.with_msg_id(request.msg_id, after), self.with_msg_id(request.msg_id, after, DELAYED))
        return merge(self.with_fields(request, after), self.delayed.after(after))

    def with_msg_id(self, msg_id: bytes, after: int = START, state: int = AVAILABLE) -> Iterable[int]:
        """The keys behind `after` of messages with this MsgId that are AVAILABLE, or DELAYED."""
        given = (self.by_msg_id if state == AVAILABLE else self.delayed_by_msg_id).after(msg_id, after)
        made = self._made(msg_id, state)
        return given if made is None or made <= after else merge((made,), given)

    def _made(self, msg_id: bytes, state: int) -> int | None:
        """The key of the message in this state for which this MsgId was made: its number is in it, only not its
        rank.
        """
        number = self._ids.number_of(msg_id)
        if number is None or number >> ID_BITS:
            return None
        for key in range(order_key(0, number), -1, _TO_NEXT_RANK):
            entry = self.entries.get(key)
            if entry is not None:
                return entry.key if entry.state == state and entry.given_msg_id is None else None
        return None

    def admits(self, entry: Entry, start: int, whole: int) -> bool:
        """True if a get may start with this available message, and as much is available with it as it must be."""
        if not starts(entry, start) or (whole == WHOLE_GROUP and not self.groups.group_complete(entry)):
            return False
        if whole == PART:
            return True
        return self.groups.whole_from(entry) if start else self.groups.message_complete(entry)

    # Views of it

    def select_by(self, selector: Selector, step: int) -> None:
        """A handle with this selector is opened (1) or closed (-1); the view goes with the last."""
        count = self.selectors[selector] = self.selectors.get(selector, 0) + step
        if not count:
            del self.selectors[selector]
            self.drop_views(selector)

    def drop_views(self, about: Selector | Marker) -> None:
        """Nobody looks by a selector, or for what a marker has not marked, any more."""
        for name in [name for name in self.views if about in name]:
            del self.views[name]

    def refresh_views(self, entry: Entry, about: Marker) -> None:
        """A marker has marked a message, or taken its mark off."""
        if entry.state == AVAILABLE:
            for name, view in self.views.items():
                if about in name:
                    view.refresh(entry)

    def wholes(self) -> View:
        """The view of the available messages with which a complete group, or a complete logical message in no group,
        begins.
        """
        request = Request()
        request.start, request.whole = GROUP_START, WHOLE_GROUP
        view = self.shared_view(request)
        assert view is not None
        return view

    def shared_view(self, request: Request) -> View | None:
        """The view of all gets that want what this one wants, if that is not just any message."""
        start, whole, selector, markers = request.start, request.whole, request.selector, request.unmarked_by
        if not (start or whole) and selector is None and markers is None:
            return None

        def admits(entry: Entry) -> bool:
            return (
                (not (start or whole) or self.admits(entry, start, whole))
                and (markers is None or unmarked(entry, markers))
                and (selector is None or selector.matches(entry))
            )

        name = (start, whole, selector, *(markers or ()))
        view = self.views.get(name)
        if view is None:
            view = self.views[name] = View(admits, self.available.after)
            view.look(self.entries, LOOKS_AT_ONCE)
        return view

    # What is expired of it

    def is_overdue(self, now: float) -> bool:
        """True if the time of an available message, or of a damaged one, is up."""
        first = self.expiring.first()
        return first is not None and first >> _KEY_BITS <= int(now * _TICKS)

    def overdue(self, now: float) -> Iterator[Entry]:
        """The available and the damaged messages whose time is up. Discard them after the walk, not during it."""
        last = _expiry_of(now, _KEY_MASK)
        for each in self.expiring:
            if each > last:
                return
            yield self.entries[each & _KEY_MASK]

    def check_invariants(self) -> None:
        """Raise AssertionError when a structure is broken. For tests."""
        assert all(key == entry.key and entry.state != GONE for key, entry in self.entries.items())
        shown = sorted(key for key, entry in self.entries.items() if entry.state == AVAILABLE)
        self.available.check_invariants()
        assert list(self.available) == shown
        given = {key: self.entries[key].given_msg_id for key in shown}
        self.by_msg_id.check_invariants({key: msg_id for key, msg_id in given.items() if msg_id is not None})
        assert all(self._made(self.entries[key].msg_id, AVAILABLE) == key for key in shown if given[key] is None)
        self.by_correl_id.check_invariants({key: self.entries[key].correl_id for key in shown})
        self.groups.check_invariants(self.entries[key] for key in shown)
        for view in self.views.values():
            assert list(view.keys) == [key for key in shown if view.has_passed(key) and view.admits(self.entries[key])]
        set_aside = [key for key, entry in self.entries.items() if entry.state == DAMAGED]
        delayed = sorted(key for key, entry in self.entries.items() if entry.state == DELAYED)
        assert list(self.delayed) == delayed
        delayed_ids = {key: self.entries[key].given_msg_id for key in delayed}
        self.delayed_by_msg_id.check_invariants({key: id for key, id in delayed_ids.items() if id is not None})
        expiring = (*shown, *set_aside, *delayed)
        assert len(self.expiring) == sum(self.entries[key].deadline is not None for key in expiring)
        assert self.damaged.keys() >= set(set_aside)
        assert not any(self.entries[key].state in (AVAILABLE, LOCKED) for key in self.damaged)
