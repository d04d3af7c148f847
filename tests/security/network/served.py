"""A daemon on one host that serves the others, and the commands of people on any of them."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, STDOUT
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import trustme

from tests.durability.daemon import EVERMQ, NO_SETTINGS, ROOT, daemon, environment
from tests.security.lines import PASSWORD, hashed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from tests.durability.daemon import Daemon
    from tests.security.network.namespaces import Host

HOST_NAME: Final = "mq.example.com"
PORT: Final = 1415

ADMINISTRATOR: Final = f"DEFINE USER('root') REPLACE GROUPS('mqm') PASSWORD('{hashed()}')\n"
"""The definition of the administrator, whose password is `PASSWORD`, as is that of all users here."""


class Serving(NamedTuple):
    """A daemon that serves other hosts. `ca` is the file with the issuer of its certificate."""

    daemon: Daemon
    ca: Path
    url: str = f"mqs://{HOST_NAME}:{PORT}/QM1"

    async def evermq(self, host: Host, user: str, *arguments: str, typed: str = "") -> tuple[int, str]:
        """Run a client command on a host as a user: its exit code, and what it says."""
        settings = {
            "EVERMQ_URL": self.url, "EVERMQ_CA": str(self.ca), "EVERMQ_USER": user, "EVERMQ_PASSWORD": PASSWORD
        }  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            *host.inside(ROOT), *EVERMQ, *arguments, stdin=PIPE, stdout=PIPE, stderr=STDOUT, env=environment(settings)
        )
        said, _ = await process.communicate(typed.encode())
        assert process.returncode is not None
        return process.returncode, said.decode()


@asynccontextmanager
async def serving(
    folder: Path, host: Host, definitions: str, data: Path | None = None, settings: Mapping[str, str] = NO_SETTINGS
) -> AsyncIterator[Serving]:
    """A daemon on `host` with these definitions, and with an administrator."""
    issuer = trustme.CA()
    certificate = issuer.issue_cert(HOST_NAME, host.address)
    issuer.cert_pem.write_to_path(folder / "ca.pem")
    certificate.private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    (folder / "server.pem").chmod(0o600)
    tls = {"EVERMQ_TLS_HOST": host.address, "EVERMQ_TLS_CERTIFICATE": str(folder / "server.pem")}
    async with daemon(
        folder, ADMINISTRATOR + definitions, data, {**tls, **settings}, prefix=host.inside(ROOT)
    ) as started:
        yield Serving(started, folder / "ca.pem")
