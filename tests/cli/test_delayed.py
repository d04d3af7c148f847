"""`evermq delayed` against a daemon in a process of its own (handlers rule 3.6)."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

import broker

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

    from tests.cli.conftest import RunningDaemon

    Evermq = Callable[..., Result]


@pytest.fixture
def on(daemon: RunningDaemon, evermq: Evermq) -> Evermq:
    """The command line, talking to the daemon."""

    def invoke(*words: str, input: bytes = b"") -> Result:
        return evermq(*words, "--url", daemon.url, input=input)

    return invoke


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


def test_what_waits_is_listed_with_its_instant(on: Evermq, ids: list[str]) -> None:
    assert [each["msg_id"] for each in listed(on)] == ids[:2]
    head, *rows = on("delayed", "list", "LATER").stdout.splitlines()
    assert head.split("  ")[0] == "MSGID"
    assert [row.split()[0] for row in rows] == ids[:2]


def test_what_waits_is_cancelled_and_what_does_not_stays(on: Evermq, ids: list[str]) -> None:
    assert on("delayed", "cancel", "LATER", "--id", ids[1]).stdout == "1 message of LATER cancelled\n"
    assert [each["msg_id"] for each in listed(on)] == ids[:1]
    available = on("delayed", "cancel", "LATER", "--id", ids[2])
    assert (available.exit_code, available.stderr.count("\n")) == (10, 1)
    assert "waits for an instant" in available.stderr
    assert on("delayed", "cancel", "LATER", "--all").stdout == "1 message of LATER cancelled\n"
    assert on("get", "LATER", "--all").stdout == "c\n"


def test_what_waits_is_released(on: Evermq, ids: list[str]) -> None:
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
