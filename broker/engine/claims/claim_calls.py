"""The calls of a connection about consumers, and about queues read by arrival number (`docs/rules/claims.md`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from broker.core.claims.claiming import Limits
from broker.core.security.rights import Right
from broker.engine.claims import ranges
from broker.interface.port import Call
from broker.mqi import checks
from broker.mqi.errors import MQError
from broker.mqi.names import is_name
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from broker.core.claims.consumer import Consumer
    from broker.core.manager import Manager
    from broker.core.queues.handles import Hconn
    from broker.core.queues.queue import LocalQueue
    from broker.engine.calls.call_order import CallOrder
    from broker.engine.calls.room import Room
    from broker.engine.context import EngineContext
    from broker.engine.manager import QueueManager
    from broker.engine.shared_queues import SharedClaims
    from broker.interface.claims.claims import BrowseSelection, ConsumerState, Cut, QueueRange, Registration

T = TypeVar("T")


class ClaimCalls:
    """A part of `Conversation`."""

    manager: QueueManager
    context: EngineContext
    core: Manager
    hconn: Hconn
    call_order: CallOrder
    room: Room

    def consumer(self, name: str, q_names: Sequence[str]) -> Call[ConsumerState]:
        return self.call_order.after_own_writes(Call(), self._consumer, name, q_names)

    def register(
        self, uuid: str, lineage: str | None, start: int | None, end: int | None, *, resume: bool = False
    ) -> Call[Registration]:
        claims = self.manager.claims
        if resume:
            return self._about(uuid, None, claims.resume, lambda shared: shared.resume(uuid))
        return self._about(
            uuid,
            None,
            lambda consumer: claims.register(consumer, lineage, _at(start), _at(end)),
            lambda shared: shared.register(uuid, lineage, _at(start), _at(end)),
        )

    def claim(
        self, uuid: str, generation: int, start: int, messages: int, size: int, *, before: int | None, whole: bool
    ) -> Call[int]:
        def limits() -> Limits:
            most = self.manager.config.limits.claim_bytes
            limits = ranges.number(messages, 1), ranges.number(size, 1), _at(before), bool(whole), most
            return Limits(*limits, self.hconn.caller)

        return self._about(
            uuid,
            generation,
            lambda consumer: self.manager.claims.claim(consumer, ranges.number(start), limits()),
            lambda shared: shared.claim(uuid, generation, ranges.number(start), limits()),
        )

    def pin(self, uuid: str, generation: int, lineage: str, start: int, end: int) -> Call[list[Cut]]:
        pin = self.manager.claims.pin
        return self._about(
            uuid,
            generation,
            lambda consumer: pin(consumer, lineage, ranges.number(start), ranges.number(end)),
            lambda shared: shared.pin(uuid, generation, lineage, ranges.number(start), ranges.number(end)),
        )

    def read_claimed(self, uuid: str, generation: int, after: int, last: int) -> Call[bytes]:
        return self.call_order.in_order(Call(), self._read_claimed, uuid, generation, after, last)

    def acknowledge(self, uuid: str, generation: int, to: int) -> Call[int]:
        return self._about(
            uuid,
            generation,
            lambda consumer: self.manager.claims.acknowledge(consumer, ranges.number(to)),
            lambda shared: shared.acknowledge(uuid, generation, ranges.number(to)),
        )

    def release(self, uuid: str, generation: int) -> Call[int]:
        release = self.manager.claims.release
        return self._about(uuid, generation, release, lambda shared: shared.release(uuid, generation))

    def queue_ranges(self, q_names: Sequence[str]) -> Call[list[QueueRange]]:
        return self.call_order.after_own_writes(Call(), self._queue_ranges, q_names)

    def browse_range(self, q_name: str, after: int, last: int, selection: BrowseSelection) -> Call[bytes]:
        return self.call_order.after_own_writes(Call(), self._browse_range, q_name, (after, last), selection)

    def browse_cuts(self, q_name: str, after: int, last: int, messages: int, size: int) -> Call[list[Cut]]:
        return self.call_order.after_own_writes(Call(), self._browse_cuts, q_name, (after, last), (messages, size))

    def _consumer(self, call: Call[ConsumerState], name: str, q_names: Sequence[str]) -> None:
        if not is_name(name):
            raise MQError(MQRC.OBJECT_NAME_ERROR, f"{name!r} cannot name a consumer: 1 to 48 of A-Z a-z 0-9 . / _ %")
        claims, sharing = self.manager.claims, self.context.sharing
        names = [checks.name(each) for each in q_names]
        self.core.consumers.judge(self.hconn.caller, names)
        if sharing is not None and name not in self.core.consumers.by_name:
            if names:
                self.core.consumers.check_names(names)
            if not names or sharing.claims.takes(names):
                sharing.answer(self.call_order, call, lambda: sharing.claims.consumer(name, names, self.hconn.caller))
                return
        known = self.core.consumers.by_name.get(name)
        if known is not None:
            self.core.consumers.judge_use(self.hconn.caller, known)
        self.call_order.change(call, claims.consumer(name, names), lock=claims.lock(name))

    def _about(
        self,
        uuid: str,
        generation: int | None,
        steps: Callable[[Consumer], Coroutine[Any, Any, Any]],
        shared: Callable[[SharedClaims], Coroutine[Any, Any, Any]],
    ) -> Call[Any]:
        """A call about a consumer: from a reader of this generation, unless it registers. `shared` makes it where the
        consumer is one of the queue-sharing group.
        """

        def make(call: Call[Any]) -> None:
            sharing = self.context.sharing
            if sharing is not None and not self.core.consumers.has(uuid):
                sharing.answer(self.call_order, call, lambda: judged(sharing.claims))
                return
            consumer = self.core.consumers.find(uuid)
            self.core.consumers.judge_use(self.hconn.caller, consumer)
            self.call_order.change(call, checked(consumer), lock=self.manager.claims.lock(consumer.name))

        async def judged(claims: SharedClaims) -> Any:
            await claims.judge(uuid, self.hconn.caller)
            return await shared(claims)

        async def checked(consumer: Consumer) -> Any:
            if generation is not None:
                consumer.check_generation(generation)
            return await steps(consumer)

        return self.call_order.after_own_writes(Call(), make)

    def _read_claimed(self, call: Call[bytes], uuid: str, generation: int, after: int, last: int) -> None:
        after, last, sharing = ranges.number(after), ranges.number(last), self.context.sharing
        if sharing is not None and not self.core.consumers.has(uuid):
            claims, longest, caller = sharing.claims, self.room.frame_bytes, self.hconn.caller

            async def read() -> bytes:
                await claims.judge(uuid, caller)
                return await claims.read_claimed(uuid, generation, after, last, longest)

            sharing.answer(self.call_order, call, read)
        else:
            self.core.consumers.judge_use(self.hconn.caller, self.core.consumers.find(uuid))
            ranges.read_claimed(self, uuid, generation, call, after, last)

    def _queue_ranges(self, call: Call[list[QueueRange]], q_names: Sequence[str]) -> None:
        sharing, names = self.context.sharing, [checks.name(each) for each in q_names]
        self.core.consumers.check_names(names)
        caller = self.hconn.caller
        if caller is not None:
            queues = self.core.consumers.queues_of(names)
            self.hconn.require(Right.BROWSE, *(each for each in names if not each.endswith("*")))
            names = [queue.name for queue in queues if caller.may(Right.BROWSE, queue.name)]
        if sharing is not None and sharing.claims.takes(names):
            self._read_shared(call, names, lambda: sharing.claims.queue_ranges(names))
        else:
            ranges.queue_ranges(self, call, names)

    def _browse_range(
        self, call: Call[bytes], q_name: str, within: tuple[int, int], selection: BrowseSelection
    ) -> None:
        queue, (after, last) = self._queue_read(q_name), ranges.within(within)
        if queue.shared:
            claims, longest = self.context.member.claims, self.room.frame_bytes
            self._read_shared(
                call, [queue.name], lambda: claims.browse_range(queue.name, after, last, selection, longest)
            )
        else:
            ranges.browse_range(self, call, queue, (after, last), selection)

    def _browse_cuts(self, call: Call[list[Cut]], q_name: str, within: tuple[int, int], most: tuple[int, int]) -> None:
        messages, size = ranges.number(most[0], 1), ranges.number(most[1], 1)
        queue, (after, last) = self._queue_read(q_name), ranges.within(within)
        if queue.shared:
            claims = self.context.member.claims
            self._read_shared(call, [queue.name], lambda: claims.browse_cuts(queue.name, after, last, messages, size))
        else:
            ranges.browse_cuts(self, call, queue, (after, last), (messages, size))

    def _read_shared(self, call: Call[T], q_names: Sequence[str], read: Callable[[], Awaitable[T]]) -> None:
        """Answer with what is read of shared queues, by a user who may browse them as the group has it now."""
        member = self.context.member

        async def judged() -> T:
            if self.hconn.caller is not None:
                await member.repository.secure()
                self.hconn.require(Right.BROWSE, *q_names)
            return await read()

        member.answer(self.call_order, call, judged)

    def _queue_read(self, q_name: str) -> LocalQueue:
        name = checks.name(q_name)
        self.hconn.require(Right.BROWSE, name)
        return self.core.objects.destination(name, "").queue


def _at(number: int | None) -> int | None:
    return None if number is None else ranges.number(number)
