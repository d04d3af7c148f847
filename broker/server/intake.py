"""The input of a line: bytes, cut into frames, which are handled as fast as there is room for their effects.

Frames are handled in slices: however many came at once, the event loop is not held for them. Where there is no room
(`flow`), or the user has sent what it may in a second (`rate`), frames that have come in are not handled and no more
are read. A client has `frame_timeout` seconds to send a frame that it has begun.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from broker.clock import cancel_timer
from broker.engine.jobs.slices import SLICE_SECONDS
from broker.engine.mistakes import mistake
from broker.mqi.reasons import MQRC
from broker.server.flow import FREE_BYTES
from broker.wire.frames import Frame, Verb, WireError
from broker.wire.verbs import STARTED

if TYPE_CHECKING:
    from broker.clock import Timer
    from broker.engine.jobs.slices import Work
    from broker.engine.security.rates import UserRate
    from broker.server.session import Session

logger = logging.getLogger(__name__)

_FRAMES_AT_ONCE: Final = 256
_FRAMES_A_STEP: Final = 8  # of small calls: so many are handled between two looks at the clock
_SMALL_BYTES: Final = 4096
_QUICK: Final = frozenset({Verb.PUT.value, Verb.PUT1.value, Verb.GET.value, Verb.TAKEN.value})


class Intake:
    """The frames that come in. `reading`: the socket is read."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._clock = session.manager.clock
        self._server = session.server
        self._endpoint = session.endpoint
        self._flow = session.flow
        self.reading = True
        self._admitted = False  # the frame that is coming in may come
        self._frame_is_new = False  # it has come since, and another has begun
        self._frame_timer: Timer | None = None
        self.rate: UserRate | None = None
        """The rate of its user, who may send only so much a second."""
        self._bytes = 0  # that have come since it was asked last
        self._hold: Timer | None = None  # while nothing is read or handled because of it

    def feed(self, data: bytes) -> None:
        """These bytes have come."""
        if self._endpoint.unread:
            self._endpoint.feed(data)
        else:
            self._endpoint.unread = data
        if self.rate is not None:
            self._bytes += len(data)
        if self._flow.handling or self._hold is not None:
            return
        if self._flow.weight > FREE_BYTES and self._flow.full:
            self.regulate()
        else:
            self._handle()

    def end(self) -> None:
        """The line is gone."""
        cancel_timer(self._frame_timer)
        cancel_timer(self._hold)

    def _handle(self) -> None:
        """Handle frames that are here, for the time of a slice now, and write what is answered by then."""
        replies = self._session.replies
        replies.due = True
        most = _FRAMES_AT_ONCE if self.rate is None else _FRAMES_A_STEP
        if self._handle_some(most, self._clock.monotonic() + SLICE_SECONDS):
            self._flow.handling = True
            self._session.manager.slices.run(self._rest(), self._rest_handled)
            self.regulate()
        elif self._admitted or self._endpoint.unread or self._flow.weight > FREE_BYTES:
            self._handled()
        replies.due = False
        if replies.to_answer or replies.parts or replies.streams or not self.reading or self._flow.held_back:
            replies.flush()

    def _rest(self) -> Work:
        while self._handle_some(_FRAMES_A_STEP, 0.0):
            yield

    def _handle_some(self, most: int, until: float) -> bool:
        """Handle up to so many frames, until this time. True if others are to follow later."""
        flow, endpoint, transport = self._flow, self._endpoint, self._session.transport
        if flow.ended or self._hold is not None:
            return False
        start, others = self._session.calls.start, self._session.others
        calls = 0
        recorded = self._session.recorded = logger.isEnabledFor(logging.DEBUG)
        try:
            while endpoint.unread and (frame := endpoint.next()) is not None:
                self._frame_is_new = True
                verb = frame[0]
                if recorded:
                    self._record(frame)
                if verb in STARTED:
                    start(frame)
                    calls += 1
                else:
                    others[verb](frame)
                if transport.is_closing() or (flow.weight > FREE_BYTES and flow.full):
                    return False
                most -= 1
                if most % _FRAMES_A_STEP and verb in _QUICK and endpoint.length <= _SMALL_BYTES:
                    continue
                if most == 0 or self._clock.monotonic() >= until:
                    return True
        except WireError as error:
            self._refuse(error)
        except Exception as error:
            failure = mistake(error, f"the line of {self._session.peer}")
            self._session.close(MQRC.UNEXPECTED_ERROR, failure.detail)
        finally:
            if self.rate is not None:
                self._count(self.rate, calls)
        return False

    def _count(self, rate: UserRate, calls: int) -> None:
        """A slice has brought so many calls of a user who may make only so many: hold the line until they are paid."""
        size, self._bytes = self._bytes, 0
        delay = rate.take(calls, size, self._clock.monotonic())
        if delay > 0 and not self._session.transport.is_closing():
            self._hold = self._clock.call_later(delay, self._let_go)

    def _let_go(self) -> None:
        self._hold = None
        if self._session.transport.is_closing() or self._flow.handling:
            return
        if self._endpoint.unread and not self._flow.full:
            self._handle()
        self.regulate()

    def _record(self, frame: Frame) -> None:
        verb, conversation, number = Verb(frame[0]).name, frame[1], frame[2]
        logger.debug(
            "frame received peer=%s verb=%s conversation=%d call=%d bytes=%d",
            self._session.peer, verb, conversation, number, self._endpoint.length,
        )  # fmt: skip

    def _rest_handled(self, _: Exception | None) -> None:
        if self._flow.ended:
            return
        self._handled()
        if self._session.replies.due:
            self._session.replies.flush()

    def _handled(self) -> None:
        """All frames are handled, or what they have led to must go first."""
        self._flow.handling = False
        if self._admitted and self._frame_is_new:
            self._admitted = False
            self._flow.arrived()
            cancel_timer(self._frame_timer)
        self.regulate()

    def _refuse(self, error: WireError) -> None:
        self._session.log_refused(str(error))
        if error.answer is None:
            self._session.close(MQRC.CONNECTION_BROKEN, str(error))
        else:
            self._session.hang_up(error.answer)

    def go_on(self) -> None:
        """There is room again, or may be."""
        if self._session.transport.is_closing() or self._flow.handling:
            return
        self._flow.wake()
        if self._hold is not None:
            return
        if self._endpoint.wanted and self._endpoint.wanted <= self._endpoint.kept and not self._flow.full:
            self._handle()
        else:
            self.regulate()

    def regulate(self) -> None:
        """Read, or pause reading."""
        if self._session.transport.is_closing():
            return
        reads = self._session.replies.writable and not self._flow.handling and self._hold is None
        if reads and not self._admitted:
            reads = not self._flow.full and self._next_may_come()
        if reads != self.reading:
            self.reading = reads
            if reads:
                if self._admitted:
                    self._expect_the_rest()
                self._session.transport.resume_reading()
            else:
                self._session.transport.pause_reading()

    def _next_may_come(self) -> bool:
        """True if there is room for the frame that has begun, if one has. From then on its time runs."""
        wanted = self._endpoint.wanted
        if not wanted:
            return True
        if wanted <= self._endpoint.kept:
            return False  # it is here, and waits to be handled
        self._admitted = self._flow.admit(wanted)
        self._frame_is_new = False
        if self._admitted:
            self._expect_the_rest()
        return self._admitted

    def _expect_the_rest(self) -> None:
        cancel_timer(self._frame_timer)
        self._frame_timer = self._clock.call_later(self._server.limits.frame_timeout, self._unfinished)

    def _unfinished(self) -> None:
        if not self._admitted or not self.reading:
            return  # it has come, or it is we who do not read
        seconds = self._server.limits.frame_timeout
        text = f"a frame was begun and not finished within [limits] frame_timeout = {seconds:g} s"
        self._session.log_refused(text)
        self._session.close(MQRC.CONNECTION_BROKEN, text)
