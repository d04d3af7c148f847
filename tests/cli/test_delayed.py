"""`evermq delayed` against a daemon in a process of its own (handlers rule 3.6)."""

from __future__ import annotations

import asyncio
import json
import math
from typing import TYPE_CHECKING, Any

import pytest

import broker
from broker.core.calls.puts import delaying
from broker.mqi import delivery_fields
from broker.presentation.moments import instant_in_words
from tests.cli.conftest import running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    from tests.cli.conftest import RunningDaemon

    Evermq = Callable[..., Result]


@pytest.fixture
def ids(daemon: RunningDaemon, on: Evermq) -> list[str]:
    """The MsgIds of two messages on LATER that wait for an hour, and of one that does not wait."""
    on("mqsc", input=b"DEFINE QLOCAL(LATER) REPLACE\nCLEAR QLOCAL(LATER)\n")

    async def put() -> list[str]:
        async with broker.connect(daemon.url) as connection:
            puts = [
                await connection.put1("LATER", body, delay=delay)
                for body, delay in (("a", 3600), ("b", 3600), ("c", 0))
            ]
            assert [bool(each.deliver_at) for each in puts] == [True, True, False]
            return [each.md.msg_id.hex() for each in puts]

    return asyncio.run(put())


def listed(on: Evermq) -> list[dict[str, Any]]:
    return [json.loads(line) for line in on("delayed", "list", "LATER", "--json").stdout.splitlines()]


def test_what_is_delayed_is_listed_with_its_instant(on: Evermq, ids: list[str]) -> None:
    assert [each["msg_id"] for each in listed(on)] == ids[:2]
    head, *rows = on("delayed", "list", "LATER").stdout.splitlines()
    assert head.split("  ")[0] == "MSGID"
    assert [row.split()[0] for row in rows] == ids[:2]


def test_what_is_delayed_is_cancelled_and_what_does_not_stays(on: Evermq, ids: list[str]) -> None:
    assert on("delayed", "cancel", "LATER", "--id", ids[1]).stdout == "1 message of LATER cancelled\n"
    assert [each["msg_id"] for each in listed(on)] == ids[:1]
    available = on("delayed", "cancel", "LATER", "--id", ids[2])
    assert (available.exit_code, available.stderr.count("\n")) == (10, 1)
    assert "is delayed" in available.stderr
    assert on("delayed", "cancel", "LATER", "--all").stdout == "1 message of LATER cancelled\n"
    assert on("get", "LATER", "--all").stdout == "c\n"


def test_what_is_delayed_is_released(on: Evermq, ids: list[str]) -> None:
    assert on("delayed", "release", "LATER", "--id", ids[1]).stdout == "1 message of LATER released\n"
    assert on("get", "LATER", "--all").stdout == "b\nc\n"
    assert on("delayed", "release", "LATER", "--all").stdout == "1 message of LATER released\n"
    assert on("get", "LATER", "--all").stdout == "a\n"
    assert on("delayed", "release", "LATER", "--all").stdout == "0 messages of LATER released\n"


@pytest.mark.parametrize(
    "words", [("cancel", "LATER"), ("release", "LATER"), ("cancel", "LATER", "--all", "--id", "00")]
)
def test_it_is_one_message_or_all(on: Evermq, words: tuple[str, ...]) -> None:
    result = on("delayed", *words)
    assert (result.exit_code, result.stderr.count("\n")) == (20, 1)


def test_an_instant_that_no_calendar_has_is_told_in_words(
    evermq: Evermq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def put_long_ago() -> str:
        async with (
            broker.QueueManager.open(name="QM1", data=tmp_path / "evermq-data") as manager,
            manager.connect() as connection,
        ):
            await connection.mqsc("DEFINE QLOCAL(LATER)")
            return (await connection.put1("LATER", "a", delay=1e12)).md.msg_id.hex()

    with monkeypatch.context() as unbounded:
        for module in (delivery_fields, delaying):
            unbounded.setattr(module, "SECONDS_MAX", 1e15)
        msg_id = asyncio.run(put_long_ago())
    (tmp_path / "broker.toml").write_text("[listener]\nport = 0\n", "utf-8")
    with running("--config", "broker.toml", folder=tmp_path) as daemon:
        listed = evermq("delayed", "list", "LATER", "--url", daemon.url)
        assert (listed.exit_code, listed.stderr) == (0, "")
        assert listed.stdout.splitlines()[1].split("  ")[:2] == [msg_id, "after the year 9999"]
        for words in (
            ("delayed", "list", "LATER", "--json"),
            ("status",),
            ("status", "--json"),
            ("explain", "LATER"),
            ("browse", "LATER"),
        ):
            done = evermq(*words, "--url", daemon.url)
            assert (done.exit_code, done.exception) in {(0, None), (10, None)}
        assert evermq("delayed", "release", "LATER", "--id", msg_id, "--url", daemon.url).exit_code == 0
        assert evermq("get", "LATER", "--url", daemon.url).stdout == "a\n"


@pytest.mark.parametrize(
    ("instant", "words"),
    [
        (0.5, "1970-01-01T00:00:00Z"),
        (1e12, "after the year 9999"),
        (1e300, "after the year 9999"),
        (math.inf, "after the year 9999"),
        (math.nan, "no instant"),
        (-1e15, "no instant"),
    ],
)
def test_every_instant_has_words(instant: float, words: str) -> None:
    assert instant_in_words(instant) == words
