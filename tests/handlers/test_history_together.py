"""The records of a history that are put together: of messages that are settled in one call (transactions rule 6.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.core.deliveries.history import History, RecordPlace
from broker.mqi.delivery_fields import NOT_RETURNED, Became, Outcome, Returned, Settlement
from broker.mqi.history import read_record
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore
from tests.handlers.desk import TERMS, Desk, desk, settle
from tests.handlers.test_history import HISTORY, KEPT, counted, end, kept, records

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS_MAX_TOGETHER = 15
"""Those that one of many may cost whose messages are settled in one call."""


VALUES = (b"1", b"{}", b'"' + b"x" * 99 + b'"', b"[]", b"")


@pytest.mark.parametrize(("more", "lost"), [("", 0), ("MAXDEPTH(3)", 2), ("MAXMSGL(250)", 1), ("PUT(DISABLED)", 5)])
async def test_d6_1_records_that_are_made_together_are_as_those_that_are_made_one_by_one(more: str, lost: int) -> None:
    seen: list[Any] = []
    for together in (True, False):
        async with desk(f"{HISTORY}\nALTER QLOCAL(Q.HISTORY) {more}" if more else HISTORY) as d:
            await d.put("1", "2", persistence=0)
            await d.put("3", "4", "5")
            async with d.worker(KEPT) as worker:
                ends = [
                    Settlement(taken.id, Outcome.DONE.value, ran=2.0, value=Returned(value))
                    for taken, value in zip(await worker.take(5), VALUES, strict=True)
                ]
                if together:
                    await worker.settle(ends)
                else:
                    for end in ends:
                        await worker.settle([end])
            found = [(each.data, each.md.expiry, each.md.persistence) for each in await kept(d)]
            counts = d.manager.core.objects.queues["Q.HISTORY"].counts
            seen.append((found, counts.puts, counts.put_bytes, d.counts()["history_lost"], d.counts()["succeeded"]))
    assert seen[0] == seen[1]
    assert seen[0][1:] == (5 - lost, seen[0][2], lost, 5)


TWO = "DEFINE QLOCAL(Q2) TRIGGER TRIGTYPE(EVERY) PROCESS(P) DEFPSIST(YES)\nDEFINE QLOCAL(Q2.HISTORY) DEFPSIST(YES)"


async def _two_settled_together(d: Desk, before: Callable[[], object] = lambda: None) -> list[int]:
    """Messages of two queues with a history and of one without are settled in one call: what has become of each."""
    await d.put("1", "2")
    await d.put("3", "4", queue="Q2")
    await d.put("5", queue="Q3")
    async with d.manager.connect("worker") as connection:
        second, third = KEPT._replace(history="Q2.HISTORY"), KEPT._replace(history="", history_span=0.0)
        async with (
            connection.deliveries("Q", options=KEPT) as one,
            connection.deliveries("Q2", options=second) as two,
            connection.deliveries("Q3", options=third) as three,
        ):
            taken = [*await three.take(), *await one.take(2), *await two.take(2)]
            before()
            return [each.became for each in await settle(one, Outcome.DONE, *taken[::2], *taken[1::2])]


def _lines(d: Desk) -> dict[str, tuple[int, int, int]]:
    """Depth, records lost and messages done with, by queue."""
    counts = {name: d.counts(name) for name in ("Q", "Q2", "Q3")}
    return {name: (d.depth(name), each["history_lost"], each["succeeded"]) for name, each in counts.items()}


THREE = f"{HISTORY}\n{TWO}\nDEFINE QLOCAL(Q3) LIKE(Q2)"


async def test_d6_1_what_is_settled_together_of_several_queues_is_recorded_on_the_history_of_each() -> None:
    async with desk(THREE) as d:
        assert await _two_settled_together(d) == [Became.GONE] * 5
        assert _lines(d) == {"Q": (0, 0, 2), "Q2": (0, 0, 2), "Q3": (0, 0, 1)}
        for name in ("Q", "Q2"):
            found = [read_record(each.data) for each in await kept(d, f"{name}.HISTORY")]
            assert [(each.queue, each.outcome) for each in found] == [(name, "succeeded")] * 2


async def test_d6_5_the_records_of_one_queue_are_lost_alone() -> None:
    async with desk(f"{THREE}\nALTER QLOCAL(Q2.HISTORY) PUT(DISABLED)") as d:
        assert await _two_settled_together(d) == [Became.GONE] * 5
        assert _lines(d) == {"Q": (0, 0, 2), "Q2": (0, 2, 2), "Q3": (0, 0, 1)}
        assert (d.depth("Q.HISTORY"), d.depth("Q2.HISTORY")) == (2, 0)


async def test_d6_5_a_disk_without_room_takes_the_records_of_all_that_is_settled_together() -> None:
    store = FaultStore(MemoryStore())
    async with desk(THREE, store=store) as d:
        assert await _two_settled_together(d, store.fill) == [Became.GONE] * 5
        assert _lines(d) == {"Q": (0, 2, 2), "Q2": (0, 2, 2), "Q3": (0, 0, 1)}
        store.make_room()
        assert (await kept(d), await kept(d, "Q2.HISTORY")) == ([], [])
        await d.put("6")
        await end(d, Outcome.DONE)
        assert [each.outcome for each in await records(d)] == ["succeeded"]


async def test_d6_5_a_mistake_in_the_records_leaves_the_work_as_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put = History._put_one
    made: list[int] = []

    def wrong(*given: Any) -> bool:
        if made:
            raise OverflowError("a mistake of ours")
        made.append(1)
        return put(*given)

    async with desk(THREE) as d:
        monkeypatch.setattr(RecordPlace, "open", property(lambda _: False, lambda _, __: None))
        monkeypatch.setattr(History, "_put_one", wrong)
        assert await _two_settled_together(d) == [Became.GONE] * 5
        assert [(each[0], each[2]) for each in _lines(d).values()] == [(0, 2), (0, 2), (0, 1)]
        assert (d.depth("Q.HISTORY"), d.depth("Q2.HISTORY"), d.counts()["history_lost"]) == (0, 0, 1)
        assert any("the records of a history failed" in each.getMessage() for each in caplog.records)
        monkeypatch.undo()
        await d.connection.mqsc("ALTER QLOCAL(Q.HISTORY) DESCR('as it was')", check=True)
        await d.put("6")
        await end(d, Outcome.DONE)
        assert [each.outcome for each in await records(d)] == ["succeeded"]


async def test_d6_4_a_record_costs_half_as_many_where_many_messages_are_settled_in_one_call() -> None:
    """And they are one transaction, as without a history."""
    calls, written = [], []
    async with desk(HISTORY) as d:
        for terms, value in ((TERMS, NOT_RETURNED), (KEPT, Returned(b'{"price":40}'))):
            best = 1_000_000
            for _ in range(3):
                await d.put(*["order"] * 100)
                async with d.worker(terms) as worker:
                    ends = [
                        Settlement(each.id, Outcome.DONE.value, ran=2.0, value=value) for each in await worker.take(100)
                    ]
                    before = d.manager.status()["journal"]["transactions"]
                    with counted() as made:
                        await worker.settle(ends)
                    written.append(d.manager.status()["journal"]["transactions"] - before)
                best = min(best, made[0])
            calls.append(best)
    assert (calls[1] - calls[0]) / 100 <= CALLS_MAX_TOGETHER, calls
    assert written == [1] * 6
