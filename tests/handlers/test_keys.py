"""Duplicate suppression: handlers section 4."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import pytest

from broker import QueueManager
from broker.config import Config
from broker.mqi import MQGMO, MQOO, MQPMO, MQRC, MessageDescriptor, MQError
from broker.storage.memory import MemoryStore
from broker.storage.store import StoreFullError
from broker.testing import VirtualClock
from tests.handlers.delayed import ALL, delayed
from tests.handlers.desk import desk, settle

if TYPE_CHECKING:
    from pathlib import Path

EVERY = "TRIGGER TRIGTYPE(EVERY) PROCESS(P)"
PERSISTENT = MessageDescriptor(persistence=1)


async def test_h4_1_of_a_hundred_puts_with_one_key_one_is_a_message(tmp_path: Path) -> None:
    async with delayed(data=tmp_path / "data", attributes=EVERY + " DEFPSIST(YES)") as d:
        connections = [await d.connection.connect() for _ in range(10)]
        puts = [connections[number % 10].put1("Q", "a", key="order 7") for number in range(100)]
        results = await asyncio.gather(*puts)
        assert sum(not each.duplicate for each in results) == 1
        assert len({each.md.msg_id for each in results}) == 1
        assert (d.starts, d.figures()["depth"], d.figures()["duplicates"]) == (1, 1, 99)
        for connection in connections:
            await connection.disconnect()


async def test_h4_2_a_window_of_time_outlives_the_message() -> None:
    async with delayed() as d:
        first = await d.put("a", key="k")
        assert await d.got() == ["a"]
        await d.clock.advance(299)
        again = await d.put("a", key="k")
        assert (again.duplicate, again.md.msg_id) == (True, first.md.msg_id)
        await d.clock.advance(2)
        new = await d.put("a", key="k")
        assert (new.duplicate, await d.got()) == (False, ["a"])


async def test_the_window_begins_at_the_delivery_instant() -> None:
    async with delayed() as d:
        await d.put("a", key="k", delay=100, window=10)
        await d.clock.advance(109)
        assert (await d.put("a", key="k", window=10)).duplicate
        await d.clock.advance(1)
        assert not (await d.put("a", key="k", window=10)).duplicate


async def test_h4_3_without_a_window_a_key_is_held_for_as_long_as_the_message_is_there() -> None:
    async with desk() as d, d.worker() as worker, d.connection.open("Q", MQOO.OUTPUT) as queue:
        put = partial(queue.put, "a", key="k", window=None)
        await put()
        for _ in range(3):
            (taken,) = await worker.take()
            assert (await put()).duplicate, "while its handler runs"
            await settle(worker, 1, taken)  # type: ignore[arg-type]
            if d.depth():
                assert (await put()).duplicate, "while it waits for a retry"
                await d.clock.advance(1)
        assert d.depth("DEAD") == 1
        assert not (await put()).duplicate


async def test_without_a_window_a_key_goes_with_the_message_that_is_got_or_expires() -> None:
    async with delayed() as d:
        put = partial(d.put, "a", key="k", window=None)
        await put()
        await d.clock.advance(10_000)
        assert (await put()).duplicate
        assert await d.got() == ["a"]
        assert not (await put(md=MessageDescriptor(expiry=10))).duplicate
        await d.clock.advance(61)
        assert not (await put()).duplicate


async def test_h4_4_keys_are_known_after_a_restart(tmp_path: Path) -> None:
    clock = VirtualClock()
    opened = partial(delayed, data=tmp_path / "data", clock=clock, attributes="DEFPSIST(YES)")
    async with opened() as d:
        first = await d.put("a", key="time")
        there = await d.put("b", key="there", window=None)
        await d.put("c", key="gone", window=None)
        given = await d.put("d", md=MessageDescriptor(msg_id=b"G" * 24, persistence=1), key="given")
        await d.put("e", md=MessageDescriptor(persistence=0), key="in memory")
        await d.queue.get(MessageDescriptor(msg_id=first.md.msg_id))
        got = await d.queue.get()
        assert got.data == b"b"
        await d.put("b", key="there 2", window=None)
        assert (await d.got())[0] == "c"
        there = await d.put("b", key="there", window=None)
    async with opened() as d:
        for key, before in (("time", first), ("there", there), ("given", given)):
            again = await d.put("", key=key)
            assert (again.duplicate, again.md.msg_id) == (True, before.md.msg_id), key
        assert not (await d.put("", key="gone", window=None)).duplicate
        assert not (await d.put("", key="in memory")).duplicate
    await clock.advance(301)
    async with opened() as d:
        assert not (await d.put("", key="time")).duplicate
        assert (await d.put("", key="there")).duplicate


async def test_h4_5_a_key_in_a_unit_of_work_that_has_not_ended_is_in_use() -> None:
    async with delayed() as d, d.manager.connect() as other:
        await d.put("a", options=MQPMO.SYNCPOINT, key="k")
        again = await d.put("b", options=MQPMO.SYNCPOINT, key="k")
        assert (again.duplicate, again.same_data) == (True, False)
        for options in (MQPMO.SYNCPOINT, MQPMO.NO_SYNCPOINT):
            with pytest.raises(MQError) as refused:
                await other.put1("Q", "b", options=options, key="k")
            assert refused.value.reason == MQRC.OBJECT_IN_USE
        await d.connection.backout()
        assert not (await other.put1("Q", "b", key="k")).duplicate
        assert await d.got() == ["b"]


async def test_a_put_waits_for_a_commit_that_is_on_its_way(tmp_path: Path) -> None:
    async with delayed(data=tmp_path / "data", attributes="DEFPSIST(YES)") as d, d.manager.connect() as other:
        first = await d.put("a", options=MQPMO.SYNCPOINT, key="k")
        _, second = await asyncio.gather(d.connection.commit(), other.put1("Q", "a", key="k"))
        assert (second.duplicate, second.md.msg_id) == (True, first.md.msg_id)


async def test_the_store_forgets_a_key_with_the_message_that_it_was_held_for() -> None:
    store = MemoryStore()
    async with QueueManager.open(name="QM1", store=store) as manager, manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES)", check=True)
        async with connection.open("Q", ALL) as queue:
            await queue.put("a", key="k", window=None)
            assert [len(keys) async for keys in store.load_keys()] == [1]
            await queue.get()
            await queue.put("b", key="other")
            assert [[row.until > 0 for row in keys] async for keys in store.load_keys()] == [[True]]


class FullStore(MemoryStore):
    """A store with no room for messages, as long as `full`."""

    full = False

    def submit(self, rows, done):  # type: ignore[no-untyped-def]
        if self.full and rows.inserts:
            asyncio.get_running_loop().call_soon(done, StoreFullError("full"))
            return None
        return super().submit(rows, done)


async def test_h4_6_a_duplicate_stands_or_falls_with_the_first() -> None:
    store = FullStore()
    async with (
        QueueManager.open(name="QM1", store=store) as manager,
        manager.connect() as one,
        manager.connect() as two,
    ):
        await one.mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES)", check=True)
        store.full = True
        results = await asyncio.gather(one.put1("Q", "a", key="k"), two.put1("Q", "a", key="k"), return_exceptions=True)
        assert [getattr(each, "reason", each) for each in results] == [MQRC.STORAGE_MEDIUM_FULL] * 2
        manager.core.check_invariants()
        store.full = False
        first, second = await asyncio.gather(one.put1("Q", "a", key="k"), two.put1("Q", "a", key="k"))
        assert (first.duplicate, second.duplicate) == (False, True)
        assert manager.core.objects.queues["Q"].depth == 1
        manager.core.check_invariants()


async def test_h4_7_a_unit_that_removes_the_holder_may_put_with_its_key() -> None:
    async with delayed() as d:
        put = partial(d.put, key="status", window=None)
        old = await put("old")
        for end, depth in ((d.connection.backout, ["old"]), (d.connection.commit, ["new"])):
            await d.queue.get(options=MQGMO.SYNCPOINT)
            new = await put("new", options=MQPMO.SYNCPOINT)
            assert not new.duplicate
            await end()
            d.manager.core.check_invariants()
            again = await put("again")
            holder = old if depth == ["old"] else new
            assert (again.duplicate, again.md.msg_id) == (True, holder.md.msg_id)
        assert await d.got() == ["new"]
        assert not (await put("free")).duplicate


async def test_a_status_that_replaced_itself_holds_its_key_after_a_restart(tmp_path: Path) -> None:
    clock = VirtualClock()
    opened = partial(delayed, data=tmp_path / "data", clock=clock, attributes="DEFPSIST(YES)")
    async with opened() as d:
        await d.put("old", key="status", window=None)
        await d.queue.get(options=MQGMO.SYNCPOINT)
        new = await d.put("new", options=MQPMO.SYNCPOINT, key="status", window=None)
        await d.connection.commit()
    async with opened() as d:
        again = await d.put("", key="status", window=None)
        assert (again.duplicate, again.md.msg_id) == (True, new.md.msg_id)


async def test_h4_8_beyond_the_limit_puts_are_refused_until_a_window_ends() -> None:
    config = Config()
    in_memory = replace(config.queue_manager, data=None)
    config = replace(config, queue_manager=in_memory, limits=replace(config.limits, keys=10))
    clock = VirtualClock()
    async with QueueManager.open(config, clock=clock) as manager, manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(Q)", check=True)
        for number in range(10):
            await connection.put1("Q", "", key=str(number), window=10 + number)
        with pytest.raises(MQError) as refused:
            await connection.put1("Q", "", key="11")
        assert refused.value.reason == MQRC.RESOURCE_PROBLEM
        assert (await connection.put1("Q", "", key="3")).duplicate
        await connection.put1("Q", "")
        await clock.advance(10)
        await connection.put1("Q", "", key="11")
        with pytest.raises(MQError):
            await connection.put1("Q", "", key="12")
        manager.core.check_invariants()


async def test_h4_8_what_is_kept_of_keys_does_not_grow_with_the_number_of_puts() -> None:
    async with delayed() as d:
        for number in range(3000):
            await d.put("", md=MessageDescriptor(persistence=0), key=str(number), window=1)
            await d.clock.advance(0.01)
            if number % 10 == 0:
                await d.got()
        keys = d.manager.core.objects.queues["Q"].keys
        assert keys is not None
        assert len(keys) <= 110
        assert d.manager.core.keys.count == len(keys)
        assert len(keys._times) <= 400


async def test_h4_9_a_key_is_of_its_queue_whatever_name_leads_there() -> None:
    async with delayed("DEFINE QLOCAL(OTHER)\nDEFINE QALIAS(A) TARGET(Q)") as d:
        assert not (await d.put("a", key="k")).duplicate
        assert not (await d.connection.put1("OTHER", "a", key="k")).duplicate
        assert (await d.connection.put1("A", "a", key="k")).duplicate


async def test_h3_7_a_cancel_frees_the_key() -> None:
    async with delayed() as d:
        first = await d.put("a", delay=60, key="k")
        assert (await d.put("b", delay=60, key="k")).duplicate
        await d.queue.get(MessageDescriptor(msg_id=first.md.msg_id), MQGMO.NO_SYNCPOINT, delayed=True)
        second = await d.put("b", delay=60, key="k")
        assert not second.duplicate
        await d.queue.get(MessageDescriptor(msg_id=second.md.msg_id), MQGMO.SYNCPOINT, delayed=True)
        await d.connection.backout()
        assert (await d.put("c", delay=60, key="k")).md.msg_id == second.md.msg_id
        await d.clock.advance(60)
        assert await d.got() == ["b"]
        assert (await d.put("c", key="k")).duplicate, "who got it has not cancelled it"


async def test_a_cancel_frees_the_key_for_good(tmp_path: Path) -> None:
    clock = VirtualClock()
    opened = partial(delayed, data=tmp_path / "data", clock=clock, attributes="DEFPSIST(YES)")
    async with opened() as d:
        await d.put("a", delay=60, key="k")
        await d.queue.get(options=MQGMO.NO_SYNCPOINT, delayed=True)
    async with opened() as d:
        assert not (await d.put("b", key="k")).duplicate


async def test_clear_and_delete_free_keys() -> None:
    async with delayed() as d:
        for extras in ({"key": "there"}, {"key": "waits", "delay": 60}, {"key": "none", "window": None}):
            await d.put("", **extras)
        await d.queue.close()
        await d.connection.mqsc("CLEAR QLOCAL(Q)", check=True)
        for key in ("there", "waits", "none"):
            assert not (await d.connection.put1("Q", "", key=key)).duplicate
        await d.connection.mqsc("DELETE QLOCAL(Q) PURGE", check=True)
        assert d.manager.core.keys.count == 0
        await d.connection.mqsc("DEFINE QLOCAL(Q)", check=True)
        assert not (await d.connection.put1("Q", "", key="there")).duplicate


async def test_a_duplicate_starts_nothing_and_raises_no_event() -> None:
    definitions = "ALTER QMGR PERFMEV(ENABLED)\nALTER QLOCAL(Q) MAXDEPTH(10) QDPHIEV(ENABLED) QDEPTHHI(20)"
    async with delayed(definitions, attributes=EVERY) as d:
        await d.put("", key="k")
        for _ in range(5):
            assert (await d.put("", key="k")).duplicate
        (events,) = [each for each in d.manager.status()["queues"] if each["name"] == "SYSTEM.ADMIN.PERFM.EVENT"]
        assert (d.starts, events["depth"]) == (1, 0)


async def test_a_batch_has_a_key_for_each() -> None:
    async with delayed() as d:
        results = await d.queue.put_many(["a", "b", "c", "d"], keys=["1", "2", "1", None])
        assert [each.duplicate for each in results] == [False, False, True, False]
        assert await d.got() == ["a", "b", "d"]
        with pytest.raises(ValueError, match="keys has 1"):
            await d.queue.put_many(["a", "b"], keys=["1"])
        later = await d.queue.put_many(["a", "b"], delay=5)
        assert [each.deliver_at for each in later] == [d.now + 5] * 2


@pytest.mark.parametrize(
    "extras",
    [{"key": ""}, {"key": b"x" * 256}, {"window": 5}, {"key": "k", "window": 0}, {"key": "k", "window": -1}],
)
async def test_what_can_be_no_key_or_window_is_refused(extras: dict[str, object]) -> None:
    async with delayed() as d:
        with pytest.raises(ValueError, match=r"key|window"):
            await d.put("", **extras)


@pytest.mark.parametrize("seed", range(5))
async def test_h4_10_never_two_messages_of_a_key_in_its_window_and_never_none(seed: int) -> None:
    """Random puts, gets, cancels, units of work that end either way, and time that passes, on one queue."""
    random = Random(seed)
    async with delayed() as d:
        connections = [await d.connection.connect() for _ in range(3)]
        queues = [await each.open("Q", ALL) for each in connections]
        made: dict[str, list[float]] = {}  # when messages of a key were made available
        pending: list[list[tuple[str, float]]] = [[] for _ in connections]
        for _ in range(400):
            who = random.randrange(3)
            key, delay = random.choice("abcd"), random.choice([0, 0, 3])
            step = random.randrange(10)
            if step < 6:
                in_unit = random.random() < 0.4
                options = MQPMO.SYNCPOINT if in_unit else MQPMO.NO_SYNCPOINT
                try:
                    put = await queues[who].put(key, options=options, key=key, window=20, delay=delay)
                except MQError as error:
                    assert error.reason == MQRC.OBJECT_IN_USE
                    others = [unit for at, unit in enumerate(pending) if at != who or not in_unit]
                    assert any(each == key for unit in others for each, _ in unit)
                    continue
                instant = put.deliver_at or d.now
                if not put.duplicate and in_unit:
                    pending[who].append((key, instant))
                elif not put.duplicate:
                    made.setdefault(key, []).append(instant)
                else:
                    known = any(at + 20 > d.now for at in made.get(key, []))
                    in_own_unit = in_unit and any(each == key for each, _ in pending[who])
                    assert known or in_own_unit, "a duplicate of nothing"
            elif step == 6:
                await connections[who].commit()
                for each, at in pending[who]:
                    made.setdefault(each, []).append(at)
                pending[who].clear()
            elif step == 7:
                await connections[who].backout()
                pending[who].clear()
            elif step == 8:
                await d.clock.advance(random.choice([1, 5, 30]))
            else:
                await d.got()
            d.manager.core.check_invariants()
        for instants in made.values():
            in_order = sorted(instants)
            assert all(later - before >= 20 for before, later in pairwise(in_order))
        for connection in connections:
            await connection.backout()
            await connection.disconnect()
