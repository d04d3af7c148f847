"""A dead-letter queue: its letters told, put back to where they came from, or discarded."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Self

from broker.dead_letters.letter import read_letter, restored
from broker.dead_letters.outcome import Outcome
from broker.dead_letters.together import group_of, member, missing
from broker.interface.users import process_user
from broker.mqi import MQGMO, MQMO, MQOO, MQPER, MQPMO, MQRC, GetMessageOptions, MQError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Hashable, Iterable, Sequence
    from types import TracebackType

    from broker.dead_letters.letter import DeadLetter
    from broker.dead_letters.together import Member
    from broker.dead_letters.wanted import Wanted
    from broker.interface import Connection, Message, Queue

AUDIT_QUEUE: Final = "SYSTEM.ADMIN.AUDIT.QUEUE"
"""The queue for a message about each letter that was retried or purged: who, when, MsgId, from where, to where."""

REPLAYS_MAX: Final = 3
"""A letter that was put back so often is put back again only where that is forced."""

_BROWSED: Final = 256
_ENDED: Final = frozenset(
    {MQRC.CONNECTION_BROKEN, MQRC.HCONN_ERROR, MQRC.Q_MGR_QUIESCING, MQRC.Q_MGR_STOPPING, MQRC.Q_MGR_NOT_AVAILABLE}
)
_GET: Final = MQGMO.SYNCPOINT | MQGMO.FAIL_IF_QUIESCING | MQGMO.PROPERTIES_FORCE_MQRFH2
_PUT: Final = MQPMO.SYNCPOINT | MQPMO.SET_ALL_CONTEXT | MQPMO.FAIL_IF_QUIESCING


class DeadLetterQueue:
    """`async with DeadLetterQueue(connection, "ORDERS.DEAD") as letters:`

    The connection is not used for anything else meanwhile: each letter, or group of letters, moves in a unit of work of
    its own. `by` is who does it, for the record; the user of the process, if it is empty. To enter it raises what
    MQOPEN does, among others UNKNOWN_OBJECT_NAME (2085).
    """

    def __init__(self, connection: Connection, q_name: str, by: str = "") -> None:
        self._by = by or process_user()
        self._connection = connection
        self._q_name = q_name
        self._opened: dict[str, Queue] = {}

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            options = MQOO.BROWSE | MQOO.INPUT_SHARED | MQOO.FAIL_IF_QUIESCING
            self._queue = await stack.enter_async_context(self._connection.open(self._q_name, options))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.clear()
        await self._stack.__aexit__(kind, error, trace)

    async def browse(self, selection: Wanted) -> AsyncIterator[DeadLetter]:
        """The letters that are meant, in the order of the queue. Any other message on it is a foreign letter."""
        async for letter in self._letters():
            if selection(letter):
                yield letter

    async def retry(
        self, selection: Wanted, *, to: str = "", force: bool = False, clear_steps: bool = False
    ) -> AsyncIterator[Outcome]:
        """Put letters back to the queues they came from, or all to the queue `to`, as the messages that they were:
        without MQDLH and what was told of their failures, with their context, BackoutCount 0, and what was left of
        Expiry when they failed.

        It takes what is on the queue when it begins. A group goes as a whole, or stays where something of it is
        missing; so does a letter that was put back three times before. `force` takes both as they are. Steps that its
        handlers had finished stay so; with `clear_steps` each is run again.
        """
        for letters in await self._chosen(selection, together=True):
            yield await self._retried(letters, to, force=force, clear_steps=clear_steps)

    async def purge(self, selection: Wanted) -> AsyncIterator[Outcome]:
        """Discard letters for good: of those that are on the queue when it begins, whatever is left of their groups."""
        for letters in await self._chosen(selection, together=False):
            yield await self._moved(letters, None)

    async def _letters(self) -> AsyncIterator[DeadLetter]:
        q_mgr_name = self._connection.q_mgr_name
        for step in (MQGMO.BROWSE_FIRST, MQGMO.BROWSE_NEXT):
            while messages := await self._browsed(step):
                for each in messages:
                    yield read_letter(each, q_mgr_name)
                if step == MQGMO.BROWSE_FIRST:
                    break

    async def _browsed(self, step: MQGMO) -> list[Message]:
        """The next messages; none at the end of the queue."""
        options = step | MQGMO.PROPERTIES_IN_HANDLE | MQGMO.FAIL_IF_QUIESCING
        gmo = GetMessageOptions(options=options, match_options=MQMO.NONE)
        try:
            if step == MQGMO.BROWSE_FIRST:
                return [await self._queue.get(options=gmo)]
            return await self._queue.get_many(_BROWSED, options=gmo)
        except MQError as error:
            if error.reason != MQRC.NO_MSG_AVAILABLE:
                raise
            return []

    async def _chosen(self, selection: Wanted, *, together: bool) -> list[list[Member]]:
        """The letters that are meant, in the order of the queue; `together`: each with all of its group."""
        found: dict[Hashable, list[Member]] = {}
        meant: set[Hashable] = set()
        async for letter in self._letters():
            each = member(letter)
            group = group_of(each) if together else None
            key = group or each.token
            if selection(letter):
                meant.add(key)
            elif group is None:
                continue
            found.setdefault(key, []).append(each)
        return [sorted(letters, key=lambda each: each.place) for key, letters in found.items() if key in meant]

    async def _retried(self, letters: Sequence[Member], to: str, *, force: bool, clear_steps: bool) -> Outcome:
        problem = _objection(letters, to, force=force)
        if problem:
            return Outcome(_ids(letters), problem=problem)
        q_name = to or letters[0].q_name
        try:
            target = await self._open(q_name, MQOO.OUTPUT | MQOO.SET_ALL_CONTEXT)
        except MQError as error:
            return _failed(letters, error)
        if target.resolved_q_name == self._queue.resolved_q_name:
            return Outcome(_ids(letters), problem=f"{q_name} is the dead-letter queue itself")
        return await self._moved(letters, target, clear_steps=clear_steps)

    async def _moved(self, letters: Sequence[Member], target: Queue | None, *, clear_steps: bool = False) -> Outcome:
        """Move letters to a queue, or nowhere, in one unit of work with what is recorded of it."""
        try:
            audit = await self._open(AUDIT_QUEUE, MQOO.OUTPUT)
            async with self._connection.unit_of_work():
                for each in letters:
                    message = await self._got(each)
                    if target is not None:
                        md, data = restored(message, each.replays + 1, clear_steps=clear_steps)
                        await target.put(data, md, _PUT)
                    await audit.put(self._record(each, target), persistence=MQPER.PERSISTENT)
        except MQError as error:
            return _failed(letters, error)
        return Outcome(_ids(letters), "" if target is None else target.name)

    async def _got(self, letter: Member) -> Message:
        gmo = GetMessageOptions(options=_GET, match_options=MQMO.MATCH_MSG_TOKEN, msg_token=letter.token)
        try:
            return await self._queue.get(options=gmo)
        except MQError as error:
            if error.reason == MQRC.NO_MSG_AVAILABLE:
                raise MQError(error.reason, f"it is not on {self._queue.name} any more") from error
            raise

    async def _open(self, q_name: str, options: MQOO) -> Queue:
        """A queue to put to, which stays open until the end."""
        if q_name not in self._opened:
            opening = self._connection.open(q_name, options | MQOO.FAIL_IF_QUIESCING)
            self._opened[q_name] = await self._stack.enter_async_context(opening)
        return self._opened[q_name]

    def _record(self, letter: Member, target: Queue | None) -> str:
        """Return the audit message."""
        reported = {
            "event": "dead-letter-purged" if target is None else "dead-letter-retried",
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "by": self._by,
            "msg_id": letter.msg_id.hex(),
            "from": self._queue.resolved_q_name,
            "to": None if target is None else target.name,
        }
        return json.dumps(reported)


def _objection(letters: Sequence[Member], to: str, *, force: bool) -> str:
    """Return the reason why letters are not to be put back; empty where nothing is against it."""
    first = letters[0]
    if not to and not first.q_name:
        return "nothing in it tells where it came from: name the queue to put it to"
    if not to and first.q_mgr_name:
        return f"it was for {first.q_name} of queue manager {first.q_mgr_name}: name the queue to put it to"
    if force:
        return ""
    replays = max(each.replays for each in letters)
    if replays >= REPLAYS_MAX:
        return f"it has been put back {replays} times already: it goes once more only if forced"
    lacking = missing(letters) if group_of(first) else []
    if lacking:
        return f"group {first.group_id.hex()} lacks {', '.join(lacking)}: what is left of it goes only if forced"
    return ""


def _ids(letters: Iterable[Member]) -> tuple[bytes, ...]:
    return tuple(each.msg_id for each in letters)


def _failed(letters: Iterable[Member], error: MQError) -> Outcome:
    """Return the outcome for letters that stayed. Raises the error again where nothing else would go either."""
    if error.reason in _ENDED:
        raise error
    return Outcome(_ids(letters), problem=str(error))
