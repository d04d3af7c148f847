"""`compose.yaml`: what it says, and its services as processes of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml  # type: ignore[import-untyped]

from broker.cli import main
from tests.cli.conftest import command, environment, running
from tests.deploy.files import DEPLOY, documents, unknown_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from click.testing import Result

(COMPOSE,) = documents("compose.yaml")
SERVICES: Mapping[str, Any] = COMPOSE["services"]
OURS = {name: each for name, each in SERVICES.items() if each["image"] == "evermq"}
IN_ANOTHER_PLACE = {"alerts.yml", "grafana.json"}  # figures, which this page mounts


def test_there_are_a_daemon_two_workers_prometheus_and_grafana_and_a_group() -> None:
    always = {name for name, each in SERVICES.items() if "profiles" not in each}
    assert always == {"init", "evermq", "worker", "prometheus", "grafana"}
    assert SERVICES["worker"]["deploy"]["replicas"] == 2
    assert set(SERVICES) - always == {"postgres", "member1", "member2", "member3"}


def test_no_port_is_published_but_the_one_with_tls() -> None:
    assert {name: each["ports"] for name, each in SERVICES.items() if "ports" in each} == {"evermq": ["1415:1415"]}


@pytest.mark.parametrize("name", OURS)
def test_a_service_has_no_right_that_it_does_not_need(name: str) -> None:
    service = OURS[name]
    assert (service["read_only"], service["cap_drop"], service["tmpfs"]) == (True, ["ALL"], ["/tmp"])
    assert unknown_variables(service.get("environment", {})) == set()
    if "entrypoint" not in service and "command" in service:
        word, *arguments = service["command"]
        found = main.get_command(click.Context(main), word)
        assert found is not None
        found.make_context(word, list(arguments)).close()


def test_what_services_name_is_there() -> None:
    for service in SERVICES.values():
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"])
        assert {each["source"] for each in service.get("configs", ())} <= set(COMPOSE["configs"])
        assert set(service.get("depends_on", ())) <= set(SERVICES)
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            name = source.removeprefix("./")
            assert source in COMPOSE["volumes"] or (DEPLOY / name).exists() or name in IN_ANOTHER_PLACE, source
    for each in COMPOSE["configs"].values():
        assert isinstance(yaml.safe_load(each["content"]), dict)


def test_workers_come_by_tls_with_a_user_and_a_file_of_a_password() -> None:
    variables = SERVICES["worker"]["environment"]
    assert variables["EVERMQ_URL"].startswith("mqs://evermq:1415")
    assert variables["EVERMQ_PASSWORD_FILE"] == "/run/secrets/app"
    assert not [name for name in variables if name in ("EVERMQ_PASSWORD", "EVERMQ_TOKEN")]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl program is not installed")
def test_the_services_work_together(tmp_path: Path, evermq: Callable[..., Result]) -> None:
    data, trust, secrets = tmp_path / "data", tmp_path / "trust", tmp_path / "secrets"
    for folder in (trust, secrets):
        folder.mkdir()
    for name in ("admin", "app"):
        (secrets / name).write_text(f"{name * 4}\n", "utf-8")
    program = tmp_path / "bin" / "evermq"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {" ".join(command())} "$@"\n', "utf-8")
    program.chmod(0o755)

    def here(text: str) -> str:
        for place, folder in (("/var/lib/evermq", data), ("/etc/evermq/trust", trust), ("/run/secrets", secrets)):
            text = text.replace(place, str(folder))
        return text

    shell, *options = SERVICES["init"]["entrypoint"]
    (script,) = SERVICES["init"]["command"]
    path = {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    for _ in range(2):  # at the second start there is a queue manager already
        subprocess.run([shell, *options, here(script)], check=True, capture_output=True, env={**environment(), **path})
    file = data / "broker.toml"
    text = file.read_text("utf-8").replace("1415", "0").replace("0.0.0.0", "127.0.0.1")
    startup = f'data = "data"\nstartup = ["{tmp_path}/etc/*.mqsc"]'
    file.write_text(text.replace('data = "data"', startup) + "[listener]\nport = 0\n", "utf-8")
    mounted = tmp_path / "etc"
    mounted.mkdir()
    shutil.copy(DEPLOY / "tasks.mqsc", mounted)
    with running("--config", str(file), folder=tmp_path) as daemon, ExitStack() as stack:
        port = daemon.addresses[-1].rpartition(":")[2]
        variables = {name: here(value) for name, value in SERVICES["worker"]["environment"].items()}
        variables["EVERMQ_URL"] = variables["EVERMQ_URL"].replace("evermq:1415", f"localhost:{port}")
        for _ in range(SERVICES["worker"]["deploy"]["replicas"]):
            worker = subprocess.Popen(
                command(*SERVICES["worker"]["command"]), env={**environment(), **variables}, cwd=DEPLOY,
                stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            stack.callback(_end, worker)
            assert worker.stderr is not None
            assert "DEV.TASKS" in worker.stderr.readline()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            put = evermq("put", "DEV.TASKS", "one")
            assert put.exit_code == 0, put.stderr
            assert evermq("get", "DEV.TASKS.DONE", "--wait", "20").stdout == "done: one\n"


def _end(worker: subprocess.Popen[str]) -> None:
    worker.send_signal(signal.SIGTERM)
    said = worker.communicate(timeout=30)[1]
    assert worker.returncode == 0, said
