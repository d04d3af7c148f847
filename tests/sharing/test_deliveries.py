"""Deliveries of shared queues (`docs/rules/handlers.md`): handlers of all members share the messages."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQMF, MQOO, MQPMO, MQRC, MessageDescriptor
from broker.mqi.delivery_fields import Became, Failure, Outcome, Settlement
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore
from tests.conformance.expect import ALL, fails
from tests.handlers.desk import TERMS, bodies, settle
from tests.sharing.members import lose_line
from tests.sharing.workers import BY_ACCOUNT, HANDLED, depth, keyed, messages, put

if TYPE_CHECKING:
    from broker import Queue
    from broker.interface.handlers.deliveries import Delivered, Deliveries
    from tests.sharing.members import Members, lose_line
from tests.sharing.workers import Workers

pytestmark = pytest.mark.postgres

DEFINITIONS = HANDLED


@pytest.mark.usefixtures("unpolled")
async def test_what_is_put_at_one_member_is_handled_at_another(members: Members, workers: Workers, here: Queue) -> None:
    worker = await workers.start("QM2")
    taking = asyncio.ensure_future(worker.take())
    await members.clock.rest()
    assert not taking.done()
    await here.put("a")
    (taken,) = await taking
    assert (bodies([taken]), taken.attempt, taken.limit) == (["a"], 1, 3)
    assert taken.trigger.process_name == "P"
    assert await depth(members) == 0
    (settled,) = await settle(worker, Outcome.DONE, taken)
    assert (settled.became, settled.reason) == (Became.GONE, 0)
    assert await members.group.value("SELECT count(*) FROM all_messages") == 0


async def test_each_message_is_handled_once_whoever_serves(members: Members, workers: Workers, here: Queue) -> None:
    some = [await workers.start(name) for name in ("QM1", "QM2")]
    await here.put_many([b"%d" % number for number in range(20)])
    taken = [await worker.take(10) for worker in some]
    assert sorted(bodies([*taken[0], *taken[1]])) == sorted(str(number) for number in range(20))
    for worker, delivered in zip(some, taken, strict=True):
        settled = await settle(worker, Outcome.DONE, *delivered)
        assert {each.became for each in settled} == {Became.GONE}


async def test_what_its_handler_has_put_and_got_ends_with_the_delivery(
    members: Members, workers: Workers, here: Queue
) -> None:
    worker = await workers.start("QM1")
    await here.put("a")
    for outcome in (Outcome.FAILED, Outcome.DONE):
        await put(members, "OUT", "input")
        (taken,) = await worker.take()
        connection = await worker.connect(taken)
        async with connection.open("OUT", ALL) as out:
            assert (await out.get(options=MQGMO.SYNCPOINT)).data == b"input"
            await out.put("reply", options=MQPMO.SYNCPOINT)
        await connection.put1("OWN", "mark", options=MQPMO.SYNCPOINT)
        (settled,) = await settle(worker, outcome, taken)
        assert settled.reason == 0
        done = outcome == Outcome.DONE
        assert await messages(members, "OUT") == ([b"reply"] if done else [b"input"])
        assert await messages(members, "OWN") == ([b"mark"] if done else [])
        await members.clock.advance(1)
    assert await depth(members) == 0


async def test_a_handler_of_a_private_queue_puts_on_a_shared_one(members: Members, workers: Workers) -> None:
    await members.mqsc("DEFINE QLOCAL(MINE) TRIGGER TRIGTYPE(EVERY) PROCESS(P)")
    worker = await workers.start("QM1", queue="MINE")
    await put(members, "MINE", "a")
    for outcome, became in (
        (Outcome.FAILED, Became.DELAYED),
        (Outcome.RETURNED, Became.RETURNED),
        (Outcome.DONE, Became.GONE),
    ):
        (taken,) = await worker.take()
        await (await worker.connect(taken)).put1("OUT", "reply")
        (settled,) = await settle(worker, outcome, taken)
        assert (settled.became, settled.reason) == (became, 0)
        assert await messages(members, "OUT") == ([b"reply"] if outcome == Outcome.DONE else [])
        await members.clock.advance(1)
    assert await messages(members, "MINE") == []


# Failures


async def test_what_has_failed_waits_and_is_tried_again_at_another_member(
    members: Members, workers: Workers, here: Queue
) -> None:
    first = await workers.start("QM1")
    await here.put("a")
    (taken,) = await first.take()
    (settled,) = await settle(first, Outcome.FAILED, taken)
    assert (settled.became, settled.attempts, settled.reason) == (Became.DELAYED, 1, 0)
    assert await depth(members) == 1
    second = await workers.start("QM2")
    taking = asyncio.ensure_future(second.take())
    await members.clock.advance(0.9)
    assert not taking.done()
    await members.clock.advance(0.1)
    (again,) = await taking
    assert (again.attempt, again.messages[0].md.backout_count) == (2, 1)
    assert again.messages[0].md.msg_id == taken.messages[0].md.msg_id
    await settle(second, Outcome.DONE, again)


@pytest.mark.parametrize("dead_letter", ["DEAD", "OWN"])
async def test_a_dead_letter_says_what_has_happened_at_any_member(
    members: Members, workers: Workers, here: Queue, dead_letter: str
) -> None:
    some = [await workers.start(name, TERMS._replace(dead_letter=dead_letter)) for name in ("QM2", "QM1")]
    await here.put("a")
    for attempt in (1, 2, 3):
        worker = some[attempt % 2]
        (taken,) = await worker.take()
        assert taken.attempt == attempt
        (settled,) = await settle(worker, Outcome.FAILED, taken)
        await members.clock.advance(1)
    assert settled.became == Became.DEAD
    dead = await (await members.connect("QM1")).open(dead_letter, ALL)
    message = await dead.get()
    assert message.properties["evermq.attempts"] == 3
    assert message.properties["evermq.error"] == "no such order"
    await members.clock.rest()  # its row goes after the answer
    assert await members.group.value("SELECT count(*) FROM all_messages") == 0


async def test_a_dead_letter_for_which_there_is_no_room_is_held(
    members: Members, workers: Workers, here: Queue
) -> None:
    await members.mqsc("ALTER QLOCAL(DEAD) MAXDEPTH(1)")
    await put(members, "DEAD", "in the way")
    worker = await workers.start("QM1")
    await here.put("a")
    (taken,) = await worker.take()
    (settled,) = await settle(worker, Outcome.REJECTED, taken)
    assert (settled.became, settled.reason) == (Became.DELAYED, MQRC.Q_FULL)
    assert await depth(members) == 1
    assert await messages(members, "DEAD") == [b"in the way"]
    taking = asyncio.ensure_future(worker.take())
    await members.clock.advance(2)
    assert len(await messages(members, "DEAD")) == 1
    assert not taking.done()
    assert await depth(members) == 0
    taking.cancel()


async def test_a_full_disk_is_not_the_handlers_fault(members: Members, workers: Workers, here: Queue) -> None:
    store = FaultStore(MemoryStore())
    members.stores["QM3"] = store  # type: ignore[assignment]  # as good as one
    await members.start("QM3")
    await (await members.connect("QM3")).mqsc("DEFINE QLOCAL(OWN)")
    worker = await workers.start("QM3")
    await here.put("a")
    for _ in range(5):
        (taken,) = await worker.take()
        assert taken.attempt == 1
        await (await worker.connect(taken)).put1("OWN", "reply", MessageDescriptor(persistence=1))
        store.fill()
        (settled,) = await settle(worker, Outcome.DONE, taken)
        store.make_room()
        assert (settled.became, settled.reason) == (Became.DELAYED, MQRC.STORAGE_MEDIUM_FULL)
        await members.clock.advance(60)
    (taken,) = await worker.take()
    assert (await settle(worker, Outcome.DONE, taken))[0].became == Became.GONE


async def test_what_a_handler_wants_later_or_gives_back_is_not_charged(
    members: Members, workers: Workers, here: Queue
) -> None:
    worker = await workers.start("QM1")
    await here.put("a")
    (taken,) = await worker.take()
    (settled,) = await settle(worker, Outcome.LATER, taken, seconds=5.0)
    assert (settled.became, settled.attempts) == (Became.DELAYED, 0)
    await members.clock.advance(5)
    (taken,) = await worker.take()
    (settled,) = await settle(worker, Outcome.RETURNED, taken)
    assert (settled.became, settled.attempts) == (Became.RETURNED, 0)
    (taken,) = await worker.take()
    assert taken.attempt == 1
    await settle(worker, Outcome.DONE, taken)


# Several messages


async def test_of_a_batch_those_go_back_that_failed_alone(members: Members, workers: Workers, here: Queue) -> None:
    worker = await workers.start("QM1", TERMS._replace(batch=3))
    await here.put_many([b"a", b"b", b"c"])
    (taken,) = await worker.take()
    assert bodies([taken]) == ["a b c"]
    failed = ((1, Failure("ValueError", "not b")),)
    (settled,) = await worker.settle([Settlement(taken.id, Outcome.DONE, failed=failed)])
    assert (settled.became, settled.reason) == (Became.GONE, 0)
    assert await members.group.value("SELECT count(*) FROM message") == 1
    await members.clock.advance(1)
    (again,) = await worker.take()
    assert (bodies([again]), again.attempt) == (["b"], 2)
    await settle(worker, Outcome.DONE, again)


async def test_a_group_is_handled_as_a_whole_when_it_is_whole(
    members: Members, workers: Workers, here: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await workers.start("QM2", TERMS._replace(groups=True))
    monkeypatch.setattr("broker.sharing.handlers.deliveries.LOOKS_MAX", 10)  # so it reaches beyond what is looked at
    in_group, last = MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP), MessageDescriptor(msg_flags=MQMF.LAST_MSG_IN_GROUP)
    for number in range(19):
        await here.put(f"{number}", in_group, MQPMO.LOGICAL_ORDER)
    taking = asyncio.ensure_future(worker.take())
    await members.clock.advance(2)
    assert not taking.done()
    await here.put("19", last, MQPMO.LOGICAL_ORDER)
    (taken,) = await taking
    assert bodies([taken]) == [" ".join(map(str, range(20)))]
    await settle(worker, Outcome.FAILED, taken)
    assert await depth(members) == 20
    await members.clock.advance(1)
    (taken,) = await worker.take()
    await settle(worker, Outcome.DONE, taken)
    assert await depth(members) == 0


# Order by key


async def test_messages_of_one_key_follow_one_another_over_all_members(
    members: Members, workers: Workers, here: Queue
) -> None:
    first, second = await workers.start("QM1", BY_ACCOUNT), await workers.start("QM2", BY_ACCOUNT)
    await keyed(here, "a1", "a2", "b1", "a3")
    (a1,) = await first.take()
    (b1,) = await second.take(5)
    assert (bodies([a1]), bodies([b1])) == (["a1"], ["b1"])
    taking = asyncio.ensure_future(second.take(5))
    await members.clock.rest()
    await settle(first, Outcome.FAILED, a1)
    await members.clock.advance(0.5)
    assert not taking.done()  # it waits for its next attempt, and holds back the others
    await members.clock.advance(0.5)
    (a1,) = await taking
    assert (bodies([a1]), a1.attempt) == (["a1"], 2)
    await settle(second, Outcome.DONE, a1)
    for expected in ("a2", "a3"):
        (taken,) = await first.take(5)
        assert bodies([taken]) == [expected]
        await settle(first, Outcome.DONE, taken)
    await settle(second, Outcome.DONE, b1)


async def test_behind_very_many_of_a_busy_key_others_are_found(members: Members, workers: Workers, here: Queue) -> None:
    worker = await workers.start("QM1", BY_ACCOUNT)
    await keyed(here, *["a"] * 500, "b1")
    (busy,) = await worker.take()
    (other,) = await worker.take()
    assert bodies([busy, other]) == ["a", "b1"]
    await settle(worker, Outcome.RETURNED, busy, other)
    assert await depth(members) == 501


async def test_members_that_look_at_once_do_not_take_two_of_a_key(
    members: Members, workers: Workers, here: Queue
) -> None:
    some = [await workers.start(name, BY_ACCOUNT) for name in ("QM1", "QM2")]
    for _ in range(10):
        taking = [asyncio.ensure_future(worker.take(5)) for worker in some]
        await members.clock.rest()
        for name in ("a1", "a2"):
            await here.put(name, options=MQPMO.SYNCPOINT, properties={"account": "a"})
        await here._connection.commit()
        for expected in ("a1", "a2"):
            done, _ = await asyncio.wait(taking, return_when=asyncio.FIRST_COMPLETED)
            await members.clock.rest()
            assert [each.done() for each in taking].count(True) == 1
            at = taking.index(next(iter(done)))
            assert bodies(taking[at].result()) == [expected]
            await settle(some[at], Outcome.DONE, *taking[at].result())
            taking[at] = asyncio.ensure_future(some[at].take(5))
        for each in taking:
            each.cancel()
        await members.clock.rest()


@pytest.mark.parametrize("seed", range(2))
async def test_random_schedules_keep_the_order_of_keys_and_lose_nothing(
    members: Members, workers: Workers, here: Queue, seed: int
) -> None:
    random = Random(seed)
    terms = BY_ACCOUNT._replace(attempts=None, backoff=(0.5,))
    some = [await workers.start(name, terms) for name in ("QM1", "QM2", "QM1")]
    names = [f"{random.choice('abcd')}{number:02}" for number in range(30)]
    await keyed(here, *names)
    running: dict[str, tuple[Deliveries, Delivered]] = {}
    done: list[str] = []
    while len(done) < len(names):
        worker = random.choice(some)
        if random.random() < 0.6:
            taking = asyncio.ensure_future(worker.take(random.randrange(1, 4)))
            await members.clock.rest()
            if taking.done():
                for taken in taking.result():
                    (name,) = bodies([taken])
                    assert name[0] not in {other[0] for other in running}
                    running[name] = worker, taken
            else:
                taking.cancel()
                await members.clock.rest()
        elif running:
            name = random.choice(sorted(running))
            worker, taken = running.pop(name)
            outcome = random.choice((Outcome.DONE, Outcome.DONE, Outcome.FAILED, Outcome.RETURNED))
            await settle(worker, outcome, taken)
            done += [name] * (outcome == Outcome.DONE)
        else:
            await members.clock.advance(0.5)
    for key in "abcd":
        assert [name for name in done if name[0] == key] == [name for name in names if name[0] == key]
    assert await members.group.value("SELECT count(*) FROM all_messages") == 0


# Who comes and goes


async def test_what_a_lost_worker_had_comes_again(members: Members, workers: Workers, here: Queue) -> None:
    connection = await members.connect("QM1")
    async with connection.deliveries("Q", options=TERMS) as lost:
        await here.put("a")
        await lost.take()
        lose_line(connection)
        await members.clock.rest()
    worker = await workers.start("QM2")
    await members.clock.advance(1)
    (taken,) = await worker.take()
    assert taken.attempt == 2
    await settle(worker, Outcome.DONE, taken)


async def test_what_a_failed_member_had_comes_again_at_its_peer(
    members: Members, workers: Workers, here: Queue
) -> None:
    connection = await members.connect("QM1")
    deliveries = connection.deliveries("Q", options=TERMS)
    await deliveries.__aenter__()
    await here.put("a")
    await deliveries.take()
    members.group.forgive("handles", "connection tags", "units of work")
    worker = await workers.start("QM2")
    taking = asyncio.ensure_future(worker.take())
    await members.fail("QM1")
    (taken,) = await taking
    assert (bodies([taken]), taken.attempt) == (["a"], 2)
    await settle(worker, Outcome.DONE, taken)


async def test_a_member_that_stops_gives_back_what_its_workers_had(
    members: Members, workers: Workers, here: Queue
) -> None:
    worker = await workers.start("QM1")
    await here.put("a")
    await worker.take()
    await members.stop("QM1")
    other = await workers.start("QM2")
    (taken,) = await other.take()
    assert taken.attempt == 1
    await settle(other, Outcome.DONE, taken)


async def test_getters_and_handlers_share_the_messages(
    members: Members, workers: Workers, here: Queue, there: Queue
) -> None:
    worker = await workers.start("QM1")
    await here.put_many([b"%d" % number for number in range(60)])
    got: list[str] = []

    async def get() -> None:
        got.extend([(await there.get()).data.decode() for _ in range(30)])

    async def handle() -> None:
        left = 30
        while left:
            taken = await worker.take(min(3, left))
            got.extend(bodies(taken))
            await settle(worker, Outcome.DONE, *taken)
            left -= len(taken)

    await asyncio.gather(get(), handle())
    assert sorted(got) == sorted(str(number) for number in range(60))


async def test_exclusive_input_at_another_member_holds_deliveries_back(
    members: Members, workers: Workers, here: Queue
) -> None:
    await here.close()
    exclusive = await (await members.connect("QM2")).open("Q", MQOO.INPUT_EXCLUSIVE | MQOO.OUTPUT)
    worker = await workers.start("QM1")
    await exclusive.put("a")
    taking = asyncio.ensure_future(worker.take())
    await members.clock.advance(3)
    assert not taking.done()
    await exclusive.close()
    await members.clock.advance(1)
    await settle(worker, Outcome.DONE, *await taking)


@pytest.mark.parametrize(("off", "on"), [("GET(DISABLED)", "GET(ENABLED)"), ("NOTRIGGER", "TRIGGER")])
async def test_they_are_paused_and_a_deletion_ends_the_wait(
    members: Members, workers: Workers, off: str, on: str
) -> None:
    worker = await workers.start("QM1")
    await members.mqsc(f"ALTER QLOCAL(Q) {off}")
    await put(members, "Q", "a")
    taking = asyncio.ensure_future(worker.take())
    await members.clock.advance(2)
    assert not taking.done()
    await members.mqsc(f"ALTER QLOCAL(Q) {on}")
    await members.clock.advance(1)
    await settle(worker, Outcome.DONE, *await taking)
    taking = asyncio.ensure_future(worker.take())
    await members.clock.rest()
    await members.mqsc("DELETE QLOCAL(Q)")
    await members.clock.advance(1)
    with fails(MQRC.Q_DELETED):
        await taking


@pytest.mark.usefixtures("unpolled")
async def test_a_rate_and_a_total_hold_for_the_member(members: Members, workers: Workers, here: Queue) -> None:
    worker = await workers.start("QM1", TERMS._replace(rate=1.0, burst=1, total=2))
    await here.put_many([b"a", b"b", b"c"])
    (a,) = await worker.take(5)
    taking = asyncio.ensure_future(worker.take(5))
    await members.clock.advance(0.9)
    assert not taking.done()
    await members.clock.advance(0.1)
    (b,) = await taking
    taking = asyncio.ensure_future(worker.take(5))
    await members.clock.advance(5)
    assert not taking.done()
    await settle(worker, Outcome.DONE, a)
    (c,) = await taking
    await settle(worker, Outcome.DONE, b, c)


async def test_what_expires_under_its_handler_is_discarded_when_that_fails(
    members: Members, workers: Workers, here: Queue
) -> None:
    worker = await workers.start("QM1")
    await here.put("a", MessageDescriptor(expiry=10))
    (taken,) = await worker.take()
    await members.clock.advance(2)
    (settled,) = await settle(worker, Outcome.FAILED, taken)
    assert (settled.became, settled.reason) == (Became.EXPIRED, 0)
    assert await members.group.value("SELECT count(*) FROM all_messages") == 0


async def test_what_has_expired_is_not_handled(members: Members, workers: Workers, here: Queue) -> None:
    worker = await workers.start("QM1")
    await here.put("old", MessageDescriptor(expiry=10))
    await members.clock.advance(2)
    await here.put("new")
    (taken,) = await worker.take(5)
    assert bodies([taken]) == ["new"]
    await settle(worker, Outcome.DONE, taken)
