"""Pages: messages that a get can be about, as the database has them now, in queue order (queue-sharing rule 10.2.1).

The fields of a request lead to them by the narrowest index: its place (token, cursor), its place in a group (the item
that comes next in logical order), MsgId, CorrelId, GroupId, or queue order. What a column says is judged by the
database; all else, selectors and browse marks and completeness, by the core on a shelf of the page. Such pages are long
and come without the bodies of messages, and with all that is available of the groups whose completeness matters.

Nothing is locked by a look. What is chosen for a destructive get is locked by the statement that takes it, and looked
at again there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from broker.core.message.entry import AVAILABLE, DELAYED
from broker.core.message.logical_order import GROUPED, IN_PARTS, LAST_MSG_IN_GROUP, LAST_SEGMENT, SEGMENTS
from broker.core.queues.shelf.views import GROUP_START, PART, START, WHOLE_GROUP
from broker.core.selector.values import is_number
from broker.mqi.structures import NO_ID
from broker.sharing.database.rows import COLUMNS, entry_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.message.entry import Entry
    from broker.core.queues.handles import Handle
    from broker.core.queues.shared_queue import SharedQueue
    from broker.core.queues.shelf.selection import Request
    from broker.core.selector import Selector
    from broker.sharing.database.sessions import DatabaseSession

LONG: Final = 100
LONGEST: Final = 1600
"""Messages of a page that the core judges: of the first, and of the longest. Where nothing suits the next is twice as
long.
"""

SLICE: Final = 16
"""So many times as many are looked at for a page, but the first, where the database can tell that most do not suit."""

_NUMBERS: Final = {
    "persistence": "persistent::integer",
    "msg_seq_number": "msg_seq_number",
    "offset": "byte_offset",
    "backout_count": "backout_count",
}
_IDS: Final = ("msg_id", "correl_id", "group_id")
"""Fields of the descriptor that are columns, by the names of an entry."""

_LIGHT: Final = COLUMNS.replace("body", "NULL::bytea AS body")
_UNEXPIRED: Final = "(deadline IS NULL OR deadline > $2)"
_OVERDUE: Final = (
    "SELECT EXISTS (SELECT 1 FROM message WHERE queue = $1 AND deadline <= $2 ORDER BY deadline LIMIT 1) AS overdue"
)
_FIRST: Final = (
    f"SELECT {_LIGHT} FROM message WHERE queue = $1 AND {_UNEXPIRED} AND state = {AVAILABLE} ORDER BY place LIMIT $3"
)
_GROUPS: Final = (
    f"SELECT found.* FROM unnest($3::bytea[]) AS wanted (group_id), LATERAL (SELECT {_LIGHT} FROM message "
    f"WHERE queue = $1 AND message.group_id = wanted.group_id AND {_UNEXPIRED} AND (state = 1) IS TRUE "
    "ORDER BY msg_seq_number, byte_offset, place) AS found"
)
_AT: Final = "place BETWEEN {0} AND {0}"  # an equality would leave the order open, and with it the index
_BODIES: Final = "SELECT * FROM bodies_of($1, $2)"


@dataclass(slots=True)
class Page:
    """Messages of a queue. `last` is the place of the one that was looked at last, None when there are no more;
    `overdue` says that there are expired ones, which are not among them.
    """

    entries: list[Entry]
    last: int | None
    overdue: bool


async def page(
    session: DatabaseSession,
    queue: SharedQueue,
    handle: Handle,
    request: Request,
    now: float,
    after: int,
    length: int = LONG,
) -> Page:
    """The messages behind `after` that a request can be about: one of them, or a page of this length to be judged."""
    judged = needs_judgement(request)
    length = length if judged else 1
    conditions, values = _conditions(handle, request, now, after)
    compared = [] if request.selector is None or _wants_groups(request) else _compared(request.selector, values)
    limit = SLICE * length if compared and length > LONG else length
    suits = " AND ".join(compared) or "true"
    each = f"SELECT {_LIGHT if judged else COLUMNS}, {suits} AS suits FROM message WHERE {' AND '.join(conditions)}"
    ordered = f"ORDER BY place LIMIT {limit:d}"
    found = f"{each} AND {_available(request)} {ordered}"
    if request.delayed:
        found = f"({found}) UNION ALL ({each} AND state = {DELAYED} {ordered}) {ordered}"
    text = (
        f"WITH slice AS MATERIALIZED ({found}) SELECT o.overdue, s.seen, s.last, m.* FROM ({_OVERDUE}) AS o, "
        "(SELECT count(*) AS seen, max(place) AS last FROM slice) AS s LEFT JOIN LATERAL "
        f"(SELECT * FROM slice WHERE suits ORDER BY place LIMIT {length:d}) AS m ON true ORDER BY m.place"
    )
    rows = await session.fetch(text, *values)
    overdue, last = bool(rows[0]["overdue"]), rows[0]["last"] if rows[0]["seen"] == limit else None
    entries = [entry_of(queue, row) for row in rows if row["place"] is not None]
    if len(entries) == length:
        last = entries[-1].key
    if _wants_groups(request):
        entries = await _with_groups(session, queue, entries, now, handle.position.locked)
    return Page(entries, last, overdue)


async def first_messages(
    session: DatabaseSession, queue: SharedQueue, now: float, length: int, *, groups: bool
) -> tuple[list[Entry], bool]:
    """The first `length` messages of a queue that are available, without their bodies, and whether there may be more;
    with all of their logical messages, and with `groups` all of their groups.
    """
    rows = await session.fetch(_FIRST, queue.name, now, length)
    entries = [entry_of(queue, row) for row in rows]
    if groups or any(entry.msg_flags & SEGMENTS for entry in entries):
        entries = await _with_groups(session, queue, entries, now)
    return entries, len(rows) == length


def needs_judgement(request: Request) -> bool:
    """True if the database cannot say by itself which message a request is given."""
    return (
        request.selector is not None
        or request.unmarked_by is not None
        or request.whole != PART
        or request.complete_message
        or request.item is not None
        or (request.token is not None and request.msg_id is not None)
    )


async def fill(session: DatabaseSession, queue: SharedQueue, entries: Sequence[Entry]) -> bool:
    """Bring the bodies of messages; False when one of them has gone meanwhile."""
    bare = {entry.key: entry for entry in entries if entry.data is None}
    if bare:
        rows = await session.fetch(_BODIES, queue.name, list(bare))
        for row in rows:
            bare[row["place"]].data = row["body"]
    return all(entry.data is not None for entry in entries)


def _conditions(handle: Handle, request: Request, now: float, after: int) -> tuple[list[str], list[Any]]:
    values: list[Any] = [queue_name(handle), now]
    conditions = ["queue = $1", _UNEXPIRED]

    def where(condition: str, value: object) -> None:
        values.append(value)
        conditions.append(condition.format(f"${len(values)}"))

    if request.under_cursor:
        where(_AT, handle.position.cursor)
        return conditions, values
    if after != START:
        where("place > {}", after)
    if request.item is not None:
        where("group_id = {}", request.item.group_id)
        where("msg_seq_number = {}", request.item.msg_seq_number)
        where("byte_offset = {}", request.item.offset)
        return conditions, values
    if request.token is not None:
        where(_AT, min(int.from_bytes(request.token, "big"), (1 << 63) - 1))
        return conditions, values
    for column, value in (
        ("msg_id", request.msg_id),
        ("correl_id", request.correl_id),
        ("group_id", request.group_id),
        ("msg_seq_number", request.msg_seq_number),
        ("byte_offset", request.offset),
    ):
        if value is not None and value != NO_ID:
            where(f"{column} = {{}}", value)
    own = ""
    if handle.position.locked and _wants_groups(request):
        values.append([entry.key for entry in handle.position.locked])
        own = f" OR e.place = ANY (${len(values)})"
    conditions += _starts(request, own)
    return conditions, values


def _compared(selector: Selector, values: list[Any]) -> list[str]:
    """Return what the columns of a message must say where a selector is true; the core judges by all of it. What it
    compares with becomes part of `values`.
    """
    conditions = []
    for name, order, value in selector.conjuncts:
        if name in _NUMBERS and is_number(value):
            values.append(float(value))
            conditions.append(f"{_NUMBERS[name]}::float8 {order} ${len(values)}")
        elif name in _IDS and order == "=" and isinstance(value, bytes) and len(value) == len(NO_ID):
            values.append(value)
            conditions.append(f"coalesce({name}, '\\x{NO_ID.hex()}') = ${len(values)}")
    return conditions


def queue_name(handle: Handle) -> str:
    assert handle.queue is not None
    return handle.queue.name


def _available(request: Request) -> str:
    """Return the condition on the state. With it the index of an identifier is taken where there is one, else that of
    the order, whatever the statistics say.
    """
    named = request.item is not None or request.msg_id or request.correl_id or request.group_id
    return f"(state = {AVAILABLE}) IS TRUE" if named else f"state = {AVAILABLE}"


def _starts(request: Request, own: str) -> list[str]:
    """Return the conditions on messages with which a group or a logical message begins. Where a last message is not
    there, it cannot be complete. `own`: what else is there for the getter, since it has locked it itself.
    """
    conditions = []
    if request.start:
        conditions.append("byte_offset = 0")
    if request.start == GROUP_START:
        conditions.append("msg_seq_number = 1")
    if request.whole == WHOLE_GROUP:
        conditions.append(_ends(GROUPED, LAST_MSG_IN_GROUP, own))
    if request.whole or request.complete_message:
        conditions.append(_ends(SEGMENTS, LAST_SEGMENT, own, " AND e.msg_seq_number = message.msg_seq_number"))
    return conditions


def _ends(member: int, last: int, own: str, besides: str = "") -> str:
    return (
        f"(msg_flags & {member:d} = 0 OR EXISTS (SELECT 1 FROM message AS e WHERE e.queue = $1 "
        f"AND e.group_id = message.group_id AND (e.state = {AVAILABLE}{own}) AND e.msg_flags & {last:d} <> 0{besides}))"
    )


def _wants_groups(request: Request) -> bool:
    return request.whole != PART or request.complete_message


async def _with_groups(
    session: DatabaseSession, queue: SharedQueue, entries: list[Entry], now: float, own: Sequence[Entry] = ()
) -> list[Entry]:
    """The messages, those in parts with all that is available of their groups, as one look finds it; and so the groups
    of messages that the getter has locked itself.
    """
    groups = {entry.group_id for entry in (*entries, *own) if entry.msg_flags & IN_PARTS}
    if not groups:
        return entries
    rows = await session.fetch(_GROUPS, queue.name, now, list(groups))
    alone = [entry for entry in entries if entry.group_id not in groups]
    return sorted([*alone, *(entry_of(queue, row) for row in rows)], key=_key)


def _key(entry: Entry) -> int:
    return entry.key
