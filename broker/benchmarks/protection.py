"""The protection of a measured daemon: how its clients come in, and what that needs of both ends.

The user of a protected daemon is judged: it has the rights that workloads need, and no other. Its password is no
secret, as the daemon is there for seconds, on loopback, with messages that mean nothing.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HOST: Final = "127.0.0.1"

USER: Final = "bench"
_PASSWORD: Final = "bench"
_HASH: Final = "$scrypt$ln=15,r=8,p=1$Dgp7pZe3Vq6aDSqlcIxwpw$DsIKMb8nogIKJjwcTbzugIxcQN7UZwdeATfcSvDb/Bk"
_USERS: Final = f"""\
DEFINE USER('root') GROUPS('mqm') PASSWORD('{_HASH}') REPLACE
DEFINE USER('{USER}') PASSWORD('{_HASH}') REPLACE
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('{USER}') AUTHADD(CONNECT,DSP)
SET AUTHREC PROFILE(BENCH) OBJTYPE(QUEUE) PRINCIPAL('{USER}') AUTHADD(PUT,GET,INQ)
"""

_SECONDS_MAX: Final = 30.0


class CannotMeasureError(Exception):
    """The machine lacks what a measurement needs; the message says what."""


class Protection(StrEnum):
    """The way in for clients: believed what they say, as a user with a password, and as that user over TLS."""

    NONE = "none"
    USERS = "users"
    TLS = "TLS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protected:
    """The commands that a protection needs at the start of a daemon, and its settings for the daemon and for clients,
    as environment variables.
    """

    definitions: str = ""
    daemon: Mapping[str, str] = field(default_factory=dict)
    clients: Mapping[str, str] = field(default_factory=dict)


async def protected(folder: Path, protection: Protection) -> Protected:
    """Make what a protection needs, with its files in `folder`. Raises CannotMeasureError."""
    if protection is Protection.NONE:
        return Protected()
    daemon, clients = {}, {"EVERMQ_USER": USER, "EVERMQ_PASSWORD": _PASSWORD}
    if protection is Protection.TLS:
        certificate, key = folder / "server.pem", folder / "server.key"
        await _make_certificate(certificate, key)
        daemon = {
            "EVERMQ_TLS_HOST": HOST,
            "EVERMQ_TLS_PORT": "0",
            "EVERMQ_TLS_CERTIFICATE": str(certificate),
            "EVERMQ_TLS_KEY": str(key),
        }
        clients["EVERMQ_CA"] = str(certificate)
    return Protected(definitions=_USERS, daemon=daemon, clients=clients)


async def _make_certificate(certificate: Path, key: Path) -> None:
    """Make a certificate of this machine that is its own issuer, and its key, with ECDSA."""
    openssl = shutil.which("openssl")
    if openssl is None:
        raise CannotMeasureError("there is no command openssl here, which makes the certificate")
    command = [
        openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-days", "60", "-subj", f"/CN={HOST}", "-addext", f"subjectAltName=IP:{HOST}",
        "-keyout", str(key), "-out", str(certificate),
    ]  # fmt: skip
    with anyio.fail_after(_SECONDS_MAX):
        made = await anyio.run_process(command, check=False)
    if made.returncode:
        raise CannotMeasureError(f"openssl makes no certificate: {made.stderr.decode(errors='replace').strip()}")
