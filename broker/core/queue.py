"""A local queue: its messages in delivery order, found by any identifier, and the getters that wait for them.

The order and the indexes hold the *available* messages only. Whatever is uncommitted is in `entries` but in none of
them, so ten thousand uncommitted messages at the head cost a get nothing.

Invariants (`check_invariants`): `entries` holds every message that is not GONE, by key; `available` holds exactly the
keys of the AVAILABLE ones, and so do the indexes, each for the entries that have that identifier; `depth` counts
PUT_PENDING, AVAILABLE and LOCKED (MQ's CURDEPTH), by effective priority in `depths`; `uncommitted` counts PUT_PENDING
and GET_PENDING; no waiting getter would be given a message that is available.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from broker.core.entry import (
    AVAILABLE,
    GET_PENDING,
    GONE,
    ID_BITS,
    LOCKED,
    MAX_PRIORITY,
    PUT_PENDING,
    Entry,
    order_key,
    rank_of,
)
from broker.core.groups import Groups
from broker.core.handles import CO_OPERATING
from broker.core.identity_index import IdentityIndex
from broker.core.queue_attributes import LocalQueueAttributes
from broker.core.selection import unmarked
from broker.core.sorted_keys import SortedKeys
from broker.core.views import LOOKS_AT_ONCE, PART, WHOLE_GROUP, View, starts
from broker.core.waiters import Waiters
from broker.mqi.structures import NO_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from broker.core.definitions import Definition
    from broker.core.handles import Handle, Marker
    from broker.core.identifiers import Identifiers
    from broker.core.selection import Request
    from broker.core.selector import Selector
    from broker.core.unit import Unit


_SEARCH = "search"  # names the view of one request of a handle


class LocalQueue(LocalQueueAttributes):
    """A local queue."""

    def __init__(self, definition: Definition, number: int, ids: Identifiers) -> None:
        super().__init__(definition)
        self.number = number
        self.ids = ids
        self.deleted = False
        self.clearing = False  # its messages are being removed: nobody may open it
        self.entries: dict[int, Entry] = {}
        self.available: SortedKeys[int] = SortedKeys()
        self.by_msg_id = IdentityIndex()  # given ones; `_made` finds the others
        self.by_correl_id = IdentityIndex()
        self.groups = Groups()
        self.views: dict[tuple[object, ...], View] = {}  # by what it is about
        self._co_op_marks: OrderedDict[Entry, float] = OrderedDict()  # when made, oldest first
        self.co_op_count = 0  # handles open with MQOO_CO_OP
        self.selectors: dict[Selector, int] = {}  # of how many handles
        self.expiring: SortedKeys[tuple[float, int]] = SortedKeys()  # (deadline, key) of the available
        self.waiters = Waiters()
        self.to_offer: list[Entry] = []  # what can be got now that another is out of sight; the manager offers it
        self.input_count = 0
        self.output_count = 0
        self.exclusive: Handle | None = None
        self.creator: Handle | None = None  # of a temporary dynamic queue, which ends with it
        self.depth = 0
        self.depths = [0] * (MAX_PRIORITY + 1)
        self.uncommitted = 0
        self.bytes = 0  # of the bodies of all entries
        self.pending_starts = 0  # TPF's TriggerPendingCount
        self.first_triggered: float | None = None  # when FIRST last fired, monotonic seconds

    # Where entries come from and go to

    def place(self, entry: Entry, unit: Unit) -> None:
        """A put: the message is on the queue, but nobody sees it."""
        assert entry.state in (PUT_PENDING, GONE)
        entry.state = PUT_PENDING
        entry.unit = unit
        self.entries[entry.key] = entry
        self.bytes += entry.length
        self.uncommitted += 1
        self._count(entry, 1)

    def arrive(self, entry: Entry) -> None:
        """The put is committed: the message is available at its place."""
        assert entry.state == PUT_PENDING
        self.uncommitted -= 1
        self._show(entry)

    def place_all(self, entries: Sequence[Entry], unit: Unit, size: int) -> None:
        """`place` new messages of one rank, of `size` bytes together."""
        for entry in entries:
            entry.unit = unit
            self.entries[entry.key] = entry
        self.bytes += size
        self.uncommitted += len(entries)
        self.depth += len(entries)
        self.depths[rank_of(entries[0].key)] += len(entries)

    def arrive_all(self, entries: Sequence[Entry]) -> None:
        """`arrive` for messages that stand one behind the other."""
        if self.views or any(entry.group_id != NO_ID for entry in entries):
            for entry in entries:
                self.arrive(entry)
            return
        self.uncommitted -= len(entries)
        self.available.add_all([entry.key for entry in entries])
        for entry in entries:
            assert entry.state == PUT_PENDING
            entry.state = AVAILABLE
            entry.unit = None
            self._index(entry)

    def withdraw(self, entry: Entry) -> None:
        """The put is backed out."""
        assert entry.state == PUT_PENDING
        self.uncommitted -= 1
        self._count(entry, -1)
        self._forget(entry)

    def take(self, entry: Entry, unit: Unit) -> None:
        """A destructive get: nobody sees the message, and it no longer counts."""
        self._hide(entry)
        self._drop_marks(entry)  # for good, even if the get is backed out
        entry.state = GET_PENDING
        entry.unit = unit
        self.uncommitted += 1
        self._count(entry, -1)

    def take_heads(self, entries: Sequence[Entry], unit: Unit) -> None:
        """`take` for messages that come first (`heads`) and are in no group, while there is no view."""
        self.available.discard_first(len(entries))
        for entry in entries:
            self._unindex(entry)
            self._drop_marks(entry)
            entry.state = GET_PENDING
            entry.unit = unit
            self._count(entry, -1)
        self.uncommitted += len(entries)

    def remove(self, entry: Entry) -> None:
        """The get is committed: the message is gone."""
        assert entry.state == GET_PENDING
        self.uncommitted -= 1
        self._forget(entry)

    def reinstate(self, entry: Entry) -> None:
        """The get is undone: the message is back at its own place."""
        assert entry.state == GET_PENDING
        self.uncommitted -= 1
        self._count(entry, 1)
        self._show(entry)

    def discard(self, entry: Entry) -> None:
        """An available message goes, outside any unit of work: it is expired."""
        self._hide(entry)
        self._drop_marks(entry)
        self._count(entry, -1)
        self._forget(entry)

    def lock(self, entry: Entry) -> None:
        """A browse with LOCK: only the handle that keeps the entry sees it."""
        self._hide(entry)
        entry.state = LOCKED

    def unlock(self, entry: Entry) -> None:
        """The message is available again."""
        assert entry.state == LOCKED
        self._show(entry)

    def load(self, entries: Sequence[Entry]) -> None:
        """Messages that were on the queue when the queue manager ended. There are no getters and no views yet."""
        keys = [entry.key for entry in entries]
        self.entries.update(zip(keys, entries, strict=True))
        self.available.add_all(sorted(keys))
        self.depth += len(entries)
        for entry in entries:
            entry.state = AVAILABLE
            self.bytes += entry.length
            self.depths[rank_of(entry.key)] += 1
            self._index(entry)

    def _count(self, entry: Entry, step: int) -> None:
        self.depth += step
        self.depths[rank_of(entry.key)] += step

    def _show(self, entry: Entry) -> None:
        entry.state = AVAILABLE
        entry.unit = None
        self.available.add(entry.key)
        changed = self._index(entry)
        for view in self.views.values():
            view.refresh(entry)
            for each in changed:
                view.refresh(self.entries[each])

    def _index(self, entry: Entry) -> Sequence[int]:
        """Let an available message be found; the keys of those whose completeness may have changed with it."""
        if entry.given_msg_id is not None:
            self.by_msg_id.add(entry.given_msg_id, entry.key)
        if entry.correl_id != NO_ID:
            self.by_correl_id.add(entry.correl_id, entry.key)
        if entry.deadline is not None:
            self.expiring.add((entry.deadline, entry.key))
        return self.groups.add(entry) if entry.group_id != NO_ID else ()

    def _hide(self, entry: Entry) -> None:
        assert entry.state == AVAILABLE
        key = entry.key
        self.available.discard(key)
        changed = self._unindex(entry)
        for view in self.views.values():
            view.keys.discard(key)
            for each in changed:
                view.refresh(self.entries[each])
        if changed and self.waiters.count and self.groups.first(entry.item) is not None:
            self.to_offer += [self.entries[each] for each in changed]  # the next in the same place counts now

    def _unindex(self, entry: Entry) -> Sequence[int]:
        """The reverse of `_index`."""
        if entry.given_msg_id is not None:
            self.by_msg_id.discard(entry.given_msg_id, entry.key)
        if entry.correl_id != NO_ID:
            self.by_correl_id.discard(entry.correl_id, entry.key)
        if entry.deadline is not None:
            self.expiring.discard((entry.deadline, entry.key))
        return self.groups.discard(entry) if entry.group_id != NO_ID else ()

    def _forget(self, entry: Entry) -> None:
        entry.state = GONE
        entry.unit = None
        del self.entries[entry.key]
        self.bytes -= entry.length

    # Looking for them

    def first(self) -> Entry | None:
        """The available message that comes first."""
        key = self.available.first()
        return None if key is None else self.entries[key]

    def heads(self, count: int) -> list[Entry]:
        """The available messages that come first, so many of them."""
        return [self.entries[key] for key in islice(self.available, count)]

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
        return self._source(request, request.after)

    def _source(self, request: Request, after: int) -> Iterable[int]:
        """The keys behind `after` to which the identifiers of a request lead."""
        if request.msg_id is not None:
            return self._with_msg_id(request.msg_id, after)
        if request.correl_id is not None:
            return self.by_correl_id.after(request.correl_id, after)
        if request.group_id is not None:
            return self.groups.after(request.group_id, after)
        return self.available.after(after)

    def _with_msg_id(self, msg_id: bytes, after: int) -> Iterable[int]:
        made, given = self._made(msg_id), self.by_msg_id.after(msg_id, after)
        return given if made is None or made <= after else merge((made,), given)

    def _made(self, msg_id: bytes) -> int | None:
        """The key of the available message for which this MsgId was made: its number is in it, only not its rank."""
        number = self.ids.number_of(msg_id)
        if number is None or number >> ID_BITS:
            return None
        for rank, depth in enumerate(self.depths):
            entry = self.entries.get(order_key(rank, number)) if depth else None
            if entry is not None:
                return entry.key if entry.state == AVAILABLE and entry.given_msg_id is None else None
        return None

    def admits(self, entry: Entry, start: int, whole: int) -> bool:
        """Whether a get may start with this available message, and as much is available with it as it must be."""
        if not starts(entry, start) or (whole == WHOLE_GROUP and not self.groups.group_complete(entry)):
            return False
        if whole == PART:
            return True
        return self.groups.whole_from(entry) if start else self.groups.message_complete(entry)

    def find_view(self, request: Request, handle: Handle) -> None:
        """Give the request of a get through this handle a view to look in, where its fields do not lead to few
        messages.
        """
        if request.anything or request.item is not None or request.token is not None:
            return
        if handle.search is not None and handle.search.asks_as(request):
            request.view = self.views.get((handle.marker, _SEARCH))
        elif not self._has_fields(request):
            request.view = self._shared_view(request)

    def begin_search(self, request: Request, handle: Handle) -> None:
        """None of the first messages to which its fields lead will do: if there are more, look on in a view of its own,
        until it is answered (`end_search`).
        """
        if request.item is not None or request.token is not None or not self._has_fields(request):
            return
        if self._count_of(request) > LOOKS_AT_ONCE:
            handle.search = request
            request.view = View(partial(request.accepts, queue=self), partial(self._source, request), request.after)
            self.views[handle.marker, _SEARCH] = request.view

    def end_search(self, request: Request, handle: Handle) -> None:
        """The get is answered, or will wait."""
        if handle.search is not None:
            handle.search = None
            own = self.views.pop((handle.marker, _SEARCH), None)
            if request.view is own:
                request.view = None

    def _has_fields(self, request: Request) -> bool:
        return (
            request.msg_id is not None
            or request.correl_id is not None
            or request.group_id is not None
            or request.msg_seq_number is not None
            or request.offset is not None
        )

    def _count_of(self, request: Request) -> int:
        """How many messages the fields of a request lead to, at most."""
        if request.msg_id is not None:
            return self.by_msg_id.count(request.msg_id) + 1
        if request.correl_id is not None:
            return self.by_correl_id.count(request.correl_id)
        if request.group_id is not None:
            return self.groups.count(request.group_id)
        return len(self.available)

    def _shared_view(self, request: Request) -> View | None:
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

    def mark(self, entry: Entry, marker: Marker, now: float) -> None:
        """A browse marks an available message. Marks of the co-operating set grow old from `now`."""
        entry.marks = (entry.marks or set()) | {marker.handle}
        if marker.handle is None:
            self._co_op_marks[entry] = now
            self._co_op_marks.move_to_end(entry)
        else:
            marker.handle.marked.add(entry)
        self._refresh_marks(entry, marker)

    def unmark(self, entry: Entry, marker: Marker) -> None:
        """Take a mark off; harmless when it is not there."""
        if entry.marks and marker.handle in entry.marks:
            entry.marks = entry.marks - {marker.handle} or None
            self._forget_mark(entry, marker.handle)
            self._refresh_marks(entry, marker)

    @property
    def oldest_mark(self) -> float | None:
        """When the co-operating set made the oldest of its marks."""
        return next(iter(self._co_op_marks.values()), None)

    def drop_old_marks(self, before: float) -> list[Entry]:
        """Take off the marks that the co-operating set made until this moment (MARKINT); the messages."""
        unmarked = []
        while self._co_op_marks:
            entry, made = next(iter(self._co_op_marks.items()))
            if made > before:
                break
            self.unmark(entry, CO_OPERATING)
            unmarked.append(entry)
        return unmarked

    def select_by(self, selector: Selector, step: int) -> None:
        """A handle with this selector is opened (1) or closed (-1); the view goes with the last."""
        count = self.selectors[selector] = self.selectors.get(selector, 0) + step
        if not count:
            del self.selectors[selector]
            self._drop_views(selector)

    def drop_marks_of(self, handle: Handle) -> None:
        """A handle is closed: its marks go, and with the last of the co-operating handles those of the set."""
        for entry in list(handle.marked):
            self.unmark(entry, handle.marker)
        self._drop_views(handle.marker)
        if not self.co_op_count:
            self.drop_old_marks(float("inf"))

    def _drop_views(self, about: object) -> None:
        for name in [name for name in self.views if about in name]:
            del self.views[name]

    def _drop_marks(self, entry: Entry) -> None:
        for handle in entry.marks or ():
            self._forget_mark(entry, handle)
        entry.marks = None

    def _forget_mark(self, entry: Entry, handle: Handle | None) -> None:
        if handle is None:
            del self._co_op_marks[entry]
        else:
            handle.marked.discard(entry)

    def _refresh_marks(self, entry: Entry, marker: Marker) -> None:
        if entry.state == AVAILABLE:
            for name, view in self.views.items():
                if marker in name:
                    view.refresh(entry)

    def is_overdue(self, now: float) -> bool:
        """Whether the time of an available message is up."""
        first = self.expiring.first()
        return first is not None and first[0] <= now

    def overdue(self, now: float) -> Iterator[Entry]:
        """The available messages whose time is up. Discard them after the walk, not during it."""
        for deadline, key in self.expiring:
            if deadline > now:
                return
            yield self.entries[key]

    def qualifying(self) -> int:
        """How many messages count for triggering: committed or not, of effective priority TRIGMPRI or more."""
        return sum(self.depths[self.trigger_priority :])

    def check_invariants(self) -> None:
        """Raise AssertionError when a structure is broken. For tests."""
        shown = sorted(key for key, entry in self.entries.items() if entry.state == AVAILABLE)
        self.available.check_invariants()
        assert list(self.available) == shown
        given = {key: self.entries[key].given_msg_id for key in shown}
        self.by_msg_id.check_invariants({key: msg_id for key, msg_id in given.items() if msg_id is not None})
        assert all(self._made(self.entries[key].msg_id) == key for key in shown if given[key] is None)
        self.by_correl_id.check_invariants({key: self.entries[key].correl_id for key in shown})
        self.groups.check_invariants(self.entries[key] for key in shown)
        for view in self.views.values():
            assert list(view.keys) == [key for key in shown if view.has_passed(key) and view.admits(self.entries[key])]
        states = [entry.state for entry in self.entries.values()]
        assert GONE not in states
        assert self.depth == sum(state in (PUT_PENDING, AVAILABLE, LOCKED) for state in states) == sum(self.depths)
        assert self.uncommitted == sum(state in (PUT_PENDING, GET_PENDING) for state in states)
        assert self.bytes == sum(entry.length for entry in self.entries.values())
        assert len(self.expiring) == sum(self.entries[key].deadline is not None for key in shown)
        if not self.get_inhibited:
            for waiter in self.waiters:
                request = waiter.request
                starved = [entry.key for entry in self.candidates(request) if request.accepts(entry, self)]
                assert not starved, f"{waiter.request} waits beside {starved}"
