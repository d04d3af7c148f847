"""The consumers of a queue manager: by name, by uuid, and by the number that the store has for them."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from broker.core.claims.consumer import Consumer, unknown
from broker.core.message.rows import Rows
from broker.core.names import dynamic
from broker.core.names.resolution import UnknownNameError
from broker.core.security.rights import Right
from broker.mqi.errors import MQError
from broker.mqi.names import is_generic_name
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from broker.core.claims.group_consumer import GroupConsumer
    from broker.core.message.entry import Entry
    from broker.core.message.rows import ObjectRow
    from broker.core.names.objects import Objects
    from broker.core.queues.queue import LocalQueue
    from broker.core.security.caller import Caller

CONSUMERS_MAX: Final = 1000


class Consumers:
    """All consumers."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.by_name: dict[str, Consumer] = {}
        self._by_uuid: dict[str, Consumer] = {}
        self._by_number: dict[int, Consumer] = {}
        self.of_group: dict[str, GroupConsumer] = {}  # by name, as the group was last asked

    def find(self, uuid: str) -> Consumer:
        """The consumer of this uuid. Raises NO_SUBSCRIPTION (2428)."""
        consumer = self._by_uuid.get(uuid)
        if consumer is None:
            raise unknown(uuid)
        return consumer

    def has(self, uuid: str) -> bool:
        """True if there is one of this uuid."""
        return uuid in self._by_uuid

    def holder(self, number: int) -> Consumer | None:
        """The consumer with this number in the store."""
        return self._by_number.get(number)

    def all(self) -> Iterator[Consumer]:
        """Yield the consumers of the queue manager, and the known ones of its queue-sharing group."""
        return chain(self.by_name.values(), self.of_group.values())

    def claimed_of(self, queue: LocalQueue) -> int:
        """Return the number of claimed messages of a queue; of a shared one, when the group was last asked."""
        if not queue.shared:
            return queue.claimed
        return sum(each.counts.get(queue, 0) for each in self.of_group.values())

    # How they come

    def make(self, name: str, q_names: Sequence[str], uuid: str) -> tuple[Consumer, Rows]:
        """A new consumer, to be added when its row is durable. Raises SYNCPOINT_LIMIT_REACHED (2024)."""
        if len(self.by_name) >= CONSUMERS_MAX:
            raise MQError(MQRC.SYNCPOINT_LIMIT_REACHED, f"there are {CONSUMERS_MAX} consumers, and no more may be")
        consumer = Consumer(name, self._objects.ids.next(), uuid, q_names)
        return consumer, Rows(objects=[consumer.row()])

    def add(self, consumer: Consumer) -> None:
        """A consumer is durable."""
        self.by_name[consumer.name] = consumer
        self._by_uuid[consumer.uuid] = consumer
        self._by_number[consumer.number] = consumer

    def load(self, row: ObjectRow) -> None:
        """A consumer as the store kept it."""
        self.add(Consumer.from_row(row))

    def load_claims(self, number: int, claimed: Sequence[tuple[int, Entry]]) -> list[int]:
        """The messages that a consumer had claimed, with their sequences. The ids of those that it has acknowledged
        already, or that nobody knows: they are to be removed.
        """
        consumer = self._by_number.get(number)
        if consumer is None:
            return [entry.id for _, entry in claimed]
        live = [each for each in claimed if each[0] > consumer.acknowledged]
        for _, entry in live:
            entry.queue.load_claimed([entry])
        consumer.load(live)
        return [entry.id for sequence, entry in claimed if sequence <= consumer.acknowledged]

    # Their queues

    def check_names(self, q_names: Sequence[str]) -> None:
        """Raise OBJECT_NAME_ERROR (2152) for a name that is none, and for one that is not generic and not that of a
        queue to claim from: UNKNOWN_OBJECT_NAME (2085), Q_TYPE_ERROR (2057), OPTION_NOT_VALID_FOR_TYPE (2045).
        """
        if not q_names:
            raise MQError(MQRC.OBJECT_NAME_ERROR, "a consumer needs the name of a queue, or several")
        for name in q_names:
            if not is_generic_name(name):
                raise MQError(MQRC.OBJECT_NAME_ERROR, f"{name!r} is not the name of a queue, nor a generic one (A.*)")
            if not name.endswith("*"):
                self._check_queue(name)

    def _check_queue(self, name: str) -> None:
        queue = self._objects.queues.get(name)
        if queue is None and name in self._objects.indirect_queues:
            raise MQError(MQRC.Q_TYPE_ERROR, f"{name} is no local queue: name the queue that it stands for")
        if queue is None:
            raise UnknownNameError(MQRC.UNKNOWN_OBJECT_NAME, f"there is no queue {name}")
        if dynamic.is_temporary(queue.definition):
            raise MQError(
                MQRC.OPTION_NOT_VALID_FOR_TYPE, f"{name} is a temporary dynamic queue: it ends with who opened it"
            )

    def names(self, consumer: Consumer, queue: LocalQueue) -> bool:
        """True if a consumer claims from this queue."""
        return any(
            queue.name.startswith(name[:-1]) and not dynamic.is_temporary(queue.definition)
            if name.endswith("*")
            else name == queue.name
            for name in consumer.q_names
        )

    def judge(
        self,
        caller: Caller | None,
        q_names: Sequence[str],
        claimed: Iterable[str] = (),
        wanted: Right = Right.GET,
    ) -> None:
        """Raise NOT_AUTHORIZED (2035) for a caller who has not the wanted right on each queue that is named, and on
        each from which messages are claimed; of those that a generic name means, on one at least.
        """
        if caller is None:
            return
        for name in (*(each for each in q_names if not each.endswith("*")), *claimed):
            caller.require(wanted, name)
        for name in q_names:
            if name.endswith("*") and not any(caller.may(wanted, queue.name) for queue in self._named(name)):
                caller.require(wanted, name)

    def judge_use(self, caller: Caller | None, consumer: Consumer, wanted: Right = Right.GET) -> None:
        """As `judge`, of a consumer that is there."""
        self.judge(caller, consumer.q_names, [queue.name for queue in consumer.counts], wanted)

    def queues_of(self, q_names: Sequence[str]) -> list[LocalQueue]:
        """The queues that names, some of them generic, mean now: by name, none twice."""
        found = {queue.name: queue for name in q_names for queue in self._named(name)}
        return [found[name] for name in sorted(found)]

    def queues_for(self, consumer: Consumer) -> list[LocalQueue]:
        """The queues that a consumer claims from now, by name: they are all shared, or none is."""
        return [queue for queue in self.queues_of(consumer.q_names) if queue.shared == consumer.shared]

    def _named(self, name: str) -> Iterator[LocalQueue]:
        queues = self._objects.queues
        if not name.endswith("*"):
            if name in queues:
                yield queues[name]
            return
        for each in list(queues.values()):
            if each.name.startswith(name[:-1]) and not dynamic.is_temporary(each.definition):
                yield each

    def check_invariants(self) -> None:
        """Raise AssertionError when a structure is broken. For tests."""
        claimed: dict[LocalQueue, int] = {}
        for consumer in self.by_name.values():
            assert consumer.base <= consumer.next - 1
            assert consumer.acknowledged <= consumer.pinned <= consumer.next - 1
            assert len(consumer.claims) == consumer.next - 1 - consumer.acknowledged
            for queue, count in consumer.counts.items():
                claimed[queue] = claimed.get(queue, 0) + count
        for queue in self._objects.queues.values():
            assert queue.claimed >= claimed.get(queue, 0)
