"""The commands against a daemon in a process of its own."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from functools import partial
from typing import TYPE_CHECKING

import anyio
import pytest

import broker
from broker.mqi import MQMF, MessageDescriptor
from tests.cli.conftest import RunningDaemon, command, environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

    Evermq = Callable[..., Result]


@pytest.fixture
def queue(on: Evermq, request: pytest.FixtureRequest) -> str:
    """A local queue of the test's own."""
    name = str(request.node.name)[:48].upper()
    assert on("mqsc", input=f"DEFINE QLOCAL({name})\n".encode()).exit_code == 0
    return name


def test_a_message_put_is_got(on: Evermq, queue: str) -> None:
    assert on("put", queue, "Zürich").exit_code == 0
    assert on("get", queue).stdout == "Zürich\n"
    empty = on("get", queue)
    assert (empty.exit_code, empty.stderr) == (10, f"evermq: MQRC_NO_MSG_AVAILABLE (2033): {queue} is empty\n")


def test_what_a_client_calls_itself_cannot_fool_who_reads_an_explanation(daemon: RunningDaemon, queue: str) -> None:
    async def explained() -> str:
        name = "evil\x1b[2J\r\nAVAILABLE: 1"
        async with broker.connect(daemon.url, appl_name=name) as connection, connection.unit_of_work():
            await connection.put1(queue, "x")
            done = await anyio.run_process(command("explain", queue, "--url", daemon.url), env=environment())
        return done.stdout.decode()

    said = asyncio.run(explained())
    assert "put and not committed by evil\\x1b[2J\\r\\nAVAILABLE: 1" in said
    assert not [line for line in said.splitlines() if line.startswith("AVAILABLE")]


def test_a_description_cannot_upset_a_terminal(daemon: RunningDaemon, on: Evermq, queue: str) -> None:
    on("mqsc", input=f"ALTER QLOCAL({queue}) DESCR('red\x1b[31m\u2028line')\n".encode())
    shown = on("mqsc", input=f"DISPLAY QLOCAL({queue}) DESCR\n".encode()).stdout
    assert "DESCR(red\\x1b[31m\\u2028line)" in shown
    assert all(character.isprintable() or character == "\n" for character in shown)


def test_standard_input_is_one_message_as_it_is(on: Evermq, queue: str) -> None:
    assert on("put", queue, input=b"a\n\xff\x00\n").exit_code == 0
    assert on("get", queue).stdout_bytes == b"a\n\xff\x00\n\n"


def test_options_of_put_arrive_in_the_descriptor(on: Evermq, queue: str) -> None:
    on("put", queue, "x", "--nonpersistent", "--priority", "7", "--correl-id", "c0ffee")
    fields = json.loads(on("get", queue, "--json").stdout)
    assert (fields["data"], fields["persistence"], fields["priority"]) == ("x", 0, 7)
    assert (fields["correl_id"], fields["format"]) == ("c0ffee".ljust(48, "0"), "MQSTR")


def test_put_of_one_message_prints_its_msg_id(on: Evermq, queue: str) -> None:
    said = on("put", queue, "x").stdout
    assert said == json.loads(on("get", queue, "--json").stdout)["msg_id"] + "\n"
    assert on("put", queue, "x", "--quiet").stdout == ""


def test_put_says_what_the_message_is(on: Evermq, daemon: RunningDaemon, queue: str) -> None:
    words = "--expiry 60.01 --reply-to ANSWERS --format MYFMT --property n=5 --property x=1.5 --property ok=true"
    assert on("put", queue, "x", *words.split(), "--property", 'zip="05"', "--property", "who=me=you").exit_code == 0

    async def got() -> tuple[broker.mqi.MessageDescriptor, dict[str, object]]:
        async with broker.connect(daemon.url) as connection, connection.open(queue, broker.mqi.MQOO.INPUT_SHARED) as q:
            message = await q.get()
            return message.md, dict(message.properties)

    md, properties = asyncio.run(got())
    assert 500 < md.expiry <= 601
    assert (md.reply_to_q, md.msg_type, md.format) == ("ANSWERS", broker.mqi.MQMT.REQUEST, "MYFMT")
    assert properties == {"n": 5, "x": 1.5, "ok": True, "zip": "05", "who": "me=you"}


def test_put_with_a_delay_or_a_key(on: Evermq, queue: str) -> None:
    first = on("put", queue, "x", "--delay", "600", "--key", "one")
    again = on("put", queue, "x", "--key", "one")
    assert (again.exit_code, again.stderr) == (0, "a message with key one was put before: nothing is put\n")
    assert again.stdout == first.stdout
    assert on("get", queue).exit_code == 10
    assert on("delayed", "list", queue).stdout.splitlines()[1].split()[0] == first.stdout.strip()


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (("--property", "n"), "'n' is no property: write NAME=VALUE"),
        (("--property", "n=1", "--property", "n=2"), "n is given twice"),
        (("--format", "NINECHARS"), "'NINECHARS' is longer than 8 characters"),
        (("--expiry", "nan"), "nan is not a number of seconds"),
        (("--delay", "nan"), "delay"),
        (("--delay", "1", "--lines"), "--delay is for one message, and --lines puts many"),
        (("--key", "k", "--lines"), "--key is for one message"),
        (("--property", "n=1", "--lines"), "--property is for one message"),
    ],
)
def test_what_put_cannot_mean_is_told(on: Evermq, words: tuple[str, ...], reported: str) -> None:
    result = on("put", "ANY", *words, *(() if "--lines" in words else ("x",)))
    assert (result.exit_code, reported in result.stderr) == (20, True), result.stderr


def test_browse_leaves_the_messages_there_and_get_all_takes_them(on: Evermq, queue: str) -> None:
    for text in ("one", "two"):
        on("put", queue, text)
    assert on("browse", queue).stdout == "one\ntwo\n"
    assert [json.loads(line)["data"] for line in on("browse", queue, "--json").stdout.splitlines()] == ["one", "two"]
    assert on("get", queue, "--all").stdout == "one\ntwo\n"
    assert (on("get", queue, "--all").exit_code, on("browse", queue).exit_code) == (0, 0)


def test_browse_in_hexadecimal_shows_all_of_the_first_messages(on: Evermq, queue: str) -> None:
    msg_id = on("put", queue, "Zürich\tis a city", "--property", "n=5").stdout.strip()
    on("put", queue, "two")
    lines = on("browse", queue, "--hex", "-n", "1").stdout.splitlines()
    assert lines[0] == "message number 1, reason 0"
    assert f"  MsgId             : X'{msg_id.upper()}'" in lines
    assert "  Format            : 'MQHRF2'" in lines
    assert lines.index("****   MQRFH2       ****") < lines.index("  NameValueData 1   : '<usr><n dt='i4'>5</n></usr>'")
    assert lines[-1] == ""
    assert len([line for line in lines if line.startswith("message number")]) == 1
    assert on("browse", queue, "-n", "1").stdout == "Zürich\tis a city\n"
    assert on("browse", queue, "-n", "3").stdout == "Zürich\tis a city\ntwo\n"
    assert on("browse", queue, "--hex", "--json").exit_code == 20


def test_get_waits_for_a_message_that_does_not_come(on: Evermq, queue: str) -> None:
    assert on("get", queue, "--wait", "0.01").exit_code == 10


@pytest.mark.parametrize(
    "words", [["put", "NO.SUCH.QUEUE", "x"], ["get", "NO.SUCH.QUEUE"], ["browse", "NO.SUCH.QUEUE"]]
)
def test_an_unknown_queue_is_one_line_with_the_reason(on: Evermq, words: list[str]) -> None:
    result = on(*words)
    assert result.exit_code == 10
    assert result.stderr.startswith("evermq: MQRC_UNKNOWN_OBJECT_NAME (2085): ")
    assert result.stderr.count("\n") == 1


def test_status_shows_the_queues(on: Evermq, queue: str) -> None:
    on("put", queue, "x")
    assert f"\n{queue}" in on("status").stdout
    figures = json.loads(on("status", "--json").stdout)
    assert [each["depth"] for each in figures["queues"] if each["name"] == queue] == [1]
    assert on("status", queue).stdout.startswith(f"queue {queue}\n  depth              1\n")
    assert json.loads(on("status", queue, "--json").stdout)["queue"]["depth"] == 1
    unknown = on("status", "NO.SUCH.QUEUE")
    assert (unknown.exit_code, unknown.stderr) == (
        10, "evermq: MQRC_UNKNOWN_OBJECT_NAME (2085): NO.SUCH.QUEUE is no local queue of QM1\n"
    )  # fmt: skip


def test_a_script_is_a_session_of_runmqsc(on: Evermq, queue: str) -> None:
    result = on("mqsc", input=f"DIS QL({queue}) +\n  MAXDEPTH\nDEF BOGUS(B)\nend\n".encode())
    assert result.exit_code == 10
    assert f"     1 : DIS QL({queue}) +\n       :   MAXDEPTH\nAMQ8409I: " in result.stdout
    assert result.stdout.endswith(
        "2 MQSC commands read.\nOne command has a syntax error.\nAll valid MQSC commands were processed.\n"
    )


def test_lines_are_messages_acknowledged_in_order(daemon: RunningDaemon, on: Evermq, queue: str) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(1, 2000)) + b"\n\xff last"
    done = subprocess.run(
        command("put", queue, "--lines", "--ack", "--url", daemon.url),
        input=lines,
        capture_output=True,
        env=environment(),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, f"2001 messages put on {queue}\n".encode())
    assert done.stdout == b"".join(b"%d\n" % number for number in range(1, 2002))
    assert on("get", queue, "--all").stdout_bytes == lines + b"\n"


def test_a_full_queue_ends_the_lines_with_an_exact_account(daemon: RunningDaemon, on: Evermq, queue: str) -> None:
    on("mqsc", input=f"ALTER QLOCAL({queue}) MAXDEPTH(5)\n".encode())
    done = subprocess.run(
        command("put", queue, "--lines", "--ack", "--url", daemon.url),
        input=b"x\n" * 20,
        capture_output=True,
        env=environment(),
        text=False,
        check=False,
    )
    assert done.returncode == 10
    assert done.stdout == b"1\n2\n3\n4\n5\n"
    assert b"5 messages put" in done.stderr
    assert b"evermq: line 6: MQRC_Q_FULL (2053): " in done.stderr


def test_a_reader_that_goes_away_loses_nothing(daemon: RunningDaemon, on: Evermq, queue: str) -> None:
    # More than a pipe holds, so that the command is still writing when its reader goes away.
    for number in range(3):
        on("put", queue, input=b"%d" % number + b"x" * 2_000_000)
    with subprocess.Popen(
        command("get", queue, "--all", "--url", daemon.url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(PYTHONUNBUFFERED="1"),  # where a single write may take a part
    ) as getting:
        assert getting.stdout is not None
        assert getting.stdout.read(1) == b"0"
        getting.stdout.close()
        assert getting.stderr is not None
        assert getting.stderr.read() == b""
    assert getting.returncode == 141
    assert [line[:1] for line in on("get", queue, "--all").stdout.splitlines()] == ["0", "1", "2"]


def test_ctrl_c_is_quiet_and_puts_the_message_back(daemon: RunningDaemon, on: Evermq, queue: str) -> None:
    with subprocess.Popen(
        command("get", queue, "--all", "--wait", "60", "--url", daemon.url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a run in the background ignores it
    ) as getting:
        assert getting.stdout is not None
        on("put", queue, "first")
        assert getting.stdout.readline() == b"first\n"
        getting.send_signal(signal.SIGINT)
        assert getting.communicate(timeout=30) == (b"", b"")
    assert getting.returncode == 130


def put_group(daemon: RunningDaemon, queue: str, lines: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command("put", queue, "--lines", "--group", *options, "--url", daemon.url),
        input=lines,
        capture_output=True,
        env=environment(),
        check=False,
    )


def test_lines_are_one_group_in_one_unit_of_work(daemon: RunningDaemon, on: Evermq, queue: str) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(1, 601))
    done = put_group(daemon, queue, lines, "--ack")
    assert (done.returncode, done.stderr) == (0, f"600 messages put on {queue}\n".encode())
    assert done.stdout == b"".join(b"%d\n" % number for number in range(1, 601))
    got = [json.loads(line) for line in on("browse", queue, "--logical", "--json").stdout.splitlines()]
    assert [each["data"] for each in got] == [f"line {number}" for number in range(1, 601)]
    assert [each["msg_seq_number"] for each in got] == list(range(1, 601))
    assert [each["msg_flags"] for each in got] == [8] * 599 + [24]
    assert len({each["group_id"] for each in got}) == 1


def test_a_group_that_does_not_fit_is_not_put_at_all(daemon: RunningDaemon, on: Evermq, queue: str) -> None:
    on("mqsc", input=f"ALTER QLOCAL({queue}) MAXDEPTH(5)\n".encode())
    done = put_group(daemon, queue, b"x\n" * 20, "--ack")
    assert (done.returncode, done.stdout) == (10, b"")
    assert done.stderr.startswith(f"0 messages put on {queue}\nevermq: line 6: MQRC_Q_FULL (2053): ".encode())
    assert on("get", queue, "--all").stdout == ""


def test_no_lines_are_no_group(daemon: RunningDaemon, on: Evermq, queue: str) -> None:
    done = put_group(daemon, queue, b"")
    assert (done.returncode, done.stderr) == (0, f"0 messages put on {queue}\n".encode())


def test_browse_in_logical_order_says_where_a_group_goes_no_further(
    daemon: RunningDaemon, on: Evermq, queue: str
) -> None:
    on("put", queue, "alone")
    put_group(daemon, queue, b"1\n2\n3\n")
    messages = [json.loads(line) for line in on("browse", queue, "--json").stdout.splitlines()]
    group = messages[1]["group_id"]
    assert on("browse", queue, "--logical").stdout == "alone\n1\n2\n3\n"
    for text in ("alone", "1", "2"):
        assert on("get", queue).stdout == f"{text}\n"
    put_group(daemon, queue, b"4\n5\n")
    assert on("browse", queue, "--logical").stdout == "4\n5\n"
    assert on("explain", queue, "--group-id", group).stdout == (
        f"FIRST_ITEM_ABSENT: the first message of group {group} is not available: no get in logical order begins the "
        f"group\nINCOMPLETE_GROUP: group {group} lacks messages 1 to 2; it has 3\n"
        f"NOT_OPEN_FOR_INPUT: no program has {queue} open for input\nAVAILABLE: 1 message is available to a get\n"
    )


def test_browse_in_logical_order_ends_where_the_next_message_of_a_group_is_missing(
    daemon: RunningDaemon, on: Evermq, queue: str
) -> None:
    async def begin_a_group() -> str:
        async with broker.connect(daemon.url) as connection:
            md = MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP)
            return (await connection.put1(queue, b"1", md)).md.group_id.hex()

    group = asyncio.run(begin_a_group())
    on("put", queue, "behind it")
    browsed = on("browse", queue, "--logical")
    assert (browsed.exit_code, browsed.stdout) == (0, "1\n")
    assert browsed.stderr == f"group {group} goes no further: evermq explain {queue} --group-id {group}\n"


def test_explain_tells_in_figures(on: Evermq, queue: str) -> None:
    on("put", queue, "x", "--correl-id", "c0ffee")
    on("put", queue, "y", "--priority", "9")
    found = json.loads(on("explain", queue, "--json", "--correl-id", "c0ffee").stdout)
    assert found["q_name"] == queue
    assert [(each["code"], each["figures"]) for each in found["findings"]] == [
        ("HIGHER_PRIORITY_AHEAD", {"messages": 1, "ahead": 1}),
        ("NOT_OPEN_FOR_INPUT", {}),
        ("AVAILABLE", {"messages": 1}),
    ]
    assert on("explain", "queue", queue).stdout == on("explain", queue).stdout
    missing = on("explain", "NO.SUCH.QUEUE")
    assert (missing.exit_code, missing.stderr.startswith("evermq: MQRC_UNKNOWN_OBJECT_NAME (2085): ")) == (10, True)


def test_x9_1_explain_open_ends_with_the_line_that_allows_it(on: Evermq, queue: str) -> None:
    asked = ("explain", "open", queue, "--as", "stranger", "--for", "put,get")
    *steps, verdict, grant = on(*asked).stdout.splitlines()
    assert steps[-1] == f"rights: GET,PUT on QUEUE {queue}: refused: GET,PUT is missing"
    assert verdict == f"stranger may not open {queue} for put,get; this would allow it:"
    assert on("mqsc", input=grant).exit_code == 0
    assert on(*asked).stdout.splitlines()[-1] == f"stranger may open {queue} for put,get"
    found = json.loads(on(*asked, "--json").stdout)
    assert (found["allowed"], found["user"], found["grant"]) == (True, "stranger", "")
    assert found["steps"][-1] == {"rule": "rights", "compared": f"GET,PUT on QUEUE {queue}", "verdict": "allowed"}


def test_x9_1_explain_connect_tells_rule_by_rule(on: Evermq) -> None:
    told = on("explain", "connect", "stranger", "--from", "192.0.2.7", "--channel", "SYSTEM.DEF.SVRCONN")
    assert told.stdout.splitlines() == [
        "USER(stranger): no such user: has no password to give",
        "CHLAUTH('SYSTEM.*') TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(NOACCESS): channel SYSTEM.DEF.SVRCONN, address "
        "192.0.2.7: refused",
        "stranger may not connect from 192.0.2.7; no command allows it without letting others in",
    ]
    wrong = on("explain", "connect", "stranger", "--from", "somewhere")
    assert (wrong.exit_code, "OPTIONS_ERROR (2046): from_: 'somewhere'" in wrong.stderr) == (10, True)
