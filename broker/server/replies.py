"""The output of a line: frames, and the outcomes of calls, gathered and written together.

What is answered when a call is made is written when all bytes that came with it are handled; what the journal settles
is written when it has settled all that became durable together; the other replies of one turn of the event loop leave
in one write in the next. While the client does not read what is written to it, its replies wait as the futures that
they are; after `send_timeout` seconds the line is cut.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from broker.clock import cancel_timer
from broker.engine.mistakes import mistake
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.server.request import LONG_ANSWERS, PendingCall, answer_weight, script_of
from broker.wire import answers
from broker.wire.frames import Verb
from broker.wire.verbs import BY_VERB

if TYPE_CHECKING:
    from broker.clock import Timer
    from broker.interface.port import Call
    from broker.server.session import Session

logger = logging.getLogger(__name__)

_WRITE_BYTES: Final = 256 * 1024  # what one write holds at most, but for a longer frame
_WRITE_SECONDS: Final = 0.005  # between two writes while frames are handled in slices
_ANSWER: Final = Verb.ANSWER.value
_MQSC: Final = Verb.MQSC.value


class Replies:
    """The replies of one line. `due` is true when they are about to be written, `writable` while the client reads."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._clock = session.manager.clock
        self._server = session.server
        self._endpoint = session.endpoint
        self._flow = session.flow
        self._afterwards = session.manager.afterwards
        self.due = False
        self.writable = True
        self.parts: list[bytes] = []
        """Frames to write."""
        self.to_answer: deque[PendingCall] = deque()
        """Calls to answer after them."""
        self._written = 0  # the weight of those answered in this write
        self.streams: dict[PendingCall, None] = {}
        """Calls with command replies to write."""
        self._send_timer: Timer | None = None

    def pause(self) -> None:
        """The client does not read: write no more."""
        self.writable = False
        self._send_timer = self._clock.call_later(self._server.limits.send_timeout, self._unread)

    def resume(self) -> None:
        """It reads again."""
        self.writable = True
        cancel_timer(self._send_timer)
        self.flush()

    def flush_all(self) -> None:
        """Write all replies that are there, as far as the client reads them."""
        self.flush()
        while self.writable and self.to_answer and not self._session.transport.is_closing():
            self.flush()

    def drop(self) -> None:
        """The line ends: nothing more is answered."""
        self.to_answer.clear()
        self.streams.clear()

    def end(self) -> None:
        """The line is gone."""
        cancel_timer(self._send_timer)

    def _unread(self) -> None:
        limit = self._server.limits.send_timeout
        self._session.log_dropped(f"answers not read within [limits] send_timeout = {limit:g} s")
        self._session.transport.abort()

    def finished(self, request: PendingCall) -> None:
        """The outcome of a call is there."""
        if request.answered or self._flow.ended:
            return
        if request.verb in LONG_ANSWERS:
            self._weigh_answer(request)
        self.to_answer.append(request)
        if not self.due:
            self._schedule()

    def _weigh_answer(self, request: PendingCall) -> None:
        """From now on the line holds the answer of this call, and not its arguments."""
        call = request.call
        before = request.weight + call.held
        if request.waits:
            request.waits = False
            self._flow.waited_with(request.weight)
            before = call.held
        request.weight = request.answer = answer_weight(request.verb, call)
        self._flow.answers += request.answer - call.held
        call.held = 0
        self._flow.add(request.weight - before)

    def parted(self, request: PendingCall) -> None:
        """There are command replies to write."""
        self.streams[request] = None
        self._schedule()

    def send(self, *frame: object) -> None:
        self.parts.append(self._endpoint.send(*frame))
        self._schedule()

    def _schedule(self) -> None:
        if not self.due:
            self.due = True
            if self._flow.handling:  # and writes what is answered when it is through
                self._clock.call_later(_WRITE_SECONDS, self.flush)
            else:
                self._afterwards.leave(self.flush)

    def flush(self) -> None:
        """Write replies that are due, as far as the client reads them."""
        self.due = False
        if self._flow.ended:
            return
        try:
            self._write()
        except Exception as error:
            failure = mistake(error, f"the line of {self._session.peer}")
            self._session.hang_up(self._endpoint.send(Verb.REFUSED, 0, 0, failure.reason, failure.detail))
            return
        if not self._flow.handling and (not self._session.intake.reading or self._flow.held_back):
            self._session.intake.go_on()

    def _write(self) -> None:
        """One write; what is left is due in the next turn of the event loop."""
        if not self.writable or self._session.transport.is_closing():
            return
        parts, self.parts = self.parts, []
        size = sum(map(len, parts))
        finished = self.to_answer
        while finished and size < _WRITE_BYTES:
            request = finished.popleft()
            if not request.answered:
                parts.append(self._answer(request))
                size += len(parts[-1])
        while self.streams and size < _WRITE_BYTES:
            request = next(iter(self.streams))
            del self.streams[request]
            if not request.answered:
                parts.append(self._replies(request))
                size += len(parts[-1])
        if parts:
            if self._session.recorded:
                logger.debug("frames written peer=%s frames=%d bytes=%d", self._session.peer, len(parts), size)
            self._session.liveness.said = True
            self._session.transport.write(b"".join(parts))
        written, self._written = self._written, 0
        if written:
            self._flow.add(-written)
        if finished or self.streams:
            self._schedule()

    def _replies(self, request: PendingCall) -> bytes:
        """The command replies that have come so far."""
        script = script_of(request.call)
        assert script is not None
        return self._endpoint.send(
            Verb.REPLIES, request.conversation, request.number, *answers.reply_parts(script.read())
        )

    def _answer(self, request: PendingCall) -> bytes:
        """The final frame of a call, which is answered now."""
        request.answered = True
        self._written += request.weight
        self._flow.answers -= request.answer
        call = request.call
        verb = request.verb
        if call.cancelled() or call.exception() is not None:
            return self._failed(request)
        try:
            fields = BY_VERB[verb].result.items(call.result()) if verb != _MQSC else _replies_left(call)
            reply = self._endpoint.send(_ANSWER, request.conversation, request.number, *fields)
        except (TypeError, ValueError, OverflowError):
            logger.exception(
                "the answer to %s has no form in msgpack", Verb(verb).name, extra={"event": "answer_not_sent"}
            )
            return self._withdrawn(request, MQError(MQRC.UNEXPECTED_ERROR, "the answer cannot be sent"))
        if len(reply) > self._session.peer_frame_bytes + 4:
            text = f"the answer of {len(reply)} bytes is over the client's limit of {self._session.peer_frame_bytes}"
            return self._withdrawn(request, MQError(MQRC.DATA_LENGTH_ERROR, text))
        self._session.calls.answered(request)
        return reply

    def _withdrawn(self, request: PendingCall, error: MQError) -> bytes:
        """FAILED for an answer that is there and cannot be sent: what it holds goes back."""
        self._session.calls.failed(request)
        request.call.abandon()
        return self._endpoint.send(Verb.FAILED, request.conversation, request.number, *answers.error_fields(error))

    def _failed(self, request: PendingCall) -> bytes:
        """FAILED, and ENDED after it where the error was the end of the conversation."""
        self._session.calls.failed(request)
        error = request.error()
        reply = self._endpoint.send(Verb.FAILED, request.conversation, request.number, *answers.error_fields(error))
        if self._session.calls.ended(request):
            reply += self._endpoint.send(Verb.ENDED, request.conversation, 0, error.reason, error.detail)
        return reply


def _replies_left(call: Call[Any]) -> tuple[Any, ...]:
    """The command replies that go with the ANSWER to a MQSC."""
    script = script_of(call)
    return BY_VERB[_MQSC].result.items(call.result()) if script is None else answers.reply_parts(script.read())
