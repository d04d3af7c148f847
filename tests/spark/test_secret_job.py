"""A job on executors of their own proves its user, and its secret is nowhere where others can read it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from broker.engine.security.passwords import hash_of
from broker.spark.java import JavaNotFoundError, provide_java
from tests.cli.conftest import environment
from tests.handlers.processes import daemon_with_users
from tests.security.processes import contents
from tests.spark.secret_job import COUNT

pytestmark = pytest.mark.spark

CANARY = "Canary7ofajob"
USERS = """
DEFINE USER('bob') PASSWORD('{}')
DEFINE QLOCAL(Q) DEFPSIST(YES)
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT,DSP)
SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(GET,PUT,BROWSE,INQ,DSP)
"""


def spark_home(folder: Path) -> Path:
    """The installation of Spark by another path, below which its workers keep their files."""
    folder.mkdir()
    for path in Path(str(pyspark.__file__)).parent.iterdir():
        (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.parametrize("shipped", [False, True], ids=["by path", "by --files"])
def test_x10_3_the_secret_of_a_job_is_in_no_plan_event_log_interface_log_or_command_line(
    shipped: bool, tmp_path: Path
) -> None:
    """X10.3."""
    try:
        provide_java()
    except JavaNotFoundError:
        pytest.skip("needs a Java: the extra `java`")
    server, job, secrets = (tmp_path / name for name in ("server", "job", "secrets"))
    for folder in (server, job, job / "events", secrets, tmp_path / "elsewhere"):
        folder.mkdir()
    (secrets / "bob.password").write_text(f"{CANARY}\n", "utf-8")
    with daemon_with_users(server, USERS.format(hash_of(CANARY.encode()))) as daemon:
        order = {
            "url": daemon.url,
            "folder": str(job),
            "shipped": str(secrets / "bob.password") if shipped else "",
            "passwordFile": "bob.password" if shipped else str(secrets / "bob.password"),
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.secret_job", json.dumps(order)],
            cwd=tmp_path / "elsewhere", capture_output=True, text=True, timeout=280,
            env=environment(SPARK_LOCAL_IP="127.0.0.1", SPARK_HOME=str(spark_home(tmp_path / "spark"))),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads((job / "done.json").read_text("utf-8")) == {"read": [*range(COUNT)], "claimed": COUNT}
    (events,) = (job / "events").iterdir()
    shown = (job / "ui.txt").read_text("utf-8")
    assert "canaries" in events.read_text("utf-8")
    assert "canaries" in shown
    assert ("bob.password" in shown) == shipped  # as the value of spark.files
    assert "BatchScan mq" in (job / "plan.txt").read_text("utf-8")
    assert (job / "ps.txt").read_text("utf-8").count("CoarseGrainedExecutorBackend") >= 2
    logs = tmp_path / "spark" / "work"
    assert len(list(logs.rglob("stderr"))) >= 2
    copies = list(logs.rglob("bob.password"))
    assert len(copies) == (2 if shipped else 0)
    for copy in copies:  # Spark's own
        copy.unlink()
    readable = contents(job) + contents(logs) + done.stdout.encode() + done.stderr.encode()
    assert CANARY.encode() not in readable
