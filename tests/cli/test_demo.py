"""`evermq demo` as a newcomer runs it: every line of any file is accounted for, and nothing is left behind."""

from __future__ import annotations

import re
import signal
import subprocess
from typing import TYPE_CHECKING

import anyio

from broker import QueueManager
from broker.mqi import MQDLH, MQGMO, MQOO
from tests.cli.conftest import command, environment

if TYPE_CHECKING:
    from pathlib import Path


def demonstrated(folder: Path, *words: str) -> str:
    """The report of a demonstration that accounted for every line, with its temporary folder in `folder`."""
    done = subprocess.run(
        command("demo", *words),
        capture_output=True,
        env=environment(TMPDIR=str(folder)),
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("\nevery line is accounted for\n")
    assert [line for line in done.stdout.splitlines()[1:] if len(line) > 100] == []
    return " ".join(done.stdout.split())


def test_the_sample_is_confirmed_but_for_its_deliberate_mistakes(tmp_path: Path) -> None:
    report = demonstrated(tmp_path)
    assert "ZMQSC ALTER QL-DEMO.RESERVATIONS PROCESS-DEMO TRIGGER TRIGTYPE-EVERY" in report
    assert "lines 3,000 confirmed 2,940 a reply each rejected 60 on the dead-letter queue" in report
    assert re.search(r"tasks 400 for a worker, killed when 2\d\d were done; another went on done 399 once each", report)
    assert "dead letters 1 on TASKS.DEAD task 123, 3 attempts: ValueError: nobody can do this" in report
    assert "put to handler, at 200 messages a second: p50 " in report
    assert list(tmp_path.iterdir()) == []


def test_any_file_will_do(tmp_path: Path) -> None:
    reservation = (
        b'{"record":"K7QX2M","name":"MEIER/ANNA","flight":"EV1","date":"2026-12-01","from":"ZRH","to":"LIS",'
        b'"class":"Y","seats":1}\r\n'
    )
    file = tmp_path / "any"
    file.write_bytes(reservation + b"\n" + bytes(range(256)) + b"x" * 5_000_000 + b"\n" + reservation + b"no newline")
    folder = tmp_path / "temporary"
    folder.mkdir()
    report = demonstrated(folder, str(file))
    assert "lines 6 confirmed 2 a reply each rejected 4 on the dead-letter queue" in report


def test_what_came_back_may_be_kept(tmp_path: Path) -> None:
    file, data = tmp_path / "lines", tmp_path / "kept"
    file.write_bytes(b"no reservation\nneither\n")
    demonstrated(tmp_path, str(file), "--keep", str(data))

    async def kept() -> list[tuple[int, bytes]]:
        async with QueueManager.open(name="DEMO", data=data) as manager, manager.connect() as connection:
            async with connection.open("DEMO.DEAD.LETTER.QUEUE.KEPT", MQOO.BROWSE) as queue:
                messages = await queue.get_many(9, options=MQGMO.BROWSE_NEXT)
            return [(len(messages), message.data[MQDLH.SIZE :]) for message in messages[:2]]

    assert anyio.run(kept) == [(4, b"no reservation"), (4, b"neither")]  # and each once more, at a steady rate
    again = subprocess.run(command("demo", str(file), "--keep", str(data)), capture_output=True, text=True, check=False)
    assert (again.returncode, again.stderr) == (20, f"evermq: {data} is not empty: --keep needs a new directory\n")


def test_an_empty_file_is_accounted_for(tmp_path: Path) -> None:
    file = tmp_path / "empty"
    file.touch()
    assert "lines 0 confirmed 0 a reply each rejected 0 " in demonstrated(tmp_path, str(file))


def test_ctrl_c_ends_the_daemon_and_removes_its_folder(tmp_path: Path) -> None:
    with subprocess.Popen(
        command("demo", "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(TMPDIR=str(tmp_path)),
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a shell's background jobs ignore
    ) as demo:
        assert demo.stdout is not None
        assert any("TRIGTYPE-EVERY" in line for line in demo.stdout)
        assert [path.name[:12] for path in tmp_path.iterdir()] == ["evermq-demo-"]
        demo.send_signal(signal.SIGINT)
        assert demo.communicate(timeout=30) == ("", "")
    assert demo.returncode == 130
    assert list(tmp_path.iterdir()) == []
