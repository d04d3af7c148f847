"""The port of a connection that outlives its line (`connect(url, reconnect=True)`).

1. Calls under way when the line breaks end with CONNECTION_BROKEN (2009): nobody knows what became of them. Calls made
   while it is down wait until it is there again, and are made then, in their order.
2. A unit of work that is open when the line breaks is gone: its next call, if none of its was under way, ends with
   CONNECTION_BROKEN (2009), once; `commit` does so in any case, `backout` does not. After that a new unit begins.
3. Handles are opened again, by the name that they were opened by, and services served again. One that cannot be opened
   says so at each call through it, and is tried again with it. A temporary dynamic queue has gone with its connection.
4. Browse cursors begin anew. Locks, marks, trigger starts and deliveries were the old line's: they are gone, and so is
   what is said about them.

What is numbered by the queue manager, handles, starts and deliveries, bears the number of the line in its upper bits,
so that what belonged to a former one is known.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from broker.client.calls import LINE, RemoteCall, RemotePutMany
from broker.client.deferred_calls import DeferredCall, DeferredConnect, answered, failed
from broker.client.lasting_deliveries import LastingDeliveries
from broker.client.lasting_handles import NUMBER, LastingHandle
from broker.interface.port import Call, Port, T, answer, behind_stopped, drop, unit_gone
from broker.mqi.constants.options import MQCO, MQGMO, MQPMO
from broker.mqi.delivery_fields import NO_EXTRAS, PutExtras, ServiceOptions
from broker.mqi.errors import MQError

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from broker.client.line import Line
    from broker.client.port import RemotePort
    from broker.client.redial import Redial
    from broker.interface.answers import GetAnswer, Opened, Placed, PlacedMany
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor, ObjectDescriptor, PutMessageOptions

logger = logging.getLogger(__name__)

_PUT_SYNCPOINT: Final = MQPMO.SYNCPOINT.value
_GET_SYNCPOINT: Final = (MQGMO.SYNCPOINT | MQGMO.SYNCPOINT_IF_PERSISTENT).value


class ReconnectingPort(LastingDeliveries, Port):
    """A port over one `RemotePort` after the other. It forwards a call that names nothing that is of one line."""

    def __init__(self, redial: Redial, port: RemotePort) -> None:
        self._redial = redial
        self._port = port
        self._handles: dict[int, LastingHandle] = {}
        self._services: dict[int, tuple[str, ServiceOptions, int]] = {}
        self._waiting: list[DeferredCall[Any]] = []
        self._down = False
        self._ended = False
        self._refused: MQError | None = None  # why there will be no other line
        self._unit_gone = False  # since the line broke, until it is said
        self._unit_reported = False  # it was said by a call that put or got
        port.lost = self._lost
        redial.ports[self] = None

    @property
    def q_mgr_name(self) -> str:
        return self._port.q_mgr_name

    @property
    def q_mgr_instance(self) -> str:
        return self._port.q_mgr_instance

    @property
    def appl_name(self) -> str:
        return self._port.appl_name

    @property
    def frame_bytes(self) -> int:
        return self._port.frame_bytes

    @property
    def broken(self) -> bool:
        return self._ended or self._refused is not None

    def break_(self) -> None:
        self._port.break_()

    @property
    def down(self) -> bool:
        """True if its calls wait for another line."""
        return self._down

    @property
    def cut(self) -> bool:
        """True if the conversation that it had last has ended, or its line is broken."""
        return self._port.broken

    @property
    def where(self) -> str:
        """The place to which its line leads, or led."""
        return self._port.line.where

    @property
    def end_reported(self) -> bool:
        return self._ended and self._port.end_reported

    # The line

    def _lost(self, reported: bool, why: MQError) -> None:
        """The line, or the conversation, has ended without our doing. `reported`: a call of its unit has said so."""
        if self._ended or self._down:
            return
        self._down = True
        self._unit_reported = reported
        self._unit_gone = self._port.works and not reported
        self._redial.lost(why)

    async def resume(self, line: Line) -> None:
        """There is another line: open a conversation on it, or on one more where it takes no more of them, and all
        handles again. Raises MQError, and what a function that gives the secret raises.
        """
        before = self._port
        name = self._redial.address.q_mgr_name
        port = cast("RemotePort", await answer(line.converse(name, before.appl_name, before.user)))
        if self._ended:  # meanwhile
            drop(port)
            return
        self._port = port
        port.base = before.base + LINE
        port.lost = self._lost
        if before.tagging is not None:
            await answer(port.serialize(*before.tagging))
        for handle in list(self._handles.values()):
            await handle.reopen(port)
        for service, (q_name, options, _) in list(self._services.items()):
            try:
                number = (await answer(port.serve(q_name, options))).service
            except MQError as error:
                if port.broken:
                    raise
                logger.warning(
                    "queue not served any more after a reconnection queue=%s: %s",
                    q_name,
                    error,
                    extra={"event": "service_lost"},
                )
                number = -1
            self._services[service] = q_name, options, number & NUMBER

    def go_on(self) -> None:
        """Make the calls that wait."""
        self._down = False
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call.go()

    def refuse(self, error: MQError) -> None:
        """There is no other line to come: calls that wait fail so, and those to come."""
        self._refused = error
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call.fail(error)

    def _wait(self, call: DeferredCall[Any]) -> None:
        """Make a call when the line is there again."""
        if self._refused is None:
            self._waiting.append(call)
        else:
            call.fail(self._refused)

    def _call(self, make: Callable[[], Call[T]]) -> Call[T]:
        """Make a call now, or when the line is there again."""
        if not self._down or self._ended:
            try:
                return make()
            except MQError as error:
                return failed(error)
        call: DeferredCall[T] = DeferredCall(make)
        self._wait(call)
        return call

    def _in_unit(self, make: Callable[[], RemoteCall[T]]) -> Call[T]:
        """Make a call that joins the unit of work."""
        if self._unit_gone:
            self._unit_gone = False
            self._unit_reported = True
            return failed(unit_gone())
        self._unit_reported = False

        def made() -> Call[T]:
            call = make()
            call.of_unit = True
            return call

        return self._call(made)

    # Calls

    def forward(self, name: str, *values: Any) -> Call[Any]:
        return self._call(lambda: self._port.forward(name, *values))

    # Handles

    def open(self, descriptor: ObjectDescriptor, options: int) -> Call[Opened]:
        call = self._call(lambda: self._port.open(descriptor, options))
        call.add_done_callback(lambda opened: self._opened(descriptor, options, opened))
        return call

    def _opened(self, descriptor: ObjectDescriptor, options: int, call: Future[Opened]) -> None:
        if not call.cancelled() and call.exception() is None:
            opened = call.result()
            self._handles[opened.hobj] = LastingHandle(descriptor, options, opened)

    def _hobj(self, hobj: int) -> int:
        """The number of a handle on the line that there is. Raises why it could not be opened again."""
        handle = self._handles.get(hobj)
        if handle is None:
            return -1
        if handle.error is not None:
            handle.refuse(self._port, handle.error)
        return handle.hobj

    def close(self, hobj: int, options: int) -> Call[int]:
        handle = self._handles.get(hobj)
        if handle is not None and (self._down or handle.error is not None) and options == MQCO.NONE:
            del self._handles[hobj]
            return answered(0)
        call = self._call(lambda: self._port.close(self._hobj(hobj), options))
        call.add_done_callback(lambda closed: self._closed(hobj, closed))
        return call

    def _closed(self, hobj: int, call: Future[int]) -> None:
        if not call.cancelled() and call.exception() is None:
            self._handles.pop(hobj, None)

    def inquire(self, hobj: int, selectors: Sequence[int]) -> Call[dict[int, int | str]]:
        return self._call(lambda: self._port.inquire(self._hobj(hobj), selectors))

    def set(self, hobj: int, values: Mapping[int, int | str]) -> Call[int]:
        return self._call(lambda: self._port.set(self._hobj(hobj), values))

    # Messages

    def put(
        self,
        hobj: int,
        md: MessageDescriptor | None,
        options: PutMessageOptions,
        data: bytes,
        extras: PutExtras = NO_EXTRAS,
    ) -> Call[Placed]:
        call = self._in_unit if options.options & _PUT_SYNCPOINT else self._call
        return call(lambda: self._port.put(self._hobj(hobj), md, self._passed(options), data, extras))

    def put1(
        self,
        descriptor: ObjectDescriptor,
        md: MessageDescriptor | None,
        options: PutMessageOptions,
        data: bytes,
        extras: PutExtras = NO_EXTRAS,
    ) -> Call[Placed]:
        call = self._in_unit if options.options & _PUT_SYNCPOINT else self._call
        return call(lambda: self._port.forward("put1", descriptor, md, self._passed(options), extras, data))

    def put_many(
        self,
        hobj: int,
        messages: Iterable[tuple[MessageDescriptor | None, bytes]],
        options: PutMessageOptions,
        after: Call[PlacedMany] | None,
    ) -> Call[PlacedMany]:
        call = self._in_unit if options.options & _PUT_SYNCPOINT else self._call
        messages = list(messages)
        return call(lambda: self._port.put_many(self._hobj(hobj), messages, self._passed(options), self._after(after)))

    def _after(self, after: Call[PlacedMany] | None) -> Call[PlacedMany] | None:
        """The call of a batch that comes before another. Raises OPERATION_NOT_ALLOWED (2534) when it was of the line
        that is lost: it has failed, or it was answered, and all its messages were put.
        """
        if isinstance(after, DeferredCall):
            after = after.made
        if isinstance(after, RemotePutMany) and after.line is not self._port.line:
            if after.cancelled() or after.exception() is not None or after.result().error is not None:
                raise behind_stopped()
            return None
        return after

    def _passed(self, options: PutMessageOptions) -> PutMessageOptions:
        """The options with the handle, if one is named, whose context is passed on."""
        if options.context in self._handles:
            return replace(options, context=self._hobj(options.context))
        return options

    def get(
        self,
        hobj: int,
        md: MessageDescriptor | None,
        options: GetMessageOptions,
        max_length: int | None,
        delayed: bool = False,
    ) -> Call[GetAnswer]:
        call = self._in_unit if options.options & _GET_SYNCPOINT else self._call
        return call(lambda: self._port.get(self._hobj(hobj), md, options, max_length, delayed))

    def get_many(
        self, hobj: int, md: MessageDescriptor | None, options: GetMessageOptions, count: int
    ) -> Call[list[GetAnswer]]:
        call = self._in_unit if options.options & _GET_SYNCPOINT else self._call
        return call(lambda: self._port.forward("get_many", self._hobj(hobj), md, options, count))

    def give_back(self, hobj: int, tokens: Sequence[bytes], last: bytes) -> None:
        handle = self._handles.get(hobj)
        if handle is not None and handle.error is None and not self._down:
            self._port.give_back(handle.hobj, tokens, last)

    # The unit of work

    def serialize(self, options: int, tag: bytes) -> Call[int]:
        return self._call(lambda: self._port.serialize(options, tag))

    def begin(self) -> Call[int]:
        return self._in_unit(lambda: self._port.begin())

    def commit(self) -> Call[int]:
        if self._unit_was_gone():
            return failed(unit_gone())
        return self._call(lambda: self._port.commit())

    def backout(self) -> Call[int]:
        return answered(0) if self._unit_was_gone() else self._call(lambda: self._port.backout())

    def prepare(self, unit: bytes, database: bytes, name: str) -> Call[int]:
        if self._unit_was_gone():
            return failed(unit_gone())
        return self._call(lambda: self._port.prepare(unit, database, name))

    def _unit_was_gone(self) -> bool:
        """True if the unit that ends now was the former line's. From now on there is none."""
        gone = self._unit_gone or self._unit_reported
        self._unit_gone = self._unit_reported = self._port.works = False
        return gone

    # Starts and deliveries

    def trigger_wait(self, posts: int) -> Call[int]:
        """The posts of another line are others: then it returns at once."""
        seen = self._port
        return self._call(lambda: self._port.trigger_wait(posts if self._port is seen else -1))

    def trigger_done(self, leases: Sequence[int]) -> None:
        self._port.trigger_done(leases)

    def trigger_return(self, leases: Sequence[int]) -> None:
        self._port.trigger_return(leases)

    # The connection

    def connect(self, appl_name: str) -> Call[Port]:
        call = DeferredConnect(lambda: self._port.connect(appl_name), lambda port: ReconnectingPort(self._redial, port))
        if self._down and not self._ended:
            self._wait(call)
        else:
            call.go()
        return call

    def disconnect(self, *, commit: bool) -> Call[int]:
        """Calls that wait for the line end with it. A unit that is gone is said, if nobody has said so."""
        if self._ended:
            return self._port.disconnect(commit=commit)
        self._ended = True
        self._redial.leave(self)
        self.go_on()
        gone = self._unit_gone and commit
        if self._port.broken or gone:
            self._port.disconnect(commit=False).withdraw()
            return failed(unit_gone()) if gone else answered(0)
        return self._port.disconnect(commit=commit)
