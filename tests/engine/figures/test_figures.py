"""The figures of a queue manager as text: which queues, whose rights, and how they are written."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from broker import QueueManager
from broker.core.queues.counts.duration import Duration
from broker.engine.figures.exposition import SectionText
from broker.engine.figures.families import Section, Thing, counter_by, gauge, histogram
from broker.engine.figures.scrape import Scrape
from broker.engine.figures.selection import FigureSelection
from broker.engine.figures.table import EVERMQ
from broker.mqi import MQGMO, MQOO, MQRC, MessageDescriptor, MQError
from broker.storage.memory import MemoryStore
from broker.testing import VirtualClock
from tests.exposition import samples

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from broker import Connection


@asynccontextmanager
async def running(*commands: str) -> AsyncIterator[Connection]:
    clock = VirtualClock()
    async with (
        QueueManager.open(name="QM1", store=MemoryStore(), clock=clock) as manager,
        manager.connect() as connection,
    ):
        for reply in await connection.mqsc("\n".join(commands)):
            assert reply.ok, reply
        yield connection


def queues_in(text: str) -> list[str]:
    """Return the queues that have a depth, in their order."""
    return [name.split('"')[1] for name in samples(text) if name.startswith("evermq_queue_depth{")]


async def test_a_queue_that_is_not_temporary_and_not_the_systems_has_series_of_its_own() -> None:
    commands = "DEFINE QLOCAL(B)", "DEFINE QLOCAL(A)", "DEFINE QMODEL(M) DEFTYPE(TEMPDYN)"
    async with running(*commands) as connection, connection.open("M", MQOO.INPUT_SHARED):
        assert queues_in(await connection.figures()) == ["A", "B"]


async def test_a_generic_name_chooses_queues_those_of_the_system_too() -> None:
    async with running("DEFINE QLOCAL(ORDERS.1)", "DEFINE QLOCAL(ORDERS.2)", "DEFINE QLOCAL(BILLS)") as connection:
        assert queues_in(await connection.figures("ORDERS.*")) == ["ORDERS.1", "ORDERS.2"]
        assert queues_in(await connection.figures("BILLS")) == ["BILLS"]
        assert "SYSTEM.DEAD.LETTER.QUEUE" in queues_in(await connection.figures("SYSTEM.*"))


async def test_queues_beyond_the_most_are_counted() -> None:
    async with running(*(f"DEFINE QLOCAL(Q{number})" for number in range(5))) as connection:
        text = await connection.figures(queues_max=3)
        assert queues_in(text) == ["Q0", "Q1", "Q2"]
        assert samples(text)["evermq_queues_left_out"] == 2


async def test_with_per_none_no_queue_has_series_of_its_own() -> None:
    async with running("DEFINE QLOCAL(Q)") as connection:
        found = samples(await connection.figures(per="none"))
        assert not [name for name in found if name.startswith("evermq_queue_")]
        assert found["evermq_conversations"] == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"queue": "NO*T"}, MQRC.OBJECT_NAME_ERROR),
        ({"queue": ""}, MQRC.OBJECT_NAME_ERROR),
        ({"queue": 5}, MQRC.OBJECT_NAME_ERROR),
        ({"per": "handler"}, MQRC.OPTIONS_ERROR),
        ({"per": None}, MQRC.OPTIONS_ERROR),
        ({"names": "rabbitmq"}, MQRC.OPTIONS_ERROR),
        ({"queues_max": -1}, MQRC.OPTIONS_ERROR),
        ({"queues_max": "many"}, MQRC.OPTIONS_ERROR),
    ],
)
async def test_other_values_are_refused(arguments: dict[str, Any], reason: MQRC) -> None:
    async with running() as connection:
        with pytest.raises(MQError) as refused:
            await connection.figures(**arguments)
        assert refused.value.reason == reason


async def test_the_gauges_of_a_queue_are_those_of_its_messages() -> None:
    async with (
        running("DEFINE QLOCAL(Q) MAXDEPTH(7)") as connection,
        connection.open("Q", MQOO.INPUT_SHARED | MQOO.OUTPUT) as queue,
    ):
        for data in (b"1", b"22", b"333"):
            await queue.put(data)
        await queue.put(b"4444", delay=60)
        await queue.get(None, MQGMO.SYNCPOINT)
        found = samples(await connection.figures())
    shown = {
        name.removeprefix("evermq_queue_").partition("{")[0]: value
        for name, value in found.items()
        if name.endswith('{queue="Q"}') and not name.partition("{")[0].endswith(("_total", "_sum", "_count"))
    }
    assert shown == {
        "depth": 3, "depth_max": 7, "available": 2, "uncommitted": 1, "delayed": 1, "claimed": 0, "prepared": 0,
        "damaged": 0, "bytes": 10, "oldest_message_age_seconds": 0, "input_handles": 1, "output_handles": 1,
        "getters": 0, "trigger_pending": 0, "time_since_put_seconds": 0, "time_since_get_seconds": 0,
    }  # fmt: skip


@pytest.mark.parametrize("priorities", [(5, 5, 5), (0, 9, 4), (9, 0, 4), (4, 9, 0)])
async def test_the_age_is_that_of_the_oldest_message_whatever_its_priority(priorities: tuple[int, ...]) -> None:
    async with running("DEFINE QLOCAL(Q)") as connection:
        clock: VirtualClock = connection.port.manager.clock  # type: ignore[attr-defined]
        for priority in priorities:
            await connection.put1("Q", b"", MessageDescriptor(priority=priority))
            await clock.advance(10)
        await connection.port.manager.clock.advance(5)  # type: ignore[attr-defined]
        found = samples(await connection.figures())
        assert found['evermq_queue_oldest_message_age_seconds{queue="Q"}'] == 35


async def test_a_message_that_nobody_can_be_given_has_no_age() -> None:
    async with running("DEFINE QLOCAL(Q)") as connection, connection.unit_of_work():
        await connection.put1("Q", b"")
        await connection.port.manager.clock.advance(10)  # type: ignore[attr-defined]
        found = samples(await connection.figures())
        assert found['evermq_queue_oldest_message_age_seconds{queue="Q"}'] == 0
        assert found["evermq_oldest_unit_of_work_age_seconds"] == 10
        assert found["evermq_units_of_work"] == 1


def test_o3_3_the_value_of_a_label_is_escaped() -> None:
    section = Section(
        "", ("handler",), (gauge("running", "One\nhelp \\ for all.", lambda n, _: n),), lambda _: iter([])
    )
    text = SectionText(section)
    text.add([Thing(('a"b\\c\nd',), 5)], 0)
    assert "".join(text.text()) == (
        '# HELP running One\\nhelp \\\\ for all.\n# TYPE running gauge\nrunning{handler="a\\"b\\\\c\\nd"} 5\n'
    )


def test_a_histogram_is_cumulated_and_a_second_label_stands_behind_the_first() -> None:
    duration = Duration()
    duration.add(0.00015, 2)
    duration.add(1000)
    reads: tuple[Callable[[Any, float], Any], ...] = (lambda d, _: d, lambda *_: {"b": 2, "a": 1})
    section = Section(
        "",
        ("queue",),
        (histogram("h", "H.", reads[0]), counter_by("why", "c_total", "C.", reads[1])),
        lambda _: iter([]),
    )
    text = SectionText(section)
    text.add([Thing(("Q",), duration), Thing(("R",), None)], 0)
    found = samples("".join(text.text()).replace('h_bucket{queue="Q",le="0.0001"} 0\n', ""))
    assert found['h_bucket{queue="Q",le="0.0002"}'] == found['h_bucket{queue="Q",le="100.0"}'] == 2
    assert found['h_bucket{queue="Q",le="+Inf"}'] == found['h_count{queue="Q"}'] == 3
    assert found['h_sum{queue="Q"}'] == pytest.approx(1000.0003)
    assert [name for name in found if name.startswith("c_total")] == [
        f'c_total{{queue="{queue}",why="{why}"}}' for queue in "QR" for why in "ab"
    ]


async def test_a_queue_that_is_deleted_in_the_course_of_a_scrape_has_no_series() -> None:
    async with running(*(f"DEFINE QLOCAL(Q{number})" for number in range(30))) as connection:
        scrape = Scrape(connection.port.manager, FigureSelection())  # type: ignore[attr-defined]
        steps = scrape.steps()
        while not scrape.queues:
            next(steps)
        (reply,) = await connection.mqsc("DELETE QLOCAL(Q29)")
        assert reply.ok
        for _ in steps:
            pass
        assert queues_in(scrape.text) == sorted(f"Q{number}" for number in range(29))


def test_each_family_has_one_place_a_help_and_a_name_by_the_conventions() -> None:
    families = [family for section in EVERMQ for family in section.families]
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    for family in families:
        assert family.name.startswith("evermq_")
        assert family.help.endswith("."), family
        assert (family.kind.value == "counter") == family.name.endswith("_total"), family
        assert not family.name.endswith(("_ms", "_milliseconds", "_kb")), family


async def test_the_names_of_ibms_exporter_are_there_on_request() -> None:
    async with running("DEFINE QLOCAL(Q) MAXDEPTH(7) DESCR('A \"good\" queue')") as connection:
        clock = connection.port.manager.clock  # type: ignore[attr-defined]
        async with connection.open("Q", MQOO.INPUT_SHARED | MQOO.OUTPUT) as queue:
            for _ in range(3):
                await queue.put(b"1")
            await clock.advance(2)
            await queue.get()
            await clock.advance(3.5)
            text = await connection.figures(names="ibmmq")
    labels = '{description="A \\"good\\" queue",platform="UNIX",qmgr="QM1",queue="Q",usage="NORMAL"}'
    found = samples(text)
    assert {name.removesuffix(labels): value for name, value in found.items() if name.endswith(labels)} == {
        "ibmmq_queue_depth": 2, "ibmmq_queue_attribute_max_depth": 7, "ibmmq_queue_oldest_message_age": 5,
        "ibmmq_queue_uncommitted_messages": 0, "ibmmq_queue_time_since_get": 3, "ibmmq_queue_time_since_put": 5,
        "ibmmq_queue_input_handles": 1, "ibmmq_queue_output_handles": 1, "ibmmq_queue_mqput_mqput1_count": 3,
        "ibmmq_queue_mqget_count": 1,
    }  # fmt: skip
    manager = '{description="",platform="UNIX",qmgr="QM1"}'
    assert (found[f"ibmmq_qmgr_uptime{manager}"], found[f"ibmmq_qmgr_connection_count{manager}"]) == (5, 1)
    assert "evermq" not in text
