"""The calls of a connection about consumers, and about queues read by arrival number (`docs/claims.md`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from broker.core.claims.claiming import Limits
from broker.engine import ranges
from broker.interface.port import Call
from broker.mqi import checks
from broker.mqi.errors import MQError
from broker.mqi.names import is_name
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.core.claims.consumer import Consumer
    from broker.core.manager import Manager
    from broker.engine.call_order import CallOrder
    from broker.engine.context import EngineContext
    from broker.engine.jobs import Steps
    from broker.engine.manager import QueueManager
    from broker.engine.room import Room
    from broker.interface.claims import ConsumerState, Cut, QueueRange, Registration, Wanted


class ClaimCalls:
    """A part of `Conversation`."""

    manager: QueueManager
    context: EngineContext
    core: Manager
    call_order: CallOrder
    room: Room

    def consumer(self, name: str, q_names: Sequence[str]) -> Call[ConsumerState]:
        return self.call_order.after_own_writes(Call(), self._consumer, name, q_names)

    def register(
        self, uuid: str, lineage: str | None, start: int | None, end: int | None, *, resume: bool = False
    ) -> Call[Registration]:
        if resume:
            return self._about(uuid, None, lambda call, consumer: self.manager.claims.resume(call, consumer))
        register = self.manager.claims.register
        return self._about(uuid, None, lambda call, consumer: register(call, consumer, lineage, _at(start), _at(end)))

    def claim(
        self, uuid: str, generation: int, start: int, messages: int, size: int, *, before: int | None, whole: bool
    ) -> Call[int]:
        def steps(call: Call[int], consumer: Consumer) -> Steps:
            most = self.manager.config.limits.claim_bytes
            limits = Limits(ranges.number(messages, 1), ranges.number(size, 1), _at(before), bool(whole), most)
            claims = self.manager.claims
            return claims.claim(call, consumer, ranges.number(start), limits)

        return self._about(uuid, generation, steps)

    def pin(self, uuid: str, generation: int, lineage: str, start: int, end: int) -> Call[list[Cut]]:
        pin = self.manager.claims.pin
        return self._about(
            uuid,
            generation,
            lambda call, consumer: pin(call, consumer, lineage, ranges.number(start), ranges.number(end)),
        )

    def read_claimed(self, uuid: str, generation: int, after: int, last: int) -> Call[bytes]:
        return self.call_order.in_order(Call(), partial(ranges.read_claimed, self, uuid, generation), after, last)

    def acknowledge(self, uuid: str, generation: int, to: int) -> Call[int]:
        acknowledge = self.manager.claims.acknowledge
        return self._about(uuid, generation, lambda call, consumer: acknowledge(call, consumer, ranges.number(to)))

    def release(self, uuid: str, generation: int) -> Call[int]:
        return self._about(uuid, generation, lambda call, consumer: self.manager.claims.release(call, consumer))

    def queue_ranges(self, q_names: Sequence[str]) -> Call[list[QueueRange]]:
        return self.call_order.after_own_writes(Call(), partial(ranges.queue_ranges, self), q_names)

    def browse_range(self, q_name: str, after: int, last: int, wanted: Wanted) -> Call[bytes]:
        browse = partial(ranges.browse_range, self)
        return self.call_order.after_own_writes(Call(), browse, q_name, (after, last), wanted)

    def browse_cuts(self, q_name: str, after: int, last: int, messages: int, size: int) -> Call[list[Cut]]:
        cuts = partial(ranges.browse_cuts, self)
        return self.call_order.after_own_writes(Call(), cuts, q_name, (after, last), (messages, size))

    def _consumer(self, call: Call[ConsumerState], name: str, q_names: Sequence[str]) -> None:
        if not is_name(name):
            raise MQError(MQRC.OBJECT_NAME_ERROR, f"{name!r} cannot name a consumer: 1 to 48 of A-Z a-z 0-9 . / _ %")
        claims = self.manager.claims
        names = [checks.name(each) for each in q_names]
        self.call_order.change(call, claims.in_turn(name, claims.consumer(call, name, names)))

    def _about(self, uuid: str, generation: int | None, steps: Callable[[Call[Any], Consumer], Steps]) -> Call[Any]:
        """A call about a consumer: from a reader of this generation, unless it registers."""

        def make(call: Call[Any]) -> None:
            consumer = self.manager.core.consumers.find(uuid)
            self.call_order.change(call, self.manager.claims.in_turn(consumer.name, checked(call, consumer)))

        def checked(call: Call[Any], consumer: Consumer) -> Steps:
            if generation is not None:
                consumer.check_generation(generation)
            yield from steps(call, consumer)

        return self.call_order.after_own_writes(Call(), make)


def _at(number: int | None) -> int | None:
    return None if number is None else ranges.number(number)
