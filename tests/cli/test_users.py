"""`evermq user` and `evermq init`: users without a secret in a command line (security 2.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import running
from tests.first_user import FIRST_USER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result


@pytest.fixture
def made(evermq: Callable[..., Result], tmp_path: Path) -> Path:
    """The folder of a queue manager that `evermq init` has made, whose administrator has the password `canary`."""
    (tmp_path / "password").write_text("canary\n", "utf-8")
    result = evermq("init", str(tmp_path / "qm"), "--password-file", str(tmp_path / "password"))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"queue manager QM1 in {tmp_path / 'qm'}: evermq run --config {tmp_path}/qm/broker.toml\n"
    return tmp_path / "qm"


def test_init_makes_a_queue_manager_that_runs_and_is_made_once(evermq: Callable[..., Result], made: Path) -> None:
    again = evermq("init", str(made))
    assert (again.exit_code, "there is a queue manager in" in again.stderr) == (20, True)
    text = (made / "broker.toml").read_text("utf-8")
    assert "canary" not in text
    assert not any(b"canary" in path.read_bytes() for path in (made / "data").rglob("*") if path.is_file())
    (made / "broker.toml").write_text(text + "\n[listener]\nport = 0\n", "utf-8")
    with running("--config", "broker.toml", folder=made) as daemon:
        assert daemon.url


def test_users_of_a_stopped_queue_manager(evermq: Callable[..., Result], made: Path) -> None:
    def user(*words: str) -> Result:
        return evermq("user", *words, "--data", str(made / "data"))

    password = ("--password-file", str(made.parent / "password"))
    assert user("add", "bob", "--groups", "app,ops", *password).stdout == "EMQ0019I: IBM MQ user created.\n"
    assert user("add", "carol", "--no-password").exit_code == 0
    assert user("groups", "bob").stdout == "app,ops\n"
    assert user("groups", "bob", "+web", "-ops", "+app").stdout == "web,app\n"
    assert user("groups", "carol").stdout == "carol is in no group\n"
    assert user("disable", "bob").exit_code == 0
    assert user("list").stdout.split() == [
        "user", "status", "password", "groups",
        "admin", "ENABLED", "SET", "mqm",
        "bob", "DISABLED", "SET", "web,app",
        "carol", "ENABLED", "NONE",
    ]  # fmt: skip
    assert [user(*words).exit_code for words in (("enable", "bob"), ("password", "carol", *password))] == [0, 0]
    shared = user("add", "dave", "--no-password", "--shared")
    assert (shared.exit_code, "QSGDISP(SHARED) needs a queue-sharing group" in shared.stderr) == (10, True)
    assert user("remove", "bob").exit_code == 0
    assert (user("remove", "bob").exit_code, "AMQ8147E" in user("remove", "bob").stderr) == (10, True)


def test_a_password_is_in_no_file_that_others_may_write(evermq: Callable[..., Result], made: Path) -> None:
    file = made.parent / "password"
    file.chmod(0o666)
    done = evermq("user", "password", "admin", "--password-file", str(file), "--data", str(made / "data"))
    assert done.exit_code == 20
    assert f"others may write {file} (mode 0666), and choose the secret: chmod go-w {file}" in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("add", "bob"), "the password of bob is asked for on a terminal: or give --password-file FILE"),
        (("add", "b'ob"), "is no name of a user or group"),
        (("add", "bob", "--no-password", "--groups", "a,b c"), "'b c' is no name of a user or group"),
        (("groups", "bob", "app"), "+app puts bob into the group"),
    ],
)
def test_what_cannot_be_done_is_said(
    evermq: Callable[..., Result], made: Path, words: tuple[str, ...], told: str
) -> None:
    result = evermq("user", *words, "--data", str(made / "data"))
    assert (result.exit_code, told in result.stderr) == (20, True), result.stderr


def test_x2_5_the_data_of_a_running_daemon_is_left_alone(evermq: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text("[listener]\nport = 0\n", "utf-8")
    (tmp_path / "password").write_text("canary\n", "utf-8")
    add = ("user", "add", "root", "--groups", "mqm", "--password-file", str(tmp_path / "password"))
    with running("--config", "broker.toml", folder=tmp_path) as daemon:
        beside = evermq(*add, "--data", str(tmp_path / "evermq-data"))
        assert (beside.exit_code, "is in use by another queue manager" in beside.stderr) == (20, True)
        refused = evermq("user", "add", "bob", "--no-password", "--url", daemon.url)
        assert (refused.exit_code, "EMQ0026E" in refused.stderr) == (10, True)
        assert evermq(*add, "--url", daemon.url).exit_code == 0


def test_a_script_that_defines_the_first_user_has_done_its_work(evermq: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text("[listener]\nport = 0\n", "utf-8")
    (tmp_path / "users.mqsc").write_text(FIRST_USER, "utf-8")
    with running("--config", "broker.toml", folder=tmp_path) as daemon:
        done = evermq("mqsc", str(tmp_path / "users.mqsc"), "--url", daemon.url)
        assert (done.exit_code, "EMQ0019I" in done.stdout) == (0, True), done.stderr


def test_a_password_is_typed_twice_and_not_shown(
    evermq: Callable[..., Result], made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.cli.administration.passwords._on_terminal", lambda: True)
    words = ("user", "password", "admin", "--data", str(made / "data"))
    typed = evermq(*words, input=b"other secret\nother secret\n")
    assert (typed.exit_code, "secret" in typed.stdout + typed.stderr) == (0, False)
    assert evermq(*words, input=b"one\nanother\n").exit_code != 0
