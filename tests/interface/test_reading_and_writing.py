"""What programs read ahead, lose and write in batches, against a port that the test plays."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from broker.interface import Connection
from broker.interface.batches.columns import NO_MESSAGES, messages_in, pack, unpack
from broker.interface.claims.claims import ConsumerState, Publication, Registration, Staged
from broker.interface.claims.staging import Row, frames
from broker.interface.port import Call
from broker.mqi import MQRC, MQError
from tests.conformance.expect import fails

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.interface.port import Port

MIB = 1024 * 1024


class PlayedPort:
    """A port whose calls are answered by `answers`, by name, or stay open in `open`."""

    frame_bytes = 1 << 30

    def __init__(self, **answers: Callable[..., Any]) -> None:
        self.answers: dict[str, Callable[..., Any]] = {
            "consumer": lambda *_: ConsumerState("uuid", 0, "", 0, 0, 0, 1, 0),
            "register": lambda *_, **__: Registration(1, "lineage", 0),
            "pin": lambda *_: [],
            "acknowledge": lambda *_: 0,
            "discard": len,
            **answers,
        }
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.open: list[Call[Any]] = []

    def __getattr__(self, name: str) -> Any:
        def method(*arguments: Any, **options: Any) -> Call[Any]:
            self.calls.append((name, (*arguments, *options.values())))
            call: Call[Any] = Call()
            if name in self.answers:
                answer = self.answers[name](*arguments, **options)
                call.set_exception(answer) if isinstance(answer, Exception) else call.set_result(answer)
            else:
                self.open.append(call)
            return call

        return method

    def made(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of the calls of this name."""
        return [arguments for each, arguments in self.calls if each == name]

    @property
    def connection(self) -> Connection:
        return Connection(cast("Port", self))


def claimed(first: int, count: int) -> bytes:
    """A frame of claims, whose bodies are their sequences."""
    rows = [Row("Q", f"{sequence}".encode()) for sequence in range(first, first + count)]
    return pack(unpack(next(frames(rows)))._replace(first=first))


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_two_frames_are_read_ahead_and_no_more() -> None:
    port = PlayedPort()
    reading = port.connection.claims.frames("uuid", 1, 0, 100)
    assert port.calls == []
    reading = aiter(reading)
    for _ in range(5):
        await turns()
        for call in port.open:
            if not call.done():
                call.set_result(claimed(10 * port.open.index(call) + 1, 10))
    assert [arguments[2:] for arguments in port.made("read_claimed")] == [(0, 100), (10, 100)]
    assert (await anext(reading)).first == 1
    await turns()
    assert [arguments[2:] for arguments in port.made("read_claimed")] == [(0, 100), (10, 100), (20, 100)]


async def test_the_next_frame_is_asked_for_while_the_last_one_is_worked_on() -> None:
    port = PlayedPort()
    reading = aiter(port.connection.claims.frames("uuid", 1, 0, 20))
    port.open[0].set_result(claimed(1, 10))
    assert (await anext(reading)).first == 1
    await turns()
    assert len(port.open) == 2
    port.open[1].set_result(claimed(11, 10))
    assert (await anext(reading)).first == 11
    with pytest.raises(StopAsyncIteration):
        await anext(reading)
    assert len(port.open) == 2


async def test_an_error_comes_behind_the_frames_before_it_and_again_each_time() -> None:
    port = PlayedPort()
    reading = aiter(port.connection.claims.frames("uuid", 1, 0, 100))
    port.open[0].set_result(claimed(1, 10))
    await turns()
    port.open[1].set_exception(MQError(MQRC.OBJECT_DAMAGED))
    await turns()
    assert (await anext(reading)).first == 1
    for _ in range(2):
        with fails(MQRC.OBJECT_DAMAGED):
            await anext(reading)


async def test_what_is_no_frame_is_an_error_of_the_reader() -> None:
    port = PlayedPort(read_claimed=lambda *_: b"\xc1")
    with fails(MQRC.BUFFER_ERROR):
        await anext(aiter(port.connection.claims.frames("uuid", 1, 0, 100)))
    with fails(MQRC.BUFFER_ERROR):
        await port.connection.claims.read("uuid", 1, 0, 100)


async def test_a_call_that_the_queue_manager_drops_ends_the_reader() -> None:
    port = PlayedPort()
    reading = aiter(port.connection.claims.frames("uuid", 1, 0, 100))
    port.open[0].cancel()
    with fails(MQRC.CONNECTION_BROKEN):
        await anext(reading)


async def test_a_reader_that_is_closed_gives_up_its_call() -> None:
    port = PlayedPort()
    reading = aiter(port.connection.claims.frames("uuid", 1, 0, 100))
    reading.close()
    await turns()
    assert port.open[0].cancelled()
    with pytest.raises(StopAsyncIteration):
        await anext(reading)


@pytest.mark.parametrize(
    ("answers", "read", "lost"),
    [
        ([claimed(3, 2), claimed(6, 1), pack(NO_MESSAGES)], [3, 4, 6], [1, 2, 5, 7]),
        ([pack(NO_MESSAGES)], [], [1, 2, 3, 4, 5, 6, 7]),
    ],
)  # fmt: skip
async def test_messages_that_are_lost_are_told_behind_those_that_are_there(
    answers: list[bytes], read: list[int], lost: list[int]
) -> None:
    port = PlayedPort(claim=lambda *_, **__: 7, read_claimed=lambda *_: answers.pop(0))
    async with port.connection.consumer("C") as consumer:
        batch = await consumer.claim()
        found: list[int] = []
        with fails(MQRC.NO_DATA_AVAILABLE) as caught:
            async for message in batch:
                found.append(message.sequence)  # noqa: PERF401  # what comes before the error counts
        assert found == read
        sequences = ", ".join(map(str, lost))
        assert caught.value.detail == f"{len(lost)} of the claimed messages are lost: sequences {sequences}"
        await batch.acknowledge()
        assert port.made("acknowledge") == [("uuid", 1, 7)]


async def test_a_consumer_says_what_it_wants_and_pins_before_it_reads() -> None:
    port = PlayedPort(claim=lambda *_, **__: 2, read_claimed=lambda *_: claimed(1, 2))
    async with port.connection.consumer("C", "Q", "R*", groups="whole") as consumer:
        batch = await consumer.claim(10, size=1000)
        assert [message.data async for message in batch] == [b"1", b"2"]
    assert port.calls == [
        ("consumer", ("C", ("Q", "R*"))),
        ("register", ("uuid", None, None, None, True)),
        ("claim", ("uuid", 1, 0, 10, 1000, None, True)),
        ("pin", ("uuid", 1, "lineage", 0, 2)),
        ("read_claimed", ("uuid", 1, 0, 2)),
    ]


# Batches of a sink.


def sink_port(**answers: Callable[..., Any]) -> PlayedPort:
    answers.setdefault("stage", lambda *_, **__: Staged(False))
    answers.setdefault("publish", lambda *_: Publication(7, already=False))
    return PlayedPort(**answers)


async def write(port: PlayedPort, count: int) -> Publication | None:
    """A batch of messages of a mebibyte: two to a piece."""
    async with port.connection.sink("S", "q").batch(3) as batch:
        for _ in range(count):
            await batch.put("Q", bytes(MIB))
    return batch.published


async def test_the_last_piece_of_a_unit_says_so() -> None:
    port = sink_port()
    assert await write(port, 5) == Publication(7, already=False)
    staged = port.made("stage")
    assert [(arguments[2], messages_in(arguments[3]), arguments[5]) for arguments in staged] == [
        (0, 2, False), (2, 2, False), (4, 1, True),
    ]  # fmt: skip
    ((sink, number, query, winners),) = port.made("publish")
    assert (sink, number, query) == ("S", 3, "q")
    assert [(winner.unit, winner.rows) for winner in winners] == [(staged[0][0], 5)]
    assert len(staged[0][0].attempt) == 16


async def test_each_batch_is_another_attempt() -> None:
    port = sink_port()
    await write(port, 1)
    await write(port, 1)
    assert len({arguments[0].attempt for arguments in port.made("stage")}) == 2


async def test_a_batch_that_is_published_already_is_not_sent_on() -> None:
    port = sink_port(stage=lambda *_, **__: Staged(True))
    assert await write(port, 9) == Publication(0, already=True)
    assert len(port.made("stage")) == 1
    assert port.made("publish") == []


@pytest.mark.parametrize("failing", ["stage", "publish"])
async def test_a_batch_that_cannot_be_published_is_discarded(failing: str) -> None:
    port = sink_port(**{failing: lambda *_, **__: MQError(MQRC.STORAGE_MEDIUM_FULL)})
    with fails(MQRC.STORAGE_MEDIUM_FULL):
        await write(port, 1)
    ((units,),) = port.made("discard")
    assert units == [port.made("stage")[0][0]]


async def test_the_error_that_counts_is_heard_though_nothing_can_be_discarded() -> None:
    broken = MQError(MQRC.CONNECTION_BROKEN)
    port = sink_port(publish=lambda *_: MQError(MQRC.UOW_CANCELED), discard=lambda _: broken)
    with fails(MQRC.UOW_CANCELED):
        await write(port, 1)
    with pytest.raises(ZeroDivisionError):
        async with port.connection.sink("S").batch(1) as batch:
            for _ in range(5):
                await batch.put("Q", bytes(MIB))
            raise ZeroDivisionError


async def test_pieces_are_as_long_as_the_line_takes() -> None:
    port = sink_port()
    port.frame_bytes = 64 * 1024
    async with port.connection.sink("S").batch(1) as batch:
        for _ in range(50):
            await batch.put("Q", bytes(10_000))
    assert all(len(arguments[3]) <= 64 * 1024 for arguments in port.made("stage"))
    assert sum(messages_in(arguments[3]) for arguments in port.made("stage")) == 50
