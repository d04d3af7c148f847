"""Explain why messages of a queue are not delivered, by all that can keep a message from a getter.

It changes nothing, not even by discarding what is expired. It goes over all messages of the queue, in steps between
which the queue may change: then it tells of each message as it was when it was looked at, or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from broker.core.explain.findings import are, finding, in_steps
from broker.core.explain.held import HeldByUnit, first_msg_ids
from broker.core.explain.holders import claims, prepared_units
from broker.core.explain.in_doubt import in_doubt
from broker.core.explain.incomplete import incomplete
from broker.core.explain.passed_over import passed_over
from broker.core.explain.serving import serving
from broker.core.explain.triggering import triggering
from broker.core.message.entry import AVAILABLE, CLAIMED, DAMAGED, DELAYED, GET_PENDING, LOCKED, PUT_PENDING, rank_of
from broker.core.message.logical_order import GROUPED, SEGMENTS
from broker.core.queues.shelf.views import WHOLE_GROUP, WHOLE_MESSAGE
from broker.mqi.delivery_fields import failure_text
from broker.mqi.explanations import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from broker.core.explain.findings import Steps
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.names.routes import Route
    from broker.core.queues.handles import Handle, Hconn
    from broker.core.queues.queue import LocalQueue
    from broker.core.queues.shelf.selection import Request
    from broker.core.queues.shelf.shelf import Shelf
    from broker.mqi.explanations import Finding

GETTERS_MAX = 10
DAMAGED_MAX = 10
SELECTED_MAX = 1000  # how many messages a selector is tried on


class ExplainSelection(NamedTuple):
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


ALL = ExplainSelection()


def explain(
    route: Route, shelf: Shelf, selection: ExplainSelection, now: float, core: Manager, group_bytes: int = 1 << 62
) -> Steps:
    """Yield the causes that keep the wanted messages on this shelf from those who get by this route, the most general
    first; None after each step that has found none. No consumer claims a group of more than `group_bytes`.
    """
    queue = route.queue
    entries = list(shelf.entries.values())
    seen = _Seen()
    for entry in in_steps(entries):
        if entry is None:
            yield None
        elif selection.has(entry):
            seen.add(entry, now)
    yield from _inhibited(route, seen)
    if not seen.messages:
        yield _nothing(queue, len(entries), selection)
    branches = {branch.unit: branch for branch in core.branches.by_id.values()}
    yield from in_doubt(core, branches, seen.puts, "put", now)
    yield from in_doubt(core, branches, seen.gets, "got", now)
    yield from _uncommitted(seen.puts, Cause.UNCOMMITTED_PUT, "put", now)
    yield from _uncommitted(seen.gets, Cause.UNCOMMITTED_GET, "got", now)
    yield from _locked(queue, seen.locked)
    if seen.claimed:
        yield from claims(core.consumers, queue, None if selection == ALL else set(seen.claimed), now)
    yield from prepared_units(core.sinks, queue, None if selection == ALL else selection, now)
    service = core.deliveries.find(queue)
    yield from _delayed(seen, None if service is None else service.put_off, now)
    yield from _expired(seen)
    yield from _damaged(queue, seen.damaged)
    yield from incomplete(entries, seen.group_ids, now)
    yield from passed_over(shelf, queue, seen.group_ids, core.consumers, group_bytes)
    if seen.first is not None:
        yield from _ahead(entries, seen.first, selection)
        yield from _hidden_by_selectors(queue, seen.tried)
        yield from _marked(seen)
    yield from _getters(queue, served=bool(core.deliveries.served_by(queue)[1]))
    yield from serving(core, queue)
    yield from triggering(core, queue)
    if seen.available and not any(level.get_inhibited for level in route.levels):
        yield finding(Cause.AVAILABLE, f"{are(seen.available)} available to a get", messages=seen.available)


class _Seen:
    """The messages asked about, in figures."""

    def __init__(self) -> None:
        self.messages = 0
        self.puts = HeldByUnit()
        self.gets = HeldByUnit()
        self.locked: set[Entry] = set()
        self.claimed: list[Entry] = []
        self.delayed = 0
        self.first_due: Entry | None = None  # of the delayed
        self.held: Entry | None = None  # one of those that are to go to a dead-letter queue
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
            self.puts.count(entry)
        elif state == GET_PENDING:
            self.gets.count(entry)
        elif state == LOCKED:
            self.locked.add(entry)
        elif state == CLAIMED:
            self.claimed.append(entry)
        elif state == DAMAGED:
            self.damaged.append(entry)
        elif state == DELAYED:
            self._add_delayed(entry)
        elif not expired:
            self._add_available(entry)
        self.expired += expired and state not in (GET_PENDING, CLAIMED)
        if state != CLAIMED and entry.msg_flags & (GROUPED | SEGMENTS):
            self.group_ids[entry.group_id] = None

    def _add_delayed(self, entry: Entry) -> None:
        self.delayed += 1
        if self.first_due is None or _due(entry) < _due(self.first_due):
            self.first_due = entry
        failure = None if entry.handling is None else entry.handling.failure
        if failure is not None and failure.dead:
            self.held = entry

    def _add_available(self, entry: Entry) -> None:
        self.available += 1
        if self.first is None or entry.key < self.first.key:
            self.first = entry
        if len(self.tried) < SELECTED_MAX:
            self.tried.append(entry)
        self.marked += bool(entry.marks)


def _inhibited(route: Route, seen: _Seen) -> Iterator[Finding]:
    for level in route.levels:
        if level.get_inhibited:
            yield finding(Cause.GET_INHIBITED, f"{level.name} has GET(DISABLED)", q_name=level.name)
        if level.put_inhibited and not seen.messages:
            yield finding(Cause.PUT_INHIBITED, f"{level.name} has PUT(DISABLED): nothing new comes", q_name=level.name)


def _nothing(queue: LocalQueue, messages: int, selection: ExplainSelection) -> Finding:
    if not messages:
        return finding(Cause.NO_MESSAGE, f"nothing is on {queue.name}", messages=0)
    text = f"{are(messages)} on {queue.name}, none with {selection}"
    return finding(Cause.NO_MESSAGE, text, messages=messages)


def _uncommitted(units: HeldByUnit, code: Cause, did: str, now: float) -> Iterator[Finding]:
    for unit, held in units.items():
        owner = unit.owner if unit is not None else None
        if unit is None or owner is None:
            text = f"{are(held.messages)} {did} outside syncpoint, on the way to disk"
            yield finding(code, text, **held.figures())
            continue
        seconds = max(0.0, now - unit.since)
        yield finding(
            code,
            f"{are(held.messages)} {did} and not committed by {_name(owner)}, since {seconds:.1f} s",
            **held.figures(),
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
    """Yield a finding for each owner of locks: handles on the queue, and programs of other members, which their units
    stand for. A lock that neither has is left over: its handle is gone.
    """
    if not locked:
        return
    owners = [(handle.hconn, locked.intersection(handle.position.locked)) for handle in queue.handles]
    elsewhere: dict[Hconn, set[Entry]] = {}
    for entry in locked:
        if entry.unit is not None and entry.unit.owner is not None:
            elsewhere.setdefault(entry.unit.owner, set()).add(entry)
    left = set(locked)
    for owner, held in (*owners, *elsewhere.items()):
        if held:
            text = f"{are(len(held))} locked by {_name(owner)}, which browses with LOCK"
            yield finding(Cause.LOCKED, text, messages=len(held), msg_ids=first_msg_ids(held), **_who(owner))
            left -= held
    if left:
        text = f"{are(len(left))} locked by a browse whose handle is gone: a restart of the queue manager ends the lock"
        yield finding(Cause.LOCKED, text, messages=len(left), msg_ids=first_msg_ids(left), handle_gone=True)


def _delayed(seen: _Seen, put_off: tuple[str, float] | None, now: float) -> Iterator[Finding]:
    """Yield a finding on the delayed messages: when the first is due, its failure, why dead letters are held, and why
    their handler could not begin.
    """
    first = seen.first_due
    if first is None:
        return
    next_at = _due(first)
    text = f"{are(seen.delayed)} to be available later, the first in {max(0.0, next_at - now):.1f} s"
    failure = None if first.handling is None else first.handling.failure
    figures: dict[str, Any] = {"messages": seen.delayed, "next_at": next_at, "msg_id": first.msg_id.hex()}
    if failure is not None:
        error = failure_text(failure.exception, failure.error, failure.why)
        text += f": after {first.backout_count} attempts, the last of which ended with {error}"
        figures |= {"attempts": first.backout_count, "error": error}
    held = None if seen.held is None or seen.held.handling is None else seen.held.handling.failure
    if held is not None:
        target = held.target or "a dead-letter queue, and there is none"
        text += f"; dead letters are held for {target}: {held.refusal}"
        figures |= {"held_for": held.target, "refusal": held.refusal}
    if put_off is not None:
        why, at = put_off
        text += f"; their handler could not begin {max(0.0, now - at):.0f} s ago, and nobody is charged: {why}"
        figures |= {"put_off": why, "put_off_at": at}
    yield finding(Cause.DELAYED, text, **figures)


def _due(entry: Entry) -> float:
    """The instant until which a message is delayed."""
    return 0.0 if entry.handling is None else entry.handling.not_before


def _expired(seen: _Seen) -> Iterator[Finding]:
    if seen.expired:
        yield finding(Cause.EXPIRED, f"{are(seen.expired)} expired", messages=seen.expired)


def _damaged(queue: LocalQueue, damaged: Sequence[Entry]) -> Iterator[Finding]:
    """One finding for each of the first, which names the file, and one for all others."""
    for entry in damaged[:DAMAGED_MAX]:
        msg_id, why = entry.msg_id.hex(), queue.shelf.damaged.get(entry.key, "")
        text = f"the data of message {msg_id} is damaged, so nobody is given it: {why}"
        yield finding(Cause.DAMAGED, text, messages=1, msg_id=msg_id, why=why)
    left = len(damaged) - DAMAGED_MAX
    if left > 0:
        yield finding(Cause.DAMAGED, f"{left} more damaged", messages=left)


# Order, selectors, marks


def _ahead(entries: Sequence[Entry], first: Entry, selection: ExplainSelection) -> Steps:
    """Yield a finding on the messages that are delivered before the first of those asked about."""
    if selection == ALL:
        return
    ahead = higher = 0
    for entry in in_steps(entries):
        if entry is None:
            yield None
        elif entry.state == AVAILABLE and entry.key < first.key:
            ahead += 1
            higher += rank_of(entry.key) > rank_of(first.key)
    if higher:
        text = f"{are(higher)} ahead by a higher priority than {rank_of(first.key)}, of {ahead} ahead in all"
        yield finding(Cause.HIGHER_PRIORITY_AHEAD, text, messages=higher, ahead=ahead)
    elif ahead:
        yield finding(Cause.MESSAGES_AHEAD, f"{are(ahead)} ahead, which arrived earlier", messages=ahead)


def _hidden_by_selectors(queue: LocalQueue, tried: Sequence[Entry]) -> Steps:
    for handle in _in_order(queue.handles):
        if handle.selector is None:
            continue
        hidden = of = 0
        for entry in in_steps(tried):
            if entry is None:
                yield None
            else:
                of += 1
                hidden += not handle.selector.matches(entry)
        if hidden:
            text = f"{hidden} of {of} hidden from {_name(handle.hconn)} by its selector {handle.selector.text}"
            yield finding(
                Cause.SELECTOR, text, messages=hidden, of=of, selector=handle.selector.text,
                **_who(handle.hconn),
            )  # fmt: skip


def _in_order(handles: Iterable[Handle]) -> list[Handle]:
    return sorted(handles, key=lambda handle: (handle.hconn.appl_name, handle.hobj))


def _marked(seen: _Seen) -> Iterator[Finding]:
    if seen.marked:
        yield finding(Cause.MARKED, f"{are(seen.marked)} marked by browses", messages=seen.marked)


# Who gets


def _getters(queue: LocalQueue, *, served: bool) -> Iterator[Finding]:
    if not (queue.input_count or served):
        yield finding(Cause.NOT_OPEN_FOR_INPUT, f"no program has {queue.name} open for input")
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
    yield finding(Cause.GETTERS_WAITING, text, getters=count, first=shown)


def _waits_for(request: Request) -> str:
    """Return a text that names what a get waits for."""
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
