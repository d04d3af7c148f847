"""`evermq support`: what is in the bundle, and what is not."""

from __future__ import annotations

import gzip
import json
import stat
import tarfile
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from broker.cli import main
from broker.cli.support.machine import file_system, limits
from broker.cli.support.manager import oldest_first
from broker.config import load, load_with_origins
from broker.config.printing import printed
from tests.cli.conftest import running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result


BODY = "canary-of-a-message"
PASSWORD = "Canary0Of0A0Password"
TOKEN = "Canary0Of0A0Token"
DSN = "Canary0Of0The0Dsn"
RAISED = "canary-of-an-exception"

CONFIGURATION = f"""\
[queue_manager]
startup = ["objects.mqsc"]
[listener]
port = 0
[queue_sharing_group]
dsn = "postgresql://qm1:{DSN}@db.example/mq?sslmode=verify-full"
[trigger_monitor]
handlers = ["canary_handlers"]
"""
OBJECTS = """\
DEFINE QLOCAL(ORDERS) REPLACE
DEFINE QLOCAL(FAILING) REPLACE TRIGGER TRIGTYPE(EVERY) PROCESS(FAILS)
DEFINE PROCESS(FAILS) REPLACE
"""
HANDLERS = f"""\
from broker.mqi import MQOO
from triggers import process

@process("FAILS")
async def fails(trigger, connection):
    async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
        message = await queue.get()
    raise ValueError("{RAISED} " + message.data.decode())
"""


def add_user(evermq: Callable[..., Result], url: str, *words: str, **variables: str) -> None:
    with NamedTemporaryFile() as file:
        file.write(PASSWORD.encode())
        file.flush()
        added = evermq("user", "add", *words, "--password-file", file.name, "--url", url, **variables)
    assert added.exit_code == 0, added.stderr


def parts_of(file: Path) -> dict[str, str]:
    with tarfile.open(file) as archive:
        return {
            member.name.partition("/")[2]: archive.extractfile(member).read().decode()  # type: ignore[union-attr]
            for member in archive.getmembers()
        }


@pytest.fixture
def evermq() -> Callable[..., Result]:
    """The command line, run in this process, with variables in its environment."""

    def invoke(*words: str, input: bytes = b"", **variables: str) -> Result:
        return CliRunner(env=variables).invoke(main, list(words), input=input)

    return invoke


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "broker.toml").write_text(CONFIGURATION, "utf-8")
    (tmp_path / "objects.mqsc").write_text(OBJECTS, "utf-8")
    (tmp_path / "canary_handlers.py").write_text(HANDLERS, "utf-8")
    return tmp_path


def test_a_bundle_tells_all_but_secrets_and_the_data_of_messages(folder: Path, evermq: Callable[..., Result]) -> None:
    bundle = folder / "bundle.tar.gz"
    with running("--config", "broker.toml", folder=folder) as daemon:
        for q_name in ("ORDERS", "FAILING"):
            assert evermq("put", q_name, BODY, "--url", daemon.url).exit_code == 0
        assert daemon.process.stderr is not None
        while RAISED not in daemon.process.stderr.readline():
            pass
        add_user(evermq, daemon.url, "root", "--groups", "mqm")
        refused = evermq("status", "--url", daemon.url, "--user", "root", EVERMQ_TOKEN=TOKEN)
        assert refused.exit_code == 20
        words = ("support", str(bundle), "--config", str(folder / "broker.toml"))
        made = evermq(*words, "--url", daemon.url, "--user", "root", EVERMQ_PASSWORD=PASSWORD)
        assert (made.exit_code, made.stderr) == (0, "")
    parts = parts_of(bundle)
    assert sorted(parts) == [
        "broker.toml", "explain.txt", "file_system.txt", "kernel.txt", "limits.txt", "log.txt", "objects.txt",
        "status.json", "versions.txt",
    ]  # fmt: skip
    whole = gzip.decompress(bundle.read_bytes())
    found = [canary for canary in (BODY, PASSWORD, TOKEN, DSN, RAISED) if canary.encode() in whole]
    assert found == []
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o600
    assert [each["depth"] for each in json.loads(parts["status.json"])["queues"] if each["name"] == "ORDERS"] == [1]
    assert "QUEUE(ORDERS)" in parts["objects.txt"]
    assert "USER(root)" in parts["objects.txt"]
    assert "AMQ" in parts["objects.txt"]
    assert "ORDERS: depth 1, the oldest message available for" in parts["explain.txt"]
    assert "event=trigger_handler_failed" in parts["log.txt"]
    assert "event=ready" in parts["log.txt"]
    assert f"process {daemon.process.pid} " in parts["limits.txt"]
    assert "Max open files" in parts["limits.txt"]
    assert "postgresql://qm1:***@db.example/mq?sslmode=verify-full" in parts["broker.toml"]
    assert "click " in parts["versions.txt"]


def test_of_a_queue_manager_that_is_stopped_it_has_what_verify_says(
    folder: Path, evermq: Callable[..., Result]
) -> None:
    with running("--config", "broker.toml", folder=folder) as daemon:
        assert evermq("put", "ORDERS", BODY, "--url", daemon.url).exit_code == 0
    made = evermq("support", str(folder / "b.tar.gz"), "--config", str(folder / "broker.toml"), "--url", daemon.url)
    assert made.exit_code == 10
    assert "without status.json, objects.txt, explain.txt, log.txt: no queue manager at" in made.stderr
    parts = parts_of(folder / "b.tar.gz")
    assert "is whole: a start finds 1 message and " in parts["verify.txt"]
    assert parts["missing.txt"].startswith("status.json, objects.txt, explain.txt, log.txt: no queue manager at ")
    assert "this process, since that of the queue manager is not known here" in parts["limits.txt"]


def test_a_user_who_is_no_administrator_has_a_bundle_without_the_log(
    folder: Path, evermq: Callable[..., Result]
) -> None:
    with running("--config", "broker.toml", folder=folder) as daemon:
        add_user(evermq, daemon.url, "root", "--groups", "mqm")
        add_user(evermq, daemon.url, "ann", EVERMQ_USER="root", EVERMQ_PASSWORD=PASSWORD)
        rights = b"SET AUTHREC PROFILE(SELF) OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(CONNECT, DSP)\n"
        root = {"EVERMQ_USER": "root", "EVERMQ_PASSWORD": PASSWORD}
        assert evermq("mqsc", "--url", daemon.url, input=rights, **root).exit_code == 0
        words = ("support", str(folder / "b.tar.gz"), "--url", daemon.url)
        made = evermq(*words, "--user", "ann", EVERMQ_PASSWORD=PASSWORD)
    assert (made.exit_code, "without log.txt: MQRC_NOT_AUTHORIZED (2035)" in made.stderr) == (10, True), made.stderr
    assert "log.txt" not in parts_of(folder / "b.tar.gz")


def test_a_file_that_is_there_stays_as_it_is(folder: Path, evermq: Callable[..., Result]) -> None:
    (folder / "b.tar.gz").write_text("mine", "utf-8")
    refused = evermq("support", str(folder / "b.tar.gz"))
    assert (refused.exit_code, refused.stderr) == (20, f"evermq: {folder / 'b.tar.gz'} is there already\n")
    assert (folder / "b.tar.gz").read_text("utf-8") == "mine"


def test_the_configuration_of_a_bundle_can_be_loaded(folder: Path) -> None:
    loaded = load_with_origins(folder / "broker.toml", {})
    (folder / "again.toml").write_text("\n".join(printed(loaded, defaults=True)), "utf-8")
    again = load(folder / "again.toml", {})
    assert again.queue_sharing_group.dsn == "postgresql://qm1:***@db.example/mq?sslmode=verify-full"
    assert again.listener == load(folder / "broker.toml", {}).listener


def test_queues_with_the_oldest_messages_come_first() -> None:
    queues = [
        {"name": name, "depth": depth, "oldest_age": age}
        for name, depth, age in [
            ("EMPTY", 0, 0.0),
            ("NEW", 9, 1.0),
            ("OLD", 1, 50.0),
            ("A", 9, 0.0),
            ("LOCKED", 10, 0.0),
        ]
    ]
    assert [queue["name"] for queue in oldest_first(queues)] == ["OLD", "NEW", "LOCKED", "A"]


def test_the_limits_are_those_of_this_process_where_nothing_else_is_known(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("no number\n", "utf-8")
    for data in (None, tmp_path, tmp_path / "nowhere"):
        assert "RLIMIT_NOFILE" in limits(data)


def test_the_file_system_of_the_data_is_told_with_its_room_and_files(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("1\n", "utf-8")
    told = file_system(tmp_path)
    assert "bytes" in told.splitlines()[2]
    assert told.splitlines()[-1].endswith(" 2 lock")
