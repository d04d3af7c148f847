"""What has become of messages under their handlers, in figures (handlers rule 13.1)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker import Connection, QueueManager
from broker.cli.administration.status import in_words
from broker.interface.handlers.deliveries import Deliveries
from broker.mqi import MQOO, MQPMO, MessageDescriptor
from broker.mqi.delivery_fields import Failure, Outcome, ServiceOptions, Settlement
from broker.testing import VirtualClock
from tests.handlers.desk import desk as at_the_desk

DEFINITIONS = """
DEFINE PROCESS(SHIPPING)
DEFINE QLOCAL(ORDERS) PROCESS(SHIPPING) TRIGGER TRIGTYPE(EVERY)
DEFINE QLOCAL(ORDERS.DEAD)
"""

TERMS = ServiceOptions(handler="shop:ship", attempts=2, dead_letter="ORDERS.DEAD")

FAILURE = Failure("ValueError", "no such item\nsecond line", "")

ENDS = {
    "done": Settlement(0, Outcome.DONE, ran=0.25),
    "failed": Settlement(0, Outcome.FAILED, FAILURE, ran=0.5),
    "timed out": Settlement(0, Outcome.FAILED, Failure("TimeoutError", ""), timed_out=True),
    "rejected": Settlement(0, Outcome.REJECTED, Failure("Reject", "no")),
    "unreadable": Settlement(0, Outcome.UNREADABLE, Failure("ValueError", "no JSON")),
    "later": Settlement(0, Outcome.LATER, seconds=5),
    "returned": Settlement(0, Outcome.RETURNED),
}


@pytest.fixture
async def connection() -> AsyncIterator[Connection]:
    async with QueueManager.open(name="QM1", clock=VirtualClock()) as manager, manager.connect() as connection:
        await connection.mqsc(DEFINITIONS, check=True)
        yield connection


async def handle(connection: Connection, deliveries: Deliveries, *ends: str) -> None:
    """Put a message for each of these ends, and take and settle it so; "": keep it in hand."""
    for end in ends:
        await connection.put1("ORDERS", b"5 chairs")
        (taken,) = await deliveries.take(1)
        if end:
            await deliveries.settle([ENDS[end]._replace(id=taken.id)])


async def figures(connection: Connection) -> dict[str, Any]:
    """The figures of the only handler."""
    (found,) = (await connection.status())["handlers"]
    assert isinstance(found, dict)
    return found


async def test_nothing_is_told_of_handlers_that_there_are_not(connection: Connection) -> None:
    assert (await connection.status())["handlers"] == []
    assert not (await connection.mqsc("DISPLAY QSTATUS(*) TYPE(HANDLER)"))[0].ok


@pytest.mark.parametrize(
    ("end", "counted"),
    [
        ("done", {"succeeded": 1}),
        ("failed", {"failed": 1}),
        ("timed out", {"failed": 1, "timed_out": 1}),
        ("rejected", {"rejected": 1, "dead_lettered": 1}),
        ("unreadable", {"unreadable": 1, "dead_lettered": 1}),
        ("later", {"later": 1}),
        ("returned", {"returned": 1}),
        ("", {"running": 1}),
    ],
)
async def test_each_outcome_is_counted(connection: Connection, end: str, counted: dict[str, int]) -> None:
    async with connection.deliveries("ORDERS", options=TERMS) as deliveries:
        await handle(connection, deliveries, end)
        found = await figures(connection)
        counts = {
            name: value
            for name, value in found.items()
            if isinstance(value, int) and name not in ("delayed", "waiting", "workers")
        }
        numbers = {name: value for name, value in counts.items() if value}
        assert numbers == {"started": 1, **counted}
        assert (found["queue"], found["handler"], found["process"]) == ("ORDERS", "shop:ship", "SHIPPING")


async def test_of_what_began_each_has_ended_or_runs(connection: Connection) -> None:
    async with connection.deliveries("ORDERS", options=TERMS) as deliveries:
        await handle(connection, deliveries, *ENDS, *ENDS, "")
        found = await figures(connection)
        ended = ("succeeded", "failed", "rejected", "unreadable", "later", "crashed", "returned", "running")
        assert found["started"] == sum(found[name] for name in ended)


async def test_the_seconds_are_told(connection: Connection) -> None:
    async with connection.deliveries("ORDERS", options=TERMS) as deliveries:
        await handle(connection, deliveries, "done", "done", "failed")
        found = await figures(connection)
    assert (found["ran"]["count"], found["ran"]["sum"]) == (3, 1.0)
    assert sum(found["ran"]["buckets"]) == 3
    assert found["waited"]["count"] == 3


async def test_the_last_error_is_told(connection: Connection) -> None:
    async with connection.deliveries("ORDERS", options=TERMS) as deliveries:
        await handle(connection, deliveries, "done", "failed")
        found = await figures(connection)
    assert found["last_error"] == "ValueError: no such item\nsecond line"
    assert found["last_error_at"] == pytest.approx(VirtualClock().time(), abs=1)


async def test_a_queue_that_is_gone_is_not_shown(connection: Connection) -> None:
    async with connection.deliveries("ORDERS", options=TERMS) as deliveries:
        await handle(connection, deliveries, "done")
    await connection.mqsc("DELETE QLOCAL(ORDERS)", check=True)
    assert (await connection.status())["handlers"] == []


async def test_display_qstatus_shows_them_by_queue(connection: Connection) -> None:
    async with connection.deliveries("ORDERS", options=TERMS) as deliveries:
        await handle(connection, deliveries, "failed", "done", "done")
        (reply,) = await connection.mqsc("DISPLAY QSTATUS(ORD*) TYPE(HANDLER) WHERE(FAILED GT 0)")
    (shown,) = reply.attributes
    assert shown["QUEUE"] == "ORDERS"
    assert shown["HANDLER"] == "shop:ship"
    assert shown["PROCESS"] == "SHIPPING"
    assert (shown["STARTED"], shown["SUCCEEDED"], shown["FAILED"], shown["RUNNING"]) == (3, 2, 1, 0)
    assert shown["LASTERROR"] == "ValueError: no such item"


async def test_the_status_has_a_line_for_each(connection: Connection) -> None:
    async with connection.deliveries("ORDERS", options=TERMS) as deliveries:
        await handle(connection, deliveries, "done", "done", "unreadable", "rejected")
        lines = list(in_words(await connection.status()))
    at = next(number for number, line in enumerate(lines) if line.startswith("handler"))
    assert lines[at : at + 4] == [
        "handler  workers  started  succeeded  failed  rejected  unreadable  running  dead     wait      run",
        "ORDERS shop:ship",
        "               1        4          2       0         1           1        0     2  0.000 s  0.125 s",
        "last error of ORDERS shop:ship, 2026-01-01 00:00:00 UTC: Reject: no",
    ]


async def test_explain_tells_who_serves_and_which_starts_nobody_takes() -> None:
    async with at_the_desk() as desk:
        await desk.put("one", "two")
        reported = {each.code: each for each in (await desk.connection.explain("Q")).findings}
        assert reported["NOT_SERVED"].figures == {"starts": 2, "process": "P"}
        assert reported["NOT_SERVED"].text == (
            "2 starts are pending and nobody takes them: no worker serves Q, "
            "and no trigger monitor has taken a start of process P"
        )
        async with desk.worker() as deliveries:
            await deliveries.take(1)
            explanation = await desk.connection.explain("Q")
            reported = {each.code: each for each in explanation.findings}
            assert "NOT_SERVED" not in reported
            assert "NOT_OPEN_FOR_INPUT" not in reported
            served = reported["SERVED"]
            assert served not in explanation.causes
            assert (served.figures["workers"], served.figures["running"], served.figures["starts"]) == (1, 1, 1)
            assert [each["appl_name"] for each in served.figures["first"]] == ["worker"]
            assert served.text == ("1 worker serves Q with tests:handler: worker; 1 under handlers, 1 start is pending")
        assert "NOT_SERVED" in (await desk.connection.explain("Q")).codes


async def test_a_message_whose_put_date_is_no_date_is_handled_as_any(connection: Connection) -> None:
    async with connection.deliveries("ORDERS", options=TERMS) as deliveries:
        md, options = MessageDescriptor(put_date="20239999", put_time="12000000"), MQPMO.SET_ALL_CONTEXT
        async with connection.open("ORDERS", MQOO.OUTPUT | MQOO.SET_ALL_CONTEXT) as queue:
            await queue.put(b"5 chairs", md, options)
        (taken,) = await deliveries.take(1)
        await deliveries.settle([ENDS["done"]._replace(id=taken.id)])
        assert (await figures(connection))["succeeded"] == 1
