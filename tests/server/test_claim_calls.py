"""The calls about claims and prepared units on a line: they arrive as they were made, their answers too, and what they
make a queue manager hold is bounded.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from broker.client.line import Line
from broker.interface.batches.columns import SHORT_MESSAGES_MAX, messages_in
from broker.interface.claims.claims import Cut, QueueRange, UnitName, Winner
from broker.interface.claims.staging import Row, frames
from broker.interface.port import answer
from broker.mqi import MQRC, MQError
from broker.testing import VirtualClock
from broker.wire import Verb
from broker.wire.frames import HEAD_BYTES
from broker.wire.verbs import BY_VERB
from tests.server.fakes import HELLO, Client, FakeTransport, connected
from tests.wire.samples import CALLS, COLUMNS, LINEAGE, RESULTS, UNIT, UUID

if TYPE_CHECKING:
    from broker.client.port import RemotePort

CLAIM_CALLS = [verb for verb in CALLS if Verb.CONSUMER <= verb <= Verb.BROWSE_CUTS]
READS = [Verb.READ_CLAIMED, Verb.QUEUE_RANGES, Verb.BROWSE_RANGE, Verb.BROWSE_CUTS]
READ = (UUID, 7, 0, 100)
STAGE = (*UNIT, None, 0, 0, True)


class Ends:
    """Both ends of one line, with a port of the test's behind the queue manager's."""

    def __init__(self, **limits: Any) -> None:
        self.client = Client(hello=None, **limits)
        self.line = Line(VirtualClock(), "here")
        self.transport = FakeTransport()
        self.line.connection_made(cast("asyncio.Transport", self.transport))

    async def connect(self) -> RemotePort:
        await self.run()
        call = self.line.converse("", "test", "")
        await self.run()
        return cast("RemotePort", await answer(call))

    async def run(self) -> None:
        """Let each end hear what the other has said."""
        for _ in range(4):
            await asyncio.sleep(0)
            for here, there in (
                (self.transport, self.client.session.data_received),
                (self.client.transport, self.line.data_received),
            ):
                said, here.writes = b"".join(here.writes), []
                if said:
                    there(said)
            self.client.session.replies.flush()


def made(port: RemotePort, verb: Verb) -> Any:
    """The sample of a call, made on a port."""
    name, values = CALLS[verb]
    names = [field.name for field in BY_VERB[verb].fields]
    return getattr(port, name)(**dict(zip(names, values, strict=True)))


@pytest.mark.parametrize("verb", CLAIM_CALLS, ids=lambda verb: verb.name)
async def test_a_call_reaches_the_queue_manager_as_it_was_made_and_its_answer_the_program(verb: Verb) -> None:
    ends = Ends()
    port = await ends.connect()
    call = made(port, verb)
    await ends.run()
    assert (ends.client.last.name, ends.client.last.arguments) == CALLS[verb]
    ends.client.last.set_result(RESULTS[verb])
    await ends.run()
    assert await answer(call) == RESULTS[verb]
    assert ends.client.server.reserve.held == 0


async def test_a_sink_without_a_ledger_is_none() -> None:
    ends = Ends()
    call = (await ends.connect()).sink("IMPORT")
    await ends.run()
    ends.client.last.set_result(None)
    await ends.run()
    assert await answer(call) is None


@pytest.mark.parametrize("verb", CLAIM_CALLS, ids=lambda verb: verb.name)
async def test_a_call_given_up_goes_on_unless_it_only_reads(verb: Verb) -> None:
    """What only reads need not be answered; the others have their effect, whoever waits."""
    ends = Ends()
    call = made(await ends.connect(), verb)
    await ends.run()
    program = asyncio.ensure_future(answer(call))
    await asyncio.sleep(0)
    program.cancel()
    with pytest.raises(asyncio.CancelledError):
        await program
    await ends.run()
    made_call = ends.client.last
    assert made_call.cancelled() is (verb in READS)
    if verb not in READS:
        made_call.set_result(RESULTS[verb])
        await ends.run()
        assert made_call.fate == "taken "
    assert ends.client.server.reserve.held == 0
    assert not ends.line.broken


@pytest.mark.parametrize(
    "winner", [Winner(UNIT._replace(batch=2**63), 1), Winner(UNIT, -(2**64)), Winner(UNIT._replace(partition=2**31), 1)]
)
async def test_a_unit_that_has_no_form_in_a_frame_is_a_type_error_and_no_call(winner: Winner) -> None:
    ends = Ends()
    port = await ends.connect()
    with pytest.raises(TypeError, match="cannot name a prepared unit"):
        port.publish("IMPORT", 7, None, [winner])
    if winner.rows > 0:
        with pytest.raises(TypeError, match="cannot name a prepared unit"):
            port.discard([winner.unit])
    await ends.run()
    assert ends.client.port.calls == []


async def test_wrong_values_reach_the_queue_manager_as_wrong_ones() -> None:
    ends = Ends()
    port = await ends.connect()
    call = port.claim(cast("str", object()), 7, 0, 1, 1, before=None, whole=False)
    await ends.run()
    with pytest.raises(MQError) as caught:
        await answer(call)
    assert caught.value.reason == MQRC.NO_SUBSCRIPTION


async def test_units_of_several_sinks_are_discarded_in_one_call() -> None:
    ends = Ends()
    port = await ends.connect()
    units = [UnitName(sink, 1, partition, UNIT.attempt) for partition in range(3000) for sink in ("A", "B")]
    port.discard(units)
    await ends.run()
    ((found,),) = [call.arguments for call in ends.client.port.calls]
    assert sorted(found) == sorted(units)


async def test_a_batch_may_have_thousands_of_winners() -> None:
    ends = Ends()
    port = await ends.connect()
    winners = [Winner(UNIT._replace(partition=number), number) for number in range(10_000)]
    port.publish(UNIT.sink, UNIT.batch, None, winners)
    await ends.run()
    assert ends.client.last.arguments == (UNIT.sink, UNIT.batch, None, winners)


# What a line holds.


@pytest.mark.parametrize(
    ("verb", "items", "result"),
    [
        (Verb.READ_CLAIMED, READ, bytes(40_000)),
        (Verb.BROWSE_RANGE, ("Q", 0, 1, None, None, None), bytes(40_000)),
        (Verb.PIN, (UUID, 7, LINEAGE, 0, 1), [Cut(1, 1, 1)] * 1000),
        (Verb.BROWSE_CUTS, ("Q", 0, 1, 5, 5), [Cut(1, 1, 1)] * 1000),
        (Verb.QUEUE_RANGES, (["Q"],), [QueueRange("Q", 0, 1, 1, 1)] * 100),
    ],
)
async def test_every_long_answer_counts_until_it_is_written(verb: Verb, items: tuple[Any, ...], result: Any) -> None:
    client = await connected()
    client.session.pause_writing()
    client.say(verb, 1, 2, *items)
    client.last.set_result(result)
    await client.hears()
    assert client.server.reserve.held >= 40_000
    client.session.resume_writing()
    await client.hears()
    assert client.server.reserve.held == 0


async def test_reads_that_are_not_written_end_the_reading_of_others() -> None:
    client = await connected(in_flight_bytes=100_000)
    client.port.answer = lambda call: call.set_result(bytes(40_000))
    client.session.pause_writing()
    client.say_together(*((Verb.READ_CLAIMED, 1, number, *READ) for number in range(2, 12)))
    assert len(client.port.calls) == 3


async def test_a_stage_counts_with_its_messages_until_it_is_answered() -> None:
    """Short messages are short as bytes, not as what becomes of them."""
    client = await connected()
    (frame,) = frames([Row("Q", b"")] * SHORT_MESSAGES_MAX)
    assert len(frame) < 50_000
    client.say(Verb.STAGE, 1, 2, *STAGE, frame)
    assert client.server.reserve.held > 500 * SHORT_MESSAGES_MAX
    client.last.set_result(RESULTS[Verb.STAGE])
    await client.hears()
    assert client.server.reserve.held == 0


@pytest.mark.parametrize(
    ("frame", "count"),
    [
        (COLUMNS, 0),
        (next(frames([Row("Q", b"")] * 5)), 5),
        (next(frames([Row("Q", b"")] * 200)), 200),
        (next(frames([Row("Q", b"")] * 300)), 300),
        (b"\xdc\x00\x16\xcd\xff\xff", SHORT_MESSAGES_MAX),
        (b"\xdc\x00\x16\xcf" + bytes(8), SHORT_MESSAGES_MAX),  # a number in another form than ours
        (b"\xdd\x00\x00\x00\x16\x01", SHORT_MESSAGES_MAX),
        (b"\xdc", 0),
        ("text", 0),
    ],
)
def test_how_many_messages_a_frame_may_have_is_known_at_its_head(frame: Any, count: int) -> None:
    assert messages_in(frame) == count


async def test_a_conversation_knows_how_long_a_frame_its_client_takes() -> None:
    client = Client(hello=(*HELLO[:-1], 64 * 1024))
    await client.hears()
    assert client.session.flow.frame_bytes == 64 * 1024 - HEAD_BYTES


async def test_a_client_knows_how_long_a_frame_the_queue_manager_takes() -> None:
    ends = Ends(frame_bytes=64 * 1024)
    port = await ends.connect()
    assert port.frame_bytes == 64 * 1024 - HEAD_BYTES


async def test_no_frame_with_its_envelope_is_longer_than_the_line_takes() -> None:
    ends = Ends(frame_bytes=64 * 1024)
    port = await ends.connect()
    unit = UnitName("S" * 48, 2**62, 2**30, UNIT.attempt)
    pieces = list(frames((Row("Q", bytes(length % 500)) for length in range(2000)), port.frame_bytes))
    for piece in pieces:
        port.stage(unit, "q" * 256, 2**62, piece, options=2**31, last=False)
    await ends.run()
    assert len(ends.client.port.calls) == len(pieces) > 5


async def test_an_answer_that_makes_no_sense_breaks_the_line() -> None:
    for verb in CLAIM_CALLS:
        ends = Ends()
        call = made(await ends.connect(), verb)
        await ends.run()
        number = call.number
        ends.line.data_received(ends.client.session.endpoint.send(Verb.ANSWER, 1, number, *[None] * 9))
        with pytest.raises(MQError) as caught:
            await answer(call)
        assert caught.value.reason == MQRC.CONNECTION_BROKEN, verb
