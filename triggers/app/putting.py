"""Puts of an app: in the unit of work of the handler that puts, or outside any (handlers rules 1.6, 3, 4.3, 8.3)."""

from __future__ import annotations

import logging
import math
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict

from broker.mqi import (
    MQEI,
    MQGMO,
    MQMF,
    MQMT,
    MQOO,
    MQPER,
    MQPMO,
    MQPRI,
    MQRC,
    MessageDescriptor,
    MQError,
    ObjectDescriptor,
    Outcome,
)
from triggers.app.requests import report_ids
from triggers.app.tracing import with_context
from triggers.bodies.bodies import EncodedBody, written
from triggers.serving.run import current, transaction

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from broker import Clock, Connection, PutResult
    from triggers.serving.run import Run
    from triggers.transactions.transaction import AppTransaction

logger = logging.getLogger(__name__)

KEY_WAIT: Final = 5.0
"""Seconds for which a put is tried again whose key is in a unit of work that has not ended (handlers rule 4.3)."""

_KEY_PAUSE_MIN: Final = 0.01
_KEY_PAUSE_MAX: Final = 0.2

_ID_BYTES: Final = 24

_SYNCPOINT: Final = MQPMO.SYNCPOINT.value
_NO_SYNCPOINT: Final = MQPMO.NO_SYNCPOINT.value
_LOOK: Final = (MQGMO.BROWSE_FIRST | MQGMO.ACCEPT_TRUNCATED_MSG).value
_GROUPED: Final = (MQPMO.SYNCPOINT | MQPMO.LOGICAL_ORDER).value


class PutOptions(TypedDict, total=False):
    """The options of a put.

    - `delay` in seconds, or `deliver_at`, a datetime with a zone or seconds since 1970: not to be handled before.
    - `key`, up to 255 bytes: a second put with it within `window` seconds (300) of the first one's delivery instant is
      answered as made, and puts nothing; `window=None`: for as long as the first is on its queue.
    - `priority`, 0 to 9; `expiry`, seconds until it is discarded; `persistence`, True unless it is said.
    - `correl_id`, `group_id`: 24 bytes; `reply_to`: the queue for the reply.
    - `properties`: message properties.
    - `syncpoint`: inside a handler, False for a put that stays whatever becomes of the handler.
    """

    delay: float | timedelta | None
    deliver_at: datetime | float | None
    key: str | bytes | None
    window: float | None
    priority: int | None
    expiry: float | None
    persistence: bool
    correl_id: bytes | None
    group_id: bytes | None
    reply_to: str | None
    properties: Mapping[str, Any] | None
    syncpoint: bool


_EXTRAS: Final = ("delay", "deliver_at", "key", "window")
"""The options that are not of the descriptor, but say when and whether the message is put."""


class Owner(Protocol):
    """The session of an app, as puts need it."""

    clock: Clock

    async def connection(self) -> Connection: ...


class AppPuts:
    """Puts for a session. `replies_lost` counts replies that could not be put."""

    def __init__(self, owner: Owner) -> None:
        self.replies_lost = 0
        self._owner = owner

    async def put(self, q_name: str, body: object, options: PutOptions) -> PutResult:
        """Put a message. Raises TypeError and ValueError before anything is sent, MQError."""
        form = written(body)
        md = described(form, options) if options else _plain(form.format, form.ccsid)
        properties = with_context({**(form.properties or {}), **(options.get("properties") or {})})
        extras = _extras(options)
        connection, unit = await self._connection(options)

        async def put() -> PutResult:
            return await connection.put1(q_name, form.data, md, unit, properties=properties or None, **extras)

        if unit == _SYNCPOINT or not extras.get("key"):
            return await put()
        deadline = self._owner.clock.monotonic() + KEY_WAIT
        pause = _KEY_PAUSE_MIN
        while True:
            try:
                return await put()
            except MQError as error:
                if error.reason != MQRC.OBJECT_IN_USE or self._owner.clock.monotonic() >= deadline:
                    raise
            await self._owner.clock.sleep(pause)
            pause = min(2 * pause, _KEY_PAUSE_MAX)

    async def put_group(self, q_name: str, bodies: Sequence[object], options: PutOptions) -> list[PutResult]:
        """Put a message group: all its messages or none. Raises ValueError for none."""
        if not bodies:
            raise ValueError("put_group: at least one body")
        if "key" in options:
            raise ValueError("put_group: a key is for one message")
        forms = [written(body) for body in bodies]
        extras = _extras(options)
        results = []
        async with self._unit(options) as connection, connection.open(q_name, MQOO.OUTPUT) as queue:
            for form in forms:
                md = described(form, options)
                md.msg_flags = MQMF.LAST_MSG_IN_GROUP if form is forms[-1] else MQMF.MSG_IN_GROUP
                properties = with_context({**(form.properties or {}), **(options.get("properties") or {})})
                results.append(await queue.put(form.data, md, _GROUPED, properties=properties or None, **extras))
        return results

    async def reply(self, run: Run, value: object) -> None:
        """Put what a handler has returned as the reply to its request, in the unit of its delivery.

        That it cannot be put, because its queue is gone or full, does not fail the work: it is logged and counted.
        Raises TypeError and ValueError for a value that has no form in a message.
        """
        request = run.messages[0].md
        form = written(value)
        msg_id, correl_id = report_ids(request)
        md = MessageDescriptor(
            msg_type=MQMT.REPLY,
            format=form.format,
            coded_char_set_id=form.ccsid,
            priority=request.priority,
            persistence=request.persistence,
            expiry=request.expiry,
            msg_id=msg_id,
            correl_id=correl_id,
        )
        target = ObjectDescriptor(object_name=request.reply_to_q, object_q_mgr_name=request.reply_to_q_mgr)
        connection = await run.connected()
        try:
            await connection.put1(target, form.data, md, _SYNCPOINT, properties=with_context(form.properties))
        except MQError as error:
            if error.reason not in _REPLY_LOST:
                raise
            self.replies_lost += 1
            logger.warning(
                "a reply is lost, the work is done all the same: handler=%s queue=%s msg_id=%s reply_to=%s reason=%s",
                run.server.handler.name, run.server.handler.q_name, request.msg_id.hex(), request.reply_to_q, error,
                extra={"event": "reply_lost"},
            )  # fmt: skip

    async def cancel(self, put: PutResult) -> bool:
        """Remove a delayed message, in the unit of work of the handler that says so, or at once."""
        connection, unit = await self._connection({})
        options = MQGMO.SYNCPOINT if unit == _SYNCPOINT else MQGMO.NO_SYNCPOINT
        selection = MessageDescriptor(msg_id=put.md.msg_id)
        async with connection.open(put.resolved_q_name, MQOO.INPUT_SHARED | MQOO.BROWSE) as queue:
            try:
                found = await queue.get(selection, _LOOK, delayed=True, max_length=0)
                if not found.deliver_at:
                    return False
                await queue.get(selection, options, delayed=True)
            except MQError as error:
                if error.reason != MQRC.NO_MSG_AVAILABLE:
                    raise
                return False
        return True

    async def release(self, put: PutResult) -> bool:
        """Deliver a delayed message now."""
        self.joined(syncpoint=False)
        connection = await self._owner.connection()
        return bool(await connection.release_delayed(put.resolved_q_name, put.md.msg_id))

    def joined(self, *, syncpoint: bool = True) -> Run | AppTransaction | None:
        """The delivery or transaction whose unit what the caller does is part of; without `syncpoint`, and in a step,
        of none.

        Raises HCONN_ERROR (2018) in a handler whose attempt has failed, and for what would join a unit that is over.
        """
        run = current.get()
        within = transaction.get()
        if within is not None and within.run is run and within.owner is self._owner:
            if syncpoint:
                within.check_open()
            return within if syncpoint else None
        if run is None or run.server.owner is not self._owner:
            return None
        if syncpoint or run.decided is None or run.decided.outcome != Outcome.DONE:
            run.check_open()
        return run if syncpoint and run.joins else None

    async def _connection(self, options: PutOptions) -> tuple[Connection, int]:
        """The connection for a put, and whether it is in a unit of work."""
        run = self.joined(syncpoint=options.get("syncpoint", True))
        if run is None:
            return await self._owner.connection(), _NO_SYNCPOINT
        return await run.connected(), _SYNCPOINT

    @asynccontextmanager
    async def _unit(self, options: PutOptions) -> AsyncIterator[Connection]:
        """A unit of work: that of the handler, or one of its own."""
        connection, unit = await self._connection(options)
        if unit == _SYNCPOINT:
            yield connection
            return
        async with await connection.connect() as own, own.unit_of_work():
            yield own


def _extras(options: PutOptions) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name in _EXTRAS}


@lru_cache
def _plain(format: str, ccsid: int) -> MessageDescriptor:
    """The descriptor of messages put without options: one for all, so that the queue manager knows the next again."""
    return described(EncodedBody(b"", format, ccsid), {})


def described(form: EncodedBody, options: PutOptions) -> MessageDescriptor:
    """The descriptor of a message. Raises ValueError and TypeError."""
    expiry = options.get("expiry")
    if expiry is not None and not 0 < expiry < math.inf:
        raise ValueError(f"expiry={expiry}: seconds, above 0")
    priority = options.get("priority")
    persistent = options.get("persistence", True)
    if not isinstance(persistent, bool):
        raise TypeError(f"persistence={persistent!r}: True or False")
    return MessageDescriptor(
        msg_type=MQMT.REQUEST if options.get("reply_to") else MQMT.DATAGRAM,
        format=form.format,
        coded_char_set_id=form.ccsid,
        priority=MQPRI.PRIORITY_AS_Q_DEF if priority is None else priority,
        persistence=MQPER.PERSISTENT if persistent else MQPER.NOT_PERSISTENT,
        expiry=MQEI.UNLIMITED if expiry is None else max(1, math.ceil(expiry * 10)),
        correl_id=options.get("correl_id") or bytes(_ID_BYTES),
        group_id=options.get("group_id") or bytes(_ID_BYTES),
        reply_to_q=options.get("reply_to") or "",
    )


_REPLY_LOST: Final = frozenset(
    {
        MQRC.UNKNOWN_OBJECT_NAME,
        MQRC.Q_DELETED,
        MQRC.Q_FULL,
        MQRC.PUT_INHIBITED,
        MQRC.UNKNOWN_REMOTE_Q_MGR,
        MQRC.MSG_TOO_BIG_FOR_Q,
        MQRC.MSG_TOO_BIG_FOR_Q_MGR,
        MQRC.UNKNOWN_XMIT_Q,
        MQRC.PERSISTENT_NOT_ALLOWED,
    }
)
