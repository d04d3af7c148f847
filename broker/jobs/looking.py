"""Look for a message by its MsgId, where it was put and where it may have gone.

1. It goes from its queue to nowhere, leaving a record in the history, or to the dead-letter queue, and may come back
   from there. So it is looked for on its queue first; who finds it nowhere looks once more.
2. All three queues are opened before anything is looked at: whether a user may ask does not depend on what is found.
   BROWSE and INQ on the queue, BROWSE on its dead-letter queue and on its history, where there are such queues.
3. A message that is in a unit of work is seen by no browse: then the queue manager is asked why it is not delivered.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from broker.dead_letters.letter import read_letter
from broker.jobs.state import JobState, JobStatus
from broker.mqi import (
    MQCA,
    MQGMO,
    MQMO,
    MQOO,
    MQOT,
    MQRC,
    Cause,
    GetMessageOptions,
    MessageDescriptor,
    MQError,
    ObjectDescriptor,
    dead_q_name,
    history_q_name,
    read_record,
)

if TYPE_CHECKING:
    from broker.interface import Connection, Message, Queue
    from broker.mqi import Finding, HistoryRecord

_BROWSE: Final = (MQGMO.FAIL_IF_QUIESCING | MQGMO.PROPERTIES_IN_HANDLE).value
_FIRST: Final = MQGMO.BROWSE_FIRST.value
_NEXT: Final = MQGMO.BROWSE_NEXT.value
_NO_DATA: Final = _BROWSE | MQGMO.ACCEPT_TRUNCATED_MSG.value
_ABSENT: Final = (MQRC.UNKNOWN_OBJECT_NAME, MQRC.UNKNOWN_REMOTE_Q_MGR, MQRC.OPTION_NOT_VALID_FOR_TYPE)

_STATES: Final[dict[str, JobState]] = {
    Cause.IN_DOUBT: JobState.IN_DOUBT,
    Cause.UNCOMMITTED_GET: JobState.RUNNING,
    Cause.CLAIMED: JobState.RUNNING,
    Cause.DAMAGED: JobState.DEAD,
    Cause.UNCOMMITTED_PUT: JobState.WAITING,
    Cause.PREPARED: JobState.WAITING,
    Cause.LOCKED: JobState.WAITING,
    Cause.AVAILABLE: JobState.WAITING,
    Cause.DELAYED: JobState.DELAYED,
}
"""The states that findings about a message stand for; of several findings the first here counts."""


async def job_status(
    connection: Connection, q_name: str, msg_id: bytes, *, dead_letter: str = "", history: str = ""
) -> JobStatus:
    """Return what has become of the message with this MsgId that was put on a queue, at once. `dead_letter` names the
    queue for its dead letters, where its handler names one; without it that is BOQNAME, else DEADQ of the queue
    manager, else the queue's own name with `.DEAD` behind it. `history` is that name with `.HISTORY` behind it, unless
    another is given.

    Raises UNKNOWN_OBJECT_NAME (2085) for a queue that is not there, NOT_AUTHORIZED (2035) for a user who may not browse
    the queue, its dead-letter queue and its history, or not inquire the queue; no error for any state.
    """
    async with AsyncExitStack() as stack:
        queue = await stack.enter_async_context(connection.open(q_name, _open(MQOO.BROWSE)))
        name = queue.resolved_q_name
        dead_letter = dead_letter or await _dead_letter_q_name(connection, name) or dead_q_name(name)
        dead = await _opened(stack, connection, dead_letter)
        records = await _opened(stack, connection, history or history_q_name(name))
        look = _Look(connection, name, msg_id, queue, dead, records)
        return await look.once() or await look.inside() or await look.once() or look.over()


class _Look:
    """One look for a message."""

    def __init__(
        self,
        connection: Connection,
        q_name: str,
        msg_id: bytes,
        queue: Queue,
        dead: Queue | None,
        history: Queue | None,
    ) -> None:
        self._connection = connection
        self._q_name = q_name
        self._msg_id = msg_id
        self._queue = queue
        self._dead = dead
        self._history = history
        self._record: HistoryRecord | None = None

    async def once(self) -> JobStatus | None:
        """Look on the queue, in the history, and on the dead-letter queue."""
        message = await self._on_queue()
        if message is not None:
            if message.deliver_at:
                return self._status(JobState.DELAYED, until=message.deliver_at, attempts=message.backout_count)
            return self._status(JobState.WAITING, attempts=message.backout_count)
        self._record = await self._last_record()
        if self._record is not None and self._record.outcome == "succeeded":
            return self.over()
        return await self._as_letter()

    async def inside(self) -> JobStatus | None:
        """Ask who has it in a unit of work."""
        explanation = await self._connection.explain(self._q_name, msg_id=self._msg_id)
        found = {each.code: each for each in reversed(explanation.findings)}
        if Cause.NO_MESSAGE in found:
            return None
        known = next((self._found(state, found[code]) for code, state in _STATES.items() if code in found), None)
        return known or (None if Cause.EXPIRED in found else self._status(JobState.WAITING))

    def over(self) -> JobStatus:
        """It is nowhere."""
        record = self._record
        if record is None:
            return self._status(JobState.GONE)
        return self._status(JobState.DONE, since=record.ended, attempts=record.attempts)

    def _found(self, state: JobState, finding: Finding) -> JobStatus:
        figures = finding.figures
        if state is JobState.DELAYED:
            return self._status(state, until=figures.get("next_at"), attempts=figures.get("attempts", 0))
        if state is JobState.DEAD:
            return self._status(state, reason="damaged", error=figures.get("why", ""))
        where = figures.get("appl_name") or figures.get("consumer") or figures.get("database") or ""
        return self._status(state, since=figures.get("since"), where=where)

    async def _on_queue(self) -> Message | None:
        md = MessageDescriptor(msg_id=self._msg_id)
        gmo = GetMessageOptions(options=_NO_DATA | _FIRST, match_options=MQMO.MATCH_MSG_ID.value)
        try:
            return await _browsed(self._queue, md, gmo, delayed=True)
        except MQError as error:
            if error.reason != MQRC.GET_INHIBITED:
                raise
            return None  # `inside` sees it all the same

    async def _last_record(self) -> HistoryRecord | None:
        """The last record of the message: a dead letter that was put back has one more."""
        if self._history is None:
            return None
        md, record = MessageDescriptor(correl_id=self._msg_id), None
        step = _FIRST
        while True:
            gmo = GetMessageOptions(options=_BROWSE | step, match_options=MQMO.MATCH_CORREL_ID.value)
            message = await _browsed(self._history, md, gmo)
            if message is None:
                return record
            try:
                record = read_record(message.data)
            except ValueError:
                pass  # somebody else's message
            step = _NEXT

    async def _as_letter(self) -> JobStatus | None:
        if self._dead is None:
            return None
        md = MessageDescriptor(msg_id=self._msg_id)
        gmo = GetMessageOptions(options=_BROWSE | _FIRST, match_options=MQMO.MATCH_MSG_ID.value)
        try:
            message = await _browsed(self._dead, md, gmo)
        except MQError as error:
            if error.reason != MQRC.GET_INHIBITED:
                raise
            there = await self._connection.explain(self._dead.resolved_q_name, msg_id=self._msg_id)
            return None if Cause.NO_MESSAGE in there.codes else self._status(JobState.DEAD)
        if message is None:
            return None
        letter = read_letter(message, self._connection.q_mgr_name)
        if letter.q_name not in ("", self._q_name):
            return None
        return self._status(
            JobState.DEAD,
            since=letter.failed_at,
            attempts=letter.attempts,
            reason=letter.why,
            error=letter.failure,
        )

    def _status(
        self,
        state: JobState,
        *,
        since: float | None = None,
        until: float | None = None,
        where: str = "",
        attempts: int = 0,
        reason: str = "",
        error: str = "",
    ) -> JobStatus:
        ended = state in (JobState.DONE, JobState.DEAD)
        return JobStatus(
            state=state, queue=self._q_name, msg_id=self._msg_id, since=since, until=until, where=where,
            attempts=attempts, reason=reason, error=error, record=self._record if ended else None,
        )  # fmt: skip


def _open(options: MQOO) -> int:
    return (options | MQOO.FAIL_IF_QUIESCING).value


async def _opened(stack: AsyncExitStack, connection: Connection, q_name: str) -> Queue | None:
    """A queue to be browsed, if there is one of this name."""
    if not q_name:
        return None
    try:
        return await stack.enter_async_context(connection.open(q_name, _open(MQOO.BROWSE)))
    except MQError as error:
        if error.reason not in _ABSENT:
            raise
        return None


async def _dead_letter_q_name(connection: Connection, q_name: str) -> str:
    """The queue for what cannot be handled of a queue: its own (BOQNAME), or that of the queue manager."""
    own = await _inquired(connection, ObjectDescriptor(object_name=q_name), MQCA.BACKOUT_REQ_Q_NAME)
    return own or await _inquired(connection, ObjectDescriptor(object_type=MQOT.Q_MGR), MQCA.DEAD_LETTER_Q_NAME)


async def _inquired(connection: Connection, what: ObjectDescriptor, selector: int) -> str:
    async with connection.open(what, _open(MQOO.INQUIRE)) as object:
        return str((await object.inquire(selector))[selector]).strip()


async def _browsed(
    queue: Queue, md: MessageDescriptor, gmo: GetMessageOptions, *, delayed: bool = False
) -> Message | None:
    try:
        return await queue.get(md, gmo, max_length=0 if gmo.options & _NO_DATA == _NO_DATA else None, delayed=delayed)
    except MQError as error:
        if error.reason != MQRC.NO_MSG_AVAILABLE:
            raise
        return None
