"""Gets that look before they take: browses, and destructive gets for which the core must judge messages.

1. A look is a page of messages, locked by nobody. The core chooses on it as on any queue.
2. What a destructive get or a browse with LOCK has chosen is taken by one statement, all or nothing: it locks the first
   of these messages unless a rival is at it, and then all others, for which it waits (queue-sharing rule 10.2.4). So
   two who put the same message together from its segments are not at odds for ever.
3. All that its choice has relied on, the whole group for ALL_MSGS_AVAILABLE, is locked by that statement and must be
   there still. It is never given a part.
4. A message at which a rival is, is passed over. Where nothing else is found, it is waited for
   (queue-sharing rule 10.2.2).
5. The core grants after that statement is committed, so nothing has to be taken back.
6. What the handle has locked itself is on the shelf of each page, with its group, since it is available to it. It is
   given in the look at the page where its place is, so that the order holds.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.core.calls.gets import choosing, granting
from broker.core.message.entry import GET_PENDING, GONE, LOCKED
from broker.core.queues.shelf.views import PART, Search
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.database.errors import OutcomeUnknownError
from broker.sharing.gets.batched_gets import written
from broker.sharing.gets.get_requests import OUTSIDE
from broker.sharing.gets.pages import LONG, LONGEST, fill, page

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.core.calls.gets.granting import Outline
    from broker.core.message.entry import Entry
    from broker.core.queues.effects import Grant
    from broker.core.queues.handles import Handle
    from broker.core.queues.shared_queue import SharedQueue
    from broker.sharing.database.sessions import DatabaseSession, Lane
    from broker.sharing.gets.get_requests import GetRequest, UnitJoin
    from broker.sharing.gets.pages import Page
    from broker.sharing.members.group_member import GroupMember

_TAKE: Final = f"SELECT * FROM take_messages({', '.join(f'${number}' for number in range(1, 12))})"
_LOCK: Final = "SELECT lock_browsed($1, $2, $3, $4, $5, $6, $7, $8)"
_TAKEN: Final = (
    "SELECT place, body, backout_count FROM held "
    "WHERE member = $1 AND epoch = $2 AND unit = $3 AND kind = 2 AND place = ANY ($4)"
)


class Chosen(NamedTuple):
    """The choice of the core on a page: the message, what granting it comes to, and all messages, in the order of their
    group, that must be available for that.
    """

    entry: Entry
    outline: Outline
    needed: list[Entry]


class PageGets:
    """The looks of one member."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database

    async def get(self, queue: SharedQueue, get: GetRequest) -> Grant | None:
        """The message that a get is given; None when there is none, or its getter has gone. Raises why it is not given
        the one that there is.
        """
        request = get.request
        passed: set[int] = set()
        patient = False
        after, length = request.after, LONG
        await self._member.returned.settle()
        while True:
            now = self._member.now()
            found = await self._database.look_again(partial(self._look, queue, get, passed, now, after, length))
            if found is None:
                continue
            seen, entries, chosen = found
            if seen.overdue:
                await self._member.expiry.discard(queue)
            if get.abandoned:
                return None
            if chosen is not None:
                grant, rival = await self._give(queue, get, chosen, entries, now, patient=patient)
                if not rival:
                    return grant
                passed.add(chosen.needed[0].key)
                passed.add(chosen.entry.key)
            elif seen.last is not None:
                after, length = seen.last, min(2 * length, LONGEST)
            elif passed and get.patient and not patient:
                patient, after, length = True, request.after, LONG
                passed.clear()
            else:
                await self._found_nothing(queue, get)
                return None

    async def _look(
        self,
        queue: SharedQueue,
        get: GetRequest,
        passed: set[int],
        now: float,
        after: int,
        length: int,
        session: DatabaseSession,
    ) -> tuple[Page, list[Entry], Chosen | None] | None:
        """A page, the messages of it that come into question, and what is chosen of them; None where that has gone
        meanwhile.
        """
        seen = await page(session, queue, get.handle, get.request, now, after, length)
        entries = _on_shelf(get.handle, seen, passed, now)
        chosen = None if get.abandoned else self._choose(queue, get, entries, now)
        if chosen is not None and seen.last is not None and chosen.entry.key > seen.last:
            chosen = None  # another may come before it
        if chosen is not None and not await fill(session, queue, chosen.outline.entries):
            return None
        return seen, entries, chosen

    async def _found_nothing(self, queue: SharedQueue, get: GetRequest) -> None:
        """A browse that comes to the end of the queue leaves what it has locked."""
        before = get.handle.position.locked
        if before and get.request.browse:
            await self._member.locks.end(queue, _released(get, before, None))

    def _choose(self, queue: SharedQueue, get: GetRequest, entries: Sequence[Entry], now: float) -> Chosen | None:
        request, handle, core = get.request, get.handle, self._member.core
        request.view = None
        if request.unmarked_by is not None:
            queue.browse_marks.drop_old(now - core.mark_seconds)  # before a page shows them
        with queue.page(entries) as shelf:
            try:
                found = choosing.select(core, handle, queue, request, now)
                while isinstance(found, Search):
                    for _ in found.steps:
                        pass
                    found = choosing.select(core, handle, queue, request, now)
            finally:
                request.view = handle.last_calls.search = handle.last_calls.look = None
                _lock_again(handle.position.locked)
            if found is None:
                return None
            outline = granting.outline(core, handle, queue, request, found)
            needed = {entry.key: entry for entry in outline.entries}
            if request.whole != PART:
                needed |= {key: shelf.entries[key] for key in shelf.groups.whole_with(found, request.whole)}
            return Chosen(found, outline, sorted(needed.values(), key=_in_group))

    async def _give(
        self,
        queue: SharedQueue,
        get: GetRequest,
        chosen: Chosen,
        entries: Sequence[Entry],
        now: float,
        *,
        patient: bool,
    ) -> tuple[Grant | None, bool]:
        """Give what was chosen, and whether a rival was there before."""
        joined = get.joined() if chosen.outline.takes else None
        if joined is not None:
            joined = joined if chosen.outline.in_unit else OUTSIDE
            if not await self._take(queue, get, chosen, joined, now, patient=patient):
                return None, True
        elif chosen.outline.locks and not await self._lock(queue, get, chosen, now, patient=patient):
            return None, True
        if get.abandoned:
            await self._undo(queue, get, chosen, joined)
            return None, False
        before = get.handle.position.locked
        try:
            with queue.page(entries):
                grant = granting.grant(self._member.core, get.handle, queue, get.request, chosen.entry, now)
                free = _released(get, before, grant) if before else []
        except MQError:
            await self._undo(queue, get, chosen, joined)
            raise
        if joined is not None:
            written(grant, joined, self._database.epoch)
        await self._member.locks.end(queue, free)
        return grant, False

    async def _take(
        self,
        queue: SharedQueue,
        get: GetRequest,
        chosen: Chosen,
        joined: UnitJoin,
        now: float,
        *,
        patient: bool,
    ) -> bool:
        """Take the messages in the database; whether they were there still."""
        places = [entry.key for entry in chosen.outline.entries]
        arguments = (
            now,
            [entry.key for entry in chosen.needed],
            places,
            [entry.key for entry in get.handle.position.locked],
            patient,
            joined.id,
            joined.begins,
            get.conversation.hconn.tag,
        )

        async def work(lane: Lane) -> list[Any]:
            lane.q_name = queue.name
            rows = list(await lane.session.fetch(_TAKE, lane.sequence, queue.name, queue.version, *arguments))
            if rows and self._member.core.events.counting:
                queue.depth = await lane.session.fetchval("SELECT depth_of($1)", queue.name)
            return rows

        outside = joined.id is None
        transact = self._database.transact_in_hand if outside else self._database.transact_at_once
        try:
            rows = await transact(work)
            if rows is None:  # the session was lost with the answer
                rows = await self._taken(get, joined, places)
        except OutcomeUnknownError as error:
            removed = chosen.outline.entries if outside and error.result else ()
            self._member.returned.unknown({get: joined}, error, removed)
            raise
        counts = {row["place"]: row["backout_count"] for row in rows}
        for entry in chosen.outline.entries:
            entry.backout_count = counts.get(entry.key, entry.backout_count)
        return bool(rows)

    async def _taken(self, get: GetRequest, joined: UnitJoin, places: Sequence[int]) -> list[Any]:
        """Return what was taken into a unit of work, of which the answer was lost."""
        own = self._database.member, self._database.epoch
        try:
            return await self._database.repeat(_TAKEN, *own, joined.id, places)
        except MQError as error:
            self._member.returned.unknown({get: joined}, OutcomeUnknownError(str(error)))
            raise

    async def _lock(self, queue: SharedQueue, get: GetRequest, chosen: Chosen, now: float, *, patient: bool) -> bool:
        """Lock the messages for the handle in the database; whether they were there still."""
        own = [entry.key for entry in get.handle.position.locked]
        locked = [entry.key for entry in chosen.outline.entries]
        needed = [entry.key for entry in chosen.needed]
        life = self._database.epoch

        async def work(lane: Lane) -> bool:
            lane.q_name = queue.name
            on_queue = lane.sequence, queue.name, queue.version, now
            return bool(await lane.session.fetchval(_LOCK, *on_queue, needed, locked, own, patient))

        try:
            made = await self._database.transact_at_once(work)
        except OutcomeUnknownError as error:
            self._member.locks.unknown(life, queue, _new(get, chosen), error.transaction)
            raise
        if self._database.epoch != life:
            raise MQError(MQRC.CF_NOT_AVAILABLE, "the queue manager has lost its queue-sharing group meanwhile")
        if made is None:  # the session was lost with the answer: lock them again
            await self._member.locks.end(queue, _new(get, chosen))
            return await self._lock(queue, get, chosen, now, patient=patient)
        return made

    async def _undo(self, queue: SharedQueue, get: GetRequest, chosen: Chosen, joined: UnitJoin | None) -> None:
        """The getter has gone, or is refused, after its message has been taken or locked."""
        if joined is not None:
            entries = [(get, entry) for entry in chosen.outline.entries]
            await self._member.returned.unclaimed({get: joined}, entries)
        elif chosen.outline.locks:
            await self._member.locks.end(queue, _new(get, chosen))


def _on_shelf(handle: Handle, seen: Page, passed: set[int], now: float) -> list[Entry]:
    """The messages of a page and those that the handle itself has locked, but for those at which rivals are."""
    entries = {entry.key: entry for entry in seen.entries}
    for entry in handle.position.locked:
        if not entry.expired(now):
            entries.setdefault(entry.key, entry)
    return [entry for key, entry in entries.items() if key not in passed]


def _new(get: GetRequest, chosen: Chosen) -> list[int]:
    """The places of messages that a browse locks, and its handle has not locked before."""
    own = {entry.key for entry in get.handle.position.locked}
    return [entry.key for entry in chosen.outline.entries if entry.key not in own]


def _released(get: GetRequest, before: Sequence[Entry], grant: Grant | None) -> list[int]:
    """Release what the handle had locked `before` this get, if a browse has gone on to another message or to the end of
    the queue, or the get has taken one of them (semantics 5.5). Return the places of what is free now.
    """
    handle = get.handle
    newly_locked = () if handle.position.locked is before else handle.position.locked
    left = [entry for entry in before if entry.state != GET_PENDING and entry not in newly_locked]
    has_taken = any(entry.state == GET_PENDING for entry in before)
    if grant is not None and not has_taken and not granting.moves_cursor(get.request, grant):
        _lock_again(left)
        return []
    for entry in left:
        entry.state = GONE
    if not newly_locked:
        handle.position = handle.position._replace(locked=())
    return [entry.key for entry in left]


def _in_group(entry: Entry) -> tuple[int, int, int]:
    return entry.msg_seq_number, entry.offset, entry.key


def _lock_again(entries: Iterable[Entry]) -> None:
    """Lock messages of the handle that were available to it on a page."""
    for entry in entries:
        entry.state = LOCKED
