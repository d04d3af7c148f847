"""Certificates for a new queue manager, by the `openssl` program: an authority of its own, and that of the host."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

import click

from broker.cli.program import CannotRunError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SETTINGS: Final = "openssl.cnf"
CERTIFICATE: Final = "server.pem"
KEY: Final = "server.key"
AUTHORITY: Final = "ca.pem"

_SETTINGS: Final = """\
# What evermq init has given to the openssl program.
[req]
prompt = no
distinguished_name = authority

[authority]
commonName = EverMQ CA of {name}

[is_authority]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash

[is_host]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
authorityKeyIdentifier = keyid
subjectAltName = {names}
"""

_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_HOST: Final = re.compile(r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")
_YEARS: Final = (str(10 * 365), str(825))  # of the authority; of the host, which some clients allow no longer


def hosts_of(text: str) -> list[str]:
    """Return the names and addresses that a list with commas has. Raises UsageError."""
    names = [each.strip() for each in text.split(",") if each.strip()]
    for name in names:
        if not _is_address(name) and (len(name) > 253 or not _HOST.fullmatch(name)):
            raise click.UsageError(f"{name!r} is no name or address of a host")
    if not names:
        raise click.UsageError("--tls names the host, as programs will: --tls mq.example.com,192.0.2.7")
    return names


def issue(folder: Path, name: str, hosts: Sequence[str]) -> str:
    """Make an authority and a certificate for these hosts in a folder. Without the program only its settings are made
    there, and what is returned are the lines that make the rest; else "". Raises CannotRunError where it fails.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = ", ".join(f"{'IP' if _is_address(each) else 'DNS'}:{each}" for each in hosts)
    (folder / SETTINGS).write_text(_SETTINGS.format(name=name, names=names), "utf-8")
    program = shutil.which("openssl")
    if program is None:
        lines = [f"cd {shlex.quote(str(folder))}", "umask 077", *map(shlex.join, _steps(hosts[0])), "rm server.csr"]
        return "\n".join(lines)
    try:
        for step in _steps(hosts[0]):
            _run([program, *step[1:]], folder)
    finally:
        (folder / "server.csr").unlink(missing_ok=True)
    return ""


def _steps(host: str) -> list[list[str]]:
    """The commands, in their order, that are run in the folder."""
    of_authority, of_host = _YEARS
    settings = ("-config", SETTINGS)
    subject = host[:64] if not _is_address(host) else "evermq"
    return [
        ["openssl", "req", "-x509", *settings, "-extensions", "is_authority", *_KEY, "-days", of_authority,
         "-keyout", "ca.key", "-out", AUTHORITY],
        ["openssl", "req", "-new", *settings, *_KEY, "-subj", f"/CN={subject}", "-keyout", KEY, "-out", "server.csr"],
        ["openssl", "x509", "-req", "-in", "server.csr", "-CA", AUTHORITY, "-CAkey", "ca.key", "-CAcreateserial",
         "-days", of_host, "-extfile", SETTINGS, "-extensions", "is_host", "-out", CERTIFICATE],
    ]  # fmt: skip


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, check=False, capture_output=True, text=True, errors="replace", umask=0o077,
        env={**os.environ, "OPENSSL_CONF": SETTINGS},
    )  # fmt: skip
    if done.returncode:
        why = " ".join(done.stderr.split()[-40:])
        raise CannotRunError(f"openssl {command[1]} failed with exit code {done.returncode}: {why}")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
