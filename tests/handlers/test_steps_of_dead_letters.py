"""Finished steps of a dead letter: told, kept when put back, or not (transactions rule 7.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgpack
import pytest

from broker.dead_letters import DeadLetterQueue, Wanted
from broker.mqi import MQGMO, MQMF, MQOO, MQPMO, MessageDescriptor
from broker.mqi.delivery_fields import Became, Outcome
from broker.mqi.step_fields import STEP_BYTES, pack_steps
from broker.storage.memory import MemoryStore
from tests.handlers.desk import TERMS, Desk, desk, settle
from tests.handlers.test_step_calls import restarted, room, taken_one

if TYPE_CHECKING:
    from broker.dead_letters import DeadLetter
    from broker.dead_letters import Outcome as Moved
    from broker.mqi.layouts.folders import Value

ONCE = TERMS._replace(attempts=1)
SET_ALL = MQPMO.SET_ALL_CONTEXT


async def fail(d: Desk, steps: dict[str, bytes]) -> None:
    """Let the next message be a dead letter, with these steps finished."""
    async with d.worker(ONCE) as worker:
        taken = await taken_one(worker)
        for name, value in steps.items():
            await worker.step(taken, name, value)
        (settled,) = await settle(worker, Outcome.FAILED, taken)
        assert settled.became == Became.DEAD


async def letters(d: Desk) -> list[DeadLetter]:
    async with d.manager.connect("evermq") as connection, DeadLetterQueue(connection, "DEAD") as queue:
        return [letter async for letter in queue.browse(Wanted())]


async def retried(d: Desk, *, to: str = "", force: bool = False, clear_steps: bool = False) -> list[Moved]:
    async with d.manager.connect("evermq") as connection, DeadLetterQueue(connection, "DEAD") as queue:
        return [each async for each in queue.retry(Wanted(), to=to, force=force, clear_steps=clear_steps)]


@pytest.mark.parametrize("clear_steps", [False, True])
async def test_d7_5_a_dead_letter_tells_its_steps_and_takes_them_back(clear_steps: bool) -> None:
    store = MemoryStore()
    steps = {"charge": b'"receipt 5"', "Größe#2": b"", "x" * 100: bytes(STEP_BYTES)}
    async with desk(store=store) as d:
        await d.put("order")
        await fail(d, steps)
        assert room(d) == 0
        (letter,) = await letters(d)
        assert letter.steps == tuple(steps)
        (moved,) = await retried(d, clear_steps=clear_steps)
        assert (moved.to, moved.problem) == ("Q", "")
    async with restarted(store) as d, d.worker() as worker:
        again = await taken_one(worker)
        assert again.steps == (None if clear_steps else steps)
        assert dict(again.messages[0].properties) == {"evermq.replays": 1}
        await worker.step(again, "ship", b"null")
        await settle(worker, Outcome.DONE, again)
        assert room(d) == 0


async def test_a_letter_that_dies_again_has_all_its_steps() -> None:
    async with desk() as d:
        await d.put("order", properties={"colour": "red"})
        await fail(d, {"charge": b"1"})
        await retried(d)
        await fail(d, {"ship": b"2"})
        (letter,) = await letters(d)
        assert (letter.steps, letter.replays, letter.properties["colour"]) == (("charge", "ship"), 1, "red")
        await retried(d)
        async with d.worker() as worker:
            again = await taken_one(worker)
            assert again.steps == {"charge": b"1", "ship": b"2"}
            await settle(worker, Outcome.DONE, again)


async def test_as_many_steps_as_a_message_can_have_come_back() -> None:
    steps = {f"{number}": bytes(255) for number in range(1000)}
    async with desk() as d:
        await d.put("order")
        await fail(d, steps)
        assert (await retried(d))[0].problem == ""
        async with d.worker() as worker:
            again = await taken_one(worker)
            assert again.steps == steps
            await settle(worker, Outcome.DONE, again)


async def test_a_letter_stays_where_there_is_no_room_for_its_steps() -> None:
    async with desk() as d:
        await d.put("order")
        await fail(d, {"charge": bytes(1000)})
        d.manager.core.deliveries.step_budget.maximum = 500
        (stayed,) = await retried(d)
        assert "[limits] steps_bytes" in stayed.problem
        assert (d.depth(), d.depth("DEAD"), room(d)) == (0, 1, 0)
        assert (await retried(d, clear_steps=True))[0].to == "Q"
        assert len(await d.got()) == 1


@pytest.mark.parametrize(
    "properties",
    [
        {"evermq.steps": pack_steps({"charge": b"1"})},  # nobody has put it back
        {
            "evermq.steps": pack_steps({"charge": b"1"}),
            "evermq.replays": 1,
            "evermq.why": "failed",
        },  # a letter on its way
        {"evermq.steps": b"\xc1", "evermq.replays": 1},
        {"evermq.steps": b"", "evermq.replays": 1},
        {"evermq.steps": "text", "evermq.replays": 1},
        {"evermq.steps": msgpack.packb([["charge", "text"]]), "evermq.replays": 1},
        {"evermq.steps": msgpack.packb([["", b""]]), "evermq.replays": 1},
        {"evermq.steps": msgpack.packb([["a", b""], ["a", b""]]), "evermq.replays": 1},
        {"evermq.steps": msgpack.packb([["a", bytes(STEP_BYTES + 1)]]), "evermq.replays": 1},
        {"evermq.steps": msgpack.packb([[f"{each}", bytes(STEP_BYTES)] for each in range(4)]), "evermq.replays": 1},
        {"evermq.steps": msgpack.packb(5), "evermq.replays": 1},
    ],
)
async def test_what_is_not_said_by_who_puts_a_dead_letter_back_is_a_property_like_any_other(
    properties: dict[str, object],
) -> None:
    async with desk() as d, d.worker() as worker:
        async with d.connection.open("Q", MQOO.OUTPUT | MQOO.SET_ALL_CONTEXT) as queue:
            await queue.put("order", options=SET_ALL, properties=properties)  # type: ignore[arg-type]
        taken = await taken_one(worker)
        assert taken.steps is None
        assert dict(taken.messages[0].properties) == properties
        await settle(worker, Outcome.DONE, taken)


async def test_a_program_that_may_only_put_cannot_say_that_a_step_is_finished() -> None:
    properties = {"evermq.steps": pack_steps({"charge": b"1"}), "evermq.replays": 1}
    async with desk() as d, d.worker(ONCE) as worker:
        await d.put("order", properties=properties)
        taken = await taken_one(worker)
        assert taken.steps is None
        await settle(worker, Outcome.FAILED, taken)
        (letter,) = await letters(d)
        assert letter.steps == ()
        await retried(d)
        again = await taken_one(worker)
        assert again.steps is None
        await settle(worker, Outcome.DONE, again)


async def test_the_first_piece_of_a_message_that_was_cut_has_the_steps() -> None:
    async with desk("ALTER QLOCAL(Q) MAXMSGL(16)") as d:
        async with d.connection.open("Q", MQOO.OUTPUT) as queue:
            await queue.put(bytes(40), MessageDescriptor(msg_flags=MQMF.SEGMENTATION_ALLOWED, version=2))
        async with d.worker(ONCE._replace(whole=True)) as worker:
            taken = await taken_one(worker)
            await worker.step(taken, "charge", b"1")
            await settle(worker, Outcome.FAILED, taken)
            assert [letter.steps for letter in await letters(d)] == [("charge",), (), ()]
            (moved,) = await retried(d)
            assert moved.problem == ""
            again = await taken_one(worker)
            assert (again.steps, len(again.messages[0].data)) == ({"charge": b"1"}, 40)
            await settle(worker, Outcome.DONE, again)


async def test_a_put_with_steps_that_is_backed_out_leaves_nothing() -> None:
    async with desk() as d:
        properties: dict[str, Value] = {"evermq.steps": pack_steps({"charge": b"1"}), "evermq.replays": 1}
        async with d.connection.open("Q", MQOO.OUTPUT | MQOO.SET_ALL_CONTEXT) as queue:
            await queue.put("order", options=SET_ALL | MQPMO.SYNCPOINT, properties=properties)
            assert room(d) == 7
            await d.connection.backout()
            assert room(d) == 0
            await queue.put("order", options=SET_ALL | MQPMO.SYNCPOINT, properties=properties)
            await d.connection.commit()
        async with d.connection.open("Q", MQOO.INPUT_SHARED) as queue:
            got = await queue.get(options=MQGMO.NO_SYNCPOINT)
            assert dict(got.properties) == {"evermq.replays": 1}
        assert room(d) == 0
