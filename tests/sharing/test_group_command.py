"""`evermq group`: a group through its database, from a shell."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest
from anyio.to_thread import run_sync

from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres


class Said:
    """The end of a command."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code = done.returncode
        self.out = done.stdout
        self.error = done.stderr


@pytest.fixture
def evermq(group: GroupDatabase, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Said]:
    """Runs `evermq group ...` for the group of the test."""
    monkeypatch.setenv("EVERMQ_QUEUE_SHARING_GROUP_NAME", group.name)
    monkeypatch.setenv("EVERMQ_QUEUE_SHARING_GROUP_DSN", group.dsn)
    return group_command


def group_command(arguments: str) -> Said:
    """Run `evermq group ...` for the group that the environment names."""
    command = [sys.executable, "-m", "broker", "group", *arguments.split()]
    return Said(subprocess.run(command, capture_output=True, text=True, check=False))


async def test_a_group_that_is_there_is_not_made_again(group: GroupDatabase, evermq: Callable[[str], Said]) -> None:
    said = evermq("init")
    assert (said.code, said.out) == (0, f"the tables of the group are in schema {group.schema}\n")


async def test_without_a_group_it_says_what_is_missing(
    evermq: Callable[[str], Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVERMQ_QUEUE_SHARING_GROUP_NAME")
    said = evermq("members")
    assert said.code == 20
    assert "[queue_sharing_group]" in said.error


async def test_a_group_without_tables_and_a_database_that_is_not_there_are_told(
    group: GroupDatabase, evermq: Callable[[str], Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVERMQ_QUEUE_SHARING_GROUP_NAME", "NONE")
    said = evermq("status")
    assert said.code == 20
    assert "evermq group init" in said.error
    monkeypatch.setenv("EVERMQ_QUEUE_SHARING_GROUP_DSN", "postgresql://nobody@/none?host=/nowhere")
    said = evermq("status")
    assert said.code == 20
    assert "cannot be reached" in said.error
    assert len(said.error.splitlines()) == 1


async def test_the_dsn_of_the_owner_of_the_tables_has_its_password_elsewhere(
    group: GroupDatabase, evermq: Callable[[str], Said], tmp_path: Path
) -> None:
    refused = evermq("upgrade --dsn postgresql://evermq:canary@127.0.0.1/evermq")
    assert refused.code == 20
    assert "--dsn-password-file, in PGPASSWORD or in ~/.pgpass" in refused.error
    assert "canary" not in refused.error
    file = tmp_path / "password"
    file.write_text("canary", "utf-8")
    assert evermq(f"upgrade --dsn {group.dsn} --dsn-password-file {file}").code == 0
    file.chmod(0o666)
    refused = evermq(f"upgrade --dsn {group.dsn} --dsn-password-file {file}")
    assert (refused.code, f"others may write {file} (mode 0666)" in refused.error) == (20, True)
    assert evermq(f"upgrade --dsn-password-file {file}").code == 20


@pytest.mark.parametrize("by_variable", [False, True])
def test_a_daemon_warns_of_a_password_in_its_configuration_and_shows_it_nowhere(
    by_variable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = "postgresql://evermq:canary@127.0.0.1:1/evermq"
    if by_variable:
        monkeypatch.setenv("EVERMQ_QUEUE_SHARING_GROUP_DSN", dsn)
    else:
        monkeypatch.delenv("EVERMQ_QUEUE_SHARING_GROUP_DSN", raising=False)
    line = "" if by_variable else f'dsn = "{dsn}"\n'
    (tmp_path / "broker.toml").write_text(f'[queue_sharing_group]\nname = "GRP1"\n{line}', "utf-8")
    command = [sys.executable, "-m", "broker", "run", "--config", "broker.toml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 20
    assert "cannot be joined" in done.stderr
    assert ("password_in_configuration file=broker.toml" in done.stderr) == (not by_variable)
    assert "canary" not in done.stderr + done.stdout


async def test_members_and_queues_are_shown(group: GroupDatabase, evermq: Callable[[str], Said]) -> None:
    async def asked(words: str) -> Said:
        return await run_sync(partial(evermq, words))  # the leases of the members are renewed meanwhile

    async with Members(group, 2) as members, members["QM1"].connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        await connection.put1("Q", b"")
        listed = json.loads((await asked("members --json")).out)
        assert [(each["name"], each["state"], each["epoch"]) for each in listed] == [
            ("QM1", "ACTIVE", 1),
            ("QM2", "ACTIVE", 1),
        ]
        status = json.loads((await asked("status --json")).out)
        assert {"name": "Q", "depth": 1, "handles": 0} in status["queues"]
        assert status["structures"]["APPL"] == "ACTIVE"
        shown = (await asked("status")).out
        assert "QM2" in shown
        refused = await asked("recover QM1")
        assert refused.code == 10
        assert "has a lease" in refused.error
    assert evermq("recover QM1").out == "QM1 has left nothing behind\n"
    assert evermq("recover QM7").code == 10


async def test_what_a_failed_member_has_left_is_recovered_though_no_peer_runs(
    group: GroupDatabase, evermq: Callable[[str], Said]
) -> None:
    group.forgive("units of work")  # the row stays for its owner: it is the decision
    session = await group.session()
    unit = "00000000-0000-0000-0000-000000000001"
    for sql in (
        "INSERT INTO member (name, epoch, state, lease_until, instance) VALUES ('QM9', 3, 'ACTIVE', "
        "clock_timestamp() - interval '1 minute', gen_random_uuid())",
        f"INSERT INTO unit_of_work (id, member, epoch) VALUES ('{unit}', 'QM9', 3)",
        "INSERT INTO queue VALUES ('Q')",
        "INSERT INTO held (queue, place, persistent, state, kind, unit, member, epoch, msg_id, msg_flags, descriptor, "
        f"length, body, put_by) VALUES ('Q', 1, true, 1, 2, '{unit}', 'QM9', 3, 'm', 0, '', 0, '', 'QM9')",
    ):
        await session.execute(sql)
    await session.close()
    said = evermq("recover QM9")
    assert (said.code, said.out, said.error) == (0, "QM9 has left nothing behind\n", "")
    assert await group.rows("SELECT state, backout_count FROM message") == [{"state": 1, "backout_count": 1}]
    assert await group.value("SELECT state FROM member WHERE name = 'QM9'") == "INACTIVE"
