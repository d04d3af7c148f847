"""`evermq init --dev --tls`: a queue manager that programs of other machines reach, in one command."""

from __future__ import annotations

import shutil
import ssl
import tomllib
from typing import TYPE_CHECKING

import pytest

from broker.cli.service import openssl
from tests.cli.conftest import running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

NEEDS_OPENSSL = pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl program is not installed")


@pytest.fixture
def passwords(tmp_path: Path) -> list[str]:
    for name in ("admin", "app"):
        (tmp_path / name).write_text(f"canary of {name}\n", "utf-8")
    return ["--password-file", str(tmp_path / "admin"), "--app-password-file", str(tmp_path / "app")]


@NEEDS_OPENSSL
def test_init_makes_an_authority_and_programs_log_in_over_tls(
    evermq: Callable[..., Result], tmp_path: Path, passwords: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "qm"
    result = evermq("init", str(folder), "--dev", "--tls", "localhost,127.0.0.1", *passwords)
    assert (result.exit_code, result.stderr) == (0, "")
    assert sorted(each.name for each in (folder / "tls").iterdir()) == [
        "ca.key", "ca.pem", "ca.srl", "openssl.cnf", "server.key", "server.pem",
    ]  # fmt: skip
    assert all((folder / "tls" / name).stat().st_mode & 0o077 == 0 for name in ("ca.key", "server.key"))
    file = folder / "broker.toml"
    text = file.read_text("utf-8")
    assert tomllib.loads(text)["tls"]["certificate"] == "tls/server.pem"
    file.write_text(text.replace("1415", "0").replace("0.0.0.0", "127.0.0.1") + "[listener]\nport = 0\n", "utf-8")
    with running("--config", "broker.toml", folder=folder) as daemon:
        secured = "mqs://localhost:" + daemon.addresses[-1].rpartition(":")[2]
        monkeypatch.setenv("EVERMQ_CA", str(folder / "tls" / "ca.pem"))

        def run(user: str, *words: str) -> Result:
            monkeypatch.setenv("EVERMQ_PASSWORD_FILE", str(tmp_path / user))
            return evermq(*words, "--url", secured, "--user", user)

        assert run("app", "put", "DEV.QUEUE.1", "hello", "--channel", "DEV.APP.SVRCONN").exit_code == 0
        assert run("app", "get", "DEV.QUEUE.1").stdout == "hello\n"
        assert run("app", "put", "SYSTEM.DEFAULT.LOCAL.QUEUE", "no").exit_code == 10
        shown = run("admin", "status", "--channel", "DEV.ADMIN.SVRCONN")
        assert (shown.exit_code, "DEV.QUEUE.3" in shown.stdout) == (0, True), shown.stderr


@NEEDS_OPENSSL
def test_the_certificate_is_that_of_a_host_and_the_authority_of_an_authority(tmp_path: Path) -> None:
    assert openssl.issue(tmp_path, "QM.ONE/2%", ["mq.example.com", "*.example.org", "192.0.2.7", "2001:db8::1"]) == ""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(tmp_path / "ca.pem")
    (authority,) = context.get_ca_certs()
    assert authority["subject"] == ((("commonName", "EverMQ CA of QM.ONE/2%"),),)
    shown = ssl._ssl._test_decode_cert(str(tmp_path / "server.pem"))  # type: ignore[attr-defined]
    assert shown["subjectAltName"] == (
        ("DNS", "mq.example.com"), ("DNS", "*.example.org"), ("IP Address", "192.0.2.7"),
        ("IP Address", "2001:DB8:0:0:0:0:0:1"),
    )  # fmt: skip
    assert not (tmp_path / "server.csr").exists()


def test_without_the_program_the_lines_are_printed_and_make_the_same(
    evermq: Callable[..., Result], tmp_path: Path, passwords: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    folder = tmp_path / "qm"
    result = evermq("init", str(folder), "--tls", "mq.example.com", *passwords[:2])
    assert result.exit_code == 10
    assert "there is no openssl program" in result.stderr
    assert "tls" not in tomllib.loads((folder / "broker.toml").read_text("utf-8"))
    lines, _, section = result.stderr.partition("\n\n")
    assert 'certificate = "tls/server.pem"' in section
    assert [line.split()[0] for line in lines.splitlines()] == ["cd", "umask", "openssl", "openssl", "openssl", "rm"]


@NEEDS_OPENSSL
def test_the_lines_that_are_printed_make_a_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess

    with monkeypatch.context() as patch:
        patch.setattr("shutil.which", lambda name: None)
        lines = openssl.issue(tmp_path / "a b", "QM1", ["mq.example.com"])
    subprocess.run(["sh", "-ec", lines], check=True, capture_output=True)
    assert (tmp_path / "a b" / "server.pem").exists()
    assert (tmp_path / "a b" / "server.key").stat().st_mode & 0o077 == 0


def test_once_leaves_a_queue_manager_that_is_there(
    evermq: Callable[..., Result], tmp_path: Path, passwords: list[str]
) -> None:
    words = ("init", str(tmp_path / "qm"), "--once", *passwords[:2])
    assert evermq(*words).exit_code == 0
    before = (tmp_path / "qm" / "broker.toml").read_bytes()
    again = evermq(*words)
    assert (again.exit_code, "already" in again.stdout) == (0, True)
    assert (tmp_path / "qm" / "broker.toml").read_bytes() == before


@pytest.mark.parametrize(
    "hosts", ["", " , ", "a b", "x,DNS:y", "a\nsubjectAltName=DNS:b", "-a", "a..b", "${ENV}", "a" * 300]
)
def test_what_is_no_name_of_a_host_is_refused_before_anything_is_made(
    evermq: Callable[..., Result], tmp_path: Path, hosts: str
) -> None:
    result = evermq("init", str(tmp_path / "qm"), "--tls", hosts)
    assert result.exit_code == 20
    assert not (tmp_path / "qm").exists()


def test_a_program_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from broker.cli.program import CannotRunError

    (tmp_path / "openssl").write_text("#!/bin/sh\necho it is broken >&2\nexit 3\n", "utf-8")
    (tmp_path / "openssl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(CannotRunError, match="openssl req failed with exit code 3: it is broken"):
        openssl.issue(tmp_path / "tls", "QM1", ["localhost"])
