"""`evermq dead-letters` against a daemon in a process of its own."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

import broker
from broker.dead_letters.queues import DESCRIPTION
from broker.mqi import MQPMO, MessageDescriptor, Outcome, ServiceOptions, Settlement
from broker.mqi.layouts.layouts import MQDLH
from broker.mqi.step_fields import pack_steps
from triggers.app import definitions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from click.testing import Result

    from broker.mqi.layouts.folders import Value
    from tests.cli.conftest import RunningDaemon

    Evermq = Callable[..., Result]

FAILED_AT = 1_777_626_000.0  # 2026-05-01 09:00:00 UTC
MSG_ID = b"M" * 24
ID = MSG_ID.hex()
NOTHING: Mapping[str, int] = {}
TRACEBACK = 'Traceback (most recent call last):\n  File "shop.py", line 1\nValueError: no such order'


@pytest.fixture
def queues(on: Evermq) -> str:
    """LETTERS.DEAD and LETTERS, both empty."""
    for name in ("LETTERS", "LETTERS.DEAD"):
        on("mqsc", input=f"DEFINE QLOCAL({name})\nCLEAR QLOCAL({name})\n".encode())
    return "LETTERS.DEAD"


def bury(
    daemon: RunningDaemon, data: bytes = b"work", msg_id: bytes = MSG_ID, reported: Mapping[str, int] = NOTHING
) -> None:
    """Put a dead letter, as the queue manager makes them."""
    header = MQDLH(2362, "LETTERS", "QM1", 546, 1208, "MQSTR", 0, "evermq", "20260501", "09000000")
    properties: dict[str, Value] = {
        "evermq.why": "crashed",
        "evermq.queue": "LETTERS",
        "evermq.handler": "shop:ship",
        "evermq.attempts": 6,
        "evermq.crashes": 3,
        "evermq.first_failed": FAILED_AT - 60,
        "evermq.last_failed": FAILED_AT,
        "evermq.exception": "ValueError",
        "evermq.error": "no such\norder",
        "evermq.traceback": TRACEBACK,
        "evermq.put_expiry": -1,
        "colour": "red",
        **reported,
    }

    async def put() -> None:
        async with broker.connect(daemon.url) as connection:
            md = MessageDescriptor(
                format="MQDEAD", encoding=546, msg_id=msg_id, put_date="20260501", put_time="08000000"
            )
            options = MQPMO.SET_ALL_CONTEXT | MQPMO.NO_SYNCPOINT
            await connection.put1("LETTERS.DEAD", header.to_bytes() + data, md, options, properties=properties)

    asyncio.run(put())


def test_without_a_queue_the_letters_on_all_dead_letter_queues_are_listed(
    on: Evermq, daemon: RunningDaemon, queues: str
) -> None:
    assert f"DESCR('{DESCRIPTION}" in definitions._DEFINE_DEAD
    on(
        "mqsc",
        input=b"""DEFINE QLOCAL(OWN) BOQNAME(OWN.SIDE)
        DEFINE QLOCAL(OWN.SIDE)
        DEFINE QLOCAL(OWN.WITHOUT.SIDE) BOQNAME(NOT.THERE)
        ALTER QLOCAL(LETTERS.DEAD) DESCR('Dead letters of LETTERS')""",
    )
    bury(daemon)
    on("put", "OWN.SIDE", "foreign")
    on("put", "OWN", "no letter")
    said = on("dead-letters", "list").stdout.splitlines()
    assert said[0] == "LETTERS.DEAD"
    assert said[1].startswith("  ")
    assert ID in said[1]
    assert said[2] == "OWN.SIDE"
    assert len(said) == 4
    reported = [json.loads(line) for line in on("dead-letters", "list", "--json").stdout.splitlines()]
    assert [each["dead_letter_queue"] for each in reported] == ["LETTERS.DEAD", "OWN.SIDE"]
    assert reported[0]["msg_id"] == ID
    assert on("dead-letters", "list", "--why", "crashed").stdout.splitlines() == said[:2]
    on("mqsc", input=b"CLEAR QLOCAL(OWN.SIDE)\nCLEAR QLOCAL(LETTERS.DEAD)\nALTER QLOCAL(LETTERS.DEAD) DESCR(' ')")


def test_a_letter_is_a_line(daemon: RunningDaemon, on: Evermq, queues: str) -> None:
    bury(daemon)
    listed = on("dead-letters", "list", queues)
    assert listed.exit_code == 0
    assert listed.stdout == (
        f"2026-05-01T09:00:00Z  crashed  LETTERS  shop:ship  attempts=6  {ID}  ValueError: no such order\n"
    )


def test_a_letter_is_told_in_json(daemon: RunningDaemon, on: Evermq, queues: str) -> None:
    bury(daemon)
    assert json.loads(on("dead-letters", "list", queues, "--json").stdout) == {
        "msg_id": ID,
        "why": "crashed",
        "reason": 2362,
        "queue": "LETTERS",
        "handler": "shop:ship",
        "attempts": 6,
        "crashes": 3,
        "first_failed": "2026-05-01T08:59:00Z",
        "failed_at": "2026-05-01T09:00:00Z",
        "exception": "ValueError",
        "error": "no such\norder",
        "format": "MQSTR",
        "length": 4,
    }
    shown = json.loads(on("dead-letters", "show", queues, "--json").stdout)
    assert (shown["traceback"], shown["data"]) == (TRACEBACK, "work")


def test_a_letter_is_shown_with_all_that_is_known(daemon: RunningDaemon, on: Evermq, queues: str) -> None:
    bury(daemon, b"\x00\x01")
    bury(daemon, b"other", b"N" * 24)
    shown = on("dead-letters", "show", queues, "--id", ID)
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0] == f"msg id         {ID}"
    assert "property       colour = 'red'" in lines
    reported = [f"  {line}" for line in TRACEBACK.splitlines()]
    assert lines[-7:] == ["property       colour = 'red'", "traceback", *reported, "data", "  00 01"]


def test_a_letter_is_put_back(daemon: RunningDaemon, on: Evermq, queues: str) -> None:
    bury(daemon)
    retried = on("dead-letters", "retry", queues, "--why", "crashed", "--since", "2026-05-01T09:00")
    assert (retried.exit_code, retried.stdout) == (0, f"{ID} to LETTERS\n")
    fields = json.loads(on("get", "LETTERS", "--json").stdout)
    assert (fields["data"], fields["msg_id"], fields["put_time"], fields["format"]) == ("work", ID, "08000000", "MQSTR")
    record = json.loads(on("get", "SYSTEM.ADMIN.AUDIT.QUEUE").stdout)
    assert (record["event"], record["from"], record["to"]) == ("dead-letter-retried", queues, "LETTERS")


@pytest.mark.parametrize("words", [[], ["--clear-steps"]])
def test_d7_5_finished_steps_are_told_by_name_and_go_back_unless_they_are_cleared(
    daemon: RunningDaemon, on: Evermq, queues: str, words: list[str]
) -> None:
    steps = {"evermq.steps": pack_steps({"charge": b'"secret"', "ship\nnow#2": b"null"})}
    bury(daemon, reported=steps)  # type: ignore[arg-type]  # these are bytes
    shown = on("dead-letters", "show", queues).stdout
    assert "steps          charge, ship now#2" in shown.splitlines()
    assert "secret" not in shown
    assert json.loads(on("dead-letters", "list", queues, "--json").stdout)["steps"] == ["charge", "ship\nnow#2"]
    assert on("dead-letters", "retry", queues, "--all", *words).exit_code == 0

    async def taken() -> tuple[str, ...]:
        options = ServiceOptions(handler="test")
        async with broker.connect(daemon.url) as connection:
            await connection.mqsc(
                "DEFINE PROCESS(LETTERS) REPLACE\nALTER QLOCAL(LETTERS) TRIGGER TRIGTYPE(EVERY) PROCESS(LETTERS)",
                check=True,
            )
            async with connection.deliveries("LETTERS", options=options) as deliveries:
                (delivered,) = await deliveries.take()
                await deliveries.settle([Settlement(delivered.id, Outcome.DONE)])
                return tuple(delivered.steps or ())

    assert asyncio.run(taken()) == (() if words else ("charge", "ship\nnow#2"))
    on("mqsc", input=b"ALTER QLOCAL(LETTERS) NOTRIGGER PROCESS(' ')")


def test_what_stays_is_told_with_the_reason(daemon: RunningDaemon, on: Evermq, queues: str) -> None:
    bury(daemon, reported={"evermq.replays": 3})
    bury(daemon, msg_id=b"N" * 24)
    retried = on("dead-letters", "retry", queues, "--all", "--to", "LETTERS")
    assert (retried.exit_code, retried.stdout) == (10, f"{(b'N' * 24).hex()} to LETTERS\n")
    assert retried.stderr == f"evermq: {ID}: it has been put back 3 times already: it goes once more only if forced\n"
    assert on("dead-letters", "retry", queues, "--all", "--force").exit_code == 0


def test_a_letter_is_discarded(daemon: RunningDaemon, on: Evermq, queues: str) -> None:
    bury(daemon)
    purged = on("dead-letters", "purge", queues, "--handler", "ship")
    assert (purged.exit_code, purged.stdout) == (0, f"{ID} discarded\n")
    assert on("dead-letters", "list", queues).stdout == ""


def test_letters_that_are_not_there_are_told(on: Evermq, queues: str) -> None:
    for words in (["retry", "--all"], ["purge", "--id", ID]):
        result = on("dead-letters", words[0], queues, *words[1:])
        assert (result.exit_code, result.stderr) == (10, "evermq: no dead letter is meant\n")
    shown = on("dead-letters", "show", queues)
    assert (shown.exit_code, shown.stderr) == (10, f"evermq: no dead letter on {queues} is meant\n")
    assert on("dead-letters", "list", queues).exit_code == 0


@pytest.mark.parametrize("verb", ["retry", "purge"])
@pytest.mark.parametrize("words", [[], ["--all", "--why", "crashed"]])
def test_all_letters_are_changed_only_where_that_is_said(on: Evermq, queues: str, verb: str, words: list[str]) -> None:
    result = on("dead-letters", verb, queues, *words)
    assert result.exit_code == 20
    assert "say which letters: --id, --why, --handler or --since, or else --all" in result.stderr


@pytest.mark.parametrize("words", [["list"], ["show"], ["retry", "--all"], ["purge", "--all"]])
def test_an_unknown_queue_is_one_line_with_the_reason(on: Evermq, words: list[str]) -> None:
    result = on("dead-letters", words[0], "NO.SUCH.QUEUE", *words[1:])
    assert (result.exit_code, result.stderr.count("\n")) == (10, 1)
    assert result.stderr.startswith("evermq: MQRC_UNKNOWN_OBJECT_NAME (2085): ")


def test_h7_10_a_header_cut_short_is_listed_and_shown(daemon: RunningDaemon, on: Evermq, queues: str) -> None:
    async def put() -> None:
        async with broker.connect(daemon.url) as connection:
            await connection.put1(queues, b"DLH cut", MessageDescriptor(format="MQDEAD", msg_id=MSG_ID))

    asyncio.run(put())
    listed = on("dead-letters", "list", queues).stdout
    assert listed.endswith(f"Z  unknown  -  {ID}\n")
    assert on("dead-letters", "show", queues).stdout.endswith("data\n  DLH cut\n")
