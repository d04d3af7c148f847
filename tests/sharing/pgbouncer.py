"""PgBouncer of Debian's package, before a server of the tests: on a Unix socket in a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import pytest

from tests.sharing.postgres import NOBODY, OWNER

if TYPE_CHECKING:
    from tests.sharing.postgres import Postgres

_STOP_SECONDS: Final = 10
_INI: Final = """
[databases]
{database} = host={host} port={port}

[pgbouncer]
listen_addr =
listen_port = 5432
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/users
pool_mode = {mode}
default_pool_size = {sessions}
max_client_conn = 200
"""


class PgBouncer:
    """A pool of so many sessions of a server, entered with `with`."""

    def __init__(self, server: Postgres, mode: str = "session", sessions: int = 60) -> None:
        self._program = _program()
        self._server = server
        self._mode = mode
        self._sessions = sessions
        self.folder = Path(tempfile.mkdtemp(prefix="evermq-pool-"))
        self.dsn = server.dsn(folder=self.folder)

    def __enter__(self) -> Self:
        where = {"host": self._server.folder, "port": self._server.port, "folder": self.folder, "database": OWNER}
        ini = self.folder / "pgbouncer.ini"
        ini.write_text(_INI.format(mode=self._mode, sessions=self._sessions, **where))
        (self.folder / "users").write_text(f'"{OWNER}" ""\n')
        as_user = {}
        if os.geteuid() == 0:  # as which it does not run
            shutil.chown(self.folder, NOBODY, NOBODY)
            as_user = {"user": NOBODY, "group": NOBODY, "extra_groups": ()}
        log = (self.folder / "log").open("wb")
        self._process = subprocess.Popen([self._program, ini], stdout=log, stderr=log, cwd=self.folder, **as_user)  # type: ignore[call-overload]
        log.close()
        while not (self.folder / ".s.PGSQL.5432").exists():
            assert self._process.poll() is None, (self.folder / "log").read_text("utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(_STOP_SECONDS)
        shutil.rmtree(self.folder)


def _program() -> str:
    found = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        pytest.skip("needs PgBouncer: Debian's package pgbouncer")
    return found
