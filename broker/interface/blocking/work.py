"""The blocking faces of consumers, sinks and trigger starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.interface.blocking.face import Blocking, Each, Face, FaceProperty, Giving
from broker.interface.claims.claim_calls import ANY, Claims
from broker.interface.claims.claims import Publication
from broker.interface.claims.consumer import ClaimedBatch, Consumer
from broker.interface.claims.sinks import Sink, SinkBatch, Sinks
from broker.interface.handlers.starts import TriggerStart, TriggerStarts
from broker.mqi.layouts.layouts import MQTMC2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from broker.interface.batches.column_messages import ColumnMessage
    from broker.interface.batches.columns import Columns
    from broker.interface.claims.claims import BrowseSelection
    from broker.interface.portal import Portal


class SyncClaimedBatch(Face[ClaimedBatch]):
    """The blocking face of claimed messages (`ClaimedBatch`): `for message in batch`."""

    acknowledge = Blocking(ClaimedBatch.acknowledge)
    last = FaceProperty[int]()

    def columns(self) -> Iterator[Columns]:
        """As `ClaimedBatch.columns`."""
        return Each(self._portal, self._target.columns)

    def __iter__(self) -> Iterator[ColumnMessage]:
        return Each(self._portal, lambda: self._target)

    def __len__(self) -> int:
        return len(self._target)


class SyncConsumer(Face[Consumer]):
    """The blocking face of a consumer (`Consumer`)."""

    claim = Giving(Consumer.claim, SyncClaimedBatch)
    release = Blocking(Consumer.release)
    name = FaceProperty[str]()
    position = FaceProperty[int]()


class SyncClaims(Face[Claims]):
    """The blocking face of the calls about consumers (`Claims`)."""

    consumer = Blocking(Claims.consumer)
    register = Blocking(Claims.register)
    claim = Blocking(Claims.claim)
    pin = Blocking(Claims.pin)
    read = Blocking(Claims.read)
    acknowledge = Blocking(Claims.acknowledge)
    release = Blocking(Claims.release)
    queue_ranges = Blocking(Claims.queue_ranges)
    browse_cuts = Blocking(Claims.browse_cuts)
    browse = Blocking(Claims.browse)

    def frames(self, uuid: str, generation: int, after: int, last: int) -> Iterator[Columns]:
        """As `Claims.frames`."""
        return Each(self._portal, lambda: self._target.frames(uuid, generation, after, last))

    def browse_frames(self, q_name: str, after: int, last: int, selection: BrowseSelection = ANY) -> Iterator[Columns]:
        """As `Claims.browse_frames`."""
        return Each(self._portal, lambda: self._target.browse_frames(q_name, after, last, selection))


class SyncSinks(Face[Sinks]):
    """The blocking face of the calls about prepared units (`Sinks`)."""

    ledger = Blocking(Sinks.ledger)
    stage = Blocking(Sinks.stage)
    publish = Blocking(Sinks.publish)
    discard = Blocking(Sinks.discard)
    frame_bytes = FaceProperty[int]()


class SyncSinkBatch(Face[SinkBatch]):
    """The blocking face of a batch to write (`SinkBatch`)."""

    put = Blocking(SinkBatch.put)
    published = FaceProperty[Publication | None]()


class SyncSink(Face[Sink]):
    """The blocking face of a sink (`Sink`)."""

    last_batch = Blocking(Sink.last_batch)
    name = FaceProperty[str]()
    query = FaceProperty[str | None]()

    def batch(self, number: int) -> SyncSinkBatch:
        """As `Sink.batch`: `with sink.batch(7) as batch:`."""
        return SyncSinkBatch(self._target.batch(number), self._portal)


class SyncTriggerStart(Face[TriggerStart]):
    """The blocking face of a start (`TriggerStart`)."""

    id = FaceProperty[int]()
    trigger = FaceProperty[MQTMC2]()

    def done(self) -> None:
        """As `TriggerStart.done`."""
        self._portal.call(_done(self._target.done))

    def give_back(self) -> None:
        """As `TriggerStart.give_back`."""
        self._portal.call(_done(self._target.give_back))


def _starts(starts: Sequence[TriggerStart], portal: Portal) -> list[SyncTriggerStart]:
    return [SyncTriggerStart(each, portal) for each in starts]


class SyncTriggerStarts(Face[TriggerStarts]):
    """The blocking face of trigger starts (`TriggerStarts`): `for start in starts`."""

    pending = Blocking(TriggerStarts.pending)
    wait = Blocking(TriggerStarts.wait)
    take = Giving(TriggerStarts.take, _starts)
    sweep = Blocking(TriggerStarts.sweep)
    held = FaceProperty[int]()

    def __iter__(self) -> Iterator[SyncTriggerStart]:
        for start in Each(self._portal, lambda: self._target):
            yield SyncTriggerStart(start, self._portal)


async def _done(step: Callable[[], None]) -> None:
    step()
