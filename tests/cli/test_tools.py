"""`evermq backup`, `evermq verify` and `evermq recover`."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import running
from tests.storage.ruins import change, stored

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    from tests.cli.conftest import RunningDaemon


def test_the_data_of_a_daemon_is_copied_looked_at_and_restored(evermq: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text("[listener]\nport = 0\n", "utf-8")
    data, copy = tmp_path / "evermq-data", tmp_path / "copy"
    with running("--config", "broker.toml", folder=tmp_path) as daemon:
        evermq("mqsc", "--url", daemon.url, input=b"DEFINE QLOCAL(ORDERS)")
        assert evermq("put", "ORDERS", "kept", "--url", daemon.url).exit_code == 0
        backup = evermq("backup", str(copy), "--url", daemon.url)
        assert (backup.exit_code, backup.stdout) == (0, f"backup of the queue manager in {copy}\n")
        assert evermq("put", "ORDERS", "not kept", "--url", daemon.url).exit_code == 0
        runs = evermq("verify", str(data))
        assert (runs.exit_code, f"the queue manager in {data} runs" in runs.stderr) == (20, True)
        again = evermq("backup", str(copy), "--url", daemon.url)
        assert (again.exit_code, "copy is not empty" in again.stderr) == (20, True)
        behind = evermq("backup", str(tmp_path / "other"), "--data", str(data))
        assert (behind.exit_code, "is in use by another queue manager" in behind.stderr) == (20, True)
    verified = evermq("verify", str(copy))
    assert (verified.exit_code, verified.stderr) == (0, "")
    assert re.fullmatch(
        rf"{copy} is whole: a start finds 1 message and \d+ definitions, batches up to \d+\n", verified.stdout
    )
    shutil.rmtree(data)
    copy.rename(data)
    with running("--config", "broker.toml", folder=tmp_path) as daemon:
        assert evermq("get", "ORDERS", "--url", daemon.url).stdout == "kept\n"
        assert evermq("get", "ORDERS", "--url", daemon.url).exit_code == 10


@pytest.mark.parametrize("option", ["--config", "--data"])
def test_the_data_of_a_stopped_queue_manager_is_copied(
    evermq: Callable[..., Result], tmp_path: Path, option: str
) -> None:
    stored(tmp_path / "data", batches=5)
    (tmp_path / "broker.toml").write_text('[queue_manager]\ndata = "data"\n', "utf-8")
    value = tmp_path / ("broker.toml" if option == "--config" else "data")
    assert evermq("backup", str(tmp_path / "copy"), option, str(value)).exit_code == 0
    assert evermq("verify", str(tmp_path / "copy")).exit_code == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("backup", "copy", "--data", "nowhere"), "there is no store in nowhere"),
        (("backup", "copy", "--config", "nowhere.toml"), "nowhere.toml: no such file"),
        (("verify", "nowhere"), "there is no directory nowhere"),
        (("recover", "nowhere"), "there is no directory nowhere"),
        (("recover", "nowhere", "--accept-loss"), "there is no directory nowhere"),
    ],
)
def test_what_is_not_there_is_told(
    evermq: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    reported = evermq(*words)
    assert (reported.exit_code, text in reported.stderr) == (20, True)
    assert list(tmp_path.iterdir()) == []


def test_a_backup_of_nobody_says_how_to_get_a_queue_manager(evermq: Callable[..., Result], tmp_path: Path) -> None:
    reported = evermq("backup", str(tmp_path / "copy"), "--url", f"mq+unix://{tmp_path / 'socket'}")
    assert (reported.exit_code, "start one with: evermq run" in reported.stderr) == (20, True)


def test_damage_is_told_line_by_line_and_recovered_when_that_is_accepted(
    evermq: Callable[..., Result], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    stored(data)
    (data / "log.0").unlink()
    change(data / "log.1", 20)
    verified = evermq("verify", str(data))
    assert verified.exit_code == 10
    assert verified.stdout.splitlines()[0] == f"{data / 'log.0'} is missing"
    reported = evermq("recover", str(data))
    assert reported.exit_code == 10
    assert (
        "to keep: 263 messages, 4 definitions\nnothing was changed; restore a backup, or: evermq recover"
        in reported.stdout
    )
    done = evermq("recover", str(data), "--accept-loss")
    assert done.exit_code == 0
    assert re.search(rf"kept: 263 messages, 4 definitions\nwhat was replaced is in {data}/damaged-\w+;", done.stdout)
    assert evermq("verify", str(data)).exit_code == 0
    whole = evermq("recover", str(data), "--accept-loss")
    assert (whole.exit_code, whole.stdout) == (
        0,
        f"{data} is whole: there is nothing to recover, and nothing was changed\n",
    )


def test_what_a_recovery_loses_is_told(evermq: Callable[..., Result], tmp_path: Path) -> None:
    data = tmp_path / "data"
    stored(data)
    (data / "evermq-1.db").unlink()
    done = evermq("recover", str(data), "--accept-loss")
    for line in (
        "lost: the database, and all that the log does not have",
        "lost: the definition of a queue; its messages are on RECOVERED.7 now",
        "messages that were got in what is lost may be there again",
    ):
        assert line in done.stdout.splitlines()


def test_the_daemon_that_is_shared_is_copied_too(
    daemon: RunningDaemon, evermq: Callable[..., Result], tmp_path: Path
) -> None:
    assert evermq("backup", str(tmp_path / "copy"), "--url", daemon.url).exit_code == 0
