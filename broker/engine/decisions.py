"""RESOLVE and RESET: what an administrator decides about claims and prepared units is carried out, in the turn of the
consumer or the sink that it is about (claims rules 2.4 and 3.10).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from broker.commands import errors
from broker.commands.decisions import decided
from broker.commands.requests import ResetRequest, ResolveConsumerRequest, ResolveUnitRequest
from broker.core.prepared.unit import PreparedUnit
from broker.core.queues.unit import IN_DOUBT
from broker.engine.group_commands import Asked, Resolved
from broker.engine.looks import Written
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from broker.commands.requests import Decision
    from broker.core.claims.consumer import Consumer
    from broker.core.prepared.half import PrivateHalf
    from broker.engine.claim_jobs import ClaimJobs
    from broker.engine.context import EngineContext
    from broker.engine.jobs import Look
    from broker.engine.shared_desk import SharedDesk
    from broker.engine.sink_jobs import SinkJobs
    from broker.mqi.replies import CommandReply


class Decisions:
    """Carries out decisions, as parts of jobs."""

    def __init__(self, context: EngineContext, claims: ClaimJobs, sinks: SinkJobs) -> None:
        self._context = context
        self._core = context.core
        self._claims = claims
        self._sinks = sinks

    def carry_out(self, decision: Decision) -> Generator[Look | None, Exception | None, CommandReply]:
        """The reply when all of it is durable. Raises CommandError for what is refused, and the error of the store:
        then the decision may have been carried out in part, and can be made again.
        """
        match decision:
            case ResolveConsumerRequest():
                consumer = self._core.consumers.by_name.get(decision.name)
                if consumer is None:
                    return (yield from self._resolve_in_group(decision))
                steps = self._resolve_consumer(consumer, decision)
                removed, returned = yield from self._claims.in_turn(consumer.name, steps)
                return decided(decision, removed, returned)
            case ResolveUnitRequest():
                return decided(decision, (yield from self._resolve_unit(decision)), 0)
            case ResetRequest():
                return decided(decision, (yield from self._reset(decision.name)), 0)

    def _resolve_in_group(
        self, decision: ResolveConsumerRequest
    ) -> Generator[Look | None, Exception | None, CommandReply]:
        """The decision about a consumer of the queue-sharing group, if there is one of that name."""
        if self._context.sharing is None:
            raise errors.not_found(decision.name)
        resolved = Resolved(self._context.sharing, decision)
        error = yield resolved
        if isinstance(error, MQError):
            if error.reason == MQRC.SUBSCRIPTION_IN_USE:
                raise errors.in_use(error.detail)
            if error.reason == MQRC.NO_SUBSCRIPTION:
                raise errors.not_found(decision.name)
        if error is not None:
            raise error
        return decided(decision, *resolved.counts)

    def _resolve_unit(self, decision: ResolveUnitRequest) -> Generator[Look | None, Exception | None, int]:
        """How many messages are removed."""
        half = self._half(decision.name)
        if half is not None:
            return (yield from self._resolve_half(half, commit=decision.commit))
        unit, sharing = self._unit(decision.name), self._context.sharing
        if unit is None and (sharing is None or "/" not in decision.name):
            raise errors.not_found(decision.name)
        if decision.commit:
            raise errors.conflict(
                f"{decision.name} cannot be committed alone: its sink decides about all units of a batch together"
            )
        if unit is None:
            assert sharing is not None
            return (yield from self._asked(sharing, partial(sharing.sinks.resolve, decision.name), decision.name))
        count, done = len(unit.entries), list[PreparedUnit]()
        error = yield from self._sinks.resolve(unit.name, done)
        if error is not None:
            raise error
        if done:
            return count
        if self._unit(decision.name) is None:  # its batch has been decided meanwhile
            raise errors.not_found(decision.name)
        raise errors.in_use(f"a piece of {decision.name} is on its way")

    def _asked(
        self, sharing: SharedDesk, work: Callable[[], Coroutine[Any, Any, int]], name: str
    ) -> Generator[Look | None, Exception | None, int]:
        """What is decided about a sink of the group, or a unit of one, named so: how many messages are removed."""
        asked = Asked(sharing, "a decision about a sink", work)
        error = yield asked
        if isinstance(error, MQError) and error.reason == MQRC.UNKNOWN_OBJECT_NAME:
            raise errors.not_found(name)
        if error is not None:
            raise error
        return asked.answer

    def _half(self, text: str) -> PrivateHalf | None:
        """The private half of the unit of work whose id an administrator has written."""
        try:
            return self._core.halves.by_id.get(UUID(text))
        except ValueError:
            return None

    def _resolve_half(self, half: PrivateHalf, *, commit: bool) -> Generator[Look | None, Exception | None, int]:
        """The administrator knows what the group cannot tell: how many messages are removed."""
        if half.unit.state != IN_DOUBT:
            raise errors.in_use(f"unit {half.id} is being committed")
        sharing = self._context.sharing
        if sharing is not None:
            sharing.resolved(half.id, committed=commit)
        rows = self._core.halves.decide(self._core, half, committed=commit)

        def settle(_: Exception | None) -> None:
            self._context.settle(half.unit, committed=commit)

        error = yield Written(self._context.journal, rows, settle)
        if error is not None:
            raise error
        return len(half.gets if commit else half.puts)

    def _unit(self, text: str) -> PreparedUnit | None:
        """The unit whose name an administrator has written, the attempt in either case."""
        sink, *_ = text.rsplit("/", 3)
        units = self._core.sinks.by_name[sink].units if sink in self._core.sinks.by_name else {}
        stem, _, attempt = text.rpartition("/")
        return next((unit for name, unit in units.items() if name.text == f"{stem}/{attempt.lower()}"), None)

    def _reset(self, name: str) -> Generator[Look | None, Exception | None, int]:
        """How many messages are removed with the units of the sink."""
        sink, sharing = self._core.sinks.by_name.get(name), self._context.sharing
        if sink is None and sharing is not None:
            return (yield from self._asked(sharing, partial(sharing.sinks.reset, name), name))
        if sink is None:
            raise errors.not_found(name)
        count = sum(len(unit.entries) for unit in sink.units.values())
        error = yield from self._sinks.reset(name)
        if error is not None:
            raise error
        return count

    def _resolve_consumer(
        self, consumer: Consumer, decision: ResolveConsumerRequest
    ) -> Generator[Look | None, Exception | None, tuple[int, int]]:
        """How many messages are removed, and how many are back on their queues."""
        count = len(consumer.claims)
        removed = count - consumer.not_pinned if decision.commit else 0
        try:
            error = yield from self._claims.resolve(consumer, commit=decision.commit, pinned=decision.pinned)
        except MQError as refused:
            if refused.reason == MQRC.SUBSCRIPTION_IN_USE:
                raise errors.in_use(refused.detail) from None
            raise
        if error is not None:
            raise error
        return removed, count - removed
