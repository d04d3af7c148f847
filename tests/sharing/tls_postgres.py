"""A PostgreSQL over TCP on the loopback interface, with a certificate, that asks for passwords."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path
from urllib.parse import urlencode

import pytest
import trustme

from tests.sharing.postgres import NOBODY, OWNER, Postgres

_WHO = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


class TlsPostgres(Postgres):
    """Its certificate is for 127.0.0.1, and not for the name localhost."""

    def __init__(self) -> None:
        self.authority = trustme.CA()
        super().__init__(
            programs=_with_tls(),
            listen_addresses="127.0.0.1", port=_free_port(),
            ssl="on", ssl_cert_file="server.pem", ssl_key_file="server.key",
        )  # fmt: skip

    def admit(self, line: str, *, by: trustme.CA | None = None) -> None:
        """Let users in over TCP by this line of pg_hba.conf, from now on; `by` issues the certificates of some."""
        self._write("pg_hba.conf", f"local all all trust\n{line}\n".encode())
        settings = ["SELECT pg_reload_conf()"]
        if by is not None:
            self._write("members-ca.pem", by.cert_pem.bytes())
            settings.insert(0, "ALTER SYSTEM SET ssl_ca_file = 'members-ca.pem'")
        self.sql(*settings)

    def set_password(self, password: str) -> None:
        """Give the owner another password."""
        self.sql(f"ALTER ROLE {OWNER} PASSWORD '{password}'")

    def over_tcp(self, host: str = "127.0.0.1", *, password: str = "", **options: object) -> str:
        """The DSN for a client over TCP, with these parameters of libpq."""
        proof = f":{password}" if password else ""
        return f"postgresql://{OWNER}{proof}@{host}:{self.port}/{OWNER}?{urlencode(options)}"

    def _initialize(self) -> None:
        super()._initialize()
        issued = self.authority.issue_cert("127.0.0.1")
        self._write("server.pem", issued.cert_chain_pems[0].bytes())
        self._write("server.key", issued.private_key_pem.bytes())
        self._write("pg_hba.conf", _WHO.encode())

    def _write(self, name: str, data: bytes) -> None:
        path = self.data / name
        path.write_bytes(data)
        path.chmod(0o600)
        if os.geteuid() == 0:
            shutil.chown(path, NOBODY, NOBODY)


def _with_tls() -> Path:
    """The folder of programs that were built with TLS: those of the wheel were not."""
    named = os.environ.get("EVERMQ_TEST_POSTGRES")
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    for folder in [Path(named)] if named else installed[::-1]:
        told = subprocess.run([folder / "pg_config", "--configure"], capture_output=True, text=True, check=True)
        if "openssl" in told.stdout:
            return folder
    pytest.skip("needs a PostgreSQL with TLS: that of Debian's package postgresql, or EVERMQ_TEST_POSTGRES")


def _free_port() -> str:
    """A port that nobody has just now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])
