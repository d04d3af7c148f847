"""A queue manager run for a job: what the option `path` names is the data directory of one.

Whatever process of the job comes first starts it; the others find it by its socket, whose name is made of the
directory's. A keeper, `python -m broker.spark.daemon`, runs it and stops it in order when nobody has been connected for
a while: so it ends with the job, however that ends, and is there again when a later batch wants it.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import logging
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import quote

import broker
from broker.spark.connecting import SparkLine, line

if TYPE_CHECKING:
    from broker.spark.options import Options

logger = logging.getLogger(__name__)

IDLE_SECONDS: Final = 15.0
"""The time without a connection after which it is stopped."""

LOOK_SECONDS: Final = 1.0
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 60.0
_LOG_SHOWN: Final = 2000
_OTHER_NAME: Final = r"the data is that of queue manager (\S+), not of"
NEW_NAME: Final = "QM1"
"""The name of a queue manager that is new; one that is there keeps its own."""


_keepers: Final[list[subprocess.Popen[bytes]]] = []  # that this process has started


class DaemonError(RuntimeError):
    """The queue manager of a data directory did not start."""


def line_to(options: Options) -> SparkLine:
    """The line of this process to the queue manager that the options name. Raises ValueError for a URL that is none;
    its calls raise DaemonError where the queue manager of a directory does not start.
    """
    if not options.path:
        return line(options.url, options.retry_timeout, credentials=options.credentials)
    data = Path(options.path).absolute()
    return line(url_of(options), options.retry_timeout, lambda: start(data))


def url_of(options: Options) -> str:
    """The URL of the queue manager that the options name."""
    return options.url or f"mq+unix://{quote(str(_files(Path(options.path).absolute()) / 'socket'))}"


def start(data: Path) -> None:
    """See that the queue manager of a data directory runs, and return when it can be reached. Raises DaemonError."""
    files = _files(data)
    deadline = time.monotonic() + _START_SECONDS
    keeper: subprocess.Popen[bytes] | None = None
    while not _answers(files / "socket"):
        if keeper is None and not _is_kept(files):
            keeper = _keep(data)
        ended = keeper is not None and keeper.poll()
        if ended or time.monotonic() > deadline:
            log = (files / "log").read_text("utf-8", "replace")[-_LOG_SHOWN:]
            raise DaemonError(f"the queue manager in {data} (option path) did not start: {log.strip()}")
        time.sleep(LOOK_SECONDS / 20)


def _files(data: Path) -> Path:
    """The folder of the socket, the lock and the log of the queue manager in a data directory; nobody else's."""
    name = hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"evermq-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o077:
        raise DaemonError(f"{folder} is not this user's alone: remove it")
    files = folder / name
    files.mkdir(mode=0o700, exist_ok=True)
    return files


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def _is_kept(files: Path) -> bool:
    """True if a keeper runs already."""
    with (files / "lock").open("a") as lock:
        return not _locked(lock)


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _keep(data: Path) -> subprocess.Popen[bytes]:
    """Start a keeper, in a session of its own: it outlives this process, and a Ctrl-C is not for it."""
    logger.info("queue manager started for this job path=%s", data, extra={"event": "queue_manager_for_job_started"})
    keeper = subprocess.Popen(
        [sys.executable, "-m", __name__, str(data)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _keepers.append(keeper)
    return keeper


def keep(data: Path) -> int:
    """Run the queue manager of a data directory until nobody has been connected for IDLE_SECONDS: the exit code."""
    files = _files(data)
    with (files / "lock").open("a") as lock:
        if not _locked(lock):
            return 0  # another was faster
        code = _run(data, files, NEW_NAME, lock.fileno())
        other = re.search(_OTHER_NAME, (files / "log").read_text("utf-8", "replace"))
        if code and other is not None:
            code = _run(data, files, other[1], lock.fileno())
        return code


def _run(data: Path, files: Path, name: str, lock: int) -> int:
    """Run the queue manager under this name; the exit code. The lock is held as long as it runs, whatever becomes of
    this process.
    """
    command = [sys.executable, "-m", "broker", "run"]
    environment = _environment(data, files / "socket", name)
    with (files / "log").open("w") as log:
        daemon = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, env=environment, pass_fds=[lock]
        )
    try:
        asyncio.run(_wait_idle(daemon, files / "socket"))
    finally:
        daemon.terminate()
        code = daemon.wait(_STOP_SECONDS)
    return code


def _environment(data: Path, path: Path, name: str) -> dict[str, str]:
    """The configuration of the daemon: the data directory and the socket, and no programs that it would start."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("EVERMQ_")}
    return others | {
        "EVERMQ_QUEUE_MANAGER_NAME": name,
        "EVERMQ_QUEUE_MANAGER_DATA": str(data),
        "EVERMQ_LISTENER_PORT": "0",
        "EVERMQ_LISTENER_UNIX": str(path),
        "EVERMQ_TRIGGER_MONITOR_ENABLED": "false",
    }


async def _wait_idle(daemon: subprocess.Popen[bytes], path: Path) -> None:
    """Return when the daemon has ended, or nobody but this process has been connected for IDLE_SECONDS."""
    while not _answers(path):
        if daemon.poll() is not None:
            return
        await asyncio.sleep(LOOK_SECONDS / 20)
    idle = 0.0
    async with broker.connect(f"mq+unix://{quote(str(path))}", appl_name="evermq spark keeper") as connection:
        while daemon.poll() is None and idle < IDLE_SECONDS:
            await asyncio.sleep(LOOK_SECONDS)
            idle = 0.0 if (await connection.status())["connections"] > 1 else idle + LOOK_SECONDS


if __name__ == "__main__":
    sys.exit(keep(Path(sys.argv[1])))
