"""The image: what its Dockerfile says, and its entry command as the user, and in the file system, that it will have."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from broker.config import load
from tests.cli.conftest import RunningDaemon, environment, ready
from tests.deploy.files import ROOT, dockerfile, image_environment, last, unknown_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.testing import Result


def test_the_wheel_is_built_in_a_stage_of_its_own() -> None:
    assert [each.word for each in dockerfile()].count("FROM") == 2
    stage = [each for each in dockerfile() if each.word == "COPY"]
    assert all((ROOT / source).exists() for each in stage for source in each.text.split()[:-1])


def test_processes_of_the_image_get_signals_themselves_and_are_of_group_0() -> None:
    assert last("ENTRYPOINT").words + last("CMD").words == ["evermq", "run"]
    assert last("HEALTHCHECK").text.partition("CMD ")[2] == '["evermq", "health"]'
    assert last("USER").text == "1001:0"
    assert last("VOLUME").words == ["/var/lib/evermq", "/tmp"]
    assert last("STOPSIGNAL").text == "SIGTERM"


def test_the_environment_of_the_image_is_a_configuration() -> None:
    variables = image_environment()
    assert unknown_variables(variables) == set()
    config = load(None, variables)
    assert config.queue_manager.data == Path("/var/lib/evermq/data")
    assert config.queue_manager.startup == (Path("/etc/evermq/*.mqsc"),)
    assert not [name for name in variables if "LICEN" in name.upper()]


# The entry command, confined

CONFINE = """
mount --make-rprivate /
for volume in "$VOLUMES" "$SPARE"; do mount --bind "$volume" "$volume"; done
mount -o remount,bind,ro /
mount -o remount,bind,ro "$SPARE"
exec setpriv --reuid 12345 --regid 0 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs "$@"
"""


def _cannot_confine() -> str:
    """The reason why a process cannot be given another user and a read-only root here; "" where it can."""
    if os.geteuid() != 0:
        return "only root can give a process another user"
    for program in ("unshare", "setpriv", "mount"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    tried = subprocess.run(
        ["unshare", "--mount", "setpriv", "--reuid", "12345", "--regid", "0", "--clear-groups", sys.executable, "-c",
         "import broker"],
        capture_output=True, text=True, check=False, env=environment(),
    )  # fmt: skip
    return f"unshare or setpriv is not allowed here: {tried.stderr.strip()[-200:]}" if tried.returncode else ""


CANNOT_CONFINE = _cannot_confine()
CONFINED = pytest.mark.skipif(bool(CANNOT_CONFINE), reason=CANNOT_CONFINE or "never")


@pytest.fixture
def volumes() -> Iterator[Path]:
    """A folder for the volumes of a container, of group 0; `spare` in it is what a container cannot write."""
    with tempfile.TemporaryDirectory(prefix="evermq-image-") as made:
        folder = Path(made)
        folder.chmod(0o770)
        for name in ("data", "tmp", "etc", "spare"):
            (folder / name).mkdir()
            (folder / name).chmod(0o770)
        yield folder


def variables(volumes: Path) -> dict[str, str]:
    """The environment of the image, with its folders in the volumes."""
    folders = {"/var/lib/evermq": "data", "/tmp": "tmp", "/etc/evermq": "etc"}

    def placed(value: str) -> str:
        return re.sub("|".join(folders), lambda found: str(volumes / folders[found[0]]), value)

    return {
        **{name: value for name, value in environment().items() if not name.startswith(("EVERMQ_", "COVERAGE"))},
        **{name: placed(value) for name, value in image_environment().items()},
        "EVERMQ_LISTENER_PORT": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "VOLUMES": str(volumes),
        "SPARE": str(volumes / "spare"),
    }


def confined(*words: str) -> list[str]:
    """The command line of a process as it runs in a container."""
    return ["unshare", "--mount", "sh", "-ec", CONFINE, "sh", *words]


@contextmanager
def container(volumes: Path) -> Iterator[RunningDaemon]:
    """The entry command, from its ready line to SIGTERM, which ends it in order."""
    entry = [sys.executable, "-m", "broker", *last("ENTRYPOINT").words[1:], *last("CMD").words]
    with subprocess.Popen(
        confined(*entry), stderr=subprocess.PIPE, text=True, env=variables(volumes), cwd=volumes / "data"
    ) as process:
        assert process.stderr is not None
        try:
            yield ready(process, process.stderr)
        finally:
            process.send_signal(signal.SIGTERM)
            rest = process.communicate(timeout=30)[1]
        assert process.returncode == 0, rest


@CONFINED
def test_the_confined_process_is_what_it_should_be(volumes: Path) -> None:
    look = (
        "import os, sys; status = open('/proc/self/status').read(); print(os.getuid(), os.getgid(), os.getgroups(), "
        "*[line.split()[1] for line in status.splitlines() if line.startswith(('CapEff', 'CapBnd'))]);\n"
        "for path in sys.argv[1:]:\n"
        "    try: open(path + '/written', 'w'); print('written')\n"
        "    except OSError as error: print(error.strerror)"
    )
    done = subprocess.run(
        confined(sys.executable, "-c", look, str(volumes / "spare"), str(ROOT), str(volumes / "data")),
        capture_output=True, text=True, check=True, env=variables(volumes),
    )  # fmt: skip
    who, *written = done.stdout.splitlines()
    assert who == f"12345 0 [] {'0' * 16} {'0' * 16}"
    assert written == ["Read-only file system", "Read-only file system", "written"]


@CONFINED
def test_the_entry_command_runs_as_any_user_of_group_0_on_a_root_that_is_read_only(
    volumes: Path, evermq: Callable[..., Result]
) -> None:
    (volumes / "etc" / "20-orders.mqsc").write_text("DEFINE QLOCAL(ORDERS) LIKE(TEMPLATE) REPLACE\n", "utf-8")
    (volumes / "etc" / "10-template.mqsc").write_text("DEFINE QLOCAL(TEMPLATE) MAXDEPTH(77) REPLACE\n", "utf-8")
    (volumes / "etc" / "notes.txt").write_text("not run\n", "utf-8")
    with container(volumes) as daemon:
        assert (volumes / "tmp" / "evermq.sock").is_socket()
        assert evermq("put", "ORDERS", "hello", "--url", daemon.url).exit_code == 0
    with container(volumes) as daemon:
        assert evermq("get", "ORDERS", "--url", daemon.url).stdout == "hello\n"
        shown = evermq("status", "ORDERS", "--url", daemon.url)
        assert shown.exit_code == 0
    assert (volumes / "data" / "data").stat().st_uid == 12345
