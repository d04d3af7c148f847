"""A session: the queue manager's end of one line, with the conversations on it.

Bytes become frames, frames become calls on ports, the outcome of a call becomes its final frame. There is no task here:
a call is a future. What is answered when it is made is written when all bytes that came with it are heeded; of the
others a callback queues the reply, and the replies of one turn of the event loop leave in one write.

1. A message that answered a GET or GET_MANY is taken when the client says TAKEN. CANCEL gives it back, or withdraws the
   get, whether it waits, is being written or has been answered. An answer to any other call counts as taken when it is
   written.
2. When the line breaks, what was not answered is abandoned and every conversation is broken: the queue manager backs
   out its unit of work. A get that was answered and not confirmed counts as delivered: under syncpoint it is backed out
   with its unit, outside syncpoint it is delivered at most once (journal rule 11).
3. What a client can make the session hold is bounded (`flow`). Where there is no room, frames that have come in are not
   heeded and no more are read; nor while the client does not read what is written to it: its replies then wait as the
   futures that they are. `CALLS_MAX` bounds the calls that wait.
4. A client has `frame_timeout` seconds to send a frame that it has begun, and `send_timeout` to read what is written.
5. Frames are heeded in slices: however many came at once, the event loop is not held for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast

from broker.engine.mistakes import mistake
from broker.engine.slices import SLICE_SECONDS
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.server.flow import FREE_BYTES, Flow
from broker.server.request import LONG_ANSWERS, WAITING, Request, answer_weight, script_of, weight_of
from broker.wire import answers, arguments, frames
from broker.wire.frames import Frame, Verb, WireError
from broker.wire.liveness import TICKS_AN_INTERVAL, Beat, Liveness
from broker.wire.protocol import Endpoint, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker.clock import Timer
    from broker.engine.slices import Work
    from broker.interface.port import Call, PlacedMany
    from broker.server.request import ServedPort
    from broker.server.server import Server

logger = logging.getLogger(__name__)

CALLS_MAX: Final = 100_000
"""The most calls of one line at a time that have no answer, or an answer not yet confirmed."""

HANDSHAKE_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 5.0
"""How long a client has for its first frame, and for reading the last."""

_WRITE_BYTES: Final = 256 * 1024  # what one write holds at most, but for a longer frame
_WRITE_SECONDS: Final = 0.005  # between two writes while frames are heeded in slices
_UNSENT_BYTES: Final = 1024 * 1024  # what waits in the transport before the client counts as not reading
_FRAMES_AT_ONCE: Final = 256
_FRAMES_A_STEP: Final = 8  # of small calls: so many are heeded between two looks at the clock
_SMALL_BYTES: Final = 4096
_HEARTBEAT_MS_MIN: Final = 1000

_PUT_MANY: Final = Verb.PUT_MANY.value
_QUICK: Final = frozenset({Verb.PUT.value, Verb.PUT1.value, Verb.GET.value, Verb.TAKEN.value})
_TO_TAKE: Final = frozenset({Verb.GET.value, Verb.GET_MANY.value})
_DISCONNECT: Final = Verb.DISCONNECT.value
_ANSWER: Final = Verb.ANSWER.value
_MQSC: Final = Verb.MQSC.value


class Session(asyncio.Protocol):
    """One line. Made by the server for each socket that it accepts."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._manager = server.manager
        self._limits = server.limits
        self._endpoint = Endpoint(Role.SERVER, server.limits.frame_bytes)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._peer = ""
        self._peer_frame_bytes = 0
        self._ports: dict[int, ServedPort] = {}
        self._calls: dict[int, Request] = {}
        self._stopped: set[int] = set()  # PUT_MANYs of which a message was not put, until CANCEL
        self._disconnecting: set[int] = set()  # conversations whose DISCONNECT has no final frame yet: it ends them
        self._flow = Flow(server.limits.in_flight_bytes, server.reserve, self._go_on)
        self._heeding = False  # frames, in slices
        self._admitted = False  # the frame that is coming in may come
        self._frame_is_new = False  # it has come since, and another has begun
        self._reading = True
        self._parts: list[bytes] = []  # frames to write
        self._finished: deque[Request] = deque()  # calls to answer after them
        self._written = 0  # the weight of those answered in this write
        self._streams: dict[Request, None] = {}  # calls with command replies to write
        self._flush_due = False
        self._writable = True
        self._liveness = Liveness()
        self._timer: Timer | None = None
        self._frame_timer: Timer | None = None
        self._send_timer: Timer | None = None
        self._others: dict[int, Callable[[Frame], None]] = {
            Verb.HELLO: self._hello,
            Verb.HEARTBEAT: lambda frame: None,
            Verb.CONNECT: self._connect,
            Verb.TRIGGER_DONE: self._trigger_done,
            Verb.TRIGGER_RETURN: self._trigger_return,
            Verb.GIVE_BACK: self._give_back,
            Verb.TAKEN: self._taken,
            Verb.CANCEL: self._cancel,
        }

    # The socket.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)  # which uvloop's are not, but by what they do
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "local"
        transport.set_write_buffer_limits(high=_UNSENT_BYTES)
        self._watch(HANDSHAKE_SECONDS, self._no_handshake)
        if not self._server.admit(self):
            self.close(MQRC.MAX_CONNS_LIMIT_REACHED, f"the queue manager has {self._limits.connections} lines already")

    def data_received(self, data: bytes) -> None:
        self._liveness.heard = True
        if self._transport.is_closing():
            return
        self._endpoint.feed(data)
        if self._heeding:
            return
        if self._flow.weight > FREE_BYTES and self._flow.full:
            self._regulate()
        else:
            self._heed()

    def pause_writing(self) -> None:
        self._writable = False
        self._send_timer = self._manager.clock.call_later(self._limits.send_timeout, self._unread)
        self._regulate()

    def resume_writing(self) -> None:
        self._writable = True
        _cancel(self._send_timer)
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._timer, self._frame_timer, self._send_timer):
            _cancel(timer)
        self._break()
        self._server.forget(self)

    def close(self, reason: MQRC, text: str) -> None:
        """End the line: break its conversations, tell the client why, hang up. Harmless when it is closing."""
        self._flush()
        while self._writable and self._finished and not self._transport.is_closing():
            self._flush()
        if not self._transport.is_closing():
            self._hang_up(self._endpoint.send(Verb.REFUSED, 0, 0, reason.value, text))

    def abort(self) -> None:
        """Cut the line."""
        self._transport.abort()

    def _hang_up(self, last: bytes) -> None:
        """End the line with these bytes."""
        self._break()
        self._transport.write(last)
        self._transport.close()
        self._watch(CLOSE_SECONDS, self._transport.abort)

    def _break(self) -> None:
        """In slices: there may be very many calls."""
        calls, self._calls = self._calls, {}
        ports, self._ports = self._ports, {}
        self._finished.clear()
        self._streams.clear()
        self._endpoint.let_go()  # now, and not when the collector comes for this session
        self._flow.end()
        self._manager.slices.start(_breaking(calls.values(), ports.values()), _broken)

    # What comes in.

    def _heed(self) -> None:
        """Heed frames that are here, for the time of a slice now, and write what is answered by then."""
        self._flush_due = True
        if self._heed_some(_FRAMES_AT_ONCE, self._manager.clock.monotonic() + SLICE_SECONDS):
            self._heeding = True
            self._manager.slices.run(self._rest(), self._rest_heeded)
            self._regulate()
        elif self._admitted or self._endpoint.kept or self._flow.weight > FREE_BYTES:
            self._heeded()
        self._flush()

    def _rest(self) -> Work:
        while self._heed_some(_FRAMES_A_STEP, 0.0):
            yield

    def _heed_some(self, most: int, until: float) -> bool:
        """Heed up to so many frames, until this time; whether to go on with others later."""
        flow, endpoint, transport = self._flow, self._endpoint, self._transport
        if flow.ended:
            return False
        try:
            while (frame := endpoint.next()) is not None:
                self._frame_is_new = True
                verb = frame[0]
                if verb in arguments.STARTED:
                    self._start(frame)
                else:
                    self._others[verb](frame)
                if transport.is_closing() or (flow.weight > FREE_BYTES and flow.full):
                    return False
                most -= 1
                if most % _FRAMES_A_STEP and verb in _QUICK and endpoint.length <= _SMALL_BYTES:
                    continue
                if most == 0 or self._manager.clock.monotonic() >= until:
                    return True
        except WireError as error:
            self._refuse(error)
        except Exception as error:
            failure = mistake(error, f"the line of {self._peer}")
            self.close(MQRC.UNEXPECTED_ERROR, failure.detail)
        return False

    def _rest_heeded(self, _: Exception | None) -> None:
        self._heeded()
        if self._flush_due:
            self._flush()

    def _heeded(self) -> None:
        """All frames are heeded, or what they have led to must go first."""
        self._heeding = False
        if self._admitted and self._frame_is_new:
            self._admitted = False
            self._flow.arrived()
            _cancel(self._frame_timer)
        self._regulate()

    def _refuse(self, error: WireError) -> None:
        logger.warning("line refused peer=%s: %s", self._peer, error)
        if error.answer is None:
            self.close(MQRC.CONNECTION_BROKEN, str(error))
        else:
            self._hang_up(error.answer)

    def _go_on(self) -> None:
        """There is room again, or may be."""
        if self._transport.is_closing() or self._heeding:
            return
        self._flow.wake()
        if self._endpoint.wanted and self._endpoint.wanted <= self._endpoint.kept and not self._flow.full:
            self._heed()
        else:
            self._regulate()

    def _regulate(self) -> None:
        """Read, or pause reading."""
        if self._transport.is_closing():
            return
        reads = self._writable and not self._heeding
        if reads and not self._admitted:
            reads = not self._flow.full and self._next_may_come()
        if reads != self._reading:
            self._reading = reads
            if reads:
                if self._admitted:
                    self._expect_the_rest()
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _next_may_come(self) -> bool:
        """Whether there is room for the frame that has begun, if one has. From then on its time runs."""
        wanted = self._endpoint.wanted
        if not wanted:
            return True
        if wanted <= self._endpoint.kept:
            return False  # it is here, and waits to be heeded
        self._admitted = self._flow.admit(wanted)
        self._frame_is_new = False
        if self._admitted:
            self._expect_the_rest()
        return self._admitted

    def _expect_the_rest(self) -> None:
        _cancel(self._frame_timer)
        self._frame_timer = self._manager.clock.call_later(self._limits.frame_timeout, self._unfinished)

    def _unfinished(self) -> None:
        if not self._admitted or not self._reading:
            return  # it has come, or it is we who do not read
        text = f"a frame was begun and not finished within [limits] frame_timeout = {self._limits.frame_timeout:g} s"
        logger.warning("line refused peer=%s: %s", self._peer, text)
        self.close(MQRC.CONNECTION_BROKEN, text)

    def _unread(self) -> None:
        limit = self._limits.send_timeout
        logger.warning("line dropped peer=%s: answers not read within [limits] send_timeout = %g s", self._peer, limit)
        self._transport.abort()

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
        heartbeat = min(max(wanted.heartbeat, _HEARTBEAT_MS_MIN), round(self._server.heartbeat * 1000))
        self._peer_frame_bytes = wanted.frame_bytes
        self._reply(
            Verb.WELCOME, 0, 0,
            frames.PRODUCT, version, self._manager.name, heartbeat, self._limits.frame_bytes,
        )  # fmt: skip
        self._beat_seconds = heartbeat / 1000 / TICKS_AN_INTERVAL
        self._watch(self._beat_seconds, self._beat)

    def _no_handshake(self) -> None:
        logger.warning("line dropped peer=%s: no handshake within %s s", self._peer, HANDSHAKE_SECONDS)
        self._transport.abort()

    def _beat(self) -> None:
        if not self._reading:
            self._liveness.heard = True  # what the client says stays in the socket meanwhile
        match self._liveness.tick():
            case Beat.DROP:
                logger.warning("line dropped peer=%s: silent for over two heartbeats", self._peer)
                self._transport.abort()
                return
            case Beat.SEND:
                self._reply(Verb.HEARTBEAT, 0, 0)
        self._watch(self._beat_seconds, self._beat)

    def _watch(self, delay: float, callback: Callable[[], None]) -> None:
        """Run `callback` in `delay` seconds instead of what was to be run."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._manager.clock.call_later(delay, callback)

    # Calls.

    def _start(self, frame: Frame) -> None:
        verb, conversation, number = frame[:3]
        waits = verb in WAITING
        weight = 0
        try:
            self._check_number(number)
            port = self._port(conversation)
            if waits:
                weight = weight_of(frame, self._endpoint.length)
                self._flow.check_waiting(weight)
            call = arguments.start(port, frame, self._earlier)
        except WireError:
            raise
        except Exception as error:
            if verb == _PUT_MANY:
                self._stop(number)
            # No other name for the error: it would keep the frame until the collector comes.
            fields = answers.error_fields(error if isinstance(error, MQError) else mistake(error, Verb(verb).name))
            self._reply(Verb.FAILED, conversation, number, *fields)
            return
        request = self._calls[number] = Request(self, verb, conversation, number, call)
        if verb == _DISCONNECT:
            self._disconnecting.add(conversation)
        if call.done():
            self.finished(request)
            return
        if waits:
            request.weight = weight
            request.waits = True
            self._flow.wait_with(weight)
        else:
            request.weight = weight = weight_of(frame, self._endpoint.length)
            self._flow.add(weight)
        call.add_done_callback(request.finished)
        if verb == _MQSC:
            script = script_of(call)
            if script is not None:
                script.stream(request.parted)

    def _check_number(self, number: int) -> None:
        if number == 0 or number in self._calls:
            raise WireError(f"{number} is not the number of a new call")
        if len(self._stopped) >= CALLS_MAX:
            raise WireError(f"{CALLS_MAX} batches have failed, and no CANCEL has come for them")
        if len(self._calls) >= CALLS_MAX:
            raise MQError(MQRC.RESOURCE_PROBLEM, f"{CALLS_MAX} calls are outstanding on this line")

    def _earlier(self, number: int) -> Call[PlacedMany] | None:
        """The PUT_MANY that another comes after, unless it has been answered: then all its messages were put."""
        if number in self._stopped:
            raise MQError(MQRC.OPERATION_NOT_ALLOWED, "a message before these was not put")
        request = self._calls.get(number)
        return request.call if request is not None and request.verb == _PUT_MANY else None

    def _stop(self, number: int) -> None:
        """A message of this PUT_MANY was not put."""
        self._stopped.add(number)

    def _port(self, conversation: int) -> ServedPort:
        port = self._ports.get(conversation)
        if port is None or conversation in self._disconnecting:
            raise MQError(MQRC.HCONN_ERROR, "the connection has ended")
        return port

    def _connect(self, frame: Frame) -> None:
        _, conversation, number = frame[:3]
        try:
            self._check_number(number)
            self._converse(conversation, *arguments.connect_arguments(frame))
        except MQError as error:
            self._reply(Verb.FAILED, conversation, number, *answers.error_fields(error))
        else:
            self._reply(Verb.ANSWER, conversation, number, self._manager.name)

    def _converse(self, conversation: int, q_mgr_name: str, appl_name: str, user: str) -> None:
        if conversation == 0 or conversation in self._ports:
            raise WireError(f"{conversation} is not the number of a new conversation")
        if q_mgr_name not in ("", self._manager.name):
            raise MQError(MQRC.Q_MGR_NAME_ERROR, f"{q_mgr_name} is not here; this is {self._manager.name}")
        if len(self._ports) >= self._limits.conversations:
            raise MQError(
                MQRC.MAX_CONNS_LIMIT_REACHED, f"{self._limits.conversations} conversations are open on this line"
            )
        self._ports[conversation] = self._manager.converse(
            appl_name=appl_name, user=user, channel=self._peer, room=self._flow
        )

    def _trigger_done(self, frame: Frame) -> None:
        leases = arguments.numbers(frame)
        if port := self._ports.get(frame[1]):
            port.trigger_done(leases)

    def _trigger_return(self, frame: Frame) -> None:
        leases = arguments.numbers(frame)
        if port := self._ports.get(frame[1]):
            port.trigger_return(leases)

    def _give_back(self, frame: Frame) -> None:
        given_back = arguments.given_back(frame)
        if port := self._ports.get(frame[1]):
            port.give_back(*given_back)

    def _taken(self, frame: Frame) -> None:
        for number in arguments.numbers(frame):
            request = self._calls.get(number)
            if request is None or not request.answered:
                raise WireError(f"TAKEN names call {number}, which has no answer to take")
            del self._calls[number]
            request.receipt.take()

    def _cancel(self, frame: Frame) -> None:
        number = frame[2]
        self._stopped.discard(number)
        request = self._calls.pop(number, None)
        if request is None:
            return  # its final frame has crossed this one
        if not request.answered:
            self._release(request)
            self._reply(Verb.CANCELLED, request.conversation, number)
        if request.verb == _DISCONNECT:
            self._disconnecting.discard(request.conversation)
        request.withdraw()

    def _release(self, request: Request) -> None:
        """The line holds nothing for a call that is withdrawn."""
        if request.waits:
            self._flow.waited_with(request.weight)
            request.weight = 0
        self._flow.answers -= request.answer + request.call.held
        self._flow.add(-(request.weight + request.call.held))

    # Replies.

    def finished(self, request: Request) -> None:
        """The outcome of a call is there."""
        if request.answered or self._flow.ended:
            return
        if request.verb in LONG_ANSWERS:
            self._weigh_answer(request)
        self._finished.append(request)
        if not self._flush_due:
            self._schedule()

    def _weigh_answer(self, request: Request) -> None:
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

    def parted(self, request: Request) -> None:
        """There are command replies to write."""
        self._streams[request] = None
        self._schedule()

    def _reply(self, *frame: object) -> None:
        self._parts.append(self._endpoint.send(*frame))
        self._schedule()

    def _schedule(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            if self._heeding:  # and writes what is answered when it is through
                self._manager.clock.call_later(_WRITE_SECONDS, self._flush)
            else:
                self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Write replies that are due, as far as the client reads them."""
        self._flush_due = False
        try:
            self._write()
        except Exception as error:
            failure = mistake(error, f"the line of {self._peer}")
            self._hang_up(self._endpoint.send(Verb.REFUSED, 0, 0, failure.reason, failure.detail))
            return
        if not self._heeding and (not self._reading or self._flow.held_back):
            self._go_on()

    def _write(self) -> None:
        """One write; what is left is due in the next turn of the event loop."""
        if not self._writable or self._transport.is_closing():
            return
        parts, self._parts = self._parts, []
        size = sum(map(len, parts))
        finished = self._finished
        while finished and size < _WRITE_BYTES:
            request = finished.popleft()
            if not request.answered:
                parts.append(self._answer(request))
                size += len(parts[-1])
        while self._streams and size < _WRITE_BYTES:
            request = next(iter(self._streams))
            del self._streams[request]
            if not request.answered:
                parts.append(self._replies(request))
                size += len(parts[-1])
        if parts:
            self._liveness.said = True
            self._transport.write(b"".join(parts))
        written, self._written = self._written, 0
        if written:
            self._flow.add(-written)
        if finished or self._streams:
            self._schedule()

    def _replies(self, request: Request) -> bytes:
        """The command replies that have come so far."""
        script = script_of(request.call)
        assert script is not None
        return self._endpoint.send(
            Verb.REPLIES, request.conversation, request.number, *answers.reply_parts(script.read())
        )

    def _answer(self, request: Request) -> bytes:
        """The final frame of a call, which is answered now."""
        request.answered = True
        self._written += request.weight
        self._flow.answers -= request.answer
        call = request.call
        verb = request.verb
        if call.cancelled() or call.exception() is not None:
            return self._failed(request)
        try:
            fields = answers.fields(verb, call.result()) if verb != _MQSC else _replies_left(call)
            reply = self._endpoint.send(_ANSWER, request.conversation, request.number, *fields)
        except (TypeError, ValueError, OverflowError):
            logger.exception("the answer to %s has no form in msgpack", Verb(verb).name)
            return self._withdrawn(request, MQError(MQRC.UNEXPECTED_ERROR, "the answer cannot be sent"))
        if len(reply) > self._peer_frame_bytes + 4:
            text = f"the answer of {len(reply)} bytes is over the client's limit of {self._peer_frame_bytes}"
            return self._withdrawn(request, MQError(MQRC.DATA_LENGTH_ERROR, text))
        if verb == _PUT_MANY and call.result().error is not None:
            self._stop(request.number)
        if verb in _TO_TAKE:
            request.receipt = call.receipt
            del request.call  # and with it the message, which is written
        else:
            del self._calls[request.number]
            call.take()
            if verb == _DISCONNECT:
                self._disconnecting.discard(request.conversation)
                self._ports.pop(request.conversation, None)
        return reply

    def _withdrawn(self, request: Request, error: MQError) -> bytes:
        """FAILED for an answer that is there and cannot be sent: what it holds goes back."""
        self._forget(request)
        request.call.abandon()
        return self._endpoint.send(Verb.FAILED, request.conversation, request.number, *answers.error_fields(error))

    def _failed(self, request: Request) -> bytes:
        """FAILED, and ENDED after it where the error was the end of the conversation."""
        self._forget(request)
        error = request.error()
        reply = self._endpoint.send(Verb.FAILED, request.conversation, request.number, *answers.error_fields(error))
        port = self._ports.get(request.conversation)
        if request.verb == _DISCONNECT:
            self._disconnecting.discard(request.conversation)
        if port is not None and port.broken and request.conversation not in self._disconnecting:
            del self._ports[request.conversation]
            reply += self._endpoint.send(Verb.ENDED, request.conversation, 0, error.reason, error.detail)
        return reply

    def _forget(self, request: Request) -> None:
        """The call is answered with an error."""
        del self._calls[request.number]
        if request.verb == _PUT_MANY:
            self._stop(request.number)


def _replies_left(call: Call[Any]) -> tuple[Any, ...]:
    """The command replies that go with the ANSWER to a MQSC."""
    script = script_of(call)
    return answers.fields(_MQSC, call.result()) if script is None else answers.reply_parts(script.read())


def _breaking(calls: Iterable[Request], ports: Iterable[ServedPort]) -> Work:
    """What was answered counts as taken; what was not is abandoned. Then the conversations are broken."""
    for request in calls:
        if request.answered:
            request.receipt.take()
        else:
            request.withdraw()
        yield
    for port in ports:
        port.break_()
        yield


def _broken(error: Exception | None) -> None:
    if error is not None:
        mistake(error, "the end of a line")


def _cancel(timer: Timer | None) -> None:
    if timer is not None:
        timer.cancel()
