"""Batches: many puts, or many gets, as one call.

They equal so many calls one after the other, but outside syncpoint all of one batch is one implicit unit of work: one
submission to the journal, one settlement.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.core.calls import batches as runs
from broker.core.calls.puts.distribution import DistributionList
from broker.core.calls.puts.put import Put
from broker.core.message.headers import properties
from broker.core.queues.effects import Grant
from broker.core.queues.shared_queue import SharedQueue
from broker.core.queues.shelf.views import Search
from broker.core.queues.unit import Unit
from broker.engine.calls.answers import answer_written, fail, placed
from broker.engine.calls.gets import GettingCall
from broker.engine.mistakes import mistake
from broker.engine.shared_queues import PutStep
from broker.interface.answers import GetAnswer, Placed, PlacedMany
from broker.interface.port import GET_MANY_MAX, Call, behind_stopped
from broker.mqi import checks
from broker.mqi.constants.options import MQGMO, MQPMO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from broker.core.queues.handle_position import HandlePosition
    from broker.core.queues.handles import Handle
    from broker.core.queues.queue import LocalQueue
    from broker.core.queues.shelf.selection import Request
    from broker.engine.conversation import Conversation
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor, PutMessageOptions

ANSWER_BYTES: Final = 1024 * 1024
"""The message with which an answer to a batch of gets comes to so many bytes of data is its last."""

_SYNCPOINT: Final = MQPMO.SYNCPOINT.value
_MARKING: Final = (
    MQGMO.MARK_BROWSE_HANDLE | MQGMO.MARK_BROWSE_CO_OP | MQGMO.UNMARK_BROWSE_HANDLE | MQGMO.UNMARK_BROWSE_CO_OP
).value  # fmt: skip
_ONE_MESSAGE: Final = (
    MQGMO.BROWSE_FIRST | MQGMO.BROWSE_MSG_UNDER_CURSOR | MQGMO.MSG_UNDER_CURSOR | MQGMO.LOCK | MQGMO.UNLOCK
).value  # fmt: skip


class PutManyCall(Call[PlacedMany]):
    """A batch of puts. `stopped` once one of its messages, or of those before them, could not be put."""

    stopped = False

    @property
    def failed(self) -> bool:
        """True if no later message may be put."""
        return self.stopped or (self.done() and not self.cancelled() and self.exception() is not None)


def put_many(
    conversation: Conversation,
    batch: PutManyCall,
    call: Call[PlacedMany],
    hobj: int,
    messages: Iterable[tuple[MessageDescriptor | None, bytes]],
    options: PutMessageOptions,
    after: Call[PlacedMany] | None,
) -> None:
    """Make the puts of `batch`, which are answered in `call`."""
    batch.stopped = True  # should any of this raise
    if isinstance(after, PutManyCall) and after.failed:
        raise behind_stopped()
    handle = conversation.hconn.handle(hobj)
    if isinstance(handle, DistributionList):
        raise MQError(MQRC.OPTION_NOT_VALID_FOR_TYPE, "a batch is not for distribution lists")
    route = handle.output_route()
    checks.put_options(options)
    if route.queue.shared:
        messages = _Read(messages)
        make = partial(_put_all, conversation, batch, handle, messages, options)
        conversation.context.member.puts.put(conversation, call, PutStep(make, options, handle, length=messages.length))
        return
    result, implicit = _put_all(conversation, batch, handle, messages, options)
    if implicit is None:
        call.set_result(result)
    else:
        conversation.call_order.commit(implicit, partial(answer_written, call, result, MQRC.STORAGE_MEDIUM_FULL))


def _put_all(
    conversation: Conversation,
    batch: PutManyCall,
    handle: Handle,
    messages: Iterable[tuple[MessageDescriptor | None, bytes]],
    options: PutMessageOptions,
) -> tuple[PlacedMany, Unit | None]:
    """Put the messages in the core, up to the first that fails: the answer, and the implicit unit if there is one.
    Raises why the first cannot be put.
    """
    batch.stopped = True
    hconn, core, route = conversation.hconn, conversation.core, handle.output_route()
    implicit = None if int(options.options) & _SYNCPOINT else Unit()
    moment = conversation.context.moment()
    done: list[Placed] = []
    error = None
    try:
        for md, bodies in _runs(messages):
            start = 0
            while start < len(bodies):
                unit = implicit or hconn.unit or Unit()
                put = Put(hconn, handle, route, md, options, bodies[start])
                alike = runs.put_run(core, unit, put, bodies[start:], moment.wall)
                done += [placed(entry, 0) for entry in alike]
                start += len(alike)
                if not alike:
                    entry, _, reason = core.put(put, moment, implicit)
                    done.append(placed(entry, reason))
                    start += 1
    except MQError as refused:
        if not done:
            raise
        error = refused.with_traceback(None)  # which would keep the messages alive with it
    batch.stopped = error is not None
    return PlacedMany(done, error), implicit


class _Read:
    """Messages that are read once, to be put more than once. An error of one comes each time after those before it."""

    def __init__(self, messages: Iterable[tuple[MessageDescriptor | None, bytes]]) -> None:
        self._messages: list[tuple[MessageDescriptor | None, bytes]] = []
        self._error: MQError | None = None
        try:
            self._messages.extend(messages)
        except MQError as wrong:
            self._error = wrong

    @property
    def length(self) -> int:
        """The number of bytes of their data."""
        return sum(len(data) for _, data in self._messages)

    def __iter__(self) -> Iterator[tuple[MessageDescriptor | None, bytes]]:
        yield from self._messages
        if self._error is not None:
            raise self._error


def _runs(
    messages: Iterable[tuple[MessageDescriptor | None, bytes]],
) -> Iterator[tuple[MessageDescriptor | None, list[bytes]]]:
    """The messages, those with the same descriptor that follow one another together. An error of one comes after those
    before it.
    """
    of: MessageDescriptor | None = None
    run: list[bytes] = []
    error: MQError | None = None
    try:
        for md, data in messages:
            if run and md is not of:
                yield of, run
                run = []
            of = md
            run.append(data)
    except MQError as wrong:
        error = wrong
    if run:
        yield of, run
    if error is not None:
        raise error


class GetManyCall(GettingCall[list[GetAnswer]]):
    """A batch of gets."""

    def __init__(
        self,
        conversation: Conversation,
        hobj: int,
        md: MessageDescriptor | None,
        options: GetMessageOptions,
        count: int,
    ) -> None:
        super().__init__(conversation)
        self._hobj = hobj
        self._md = md
        self._options = options
        self._count = count
        self._handle: Handle
        self._positions: list[HandlePosition] = []  # where each message of a browse left the handle

    def make(self) -> None:
        """Get what is there, or wait for the first message."""
        self._count = min(checks.count(self._count), GET_MANY_MAX)
        checks.get_options(self._options)
        if int(self._options.options) & _ONE_MESSAGE:
            raise MQError(MQRC.OPTIONS_ERROR, "these options are about one message, not for a batch of gets")
        self._handle, queue = self._conversation.hconn.queue(self._hobj)
        if queue.shared:
            assert isinstance(queue, SharedQueue)
            arguments = self._md, self._options, self._count
            self._conversation.context.member.gets.get_many(self._conversation, self, self._handle, queue, arguments)
            return
        found = self._next()
        self.form = self._conversation.form(self._md, self._options, None)
        if isinstance(found, Grant):
            self._keep(found)
            self._fill()
            self._collect()
        elif isinstance(found, Search):
            self._conversation.call_order.prepare(found.steps, self, GetManyCall.make)
        else:
            self._conversation.wait(self, self._handle, queue, found, self._options)

    @property
    def begun(self) -> bool:
        """True if it has got something."""
        return bool(self._grants)

    def keep(self, grants: Sequence[Grant]) -> None:
        """More messages for the answer."""
        if not grants[0].destructive:
            for grant in grants:
                self._keep(grant)
            return
        self._grants += grants
        self._got += [(entry, entry.unit) for grant in grants for entry in grant.entries if entry.unit is not None]

    def complete(self) -> None:
        """The answer is what has been got by now."""
        self._collect()

    def granted(self, grant: Grant) -> None:
        """The first message. What else becomes visible in the same turn of the event loop belongs to the answer."""
        self._stop_waiting()
        self._keep(grant)
        self._hold_all()
        asyncio.get_running_loop().call_soon(self._complete)

    def _answer(self) -> None:
        self.set_result(self._deliveries)

    def _keep(self, grant: Grant) -> None:
        super()._keep(grant)
        if not grant.destructive:
            self._positions.append(self._handle.position)

    def _browse_back(self, count: int) -> bool:
        """Not where later calls have moved the cursor on, nor where messages were marked."""
        if self._handle.position is not self._positions[-1] or int(self._options.options) & _MARKING:
            return False
        self._positions = self._positions[:count]
        self._handle.position = self._positions[-1]
        return True

    def _next(self) -> Grant | Request | Search:
        now = self._conversation.manager.clock.time()
        queue = self._handle.usable_queue()
        return self._conversation.core.get(self._handle, queue, self._md, self._options, None, now)

    def _complete(self) -> None:
        """The wait has ended with a first message; the settlement that brought it is over."""
        if self.done():
            return
        ended = self._conversation.call_order.ended
        if ended is not None:
            self._undo()
            fail(self, ended)
            return
        try:
            if self._handle.queue is not None and self._handle.queue.shared:
                self._look_for_more(self._handle.queue)
                return
            if self._same_unit():
                self._fill()
            self._collect()
        except Exception as wrong:
            self.spoiled(mistake(wrong, "a batch of gets"))
        self._conversation.context.perform()

    def _look_for_more(self, queue: LocalQueue) -> None:
        """The rest of the answer is on a shared queue."""
        left = self._count - len(self._grants)
        if left > 0 and self._same_unit():
            assert isinstance(queue, SharedQueue)
            arguments = self._md, self._options, left
            self._conversation.context.member.gets.get_many(self._conversation, self, self._handle, queue, arguments)
        else:
            self._collect()

    def _same_unit(self) -> bool:
        """True if more messages would still be got through the same handle, and in the unit of work of the first."""
        hconn, first = self._conversation.hconn, self._grants[0]
        if hconn.handles.get(self._hobj) is not self._handle:
            return False
        return first.unit is not None or not first.destructive or self._got[0][1] is hconn.unit

    def _fill(self) -> None:
        """Get what else is there, up to the bounds of an answer."""
        room = self._take_run(ANSWER_BYTES - self._grants[0].length)
        while len(self._grants) < self._count and room > 0:
            try:
                found = self._next()
            except MQError:
                return  # nothing there, or an error that the next call meets again
            if not isinstance(found, Grant):
                return  # or nothing that is found at once
            self._keep(found)
            room -= found.length

    def _take_run(self, room: int) -> int:
        """Get the first messages together, as far as that may be; what is left of the room."""
        handle, core, now = self._handle, self._conversation.core, self._conversation.manager.clock.time()
        left = self._count - len(self._grants)
        entries, implicit = runs.get_run(core, handle, self._md, self._options, left, room, now)
        form = properties.form_of(handle, int(self._options.options) & properties.HOWS)
        for entry in entries:
            self._keep(Grant([entry], destructive=True, unit=implicit, form=form))
            implicit = None  # one grant stands for all that is in it
        return room - sum(entry.length for entry in entries)
