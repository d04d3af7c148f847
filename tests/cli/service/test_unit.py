"""`evermq unit`: what it prints, and what systemd says about it."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from broker.cli.service.unit import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

WANTED = {
    "Type": "notify", "NotifyAccess": "main", "WatchdogSec": "30", "Restart": "on-failure", "StateDirectory": "evermq",
    "RuntimeDirectory": "evermq", "NoNewPrivileges": "yes",
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6", "SystemCallFilter": "@system-service",
    "LimitNOFILE": "65536",
}  # fmt: skip


def read(text: str) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return dict(parser["Service"])


def test_a_unit_of_the_system_runs_this_installation_and_is_hardened(evermq: Callable[..., Result]) -> None:
    service = read(evermq("unit").stdout)
    assert service.items() >= {**WANTED, "ProtectSystem": "strict", "PrivateTmp": "yes", "User": "evermq"}.items()
    program = service["ExecStart"].split()[0].strip('"')
    assert Path(program).parent == Path(sys.executable).parent
    assert service["ExecStart"].endswith(" run --config %E/evermq/broker.toml")


def test_a_unit_of_a_user_needs_no_administrator(evermq: Callable[..., Result], tmp_path: Path) -> None:
    result = evermq("unit", "--user", "--config", str(tmp_path / "my broker.toml"))
    service = read(result.stdout)
    assert service.items() >= WANTED.items()
    assert not service.keys() & {"User", "ProtectSystem"}
    assert service["ExecStart"].endswith(f' run --config "{tmp_path}/my broker.toml"')
    assert "WantedBy=default.target" in result.stdout


@pytest.mark.parametrize(
    ("text", "written"),
    [("/opt/evermq", "/opt/evermq"), ("/a b", '"/a b"'), ("/50%/$x", "/50%%/$$x"), ('/a"b\\c', '"/a\\"b\\\\c"')],
)
def test_a_path_is_one_argument_for_systemd(text: str, written: str) -> None:
    assert quoted(text) == written


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("options", [(), ("--user",)], ids=["system", "user"])
def test_systemd_accepts_the_unit(evermq: Callable[..., Result], tmp_path: Path, options: tuple[str, ...]) -> None:
    unit = tmp_path / "evermq.service"
    unit.write_text(evermq("unit", *options).stdout, "utf-8")
    done = subprocess.run(
        ["systemd-analyze", *options, "verify", "--man=no", str(unit)],
        capture_output=True, text=True, check=False, env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, [line for line in done.stderr.splitlines() if "evermq" in line]) == (0, [])
