"""The answers to the calls of a port.

Those about deliveries are in `broker.interface.handlers.delivery_answers`, those about claims and prepared units in
`broker.interface.claims.claims`.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from broker.mqi.reasons import MQCC

if TYPE_CHECKING:
    from broker.mqi.errors import MQError
    from broker.mqi.structures import ResponseRecord


class Connected(NamedTuple):
    """The queue manager that a program has connected to. `seconds_left` is the time until the token or the certificate
    that has proved its user ends; infinity if nothing ends. `instance` is the UUID of its data; "": it is too old to
    tell.
    """

    q_mgr_name: str
    seconds_left: float = inf
    instance: str = ""


class Distribution(NamedTuple):
    """The outcome of a call for a distribution list: a record for each destination, and the number of those where it
    succeeded that lead to other queue managers (UnknownDestCount).
    """

    records: tuple[ResponseRecord, ...] = ()
    unknown_dest_count: int = 0

    @property
    def invalid_dest_count(self) -> int:
        """The number of destinations where it failed."""
        return sum(record.completion == MQCC.FAILED for record in self.records)

    @property
    def known_dest_count(self) -> int:
        """The number of destinations on this queue manager where it succeeded."""
        return len(self.records) - self.invalid_dest_count - self.unknown_dest_count


NO_LIST = Distribution()
"""The distribution of what is no distribution list."""


class Opened(NamedTuple):
    """The answer to MQOPEN: the handle, what the name resolved to, and attributes of the queue as they were then:
    whether puts that do not say are asynchronous (DEFPRESP), and messages persistent (DEFPSIST), and whether messages
    are read ahead (DEFREADA, a value of MQREADA). `distribution` is for distribution lists.
    """

    hobj: int
    name: str
    resolved_q_name: str
    resolved_q_mgr_name: str
    reason: int
    answers_puts_later: bool = False
    persistent: bool = False
    read_ahead: int = 0
    distribution: Distribution = NO_LIST


class LogPiece(NamedTuple):
    """Lines of the log of a queue manager, the number of the last of them, and that of the last line of all."""

    last: int
    end: int
    lines: list[str]


class Placed(NamedTuple):
    """The answer to MQPUT: the fields of the descriptor that the put completed. `packed_md` is packed
    (`broker.mqi.layouts.packing`). What the name resolved to is for MQPUT1, since that of a put is its handle's, and
    `distribution` for distribution lists.
    """

    packed_md: bytes
    msg_id: bytes
    correl_id: bytes
    group_id: bytes
    msg_seq_number: int
    offset: int
    original_length: int
    priority: int
    persistence: int
    reason: int
    resolved_q_name: str = ""
    resolved_q_mgr_name: str = ""
    distribution: Distribution = NO_LIST
    deliver_at: float = 0.0
    duplicate: bool = False
    same_data: bool = True


class PlacedMany(NamedTuple):
    """The answer to a batch of puts: what was put, in order, and why the message after these was not; None when all
    were put.
    """

    placed: list[Placed]
    error: MQError | None = None


class GetAnswer(NamedTuple):
    """The answer to MQGET. `length` is the whole length of the message, `data` what fits the caller's buffer,
    `properties` the packed properties for the mapping (`broker.mqi.layouts.rfh2`).
    """

    packed_md: bytes
    msg_id: bytes
    correl_id: bytes
    group_id: bytes
    msg_seq_number: int
    offset: int
    msg_flags: int
    original_length: int
    priority: int
    persistence: int
    expiry: int
    backout_count: int
    token: bytes
    data: bytes
    length: int
    reason: int
    properties: bytes = b""
    deliver_at: float = 0.0


class PendingQueue(NamedTuple):
    """A queue whose TriggerPendingCount is above zero, and the process definition that it names."""

    q_name: str
    process_name: str
    appl_id: str
    starts: int


class PendingStarts(NamedTuple):
    """The trigger counts of a queue manager at one moment. `posts` grows with each count: wait for more than it."""

    posts: int
    queues: list[PendingQueue]


class StartLease(NamedTuple):
    """One start, taken from a queue's TriggerPendingCount: `trigger` is the MQTMC2 of 732 bytes."""

    id: int
    trigger: bytes
