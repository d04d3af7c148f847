"""Event messages: what the queue manager tells its administrators when a switch asks for it (semantics 13.2).

Performance events are about the depth of a queue and about how soon its messages are got. So that a queue at the edge
of a limit does not flood them, an event disarms itself until its opposite has happened:

    full, high   disarm full and high, or high alone; arm low
    low          disarms itself; arms full and high
    slow         no get for longer than QSVCINT: disarms itself, arms prompt
    prompt       a get within it: disarms itself, arms slow

What arms an event is what happens to the queue, whether or not the other event is switched on. Inhibit events tell of
each call that PUT(DISABLED) or GET(DISABLED) refuses. An event changes nothing in the outcome of a call; its message
is put outside any unit of work, and is lost where its queue does not take it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from broker.core.message.generated.generated import GeneratedMessage
from broker.mqi.constants.attributes import MQCA, MQIA
from broker.mqi.constants.descriptor import MQAT, MQFMT, UTF_8
from broker.mqi.layouts.fields import encode_characters
from broker.mqi.reasons import MQRC
from broker.mqi.structures import MessageDescriptor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.identifiers import Identifiers
    from broker.core.names.definitions import Definition
    from broker.core.queues.effects import Effects
    from broker.core.queues.handles import Hconn
    from broker.core.queues.message_queue import MessageQueue

PERFORMANCE_QUEUE = "SYSTEM.ADMIN.PERFM.EVENT"
QUEUE_MANAGER_QUEUE = "SYSTEM.ADMIN.QMGR.EVENT"

_HEADER = struct.Struct("<9i")  # MQCFH: Type, StrucLength, Version, Command, MsgSeqNumber, Control, CompCode, Reason,
_INTEGER = struct.Struct("<4i")  # ParameterCount; MQCFIN: Type, StrucLength, Parameter, Value;
_STRING = struct.Struct("<5i")  # MQCFST: Type, StrucLength, Parameter, CodedCharSetId, StringLength, then the string
_CFT_INTEGER, _CFT_STRING, _CFT_EVENT = 3, 4, 7
Q_MGR_EVENT, _PERFM_EVENT = 44, 45  # MQCMD
_CFC_LAST = 1
_CC_WARNING = 1
_APPL_NAME = 3024  # MQCACF_APPL_NAME
NAME_SIZE = 48
_APPL_NAME_SIZE = 28

_Q_FULL = int(MQRC.Q_FULL)
_INHIBITED = (int(MQRC.GET_INHIBITED), int(MQRC.PUT_INHIBITED))
_SERVICE_HIGH, _SERVICE_OK = 1, 2  # values of QSVCIEV
_QUEUE_MANAGER = MQAT.QMGR.value


class Gauge:
    """The event state of one queue: which events are armed, and figures since the last event about it."""

    __slots__ = ("dequeued", "enqueued", "full", "high", "highest", "low", "mode", "prompt", "served", "since", "slow")

    def __init__(self, now: float, depth: int) -> None:
        self.full = self.high = True
        self.low = False
        self.served: float | None = None  # when the service interval began; None while the queue is empty
        self.arm_service(0)
        self.reset(now, depth)

    def arm_service(self, mode: int) -> None:
        """QSVCIEV has this value now: HIGH looks for a slow get first, OK for a prompt one."""
        self.mode = mode
        self.slow, self.prompt = True, mode == _SERVICE_OK

    def reset(self, now: float, depth: int) -> None:
        """Begin to count anew."""
        self.since = now
        self.highest = depth
        self.enqueued = self.dequeued = 0


class Events:
    """The events of a queue manager. Their messages are left to be put, among its `effects`."""

    def __init__(self, ids: Identifiers, effects: Effects) -> None:
        self._effects = effects
        self._ids = ids
        self._gauges: dict[MessageQueue, Gauge] = {}
        self._inhibit = False
        self.counting = False
        """True if puts and gets are counted for performance events (PERFMEV)."""

    def configure(self, definition: Definition) -> None:
        """Take over PERFMEV and INHIBTEV of the queue manager."""
        self.counting = bool(definition.attributes["PERFMEV"])
        self._inhibit = bool(definition.attributes["INHIBTEV"])
        if not self.counting:
            self._gauges.clear()

    def put(self, queue: MessageQueue, now: float) -> None:
        """A message was put to the queue and counts in its depth."""
        if not self.counting:
            return
        gauge = self._gauge(queue, now)
        gauge.enqueued += 1
        self._came(queue, gauge, now)
        self._rose(queue, gauge, now)

    def staged(self, queue: MessageQueue, now: float) -> None:
        """Messages count in the depth of the queue, and nobody is given them before they are published."""
        if self.counting:
            self._rose(queue, self._gauge(queue, now), now)

    def published(self, queue: MessageQueue, messages: int, now: float) -> None:
        """So many messages that were staged are on the queue."""
        if self.counting:
            gauge = self._gauge(queue, now)
            gauge.enqueued += messages
            self._came(queue, gauge, now)

    def _came(self, queue: MessageQueue, gauge: Gauge, now: float) -> None:
        if gauge.served is None:
            gauge.served = now
        self._late(queue, gauge, now)

    def _rose(self, queue: MessageQueue, gauge: Gauge, now: float) -> None:
        gauge.highest = max(gauge.highest, queue.depth)
        if gauge.high and _reaches(queue, "QDEPTHHI"):
            gauge.high, gauge.low = False, True
            self._tell(queue, gauge, MQRC.Q_DEPTH_HIGH, "QDPHIEV", now)

    def got(self, queue: MessageQueue, messages: int, now: float) -> None:
        """A get took so many messages off the queue."""
        if not self.counting:
            return
        gauge = self._gauge(queue, now)
        gauge.dequeued += messages
        if not self._late(queue, gauge, now) and gauge.prompt and gauge.served is not None:
            gauge.prompt, gauge.slow = False, True
            self._tell(queue, gauge, MQRC.Q_SERVICE_INTERVAL_OK, "QSVCIEV", now)
        gauge.served = now if queue.depth else None
        self._fell(queue, gauge, now)

    def left(self, queue: MessageQueue, now: float) -> None:
        """Messages that had been claimed, and were counted as got then, have left the queue."""
        if self.counting:
            self._fell(queue, self._gauge(queue, now), now)

    def _fell(self, queue: MessageQueue, gauge: Gauge, now: float) -> None:
        if gauge.low and queue.depth * 100 <= queue.max_depth * _number(queue, "QDEPTHLO"):
            gauge.low, gauge.high, gauge.full = False, True, True
            self._tell(queue, gauge, MQRC.Q_DEPTH_LOW, "QDPLOEV", now)

    def refused(self, queue: MessageQueue, name: str, reason: int, hconn: Hconn, now: float) -> None:
        """A call failed with this reason, on a queue that the program knows by this name."""
        if reason == _Q_FULL and self.counting:
            gauge = self._gauge(queue, now)
            if gauge.full:
                gauge.full, gauge.high, gauge.low = False, False, True
                self._tell(queue, gauge, MQRC.Q_FULL, "QDPMAXEV", now)
        elif reason in _INHIBITED and self._inhibit:
            parameters = (
                string_parameter(MQCA.Q_MGR_NAME, self._ids.q_mgr_name, NAME_SIZE),
                string_parameter(MQCA.Q_NAME, name, NAME_SIZE),
                *program_parameters(hconn.appl_type, hconn.appl_name),
            )
            self._send(QUEUE_MANAGER_QUEUE, Q_MGR_EVENT, reason, parameters, now)

    def _late(self, queue: MessageQueue, gauge: Gauge, now: float) -> bool:
        """True if the last get, or the put that ended the queue's emptiness, is longer ago than QSVCINT."""
        if gauge.served is None or (now - gauge.served) * 1000 <= _number(queue, "QSVCINT"):
            return False
        if gauge.slow:
            gauge.slow, gauge.prompt = False, True
            if gauge.mode == _SERVICE_HIGH:
                self._tell(queue, gauge, MQRC.Q_SERVICE_INTERVAL_HIGH, "QSVCIEV", now)
        return True

    def _gauge(self, queue: MessageQueue, now: float) -> Gauge:
        gauge = self._gauges.get(queue)
        if gauge is None:
            self._gauges = {known: each for known, each in self._gauges.items() if not known.deleted}
            gauge = self._gauges[queue] = Gauge(now, queue.depth)
        mode = _number(queue, "QSVCIEV")
        if mode != gauge.mode:
            gauge.arm_service(mode)
        return gauge

    def _tell(self, queue: MessageQueue, gauge: Gauge, reason: int, switch: str, now: float) -> None:
        """A performance event has happened: tell it if its switch is on."""
        if not _number(queue, switch):
            return
        parameters = (
            string_parameter(MQCA.Q_MGR_NAME, self._ids.q_mgr_name, NAME_SIZE),
            string_parameter(MQCA.BASE_OBJECT_NAME, queue.name, NAME_SIZE),
            integer_parameter(MQIA.TIME_SINCE_RESET, int(now - gauge.since)),
            integer_parameter(MQIA.HIGH_Q_DEPTH, gauge.highest),
            integer_parameter(MQIA.MSG_ENQ_COUNT, gauge.enqueued),
            integer_parameter(MQIA.MSG_DEQ_COUNT, gauge.dequeued),
        )
        gauge.reset(now, queue.depth)
        self._send(PERFORMANCE_QUEUE, _PERFM_EVENT, reason, parameters, now)

    def _send(self, q_name: str, command: int, reason: int, parameters: Sequence[bytes], now: float) -> None:
        put_date, put_time = self._ids.stamp(now)
        md = MessageDescriptor(
            format=MQFMT.EVENT.value,
            coded_char_set_id=self._ids.coded_char_set_id,
            msg_id=self._ids.identifier(),
            put_appl_type=_QUEUE_MANAGER,
            put_appl_name=self._ids.q_mgr_name[:28],
            put_date=put_date,
            put_time=put_time,
        )
        header = _HEADER.pack(
            _CFT_EVENT, _HEADER.size, 1, command, 1, _CFC_LAST, _CC_WARNING, int(reason), len(parameters)
        )
        data = b"".join((header, *parameters))
        self._effects.generated.append(GeneratedMessage(q_name, "", md, data, dead_letter=False))


def _number(queue: MessageQueue, keyword: str) -> int:
    return int(queue.definition.attributes[keyword])


def _reaches(queue: MessageQueue, keyword: str) -> bool:
    """True if the depth is this percentage of MAXDEPTH or more."""
    return queue.depth * 100 >= queue.max_depth * _number(queue, keyword)


def integer_parameter(parameter: int, value: int) -> bytes:
    """An integer (MQCFIN)."""
    return _INTEGER.pack(_CFT_INTEGER, _INTEGER.size, parameter, value)


def string_parameter(parameter: int, text: str, size: int) -> bytes:
    """A string (MQCFST) of `size` characters, a multiple of four as the structure wants it."""
    fixed = _STRING.pack(_CFT_STRING, _STRING.size + size, parameter, UTF_8, size)
    return fixed + encode_characters(text, size)


def program_parameters(appl_type: int, appl_name: str) -> tuple[bytes, bytes]:
    """The program that an event is about."""
    return (
        integer_parameter(MQIA.APPL_TYPE, appl_type),
        string_parameter(_APPL_NAME, appl_name, _APPL_NAME_SIZE),
    )
