"""The programs that examples are run with."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from tests.examples.processes import ROOT, Shell


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with `evermq`: that of the environment, or one with the script that pip would have put there."""
    installed = Path(sys.executable).parent
    if (installed / "evermq").exists():
        return installed
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    module, _, function = project["scripts"]["evermq"].partition(":")
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "evermq"
    script.write_text(f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n", "utf-8")
    script.chmod(0o755)
    return folder


@pytest.fixture
def shell(tmp_path: Path, programs: Path) -> Shell:
    """A shell in an empty folder."""
    return Shell(tmp_path, programs)
