"""Why messages of a queue are not delivered: a look at everything that can keep a message from a getter.

It changes nothing, not even by discarding what is expired. It goes over all messages of the queue, in steps between
which the queue may change: then it tells of each message as it was when it was looked at, or not at all.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from broker.core.explain.gaps import Lack, in_words, lack
from broker.core.message.entry import AVAILABLE, DAMAGED, GET_PENDING, GONE, LOCKED, PUT_PENDING, rank_of
from broker.core.message.logical_order import GROUPED, SEGMENTS
from broker.core.queues.views import WHOLE_GROUP, WHOLE_MESSAGE
from broker.mqi.explanations import Cause, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from broker.core.message.entry import Entry
    from broker.core.names.routes import Route
    from broker.core.queues.handles import Handle, Hconn
    from broker.core.queues.queue import LocalQueue
    from broker.core.queues.selection import Request
    from broker.core.queues.shelf import Shelf
    from broker.core.queues.unit import Unit

GROUPS_MAX = 10
GETTERS_MAX = 10
DAMAGED_MAX = 10
SELECTED_MAX = 1000  # how many messages a selector is tried on
LOOKS_AT_ONCE = 100  # at messages, in one step

Steps: TypeAlias = "Iterator[Finding | None]"
"""Findings, and None where the work can be left for a while."""


class Wanted(NamedTuple):
    """The messages asked about: all that have these identifiers. A field that is None is not looked at."""

    msg_id: bytes | None = None
    correl_id: bytes | None = None
    group_id: bytes | None = None

    def has(self, entry: Entry) -> bool:
        return (
            (self.msg_id is None or entry.msg_id == self.msg_id)
            and (self.correl_id is None or entry.correl_id == self.correl_id)
            and (self.group_id is None or entry.group_id == self.group_id)
        )

    def __str__(self) -> str:
        named = (("MsgId", self.msg_id), ("CorrelId", self.correl_id), ("GroupId", self.group_id))
        return " and ".join(f"{name} {id.hex()}" for name, id in named if id is not None)


ALL = Wanted()


def explain(route: Route, shelf: Shelf, wanted: Wanted, now: float) -> Steps:
    """What keeps the wanted messages on this shelf from those who get by this route, the most general first; None after
    each step that has found nothing to tell yet.
    """
    queue = route.queue
    entries = list(shelf.entries.values())
    seen = _Seen()
    for entry in _in_steps(entries):
        if entry is None:
            yield None
        elif wanted.has(entry):
            seen.add(entry, now)
    yield from _inhibited(route, seen)
    if not seen.messages:
        yield _nothing(queue, len(entries), wanted)
    yield from _uncommitted(seen.puts, Cause.UNCOMMITTED_PUT, "put", now)
    yield from _uncommitted(seen.gets, Cause.UNCOMMITTED_GET, "got", now)
    yield from _locked(queue, seen.locked)
    yield from _expired(seen)
    yield from _damaged(queue, seen.damaged)
    yield from _incomplete(entries, seen.group_ids, now)
    if seen.first is not None:
        yield from _ahead(entries, seen.first, wanted)
        yield from _hidden_by_selectors(queue, seen.tried)
        yield from _marked(seen)
    yield from _getters(queue)
    if seen.available and not any(level.get_inhibited for level in route.levels):
        yield _finding(Cause.AVAILABLE, f"{_messages(seen.available)} available to a get", messages=seen.available)


class _Seen:
    """The messages asked about, in figures."""

    def __init__(self) -> None:
        self.messages = 0
        self.puts: Counter[Unit | None] = Counter()
        self.gets: Counter[Unit | None] = Counter()
        self.locked: set[Entry] = set()
        self.expired = 0
        self.damaged: list[Entry] = []
        self.group_ids: dict[bytes, None] = {}
        self.available = 0
        self.first: Entry | None = None  # of the available
        self.tried: list[Entry] = []  # some of them
        self.marked = 0  # of them

    def add(self, entry: Entry, now: float) -> None:
        state, expired = entry.state, entry.expired(now)
        self.messages += 1
        if state == PUT_PENDING:
            self.puts[entry.unit] += 1
        elif state == GET_PENDING:
            self.gets[entry.unit] += 1
        elif state == LOCKED:
            self.locked.add(entry)
        elif state == DAMAGED:
            self.damaged.append(entry)
        elif not expired:
            self._add_available(entry)
        self.expired += expired and state != GET_PENDING
        if entry.msg_flags & (GROUPED | SEGMENTS):
            self.group_ids[entry.group_id] = None

    def _add_available(self, entry: Entry) -> None:
        self.available += 1
        if self.first is None or entry.key < self.first.key:
            self.first = entry
        if len(self.tried) < SELECTED_MAX:
            self.tried.append(entry)
        self.marked += bool(entry.marks)


def _in_steps(entries: Sequence[Entry]) -> Iterator[Entry | None]:
    """Those of the messages that are still there when their turn comes, and None between two steps."""
    for number, entry in enumerate(entries, 1):
        if entry.state != GONE:
            yield entry
        if number % LOOKS_AT_ONCE == 0:
            yield None


def _finding(code: Cause, text: str, **figures: Any) -> Finding:
    return Finding(code=code.value, text=text, figures=figures)


def _messages(count: int) -> str:
    return "1 message is" if count == 1 else f"{count} messages are"


def _inhibited(route: Route, seen: _Seen) -> Iterator[Finding]:
    for level in route.levels:
        if level.get_inhibited:
            yield _finding(Cause.GET_INHIBITED, f"{level.name} has GET(DISABLED)", q_name=level.name)
        if level.put_inhibited and not seen.messages:
            yield _finding(Cause.PUT_INHIBITED, f"{level.name} has PUT(DISABLED): nothing new comes", q_name=level.name)


def _nothing(queue: LocalQueue, messages: int, wanted: Wanted) -> Finding:
    if not messages:
        return _finding(Cause.NO_MESSAGE, f"nothing is on {queue.name}", messages=0)
    text = f"{_messages(messages)} on {queue.name}, none with {wanted}"
    return _finding(Cause.NO_MESSAGE, text, messages=messages)


def _uncommitted(units: Counter[Unit | None], code: Cause, did: str, now: float) -> Iterator[Finding]:
    for unit, count in units.items():
        owner = unit.owner if unit is not None else None
        if unit is None or owner is None:
            yield _finding(code, f"{_messages(count)} {did} outside syncpoint, on the way to disk", messages=count)
            continue
        seconds = max(0.0, now - unit.since)
        yield _finding(
            code,
            f"{_messages(count)} {did} and not committed by {_name(owner)}, since {seconds:.1f} s",
            messages=count,
            **_who(owner),
            since=unit.since,
            seconds=seconds,
        )


def _name(hconn: Hconn) -> str:
    named = hconn.appl_name or "a program without a name"
    return f"{named} at {hconn.channel}" if hconn.channel else named


def _who(hconn: Hconn) -> dict[str, str]:
    return {"appl_name": hconn.appl_name, "user": hconn.user, "connection": hconn.channel}


def _locked(queue: LocalQueue, locked: set[Entry]) -> Iterator[Finding]:
    if not locked:
        return
    for handle in queue.handles:
        count = len(locked.intersection(handle.position.locked))
        if count:
            text = f"{_messages(count)} locked by {_name(handle.hconn)}, which browses with LOCK"
            yield _finding(Cause.LOCKED, text, messages=count, **_who(handle.hconn))


def _expired(seen: _Seen) -> Iterator[Finding]:
    if seen.expired:
        yield _finding(Cause.EXPIRED, f"{_messages(seen.expired)} expired", messages=seen.expired)


def _damaged(queue: LocalQueue, damaged: Sequence[Entry]) -> Iterator[Finding]:
    """One finding for each of the first, which names the file, and one for all others."""
    for entry in damaged[:DAMAGED_MAX]:
        msg_id, why = entry.msg_id.hex(), queue.shelf.damaged.get(entry.key, "")
        text = f"the data of message {msg_id} is damaged, so nobody is given it: {why}"
        yield _finding(Cause.DAMAGED, text, messages=1, msg_id=msg_id, why=why)
    left = len(damaged) - DAMAGED_MAX
    if left > 0:
        yield _finding(Cause.DAMAGED, f"{left} more damaged", messages=left)


# Groups and segments


def _incomplete(entries: Sequence[Entry], ids: Iterable[bytes], now: float) -> Steps:
    """The groups with these identifiers, and the segmented messages, that lack something."""
    members: dict[bytes, list[Entry]] = {id: [] for id in ids}
    if not members:
        return
    for entry in _in_steps(entries):
        if entry is None:
            yield None
        elif entry.group_id in members:
            members[entry.group_id].append(entry)
    told_of = left = 0
    for id, group in members.items():
        findings = list(_lacking(id, [entry for entry in group if entry.state != GONE], now))
        if findings and told_of < GROUPS_MAX:
            told_of += 1
            yield from findings
        elif findings:
            left += 1
        yield None
    if left:
        yield _finding(Cause.INCOMPLETE_GROUP, f"{left} more groups lack something", groups=left)


def _lacking(group_id: bytes, members: Sequence[Entry], now: float) -> Iterator[Finding]:
    if not members:  # they have gone meanwhile
        return
    available = [entry for entry in members if entry.state == AVAILABLE and not entry.expired(now)]
    others = [entry for entry in members if entry.state != AVAILABLE or entry.expired(now)]
    grouped = any(entry.msg_flags & GROUPED for entry in members)
    found = lack(available, others, grouped=grouped)
    figures: dict[str, Any] = {"group_id": group_id.hex(), "available": len(available), **_others(others, now)}
    if grouped and found.first:
        yield _finding(
            Cause.FIRST_ITEM_ABSENT,
            f"the first message of group {group_id.hex()} is not available: no get in logical order begins the group",
            group_id=group_id.hex(),
        )
    if grouped and found:
        yield _incomplete_group(found, figures)
    for number, gaps in found.segments:
        of = f"message {number} of group {group_id.hex()}" if grouped else f"the message of group id {group_id.hex()}"
        text = f"{of} lacks segments with the bytes {in_words(gaps)}"
        yield _finding(Cause.INCOMPLETE_MESSAGE, text, **figures, msg_seq_number=number, missing=_lists(gaps))
    if not grouped and not available:
        yield _finding(
            Cause.INCOMPLETE_MESSAGE, f"no segment of group id {group_id.hex()} is available", **figures, missing=[]
        )


def _incomplete_group(found: Lack, figures: dict[str, Any]) -> Finding:
    size = "its last message is not there" if found.last is None else f"it has {found.last}"
    lacks = f"messages {in_words(found.numbers)}" if found.numbers else "segments"
    text = f"group {figures['group_id']} lacks {lacks}; {size}"
    if uncommitted := figures.get("uncommitted"):
        text += f"; put and not committed: {', '.join(map(str, uncommitted))}"
    return _finding(Cause.INCOMPLETE_GROUP, text, **figures, last=found.last, missing=_lists(found.numbers))


def _lists(gaps: Iterable[tuple[int, int | None]]) -> list[list[int | None]]:
    return [list(gap) for gap in gaps]


def _others(others: Iterable[Entry], now: float) -> dict[str, list[int]]:
    """The sequence numbers of members that nobody gets now, by what keeps them."""
    kept: dict[str, set[int]] = {}
    for entry in others:
        name = "expired" if entry.state == AVAILABLE and entry.expired(now) else _KEPT_BY[entry.state]
        kept.setdefault(name, set()).add(entry.msg_seq_number)
    return {name: sorted(numbers)[:100] for name, numbers in sorted(kept.items())}


_KEPT_BY = {PUT_PENDING: "uncommitted", GET_PENDING: "got", LOCKED: "locked", DAMAGED: "damaged"}


# Order, selectors, marks


def _ahead(entries: Sequence[Entry], first: Entry, wanted: Wanted) -> Steps:
    """What is delivered before the first of the messages asked about."""
    if wanted == ALL:
        return
    ahead = higher = 0
    for entry in _in_steps(entries):
        if entry is None:
            yield None
        elif entry.state == AVAILABLE and entry.key < first.key:
            ahead += 1
            higher += rank_of(entry.key) > rank_of(first.key)
    if higher:
        text = f"{_messages(higher)} ahead by a higher priority than {rank_of(first.key)}, of {ahead} ahead in all"
        yield _finding(Cause.HIGHER_PRIORITY_AHEAD, text, messages=higher, ahead=ahead)
    elif ahead:
        yield _finding(Cause.MESSAGES_AHEAD, f"{_messages(ahead)} ahead, which arrived earlier", messages=ahead)


def _hidden_by_selectors(queue: LocalQueue, tried: Sequence[Entry]) -> Steps:
    for handle in _in_order(queue.handles):
        if handle.selector is None:
            continue
        hidden = of = 0
        for entry in _in_steps(tried):
            if entry is None:
                yield None
            else:
                of += 1
                hidden += not handle.selector.matches(entry)
        if hidden:
            text = f"{hidden} of {of} hidden from {_name(handle.hconn)} by its selector {handle.selector.text}"
            yield _finding(
                Cause.SELECTOR, text, messages=hidden, of=of, selector=handle.selector.text,
                **_who(handle.hconn),
            )  # fmt: skip


def _in_order(handles: Iterable[Handle]) -> list[Handle]:
    return sorted(handles, key=lambda handle: (handle.hconn.appl_name, handle.hobj))


def _marked(seen: _Seen) -> Iterator[Finding]:
    if seen.marked:
        yield _finding(Cause.MARKED, f"{_messages(seen.marked)} marked by browses", messages=seen.marked)


# Who gets


def _getters(queue: LocalQueue) -> Iterator[Finding]:
    if not queue.input_count:
        yield _finding(Cause.NOT_OPEN_FOR_INPUT, f"no program has {queue.name} open for input")
    if not queue.waiters.count:
        return
    shown: list[dict[str, str]] = []
    for waiter in queue.waiters:
        if len(shown) == GETTERS_MAX:
            break
        shown.append({**_who(waiter.handle.hconn), "for": _waits_for(waiter.request)})
    count = queue.waiters.count
    whom = ", ".join(f"{each['appl_name'] or 'a program without a name'} for {each['for']}" for each in shown[:3])
    text = f"{count} get{' waits' if count == 1 else 's wait'}: {whom}{', and others' if count > 3 else ''}"
    yield _finding(Cause.GETTERS_WAITING, text, getters=count, first=shown)


def _waits_for(request: Request) -> str:
    """What a get waits for, in words."""
    if request.item is not None:
        id, number, offset = request.item
        return f"message {number}{f' from byte {offset}' if offset else ''} of group {id.hex()}"
    parts = [f"{name} {shown(value)}" for name, value, shown in _asked(request) if value is not None]
    if request.whole == WHOLE_GROUP:
        parts.append("a complete group")
    elif request.whole == WHOLE_MESSAGE:
        parts.append("a complete message")
    if request.logical:
        parts.append("in logical order")
    if request.selector is not None:
        parts.append(f"where {request.selector.text}")
    if request.unmarked_by is not None:
        parts.append("not marked")
    what = " ".join(parts) or "any message"
    return f"{what} to browse" if request.browse else what


def _asked(request: Request) -> tuple[tuple[str, Any, Callable[[Any], str]], ...]:
    return (
        ("MsgId", request.msg_id, bytes.hex),
        ("CorrelId", request.correl_id, bytes.hex),
        ("GroupId", request.group_id, bytes.hex),
        ("MsgSeqNumber", request.msg_seq_number, str),
        ("Offset", request.offset, str),
        ("MsgToken", request.token, bytes.hex),
    )
