"""An open object: the handle (Hobj) of MQOPEN, through which messages are put and got."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypedDict, Unpack

from broker.deprecated import old_argument, renamed_argument
from broker.interface.batches.async_puts import ASYNC_RESPONSE, asynchronous
from broker.interface.batches.batch_puts import BatchPuts, stopped
from broker.interface.batches.read_ahead import SINGLY, Loop
from broker.interface.data import each_prepared, many, pair, prepared, wrong_descriptor
from broker.interface.message import Message, PutResult, known_reason
from broker.interface.options import answered_later
from broker.interface.port import answer
from broker.interface.properties import with_properties
from broker.interface.put_extras import each_put_extras, put_extras
from broker.interface.units import in_unit
from broker.mqi.constants.attribute_values import MQREADA
from broker.mqi.constants.options import MQCO, MQOO
from broker.mqi.delivery_fields import NO_EXTRAS
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.structures import GetMessageOptions, MessageDescriptor, PutMessageOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
    from types import TracebackType

    from broker.interface.answers import Opened
    from broker.interface.connection import Connection
    from broker.interface.data import Data, Item
    from broker.interface.put_extras import PutArguments
    from broker.mqi.layouts.folders import Value
    from broker.mqi.structures import ResponseRecord

_READ_AHEAD = MQOO.READ_AHEAD.value
_READ_AHEAD_YES = MQREADA.YES.value
_READ_AHEAD_DISABLED = MQREADA.DISABLED.value


_WAITING: Final = old_argument("Queue.get", "waiting", "delayed")


class _Before(TypedDict, total=False):
    """The arguments of a get by their old names."""

    waiting: bool


class Queue:
    """An open queue. Made by `connection.open`; a context manager that closes it.

    `name` is the name opened (that of the new queue, for a model queue); `resolved_q_name` and `resolved_q_mgr_name`
    tell where it led. Of a distribution list all three are blank.
    """

    def __init__(self, connection: Connection, opened: Opened, options: int) -> None:
        self._connection = connection
        self._port = connection.port
        self.opened = opened
        self.reads_singly = bool(options & SINGLY) or opened.read_ahead == _READ_AHEAD_DISABLED
        self.asks_to_read_ahead = bool(options & _READ_AHEAD) or opened.read_ahead == _READ_AHEAD_YES
        self._closed = False

    @property
    def hobj(self) -> int:
        """The number of the handle on its connection."""
        return self.opened.hobj

    @property
    def name(self) -> str:
        return self.opened.name

    @property
    def resolved_q_name(self) -> str:
        return self.opened.resolved_q_name

    @property
    def resolved_q_mgr_name(self) -> str:
        return self.opened.resolved_q_mgr_name

    @property
    def reason(self) -> MQRC | int:
        """MQRC.NONE, or the warning with which the open did its work."""
        return known_reason(self.opened.reason)

    @property
    def records(self) -> tuple[ResponseRecord, ...]:
        """The outcome of the open of a distribution list, a record for each destination; empty for anything else."""
        return self.opened.distribution.records

    @property
    def known_dest_count(self) -> int:
        """The number of destinations of the list that are queues of this queue manager and could be opened."""
        return self.opened.distribution.known_dest_count

    @property
    def unknown_dest_count(self) -> int:
        """The number of destinations of the list that are queues of other queue managers and could be opened."""
        return self.opened.distribution.unknown_dest_count

    @property
    def invalid_dest_count(self) -> int:
        """The number of destinations of the list that could not be opened."""
        return self.opened.distribution.invalid_dest_count

    async def put(
        self,
        data: Data,
        md: MessageDescriptor | None = None,
        options: PutMessageOptions | int = 0,
        *,
        persistence: int | None = None,
        properties: Mapping[str, Value] | None = None,
        **extras: Unpack[PutArguments],
    ) -> PutResult:
        """Put a message (MQPUT). Text is sent as UTF-8, MQSTR.

        `properties` are message properties: bool, int, float, str, bytes or None by name. With ASYNC_RESPONSE the call
        returns at once, the result knows no more than the caller, and `connection.stat()` tells how it ended.

        `options` takes MQPMO flags alone or the whole structure; `persistence` is a convenience for MQPER in the
        descriptor. Outside syncpoint the call returns when a persistent message is durable. Raises MQError with, among
        others, Q_FULL (2053), PUT_INHIBITED (2051), MSG_TOO_BIG_FOR_Q (2030).

        `delay`, `deliver_at`, `key` and `window` say when the message is available, and which key tells a repeated put
        from a new one (`PutArguments`); the result has `deliver_at` and `duplicate`. These raise ValueError,
        EXPIRY_ERROR (2013) for a message that would be expired by then, OBJECT_IN_USE (2042) for a key that is in
        another unit of work, RESOURCE_PROBLEM (2102) for one key too many, OPTIONS_ERROR (2046) where the queue is not
        of this queue manager.
        """
        extra_options = put_extras(extras) if extras else NO_EXTRAS
        md, body = prepared(data, md, persistence)
        connection = self._connection
        pmo = connection.put_options(options)
        sent, body = (md, body) if not properties else with_properties(md, body, properties)
        opened, unit = self.opened, connection.unit
        later = opened.answers_puts_later
        if (later or int(pmo.options) & ASYNC_RESPONSE) and asynchronous(
            int(pmo.options), md, by_default=later, persistent=opened.persistent
        ):
            call = self._port.put(opened.hobj, sent, answered_later(pmo), body, extra_options)
            counter = None if unit is None else partial(unit.count_put, pmo.options)
            await connection.async_puts.follow(call, opened.name, len(body), counter)
            return PutResult(md, None, opened)
        placed = await answer(self._port.put(opened.hobj, sent, pmo, body, extra_options))
        if unit is not None:
            unit.count_put(pmo.options, placed)
        return PutResult(md, placed, opened)

    async def put_many(
        self,
        messages: Iterable[Item],
        md: MessageDescriptor | None = None,
        options: PutMessageOptions | int = 0,
        *,
        persistence: int | None = None,
        keys: Iterable[str | bytes | None] | None = None,
        **extras: Unpack[PutArguments],
    ) -> list[PutResult]:
        """Put messages one after the other, with the same options, in few calls: each is data, or a pair of data and
        the descriptor to use instead of `md`.

        They are taken from `messages` as they are sent, a few hundred ahead of the answers, so there may be any number
        of them. Outside syncpoint the call returns when all that are persistent are durable. It is not one unit of
        work: the first message that cannot be put ends it, and those before it stay put. The MQError then says which
        it was, and `error.results` are those of the messages before it. Where a write fails, as with
        STORAGE_MEDIUM_FULL (2192), up to 128 messages fail together. A cancelled call leaves put what has been sent; so
        does one whose `messages` raise, or hold what is no message (TypeError).

        DEFPRESP of the queue is not looked at: the answers are waited for, unless `options` have ASYNC_RESPONSE.

        `delay`, `deliver_at` and `window` are for all of them, `keys` has one for each (ValueError for fewer). With any
        of these each message is put by itself, when the one before it has been answered.
        """
        messages = many(messages, md)
        pmo = self._connection.put_options(options)
        if keys is not None or extras:
            return await self._put_singly(messages, md, options, persistence, each_put_extras(extras, keys))
        if int(pmo.options) & ASYNC_RESPONSE or self.opened.distribution.records:
            return await self._put_singly(messages, md, options, persistence, each_put_extras(extras, None))
        batch = BatchPuts(self._connection, self.opened, options)
        return await batch.put(each_prepared(messages, md, persistence))

    async def _put_singly(
        self,
        messages: Iterable[Item],
        md: MessageDescriptor | None,
        options: PutMessageOptions | int,
        persistence: int | None,
        extras: Iterator[PutArguments],
    ) -> list[PutResult]:
        results: list[PutResult] = []
        for number, each in enumerate(messages):
            data, own = pair(each, number) if isinstance(each, tuple) else (each, md)
            arguments = next(extras, None)
            if arguments is None:
                raise ValueError(f"keys has {number}, and there are more messages")
            try:
                results.append(await self.put(data, own, options, persistence=persistence, **arguments))
            except MQError as error:
                raise stopped(error, results) from error
        return results

    async def get(
        self,
        md: MessageDescriptor | None = None,
        options: GetMessageOptions | int = 0,
        *,
        max_length: int | None = None,
        wait: float | None = None,
        delayed: bool = False,
        **before: Unpack[_Before],
    ) -> Message:
        """Get or browse a message (MQGET).

        `options` takes MQGMO flags alone or the whole structure. `wait` is a convenience in seconds for WAIT and
        WaitInterval (ValueError beside a structure that has WAIT). `max_length` is the buffer's length in bytes;
        without one, any length fits. Raises MQError, among others NO_MSG_AVAILABLE (2033), GET_INHIBITED (2016),
        Q_DELETED (2052), TRUNCATED_MSG_FAILED (2080, `error.message` holds what fitted).

        `delayed`: delayed messages are seen as if their instant had come, one by one, as they are there; with options
        about a wait, groups, locks or marks that is OPTIONS_ERROR (2046).
        """
        if before:
            given: dict[str, Any] = {**before, **({"delayed": True} if delayed else {})}
            _WAITING.rename(given)
            return await self.get(md, options, max_length=max_length, wait=wait, **given)
        gmo = self._about_to_get(md, options, wait)
        unit, opened = self._connection.unit, self.opened
        call = self._port.get(opened.hobj, md, gmo, max_length, delayed)
        try:
            delivery = await (answer(call) if unit is None or call.done() else unit.answer(call, gmo.options))
        except MQError as error:
            if error.reason == MQRC.TRUNCATED_MSG_FAILED and isinstance(error.message, tuple):
                error.message = Message(error.message, opened)  # type: ignore[arg-type]  # a Delivery: see Port.get
            raise
        message = Message(delivery, opened)
        guard = self._connection.guard
        if guard is not None and in_unit(gmo.options, delivery) and not await guard.admits(self._connection, message):
            return await self.get(md, options, max_length=max_length, wait=wait, delayed=delayed)
        if unit is not None:
            unit.count_get(gmo.options, delivery)
        return message

    async def get_many(
        self,
        count: int,
        md: MessageDescriptor | None = None,
        options: GetMessageOptions | int = 0,
        *,
        wait: float | None = None,
    ) -> list[Message]:
        """Get or browse up to `count` messages in one call, as so many gets with these arguments would one by one.

        The answer has those that are there, at least one, and ends at 256 of them or 1 MiB of data. `wait`, or WAIT,
        is for the first only. Outside syncpoint they are removed together when the call returns. Raises what `get`
        does, NO_MSG_AVAILABLE (2033) when there is none; and OPTIONS_ERROR (2046) for options that are about one
        message: BROWSE_FIRST, *_MSG_UNDER_CURSOR, LOCK, UNLOCK.
        """
        if count < 1:
            raise ValueError(f"count={count}: 1 or more")
        gmo = self._about_to_get(md, options, wait)
        unit, opened = self._connection.unit, self.opened
        call = self._port.get_many(opened.hobj, md, gmo, count)
        deliveries = await (answer(call) if unit is None or call.done() else unit.answer(call, gmo.options))
        guard = self._connection.guard
        if guard is not None:
            deliveries = [
                each
                for each in deliveries
                if not in_unit(gmo.options, each) or await guard.admits(self._connection, Message(each, opened))
            ]
            if not deliveries:
                return await self.get_many(count, md, options, wait=wait)
        if unit is not None:
            unit.count_gets(gmo.options, deliveries)
        return [Message(each, opened) for each in deliveries]

    @renamed_argument("waiting", "delayed")
    async def messages(
        self,
        md: MessageDescriptor | None = None,
        options: GetMessageOptions | int = 0,
        *,
        wait: float | None = None,
        delayed: bool = False,
    ) -> AsyncIterator[Message]:
        """`async for message in queue.messages(...)`: each step is a get with these arguments, until one finds nothing
        (NO_MSG_AVAILABLE) or the handle is closed. Without `wait` that is when the queue is empty.
        """
        while True:
            try:
                message = await self.get(md, options, wait=wait, delayed=delayed)
            except MQError as error:
                if error.reason == MQRC.NO_MSG_AVAILABLE or (self._closed and error.reason == MQRC.HOBJ_ERROR):
                    return
                raise
            yield message

    async def inquire(self, *selectors: int) -> dict[int, int | str]:
        """Attributes of the object by MQIA and MQCA selectors (MQINQ)."""
        return await answer(self._port.inquire(self.opened.hobj, selectors))

    async def set(self, values: Mapping[int, int | str]) -> None:
        """Change attributes by MQIA and MQCA selectors (MQSET)."""
        await answer(self._port.set(self.opened.hobj, values))

    async def close(self, options: int = MQCO.NONE) -> MQRC | int:
        """Close the handle (MQCLOSE) and return the reason: NONE, or a warning. Harmless when closed already."""
        if self._closed:
            return MQRC.NONE
        for ahead in [each for each in self._connection.loops if each.queue is self]:
            ahead.leave()
        self._closed = True
        try:
            return known_reason(await answer(self._port.close(self.opened.hobj, options)))
        except MQError as error:
            self._closed = error.reason not in _STILL_OPEN
            raise

    def __aiter__(self) -> Loop:
        """`async for message in queue`: each step is a get with unlimited wait, until the handle is closed.

        Outside a unit of work each message is removed when it is given. Inside `unit_of_work()` they join it, and some
        are got ahead of the loop in one call (`broker.interface.batches.read_ahead` says when); those not given to it
        by the time it is left go back.
        """
        return Loop(self)

    def _about_to_get(
        self, md: MessageDescriptor | None, options: GetMessageOptions | int, wait: float | None
    ) -> GetMessageOptions:
        """The whole structure for a get that is made now; what loops have read ahead of it has gone back."""
        if md is not None and not isinstance(md, MessageDescriptor):
            raise wrong_descriptor(md)
        gmo = self._connection.get_options(options, wait)
        if self._connection.reading:
            self._meet()
        return gmo

    def _meet(self) -> None:
        """Give back the messages of this queue that loops have read ahead: a get is about to look at it."""
        for ahead in [each for each in self._connection.reading if each.queue.resolved_q_name == self.resolved_q_name]:
            ahead.give_back()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._port.broken:
            return
        try:
            await self.close()
        except MQError:
            if kind is None and not self._port.broken:
                raise

    def __repr__(self) -> str:
        return f"<Queue {self.name}{' closed' if self._closed else ''}>"


_STILL_OPEN = frozenset({MQRC.OPTION_NOT_VALID_FOR_TYPE, MQRC.Q_NOT_EMPTY, MQRC.OPTIONS_ERROR})
