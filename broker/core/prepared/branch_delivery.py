"""The delivery that ends with a prepared branch: what is known of it while the branch is in doubt, over restarts too.

Its messages are in the branch's unit of work. It is charged nothing before the decision, counts in no `total`, and
holds its place in the order by key (handlers rule 6.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from broker.core.message.entry import ID_MASK
from broker.mqi.delivery_fields import ServiceOptions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.deliveries.delivery import Delivery
    from broker.core.message.entry import Entry
    from broker.core.queues.message_queue import MessageQueue

_DEFAULTS = ServiceOptions()


class BranchDelivery:
    """`suspect`: its messages were quarantined, and `alone`: no other was beside it (handlers rule 1.4). `delivery` is
    the delivery itself, while the queue manager is the one that has handed it out.
    """

    __slots__ = ("alone", "delivery", "entries", "ids", "options", "order_value", "queue", "ran", "suspect", "worker")

    def __init__(
        self, options: ServiceOptions, worker: str, ids: list[int], ran: float, *, suspect: bool, alone: bool
    ) -> None:
        self.options = options
        self.worker = worker
        self.ids = ids  # of its persistent messages
        self.ran = ran  # for how many seconds its handler ran
        self.suspect = suspect
        self.alone = alone
        self.queue: MessageQueue | None = None
        self.entries: list[Entry] = []
        self.order_value: object = None  # that is held
        self.delivery: Delivery | None = None

    @classmethod
    def of(cls, delivery: Delivery, ran: float, *, alone: bool) -> Self:
        """That of a delivery in flight."""
        entries, worker = delivery.entries, delivery.worker.name
        ids = [entry.number or entry.key & ID_MASK for entry in entries if entry.persistence]
        found = cls(delivery.service.options, worker, ids, ran, suspect=delivery.quarantined, alone=alone)
        found.delivery, found.entries, found.queue = delivery, entries, delivery.service.queue
        return found

    def find(self, entries: Iterable[Entry]) -> None:
        """Its messages are among these, of a branch that was loaded."""
        ids = set(self.ids)
        self.entries = [entry for entry in entries if entry.id in ids]
        if self.entries:
            self.queue = self.entries[0].queue

    def fields(self) -> list[Any]:
        """As the row of the branch keeps it."""
        pairs = zip(ServiceOptions._fields, self.options, _DEFAULTS, strict=True)
        options = {name: value for name, value, default in pairs if value != default}
        return [options, self.worker, self.ids, self.ran, self.suspect, self.alone]

    @classmethod
    def from_fields(cls, fields: list[Any]) -> Self:
        """As a row has kept it."""
        options, worker, ids, ran, suspect, alone = fields
        if "backoff" in options:
            options["backoff"] = tuple(options["backoff"])
        known = {name: value for name, value in options.items() if name in ServiceOptions._fields}
        return cls(ServiceOptions(**known), worker, ids, ran, suspect=suspect, alone=alone)
