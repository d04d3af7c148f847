"""Trigger events, and TriggerPendingCount.

Where a queue names an initiation queue, an event leads to a trigger message there. Else the queue is on the fast path:
its count lives with it, as in TPF. A committed put to a trigger EVERY queue raises it by one, a trigger monitor takes
starts off it. FIRST and DEPTH keep one bit: there is a start pending or there is not. The numbers are those of
`docs/rules/triggers.md`: the fast path (S-12, R-6 and so on), conditions and events (C2, C4, E1, E3).

A start taken is a lease (`start_leases`) until it is done; what a broken connection held is pending again.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from broker.core.message.entry import rank_of
from broker.core.message.generated.trigger_message import TriggerEvent, TriggerMessage, describe
from broker.core.names.definitions import Definition
from broker.core.names.trigger_conditions import unmet
from broker.core.start_leases import StartLeases
from broker.mqi.constants.attribute_values import MQTT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from broker.core.message.entry import Entry
    from broker.core.names.objects import Objects
    from broker.core.queues.effects import Effects
    from broker.core.queues.handles import Hconn
    from broker.core.queues.message_queue import MessageQueue
    from broker.core.queues.queue import LocalQueue
    from broker.core.queues.unit import Unit

_NONE = MQTT.NONE.value
_FIRST = MQTT.FIRST.value
_EVERY = MQTT.EVERY.value
_DEPTH = MQTT.DEPTH.value


class Triggers:
    """The trigger events of a queue manager, its trigger counts, and the leases on starts taken from them."""

    def __init__(self, objects: Objects, effects: Effects) -> None:
        self._effects = effects
        self._objects = objects
        self._processes = objects.processes
        self._naming: dict[str, dict[MessageQueue, None]] = {}  # by initiation queue: the queues that name it
        self._pending: dict[MessageQueue, None] = {}  # queues whose count is above 0
        self.leases = StartLeases()
        self.switched_off: list[MessageQueue] = []  # by DEPTH, and the store is to be told
        self.posts = 0  # grows with every post: a monitor waits for more than it has seen
        self.interval_ms = 999_999_999

    # Definitions

    def define(self, queue: MessageQueue) -> None:
        """The queue is new, or its attributes have changed: remember which initiation queue it names."""
        if queue.initiation_q_name:
            self._naming.setdefault(queue.initiation_q_name, {})[queue] = None

    def forget(self, queue: MessageQueue) -> None:
        """The queue goes, or its attributes are about to change."""
        naming = self._naming.get(queue.initiation_q_name)
        if naming is not None:
            naming.pop(queue, None)
            if not naming:
                del self._naming[queue.initiation_q_name]

    def fast_path(self, queue: MessageQueue) -> bool:
        """C6, C9, C10 and R-8: triggering is on, or DEPTH has switched it off; the queue names no initiation queue, and
        a process that exists, or with FIRST none (S-3).
        """
        return (
            (queue.trigger_on or queue.switched_off)
            and queue.trigger_type != _NONE
            and not queue.initiation_q_name
            and (queue.process_name in self._processes or (not queue.process_name and queue.trigger_type == _FIRST))
        )

    # Events that are puts

    def judges(self, queue: MessageQueue) -> bool:
        """True if each put to this queue is to be judged when it is made (`put`)."""
        if not queue.trigger_on or queue.shared:  # `group_triggers`
            return False
        if queue.initiation_q_name:
            return queue.trigger_type != _NONE
        return queue.trigger_type != _EVERY and self.fast_path(queue)

    def put(self, queue: MessageQueue, entries: Sequence[Entry], unit: Unit, tick: float) -> None:
        """A put, uncommitted or not, has placed these entries, of one message (E1, E2): what it triggers becomes part
        of `unit`. A delayed message arrives when its instant has come; EVERY on the fast path counts at the commit.
        """
        if self.judges(queue) and not entries[0].delayed:
            unit.triggers += self._events(queue, entries, tick)

    def over(self, events: Iterable[TriggerEvent], *, committed: bool) -> None:
        """The unit of work is over in which these events happened. A backout withdraws those of EVERY; it does not
        withdraw others, since another put may not have triggered because that message counted.
        """
        for event in events:
            if committed or event.type != _EVERY:
                self._carry_out(event)

    def arrived(self, queue: MessageQueue, entries: Sequence[Entry]) -> None:
        """Committed puts: count them if the queue is trigger EVERY (S-12, R-6, R-7). A message that the queue manager
        cut counts once, with its first piece.
        """
        if queue.trigger_type == _EVERY and self.fast_path(queue):
            starts = self._starts(queue, entries)
            if starts:
                self.count(queue, queue.pending_starts + starts)
                self.post()

    def came(self, queue: MessageQueue, entries: Sequence[Entry], tick: float) -> None:
        """These messages have become available in one step, outside any put: that counts as their put."""
        if self.judges(queue):
            for event in self._events(queue, entries, tick):
                self._carry_out(event)
        self.arrived(queue, entries)

    def _starts(self, queue: MessageQueue, entries: Sequence[Entry]) -> int:
        """Return the number of these messages that may start something each."""
        return sum(entry.triggers and rank_of(entry.key) >= queue.trigger_priority for entry in entries)

    def _events(self, queue: MessageQueue, entries: Sequence[Entry], tick: float) -> Sequence[TriggerEvent]:
        """Return the trigger events of these messages, which the queue has now (C2, C3, C4)."""
        starts = self._starts(queue, entries)
        if not starts:
            return ()
        if queue.trigger_type != _EVERY:
            if queue.input_count or not self._reached(queue, entries, tick):
                return ()
            starts = 1
        event = self._event(queue, tick)
        return () if event is None else (event,) * starts

    def _reached(self, queue: MessageQueue, entries: Sequence[Entry], tick: float) -> bool:
        """C3: these messages are the first ones, or the depth is reached with them; or E2."""
        count = queue.qualifying()
        if queue.trigger_type == _DEPTH:
            return count >= queue.trigger_depth
        if count > sum(rank_of(entry.key) >= queue.trigger_priority for entry in entries):
            return self.interval_over(queue, tick)
        return True

    def interval_over(self, queue: MessageQueue, tick: float) -> bool:
        """E2: TRIGINT has passed since the queue triggered last."""
        last = queue.last_triggered
        return last is None or (tick - last) * 1000 >= self.interval_ms

    def raise_events(self, queue: MessageQueue, number: int, tick: float) -> None:
        """So many events have happened outside any unit of work of this queue manager."""
        for _ in range(number):
            event = self._event(queue, tick)
            if event is None:
                return
            self._carry_out(event)

    # Other events: what they trigger is in no unit of work

    def last_input_closed(self, queue: MessageQueue, tick: float) -> None:
        """E3: a handle that was open for input is closed; nobody has the queue open for input any more, and there are
        messages enough for FIRST or DEPTH. (Of a shared queue: `group_triggers.last_input_closed`.)
        """
        if not queue.shared and queue.trigger_on and queue.trigger_type != _EVERY:
            self._look_at(queue, tick)

    def input_opened(self, queue: MessageQueue, tick: float) -> None:
        """E7: a program has opened the queue for input, which nobody else has."""
        if queue.input_count == 1:
            self._initiate(queue, tick)

    def recount(self, queue: MessageQueue, tick: float) -> None:
        """E4: triggering was switched or changed, or the queue manager starts. On the fast path what waits is counted
        (R-12, R-13).

        Segments that are on the queue already count one start each. Which of them were one message to the program that
        put it is known only while they arrive: the store does not keep it.
        """
        if queue.switched_off and not queue.trigger_on and queue.trigger_type == _DEPTH and self.fast_path(queue):
            return  # what DEPTH has started before it switched triggering off is started all the same
        queue.switched_off = False
        self.count(queue, 0)
        if not queue.trigger_on:
            return
        if queue.trigger_type == _EVERY and self.fast_path(queue) and not queue.shared:
            waiting = queue.count_available(queue.trigger_priority)
            if waiting:
                self.count(queue, waiting)
                self.post()
        else:
            self._look_at(queue, tick)

    def gets_allowed(self, queue: MessageQueue, tick: float, *, judged: bool) -> None:
        """E6: the queue has GET(ENABLED) again; `judged`: it has been looked at in the same step. On the fast path the
        starts have counted meanwhile (R-11). It may be an initiation queue, too (E5).
        """
        self.post()
        if queue.initiation_q_name and not judged:
            self._look_at(queue, tick)
        self._initiate(queue, tick)

    def puts_allowed(self, queue: MessageQueue, tick: float) -> None:
        """E5: the queue has PUT(ENABLED) again: it may be an initiation queue."""
        self._initiate(queue, tick)

    def _initiate(self, initiation_queue: MessageQueue, tick: float) -> None:
        """Messages can be put on a queue, and got from it: look at those whose initiation queue it is."""
        for queue in sorted(self._naming.get(initiation_queue.name, ()), key=attrgetter("name")):
            self._look_at(queue, tick)

    def _look_at(self, queue: MessageQueue, tick: float) -> None:
        """Trigger if the queue holds enough: for EVERY one message, however many there are. (What a shared queue holds
        is asked: `group_triggers.looked_at`.)
        """
        if queue.shared:
            self._effects.to_judge.append(queue)
            return
        if queue.trigger_type != _EVERY and queue.input_count:
            return
        if queue.qualifying() >= (queue.trigger_depth if queue.trigger_type == _DEPTH else 1):
            event = self._event(queue, tick)
            if event is not None:
                self._carry_out(event)

    # What an event leads to

    def _event(self, queue: MessageQueue, tick: float) -> TriggerEvent | None:
        """The event, if all is so that does not depend on messages (C5 to C10). It starts TRIGINT, and DEPTH switches
        triggering off with it.
        """
        message = None
        if queue.initiation_q_name:
            if next(unmet(self._objects, queue), None) is not None:
                return None
            data = describe(queue, self.process(queue)).to_bytes()
            message = TriggerMessage(queue.initiation_q_name, data)
        elif not self.fast_path(queue):
            return None
        queue.last_triggered = tick
        if queue.trigger_type == _DEPTH:
            self._switch_off(queue)
        return TriggerEvent(queue, queue.trigger_type, message)

    def _carry_out(self, event: TriggerEvent) -> None:
        """Leave a trigger message to be put, or let a start be pending (R-9, R-10): unless the queue has come to
        trigger otherwise, since a start is not promised before.
        """
        queue = event.queue
        if event.message is not None:
            self._effects.triggered.append(event.message)
        elif event.type == queue.trigger_type and not queue.deleted and self.fast_path(queue):
            self.count(queue, max(queue.pending_starts, 1))
            self.post()

    def _switch_off(self, queue: MessageQueue) -> None:
        """DEPTH has fired: triggering is off from now on, whatever becomes of the unit of work. Others may be changing
        the definition just now (`keep_off`).
        """
        queue.trigger_on, queue.switched_off = False, True
        queue.switch_offs += 1
        queue.unwritten_switch_off = True
        queue.definition = _switched_off(queue.definition)
        if not queue.deleted:
            self._objects.definitions["QUEUE", queue.name] = queue.definition
            self.switched_off.append(queue)
            self.post()

    def keep_off(self, queue: MessageQueue, definition: Definition, switch_offs: int) -> Definition:
        """A change of the queue's definition is durable, which was decided when DEPTH had switched triggering off so
        many times: the definition to take over. DEPTH may have done so again on the way, and that is to be written.
        """
        if switch_offs != queue.switch_offs:
            return _switched_off(definition)
        queue.unwritten_switch_off = False
        return definition

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
        """True if a monitor may take starts of this queue now: GET(DISABLED) holds them back (R-11)."""
        return queue.pending_starts > 0 and not queue.get_inhibited and self.fast_path(queue)

    def pending(self) -> list[MessageQueue]:
        """The queues of which starts may be taken, by name. That there are many others costs nothing."""
        return sorted(filter(self.startable, self._pending), key=attrgetter("name"))

    def process(self, queue: MessageQueue) -> Definition | None:
        """The process definition that the queue names; None where it names none."""
        return self._processes[queue.process_name] if queue.process_name else None

    def appl_id(self, queue: MessageQueue) -> str:
        """ApplId of the process definition."""
        process = self.process(queue)
        return "" if process is None else str(process.attributes["APPLICID"])

    def take(self, queue: MessageQueue, hconn: Hconn, limit: int) -> list[tuple[int, bytes]]:
        """Take up to `limit` starts: a lease and its trigger message each. The count falls in the same step (R-1)."""
        if not self.startable(queue):
            return []
        number = min(limit, queue.pending_starts)
        self.count(queue, queue.pending_starts - number)
        message = self.message(queue)
        return [(self.leases.grant(queue, hconn), message) for _ in range(number)]

    def give_back(self, hconn: Hconn, lease: int) -> MessageQueue | None:
        """The start was not carried out: it is pending again, if there is a message that has none pending. Else that
        message has gone, and who was started for it would find nothing. The queue, if it is a shared one: what it holds
        is asked first.
        """
        queue = self.leases.end(hconn, lease)
        if queue is None or queue.deleted or not self.fast_path(queue):
            return None
        if queue.shared:
            return queue
        self.given_back(queue, 1, queue.message_count)
        return None

    def given_back(self, queue: MessageQueue, starts: int, messages: int) -> None:
        """So many starts are pending again, as far as so many messages on the queue have none pending."""
        wanted = messages if queue.trigger_type == _EVERY else min(messages, 1)
        starts = min(starts, wanted - queue.pending_starts)
        if starts > 0:
            self.count(queue, queue.pending_starts + starts)
            self.post()

    def again(self, queue: MessageQueue, starts: int) -> None:
        """So many starts are pending besides: they were taken and came to nothing, or were counted by nobody so far."""
        if queue.trigger_type == _EVERY and self.fast_path(queue):
            self.count(queue, queue.pending_starts + starts)
            self.post()

    def message(self, queue: MessageQueue) -> bytes:
        """The trigger message of a queue (MQTMC2)."""
        return bytes(describe(queue, self.process(queue)).to_tmc2(self._objects.definition.name))

    # Starts that are missing

    def sweep(self, queues: Iterable[LocalQueue], in_flight: Callable[[LocalQueue], int]) -> Iterator[bool]:
        """Look at each of these queues. If it is EVERY, and nobody is on the way to its messages, let a start be
        pending, and yield True. `in_flight` tells how many messages of a queue are under handlers.
        """
        for queue in queues:
            stranded = (
                queue.trigger_type == _EVERY
                and queue.trigger_on
                and not (queue.pending_starts or queue.input_count or queue.get_inhibited or queue.deleted)
                and self.fast_path(queue)
                and not self.leases.running(queue)
                and not in_flight(queue)
                and queue.count_available(queue.trigger_priority) > 0
            )
            if stranded:
                self.count(queue, 1)
                self.post()
            yield stranded


def _switched_off(definition: Definition) -> Definition:
    """The same definition with NOTRIGGER."""
    return Definition(definition.kind, definition.name, {**definition.attributes, "TRIGGER": 0})
