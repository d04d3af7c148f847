"""A session: the queue manager's end of one line, with the conversations on it.

Bytes become frames, frames become calls on ports, the outcome of a call becomes its final frame. There is no task here:
a call is a future.

1. What answered a GET, GET_MANY or TAKE is taken when the client says TAKEN. CANCEL gives it back, or withdraws the
   get, whether it waits, is being written or has been answered. An answer to any other call counts as taken when it is
   written.
2. When the line breaks, what was not answered is abandoned and every conversation is broken: the queue manager backs
   out its unit of work. A get that was answered and not confirmed counts as delivered: under syncpoint it is backed out
   with its unit, outside syncpoint it is delivered at most once (journal rule 11). Deliveries that answered a TAKE are
   in the hands of who is gone.
3. What a client can make the session hold is bounded (`flow`), and so is the time for which its frames hold the event
   loop.

What comes in is in `intake`, the calls under way in `served_calls`, what goes out in `replies`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, cast
from uuid import uuid4

from broker.clock import cancel_timer
from broker.engine.mistakes import mistake
from broker.mqi.reasons import MQRC
from broker.server.flow import Flow
from broker.server.intake import Intake
from broker.server.replies import Replies
from broker.server.security.lines import UNKNOWN_LINE
from broker.server.security.logins import Logins
from broker.server.served_calls import ServedCalls
from broker.wire import frames
from broker.wire.frames import Frame, Verb, WireError
from broker.wire.liveness import TICKS_AN_INTERVAL, Beat, Liveness
from broker.wire.protocol import Endpoint, Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.clock import Timer
    from broker.server.security.lines import LineSecurity
    from broker.server.security.newcomer import Newcomer
    from broker.server.server import Server

logger = logging.getLogger(__name__)

HANDSHAKE_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 5.0
"""The time that a client has for its first frame, and for reading the last."""

_UNSENT_BYTES: Final = 1024 * 1024  # what waits in the transport before the client counts as not reading
_HEARTBEAT_MS_MIN: Final = 1000


class _ClosedTransport(asyncio.Transport):
    """The transport of a line that has ended."""

    def is_closing(self) -> bool:
        return True

    def abort(self) -> None:
        pass


_CLOSED: Final = _ClosedTransport()


class Session(asyncio.Protocol):
    """One line. Made by the server for each socket that it accepts."""

    transport: asyncio.Transport
    line: LineSecurity = UNKNOWN_LINE
    """The facts about the line itself: address, protocol, certificate."""
    newcomer: Newcomer | None = None
    """The line as it was before its login, where it has to log in."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.manager = server.manager
        self._frame_bytes = server.limits.frame_bytes  # which it keeps: the client has been told it
        self.endpoint = Endpoint(Role.SERVER, self._frame_bytes)
        self.peer = ""
        self.process = f"line {uuid4()}"  # whose connections are all of one program
        self.peer_frame_bytes = 0
        self.recorded = False  # its frames are logged: looked up once for all that comes in together
        self.liveness = Liveness()
        self.flow = Flow(server.limits.in_flight_bytes, server.reserve, self._go_on)
        self.intake = Intake(self)
        self.channel_lines = server.channel_lines
        self.logins = Logins(self)
        self.calls = ServedCalls(self)
        self.replies = Replies(self)
        self._timer: Timer | None = None
        self.others: dict[int, Callable[[Frame], None]] = {
            Verb.HELLO: self._hello,
            Verb.HEARTBEAT: lambda frame: None,
            Verb.CONNECT: self.calls.connect,
            Verb.DELIVERY_CONNECT: self.calls.delivery_connect,
            Verb.TRIGGER_DONE: self.calls.trigger_done,
            Verb.TRIGGER_RETURN: self.calls.trigger_return,
            Verb.GIVE_BACK: self.calls.give_back,
            Verb.TAKEN: self.calls.taken,
            Verb.CANCEL: self.calls.cancel,
        }

    # The socket.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)  # which uvloop's are not, but by what they do
        self.transport = transport
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "local"
        transport.set_write_buffer_limits(high=_UNSENT_BYTES)
        self._watch(HANDSHAKE_SECONDS, self._no_handshake)
        if not self.server.admit(self):
            most = self.server.limits.connections
            self.close(MQRC.MAX_CONNS_LIMIT_REACHED, f"the queue manager has {most} lines already")

    def data_received(self, data: bytes) -> None:
        self.liveness.heard = True
        if not self.transport.is_closing():
            self.intake.feed(data)

    def pause_writing(self) -> None:
        self.replies.pause()
        self.intake.regulate()

    def resume_writing(self) -> None:
        self.replies.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        cancel_timer(self._timer)
        self.intake.end()
        self.replies.end()
        self.logins.end()
        self._break()
        self.server.forget(self)
        self._let_go()

    def _let_go(self) -> None:
        """Refer to nothing that refers to this session: so all of it goes with the last call that is under way, and not
        when the collector comes. What is called late finds that the flow has ended, and the transport is closing.
        """
        self.transport = _CLOSED
        self.newcomer = None
        self.others.clear()
        del self.intake, self.logins, self.calls, self.replies

    def close(self, reason: MQRC, text: str) -> None:
        """End the line: break its conversations, tell the client why, hang up. Harmless when it is closing."""
        if self.flow.ended:
            return
        self.replies.flush_all()
        if not self.transport.is_closing():
            self.hang_up(self.endpoint.send(Verb.REFUSED, 0, 0, reason.value, text))

    def close_when_answered(self, reason: MQRC, text: str) -> None:
        """End the line, behind the scripts of commands that it runs. Harmless when it has ended."""
        if self.flow.ended:
            return
        scripts = self.calls.scripts()
        for script in scripts[:1]:
            script.add_done_callback(lambda _: self.close_when_answered(reason, text))
        if not scripts:
            self.close(reason, text)

    def limit_rate(self) -> None:
        """Take over the limits of its user, on how many calls and bytes it sends a second."""
        proof = self.logins.proof
        self.intake.rate = None if proof is None else self.manager.authentication.rate_of(proof)

    def log_refused(self, why: str) -> None:
        """Log why the line is refused for what has come, unless its address has had its lines of this second."""
        if self.manager.authentication.log.allows("line refused", self.line.address):
            logger.warning("line refused peer=%s: %s", self.peer, why)

    def log_dropped(self, why: str) -> None:
        """Log why the line is dropped for what has not come, unless its address has had its lines of this second."""
        if self.manager.authentication.log.allows("line dropped", self.line.address):
            logger.warning("line dropped peer=%s: %s", self.peer, why)

    def abort(self) -> None:
        """Cut the line."""
        self.transport.abort()

    def hang_up(self, last: bytes) -> None:
        """End the line with these bytes."""
        self.logins.end()
        self._break()
        self.transport.write(last)
        self.transport.close()
        self._watch(CLOSE_SECONDS, self.transport.abort)

    def _break(self) -> None:
        """In slices: there may be very many calls."""
        self.replies.drop()
        self.endpoint.let_go()
        self.flow.end()
        self.manager.slices.start(self.calls.end(), _broken)

    def _go_on(self) -> None:
        self.intake.go_on()

    # Life and death.

    def _hello(self, frame: Frame) -> None:
        wanted = frames.hello(frame)
        if wanted.product != frames.PRODUCT:
            raise WireError(f"{wanted.product!r} is not {frames.PRODUCT}")
        version = min(wanted.highest, frames.VERSION)
        if version < max(wanted.lowest, frames.VERSION):
            text = f"the client speaks versions {wanted.lowest} to {wanted.highest} of the protocol, the queue manager "
            self.close(MQRC.CHANNEL_CONFIG_ERROR, f"{text}{frames.VERSION}")
            return
        longest = min(self.server.heartbeat, self.channel_lines.heartbeat)
        heartbeat = min(max(wanted.heartbeat, _HEARTBEAT_MS_MIN), round(longest * 1000))
        self.peer_frame_bytes = wanted.frame_bytes
        self.flow.frame_bytes = wanted.frame_bytes - frames.HEAD_BYTES
        self.replies.send(
            Verb.WELCOME, 0, 0,
            frames.PRODUCT, version, self.manager.name, heartbeat, self._frame_bytes,
        )  # fmt: skip
        self._beat_seconds = heartbeat / 1000 / TICKS_AN_INTERVAL
        self._watch(self._beat_seconds, self._beat)

    def _no_handshake(self) -> None:
        self.log_dropped(f"no handshake within {HANDSHAKE_SECONDS} s")
        self.transport.abort()

    def _beat(self) -> None:
        if not self.intake.reading:
            self.liveness.heard = True  # what the client says stays in the socket meanwhile
        match self.liveness.tick():
            case Beat.DROP:
                self.log_dropped("silent for over two heartbeats")
                self.transport.abort()
                return
            case Beat.SEND:
                self.replies.send(Verb.HEARTBEAT, 0, 0)
        self._watch(self._beat_seconds, self._beat)

    def _watch(self, delay: float, callback: Callable[[], None]) -> None:
        """Run `callback` in `delay` seconds instead of what was to be run."""
        cancel_timer(self._timer)
        self._timer = self.manager.clock.call_later(delay, callback)


def _broken(error: Exception | None) -> None:
    if error is not None:
        mistake(error, "the end of a line")
