"""The monitor of an initiation queue, in the manner of runmqtrm."""

from __future__ import annotations

import json
import logging
import os
import stat
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from broker import Clock, QueueManager
from broker.mqi import (
    MQAT,
    MQDLH,
    MQENC,
    MQFB,
    MQFMT,
    MQGMO,
    MQOO,
    MQPER,
    MQRC,
    MQTM,
    MessageDescriptor,
    MQError,
)
from broker.testing import VirtualClock
from tests.triggers.fake import handlers
from tests.triggers.test_triggering_end_to_end import run
from triggers import Commands, InitiationMonitor, TriggerMessage
from triggers.initiation.commands import command_string

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from broker import Connection, Message

INITQ = "SYSTEM.DEFAULT.INITIATION.QUEUE"
COMMANDS = Commands(timeout=20)


@pytest.fixture
async def manager() -> AsyncIterator[QueueManager]:
    """A queue manager with a dead-letter queue, on the real clock: commands take real time."""
    async with QueueManager.open(name="QM1") as manager, manager.connect("operator") as operator:
        await run(operator, "DEFINE QLOCAL(DLQ)", "ALTER QMGR DEADQ(DLQ)", "DEFINE QLOCAL(Q)")
        yield manager


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """Makes a program of some lines of Python; its path is its APPLICID."""

    def make(body: str) -> str:
        path = tmp_path / "program"
        path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{body}\n", "utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return make


def unix(appl_id: str, env_data: str = "", **others: str) -> MQTM:
    return MQTM("Q", "P", appl_type=MQAT.UNIX, appl_id=appl_id, env_data=env_data, **others)


def python(q_name: str = "Q", process_name: str = "P") -> MQTM:
    return MQTM(q_name, process_name, appl_type=MQAT.TPF)


async def put(manager: QueueManager, *triggers: MQTM, **fields: Any) -> None:
    async with manager.connect() as connection:
        for trigger in triggers:
            md = MessageDescriptor(format=MQFMT.TRIGGER, **fields)
            await connection.put1(INITQ, trigger.to_bytes(), md)


async def messages(manager: QueueManager, q_name: str) -> list[Message]:
    async with manager.connect() as connection, connection.open(q_name, MQOO.BROWSE) as queue:
        return [message async for message in queue.messages(options=MQGMO.BROWSE_NEXT)]


async def depth(manager: QueueManager, q_name: str) -> int:
    return len(await messages(manager, q_name))


async def until(true: Callable[[], object]) -> None:
    """Return when this has become so."""
    with anyio.fail_after(20):
        while not true():  # noqa: ASYNC110  # other processes make it so
            await anyio.sleep(0.005)


async def gone(manager: QueueManager) -> None:
    """Return when the initiation queue is empty, and all is committed."""
    await until(lambda: not figures(manager)["depth"] and not figures(manager)["uncommitted"])


def figures(manager: QueueManager) -> dict[str, Any]:
    """Return the figures of the initiation queue."""
    return next(queue for queue in manager.status()["queues"] if queue["name"] == INITQ)


def reasons(dead: list[Message]) -> list[int]:
    return [MQDLH.from_bytes(message.data).reason for message in dead]


# The command string


async def test_the_program_is_given_the_mqtmc2_and_the_words_of_envrdata(
    manager: QueueManager, program: Callable[[str], str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    appl_id = program(f"open({str(out)!r}, 'w').write(json.dumps(sys.argv))")
    async with InitiationMonitor(manager, commands=COMMANDS) as monitor:
        await put(manager, unix(appl_id, "A B  ", trigger_data="THISISTRIGGER"))
        await gone(manager)
        assert (monitor.statistics().started, monitor.statistics().dead_letters) == (1, 0)
    first, argument, *words = json.loads(out.read_text())
    assert (first, words) == (appl_id, ["A", "B"])
    assert len(argument) == 732
    assert TriggerMessage.from_bytes(argument.encode()) == TriggerMessage(
        "Q", "P", "THISISTRIGGER", appl_id, "A B", "", "QM1"
    )
    assert argument[168:172] == "    "


async def test_bin_echo_prints_them(manager: QueueManager, capfd: pytest.CaptureFixture[str]) -> None:
    async with InitiationMonitor(manager, commands=COMMANDS):
        await put(manager, unix("/bin/echo", "A B  "))
        await gone(manager)
    printed = capfd.readouterr().out
    assert printed.startswith("TMC    2Q ")
    assert printed.endswith(" A B\n")
    assert len(printed) == 732 + len(" A B\n")


HOSTILE = [
    "$(touch {0})",
    "`touch {0}`",
    '"; touch {0}; "',
    "\\",
    '\\"; touch {0} #',
    "'; touch {0}",
    "${{HOME}}",
    "a\nb",
]


@pytest.mark.parametrize("text", HOSTILE)
async def test_no_text_of_a_trigger_message_is_run_by_the_shell(
    manager: QueueManager, program: Callable[[str], str], tmp_path: Path, text: str
) -> None:
    out, made = tmp_path / "out", tmp_path / "made"
    appl_id = program(f"open({str(out)!r}, 'w').write(json.dumps(sys.argv))")
    os.chdir(tmp_path)
    text = text.format("made")
    async with InitiationMonitor(manager, commands=COMMANDS):
        await put(manager, unix(appl_id, "A", trigger_data=text, user_data=text))
        await gone(manager)
    argument = json.loads(out.read_text())[1]
    assert not made.exists()
    assert argument[104:168].rstrip() == text.rstrip()
    assert len(argument) == 732


def test_the_command_string_is_that_of_the_manual() -> None:
    trigger = unix("prog -x", "A B &", user_data='say "$HOME"')
    argument = trigger.to_tmc2("QM1")
    assert command_string(trigger, argument) == (
        b'prog -x "' + bytes(argument).replace(b'"', b'\\"').replace(b"$", b"\\$") + b'" A B'
    )


# Dead letters


async def test_a_command_that_cannot_be_started_is_a_dead_letter_and_the_next_one_is_served(
    manager: QueueManager, program: Callable[[str], str], tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    done = tmp_path / "done"
    async with InitiationMonitor(manager, commands=COMMANDS) as monitor:
        triggers = [
            unix("/no/such"),
            unix(str(plain)),
            unix("/no/such", "&"),
            unix(program(f"open({str(done)!r}, 'w')")),
        ]
        await put(manager, *triggers, persistence=MQPER.PERSISTENT, correl_id=b"c" * 24)
        await gone(manager)
        await until(lambda: monitor.statistics().dead_letters == 3)
    dead = await messages(manager, "DLQ")
    assert sorted(message.data[MQDLH.SIZE :] for message in dead) == sorted(each.to_bytes() for each in triggers[:3])
    header = MQDLH.from_bytes(dead[0].data)
    assert header == MQDLH(
        reason=MQFB.APPL_CANNOT_BE_STARTED,
        dest_q_name=INITQ,
        dest_q_mgr_name="QM1",
        encoding=MQENC.NATIVE,
        coded_char_set_id=dead[0].md.coded_char_set_id,
        format="MQTRIG",
        put_appl_type=MQAT.TPF,
        put_appl_name="initiation monitor",
        put_date=header.put_date,
        put_time=header.put_time,
    )
    assert (dead[0].md.format, dead[0].md.persistence, dead[0].md.correl_id) == ("MQDEAD", 1, b"c" * 24)
    assert done.exists()


async def test_a_program_that_fails_is_no_error_of_the_monitor(
    manager: QueueManager, program: Callable[[str], str]
) -> None:
    async with InitiationMonitor(manager, commands=COMMANDS) as monitor:
        await put(manager, unix(program("sys.exit(3)")), unix(program("os.kill(os.getpid(), 9)")))
        await gone(manager)
        assert monitor.statistics().dead_letters == 0
    assert await depth(manager, "DLQ") == 0


@pytest.mark.parametrize("appl_type", [MQAT.CICS, MQAT.WINDOWS, MQAT.TPF, MQAT.UNKNOWN, 70000])
async def test_an_application_type_that_is_not_served_is_a_dead_letter(manager: QueueManager, appl_type: int) -> None:
    async with InitiationMonitor(manager, commands=COMMANDS):
        await put(manager, MQTM("Q", "P", appl_type=appl_type, appl_id="/bin/true"))
        await gone(manager)
    assert reasons(await messages(manager, "DLQ")) == [MQFB.APPL_TYPE_ERROR]


async def test_without_commands_nothing_is_run(
    manager: QueueManager, program: Callable[[str], str], tmp_path: Path
) -> None:
    made = tmp_path / "made"
    async with InitiationMonitor(manager):
        await put(manager, unix(program(f"open({str(made)!r}, 'w')")))
        await gone(manager)
    assert reasons(await messages(manager, "DLQ")) == [MQFB.APPL_TYPE_ERROR]
    assert not made.exists()


@pytest.mark.parametrize(
    ("data", "format"),
    [
        (b"a text put by hand", MQFMT.STRING),
        (unix("/bin/true").to_bytes(), MQFMT.STRING),
        (b"short", MQFMT.TRIGGER),
        (unix("/bin/true").to_bytes() + b"x", MQFMT.TRIGGER),
        (unix("/bin/true").to_bytes()[:4] + b"\x09" + unix("/bin/true").to_bytes()[5:], MQFMT.TRIGGER),
        (unix("/bin/true", "A\0B").to_bytes(), MQFMT.TRIGGER),
        (unix("/bin/true").to_bytes().replace(b"/bin", b"\xff\xfe\xfd\xfc"), MQFMT.TRIGGER),
    ],
    ids=["text", "format", "short", "long", "version", "NUL", "not UTF-8"],
)
async def test_what_is_no_trigger_message_is_a_dead_letter(manager: QueueManager, data: bytes, format: str) -> None:
    async with InitiationMonitor(manager, commands=COMMANDS):
        async with manager.connect() as connection:
            await connection.put1(INITQ, data, MessageDescriptor(format=format))
        await gone(manager)
    (dead,) = await messages(manager, "DLQ")
    header = MQDLH.from_bytes(dead.data)
    assert (header.reason, header.format, dead.data[MQDLH.SIZE :]) == (MQFB.TM_ERROR, format, data)


async def test_a_trigger_message_of_the_other_byte_order_is_understood(
    manager: QueueManager, program: Callable[[str], str], tmp_path: Path
) -> None:
    made = tmp_path / "made"
    async with InitiationMonitor(manager, commands=COMMANDS), manager.connect() as connection:
        trigger = unix(program(f"open({str(made)!r}, 'w')"))
        md = MessageDescriptor(format=MQFMT.TRIGGER, encoding=MQENC.NORMAL)
        await connection.put1(INITQ, trigger.to_bytes("big"), md)
        await gone(manager)
    assert made.exists()


@pytest.mark.parametrize(
    "change", ["ALTER QMGR DEADQ(' ')", "ALTER QMGR DEADQ(NONE)", "ALTER QLOCAL(DLQ) PUT(DISABLED)"]
)
async def test_without_a_dead_letter_queue_it_is_discarded_with_an_error(
    manager: QueueManager, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    async with manager.connect() as operator:
        await run(operator, change)
        async with InitiationMonitor(manager) as monitor:
            await put(manager, unix("/bin/true"))
            await gone(manager)
            await run(operator, "ALTER QMGR DEADQ(DLQ)", "ALTER QLOCAL(DLQ) PUT(ENABLED)")
            await put(manager, unix("/bin/true"))
            await gone(manager)
            assert monitor.statistics().dead_letters == 1
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "a trigger message is discarded" in record.getMessage()
    assert await depth(manager, "DLQ") == 1


async def test_when_the_dead_letter_queue_takes_no_more_the_one_that_deadq_names_now_is_used(
    manager: QueueManager,
) -> None:
    async with InitiationMonitor(manager), manager.connect() as operator:
        await run(operator, "DEFINE QLOCAL(OTHER)", "ALTER QLOCAL(DLQ) PUT(DISABLED)", "ALTER QMGR DEADQ(OTHER)")
        await put(manager, unix("/bin/true"), encoding=MQENC.NORMAL)
        await gone(manager)
    (dead,) = await messages(manager, "OTHER")
    header = MQDLH.from_bytes(dead.data)
    assert (dead.md.encoding, header.encoding, header.reason) == (MQENC.NATIVE, MQENC.NORMAL, MQFB.TM_ERROR)


# One at a time, or several

TIMED = """
with open({out!r}, 'a') as out: out.write('begin\\n')
{meanwhile}
with open({out!r}, 'a') as out: out.write('end\\n')
"""
A_WHILE = "time.sleep(0.3)"
UNTIL_THE_OTHER_HAS_BEGUN = "while open({out!r}).read().count('begin') < 2: time.sleep(0.01)"


async def timed(
    manager: QueueManager,
    program: Callable[[str], str],
    tmp_path: Path,
    env_data: str,
    meanwhile: str = A_WHILE,
    **settings: Any,
) -> list[str]:
    """The beginnings and ends of two commands."""
    out = tmp_path / "out"
    appl_id = program(TIMED.format(out=str(out), meanwhile=meanwhile.format(out=str(out))))
    async with InitiationMonitor(manager, **settings) as monitor:
        await put(manager, unix(appl_id, env_data), unix(appl_id, env_data))
        await until(lambda: monitor.statistics().started == 2)
        await until(lambda: monitor.statistics().running == 0)
    return out.read_text().split()


async def test_a_command_is_waited_for(manager: QueueManager, program: Callable[[str], str], tmp_path: Path) -> None:
    assert await timed(manager, program, tmp_path, "", commands=COMMANDS) == ["begin", "end"] * 2


async def test_with_an_ampersand_it_is_not(
    manager: QueueManager, program: Callable[[str], str], tmp_path: Path
) -> None:
    found = await timed(manager, program, tmp_path, "x &", UNTIL_THE_OTHER_HAS_BEGUN, commands=COMMANDS)
    assert found == ["begin"] * 2 + ["end"] * 2


async def test_but_the_background_is_bounded(
    manager: QueueManager, program: Callable[[str], str], tmp_path: Path
) -> None:
    commands = Commands(timeout=20, max_background=1)
    assert await timed(manager, program, tmp_path, "&", commands=commands) == ["begin", "end"] * 2


async def test_with_concurrency_two_run_together(
    manager: QueueManager, program: Callable[[str], str], tmp_path: Path
) -> None:
    found = await timed(manager, program, tmp_path, "", UNTIL_THE_OTHER_HAS_BEGUN, commands=COMMANDS, concurrency=2)
    assert found == ["begin"] * 2 + ["end"] * 2


@pytest.mark.parametrize("env_data", ["", "&"])
async def test_a_command_that_runs_for_too_long_is_ended_with_what_it_has_started(
    manager: QueueManager, tmp_path: Path, env_data: str, caplog: pytest.LogCaptureFixture
) -> None:
    pid = tmp_path / "pid"
    appl_id = f"sleep 60 & echo $! > {pid}; wait; true"
    async with InitiationMonitor(manager, commands=Commands(timeout=0.3)) as monitor:
        await put(manager, unix(appl_id, env_data))
        await until(lambda: monitor.statistics().started == 1)
        await until(lambda: monitor.statistics().running == 0)
        await gone(manager)
        assert monitor.statistics().dead_letters == 0
    await until(lambda: not running(int(pid.read_text())))
    assert "is ended: pid=" in caplog.text


def running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_when_the_monitor_stops_a_command_is_ended_and_its_trigger_message_is_there_again(
    manager: QueueManager, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    async with InitiationMonitor(manager, commands=COMMANDS, stop_timeout=0.1):
        await put(manager, unix(f"echo $$ > {pid}; sleep 60; true"))
        await until(lambda: pid.exists() and pid.read_text())
    await until(lambda: not running(int(pid.read_text())))
    assert await depth(manager, INITQ) == 1


async def test_when_the_monitor_stops_commands_have_some_time_to_end(
    manager: QueueManager, program: Callable[[str], str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    async with InitiationMonitor(manager, commands=COMMANDS, stop_timeout=20) as monitor:
        await put(manager, unix(program(TIMED.format(out=str(out), meanwhile=A_WHILE))), unix("/bin/true"))
        await until(lambda: monitor.statistics().running == 1 and out.exists())
    assert out.read_text().split() == ["begin", "end"]
    assert await depth(manager, INITQ) == 1  # the next one was not begun


# Handlers in Python


@asynccontextmanager
async def virtual(*commands: str) -> AsyncIterator[tuple[QueueManager, VirtualClock]]:
    clock = VirtualClock()
    async with QueueManager.open(name="QM1", clock=clock) as manager, manager.connect("operator") as operator:
        await run(operator, "DEFINE QLOCAL(DLQ)", "ALTER QMGR DEADQ(DLQ)", "DEFINE QLOCAL(Q)", *commands)
        yield manager, clock


async def test_a_handler_serves_a_process_of_type_def() -> None:
    seen: list[tuple[TriggerMessage, str]] = []

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        seen.append((trigger, connection.q_mgr_name))
        await connection.put1("Q", "in its unit", options=2)

    async with virtual() as (manager, clock), InitiationMonitor(manager, handlers=[handlers(P=handler)]) as monitor:
        await put(manager, python())
        await clock.advance(0)
        assert seen == [(TriggerMessage("Q", "P", q_mgr_name="QM1"), "QM1")]
        assert (await depth(manager, "Q"), await depth(manager, INITQ)) == (1, 0)
        assert monitor.statistics().started == 1


async def test_a_plain_function_is_a_handler_too() -> None:
    seen: list[TriggerMessage] = []

    def handler(trigger: TriggerMessage, connection: Connection) -> None:
        anyio.from_thread.run(connection.put1, "Q", "from a thread")
        seen.append(trigger)

    async with QueueManager.open(name="QM1") as manager, manager.connect() as operator:
        await run(operator, "DEFINE QLOCAL(Q)")
        async with InitiationMonitor(manager, handlers=[handlers(P=handler)]):
            await put(manager, python())
            await until(lambda: seen)
        assert await depth(manager, "Q") == 1


async def test_a_process_that_no_handler_serves_is_a_dead_letter() -> None:
    async with virtual() as (manager, clock), InitiationMonitor(manager, handlers=[handlers()]):
        await put(manager, python(process_name="NOBODY"))
        await clock.advance(0)
        assert reasons(await messages(manager, "DLQ")) == [MQFB.APPL_CANNOT_BE_STARTED]


class Failing:
    """A handler of an initiation queue's trigger that gets a message and fails so many times."""

    def __init__(self, clock: Clock, times: int) -> None:
        self.clock = clock
        self.times = times
        self.at: list[float] = []

    def handlers(self) -> list[Any]:
        async def handler(trigger: TriggerMessage, connection: Connection) -> None:
            self.at.append(round(self.clock.monotonic(), 3))
            if len(self.at) <= self.times:
                raise ValueError("not yet")

        return [handlers(P=handler)]


async def test_a_handler_that_fails_is_tried_again_ever_later_and_the_monitor_goes_on() -> None:
    async with virtual() as (manager, clock):
        failing = Failing(clock, 4)
        async with InitiationMonitor(manager, handlers=failing.handlers()) as monitor:
            await put(manager, python())
            await clock.advance(0.5)
            assert monitor.statistics().waiting == 1
            await clock.advance(10)
            assert failing.at == [0, 0.1, 0.3, 0.7, 1.5]
            assert (monitor.statistics().failed, monitor.statistics().waiting) == (4, 0)
            failing.times = 6
            await put(manager, python())
            await clock.advance(0.15)
            assert failing.at[5:] == [10.5, 10.6]  # the wait has begun anew


async def test_a_handler_that_always_fails_is_tried_again_once_a_minute_at_last() -> None:
    async with virtual() as (manager, clock):
        failing = Failing(clock, 99)
        async with InitiationMonitor(manager, handlers=failing.handlers()):
            await put(manager, python())
            await clock.advance(225)
    assert failing.at == [0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3, 12.7, 25.5, 51.1, 102.3, 162.3, 222.3]


async def test_while_a_first_queue_waits_its_other_trigger_messages_are_dropped_not_those_of_every() -> None:
    for type, starts in (("FIRST", 2), ("EVERY", 4)):
        async with virtual(f"ALTER QLOCAL(Q) TRIGTYPE({type})") as (manager, clock):
            failing = Failing(clock, 1)
            async with InitiationMonitor(manager, handlers=failing.handlers()):
                await put(manager, python())
                await clock.advance(0.05)
                await put(manager, python(), python())
                await clock.advance(10)
                assert len(failing.at) == starts, type


async def test_a_trigger_message_that_waits_is_on_its_queue_when_the_monitor_has_stopped() -> None:
    async with virtual() as (manager, clock):
        async with InitiationMonitor(manager, handlers=Failing(clock, 1).handlers()):
            await put(manager, python())
            await clock.advance(0.05)
            assert await depth(manager, INITQ) == 0
        assert await depth(manager, INITQ) == 1


async def test_poison_messages_go_to_the_backout_queue() -> None:
    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
            await queue.get(options=MQGMO.SYNCPOINT)
            raise ValueError("bad message")

    async with virtual("DEFINE QLOCAL(BAD)", "ALTER QLOCAL(Q) BOTHRESH(2) BOQNAME(BAD)") as (manager, clock):
        async with manager.connect() as connection:
            await connection.put1("Q", "bad")
        async with InitiationMonitor(manager, handlers=[handlers(P=handler)]) as monitor:
            await put(manager, python())
            await clock.advance(60)
            assert monitor.statistics().started == 2
        assert [message.data for message in await messages(manager, "BAD")] == [b"bad"]


# Its life


async def test_it_is_not_entered_when_its_queue_cannot_be_opened(manager: QueueManager) -> None:
    with pytest.raises(MQError) as caught:
        async with InitiationMonitor(manager, "NO.SUCH.QUEUE"):
            raise AssertionError("not entered")
    assert caught.value.reason == MQRC.UNKNOWN_OBJECT_NAME


async def test_a_queue_inhibited_for_gets_ends_it_with_an_error(manager: QueueManager) -> None:
    with anyio.fail_after(20), pytest.raises(MQError) as caught:
        async with InitiationMonitor(manager) as monitor, manager.connect() as operator:
            await run(operator, f"ALTER QLOCAL({INITQ}) GET(DISABLED)")
            await put(manager, unix("/bin/true"))
            await monitor.wait()
    assert caught.value.reason == MQRC.GET_INHIBITED


async def test_it_ends_quietly_with_its_queue_manager() -> None:
    with anyio.fail_after(20):
        async with QueueManager.open(name="QM1") as manager, anyio.create_task_group() as tasks:
            ended = anyio.Event()

            async def serve(*, task_status: Any) -> None:
                async with InitiationMonitor(manager, concurrency=3) as monitor:
                    task_status.started()
                    await monitor.wait()
                ended.set()

            await tasks.start(serve)
            await manager.quiesce(5)
            await ended.wait()


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_it_has_the_initiation_queue_open_for_input_and_leaves_it_as_it_was(
    manager: QueueManager, concurrency: int
) -> None:
    async with InitiationMonitor(manager, concurrency=concurrency):
        assert figures(manager)["ipprocs"] == concurrency
    assert figures(manager)["ipprocs"] == 0


@pytest.mark.parametrize("setting", [{"concurrency": 0}, {"stop_timeout": -1}, {"generation_interval": -1}], ids=str)
def test_a_number_out_of_range_is_a_value_error_that_names_it(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        InitiationMonitor(QueueManager.__new__(QueueManager), clock=VirtualClock(), **setting)


@pytest.mark.parametrize("setting", [{"timeout": -1}, {"max_background": 0}], ids=str)
def test_so_is_one_of_the_commands(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        Commands(**setting)
