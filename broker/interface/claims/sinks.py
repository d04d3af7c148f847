"""Prepared units for programs: `connection.sinks`, the calls one by one, and `connection.sink()`, batches that appear
on their queues as a whole, or not at all.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from broker.interface.batches.columns import Columns, messages_in, pack
from broker.interface.claims.claims import Publication, UnitName, Winner
from broker.interface.claims.staging import FRAME_BYTES, Row, Staging
from broker.interface.data import described
from broker.interface.port import answer
from broker.mqi.constants.options import MQPMO
from broker.mqi.errors import MQError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from broker.interface.claims.claims import Staged
    from broker.interface.data import Data
    from broker.interface.port import Port
    from broker.mqi.layouts.folders import Value
    from broker.mqi.structures import MessageDescriptor

_ATTEMPT_BYTES: Final = 16


def new_attempt() -> bytes:
    """Return 16 random bytes, which tell a prepared unit from others of its partition."""
    return secrets.token_bytes(_ATTEMPT_BYTES)


class Sinks:
    """The calls about prepared units, and the sinks that publish them (`docs/rules/claims.md`). Each returns when what
    it does is durable, and may be made again when its answer was lost.
    """

    def __init__(self, port: Port) -> None:
        self._port = port

    @property
    def frame_bytes(self) -> int:
        """The longest frame of several messages that `stage` takes."""
        return min(FRAME_BYTES, self._port.frame_bytes)

    async def ledger(self, sink: str) -> tuple[str, int] | None:
        """The query that a sink belongs to, and the number of its last batch; None when it has no ledger."""
        return await answer(self._port.sink(sink))

    async def stage(
        self,
        unit: UnitName,
        rows: bytes | Columns,
        first: int = 0,
        *,
        query: str | None = None,
        options: int = MQPMO.NONE,
        last: bool = True,
    ) -> Staged:
        """Put messages durably as those with index `first` on of a prepared unit, made if there is none of that name:
        the messages of a frame of columns (`broker.interface.claims.staging` makes some). A piece that is there already
        is not put again; `last`: no piece comes after it. `options` are of MQPMO: LOGICAL_ORDER, or none. For a batch
        that is published nothing is kept, and the answer says so.

        What MQPUT checks is checked now: PUT_INHIBITED (2051), Q_FULL (2053) and others, INCOMPLETE_GROUP (2241) for a
        group left open. Besides BUFFER_ERROR (2004) for what is no frame, SUBSCRIPTION_IN_USE (2429) for a sink of
        another query, UOW_COMMITTED (2408) for a batch before the last, SYNCPOINT_LIMIT_REACHED (2024),
        STORAGE_MEDIUM_FULL (2192).
        """
        frame = pack(rows) if isinstance(rows, Columns) else rows
        call = self._port.stage(unit, query, first, frame, options=int(options), last=last)
        return await answer(call)

    async def publish(
        self, sink: str, batch: int, winners: Sequence[Winner], *, query: str | None = None
    ) -> Publication:
        """Make the messages of the winners, all of this sink, visible, partition by partition; discard all other units
        of the sink. With a `query` the ledger of the sink has the number of the batch from now on, and to publish it
        again does nothing.

        Raises UOW_CANCELED (2297) for a winner that has not so many messages, UOW_COMMITTED (2408) for a batch before
        the last, NO_DATA_AVAILABLE (2379) for one that comes too early, SUBSCRIPTION_IN_USE (2429) for a sink of
        another query, STORAGE_MEDIUM_FULL (2192), after which the units are still prepared.
        """
        strange = [winner.unit for winner in winners if winner.unit.sink != sink]
        if strange:
            raise ValueError(f"{strange[0]} among the winners is no unit of the sink {sink}")
        return await answer(self._port.publish(sink, batch, query, winners))

    async def discard(self, units: Sequence[UnitName]) -> int:
        """Discard prepared units. Return how many there were."""
        return await answer(self._port.discard(units))


class Sink:
    """A sink of a program: `connection.sink("IMPORT", query="job 5")`. With a query its ledger has the number of the
    last batch, so that a batch is published once, however often the program tries.
    """

    def __init__(self, sinks: Sinks, name: str, query: str | None) -> None:
        self._sinks = sinks
        self.name = name
        self.query = query

    async def last_batch(self) -> int | None:
        """The number of the batch that was published last; None where there is no ledger."""
        ledger = await self._sinks.ledger(self.name)
        return None if ledger is None else ledger[1]

    def batch(self, number: int) -> SinkBatch:
        """A batch to write: `async with sink.batch(7) as batch: await batch.put("ORDERS", data)`. With a ledger it is
        the one after the last, or any where there was none.
        """
        return SinkBatch(self._sinks, self.name, self.query, number)


class SinkBatch:
    """Messages that appear together: when the block is left cleanly they are published, when an exception leaves it
    they are discarded.

    Leaving it raises what `Sinks.stage` and `Sinks.publish` raise. `published` then tells how many messages have
    appeared; `already`: the batch had been published before, and nothing was put.
    """

    def __init__(self, sinks: Sinks, sink: str, query: str | None, number: int) -> None:
        self._sinks = sinks
        self._query = query
        self._unit = UnitName(sink, number, 0, new_attempt())
        self._staging = Staging(sinks.frame_bytes)
        self._staged = 0  # messages
        self._known = False  # the batch has been published
        self.published: Publication | None = None

    async def put(
        self,
        q_name: str,
        data: Data,
        md: MessageDescriptor | None = None,
        *,
        persistence: int | None = None,
        properties: Mapping[str, Value] | None = None,
    ) -> None:
        """Put a message to a queue, as `Connection.put1` does, but so that it appears with all others of the batch. It
        is sent with those after it: an error in it may be raised by a later put, or when the block is left.
        """
        md = described(md, persistence, text=False)
        frame = self._staging.add(Row(q_name, data, md, properties))
        if frame is not None:
            await self._stage(frame, last=False)

    async def _stage(self, frame: bytes, *, last: bool) -> None:
        first, self._staged = self._staged, self._staged + messages_in(frame)
        if not self._known:
            staged = await self._sinks.stage(self._unit, frame, first, query=self._query, last=last)
            self._known = staged.published

    async def _publish(self) -> None:
        if len(self._staging):
            await self._stage(self._staging.frame(), last=True)
        if self._known:
            self.published = Publication(0, already=True)
            return
        winners = [Winner(self._unit, self._staged)] if self._staged else []
        self.published = await self._sinks.publish(self._unit.sink, self._unit.batch, winners, query=self._query)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await self._discard()
            return
        try:
            await self._publish()
        except BaseException:
            await self._discard()
            raise

    async def _discard(self) -> None:
        """Discard the staged messages; without a connection this happens later."""
        if self._staged:
            with suppress(MQError):
                await self._sinks.discard([self._unit])

    def __repr__(self) -> str:
        return f"<Batch {self._unit.batch} of sink {self._unit.sink}>"
