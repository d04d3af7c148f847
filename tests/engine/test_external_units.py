"""Units of work that a database of a program's own decides (transactions rules 1, 2 and 3)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from broker.core.prepared import resolutions
from broker.mqi import MQGMO, MQMF, MQOO, MQPMO, MQRC, MessageDescriptor
from broker.mqi.delivery_fields import Failure, Outcome, Settlement
from broker.mqi.external_units import Decision, digits_of
from broker.storage.store import StoreFullError
from tests.engine.bench import reason_of
from tests.engine.units_desk import (
    DATABASE,
    DONE,
    ELSEWHERE,
    OPTIONS,
    OTHER,
    UNIT,
    UNKNOWN,
    back_out,
    commit,
    prepare,
    prepared,
    units_desk,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sized

    from tests.engine.units_desk import UnitsDesk

ID = "75757575-7575-7575-7575-757575757575"


@pytest.fixture(params=["embedded", "tcp"])
async def desk(request: pytest.FixtureRequest) -> AsyncIterator[UnitsDesk]:
    async with units_desk(request.param) as found:
        yield found


# Units of connections


async def test_d2_1_each_call_about_a_unit_may_be_made_twice(desk: UnitsDesk) -> None:
    """Transactions rules 2.1, 2.4 and 2.6."""
    async with desk.connect() as program:
        await prepare(program, b"a")
        await program.put1("Q", b"of the next unit", options=MQPMO.SYNCPOINT)
        assert await reason_of(program.prepare(UNIT, DATABASE)) == MQRC.OBJECT_IN_USE
        await program.backout()
        for _ in range(2):
            assert await program.in_doubt(DATABASE, [UNIT, OTHER]) == [UNIT]
        assert desk.available("Q") == 0
        decisions = [Decision(UNIT, commit=True), Decision(UNIT, commit=True), Decision(OTHER, commit=False)]
        assert await program.decide(DATABASE, decisions) == [DONE, UNKNOWN, UNKNOWN]
        assert (await commit(program), await back_out(program)) == (UNKNOWN, UNKNOWN)
        assert await program.in_doubt(DATABASE, [UNIT]) == []
        assert (await program.doubts(DATABASE, wait=False)) == []
        assert (desk.available("Q"), desk.queue("Q").depth) == (1, 1)


async def test_d2_1_a_decision_whose_prepare_is_on_its_way_waits_for_it(desk: UnitsDesk) -> None:
    """As after a lost answer (transactions rule 2.4)."""
    async with desk.connect() as program, desk.connect("again") as other:
        await program.put1("Q", b"a", options=MQPMO.SYNCPOINT)
        desk.store.hold()
        preparing = asyncio.create_task(program.prepare(UNIT, DATABASE))
        await desk.store.wait_held()
        deciding = asyncio.create_task(commit(other))
        second = asyncio.create_task(commit(other))
        assert await other.in_doubt(DATABASE, [UNIT]) == [UNIT]
        assert not deciding.done()
        desk.store.release()
        await preparing
        assert [await deciding, await second] == [DONE, UNKNOWN]
        assert desk.available("Q") == 1


async def test_d2_1_a_prepare_whose_answer_is_lost_leaves_the_unit_to_resolvers(desk: UnitsDesk) -> None:
    """The line breaks while it is written, of a unit and of a delivery (transactions rule 2.5)."""
    async with desk.connect("resolver") as resolver:
        await resolver.put1("W", b"work")
        async with desk.worker() as (program, deliveries):
            (taken,) = await deliveries.take()
            await program.put1("Q", b"a", options=MQPMO.SYNCPOINT)
            await program.in_doubt(DATABASE, [])
            desk.store.hold()
            calls = [
                asyncio.create_task(reason_of(program.prepare(UNIT, DATABASE))),
                asyncio.create_task(reason_of(deliveries.prepare(DATABASE, [prepared(taken.id, OTHER)]))),
            ]
            await desk.store.wait_held()
            while len(await resolver.in_doubt(DATABASE, [UNIT, OTHER])) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0)
            program.port.break_()
            assert await asyncio.gather(*calls) == [MQRC.CONNECTION_BROKEN] * 2
            await resolver.in_doubt(DATABASE, [])
            while desk.manager.core.branches._owned:  # noqa: ASYNC110
                await asyncio.sleep(0)
            desk.store.release()
        found: set[bytes] = set()
        while len(found) < 2:
            found |= {each.unit for each in await resolver.doubts(DATABASE)}
        assert found == {UNIT, OTHER}
        assert await resolver.decide(DATABASE, [Decision(each, commit=True) for each in found]) == [DONE] * 2
        assert (desk.available("Q"), desk.queue("W").depth) == (1, 0)


async def test_what_is_got_and_nonpersistent_is_in_a_unit_too_and_writes_nothing(desk: UnitsDesk) -> None:
    async with desk.connect() as program:
        await program.put1("Q", b"there", persistence=0)
        desk.store.written.clear()
        async with program.open("Q", MQOO.INPUT_SHARED) as queue:
            await queue.get(options=MQGMO.SYNCPOINT)
        await prepare(program, b"new", persistence=0)
        assert await program.in_doubt(DATABASE, [UNIT]) == [UNIT]
        assert await commit(program) == DONE
        assert (desk.store.written, desk.available("Q")) == ([], 1)
        assert await reason_of(program.prepare(OTHER, DATABASE)) == MQRC.NONE  # with nothing in it at all
        assert await commit(program, OTHER) == DONE


async def test_d2_5_delayed_and_keyed_puts_and_a_cancel_take_effect_at_the_decision(desk: UnitsDesk) -> None:
    """Transactions rule 2.7; after a restart too."""
    async with desk.connect() as program:
        cancelled = await program.put1("Q", b"later", delay=600, key=b"old")
        async with program.open("Q", MQOO.INPUT_SHARED) as queue:
            got = await queue.get(cancelled.md, MQGMO.SYNCPOINT, delayed=True)
            assert got.data == b"later"
        await program.put1("Q", b"delayed", options=MQPMO.SYNCPOINT, delay=60)
        await program.put1("Q", b"keyed", options=MQPMO.SYNCPOINT, key=b"k")
        await prepare(program, b"plain")
        assert desk.available("Q") == 0
    await desk.restart()
    async with desk.connect() as program:
        assert (desk.available("Q"), desk.queue("Q").uncommitted) == (0, 4)
        assert await commit(program) == DONE
        assert (desk.available("Q"), len(desk.queue("Q").shelf.delayed)) == (2, 1)
        assert (await program.put1("Q", b"again", key=b"k")).duplicate
        assert not (await program.put1("Q", b"anew", key=b"old")).duplicate
        await desk.clock.advance(1)
        await desk.clock.advance(30)
        await desk.clock.advance(30)
        assert len(desk.queue("Q").shelf.delayed) == 0


@pytest.mark.parametrize("committed", [True, False])
async def test_d2_5_a_group_takes_effect_whole_at_the_decision(desk: UnitsDesk, committed: bool) -> None:
    """Transactions rule 2.7; after a restart too."""
    whole = MQGMO.NO_SYNCPOINT | MQGMO.ALL_MSGS_AVAILABLE | MQGMO.LOGICAL_ORDER
    async with desk.connect() as program:
        async with program.open("Q", MQOO.OUTPUT) as queue:
            for number in range(1, 4):
                md = MessageDescriptor(msg_flags=MQMF.LAST_MSG_IN_GROUP if number == 3 else MQMF.MSG_IN_GROUP)
                await queue.put(str(number), md, MQPMO.SYNCPOINT | MQPMO.LOGICAL_ORDER)
        await program.prepare(UNIT, DATABASE, "orders")
    await desk.restart()
    async with desk.connect() as program, program.open("Q", MQOO.INPUT_SHARED) as queue:
        assert await reason_of(queue.get(options=whole)) == MQRC.NO_MSG_AVAILABLE
        waiting = asyncio.create_task(queue.get(options=whole, wait=1e6))
        await program.in_doubt(DATABASE, [])
        assert await (commit if committed else back_out)(program) == DONE
        if committed:
            first = await waiting
            rest = [await queue.get(options=whole) for _ in range(2)]
            assert [each.data for each in (first, *rest)] == [b"1", b"2", b"3"]
            assert [each.md.msg_seq_number for each in (first, *rest)] == [1, 2, 3]
        else:
            waiting.cancel()
            await asyncio.wait((waiting,))
        assert desk.queue("Q").depth == 0


async def test_d2_8_a_shared_queue_in_the_unit_is_refused_with_a_sentence(desk: UnitsDesk) -> None:
    """Here the unit is made to look like one: `tests/sharing` has groups (transactions rule 2.3)."""
    from broker.core.queues.unit import SharedPart

    async with desk.connect() as program:
        await program.put1("Q", b"a", options=MQPMO.SYNCPOINT)
        (unit,) = desk.manager.conversations.units()
        unit.shared = SharedPart()
        with pytest.raises(Exception, match="a shared queue is in this unit of work") as caught:
            await program.prepare(UNIT, DATABASE)
        assert caught.value.reason == MQRC.OPTION_NOT_VALID_FOR_TYPE  # type: ignore[attr-defined]
        unit.shared = None
        await program.commit()
        assert desk.available("Q") == 1


@pytest.mark.parametrize("limits", [{"in_doubt_units": 1}, {"prepared_bytes": 1024}])
async def test_a_unit_over_a_limit_is_refused_and_left_open(limits: dict[str, int]) -> None:
    """Transactions rule 2.3."""
    async with units_desk("embedded", **limits) as desk, desk.connect() as program:
        await prepare(program, b"a" * 600)
        await program.put1("Q", b"b" * 600, options=MQPMO.SYNCPOINT)
        assert await reason_of(program.prepare(OTHER, DATABASE)) == MQRC.SYNCPOINT_LIMIT_REACHED
        await commit(program)
        assert await reason_of(program.prepare(OTHER, DATABASE)) == MQRC.NONE
        await commit(program, OTHER)
        assert desk.available("Q") == 2


@pytest.mark.parametrize("wrong", [b"", b"u" * 15, b"u" * 17])
async def test_a_name_of_another_length_is_refused(desk: UnitsDesk, wrong: bytes) -> None:
    async with desk.connect() as program:
        for call in (program.prepare(wrong, DATABASE), program.prepare(UNIT, wrong), program.in_doubt(wrong, [UNIT])):
            assert await reason_of(call) == MQRC.OPTIONS_ERROR
        assert await reason_of(program.decide(DATABASE, [Decision(wrong, commit=True)])) == MQRC.OPTIONS_ERROR
        assert await reason_of(program.in_doubt(DATABASE, [wrong])) == MQRC.OPTIONS_ERROR
        assert await reason_of(program.doubts(wrong, wait=False)) == MQRC.OPTIONS_ERROR


async def test_d2_4_without_room_for_it_a_unit_is_backed_out(desk: UnitsDesk) -> None:
    """Transactions rule 2.9."""
    async with desk.connect() as program:
        await program.put1("Q", b"there")
        async with program.open("Q", MQOO.INPUT_SHARED) as queue:
            await queue.get(options=MQGMO.SYNCPOINT)
        await program.put1("Q", b"new", options=MQPMO.SYNCPOINT)
        desk.store.fill()
        assert await reason_of(program.prepare(UNIT, DATABASE)) == MQRC.BACKED_OUT
        assert await program.in_doubt(DATABASE, [UNIT]) == []
        assert (desk.available("Q"), desk.queue("Q").depth) == (1, 1)
        desk.store.make_room()
        await prepare(program, b"again")
        assert await commit(program) == DONE


async def test_d2_4_a_commit_for_which_there_is_no_room_stays_in_doubt_until_there_is(desk: UnitsDesk) -> None:
    async with desk.connect() as program:
        await prepare(program, b"a")
        desk.store.fail_next(StoreFullError("no room"), after=1)
        assert await commit(program) == MQRC.STORAGE_MEDIUM_FULL
        assert (await program.in_doubt(DATABASE, [UNIT]), desk.available("Q")) == ([UNIT], 0)
        assert await back_out(program) == MQRC.UOW_COMMITTED
        assert await program.doubts(DATABASE, wait=False) == []
        await desk.clock.advance(1)
        assert (await program.in_doubt(DATABASE, [UNIT]), desk.available("Q")) == ([], 1)


async def test_d1_9_another_database_and_another_owner_are_told_nothing_of_a_unit(desk: UnitsDesk) -> None:
    """Transactions rules 1.2 and 2.10."""
    async with desk.connect() as program, desk.connect() as other:
        await prepare(program, b"a")
        assert await other.decide(ELSEWHERE, [Decision(UNIT, commit=True)]) == [UNKNOWN]
        assert await other.in_doubt(ELSEWHERE, [UNIT]) == []
        assert await other.doubts(ELSEWHERE, wait=False) == []
        assert await other.in_doubt(DATABASE, [UNIT]) == [UNIT]
        assert await commit(other) == DONE


@pytest.mark.parametrize("lost", [True, False])
async def test_d1_10_a_queue_manager_that_is_killed_in_decide_has_the_unit_in_doubt(lost: bool) -> None:
    """Until the decision is durable the marker is needed (transactions rule 2.6)."""
    async with units_desk("embedded") as desk:
        async with desk.connect() as program:
            await prepare(program, b"a")
            desk.store.fail_next(OSError("power"), lose=lost)
            assert await reason_of(commit(program)) == MQRC.CONNECTION_BROKEN
        with suppress(Exception):
            await desk.stop()
        await desk.start()
        async with desk.connect() as program:
            assert await program.in_doubt(DATABASE, [UNIT]) == ([UNIT] if lost else [])
            assert await commit(program) == (DONE if lost else UNKNOWN)
            assert desk.available("Q") == 1


async def test_d1_10_a_unit_is_in_doubt_until_its_decision_is_durable(desk: UnitsDesk) -> None:
    async with desk.connect() as program, desk.connect("cleaner") as cleaner:
        await prepare(program, b"a")
        desk.store.hold()
        deciding = asyncio.create_task(commit(program))
        await desk.store.wait_held()
        assert await cleaner.in_doubt(DATABASE, [UNIT]) == [UNIT]
        desk.store.release()
        assert await deciding == DONE
        assert await cleaner.in_doubt(DATABASE, [UNIT]) == []


async def test_d1_11_a_unit_is_never_discarded_by_age() -> None:
    """Transactions rule 1.1."""
    async with units_desk("embedded", prepared_age=1.0) as desk:
        async with desk.connect() as program:
            await prepare(program, b"a")
        for _ in range(3):
            await desk.clock.advance(86_400)
        async with desk.connect() as program:
            ((unit, since),) = await program.doubts(DATABASE, wait=False)
            assert (unit, desk.clock.time() - since) == (UNIT, 3 * 86_400)
            assert await commit(program) == DONE
        assert desk.available("Q") == 1


# Owners and resolvers


async def test_d2_7_of_two_resolvers_one_has_the_lease_and_then_the_other(desk: UnitsDesk) -> None:
    """Transactions rule 2.5."""
    async with desk.connect("second") as second:
        waiting = asyncio.create_task(second.doubts(DATABASE))
        async with desk.connect("first") as first:
            async with desk.connect() as owner:
                await prepare(owner, b"a")
                assert await first.doubts(DATABASE, wait=False) == []
                assert not waiting.done()
            assert [each.unit for each in await waiting] == [UNIT]
            asked = asyncio.create_task(first.doubts(DATABASE))
            await first.in_doubt(DATABASE, [])
            assert await second.decide(DATABASE, [Decision(UNIT, commit=None)]) == [DONE]
            assert [each.unit for each in await asked] == [UNIT]
            waiting = asyncio.create_task(second.doubts(DATABASE))
            await second.in_doubt(DATABASE, [])
            assert not waiting.done()
        assert [each.unit for each in await waiting] == [UNIT]
        assert await back_out(second) == DONE


async def test_a_resolver_that_goes_away_from_its_answer_leases_nothing(desk: UnitsDesk) -> None:
    async with desk.connect("first") as first, desk.connect("second") as second:
        asked = asyncio.create_task(first.doubts(DATABASE))
        await first.in_doubt(DATABASE, [])
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await first.in_doubt(DATABASE, [])
        async with desk.connect() as owner:
            await prepare(owner, b"a")
        assert [each.unit for each in await second.doubts(DATABASE)] == [UNIT]


async def test_an_owner_that_gives_up_leaves_the_unit_to_others(desk: UnitsDesk) -> None:
    async with desk.connect() as owner, desk.connect("resolver") as resolver:
        await prepare(owner, b"a")
        assert await resolver.decide(DATABASE, [Decision(UNIT, commit=None)]) == [DONE]  # it is not the owner
        assert await resolver.doubts(DATABASE, wait=False) == []
        assert await owner.decide(DATABASE, [Decision(UNIT, commit=None)]) == [DONE]
        assert [each.unit for each in await resolver.doubts(DATABASE)] == [UNIT]
        assert await commit(owner) == DONE  # who knows decides, whoever has the lease


# Restarts


async def test_d2_2_a_thousand_units_in_doubt_are_there_after_a_restart(desk: UnitsDesk) -> None:
    async with desk.connect() as program:
        await asyncio.gather(*[program.put1("W", b"work") for _ in range(500)])
        for number in range(500):
            await prepare(program, f"{number}".encode(), unit=number.to_bytes(16, "big"))
    async with desk.worker() as (_, deliveries):
        taken = await deliveries.take(500)
        assert len(taken) == 500
        items = [prepared(each.id, number.to_bytes(16, "big")) for number, each in enumerate(taken, 500)]
        before = len(desk.store.written)
        assert await deliveries.prepare(DATABASE, items) == [0] * 500
        assert len(desk.store.written) == before + 1
    await desk.restart()
    async with desk.connect() as resolver:
        found = [await resolver.doubts(DATABASE, wait=False) for _ in range(3)]
        assert sorted(each.unit for part in found for each in part) == [n.to_bytes(16, "big") for n in range(1000)]
        assert (desk.queue("Q").uncommitted, desk.queue("W").uncommitted, desk.available("W")) == (500, 500, 0)
        assert desk.figures()["running"] == 500
        decisions = [Decision(number.to_bytes(16, "big"), commit=True) for number in range(1000)]
        assert await resolver.decide(DATABASE, decisions) == [DONE] * 1000
        assert (desk.available("Q"), desk.queue("W").depth) == (500, 0)
        assert (desk.figures()["running"], desk.figures()["succeeded"]) == (0, 500)
        async with resolver.open("Q", MQOO.INPUT_SHARED) as queue:
            assert [int((await queue.get()).data) for _ in range(500)] == list(range(500))
    await desk.restart()
    assert (desk.queue("W").depth, desk.manager.core.branches.by_id) == (0, {})


@pytest.mark.parametrize("again", [False, True])
async def test_d2_3_the_order_key_of_a_delivery_in_doubt_is_held(desk: UnitsDesk, again: bool) -> None:
    """Over a restart too (transactions rule 2.7)."""
    async with desk.connect() as program:
        for body, key in ((b"1", "a"), (b"2", "a"), (b"3", "b")):
            await program.put1("W", body, properties={"customer": key})
    options = OPTIONS._replace(order_by="customer")
    async with desk.worker(options) as (_, deliveries):
        first, third = await deliveries.take(3)
        assert [first.messages[0].data, third.messages[0].data] == [b"1", b"3"]
        assert await deliveries.prepare(DATABASE, [prepared(first.id)]) == [0]
        await deliveries.settle([Settlement(third.id, Outcome.DONE)])
    if again:
        await desk.restart()
    async with desk.worker(options) as (connection, deliveries):
        taking = asyncio.create_task(deliveries.take())
        await connection.in_doubt(DATABASE, [])
        assert not taking.done()
        assert await commit(connection) == DONE
        (second,) = await taking
        assert second.messages[0].data == b"2"


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("committed", [True, False])
async def test_d2_9_what_is_backed_out_has_one_start_and_what_is_committed_one_a_put(
    desk: UnitsDesk, committed: bool, again: bool
) -> None:
    """Transactions rule 3.3."""
    async with desk.connect() as program:
        await program.put1("W", b"work")
    async with desk.worker() as (_, deliveries):
        (taken,) = await deliveries.take()
        own = await deliveries.connect(taken)
        await own.put1("W", b"new")
        await own.put1("W", b"newer")
        assert await deliveries.prepare(DATABASE, [prepared(taken.id)]) == [0]
    if again:
        await desk.restart()
    assert (desk.queue("W").pending_starts, desk.available("W")) == (0, 0)
    async with desk.connect("resolver") as resolver:
        assert [each.unit for each in await resolver.doubts(DATABASE)] == [UNIT]
        assert await (commit if committed else back_out)(resolver) == DONE
    assert desk.queue("W").pending_starts == desk.available("W") == (2 if committed else 1)
    await desk.restart()
    assert desk.queue("W").pending_starts == desk.available("W") == (2 if committed else 1)


@pytest.mark.parametrize("again", [False, True])
async def test_d2_9_what_a_program_had_got_has_its_start_again(desk: UnitsDesk, again: bool) -> None:
    """Its program has gone, which would have got it otherwise."""
    async with desk.connect() as program:
        await program.put1("W", b"work")
        async with program.open("W", MQOO.INPUT_SHARED) as queue:
            await queue.get(options=MQGMO.SYNCPOINT)
        await program.prepare(UNIT, DATABASE)
    if again:
        await desk.restart()
    before = desk.queue("W").pending_starts
    async with desk.connect("resolver") as resolver:
        assert await back_out(resolver) == DONE
    assert (desk.available("W"), desk.queue("W").pending_starts) == (1, before + 1)


# Deliveries


async def test_a_delivery_that_is_not_held_is_refused_each_for_itself(desk: UnitsDesk) -> None:
    """Transactions rule 2.2: the fence against who was slow."""
    async with desk.connect() as program:
        await program.put1("W", b"1")
        await program.put1("W", b"2")
    async with desk.worker() as (connection, deliveries):
        one, two = await deliveries.take(2)
        await deliveries.settle([Settlement(one.id, Outcome.RETURNED)])
        await prepare(connection, b"a", unit=OTHER)
        items = [prepared(one.id), prepared(two.id, OTHER), prepared(two.id), prepared(two.id, b"x" * 16)]
        found = await deliveries.prepare(DATABASE, items)
        assert found == [MQRC.HOBJ_ERROR, MQRC.OBJECT_IN_USE, 0, MQRC.HOBJ_ERROR]
        assert await commit(connection) == DONE
        failed = Settlement(two.id, Outcome.FAILED)
        assert await reason_of(deliveries.prepare(DATABASE, [prepared(two.id)._replace(settlement=failed)])) == (
            MQRC.OPTIONS_ERROR
        )


async def test_a_delivery_in_doubt_is_in_nobodys_hands(desk: UnitsDesk) -> None:
    """It counts in no total, and its own connection has ended (transactions rule 2.7)."""
    async with desk.connect() as program:
        await program.put1("W", b"1")
        await program.put1("W", b"2")
    async with desk.worker(OPTIONS._replace(total=1)) as (connection, deliveries):
        (one,) = await deliveries.take()
        own = await deliveries.connect(one)
        assert await deliveries.prepare(DATABASE, [prepared(one.id)]) == [0]
        assert await reason_of(own.put1("Q", b"late")) == MQRC.HCONN_ERROR
        (two,) = await deliveries.take()
        assert two.messages[0].data == b"2"
        assert desk.figures()["running"] == 2
        assert await commit(connection) == DONE
    await desk.clock.advance(1)
    assert desk.queue("W").depth == 1


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(
    ("outcome", "attempt", "counted"),
    [
        (Outcome.FAILED, 2, "failed"),
        (Outcome.LATER, 1, "later"),
        (Outcome.RETURNED, 1, "returned"),
        (None, 1, "returned"),
    ],
)
async def test_a_delivery_that_is_backed_out_is_judged_as_its_settlement_says(
    desk: UnitsDesk, outcome: Outcome | None, attempt: int, counted: str, again: bool
) -> None:
    """Transactions rules 3.1 and 3.2."""
    async with desk.connect() as program:
        await program.put1("W", b"work")
    async with desk.worker() as (_, deliveries):
        (taken,) = await deliveries.take()
        await (await deliveries.connect(taken)).put1("Q", b"done")
        assert await deliveries.prepare(DATABASE, [prepared(taken.id)]) == [0]
    if again:
        await desk.restart()
    async with desk.worker() as (connection, deliveries):
        settlement = None if outcome is None else Settlement(0, outcome, Failure("E", "why"), seconds=5.0)
        assert await back_out(connection, settlement=settlement) == DONE
        figures = desk.figures()
        assert (figures["started"], figures["running"], figures[counted]) == (1, 0, 1)
        await desk.clock.advance(5)
        (again_taken,) = await deliveries.take()
        assert (again_taken.attempt, desk.queue("Q").depth) == (attempt, 0)
        assert figures["crashed"] == 0


@pytest.mark.parametrize("again", [False, True])
async def test_a_suspect_that_is_aborted_is_charged_and_given_up_only_when_it_ran_alone(
    desk: UnitsDesk, again: bool
) -> None:
    """Transactions rule 3.2: its worker goes each time between its prepare and its decision."""
    options = OPTIONS._replace(dead_letter="DEAD", crashes=2)
    async with desk.connect() as program:
        await program.put1("W", b"poison")
    seen: list[tuple[int, bool, bool]] = []
    while desk.queue("DEAD").depth == 0 and len(seen) < 9:
        async with desk.worker(options) as (_, deliveries):
            (taken,) = await deliveries.take()
            assert await deliveries.prepare(DATABASE, [prepared(taken.id)]) == [0]
            (branch,) = desk.manager.core.branches.by_id.values()
            assert branch.delivery is not None
            seen.append((taken.attempt, branch.delivery.suspect, branch.delivery.alone))
        if again:
            await desk.restart()
        async with desk.connect("resolver") as resolver:
            assert await back_out(resolver) == DONE
        await desk.clock.advance(5)
    assert seen == [(1, False, False), (1, True, False), (2, True, True)]


async def test_messages_that_failed_in_a_batch_leave_the_unit_at_the_prepare(desk: UnitsDesk) -> None:
    async with desk.connect() as program:
        for number in range(3):
            await program.put1("W", f"{number}".encode())
    async with desk.worker(OPTIONS._replace(batch=3, dead_letter="DEAD")) as (connection, deliveries):
        (taken,) = await deliveries.take()
        assert len(taken.messages) == 3
        item = prepared(taken.id, failed=((1, Failure("E", "why")),))
        assert await deliveries.prepare(DATABASE, [item]) == [0]
        figures = desk.figures()
        assert (figures["failed"], figures["running"], len(desk.queue("W").shelf.delayed)) == (1, 2, 1)
        assert await back_out(connection, settlement=Settlement(0, Outcome.RETURNED)) == DONE
        assert (desk.available("W"), desk.figures()["running"]) == (2, 0)
        await desk.clock.advance(5)
        counts = [entry.backout_count for entry in desk.queue("W").shelf.entries.values()]
        assert sorted(counts) == [0, 0, 1]


async def test_a_batch_of_which_all_have_failed_is_not_prepared(desk: UnitsDesk) -> None:
    async with desk.connect() as program:
        await program.put1("W", b"1")
        await program.put1("W", b"2")
    async with desk.worker(OPTIONS._replace(batch=2)) as (connection, deliveries):
        (taken,) = await deliveries.take()
        await (await deliveries.connect(taken)).put1("Q", b"done")
        item = prepared(taken.id, failed=((0, Failure("E")), (1, Failure("E"))))
        assert await deliveries.prepare(DATABASE, [item]) == [MQRC.BACKED_OUT]
        await connection.in_doubt(DATABASE, [])
        assert (len(desk.queue("W").shelf.delayed), desk.queue("Q").depth, await commit(connection)) == (2, 0, UNKNOWN)
        assert (desk.figures()["failed"], desk.figures()["running"]) == (2, 0)


async def test_d2_4_without_room_for_it_a_delivery_waits_uncharged(desk: UnitsDesk) -> None:
    async with desk.connect() as program:
        await program.put1("W", b"work")
    async with desk.worker() as (connection, deliveries):
        (taken,) = await deliveries.take()
        await (await deliveries.connect(taken)).put1("Q", b"done")
        desk.store.fill()
        assert await deliveries.prepare(DATABASE, [prepared(taken.id)]) == [MQRC.BACKED_OUT]
        desk.store.make_room()
        assert (len(desk.queue("W").shelf.delayed), desk.queue("Q").depth) == (1, 0)
        assert await connection.in_doubt(DATABASE, [UNIT]) == []
        await desk.clock.advance(1)
        (taken,) = await deliveries.take()
        assert (taken.attempt, desk.figures()["running"]) == (1, 1)


async def test_d2_4_a_dead_letter_for_which_there_is_no_room_waits(desk: UnitsDesk) -> None:
    async with desk.connect() as program:
        await program.put1("W", b"work")
    async with desk.worker(OPTIONS._replace(dead_letter="DEAD")) as (connection, deliveries):
        (taken,) = await deliveries.take()
        await (await deliveries.connect(taken)).put1("Q", b"done")
        assert await deliveries.prepare(DATABASE, [prepared(taken.id)]) == [0]
        desk.store.fill()
        rejected = Settlement(taken.id, Outcome.REJECTED, Failure("E"))
        assert await back_out(connection, settlement=rejected) == MQRC.STORAGE_MEDIUM_FULL
        assert (desk.queue("DEAD").depth, len(desk.queue("W").shelf.delayed)) == (0, 1)
        desk.store.make_room()
        await desk.clock.advance(1)
        await desk.clock.advance(1)
        assert await connection.in_doubt(DATABASE, [UNIT]) == []
        assert (desk.queue("DEAD").depth, desk.queue("W").depth, desk.queue("Q").depth) == (1, 0, 0)


async def test_d2_4_a_message_whose_dead_letter_has_no_room_is_there_after_a_restart(desk: UnitsDesk) -> None:
    """Its unit is backed out, which needs no room; the message itself stays."""
    async with desk.connect() as program:
        await program.put1("W", b"work")
    async with desk.worker(OPTIONS._replace(dead_letter="DEAD")) as (connection, deliveries):
        (taken,) = await deliveries.take()
        await (await deliveries.connect(taken)).put1("Q", b"done")
        assert await deliveries.prepare(DATABASE, [prepared(taken.id)]) == [0]
        desk.store.fill()
        rejected = Settlement(taken.id, Outcome.REJECTED, Failure("E"))
        assert await back_out(connection, settlement=rejected) == MQRC.STORAGE_MEDIUM_FULL
        await desk.clock.advance(1)
        assert await connection.in_doubt(DATABASE, [UNIT]) == []
    await desk.restart()
    assert (desk.queue("DEAD").depth, desk.queue("W").depth, desk.queue("Q").depth) == (0, 1, 0)


# Administration


async def test_d2_6_what_waits_is_shown_resolved_and_told_when_it_is_torn(
    desk: UnitsDesk, caplog: pytest.LogCaptureFixture
) -> None:
    """Transactions rule 2.8."""
    caplog.set_level(logging.INFO)
    label = f"orders {digits_of(DATABASE)}"
    async with desk.connect("owner") as owner:
        await prepare(owner, b"a", b"b")
        (reply,) = await desk.mqsc("DISPLAY THREAD(*) TYPE(INDOUBT)")
        assert f"DATABASE({label})" in reply
        assert "UOWSTATE(PREPARED)" in reply
        assert "RESOLVER(owner" in reply
        (reply,) = await desk.mqsc(f"RESOLVE INDOUBT('{ID}') ACTION(COMMIT)")
        assert "is being committed" in reply
        (finding, *_) = (await owner.explain("Q")).findings
        assert (finding.code, finding.figures["messages"], finding.figures["database"]) == ("IN_DOUBT", 2, label)
        assert "has not said yet" in finding.text
    await desk.clock.advance(59)
    assert "units are in doubt" not in caplog.text
    await desk.clock.advance(1)
    assert caplog.text.count("units are in doubt") == 1
    await desk.clock.advance(3599)
    assert caplog.text.count("units are in doubt") == 1
    await desk.clock.advance(61)
    assert caplog.text.count("units are in doubt") == 2
    status = desk.manager.status()
    assert (status["in_doubt_units"], status["in_doubt_oldest_seconds"]) == (1, 3720)
    async with desk.connect("resolver") as resolver:
        (finding, *_) = (await resolver.explain("Q")).findings
        assert "no program that sees it is connected" in finding.text
        await resolver.doubts(DATABASE)
        (reply,) = await desk.mqsc("DISPLAY THREAD(*) TYPE(INDOUBT)")
        assert "UOWSTATE(IN_DOUBT)" in reply
        assert "RESOLVER(resolver" in reply
        (finding, *_) = (await resolver.explain("Q")).findings
        assert "resolver" in finding.text
        (reply,) = await desk.mqsc(f"RESOLVE INDOUBT('{ID}') ACTION(BACKOUT)")
        assert reply.startswith("EMQ0005I"), reply
        assert "SELECT outcome FROM evermq_unit" in caplog.text
        assert await back_out(resolver) == UNKNOWN
        assert "torn" not in caplog.text
        assert await commit(resolver) == MQRC.UOW_CANCELED
    (torn,) = [each for each in caplog.records if "torn" in each.getMessage()]
    assert torn.levelno == logging.ERROR
    assert desk.manager.status()["in_doubt_units"] == 0
    assert desk.queue("Q").depth == 0


async def test_d2_6_a_commit_of_an_administrator_is_told_to_who_says_backout(desk: UnitsDesk) -> None:
    async with desk.connect() as owner:
        await prepare(owner, b"a")
        await owner.decide(DATABASE, [Decision(UNIT, commit=None)])
        assert (await desk.mqsc(f"RESOLVE INDOUBT('{ID}') ACTION(COMMIT)"))[0].startswith("EMQ0005I")
        assert await back_out(owner) == MQRC.UOW_COMMITTED
        assert await owner.decide(ELSEWHERE, [Decision(UNIT, commit=False)]) == [UNKNOWN]
    assert desk.available("Q") == 1


@pytest.mark.parametrize("action", ["COMMIT", "BACKOUT"])
async def test_d2_6_a_decision_of_an_administrator_that_had_no_room_is_known_after_a_restart(
    desk: UnitsDesk, action: str
) -> None:
    """It is written when there is room, with the end of the unit (transactions rules 2.8 and 2.9)."""
    async with desk.connect() as owner:
        await prepare(owner, b"a")
    desk.store.fail_next(StoreFullError("no room"))
    (reply,) = await desk.mqsc(f"RESOLVE INDOUBT('{ID}') ACTION({action})")
    assert "ends so when there is room" in reply
    await desk.clock.advance(1)
    await desk.restart()
    async with desk.connect() as program:
        assert await program.in_doubt(DATABASE, [UNIT]) == []
        answers = [await commit(program), await back_out(program)]
    assert answers == ([UNKNOWN, MQRC.UOW_COMMITTED] if action == "COMMIT" else [MQRC.UOW_CANCELED, UNKNOWN])
    assert desk.available("Q") == (action == "COMMIT")


async def test_d2_6_the_last_decisions_of_administrators_are_remembered_over_restarts(
    desk: UnitsDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest ones are forgotten, in the store too (transactions rule 2.4)."""
    monkeypatch.setattr(resolutions, "REMEMBERED_MAX", 3)
    units = [number.to_bytes(16, "big") for number in (9, 8, 7, 6, 5)]
    for step in range(2):
        async with desk.connect() as owner:
            for unit in units[2 * step : 3 + 2 * step]:
                await prepare(owner, b"a", unit=unit, persistence=step)  # the first have nothing else in the store
        for unit in units[2 * step : 3 + 2 * step]:
            await desk.mqsc(f"RESOLVE INDOUBT('{UUID(bytes=unit)}') ACTION(BACKOUT)")
        await desk.restart()
    async with desk.connect() as program:
        answers = await program.decide(DATABASE, [Decision(unit, commit=True) for unit in units])
    assert answers == [UNKNOWN, UNKNOWN, *[MQRC.UOW_CANCELED] * 3]
    kept, _ = await desk.store.load_objects()
    names = [row.name for row in sorted(kept, key=lambda row: row.number) if row.space == resolutions.SPACE]
    assert names == [str(UUID(bytes=unit)) for unit in units[2:]]


async def test_d2_10_no_output_has_a_whole_database_id(desk: UnitsDesk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with desk.connect() as owner:
        await prepare(owner, b"a")
    await desk.clock.advance(60)
    async with desk.connect("resolver") as resolver:
        await resolver.doubts(DATABASE)
        said = [
            *await desk.mqsc("DISPLAY THREAD(*) TYPE(INDOUBT) ALL"),
            str(await resolver.explain("Q")),
            str(desk.manager.status()),
            *await desk.mqsc(f"RESOLVE INDOUBT('{ID}') ACTION(BACKOUT)"),
            str(await commit(resolver)),
            await resolver.figures(),
        ]
    text = "".join([*said, caplog.text])
    assert digits_of(DATABASE) in text
    for form in (DATABASE.hex(), DATABASE.decode(), repr(DATABASE)):
        assert form not in text


async def test_a_queue_manager_has_an_instance_that_is_kept(desk: UnitsDesk) -> None:
    async with desk.connect() as program:
        instance = program.q_mgr_instance
        assert len(instance) == 36
        assert (await program.connect()).q_mgr_instance == instance
    await desk.restart()
    async with desk.connect() as program:
        assert program.q_mgr_instance == instance
    async with units_desk("embedded") as other, other.connect() as program:
        assert program.q_mgr_instance != instance


async def test_ten_thousand_units_that_are_decided_leave_nothing(desk: UnitsDesk) -> None:
    external = None
    async with desk.connect() as program:
        for start in range(0, 10_000, 500):
            units = [number.to_bytes(16, "big") for number in range(start, start + 500)]
            await asyncio.gather(*[program.prepare(unit, DATABASE) for unit in units])
            assert await program.decide(DATABASE, [Decision(unit, commit=True) for unit in units]) == [DONE] * 500
        external, branches = desk.manager.context.external, desk.manager.core.branches
        assert external is not None
        decisions, doubts = external.decisions, external.doubts
        left: list[Sized] = [
            branches.by_id, branches.coming, branches._owned, branches._handled, decisions._waiting, decisions._ending,
            decisions._refused, decisions._owed, branches.resolutions, doubts._free, doubts._waiting,
        ]  # fmt: skip
        assert [len(each) for each in left] == [0] * len(left)
        assert (branches.external, branches.bytes) == (0, 0)
