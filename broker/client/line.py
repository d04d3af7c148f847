"""The client's end of a line: one socket, shared by the conversations of a program.

The frames of one turn of the event loop leave in one write. Calls are plain methods and are accepted whatever the
socket does; while it takes no more, their frames wait here, at most one for each call that has no answer. A program
that awaits what it puts is thereby slowed down to what the queue manager reads; one that does not bounds the calls it
has open.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from broker.client.calls import (
    RemoteCall,
    RemoteConnect,
    RemoteDeliveryConnect,
    RemoteDisconnect,
    RemoteFurtherConnect,
    RemoteScript,
)
from broker.client.port import RemotePort
from broker.clock import cancel_timer
from broker.interface.portal import check_loop, running_loop
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.security_parameters import NO_SECURITY_PARAMETERS
from broker.wire import answers, frames
from broker.wire.frames import HEARTBEAT_SECONDS, Frame, Verb, WireError
from broker.wire.liveness import TICKS_AN_INTERVAL, Beat, Liveness
from broker.wire.protocol import Endpoint, Role
from broker.wire.structures import sendable
from broker.wire.verbs import BY_VERB

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from broker.client.identity import ClientIdentity
    from broker.client.line_pool import LinePool
    from broker.client.renewal import Renewal
    from broker.clock import Clock, Timer
    from broker.interface.port import Call

_CONNECT: Final = BY_VERB[Verb.CONNECT]

C = TypeVar("C", bound=RemoteCall[Any])

HANDSHAKE_SECONDS: Final = 10.0
"""The time that a queue manager has for its first frame."""


class Line(asyncio.Protocol):
    """One socket to a queue manager at `where`, a text for people, for a client with this identity.

    `welcomed` ends when the handshake is done, or with MQError: Q_MGR_NOT_AVAILABLE (2059), or what the queue manager
    refused the line with. When the line breaks, all calls end with CONNECTION_BROKEN (2009).
    """

    security = NO_SECURITY_PARAMETERS
    """The security parameters of the next CONNECT. Those behind it are of the same user, without a secret."""

    dial_another: Callable[[], Coroutine[Any, Any, Line]] | None = None
    """Dials another line to the same queue manager, as the same client."""

    pool: LinePool | None = None
    """This line, with those that were dialled because it took no more conversations."""

    full = False
    """True if it took no more conversations when one was asked for, until one of them ends."""

    def __init__(self, clock: Clock, where: str, identity: ClientIdentity | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.welcomed: asyncio.Future[None] = self.loop.create_future()
        self.broken = False
        self.clock = clock
        self.where = where
        self._identity = identity
        self._renewal: Renewal | None = None
        self._why = ""
        self._endpoint = Endpoint(Role.CLIENT)
        self.frame_bytes = 0  # the longest frame that the queue manager accepts
        self._transport: asyncio.Transport | None = None
        self._calls: dict[int, RemoteCall[Any]] = {}
        self._ports: dict[int, RemotePort] = {}
        self._last_call = 0
        self._last_conversation = 0
        self._parts: list[bytes] = []  # frames to write
        self._taken: list[int] = []  # GETs to name in a TAKEN before them
        self._writable = True
        self._liveness = Liveness()
        self._beat_seconds = HEARTBEAT_SECONDS / TICKS_AN_INTERVAL
        self._timer: Timer | None = None
        self._listeners: dict[int, Callable[[Frame], None]] = {
            Verb.ANSWER: self._answered,
            Verb.FAILED: self._failed,
            Verb.REPLIES: self._replies,
            Verb.CANCELLED: self._cancelled,
            Verb.ENDED: self._ended,
            Verb.HEARTBEAT: lambda frame: None,
            Verb.WELCOME: self._welcome,
            Verb.REFUSED: self._refused,
        }

    # The socket.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)  # which uvloop's are not, but by what they do
        self._transport = transport
        self._watch(HANDSHAKE_SECONDS, self._no_handshake)
        hello = (frames.PRODUCT, frames.VERSION, frames.VERSION, round(HEARTBEAT_SECONDS * 1000), frames.FRAME_BYTES)
        transport.write(self._endpoint.send(Verb.HELLO, 0, 0, *hello))

    def data_received(self, data: bytes) -> None:
        self._liveness.heard = True
        try:
            for frame in self._endpoint.receive(data):
                if not self.broken:
                    self._listeners[frame[0]](frame)
        except WireError as error:
            self.abort(f"the queue manager broke the protocol: {error}")

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lose(MQRC.CONNECTION_BROKEN, str(exc) if exc else "the queue manager has hung up")

    def abort(self, why: str) -> None:
        """Break the line. Harmless when it is broken or was never made."""
        if self._transport is not None:
            self._transport.abort()
        self.lose(MQRC.CONNECTION_BROKEN, why)

    def _close(self) -> None:
        """Hang up, when what has been said is written."""
        self._writable = True
        self._flush()
        if self._transport is not None:
            self._transport.close()
        self.lose(MQRC.CONNECTION_BROKEN, "the last connection on it has ended")

    def _hang_up(self) -> None:
        """Close the socket: nothing that was said is under way any more."""
        if self._transport is not None and not self._transport.is_closing():  # asyncio's with TLS is not closed twice
            self._transport.close()

    def lose(self, reason: int, why: str) -> None:
        """The line is gone: its calls end, and whoever waits for its handshake hears of this reason."""
        if self.broken:
            return
        self.broken = True
        self._why = why
        cancel_timer(self._timer)
        if self._renewal is not None:
            self._renewal.end()
        if not self.welcomed.done():
            error = MQError(reason, f"{self.where}: {why}")
            if reason == MQRC.CONNECTION_BROKEN:
                asked = f"{error.detail}; is that the port of a queue manager?"
                error = MQError(MQRC.Q_MGR_NOT_AVAILABLE, asked)
            self.welcomed.set_exception(error)
        calls, self._calls = self._calls, {}
        reported = {call.port for call in calls.values() if call.of_unit}
        for call in calls.values():
            call.port.end_reported = True
            call.failed(MQError(reason, f"the line to {self.where} is broken: {why}"))
        for port in list(self._ports.values()):
            if port.lost is not None:
                port.lost(port in reported, MQError(reason, why))

    # Life and death.

    def _welcome(self, frame: Frame) -> None:
        welcome = frames.welcome(frame)
        if welcome.product != frames.PRODUCT or welcome.version != frames.VERSION or welcome.heartbeat < 1:
            raise WireError(f"{welcome.product} {welcome.version} is not {frames.PRODUCT} {frames.VERSION}")
        self.frame_bytes = welcome.frame_bytes
        self._beat_seconds = welcome.heartbeat / 1000 / TICKS_AN_INTERVAL
        self._watch(self._beat_seconds, self._beat)
        if not self.welcomed.done():
            self.welcomed.set_result(None)

    def _refused(self, frame: Frame) -> None:
        refused = frames.refused(frame)
        self._hang_up()
        self.lose(refused.reason, refused.text)

    def _no_handshake(self) -> None:
        self.abort(f"no queue manager there has answered within {HANDSHAKE_SECONDS:g} s")

    def _beat(self) -> None:
        match self._liveness.tick():
            case Beat.DROP:
                self.abort("nothing was heard of the queue manager for over two heartbeats")
                return
            case Beat.SEND:
                self._say(Verb.HEARTBEAT, 0, 0)
        self._watch(self._beat_seconds, self._beat)

    def _watch(self, delay: float, callback: Callable[[], None]) -> None:
        """Run `callback` in `delay` seconds instead of what was to be run."""
        cancel_timer(self._timer)
        self._timer = self.clock.call_later(delay, callback)

    # What ports and calls say.

    def request(self, kind: type[C], port: RemotePort, verb: int, *fields: object) -> C:
        """Make a call of this kind. A line that cannot carry it answers it at once, with MQError. Raises RuntimeError
        for a call of another event loop.
        """
        if (running := running_loop()) is not self.loop:
            check_loop(self.loop, running, f"the line to {self.where}")
        self._last_call = number = self._last_call + 1
        call = kind(self, verb, number, port)
        if port.ended:
            call.failed(port.end_error())
            return call
        if self.broken or self._endpoint.ended:
            port.end_reported = True
            call.failed(MQError(MQRC.CONNECTION_BROKEN, f"the line to {self.where} is broken: {self._why}"))
            return call
        frame = self._endpoint.send(verb, port.conversation, number, *fields)
        if len(frame) > self.frame_bytes + 4:
            text = f"a call of {len(frame)} bytes is over the queue manager's limit of {self.frame_bytes}"
            call.failed(MQError(MQRC.DATA_LENGTH_ERROR, text))
            return call
        self._calls[number] = call
        if not (self._parts or self._taken):
            self.loop.call_soon(self._flush)
        self._parts.append(frame)
        return call

    def converse(self, q_mgr_name: str, appl_name: str, user: str) -> RemoteConnect:
        """Open another conversation. Where the line takes no more of them, it is opened on another one, which is
        dialled if need be.
        """
        return self._converse(RemoteFurtherConnect if self._ports else RemoteConnect, q_mgr_name, appl_name, user)

    def converse_here(self, q_mgr_name: str, appl_name: str, user: str) -> RemoteConnect:
        """Open another conversation on this line. Fails with MAX_CONNS_LIMIT_REACHED (2025) where it takes no more."""
        return self._converse(RemoteConnect, q_mgr_name, appl_name, user)

    def _converse(self, kind: type[RemoteConnect], q_mgr_name: str, appl_name: str, user: str) -> RemoteConnect:
        port = self._another(appl_name, user)
        port.q_mgr_name = q_mgr_name
        security, self.security = self.security, NO_SECURITY_PARAMETERS
        items = _CONNECT.items((q_mgr_name, appl_name, user, security))
        return self.request(kind, port, Verb.CONNECT, *items)

    def make_elsewhere(self, call: RemoteFurtherConnect) -> None:
        """The line takes no more conversations: make this call on another one."""
        if self.pool is None:
            from broker.client.line_pool import LinePool

            self.pool = LinePool(self)
        self.full = True
        self.pool.connect(call)

    def expires(self, seconds_left: float) -> None:
        """See to a fresh proof of the user before this one ends, if one can be had."""
        if seconds_left < inf and self._identity is not None and self._identity.renewable and self._renewal is None:
            from broker.client.renewal import Renewal

            self._renewal = Renewal(self, self._identity, self.clock, seconds_left)

    def authenticate(self, kind: int, secret: bytes) -> Call[float]:
        """Prove the user of the line once more. Any conversation can do so."""
        return next(iter(self._ports.values())).authenticate(kind, secret)

    def converse_for(self, taker: RemotePort, delivery: int, appl_name: str) -> RemoteDeliveryConnect:
        """Open that of a delivery which the conversation of `taker` has taken."""
        if taker.ended:
            return self.request(RemoteDeliveryConnect, taker, Verb.DELIVERY_CONNECT)  # which fails
        port = self._another(appl_name, taker.user)
        port.q_mgr_name = taker.q_mgr_name
        items = taker.conversation, sendable(delivery), sendable(appl_name)
        return self.request(RemoteDeliveryConnect, port, Verb.DELIVERY_CONNECT, *items)

    def _another(self, appl_name: str, user: str) -> RemotePort:
        self._last_conversation += 1
        port = self._ports[self._last_conversation] = RemotePort(self, self._last_conversation, appl_name, user)
        return port

    def tell(self, port: RemotePort, verb: Verb, *items: object) -> None:
        """Say what needs no answer."""
        if not port.broken:
            self._say(verb, port.conversation, 0, *items)

    def taken(self, number: int) -> None:
        """The message that this GET was answered with has reached the program."""
        if not self.broken:
            if not (self._parts or self._taken):
                self.loop.call_soon(self._flush)
            self._taken.append(number)

    def cancel(self, call: RemoteCall[Any]) -> None:
        """The program has gone away from this call."""
        if not self.broken:
            self._say(Verb.CANCEL, call.port.conversation, call.number)

    def ended(self, port: RemotePort) -> None:
        """A conversation is over; with the last one goes the line."""
        self._ports.pop(port.conversation, None)
        self.full = False
        if not self._ports and not self.broken:
            self._close()
            self._hang_up()

    def leave(self, port: RemotePort) -> None:
        """Nobody waits for the answer to this conversation's DISCONNECT: if it is the last one, nor does the line."""
        if not self.broken and all(each is port for each in self._ports.values()):
            self._close()

    def _say(self, *frame: object) -> None:
        if self._endpoint.ended:  # by the last frame of the bytes that are being handled now
            return
        said = self._endpoint.send(*frame)
        if not (self._parts or self._taken):
            self.loop.call_soon(self._flush)
        self._parts.append(said)

    def _flush(self) -> None:
        """Write what is to be said, in one piece."""
        assert self._transport is not None
        if not (self._parts or self._taken) or not self._writable or self._transport.is_closing():
            return
        parts, self._parts = self._parts, []
        if self._taken:
            taken, self._taken = self._taken, []
            parts[:0] = [
                self._endpoint.send(Verb.TAKEN, 0, 0, taken[start : start + frames.IDS_MAX])
                for start in range(0, len(taken), frames.IDS_MAX)
            ]
        self._liveness.said = True
        self._transport.write(b"".join(parts))

    # What the queue manager says.

    def _call(self, number: int) -> RemoteCall[Any]:
        call = self._calls.get(number)
        if call is None:
            raise WireError(f"a final frame for call {number}, which has none to come")
        return call

    def _answered(self, frame: Frame) -> None:
        call = self._calls.get(frame[2]) or self._call(frame[2])
        result = call.result_of(frame)  # where it makes no sense, the call ends with the line
        del self._calls[frame[2]]
        call.answered(result)

    def _replies(self, frame: Frame) -> None:
        call = self._call(frame[2])
        if not isinstance(call, RemoteScript):
            raise WireError(f"command replies for call {frame[2]}, which asked for none")
        call.parts += answers.replies(frame)

    def _failed(self, frame: Frame) -> None:
        call = self._call(frame[2])
        error = answers.error(frame)
        del self._calls[frame[2]]
        call.failed(error)

    def _cancelled(self, frame: Frame) -> None:
        self._call(frame[2]).cancel()
        del self._calls[frame[2]]

    def _stopped(self, port: RemotePort, why: str) -> None:
        """The queue manager stops and has ended a conversation that was idle: nothing is undone by that, and a
        DISCONNECT that has crossed this is done.
        """
        port.stopped = why
        port.end_reported = True
        for call in self._calls.values():
            if call.port is port and isinstance(call, RemoteDisconnect) and not call.done():
                call.set_result(0)

    def _ended(self, frame: Frame) -> None:
        port = self._ports.get(frame[1])
        if port is not None:
            _, _, _, reason, detail = frame
            if reason == MQRC.Q_MGR_STOPPING:
                self._stopped(port, detail)
            port.end()
            if port.lost is not None:
                port.lost(False, MQError(reason, detail))  # noqa: FBT003  # no call of it is under way
