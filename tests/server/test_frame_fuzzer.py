"""Frames that were changed on the way, against a queue manager in memory: each call is answered, none is a mistake, and
nothing is held when its client has gone.

The samples of all frames (`tests/wire/samples.py`) are made sensible for what the line has open, and then a field or a
byte is changed, also in the structures that travel as byte strings. By a seed: what fails once fails again.
"""

from __future__ import annotations

import asyncio
import math
import random
from typing import TYPE_CHECKING, Any, cast

import msgpack
import pytest

from broker import QueueManager
from broker.config import LimitsConfig, ListenerConfig
from broker.mqi import MQOO, MQRC, ObjectDescriptor
from broker.mqi.delivery_fields import Failure, Outcome, ServiceOptions, Settlement
from broker.server import Server
from broker.server.session import Session
from broker.testing import VirtualClock
from broker.wire import Endpoint, Role, Verb
from broker.wire.delivery_wire import packed_settlements
from broker.wire.structures import object_fields
from tests.handlers.loops import asyncio_alone
from tests.server.fakes import FakeTransport
from tests.wire.ends import HELLO
from tests.wire.samples import SETTLEMENTS
from tests.wire.test_golden_frames import CLIENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

QUEUES = ("ORDERS", "BILLS", "T")
NUMBERS = (
    0,
    1,
    -1,
    2,
    5,
    255,
    2**16,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**40,
    2**62,
    2**63 - 1,
    2**63,
    -(2**31),
    -(2**63),
)
OTHERS: tuple[Any, ...] = (
    None, True, False, "", "x", "é\0", "A" * 5000, b"", b"\x00", bytes(24), b"\xc1", [], [[]], {}, {"": 1}, 0.0, -1.0,
    1e300, math.nan, math.inf,
)  # fmt: skip
FRAMES_OF_A_LINE = 60
WHOLE_LOOK = 20  # lines between two looks at all invariants

REJECTED = Settlement(1, Outcome.REJECTED, Failure("ValueError", "no such order", "Traceback ..."), feedback=65536)
ENDS = [*SETTLEMENTS, REJECTED]
SAMPLES = [*CLIENT[3:], (Verb.SETTLE, 1, 1, *packed_settlements(ENDS)), *[(Verb.TAKE, 1, 1, 1, 2)] * 8]
SAMPLES += [(Verb.SETTLE, 1, 1, *packed_settlements([each])) for each in (*ENDS, REJECTED)] * 4
"""What ends deliveries is what goes deepest: it is said more often than the rest."""


class Fuzzer:
    """The frames of one line after the other, each changed by chance or sent as it should be."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.services: list[int] = []
        self.deliveries: list[int] = []

    def frames(self) -> Iterator[tuple[int, bytes, list[Any]]]:
        """The frames of a line from its third call on: number of the call, bytes, and the items for the report."""
        for number in range(10, 10 + FRAMES_OF_A_LINE):
            frame = self._sensible(list(self._random.choice(SAMPLES)), number)
            if self._random.random() < 0.8:
                self._change(frame)
            data = _sent(frame)
            if self._random.random() < 0.02:
                changed = bytearray(data)
                changed[self._random.randrange(4, len(changed))] = self._random.randrange(256)
                data = bytes(changed)
            yield number, data, frame

    def hear(self, frame: list[Any], verb: int) -> None:
        """Know what the line has."""
        if frame[0] == Verb.ANSWER and verb == Verb.SERVE:
            self.services.append(frame[3])
        elif frame[0] == Verb.ANSWER and verb == Verb.TAKE:
            self.deliveries += [handed[0] for handed in frame[4]]

    def _sensible(self, frame: list[Any], number: int) -> list[Any]:
        """A sample as a call about what there is."""
        pick, verb = self._random.choice, frame[0]
        if frame[2]:
            frame[2] = number
        if verb == Verb.SETTLE:
            settlements = [list(each) for each in frame[3]]
            self._random.shuffle(settlements)
            for each in settlements:
                if self.deliveries:
                    each[0] = self.deliveries.pop()
            frame[3] = settlements
        elif verb in (Verb.TAKE, Verb.STOP_SERVING):
            frame[3] = pick([*self.services, 1])
        elif verb == Verb.SERVE:
            frame[3] = "T"
        elif verb == Verb.DELIVERY_CONNECT:
            frame[1], frame[4] = number, pick([*self.deliveries[-4:], 1])
        elif len(frame) > 3 and frame[3] == 7:
            frame[3] = pick([1, 2, 3])
        return frame

    def _change(self, frame: list[Any]) -> None:
        """Change something behind the verb: a value in an item, each as likely as any other, or a whole item."""
        if len(frame) <= 3:
            return
        if self._random.random() < 0.85:
            frame[3:] = self._with_one_changed(frame[3:])
        else:
            frame[self._random.randrange(3, len(frame))] = self._value(None)
        if self._random.random() < 0.02:
            del frame[self._random.randrange(3, len(frame))]
        elif self._random.random() < 0.02:
            frame.insert(self._random.randrange(3, len(frame) + 1), self._value(None))

    def _with_one_changed(self, items: list[Any]) -> list[Any]:
        paths = list(_leaves(items))
        return cast("list[Any]", self._changed(items, self._random.choice(paths))) if paths else items

    def _changed(self, value: Any, path: tuple[int, ...]) -> Any:
        if path:
            inside = list(value)
            inside[path[0]] = self._changed(inside[path[0]], path[1:])
            return inside
        if isinstance(value, bytes) and self._random.random() < 0.85:
            try:
                inside = msgpack.unpackb(value, strict_map_key=False)
                return msgpack.packb(self._with_one_changed(inside)) if isinstance(inside, list) else self._value(value)
            except (ValueError, TypeError, OverflowError, msgpack.UnpackException):
                return self._value(value)
        return self._value(value)

    def _value(self, value: Any) -> Any:
        """Another value, mostly of the same kind."""
        if type(value) is int and self._random.random() < 0.8:
            return self._random.choice([*NUMBERS, value + 1, value ^ 1 << self._random.randrange(32)])
        return self._random.choice(OTHERS + NUMBERS)


def _leaves(items: Sequence[Any]) -> Iterator[tuple[int, ...]]:
    """Yield the places of the values in these lists of lists."""
    for place, item in enumerate(items):
        if isinstance(item, list | tuple) and item:
            yield from ((place, *inner) for inner in _leaves(item))
        else:
            yield (place,)


def _sent(frame: list[Any]) -> bytes:
    try:
        payload: bytes = msgpack.packb(frame)
    except (OverflowError, ValueError):  # no client can say it
        payload = msgpack.packb(frame[:3])
    return len(payload).to_bytes(4, "big") + payload


class Line:
    """One line of a client. `verbs` are those of the calls that it has made."""

    def __init__(self, server: Server) -> None:
        self.session = Session(server)
        self.transport = FakeTransport()
        self.end = Endpoint(Role.CLIENT)
        self.verbs: dict[int, int] = {}
        self.session.connection_made(cast("asyncio.Transport", self.transport))
        self.session.data_received(self.end.send(*HELLO))

    async def heard(self) -> list[list[Any]]:
        """Return what the queue manager has said."""
        for _ in range(3):
            await asyncio.sleep(0)
        data = b"".join(self.transport.writes)
        self.transport.writes.clear()
        return self.end.receive(data)


async def said(line: Line, fuzzer: Fuzzer, number: int, verb: Verb, *items: Any) -> None:
    """A call as it should be, whose answer the fuzzer hears."""
    line.session.data_received(line.end.send(verb, 1, number, *items))
    for frame in await line.heard():
        fuzzer.hear(frame, verb)


async def begun(server: Server, fuzzer: Fuzzer) -> Line:
    """A line with a conversation that has a queue open, and serves another with deliveries in its hands."""
    line = Line(server)
    await line.heard()
    fuzzer.services, fuzzer.deliveries = [], []
    opened = object_fields(ObjectDescriptor(object_name="ORDERS"))
    terms = ServiceOptions(handler="fuzzer", attempts=3, backoff=(0.0,), dead_letter="DEAD")
    await said(line, fuzzer, 1, Verb.CONNECT, "", "fuzzer", "")
    options = MQOO.INPUT_SHARED | MQOO.OUTPUT | MQOO.BROWSE | MQOO.INQUIRE | MQOO.SET
    await said(line, fuzzer, 2, Verb.OPEN, opened, int(options))
    await said(line, fuzzer, 3, Verb.SERVE, "T", list(terms))
    await said(line, fuzzer, 4, Verb.TAKE, fuzzer.services[-1], 4)
    assert fuzzer.deliveries
    return line


async def fuzz(seed: int, frames: int, caplog: pytest.LogCaptureFixture) -> None:
    """Say so many frames, in as many lines as that takes: one that breaks the protocol ends its line."""
    fuzzer, clock = Fuzzer(seed), VirtualClock()
    count = lines = 0
    async with QueueManager.open(name="QM1", clock=clock) as manager, manager.connect() as connection:
        await connection.mqsc(
            "DEFINE PROCESS(P)\nDEFINE QLOCAL(T) TRIGGER TRIGTYPE(EVERY) PROCESS(P) DEFPSIST(YES)\n"
            "DEFINE QLOCAL(DEAD)\nDEFINE QLOCAL(ORDERS) DEFPSIST(YES)\nDEFINE QLOCAL(BILLS)",
            check=True,
        )
        server = Server(manager, ListenerConfig(), LimitsConfig())
        while count < frames:
            await connection.mqsc(
                "CLEAR QLOCAL(DEAD)\nCLEAR QLOCAL(T)\nALTER QLOCAL(T) GET(ENABLED) TRIGGER TRIGTYPE(EVERY) PROCESS(P)"
            )
            async with connection.open("T", MQOO.OUTPUT) as queue:
                await queue.put_many(["a"] * 12)
            line = await begun(server, fuzzer)
            for number, data, items in fuzzer.frames():
                line.verbs[number] = items[0]
                line.session.data_received(data)
                count += 1
                for frame in await line.heard():
                    fuzzer.hear(frame, line.verbs.get(frame[2], 0))
                    assert frame[0] != Verb.FAILED or frame[3] != MQRC.UNEXPECTED_ERROR, (seed, items, frame)
                assert "mistake" not in caplog.text, (seed, items)
                if line.transport.closed:
                    break
            line.session.connection_lost(None)
            await clock.advance(1)
            core = manager.core
            for id in list(core.branches.by_id):  # in doubt, as it should be, whoever has gone
                await connection.mqsc(f"RESOLVE INDOUBT('{id}') ACTION(BACKOUT)", check=True)
            lines += 1
            if not lines % WHOLE_LOOK:
                core.check_invariants()
            assert manager.status()["connections"] == 1, (seed, count)
            for name in QUEUES:
                queue_ = core.objects.queues[name]
                assert not queue_.uncommitted, (seed, count, name, queue_.uncommitted)
                assert not core.deliveries.in_flight(queue_), (seed, count, name)


@asyncio_alone
@pytest.mark.parametrize("seed", range(4))
async def test_a_changed_frame_is_refused_or_answered_and_holds_nothing(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    await fuzz(seed, 1500, caplog)


@asyncio_alone
@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("seed", range(100, 120))
async def test_many_changed_frames_are_refused_or_answered_and_hold_nothing(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    await fuzz(seed, 20_000, caplog)
