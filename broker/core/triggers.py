"""Trigger conditions of the fast path, and TriggerPendingCount.

The count lives with the queue, as in TPF: a committed put to a trigger EVERY queue raises it by one, a trigger
monitor takes starts off it. FIRST keeps one bit: there is a start pending or there is not. The numbers are those of
`docs/triggers.md`: the fast path (S-12, R-6 and so on), conditions and events (C2, C4, E1, E3).

A start taken is a lease until it is done; what a broken connection held is pending again.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from broker.core.message.entry import rank_of
from broker.mqi.attribute_values import MQTT
from broker.mqi.layouts import MQTMC2

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from broker.core.message.entry import Entry
    from broker.core.names.definitions import Definition
    from broker.core.queues.effects import Effects
    from broker.core.queues.handles import Hconn
    from broker.core.queues.message_queue import MessageQueue

_FIRST = MQTT.FIRST.value
_EVERY = MQTT.EVERY.value


class Triggers:
    """The trigger counts of a queue manager, and the leases on starts taken from them."""

    def __init__(self, q_mgr_name: str, processes: Mapping[str, Definition], effects: Effects) -> None:
        self._effects = effects
        self._q_mgr_name = q_mgr_name
        self._processes = processes
        self._pending: dict[MessageQueue, None] = {}  # queues whose count is above 0
        self._leases: dict[int, tuple[MessageQueue, Hconn]] = {}
        self._held: dict[Hconn, dict[int, None]] = {}  # the leases of each connection that has any
        self._running: dict[MessageQueue, int] = {}  # how many there are for each queue that has any
        self._last_lease = 0
        self.posts = 0  # grows with every post: a monitor waits for more than it has seen
        self.interval_ms = 999_999_999

    # Conditions

    def fast_path(self, queue: MessageQueue) -> bool:
        """C6, C9, C10 and R-8: triggering is on, its type is EVERY or FIRST, it names a process that exists and no
        initiation queue.
        """
        return (
            queue.trigger_on
            and queue.trigger_type in (_EVERY, _FIRST)
            and not queue.initiation_q_name
            and queue.process_name in self._processes
        )

    def judges(self, queue: MessageQueue) -> bool:
        """Whether each put to this queue is to be judged when it is made (`meets_first`)."""
        return queue.trigger_on and queue.trigger_type == _FIRST and self.fast_path(queue)

    def meets_first(self, queue: MessageQueue, entry: Entry, tick: float) -> bool:
        """Whether this put meets FIRST (C2, C3, C4; E2 after TRIGINT). Judged when it is put, uncommitted or not."""
        if not self.judges(queue) or rank_of(entry.key) < queue.trigger_priority:
            return False
        return self._comes_first(queue, 1, tick)

    def meets_first_together(self, queue: MessageQueue, entries: Sequence[Entry], tick: float) -> bool:
        """Whether one of these messages, which have become available in one step, meets FIRST as a put would."""
        if not self.judges(queue):
            return False
        came = sum(rank_of(entry.key) >= queue.trigger_priority for entry in entries)
        return came > 0 and self._comes_first(queue, came, tick)

    def _comes_first(self, queue: MessageQueue, came: int, tick: float) -> bool:
        """Whether so many messages of the queue that have just come are its first, or the first for TRIGINT."""
        if queue.input_count:
            return False
        if queue.qualifying() > came:
            last = queue.first_triggered
            if last is not None and (tick - last) * 1000 < self.interval_ms:
                return False
        queue.first_triggered = tick
        return True

    def arrived(self, queue: MessageQueue, entries: Sequence[Entry]) -> None:
        """Committed puts: count them if the queue is trigger EVERY (S-12, R-6, R-7). A message that the queue manager
        cut counts once, with its first piece.
        """
        if queue.trigger_type == _EVERY and self.fast_path(queue):
            starts = sum(entry.triggers and rank_of(entry.key) >= queue.trigger_priority for entry in entries)
            if starts:
                self.count(queue, queue.pending_starts + starts)
                self.post()

    def fire_first(self, queue: MessageQueue) -> None:
        """A unit of work whose put met FIRST is over, committed or backed out (R-9)."""
        if queue.trigger_type == _FIRST and not queue.deleted and self.fast_path(queue):
            self.count(queue, 1)
            self.post()

    def last_input_closed(self, queue: MessageQueue, tick: float) -> None:
        """E3: nobody has the queue open for input any more, and FIRST still finds a message."""
        if queue.trigger_type == _FIRST and self.fast_path(queue) and not queue.input_count and queue.qualifying():
            queue.first_triggered = tick
            self.fire_first(queue)

    def recount(self, queue: MessageQueue) -> None:
        """Triggering was switched or changed, or the queue manager starts (R-12, R-13): count what waits.

        Segments that are on the queue already count one start each. Which of them were one message to the program that
        put it is known only while they arrive: the store does not keep it.
        """
        self.count(queue, 0)
        if not self.fast_path(queue):
            return
        waiting = queue.count_available(queue.trigger_priority)
        if queue.trigger_type == _EVERY:
            self.count(queue, waiting)
        elif queue.trigger_type == _FIRST and waiting and not queue.input_count:
            self.count(queue, 1)
        if queue.pending_starts:
            self.post()

    def count(self, queue: MessageQueue, starts: int) -> None:
        """The TriggerPendingCount of the queue is this now."""
        queue.pending_starts = starts
        if starts:
            self._pending[queue] = None
        else:
            self._pending.pop(queue, None)

    def post(self) -> None:
        """Wake the monitors (TPF's postc)."""
        self.posts += 1
        self._effects.posted = True

    # Starts

    def startable(self, queue: MessageQueue) -> bool:
        """Whether a monitor may take starts of this queue now: GET(DISABLED) holds them back (R-11)."""
        return queue.pending_starts > 0 and not queue.get_inhibited and self.fast_path(queue)

    def pending(self) -> list[MessageQueue]:
        """The queues of which starts may be taken, by name. That there are many others costs nothing."""
        return sorted(filter(self.startable, self._pending), key=attrgetter("name"))

    def process(self, queue: MessageQueue) -> Definition:
        """The process definition that the queue names."""
        return self._processes[queue.process_name]

    def appl_id(self, queue: MessageQueue) -> str:
        """ApplId of the process definition."""
        return str(self.process(queue).attributes["APPLICID"])

    def take(self, queue: MessageQueue, hconn: Hconn, limit: int) -> list[tuple[int, bytes]]:
        """Take up to `limit` starts: a lease and its trigger message each. The count falls in the same step (R-1)."""
        if not self.startable(queue):
            return []
        number = min(limit, queue.pending_starts)
        self.count(queue, queue.pending_starts - number)
        message = bytes(self._message(queue))
        return [(self._lease(queue, hconn), message) for _ in range(number)]

    def done(self, hconn: Hconn, lease: int) -> MessageQueue | None:
        """The start has been carried out. The queue it was for; None when the connection does not hold this lease."""
        queue, holder = self._leases.get(lease, (None, None))
        if queue is None or holder is not hconn:
            return None
        del self._leases[lease]
        held = self._held[hconn]
        del held[lease]
        if not held:
            del self._held[hconn]
        self._running[queue] -= 1
        if not self._running[queue]:
            del self._running[queue]
        return queue

    def give_back(self, hconn: Hconn, lease: int) -> None:
        """The start was not carried out: it is pending again, if there is a message that has none pending. Else that
        message has gone, and who was started for it would find nothing.
        """
        queue = self.done(hconn, lease)
        if queue is None or queue.deleted or not self.fast_path(queue):
            return
        wanted = queue.message_count
        if queue.pending_starts < (min(wanted, 1) if queue.trigger_type == _FIRST else wanted):
            self.count(queue, queue.pending_starts + 1)
            self.post()

    def held_by(self, hconn: Hconn) -> list[int]:
        """The leases of a connection."""
        return list(self._held.get(hconn, ()))

    def leased(self, queue: MessageQueue) -> int:
        """How many starts of this queue are under way."""
        return self._running.get(queue, 0)

    def _lease(self, queue: MessageQueue, hconn: Hconn) -> int:
        self._last_lease += 1
        self._leases[self._last_lease] = (queue, hconn)
        self._held.setdefault(hconn, {})[self._last_lease] = None
        self._running[queue] = self._running.get(queue, 0) + 1
        return self._last_lease

    def _message(self, queue: MessageQueue) -> MQTMC2:
        process = self.process(queue).attributes
        return MQTMC2(
            q_name=queue.name,
            process_name=queue.process_name,
            trigger_data=queue.trigger_data,
            appl_id=str(process["APPLICID"]),
            env_data=str(process["ENVRDATA"]),
            user_data=str(process["USERDATA"]),
            q_mgr_name=self._q_mgr_name,
        )
