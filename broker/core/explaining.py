"""Why messages of a queue are not delivered: a look at everything that can keep a message from a getter.

It changes nothing, not even by discarding what is expired. It goes over all messages of the queue, so on a long one it
takes its time: some tenths of a second for a million.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.core.entry import AVAILABLE, GET_PENDING, LOCKED, PUT_PENDING, rank_of
from broker.core.gaps import Lack, lack, told
from broker.core.logical import GROUPED, SEGMENTS
from broker.core.views import WHOLE_GROUP, WHOLE_MESSAGE
from broker.mqi.explanations import Cause, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from broker.core.entry import Entry
    from broker.core.handles import Handle, Hconn
    from broker.core.queue import LocalQueue
    from broker.core.routes import Route
    from broker.core.selection import Request
    from broker.core.unit import Unit

GROUPS_MAX = 10
GETTERS_MAX = 10
SELECTED_MAX = 1000  # how many messages a selector is tried on


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


def explain(route: Route, wanted: Wanted, now: float) -> Iterator[Finding]:
    """What keeps the wanted messages from those who get by this route, the most general first."""
    queue = route.queue
    entries = [entry for entry in queue.entries.values() if wanted.has(entry)]
    available = [entry for entry in entries if entry.state == AVAILABLE and not entry.expired(now)]
    yield from _inhibited(route, entries)
    if not entries:
        yield _nothing(queue, wanted)
    yield from _uncommitted(entries, PUT_PENDING, Cause.UNCOMMITTED_PUT, "put", now)
    yield from _uncommitted(entries, GET_PENDING, Cause.UNCOMMITTED_GET, "got", now)
    yield from _locked(queue, entries)
    yield from _expired(entries, now)
    yield from _incomplete(queue, entries, now)
    if available:
        yield from _ahead(queue, min(available, key=_key), wanted)
        yield from _hidden_by_selectors(queue, available)
        yield from _marked(available)
    yield from _getters(queue)
    if available and not any(level.get_inhibited for level in route.levels):
        yield _finding(Cause.AVAILABLE, f"{_messages(len(available))} available to a get", messages=len(available))


def _finding(code: Cause, text: str, **figures: Any) -> Finding:
    return Finding(code=code.value, text=text, figures=figures)


def _key(entry: Entry) -> int:
    return entry.key


def _messages(count: int) -> str:
    return "1 message is" if count == 1 else f"{count} messages are"


def _inhibited(route: Route, entries: Sequence[Entry]) -> Iterator[Finding]:
    for level in route.levels:
        if level.get_inhibited:
            yield _finding(Cause.GET_INHIBITED, f"{level.name} has GET(DISABLED)", q_name=level.name)
        if level.put_inhibited and not entries:
            yield _finding(Cause.PUT_INHIBITED, f"{level.name} has PUT(DISABLED): nothing new comes", q_name=level.name)


def _nothing(queue: LocalQueue, wanted: Wanted) -> Finding:
    if not queue.entries:
        return _finding(Cause.NO_MESSAGE, f"nothing is on {queue.name}", messages=0)
    text = f"{_messages(len(queue.entries))} on {queue.name}, none with {wanted}"
    return _finding(Cause.NO_MESSAGE, text, messages=len(queue.entries))


def _uncommitted(entries: Iterable[Entry], state: int, code: Cause, did: str, now: float) -> Iterator[Finding]:
    units: Counter[Unit | None] = Counter(entry.unit for entry in entries if entry.state == state)
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


def _locked(queue: LocalQueue, entries: Iterable[Entry]) -> Iterator[Finding]:
    locked = {entry for entry in entries if entry.state == LOCKED}
    if not locked:
        return
    for handle in queue.handles:
        count = len(locked.intersection(handle.locked))
        if count:
            text = f"{_messages(count)} locked by {_name(handle.hconn)}, which browses with LOCK"
            yield _finding(Cause.LOCKED, text, messages=count, **_who(handle.hconn))


def _expired(entries: Iterable[Entry], now: float) -> Iterator[Finding]:
    count = sum(entry.state != GET_PENDING and entry.expired(now) for entry in entries)
    if count:
        yield _finding(Cause.EXPIRED, f"{_messages(count)} expired", messages=count)


# Groups and segments


def _incomplete(queue: LocalQueue, entries: Iterable[Entry], now: float) -> Iterator[Finding]:
    """The groups of these entries, and their segmented messages, that lack something."""
    ids = dict.fromkeys(entry.group_id for entry in entries if entry.msg_flags & (GROUPED | SEGMENTS))
    members: dict[bytes, list[Entry]] = {id: [] for id in ids}
    for entry in queue.entries.values():
        if entry.group_id in members:
            members[entry.group_id].append(entry)
    told_of = left = 0
    for id, group in members.items():
        findings = list(_lacking(id, group, now))
        if findings and told_of < GROUPS_MAX:
            told_of += 1
            yield from findings
        elif findings:
            left += 1
    if left:
        yield _finding(Cause.INCOMPLETE_GROUP, f"{left} more groups lack something", groups=left)


def _lacking(group_id: bytes, members: Sequence[Entry], now: float) -> Iterator[Finding]:
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
        text = f"{of} lacks segments with the bytes {told(gaps)}"
        yield _finding(Cause.INCOMPLETE_MESSAGE, text, **figures, msg_seq_number=number, missing=_lists(gaps))
    if not grouped and not available:
        yield _finding(
            Cause.INCOMPLETE_MESSAGE, f"no segment of group id {group_id.hex()} is available", **figures, missing=[]
        )


def _incomplete_group(found: Lack, figures: dict[str, Any]) -> Finding:
    size = "its last message is not there" if found.last is None else f"it has {found.last}"
    lacks = f"messages {told(found.numbers)}" if found.numbers else "segments"
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


_KEPT_BY = {PUT_PENDING: "uncommitted", GET_PENDING: "got", LOCKED: "locked"}


# Order, selectors, marks


def _ahead(queue: LocalQueue, first: Entry, wanted: Wanted) -> Iterator[Finding]:
    """What is delivered before the first of the messages asked about."""
    if wanted == ALL:
        return
    ahead = higher = 0
    for key in queue.available:
        if key >= first.key:
            break
        ahead += 1
        higher += rank_of(key) > rank_of(first.key)
    if higher:
        text = f"{_messages(higher)} ahead by a higher priority than {rank_of(first.key)}, of {ahead} ahead in all"
        yield _finding(Cause.HIGHER_PRIORITY_AHEAD, text, messages=higher, ahead=ahead)
    elif ahead:
        yield _finding(Cause.MESSAGES_AHEAD, f"{_messages(ahead)} ahead, which arrived earlier", messages=ahead)


def _hidden_by_selectors(queue: LocalQueue, available: Sequence[Entry]) -> Iterator[Finding]:
    tried = available[:SELECTED_MAX]
    for handle in _in_order(queue.handles):
        if handle.selector is None:
            continue
        hidden = sum(not handle.selector.matches(entry) for entry in tried)
        if hidden:
            text = f"{hidden} of {len(tried)} hidden from {_name(handle.hconn)} by its selector {handle.selector.text}"
            yield _finding(
                Cause.SELECTOR, text, messages=hidden, of=len(tried), selector=handle.selector.text,
                **_who(handle.hconn),
            )  # fmt: skip


def _in_order(handles: Iterable[Handle]) -> list[Handle]:
    return sorted(handles, key=lambda handle: (handle.hconn.appl_name, handle.hobj))


def _marked(available: Iterable[Entry]) -> Iterator[Finding]:
    count = sum(bool(entry.marks) for entry in available)
    if count:
        yield _finding(Cause.MARKED, f"{_messages(count)} marked by browses", messages=count)


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
