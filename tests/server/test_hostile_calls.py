"""Calls that no client of ours would make, against the real queue manager: every one is answered, none is a mistake."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, cast

import msgpack
import pytest

from broker.config import LimitsConfig, ListenerConfig
from broker.interface.batches.columns import unpack
from broker.interface.claims.claims import UnitName, Winner
from broker.interface.claims.staging import Row, frames
from broker.mqi import (
    MQOO,
    MQRC,
    MessageDescriptor,
    ObjectDescriptor,
    ObjectRecord,
    PutMessageOptions,
    PutMessageRecord,
)
from broker.mqi.delivery_fields import Failure, Outcome, ServiceOptions, Settlement
from broker.server import Server
from broker.server.session import Session
from broker.wire import Endpoint, Role, Verb
from broker.wire.claims import packed_units, packed_winners
from broker.wire.delivery_wire import packed_settlements
from broker.wire.structures import object_fields, packed_put_options
from tests.server.fakes import FakeTransport
from tests.wire.ends import HELLO

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker import QueueManager

BITS = [0, 1, 2, 4, 8, 16, 32, 64, 0x2000, 2**20, 2**31, -1, 2**32 - 1, -(2**31)]
ID = bytes(range(24))
NAMES = ["Q", "R", "NONE", "", "A" * 48, "SYSTEM.DEFAULT.LOCAL.QUEUE", "%s", "é\0"]


class Chaos:
    """Arguments of calls, half of them sensible."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        pick = self._random.choice
        self._makers: dict[Verb, Callable[[], tuple[Any, ...]]] = {
            Verb.OPEN: lambda: (self._object(), self._options()),
            Verb.CLOSE: lambda: (self._handle(), pick([0, 0, *BITS])),
            Verb.PUT: lambda: (self._handle(), self._descriptor(), self._pmo(), *self._terms(), self._data()),
            Verb.PUT1: lambda: (self._object(), self._descriptor(), self._pmo(), *self._terms(), self._data()),
            Verb.GET: lambda: (
                self._handle(), self._descriptor(), self._gmo(), pick([None, None, 0, 3, 2**31]),
                *pick([[], [True], [False]]),
            ),
            Verb.RELEASE_WAITING: lambda: (pick(["T", *NAMES]), pick([None, None, ID])),
            Verb.SERVE: lambda: (pick(["T", "T", *NAMES]), list(self._handling())),
            Verb.STOP_SERVING: lambda: (pick([0, 1, 2, 3, -1]),),
            Verb.TAKE: lambda: (pick([1, 1, 2, 3, 0]), pick([1, 1, 5, 10**9, 0, -1])),
            Verb.SETTLE: lambda: packed_settlements([self._settlement() for _ in range(pick([1, 3, 600]))]),
            Verb.STEP: lambda: (
                pick([1, 1, 2, 3, 0, -1]), pick(["charge", "charge#2", "", "#2", "é" * 106, 5]),
                pick([b"null", b"", bytes(65_536), bytes(65_537), "text"]),
            ),
            Verb.PUT_MANY: self._put_many,
            Verb.GET_MANY: lambda: (self._handle(), self._descriptor(), self._gmo(), pick([1, 5, 300, 0, -1])),
            Verb.BEGIN: tuple,
            Verb.COMMIT: tuple,
            Verb.BACKOUT: tuple,
            Verb.INQUIRE: lambda: (self._handle(), self._random.sample([3, 15, 20, 2016, -1, 10**6], pick([0, 1, 3]))),
            Verb.SET: lambda: (self._handle(), [[pick([9, 10, 24, 29, 2023, 1]), pick([0, 1, 5, -1, "x", ""])]]),
            Verb.MQSC: lambda: (pick(["DISPLAY QLOCAL(*)", "ALTER QLOCAL(Q) GET(ENABLED)", "(", "\0", "é" * 9]),),
            Verb.STATUS: tuple,
            Verb.FIGURES: lambda: (pick(["*", *NAMES]), pick(["queue", "none", ""]), "evermq", pick([0, 5, -1, 2**40])),
            Verb.BACKUP: lambda: (pick(["", "relative", 5, None, "\0", "/dev/null", "/" * 5000]),),
            Verb.RECENT_LOG: lambda: (pick([0, -1, 5, 2**62]),),
            Verb.TRIGGER_PENDING: tuple,
            Verb.TRIGGER_WAIT: lambda: (pick([0, -1, 5, 2**40]),),
            Verb.TRIGGER_TAKE: lambda: (pick(NAMES), pick([1, 0, -1, 100])),
            Verb.CONSUMER: lambda: (pick(["C", "C", "C", *NAMES]), pick([["Q"], ["R", "Q*"], NAMES, [5], None])),
            Verb.REGISTER: lambda: (self._uuid(), pick([None, "L"]), *self._numbers(2), pick([True, True, False])),
            Verb.CLAIM: lambda: (
                *self._reader(), 0, 5, 2**30, pick([None, None, 2**60, 5]), pick([True, False, False]),
            ),
            Verb.PIN: lambda: (*self._reader(), pick(["L", "", *self._lineages[-1:] * 4, None]), *self._numbers(2)),
            Verb.READ_CLAIMED: lambda: (*self._reader(), *self._numbers(2)),
            Verb.ACKNOWLEDGE: lambda: (*self._reader(), *self._numbers(1)),
            Verb.RELEASE: lambda: self._reader(),
            Verb.QUEUE_RANGES: lambda: (pick([["Q"], ["*"], NAMES, [], "Q"]),),
            Verb.BROWSE_RANGE: lambda: (pick(NAMES), 0, pick([2**60, *self._numbers(1)]), pick([None, ID]), None, None),
            Verb.SINK: lambda: (pick(["S", *NAMES]),),
            Verb.STAGE: lambda: (
                *self._unit(), pick([None, "q"]), pick([0, 0, 0, 1, -1]), pick([*[0] * 9, 0x8000, 2**31]),
                pick([True, False]), self._frame(),
            ),
            Verb.PUBLISH: lambda: (
                *self._unit()[:2], pick([None, "q"]), packed_winners([Winner(self._unit(), pick([0, 1, 2, -1]))]),
            ),
            Verb.DISCARD: lambda: packed_units([self._unit(), self._unit()]),
            Verb.BROWSE_CUTS: lambda: (pick(NAMES), 0, pick([2**60, *self._numbers(1)]), *self._numbers(2)),
        }  # fmt: skip
        self._uuids: list[str] = []
        self._generations = [1]
        self._lineages: list[str] = []

    def call(self) -> tuple[Verb, tuple[Any, ...]]:
        verb = self._random.choice(list(self._makers))
        return verb, self._makers[verb]()

    def _terms(self) -> list[Any]:
        pick = self._random.choice
        key = pick([b"", b"key", b"other", bytes(256)])
        extras = [pick([0.0, 0.0, 1.0, 10.0**9, -1.0]), pick([0.0, 0.0, 1.8e9, 1e300]), key, pick([300.0, None, 1e-9])]
        return pick([[], [], [extras]])

    def _handling(self) -> ServiceOptions:
        pick = self._random.choice
        return ServiceOptions(
            attempts=pick([0, None, 1, 3, -1]),
            backoff=pick([(0.0,), (0.1, 60.0), (), (1e300,)]),
            dead_letter=pick(["", "R", "T", "NONE"]),
            batch=pick([1, 1, 2, 0]),
            groups=pick([False, False, True]),
            whole=pick([False, True]),
            order_by=pick(["", "", "correl_id", "*", "no.such"]),
            total=pick([0, 1, 2**62]),
            rate=pick([0.0, 1e300, 0.5]),
        )

    def _settlement(self) -> Settlement:
        pick = self._random.choice
        why = Failure("E", pick(["", "e", "\0"]), "t")
        return Settlement(
            self._random.randrange(40), pick(list(Outcome)), why, pick([True, False]), pick([0, 65536, 2**62]),
            pick([0.0, 1.0, 1e300]), pick([True, False]), pick([(), (), ((0, why),), ((7, why), (2**62, why))]), 0.5,
        )  # fmt: skip

    def _put_many(self) -> tuple[Any, ...]:
        descriptors = [self._random.choice([True, self._descriptor()]) for _ in range(self._random.randrange(1, 5))]
        messages = [item for md in descriptors for item in (md, self._random.choice([b"data", b"data", "text"]))]
        return self._handle(), self._pmo(), self._random.randrange(600), *messages

    def hear(self, frame: list[Any]) -> None:
        """Know consumers and their readers by the answers to CONSUMER and REGISTER."""
        match frame:
            case [Verb.ANSWER, _, _, str(uuid), int(), *_] if len(uuid) == 32:
                self._uuids.append(uuid)
            case [Verb.ANSWER, _, _, int(generation), str(lineage), int()]:
                self._generations.append(generation)
                self._lineages.append(lineage)

    def _uuid(self) -> object:
        return self._random.choice([None, "unknown", *self._uuids[-1:] * 8])

    def _reader(self) -> tuple[object, object]:
        return self._uuid(), self._random.choice([*self._generations[-1:] * 8, *self._generations, None])

    def _unit(self) -> UnitName:
        pick = self._random.choice
        return UnitName(pick(["S", "S", "S", *NAMES]), pick([0, 1, 1, 2]), pick([0, 0, 1]), bytes([pick([0, 1])]) * 16)

    def _frame(self) -> object:
        """A frame of columns, mostly a good one, or with one column or byte changed."""
        pick = self._random.choice
        frame = next(frames([Row(pick(["Q", "Q", "R"]), self._data()) for _ in range(pick([1, 2, 5]))]))
        match pick(["", "", "", "column", "byte", "none"]):
            case "column":
                columns: list[Any] = list(unpack(frame))
                columns[self._random.randrange(len(columns))] = pick([None, b"", 5, bytes(8), [], ["Q"], [b"\x90"], {}])
                return msgpack.packb(columns)
            case "byte":
                changed = bytearray(frame)
                changed[self._random.randrange(len(changed))] = self._random.randrange(256)
                return bytes(changed)
            case "none":
                return pick([b"", b"\xc1", None, "text", 5])
        return frame

    def _numbers(self, count: int) -> list[object]:
        return [self._random.choice([0, 0, 0, 1, 1, 2, 5, 100, 2**62, 2**63, -1, None, "0"]) for _ in range(count)]

    def give_back(self) -> tuple[Any, ...]:
        """The items of a GIVE_BACK, which has no answer."""
        tokens = [self._random.randrange(50).to_bytes(16, "big") for _ in range(3)]
        return self._handle(), tokens[1:], tokens[0]

    def _handle(self) -> int:
        return self._random.choice([1, 2, 3, 4, 5, 0, -1, 99])

    def _object(self) -> tuple[Any, ...]:
        return object_fields(
            ObjectDescriptor(
                object_name=self._random.choice(NAMES),
                object_type=self._random.choice([1, 1, 1, 5, 3, 0, -1]),
                object_q_mgr_name=self._random.choice(["", "QM2"]),
                selection_string=self._random.choice(["", "", "size > 5", "Root.MQMD.Priority = ", "(" * 200]),
                records=self._random.choice([(), (), [ObjectRecord(self._random.choice(NAMES)) for _ in range(3)]]),
            )
        )

    def _options(self) -> int:
        chosen = self._random.sample(BITS[:12], self._random.randrange(4))
        return self._random.choice([0x2 | 0x8 | 0x10 | 0x20 | 0x40, sum(chosen)])

    def _pmo(self) -> bytes:
        record = PutMessageRecord(msg_id=self._random.choice([bytes(24), b"", bytes(99)]))
        return packed_put_options(
            PutMessageOptions(
                options=self._random.choice([0, 2, 4, *BITS]),
                context=self._random.choice([-1, 3, 1, 0]),
                records=self._random.choice([(), (), (), [record], [record] * 9]),
                record_fields=self._random.choice([0, 1, 2, 0x1F, 0x20]),
            )
        )

    def _gmo(self) -> bytes:
        options = self._random.choice([0, 1, 2, 4, 3, 0x10, 0x20, 0x40, *BITS])
        interval = self._random.choice([0, 5, -1, -2, 2**31])
        matching, version = self._random.choice([0, 1, 2, 3, 4, 63, -1]), self._random.choice([4, 1, 9])
        packed: bytes = msgpack.packb((options, interval, matching, bytes(16), version))
        return packed

    def _descriptor(self) -> bytes | None:
        if self._random.random() < 0.6:
            return None
        fields: list[Any] = list(MessageDescriptor().to_tuple())
        for index in self._random.sample(range(len(fields)), 2):
            match fields[index]:
                case int():
                    fields[index] = self._random.choice(BITS)
                case str():
                    fields[index] = self._random.choice(["", "x", "é", "Q", "20260101", "\0"])
                case bytes():
                    fields[index] = self._random.choice([b"", bytes(3), bytes(range(24))])
        packed: bytes = msgpack.packb(fields)
        return packed

    def _data(self) -> bytes:
        return self._random.randbytes(self._random.choice([0, 5, 500]))


@pytest.mark.parametrize("seed", range(8))
async def test_any_call_is_answered_and_none_is_a_mistake_of_the_queue_manager(
    seed: int, manager: QueueManager, caplog: pytest.LogCaptureFixture
) -> None:
    chaos = Chaos(seed)
    async with manager.connect() as connection:
        await connection.mqsc("DEFINE PROCESS(P)\nDEFINE QLOCAL(T) TRIGGER TRIGTYPE(EVERY) PROCESS(P)", check=True)
        async with connection.open("T", MQOO.OUTPUT) as queue:
            await queue.put_many(["a"] * 30)
    session = Session(Server(manager, ListenerConfig(), LimitsConfig()))
    transport = FakeTransport()
    session.connection_made(cast("asyncio.Transport", transport))
    end = Endpoint(Role.CLIENT)
    session.data_received(end.send(*HELLO))
    await asyncio.sleep(0)
    end.receive(transport.writes.pop())
    session.data_received(end.send(Verb.CONNECT, 1, 1, "", "chaos", ""))
    open_calls = {1}
    for number in range(2, 600):
        verb, arguments = chaos.call()
        session.data_received(end.send(verb, 1, number, *arguments))
        open_calls.add(number)
        session.data_received(end.send(Verb.GIVE_BACK, 1, 0, *chaos.give_back()))
        for _ in range(number % 7):
            await asyncio.sleep(0)
        while transport.writes:
            for frame in end.receive(transport.writes.pop(0)):
                chaos.hear(frame)
                open_calls.discard(frame[2])
                assert frame[0] != Verb.FAILED or frame[3] != MQRC.UNEXPECTED_ERROR, (verb, arguments, frame)
                assert frame[0] != Verb.REFUSED, (verb, arguments, frame)
        if number % 50 == 0:
            for waiting in open_calls:
                session.data_received(end.send(Verb.CANCEL, 1, waiting))
    session.connection_lost(None)
    assert "mistake" not in caplog.text
    assert manager.status()["connections"] == 0
    assert all(queue["getters"] == queue["ipprocs"] == 0 for queue in manager.status()["queues"])
