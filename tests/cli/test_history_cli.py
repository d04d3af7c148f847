"""`evermq history` against a daemon in a process of its own (transactions rule 6.7)."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from triggers import App, Reject

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

    from tests.cli.conftest import RunningDaemon

    Evermq = Callable[..., Result]


@pytest.fixture
def ids(daemon: RunningDaemon, on: Evermq) -> list[str]:
    """The MsgIds of messages of which two have succeeded, the second by a key, and one was rejected."""
    on("mqsc", input=b"CLEAR QLOCAL(QUOTES.HISTORY)\n")
    app = App(daemon.url, name="SHOP")

    @app.handler("QUOTES", history="7d", order_by="customer")
    async def quote(customer: str) -> dict[str, int]:
        if customer == "nobody":
            raise Reject("no such\x1b[2J customer")
        return {"price": 40}

    async def handle() -> list[str]:
        async with app.running():
            puts = []
            for name, properties in (("anna", None), ("berta", {"customer": "berta"}), ("nobody", None)):
                puts.append(await app.put("QUOTES", name, properties=properties))
                await app.result(puts[-1], 30)
            return [put.md.msg_id.hex() for put in puts]

    return asyncio.run(handle())


def shown(on: Evermq, *words: str) -> list[str]:
    """The MsgIds of what is shown."""
    return [json.loads(line)["msg_id"] for line in on("history", "QUOTES", *words, "--json").stdout.splitlines()]


def test_what_has_become_of_messages_is_shown_a_line_each(on: Evermq, ids: list[str]) -> None:
    lines = on("history", "QUOTES").stdout.splitlines()
    assert [line.split("  ")[0] for line in lines] == ids
    assert [line.split("  ")[2:4] for line in lines] == [["succeeded", "1 attempt"]] * 2 + [["rejected", "1 attempt"]]
    assert lines[0].endswith('{"price": 40}')
    assert lines[2].endswith("Reject: no such\\x1b[2J customer")


def test_the_records_are_filtered(on: Evermq, ids: list[str]) -> None:
    assert shown(on) == ids
    assert shown(on, "--outcome", "rejected") == ids[2:]
    assert shown(on, "--outcome", "rejected", "--outcome", "succeeded") == ids
    assert shown(on, "--id", ids[1]) == ids[1:2]
    assert shown(on, "--id", ids[2], "--id", ids[0]) == [ids[2], ids[0]]
    assert shown(on, "--key", "berta") == ids[1:2]
    assert shown(on, "--since", "2020-01-01") == ids
    assert shown(on, "--since", "2099-01-01") == []


def test_json_has_all_that_is_known(on: Evermq, ids: list[str]) -> None:
    first, _, last = (json.loads(line) for line in on("history", "QUOTES", "--json").stdout.splitlines())
    assert first.keys() == {
        "msg_id", "queue", "handler", "worker", "outcome", "attempts", "put", "began", "ended", "waited", "ran",
        "value",
    }  # fmt: skip
    assert (first["queue"], first["value"], last["why"], last["reason"]) == ("QUOTES", {"price": 40}, "rejected", 65536)
    assert (last["exception"], last["error"]) == ("Reject", "no such\x1b[2J customer")


def test_what_is_not_there_is_told_with_exit_code_10(on: Evermq, ids: list[str]) -> None:
    missing = on("history", "QUOTES", "--id", "00" * 24, "--id", ids[0])
    assert (missing.exit_code, missing.stdout.count("\n"), missing.stderr.count("\n")) == (10, 1, 1)
    assert "no record of a message with MsgId 0000" in missing.stderr
    nowhere = on("history", "NOWHERE")
    assert (nowhere.exit_code, nowhere.stderr.count("\n")) == (10, 1)
    assert "NOWHERE.HISTORY" in nowhere.stderr
    assert on("history", "QUOTES", "--outcome", "lost").exit_code == 20


def test_what_is_no_record_is_told_and_passed_over(on: Evermq, ids: list[str]) -> None:
    on("put", "QUOTES.HISTORY", "no record")
    told = on("history", "QUOTES")
    assert (told.exit_code, len(told.stdout.splitlines()), told.stderr.count("\n")) == (0, 3, 1)
