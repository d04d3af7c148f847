"""What the readers of a consumer may do, whoever keeps the queues that it claims from (claims rules 2.1 to 2.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.interface.port import answer
from broker.mqi import MQOO, MQRC
from tests.conformance.expect import fails, reason_of
from tests.engine.reader import Reader

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System


async def reader(system: System, *q_names: str) -> Reader:
    """A reader of the consumer ARCHIVE, on a connection of its own, which has not registered."""
    return Reader((await system.connect("archiver")).port, "ARCHIVE", *q_names)


async def registered(system: System, *q_names: str) -> Reader:
    made = await reader(system, *q_names)
    await made.register()
    return made


async def put(queue: Queue, bodies: str) -> None:
    for body in bodies:
        await queue.put(body)


# Calls that are repeated, refused, and out of date


async def test_each_call_may_be_made_again(system: System, queue: Queue) -> None:
    """K19, K20."""
    await put(queue, "ABCDE")
    archive = await reader(system)
    first = await archive.consumer()
    assert (await archive.consumer())[:7] == first[:7]
    await archive.register()
    assert (await archive.claim(2), await archive.claim(2)) == (2, 2)
    assert await archive.pin() == await archive.pin()
    assert await archive.read() == await archive.read()
    end = archive.end
    assert await archive.acknowledge(end) == await archive.acknowledge(end) == 0
    await system.rest()
    assert system.depth() == 3


async def test_a_claim_from_before_what_is_pinned_is_refused(system: System, queue: Queue) -> None:
    """K21."""
    await put(queue, "ABC")
    archive = await registered(system)
    await archive.batch(2)
    assert await reason_of(archive.claim(start=1)) == MQRC.UOW_COMMITTED
    assert await archive.claim(start=2) == 1


async def test_what_is_not_pinned_cannot_be_read_nor_acknowledged(system: System, queue: Queue) -> None:
    """K22."""
    await put(queue, "ABC")
    archive = await registered(system)
    await archive.claim()
    await archive.pin(0, 2)
    assert await reason_of(archive.read(0, 3)) == MQRC.NO_DATA_AVAILABLE
    with fails(MQRC.NO_DATA_AVAILABLE) as refused:
        await archive.acknowledge(3)
    assert "what nobody was allowed to read cannot be acknowledged" in str(refused.value)
    assert await archive.read(0, 2) == [(1, b"A"), (2, b"B")]


async def test_an_older_generation_is_refused_everywhere(system: System, queue: Queue) -> None:
    """K23, queue-sharing 10.3.9."""
    await put(queue, "ABC")
    old = await registered(system)
    await old.batch(2)
    new = await reader(system)
    await new.register(old.lineage, 0, 2)
    for each in (old, old.on((await system.connect("zombie")).port), old.on((await system.connect("zombie")).port)):
        refused = [
            each.claim(), each.pin(), each.pin(0, 1), each.read(), each.read(0, 1), each.acknowledge(),
            each.acknowledge(1), each.release(), each.claim(start=2),
        ]  # fmt: skip
        assert [await reason_of(call) for call in refused] == [MQRC.OBJECT_CHANGED] * 9
    assert await new.read(0, 1) == [(1, b"A")]
    new.end = 2
    assert await new.read() == [(1, b"A"), (2, b"B")]


@pytest.mark.parametrize(
    ("lineage", "start", "end", "reason"),
    [
        (None, 0, None, MQRC.SUBSCRIPTION_IN_USE),
        ("other", 2, None, MQRC.SUBSCRIPTION_IN_USE),
        ("own", 0, 1, MQRC.UOW_COMMITTED),
        ("own", 1, None, MQRC.UOW_COMMITTED),
        ("own", 4, None, MQRC.NO_DATA_AVAILABLE),
        ("own", 2, 4, MQRC.NO_DATA_AVAILABLE),
    ],
)
async def test_a_refused_reader_changes_nothing(
    system: System, queue: Queue, lineage: str | None, start: int, end: int | None, reason: MQRC
) -> None:
    """K24, K25, K27, K28."""
    await put(queue, "ABC")
    rightful = await registered(system)
    await rightful.batch(2)
    await rightful.acknowledge(1)
    other = await reader(system)
    said = rightful.lineage if lineage == "own" else lineage
    assert await reason_of(other.register(said, start, end)) == reason
    await rightful.acknowledge(2)  # its generation is what it was


async def test_of_two_first_readers_one_pins(system: System, queue: Queue) -> None:
    """K26."""
    await put(queue, "AB")
    one, two = await registered(system), await reader(system)
    await one.claim()
    await two.register()
    await two.claim()
    await two.pin()
    again = await reader(system)
    assert await reason_of(again.register(one.lineage, 0, 2)) == MQRC.SUBSCRIPTION_IN_USE
    assert await two.read() == [(1, b"A"), (2, b"B")]


async def test_the_first_batch_is_replayed_with_its_lineage(system: System, queue: Queue) -> None:
    """K29."""
    await put(queue, "AB")
    first = await registered(system)
    await first.batch()
    again = await reader(system)
    await again.register(first.lineage, 0, 2)
    again.end = 2
    await again.pin()
    assert await again.read() == [(1, b"A"), (2, b"B")]


async def test_a_consumer_that_nobody_knows(connection: Connection) -> None:
    assert await reason_of(connection.port.register("0" * 32, None, 0, None)) == MQRC.NO_SUBSCRIPTION


# The Python program's way


async def test_a_program_resumes_where_it_was_and_gets_again_what_it_did_not_acknowledge(
    system: System, queue: Queue
) -> None:
    await put(queue, "ABC")
    first = await reader(system)
    await first.resume()
    assert await first.batch(2) == [b"A", b"B"]
    await first.acknowledge(1)
    second = await reader(system)
    await second.resume()
    assert second.start == 1
    assert await second.batch(1) == [b"B"]
    assert await reason_of(first.acknowledge(2)) == MQRC.OBJECT_CHANGED


async def test_a_query_whose_consumer_was_resumed_is_refused(system: System, queue: Queue) -> None:
    await put(queue, "AB")
    query = await registered(system)
    await query.batch(1)
    await (await reader(system)).resume()
    again = await reader(system)
    assert await reason_of(again.register(query.lineage, 0, 1)) == MQRC.SUBSCRIPTION_IN_USE


# The queues


async def test_exclusive_input_elsewhere_keeps_claims_away(
    system: System, connection: Connection, queue: Queue
) -> None:
    await system.mqsc("DEFINE QLOCAL(E)")
    archive = await registered(system, "E")
    async with connection.open("E", MQOO.INPUT_EXCLUSIVE):
        assert await reason_of(archive.claim()) == MQRC.OBJECT_IN_USE
    assert await archive.claim() == 0


async def test_of_several_queues_those_that_are_open_for_exclusive_input_are_passed_over(
    system: System, connection: Connection
) -> None:
    await system.mqsc("DEFINE QLOCAL(A.1)\nDEFINE QLOCAL(A.2)\nDEFINE QLOCAL(A.3)")
    for name in ("A.1", "A.2", "A.3"):
        await connection.put1(name, name)
    archive = await registered(system, "A.*")
    async with connection.open("A.1", MQOO.INPUT_EXCLUSIVE), connection.open("A.2", MQOO.INPUT_EXCLUSIVE):
        assert await archive.batch() == [b"A.3"]
    await archive.acknowledge()
    assert await archive.batch() == [b"A.1", b"A.2"]


@pytest.mark.parametrize(
    ("q_names", "reason"),
    [
        ([], MQRC.OBJECT_NAME_ERROR),
        (["A B"], MQRC.OBJECT_NAME_ERROR),
        (["*A"], MQRC.OBJECT_NAME_ERROR),
        (["NONE"], MQRC.UNKNOWN_OBJECT_NAME),
        (["ALIAS"], MQRC.Q_TYPE_ERROR),
    ],
)
async def test_names_that_are_no_queues_to_claim_from(
    system: System, connection: Connection, q_names: list[str], reason: MQRC
) -> None:
    await system.mqsc("DEFINE QALIAS(ALIAS) TARGET(Q)")
    with fails(reason):
        await answer(connection.port.consumer("ARCHIVE", q_names))
