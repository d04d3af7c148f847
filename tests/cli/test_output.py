"""What the commands print: messages and figures."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest

from broker.cli.administration.status import about_queue, in_words
from broker.cli.messages.hexadecimal import in_full
from broker.cli.messages.printing import as_json, as_line
from broker.cli.terminal.terminal import say, warn, write
from broker.interface import GetAnswer, Message
from broker.mqi import MQENC, MessageDescriptor
from broker.mqi.layouts.layouts import MQDLH, MQTM, MQXQH
from broker.mqi.layouts.packing import pack_md
from broker.mqi.layouts.rfh2 import MQRFH2
from broker.presentation.headers import HEADERS_MAX, headers
from tests.cli.controls import CONTROLS


def message(data: bytes, **fields: Any) -> Message:
    md = MessageDescriptor(format="MQSTR", priority=4, msg_id=b"M" * 24, **fields)
    return Message(
        GetAnswer(
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


def test_a_message_in_full_is_its_descriptor_and_its_data_in_digits_and_characters() -> None:
    lines = list(in_full(message(b"hello, \x1b[2J world\xff", reply_to_q="ANSWERS"), 7))
    assert lines[:2] == ["message number 7, reason 0", "****   Message descriptor ****"]
    assert "  ReplyToQ          : 'ANSWERS'" in lines
    assert f"  MsgId             : X'{'4D' * 24}'" in lines
    assert lines[-4:] == [
        "****   Message      ****",
        " length - 18 of 18 bytes",
        "00000000:  6865 6C6C 6F2C 201B 5B32 4A20 776F 726C 'hello, .[2J worl'",
        "00000010:  64FF                                    'd.              '",
    ]


@pytest.mark.parametrize("order", ["little", "big"])
def test_headers_are_shown_by_their_fields_in_their_order(order: Literal["little", "big"]) -> None:
    encoding = MQENC.NATIVE if order == "little" else 273
    rfh2 = MQRFH2(("<usr><a>1</a></usr>", "<mcd><Msd>jms_text</Msd></mcd>"), "MQSTR", encoding)
    xqh = MQXQH("Q2", "QM2", MessageDescriptor(format="MQHRF2", encoding=encoding, priority=7))
    dlh = MQDLH(2053, "ORDERS", "QM1", encoding, 1208, "MQXMIT", 6, "amqsput")
    data = dlh.to_bytes(order) + xqh.to_bytes(order) + rfh2.to_bytes(order) + b"body"
    found = list(headers(MessageDescriptor(format="MQDEAD", encoding=encoding), data))
    assert [each.name for each in found] == ["MQDLH", "MQXQH", "MQRFH2"]
    assert sum(each.size for each in found) == len(data) - 4
    assert (found[0].fields["reason"], found[0].fields["dest_q_name"]) == ("2053 MQRC_Q_FULL", "ORDERS")
    assert (found[1].fields["remote_q_mgr_name"], found[1].fields["priority"]) == ("QM2", 7)
    assert found[2].fields["name_value_data 2"] == "<mcd><Msd>jms_text</Msd></mcd>"
    made = message(data)
    made.md.format, made.md.encoding = "MQDEAD", encoding
    lines = list(in_full(made, 1))
    assert "****   MQDLH        ****" in lines
    assert "  Reason            : '2053 MQRC_Q_FULL'" in lines
    assert "  NameValueData 1   : '<usr><a>1</a></usr>'" in lines


def test_a_trigger_message_is_shown_by_its_fields_and_what_is_none_is_no_header() -> None:
    trigger = MQTM("ORDERS", "SHIPPING", user_data="x")
    [found] = headers(MessageDescriptor(format="MQTRIG"), trigger.to_bytes())
    assert (found.name, found.fields["process_name"], found.fields["user_data"]) == ("MQTM", "SHIPPING", "x")
    for format in ("MQTRIG", "MQDEAD", "MQXMIT", "MQHRF2", "MQSTR"):
        assert list(headers(MessageDescriptor(format=format), b"no such thing")) == []
    chain = MQRFH2((), "MQHRF2").to_bytes() * 5000
    assert len(list(headers(MessageDescriptor(format="MQHRF2"), chain))) == HEADERS_MAX


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


def test_status_tells_what_is_delayed_and_what_keys_are_kept_where_there_are_any() -> None:
    nothing = {
        "delayed": 0, "waiting": 0, "next_release": None, "keys": 0, "duplicates": 0, "duplicates_with_other_data": 0
    }  # fmt: skip
    queues = [{"name": "ORDERS", "depth": 5, **nothing}, {"name": "MAIL", "depth": 1, **nothing}]
    assert list(in_words({"queues": queues}))[2:] == ["queue   depth", "ORDERS      5", "MAIL        1"]
    queues[1] |= {"delayed": 1, "waiting": 1, "keys": 2}
    assert list(in_words({"queues": queues}))[2:] == [
        "queue   depth  delayed  keys",
        "ORDERS      5        0     0",
        "MAIL        1        1     2",
    ]


HANDLER = {
    "queue": "ORDERS", "handler": "shop:ship", "process": "ORDERS", "workers": 2, "started": 9, "succeeded": 7,
    "failed": 1, "running": 0, "crashed": 1, "last_error": "ValueError: fog\nsecond line",
    "last_error_at": 1_777_626_000.0, "waited": {"count": 9, "sum": 4.5, "buckets": []},
    "ran": {"count": 9, "sum": 9.0, "buckets": []},
}  # fmt: skip


def test_status_tells_instants_as_times_what_crashed_and_how_many_dead_letter_queues_are_empty() -> None:
    queues = [
        {"name": "ORDERS", "depth": 1, "delayed": 1, "waiting": 1, "next_release": 1_777_626_000.25},
        {"name": "ORDERS.DEAD", "depth": 2, "delayed": 0, "waiting": 0, "next_release": None},
        {"name": "MAIL.DEAD", "depth": 0, "delayed": 0, "waiting": 0, "next_release": None},
        {"name": "SYSTEM.DEAD.LETTER.QUEUE", "depth": 0, "delayed": 0, "waiting": 0, "next_release": None},
    ]
    dead = ["MAIL.DEAD", "ORDERS.DEAD", "SYSTEM.DEAD.LETTER.QUEUE"]
    assert list(in_words({"queues": queues, "handlers": [HANDLER]}, dead))[2:] == [
        "queue        depth  delayed             next release",
        "ORDERS           1        1  2026-05-01 09:00:00 UTC",
        "ORDERS.DEAD      2        0                    never",
        "1 dead-letter queue is empty",
        "",
        "handler           workers  started  succeeded  failed  running  crashed     wait      run",
        "ORDERS shop:ship        2        9          7       1        0        1  0.500 s  1.000 s",
        "last error of ORDERS shop:ship, 2026-05-01 09:00:00 UTC: ValueError: fog",
        "crashed: 1 message of ORDERS shop:ship, whose worker ended or lost its line while it handled them",
    ]


def test_status_of_one_queue_is_all_of_its_figures_and_its_handlers() -> None:
    queue = {"name": "ORDERS", "depth": 1, "delayed": 1, "waiting": 1, "next_release": 1_777_626_000.25, "bytes": 2048}
    assert list(about_queue({"queue": queue, "handlers": [HANDLER], "consumers": []})) == [
        "queue ORDERS",
        "  depth              1",
        "  delayed            1",
        "  next release       2026-05-01 09:00:00 UTC",
        "  bytes              2.0 KiB",
        "",
        "handler shop:ship",
        "  process            ORDERS",
        "  workers            2",
        "  started            9",
        "  succeeded          7",
        "  failed             1",
        "  running            0",
        "  crashed            1",
        "  last error         ValueError: fog\n                     second line",
        "  last error at      2026-05-01 09:00:00 UTC",
        "  wait               0.500 s",
        "  run                1.000 s",
        "crashed: 1 message of ORDERS shop:ship, whose worker ended or lost its line while it handled them",
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


def test_status_tells_of_the_oldest_messages_and_the_ten_oldest_units_of_work() -> None:
    units = [{"name": f"shop {number}", "user": "bob", "puts": 1, "age": 90.0 - number} for number in range(12)]
    queues = [
        {"name": "ORDERS", "depth": 5, "puts": 7, "gets": 2, "oldest_age": 12.5},
        {"name": "SYSTEM.USED.ONCE", "depth": 0, "puts": 7, "gets": 7, "oldest_age": 0.0},
    ]
    shown = list(in_words({"name": "QM1", "queues": queues, "units_of_work": units}))
    assert shown[3:7] == [
        "queue   depth    oldest",
        "ORDERS      5  12.500 s",
        "",
        "unit of work of  user  puts       age",
    ]
    assert (shown[7], len(shown)) == ("shop 0            bob     1  90.000 s", 17)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("quiescing", False, "no"),
        ("transactions", 1234567, "1,234,567"),
        ("budget", 16 * 1024 * 1024, "16.0 MiB"),
        ("log_bytes", 1023, "1023 B"),
        ("steps_bytes", 65_536, "64.0 KiB"),
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


@pytest.mark.parametrize("control", CONTROLS, ids=ascii)
def test_what_a_client_chose_is_shown_on_a_terminal_in_letters(
    control: str, capsys: pytest.CaptureFixture[str]
) -> None:
    say(f"DESCR(a{control}b)")
    write(f"DESCR(a{control}b)")
    assert capsys.readouterr().out == f"DESCR(a{ascii(control)[1:-1]}b)\n" + f"DESCR(a{ascii(control)[1:-1]}b)"
    warn(f"put by a{control}b")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()
