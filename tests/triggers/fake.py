"""A queue manager as a trigger monitor sees it: queues with a TriggerPendingCount, leases, and connections that end.

It answers after `turns` turns of the event loop: at once like an embedded one, or later like one over the wire. Over a
slow line it answers `latency` seconds later.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from broker import Connection
from broker.interface import Call, PendingQueue, PendingStarts, StartLease
from broker.mqi import MQRC, MQTMC2, MQError
from broker.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from broker.interface import Port
    from triggers.monitor.process import HandlerFunction

T = TypeVar("T")


@dataclass
class FakeQueue:
    process_name: str
    appl_id: str = ""
    pending: int = 0


class FakeManager:
    def __init__(self, turns: int = 0) -> None:
        self.clock = VirtualClock()
        self.turns = turns
        self.latency = 0.0
        self.queues: dict[str, FakeQueue] = {}
        self.posts = 0
        self.ports: list[FakePort] = []
        self.taken: list[tuple[float, str, int]] = []
        self.connected: list[str] = []
        self.ended: list[tuple[str, bool]] = []
        self.refusals: list[MQError] = []
        self.failures: list[Exception] = []
        self.stranded: list[str] = []
        self.sweeps: list[float] = []
        self.served: set[str] = set()
        self.asked = 0

    def define(self, q_name: str, process_name: str = "P", appl_id: str = "", pending: int = 0) -> None:
        self.queues[q_name] = FakeQueue(process_name, appl_id, pending)

    def post(self, q_name: str, count: int = 1) -> None:
        self.queues[q_name].pending += count
        self.posts += count
        for port in self.ports:
            port.posted()

    def connect(self, appl_name: str = "") -> Connection:
        if self.refusals:
            raise self.refusals.pop(0)
        self.connected.append(appl_name)
        self.ports.append(FakePort(self, appl_name))
        return Connection(cast("Port", self.ports[-1]))

    def stop(self, reason: MQRC) -> None:
        """End the waits with a reason; all connections too, unless the manager is only quiescing."""
        for port in list(self.ports):
            port.end_waits(reason)
            if reason != MQRC.Q_MGR_QUIESCING:
                port.end()

    @property
    def leases(self) -> int:
        return sum(len(port.leases) for port in self.ports)


class FakeTake(Call[list[StartLease]]):
    def __init__(self, port: FakePort) -> None:
        super().__init__()
        self.port = port
        self.leases: list[StartLease] = []

    def abandon(self) -> None:
        self.port.trigger_return([lease.id for lease in self.leases])


class FakePort:
    numbers = iter(range(1, 1_000_000))

    def __init__(self, manager: FakeManager, appl_name: str) -> None:
        self.manager = manager
        self.appl_name = appl_name
        self.q_mgr_name = "QM1"
        self.broken = False
        self.leases: dict[int, str] = {}
        self.waits: list[tuple[int, Call[int]]] = []

    def trigger_pending(self) -> Call[PendingStarts]:
        if self.manager.failures:
            return self._answer(Call(), error=self.manager.failures.pop(0))
        queues = [
            PendingQueue(name, queue.process_name, queue.appl_id, queue.pending)
            for name, queue in sorted(self.manager.queues.items())
            if queue.pending
        ]
        return self._answer(Call(), PendingStarts(self.manager.posts, queues))

    def status(self) -> Call[dict[str, Any]]:
        """Answer with the queues that workers serve."""
        queues = [
            {"name": name, "ipprocs": 0, "trigger_running": 0, "trigger_pending": queue.pending}
            for name, queue in self.manager.queues.items()
        ]
        handlers = [{"queue": name, "workers": 1} for name in self.manager.served]
        self.manager.asked += 1
        return self._answer(Call(), {"queues": queues, "handlers": handlers})

    def trigger_wait(self, posts: int) -> Call[int]:
        call: Call[int] = Call()
        self.waits.append((posts, call))
        self.posted()
        return call

    def trigger_take(self, q_name: str, limit: int) -> Call[list[StartLease]]:
        call = FakeTake(self)
        queue = self.manager.queues.get(q_name)
        if queue is None:
            return self._answer(call, error=MQError(MQRC.UNKNOWN_OBJECT_NAME, q_name))
        count = min(queue.pending, limit)
        queue.pending -= count
        trigger = MQTMC2(q_name, queue.process_name, appl_id=queue.appl_id, q_mgr_name="QM1")
        call.leases = [StartLease(next(self.numbers), bytes(trigger)) for _ in range(count)]
        self.leases.update((lease.id, q_name) for lease in call.leases)
        self.manager.taken.append((self.manager.clock.monotonic(), q_name, count))
        return self._answer(call, call.leases)

    def trigger_sweep(self) -> Call[int]:
        self.manager.sweeps.append(self.manager.clock.monotonic())
        if self.manager.failures:
            return self._answer(Call(), error=self.manager.failures.pop(0))
        stranded, self.manager.stranded = self.manager.stranded, []
        for q_name in stranded:
            self.manager.post(q_name)
        return self._answer(Call(), len(stranded))

    def trigger_done(self, leases: Sequence[int]) -> None:
        for lease in leases:
            del self.leases[lease]

    def trigger_return(self, leases: Sequence[int]) -> None:
        for lease in leases:
            self.manager.post(self.leases.pop(lease))

    def connect(self, appl_name: str) -> Call[Port]:
        try:
            connection = self.manager.connect(appl_name)
        except MQError as error:
            return self._answer(Call(), error=error)
        return self._answer(Call(), connection.port)

    def disconnect(self, *, commit: bool) -> Call[int]:
        self.manager.ended.append((self.appl_name, commit))
        self.end()
        return self._answer(Call(), 0)

    def end(self) -> None:
        self.broken = True
        self.trigger_return(list(self.leases))
        if self in self.manager.ports:
            self.manager.ports.remove(self)

    def posted(self) -> None:
        waits, self.waits = self.waits, []
        for posts, call in waits:
            if call.done():
                continue
            if self.manager.posts > posts:
                self._answer(call, self.manager.posts)
            else:
                self.waits.append((posts, call))

    def end_waits(self, reason: MQRC) -> None:
        waits, self.waits = self.waits, []
        for _, call in waits:
            self._answer(call, error=MQError(reason))

    def _answer(self, call: Call[T], result: T | None = None, error: Exception | None = None) -> Call[T]:
        def settle(turns: int) -> None:
            if turns:
                asyncio.get_running_loop().call_soon(settle, turns - 1)
            elif call.done():
                pass  # whoever waited has gone
            elif error is not None:
                call.set_exception(error)
            else:
                call.set_result(cast("T", result))

        if self.manager.latency:
            self.manager.clock.call_later(self.manager.latency, lambda: settle(0))
        else:
            settle(self.manager.turns)
        return call


def module(*functions: Callable[..., Awaitable[object]], name: str = "shop") -> ModuleType:
    """A module in which these functions are defined."""
    made = ModuleType(name)
    for function in functions:
        function.__module__ = name
        setattr(made, function.__name__, function)
    return made


def handlers(**by_process: HandlerFunction) -> ModuleType:
    """A module with these functions as handlers of the processes."""
    from triggers import process

    made = ModuleType("shop")
    for process_name, function in by_process.items():
        setattr(made, f"handler_of_{process_name}", process(process_name)(function))
    return made
