"""The calls of a connection about prepared units and the sinks that publish them (`docs/rules/claims.md`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from broker.core.prepared.publishing import PublishedUnit
from broker.core.prepared.sinks import UNITS_MAX
from broker.core.prepared.staging import StagedPiece, check_options
from broker.core.prepared.unit import UnitName
from broker.engine.claims.ranges import number
from broker.engine.claims.staged_rows import staged_rows
from broker.interface.batches.columns import unpack
from broker.interface.port import Call
from broker.mqi import checks
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.manager import Manager
    from broker.core.queues.handles import Hconn
    from broker.engine.calls.call_order import CallOrder
    from broker.engine.context import EngineContext
    from broker.engine.manager import QueueManager
    from broker.engine.shared_queues import SharedQueues
    from broker.interface.claims import claims
    from broker.interface.claims.claims import Publication, Staged

_ATTEMPT_LENGTH: Final = 16
_QUERY_LENGTH: Final = 1024


class SinkCalls:
    """A part of `Conversation`."""

    manager: QueueManager
    context: EngineContext
    core: Manager
    hconn: Hconn
    call_order: CallOrder

    def sink(self, name: str) -> Call[tuple[str, int] | None]:
        return self.call_order.in_order(Call(), self._sink, name)

    def stage(
        self, unit: claims.UnitName, query: str | None, first: int, rows: bytes, *, options: int, last: bool
    ) -> Call[Staged]:
        return self.call_order.in_order(
            Call(), partial(self._stage, options=options, last=last), unit, query, first, rows
        )

    def publish(self, sink: str, batch: int, query: str | None, winners: Sequence[claims.Winner]) -> Call[Publication]:
        return self.call_order.in_order(Call(), self._publish, sink, batch, query, winners)

    def discard(self, units: Sequence[claims.UnitName]) -> Call[int]:
        return self.call_order.in_order(Call(), self._discard, units)

    def _sink(self, call: Call[tuple[str, int] | None], name: str) -> None:
        name, member, caller = _name(name), self._elsewhere(name), self.hconn.caller
        if member is not None:
            member.answer(self.call_order, call, lambda: member.sinks.ledger(name, caller))
        else:
            self.core.sinks.judge(caller, name)
            self.call_order.change(call, self.manager.sinks.ledger(name))

    def _stage(
        self,
        call: Call[Staged],
        unit: claims.UnitName,
        query: str | None,
        first: int,
        rows: bytes,
        *,
        options: int,
        last: bool,
    ) -> None:
        name, query, first = _unit(unit), _query(query), number(first)
        check_options(checks.options(options))

        def take_apart() -> StagedPiece:
            return StagedPiece(self.hconn, name, query, first, staged_rows(rows), options, bool(last))

        member = self._elsewhere(name.sink, [name])
        if member is not None and self._is_shared(rows):
            piece = take_apart()
            member.answer(self.call_order, call, lambda: member.sinks.stage(piece))
            return
        sinks = self.manager.sinks
        self.call_order.change(call, sinks.stage(take_apart, name, first, query), lock=sinks.lock(name))

    def _publish(
        self, call: Call[Publication], sink: str, batch: int, query: str | None, winners: Sequence[claims.Winner]
    ) -> None:
        _check_count(winners)
        sink, batch, query = _name(sink), number(batch), _query(query)
        named = [PublishedUnit(_unit(winner.unit), number(winner.rows)) for winner in winners]
        member, caller = self._elsewhere(sink, [winner.unit for winner in named]), self.hconn.caller
        if member is not None:
            member.answer(self.call_order, call, lambda: member.sinks.publish(sink, batch, query, named, caller))
            return
        self.core.sinks.judge(caller, sink)
        sinks = self.manager.sinks
        self.call_order.change(call, sinks.publish(call, sink, batch, query, named), lock=sinks.lock(sink))

    def _discard(self, call: Call[int], units: Sequence[claims.UnitName]) -> None:
        _check_count(units)
        names, caller = [_unit(each) for each in units], self.hconn.caller
        for sink in {name.sink for name in names}:
            self.core.sinks.judge(caller, sink)
        self.call_order.change(call, self.manager.sinks.discard(names, caller))

    def _elsewhere(self, sink: str, units: Sequence[UnitName] = ()) -> SharedQueues | None:
        """The group that knows of a sink, if anybody does: None where it is one of the queue manager's own."""
        return None if self.core.sinks.has(sink, units) else self.context.sharing

    def _is_shared(self, rows: bytes) -> bool:
        """True if messages of a frame are for shared queues; of one without messages nobody knows."""
        q_names = unpack(rows).q_names
        return not q_names or any(map(self._leads_to_shared, q_names))

    def _leads_to_shared(self, q_name: str) -> bool:
        try:
            return self.core.objects.destination(checks.name(q_name), "").queue.shared
        except MQError:
            return False  # what is wrong with it is told where it is staged


def _check_count(units: Sequence[Any]) -> None:
    if len(units) > UNITS_MAX:
        raise MQError(MQRC.SYNCPOINT_LIMIT_REACHED, f"{len(units)} units: there are {UNITS_MAX} at most")


def _name(value: Any) -> str:
    name = checks.name(value)
    if not name.isprintable() or not name:
        raise MQError(MQRC.OBJECT_NAME_ERROR, f"{value!r} cannot name a sink: 1 to 48 printable characters")
    return name


def _query(value: Any) -> str | None:
    if value is not None and (type(value) is not str or len(value) > _QUERY_LENGTH):
        raise MQError(MQRC.OPTIONS_ERROR, f"query={value!r:.80}: a text of at most {_QUERY_LENGTH} characters, or None")
    return value


def _unit(name: claims.UnitName) -> UnitName:
    attempt = name.attempt
    if type(attempt) is not bytes or len(attempt) != _ATTEMPT_LENGTH:
        raise MQError(MQRC.OPTIONS_ERROR, f"attempt={attempt!r:.80}: {_ATTEMPT_LENGTH} random bytes")
    return UnitName(_name(name.sink), number(name.batch), number(name.partition), attempt)
