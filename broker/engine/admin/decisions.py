"""RESOLVE and RESET: what an administrator decides about claims and prepared units is carried out, in the turn of the
consumer or the sink that it is about (claims rules 2.4 and 3.10).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from broker.commands import errors
from broker.commands.decisions import decided
from broker.commands.requests import ResetRequest, ResolveConsumerRequest, ResolveUnitRequest
from broker.core.prepared.unit import UnitName
from broker.core.queues.unit import IN_DOUBT
from broker.core.security.rights import Right
from broker.engine.jobs.awaits import Look, Written
from broker.engine.jobs.group_awaits import Asked
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.commands.requests import Decision
    from broker.core.claims.consumer import Consumer
    from broker.core.prepared.branches import PreparedBranch
    from broker.core.security.caller import Caller
    from broker.engine.claims.claim_jobs import ClaimJobs
    from broker.engine.claims.sink_jobs import SinkJobs
    from broker.engine.context import EngineContext
    from broker.engine.external.deciding import UnitDecisions
    from broker.engine.shared_queues import GroupWork, SharedQueues
    from broker.mqi.replies import CommandReply
    from broker.storage.store import Done


class Decisions:
    """Carries out decisions, as parts of jobs."""

    def __init__(self, context: EngineContext, claims: ClaimJobs, sinks: SinkJobs) -> None:
        self._context = context
        self._core = context.core
        self._claims = claims
        self._sinks = sinks

    async def carry_out(self, decision: Decision, caller: Caller | None) -> CommandReply:
        """The reply when all of it is durable. Raises CommandError for what is refused, and the error of the store:
        then the decision may have been carried out in part, and can be made again. Raises NOT_AUTHORIZED (2035) for a
        caller who may not clear the queues that a consumer or a sink has messages of.
        """
        match decision:
            case ResolveConsumerRequest():
                return decided(decision, *await self._resolve_consumer(decision, caller))
            case ResolveUnitRequest():
                return decided(decision, await self._resolve_unit(decision), 0)
            case ResetRequest():
                return decided(decision, await self._reset(decision.name, caller), 0)

    async def _resolve_consumer(self, decision: ResolveConsumerRequest, caller: Caller | None) -> tuple[int, int]:
        """Resolve a consumer; return the numbers of messages removed, and back on their queues."""
        consumer, sharing = self._core.consumers.by_name.get(decision.name), self._context.sharing
        try:
            if consumer is not None:
                return await self._resolve_own(consumer, decision, caller)
            if sharing is not None:
                resolve = partial(sharing.claims.resolve, decision, caller)
                return await Asked(sharing, "a decision about a consumer", resolve)
        except MQError as refused:
            if refused.reason == MQRC.SUBSCRIPTION_IN_USE:
                raise errors.in_use(refused.detail) from None
            if refused.reason != MQRC.NO_SUBSCRIPTION:
                raise
        raise errors.not_found(decision.name)

    async def _resolve_own(
        self, consumer: Consumer, decision: ResolveConsumerRequest, caller: Caller | None
    ) -> tuple[int, int]:
        async with self._claims.lock(consumer.name):
            self._core.consumers.judge_use(caller, consumer, Right.CLR)
            count = len(consumer.claims)
            removed = count - consumer.not_pinned if decision.commit else 0
            await self._claims.resolve(consumer, commit=decision.commit, pinned=decision.pinned)
            return removed, count - removed

    async def _resolve_unit(self, decision: ResolveUnitRequest) -> int:
        """Resolve a unit; return the number of messages removed."""
        branch = self._branch(decision.name)
        if branch is not None:
            return await self._resolve_branch(branch, commit=decision.commit)
        name, sharing = UnitName.parsed(decision.name), self._context.sharing
        unit = None if name is None else self._core.sinks.unit(name)
        if name is None or (unit is None and sharing is None):
            raise errors.not_found(decision.name)
        if decision.commit:
            raise errors.conflict(
                f"{decision.name} cannot be committed alone: its sink decides about all units of a batch together"
            )
        if unit is None:
            assert sharing is not None
            return await _about_sink(sharing, partial(sharing.sinks.resolve, name), decision.name)
        count = len(unit.entries)
        if await self._sinks.resolve(name):
            return count
        if self._core.sinks.unit(name) is None:  # its batch has been decided meanwhile
            raise errors.not_found(decision.name)
        raise errors.in_use(f"a piece of {decision.name} is on its way")

    def _branch(self, text: str) -> PreparedBranch | None:
        """The prepared branch of the unit of work whose id an administrator has written."""
        try:
            return self._core.branches.by_id.get(UUID(text))
        except ValueError:
            return None

    async def _resolve_branch(self, branch: PreparedBranch, *, commit: bool) -> int:
        """The administrator knows what the group, or the database of a program, cannot tell: how many messages are
        removed.
        """
        if branch.unit.state != IN_DOUBT:
            raise errors.in_use(f"unit {branch.id} is being committed")
        if branch.external:
            await ResolvedUnit(self._context.external_units().decisions, branch, commit=commit)
            return len(branch.gets if commit else branch.puts)
        sharing = self._context.sharing
        if sharing is not None:
            sharing.units.resolved(branch.id, committed=commit)
        rows = self._core.branches.decide(self._core, branch, committed=commit)

        def settle(_: Exception | None) -> None:
            self._context.settle(branch.unit, committed=commit)

        await Written(self._context.journal, rows, settle)
        return len(branch.gets if commit else branch.puts)

    async def _reset(self, name: str, caller: Caller | None) -> int:
        """Reset a sink; return the number of messages removed with its units."""
        sink, sharing = self._core.sinks.by_name.get(name), self._context.sharing
        if sink is None and sharing is not None:
            return await _about_sink(sharing, partial(sharing.sinks.reset, name, caller), name)
        if sink is None:
            raise errors.not_found(name)
        count = sum(len(unit.entries) for unit in sink.units.values())
        await self._sinks.reset(name, caller)
        return count


class ResolvedUnit(Look[None]):
    """A unit that a database of a program's own decides ends as an administrator has decided, durably. Raises
    STORAGE_MEDIUM_FULL (2192) where it ends when there is room.
    """

    __slots__ = ("_branch", "_commit", "_decisions")

    answer = None

    def __init__(self, decisions: UnitDecisions, branch: PreparedBranch, *, commit: bool) -> None:
        self._decisions = decisions
        self._branch = branch
        self._commit = commit

    def begin(self, done: Done) -> None:
        def answered(reason: int) -> None:
            done(None if not reason else MQError(reason, f"unit {self._branch.id} ends so when there is room"))

        self._decisions.resolve(self._branch, commit=self._commit, answered=answered)


async def _about_sink(sharing: SharedQueues, work: GroupWork[int], name: str) -> int:
    """Decide about a sink of the group, or a unit of one, named so: how many messages are removed."""
    try:
        return await Asked(sharing, "a decision about a sink", work)
    except MQError as refused:
        if refused.reason == MQRC.UNKNOWN_OBJECT_NAME:
            raise errors.not_found(name) from None
        raise
