"""What the commands print: messages, figures, the log."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from broker.cli.logs import JsonLines, TextLines
from broker.cli.messages import as_json, as_line
from broker.cli.status import in_words
from broker.cli.terminal import say, warn, write
from broker.interface import Delivery, Message
from broker.mqi import MessageDescriptor
from broker.mqi.packing import pack_md


def message(data: bytes, **fields: Any) -> Message:
    md = MessageDescriptor(format="MQSTR", priority=4, msg_id=b"M" * 24, **fields)
    return Message(
        Delivery(
            packed_md=pack_md(md),
            msg_id=md.msg_id,
            correl_id=md.correl_id,
            group_id=md.group_id,
            msg_seq_number=1,
            offset=0,
            msg_flags=0,
            original_length=-1,
            priority=md.priority,
            persistence=1,
            expiry=-1,
            backout_count=0,
            token=bytes(16),
            data=data,
            length=len(data),
            reason=0,
        )
    )


@pytest.mark.parametrize(
    ("data", "terminal", "line"),
    [
        (b"hello", True, b"hello\n"),
        ("Zürich\t1".encode(), True, "Zürich\t1\n".encode()),
        (b"", True, b"\n"),
        (b"\x1b[2J", False, b"\x1b[2J\n"),
        (b"\x1b[2J", True, b"4 bytes: 1b 5b 32 4a\n"),
        (b"\xff\x00", False, b"\xff\x00\n"),
        (b"\xff\x00", True, b"2 bytes: ff 00\n"),
    ],
)
def test_data_is_a_line_as_it_is_but_cannot_upset_a_terminal(data: bytes, terminal: bool, line: bytes) -> None:
    assert as_line(message(data), terminal=terminal) == line


def test_json_holds_the_descriptor_and_the_data_as_text() -> None:
    fields = json.loads(as_json(message("Zürich\n".encode())))
    assert (fields["data"], fields["msg_id"], fields["priority"]) == ("Zürich\n", "4d" * 24, 4)
    assert (fields["format"], fields["persistence"], fields["expiry"]) == ("MQSTR", 1, -1)


def test_json_holds_data_that_is_no_text_in_base64() -> None:
    fields = json.loads(as_json(message(b"\xff\x00")))
    assert fields["data_base64"] == "/wA="
    assert "data" not in fields


def test_status_tells_single_figures_first_and_then_the_queues_of_users_and_the_busy_ones() -> None:
    figures = {
        "name": "QM1",
        "journal": {"units": 3, "waiting": 0},
        "queues": [
            {"name": "ORDERS", "depth": 0, "getters": 0},
            {"name": "SYSTEM.ADMIN.COMMAND.QUEUE", "depth": 12, "getters": 1},
            {"name": "SYSTEM.DEFAULT.LOCAL.QUEUE", "depth": 0, "getters": 0},
        ],
    }
    assert list(in_words(figures)) == [
        "queue manager",
        "  name               QM1",
        "",
        "journal",
        "  units              3",
        "  waiting            0",
        "",
        "queue                       depth  getters",
        "ORDERS                          0        0",
        "SYSTEM.ADMIN.COMMAND.QUEUE     12        1",
    ]


def test_status_tells_what_waits_and_what_keys_are_kept_where_there_are_any() -> None:
    nothing = {"waiting": 0, "next_release": None, "keys": 0, "duplicates": 0, "duplicates_with_other_data": 0}
    queues = [{"name": "ORDERS", "depth": 5, **nothing}, {"name": "MAIL", "depth": 1, **nothing}]
    assert list(in_words({"queues": queues}))[2:] == ["queue   depth", "ORDERS      5", "MAIL        1"]
    queues[1] |= {"waiting": 1, "keys": 2}
    assert list(in_words({"queues": queues}))[2:] == [
        "queue   depth  waiting  keys",
        "ORDERS      5        0     0",
        "MAIL        1        1     2",
    ]


def test_status_tells_of_consumers_and_prepared_units_where_there_are_any() -> None:
    figures = {
        "name": "QM1",
        "queues": [{"name": "ORDERS", "depth": 5, "claimed": 4, "prepared": 0, "damaged": 0}],
        "consumers": [
            {"name": "ARCHIVE", "queues": "ORDERS", "claims": 4, "bytes": 2048, "age": 40.0, "overdue": False}
        ],
        "prepared_units": [{"name": "COPY/1/0/ab", "messages": 3, "queues": {"ORDERS": 3}, "bytes": 12, "age": 1.5}],
    }
    assert list(in_words(figures))[3:] == [
        "queue   depth  claimed",
        "ORDERS      5        4",
        "",
        "consumer  claims    bytes       age  overdue",
        "ARCHIVE        4  2.0 KiB  40.000 s       no",
        "",
        "prepared unit  messages  bytes      age",
        "COPY/1/0/ab           3   12 B  1.500 s",
    ]


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("quiescing", False, "no"),
        ("transactions", 1234567, "1,234,567"),
        ("budget", 16 * 1024 * 1024, "16.0 MiB"),
        ("log_bytes", 1023, "1023 B"),
        ("log_bytes", 1024, "1.0 KiB"),
        ("bytes", 5 << 50, "5,120.0 TiB"),
        ("last_checkpoint", None, "never"),
        ("last_check", "not needed", "not needed"),
    ],
)
def test_a_figure_of_the_status_has_its_unit(name: str, value: object, shown: str) -> None:
    assert list(in_words({"store": {name: value}}))[-1].removeprefix(f"  {name.replace('_', ' '):<18} ") == shown


def test_no_line_of_the_status_is_wider_than_a_page_however_long_a_name() -> None:
    queue = {
        "depth": 999_999_999, "uncommitted": 10_000, "bytes": 1 << 50, "ipprocs": 10_000, "opprocs": 10_000,
        "getters": 10_000, "trigger_pending": 999_999_999, "trigger_running": 1000,
    }  # fmt: skip
    lines = list(in_words({"name": "Q" * 48, "queues": [{"name": name, **queue} for name in ("SHORT", "L" * 48)]}))
    assert [line for line in lines if len(line) > 100] == []
    assert lines[-3].split()[0] == "SHORT"
    assert lines[-2] == "L" * 48
    assert lines[-1].split() == lines[-3].split()[1:]


def record(exception: bool = False) -> logging.LogRecord:
    made = logging.LogRecord(
        "broker.server", logging.WARNING, "server.py", 1, "line refused peer=%s", ("[::1]:99",), None
    )
    made.created, made.msecs = 1_795_255_200.123, 123.0
    if exception:
        try:
            raise ValueError("what happened")
        except ValueError:
            made.exc_info = sys.exc_info()
    return made


def test_the_log_is_lines_of_text_with_the_time_in_utc() -> None:
    assert TextLines().format(record()) == "2026-11-21T10:00:00.123Z WARNING broker.server line refused peer=[::1]:99"


def test_a_traceback_stands_below_its_line() -> None:
    first, *_, last = TextLines().format(record(exception=True)).splitlines()
    assert first.endswith("line refused peer=[::1]:99")
    assert last == "  ValueError: what happened"


CONTROLS = [
    "\x00",
    "\n",
    "\r",
    "\x1b",
    "\x7f",
    "\x85",
    "\x9b",
    "\u2028",
    "\u2029",
    "\u202e",
    "\u2066",
    "\ufeff",
    "\udc80",
]


@pytest.mark.parametrize("control", CONTROLS, ids=ascii)
def test_what_a_client_chose_is_one_harmless_line_of_the_log(control: str) -> None:
    chosen = f"good{control}2026-11-21T10:00:00.123Z ERROR broker.engine forged"
    made = record()
    made.args = (chosen,)
    made.exc_info = (ValueError, ValueError(chosen), None)
    written = TextLines().format(made)
    assert f"peer=good{ascii(control)[1:-1]}2026" in written
    assert all(character == "\n" or character.isprintable() for character in written)
    _, *below = written.splitlines()
    assert below
    assert all(line.startswith("  ") for line in below)


@pytest.mark.parametrize("formatter", [TextLines(), JsonLines()], ids=["text", "json"])
@pytest.mark.parametrize("what", ["x", "é", "\U0001f600", "\x1b"], ids=ascii)
@pytest.mark.parametrize("where", ["message", "error", "both", "ready"])
def test_a_record_of_the_log_is_at_most_64_kib(formatter: logging.Formatter, what: str, where: str) -> None:
    made, text = record(), what * 2_000_000
    if where in ("message", "both"):
        made.args = (text,)
    if where in ("error", "both"):
        made.exc_info = (ValueError, ValueError(text), None)
    if where == "ready":
        made.exc_info, made.exc_text = (ValueError, ValueError(text), None), text
    assert 1000 < len(formatter.format(made).encode()) <= 64 * 1024


def test_text_that_harms_nothing_is_logged_as_it_is() -> None:
    made = record()
    made.args = ("Zürich → 東京 \\x1b",)
    assert TextLines().format(made).endswith("line refused peer=Zürich → 東京 \\x1b")


@pytest.mark.parametrize("control", [each for each in CONTROLS if each != "\n"], ids=ascii)
def test_what_a_client_chose_is_shown_on_a_terminal_in_letters(
    control: str, capsys: pytest.CaptureFixture[str]
) -> None:
    say(f"DESCR(a{control}b)")
    write(f"DESCR(a{control}b)")
    assert capsys.readouterr().out == f"DESCR(a{ascii(control)[1:-1]}b)\n" + f"DESCR(a{ascii(control)[1:-1]}b)"
    warn(f"put by a{control}b")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()


def test_the_log_in_json_is_one_object_a_line() -> None:
    line = JsonLines().format(record(exception=True))
    fields = json.loads(line)
    assert "\n" not in line
    assert fields.pop("exception").endswith("ValueError: what happened")
    assert fields == {
        "time": "2026-11-21T10:00:00.123Z",
        "level": "WARNING",
        "logger": "broker.server",
        "message": "line refused peer=[::1]:99",
    }
