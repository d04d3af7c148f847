"""The conversations of a line, and the calls of its client that are under way on them.

A call is made when its frame is handled, and is here until its final frame is written; one that gave the client a
message until the client has said TAKEN, or CANCEL, which gives it back. `CALLS_MAX` bounds them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from broker.engine.calls.answers import refusal
from broker.engine.mistakes import mistake
from broker.interface.port import Call, behind_stopped
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.security_parameters import NO_SECURITY_PARAMETERS
from broker.server.request import KNOWN_BYTES, WAITING, PendingCall, script_of, weight_of
from broker.server.security.logins import Connecting
from broker.wire import answers, arguments, verbs
from broker.wire.frames import Frame, Verb, WireError
from broker.wire.verb_row import VerbKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.engine.calls.gets import WaitingCall
    from broker.engine.conversation import Conversation
    from broker.engine.external.external_calls import PrepareCall
    from broker.engine.jobs.slices import Work
    from broker.interface.answers import Connected, PlacedMany
    from broker.server.session import Session

CALLS_MAX: Final = 100_000
"""The most calls of one line at a time that have no answer, or an answer not yet confirmed."""

_PUT_MANY: Final = Verb.PUT_MANY.value
_TO_TAKE: Final = frozenset([row.verb.value for row in verbs.ROWS if row.kind is VerbKind.RECEIVE])
_DISCONNECT: Final = Verb.DISCONNECT.value
_CONNECT: Final = Verb.CONNECT.value
_DELIVERY_CONNECT: Final = Verb.DELIVERY_CONNECT.value
_CONNECTS: Final = frozenset({_CONNECT, _DELIVERY_CONNECT})
_SETTLE: Final = Verb.SETTLE.value
_PREPARE_DELIVERIES: Final = Verb.PREPARE_DELIVERIES.value
_MQSC: Final = Verb.MQSC.value


class ServedCalls:
    """The calls and the conversations of one line."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._manager = session.manager
        self._server = session.server
        self._endpoint = session.endpoint
        self._flow = session.flow
        self.ports: dict[int, Conversation] = {}
        self._calls: dict[int, PendingCall] = {}
        self._stopped: set[int] = set()  # PUT_MANYs of which a message was not put, until CANCEL
        self._disconnecting: set[int] = set()  # conversations whose DISCONNECT has no final frame yet: it ends them
        self._idle_ended: set[int] = set()  # conversations that were idle when the queue manager stopped
        self._by_group: set[int] = set()  # conversations that are to begin with whichever member of a group
        self._connecting: set[int] = set()  # conversations whose DELIVERY_CONNECT has none yet: it begins them
        self._of_deliveries: dict[int, dict[int, set[int]]] = {}
        """Conversations of deliveries, by the conversation that has taken them and the deliveries' numbers."""

    def start(self, frame: Frame) -> None:
        verb, conversation, number = frame[:3]
        waits = verb in WAITING
        weight = weight_of(frame, self._endpoint.length) if waits and self._endpoint.length > KNOWN_BYTES else 0
        try:
            if number == 0 or number in self._calls or len(self._calls) >= CALLS_MAX or self._stopped:
                self._check_number(number)
            port = self.ports.get(conversation)
            if port is None or conversation in self._disconnecting:
                raise self._ended_already(conversation)
            if waits:
                self._flow.check_waiting(weight)
            call = verbs.BY_VERB[verb].start(port, frame, self._earlier)
        except WireError:
            raise
        except Exception as error:
            if verb == _PUT_MANY:
                self._stop(number)
            # No other name for the error: it would keep the frame until the collector comes.
            fields = answers.error_fields(error if isinstance(error, MQError) else mistake(error, Verb(verb).name))
            self._session.replies.send(Verb.FAILED, conversation, number, *fields)
            return
        request = self._calls[number] = PendingCall(self._session.replies, verb, conversation, number, call)
        if verb == _DISCONNECT:
            self._disconnecting.add(conversation)
        if call.done():
            self._session.replies.finished(request)
            return
        if waits:
            request.weight = weight
            request.waits = True
            self._flow.wait_with(weight)
        else:
            request.weight = weight = weight_of(frame, self._endpoint.length)
            self._flow.add(weight)
        call.notify = partial(self._session.replies.finished, request)
        if verb == _MQSC:
            script = script_of(call)
            if script is not None:
                script.stream(request.parted)

    def _ended_already(self, conversation: int) -> MQError:
        if conversation in self._idle_ended:  # the call has crossed its end
            return MQError(MQRC.Q_MGR_STOPPING, f"{self._manager.name} is stopping")
        return refusal(MQRC.HCONN_ERROR)

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
            raise behind_stopped()
        request = self._calls.get(number)
        return request.call if request is not None and request.verb == _PUT_MANY else None

    def _stop(self, number: int) -> None:
        """A message of this PUT_MANY was not put."""
        self._stopped.add(number)

    def connect(self, frame: Frame) -> None:
        """A CONNECT: a conversation from when its user is known, which may take a while."""
        verb, conversation, number = frame[:3]
        try:
            self._check_number(number)
            brought = verbs.BY_VERB[verb].arguments(frame)
            self._check_conversation(conversation)
            name = brought.pop("q_mgr_name")
            self._manager.check_named(name)
        except MQError as error:
            self._session.replies.send(Verb.FAILED, conversation, number, *answers.error_fields(error))
            return
        if name not in ("", self._manager.name):
            self._by_group.add(conversation)
        call: Call[Connected] = Call()
        self._await(frame, call)
        brought.setdefault("security", NO_SECURITY_PARAMETERS)
        self._session.logins.connect(Connecting(call, conversation, **brought))

    def begin(self, conversation: int, port: Conversation) -> None:
        """A conversation begins, whose CONNECT is answered next."""
        self.ports[conversation] = port
        self._connecting.discard(conversation)
        if conversation in self._by_group:
            self._by_group.remove(conversation)
            port.by_group = True
        port.tell_expelled = partial(self._expelled, conversation, port)

    def _expelled(self, conversation: int, port: Conversation, why: str) -> None:
        """The user of a conversation may not be here any more: its calls have ended, and its client is told."""
        if self._flow.ended:
            return
        self._session.replies.flush_all()
        if self.ports.get(conversation) is port:
            self._end_conversation(conversation)
            self._session.replies.send(Verb.ENDED, conversation, 0, MQRC.CONNECTION_BROKEN.value, why)

    def _end_conversation(self, conversation: int) -> None:
        del self.ports[conversation]
        self._end_of_deliveries(conversation)

    @property
    def sharing(self) -> int:
        """The number of conversations, without those of deliveries."""
        of_deliveries = (each for deliveries in self._of_deliveries.values() for each in deliveries.values())
        return len(self.ports) - sum(map(len, of_deliveries))

    def scripts(self) -> list[Call[Any]]:
        """The scripts of commands that run."""
        return [each.call for each in self._calls.values() if each.verb == _MQSC and not each.call.done()]

    def delivery_connect(self, frame: Frame) -> None:
        """The connection of a delivery: a conversation from when the call is answered, until the delivery ends."""
        verb, conversation, number = frame[:3]
        try:
            self._check_number(number)
            taker, delivery, appl_name = verbs.BY_VERB[verb].arguments(frame).values()
            self._check_conversation(conversation)
            port = self.ports.get(taker)
            if port is None:
                raise refusal(MQRC.HCONN_ERROR)
            call = port.delivery_connection(delivery, appl_name)
        except WireError:
            raise
        except Exception as error:
            fields = answers.error_fields(error if isinstance(error, MQError) else mistake(error, Verb(verb).name))
            self._session.replies.send(Verb.FAILED, conversation, number, *fields)
            return
        self._await(frame, call, (taker, delivery))

    def _await(self, frame: Frame, call: Call[Any], delivery: tuple[int, int] = (0, 0)) -> None:
        """A call is under way that begins a conversation."""
        verb, conversation, number = frame[:3]
        self._connecting.add(conversation)
        request = self._calls[number] = PendingCall(self._session.replies, verb, conversation, number, call)
        request.delivery = delivery
        if call.done():
            self._session.replies.finished(request)
            return
        request.weight = weight_of(frame, self._endpoint.length)
        self._flow.add(request.weight)
        call.notify = partial(self._session.replies.finished, request)

    def _check_conversation(self, conversation: int) -> None:
        if conversation == 0 or conversation in self.ports or conversation in self._connecting:
            raise WireError(f"{conversation} is not the number of a new conversation")
        most = self._server.limits.conversations
        if len(self.ports) + len(self._connecting) >= most:
            raise MQError(MQRC.MAX_CONNS_LIMIT_REACHED, f"{most} conversations are open on this line")

    def trigger_done(self, frame: Frame) -> None:
        leases = arguments.numbers(frame)
        if port := self.ports.get(frame[1]):
            port.trigger_done(leases)

    def trigger_return(self, frame: Frame) -> None:
        leases = arguments.numbers(frame)
        if port := self.ports.get(frame[1]):
            port.trigger_return(leases)

    def give_back(self, frame: Frame) -> None:
        given_back = arguments.given_back(frame)
        if port := self.ports.get(frame[1]):
            port.give_back(*given_back)

    def taken(self, frame: Frame) -> None:
        for number in arguments.numbers(frame):
            request = self._calls.get(number)
            if request is None or not request.answered:
                raise WireError(f"TAKEN names call {number}, which has no answer to take")
            del self._calls[number]
            request.receipt.take()

    def cancel(self, frame: Frame) -> None:
        number = frame[2]
        self._stopped.discard(number)
        request = self._calls.pop(number, None)
        if request is None:
            return  # its final frame has crossed this one
        if not request.answered:
            self._release(request)
            self._session.replies.send(Verb.CANCELLED, request.conversation, number)
        if request.verb == _DISCONNECT:
            self._disconnecting.discard(request.conversation)
        elif request.verb in _CONNECTS:
            self._connecting.discard(request.conversation)
            self._forget((request.conversation,) if request.verb == _CONNECT else ())
        request.withdraw()

    def _release(self, request: PendingCall) -> None:
        """The line holds nothing for a call that is withdrawn."""
        if request.waits:
            self._flow.waited_with(request.weight)
            request.weight = 0
        self._flow.answers -= request.answer + request.call.held
        self._flow.add(-(request.weight + request.call.held))

    def answered(self, request: PendingCall) -> None:
        """The answer of a call is on its way: what remains of it is said by the client, or is over."""
        if request.verb in _TO_TAKE:
            request.receipt = request.call.receipt
            del request.call  # and with it the message, which is written
            return
        if request.verb == _PUT_MANY and request.call.result().error is not None:
            self._stop(request.number)
        del self._calls[request.number]
        if request.call.receives:
            request.call.take()
        if request.verb == _SETTLE:
            self._settled(request)
        elif request.verb == _PREPARE_DELIVERIES:
            self._prepared(request)
        elif request.verb == _DELIVERY_CONNECT:
            self._connected(request)
        elif request.verb == _DISCONNECT:
            self._disconnecting.discard(request.conversation)
            self.ports.pop(request.conversation, None)
            self._end_of_deliveries(request.conversation)

    def _connected(self, request: PendingCall) -> None:
        """The connection of a delivery is a conversation from now on."""
        self._connecting.discard(request.conversation)
        self.ports[request.conversation] = request.call.result()
        taker, delivery = request.delivery
        self._of_deliveries.setdefault(taker, {}).setdefault(delivery, set()).add(request.conversation)

    def _settled(self, request: PendingCall) -> None:
        """Deliveries have ended: so have their conversations, and no call has to tell the client."""
        deliveries = self._of_deliveries.get(request.conversation)
        if deliveries:
            for settled in request.call.result():
                self._forget(deliveries.pop(settled.id, ()))

    def _prepared(self, request: PendingCall) -> None:
        """Deliveries are prepared, or have ended otherwise: so have their conversations."""
        deliveries = self._of_deliveries.get(request.conversation)
        if deliveries:
            for id in cast("PrepareCall", request.call).deliveries:
                conversations = deliveries.get(id, ())
                if all(each not in self.ports or self.ports[each].broken for each in conversations):
                    self._forget(deliveries.pop(id, ()))

    def _end_of_deliveries(self, taker: int) -> None:
        """A conversation has ended, and its deliveries with it."""
        for conversations in self._of_deliveries.pop(taker, {}).values():
            self._forget(conversations)

    def _forget(self, conversations: Iterable[int]) -> None:
        """These have ended with their deliveries."""
        for conversation in conversations:
            if port := self.ports.pop(conversation, None):
                port.break_()

    def failed(self, request: PendingCall) -> None:
        """The call is answered with an error."""
        del self._calls[request.number]
        if request.verb == _PUT_MANY:
            self._stop(request.number)
        elif request.verb in _CONNECTS:
            self._connecting.discard(request.conversation)

    def ended(self, request: PendingCall) -> bool:
        """True if a call that has failed tells the end of its conversation, which is not its own doing."""
        port = self.ports.get(request.conversation)
        if request.verb == _DISCONNECT:
            self._disconnecting.discard(request.conversation)
        if port is None or not port.broken or request.conversation in self._disconnecting:
            return False
        self._end_conversation(request.conversation)
        return True

    def end_idle(self, text: str) -> None:
        """End the conversations that have nothing under way but gets that wait, and tell the client why."""
        if self._flow.ended or self._flow.handling or self._endpoint.unread:
            return  # there are calls to come
        busy = {*self._disconnecting, *self._connecting}
        busy.update(*(each for deliveries in self._of_deliveries.values() for each in deliveries.values()))
        waits: dict[int, list[WaitingCall[Any]]] = {}
        for request in self._calls.values():
            wait = request.wait
            if wait is None:
                busy.add(request.conversation)
            else:
                waits.setdefault(request.conversation, []).append(wait)
        for conversation, port in list(self.ports.items()):
            if conversation not in busy and port.at_rest:
                for wait in waits.get(conversation, ()):
                    wait.ended(MQRC.Q_MGR_STOPPING)
                self._session.replies.flush_all()
                del self.ports[conversation]
                self._idle_ended.add(conversation)
                port.break_(MQRC.Q_MGR_STOPPING)
                self._session.replies.send(Verb.ENDED, conversation, 0, MQRC.Q_MGR_STOPPING.value, text)

    def end(self) -> Work:
        """The line is gone: abandon what is not answered and break the conversations, in steps."""
        calls, self._calls = self._calls, {}
        ports, self.ports = self.ports, {}
        return _breaking(calls.values(), ports.values())


def _breaking(calls: Iterable[PendingCall], ports: Iterable[Conversation]) -> Work:
    """Take the calls that were answered, withdraw the others, then break the conversations."""
    for request in calls:
        if request.answered:
            request.receipt.take()
        else:
            request.withdraw()
        yield
    for port in ports:
        port.break_()
        yield
