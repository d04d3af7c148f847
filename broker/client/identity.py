"""The identity of a client: its user, its channel, and where the secret that proves it is found at each dial.

An argument comes before the URL, and the URL before the environment: EVERMQ_USER, EVERMQ_PASSWORD,
EVERMQ_PASSWORD_FILE, EVERMQ_TOKEN_FILE, EVERMQ_CA, EVERMQ_CERT, EVERMQ_KEY. A secret goes over TLS, loopback and socket
files only. It is never kept: not for the next dial, which asks for it again, nor in a `repr` or an error.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from broker.interface.users import process_user
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.security_parameters import CredentialKind, SecurityParameters
from broker.secret_files import SecretFileError, read_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.client.address import Address
    from broker.client.tls import TLS

Secret: TypeAlias = str | Path | Callable[[], str | Awaitable[str]]
"""A secret, the file that holds it, or a function that gives it, async or not: read or called before each dial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientIdentity:
    """The user and the channel of a client, and the secret that proves the user, as text, a function, or a file."""

    user: str
    channel: str = ""
    kind: CredentialKind = CredentialKind.NONE
    source: Secret = field(default="", repr=False)
    tls: TLS | None = None

    @property
    def renewable(self) -> bool:
        """True if a fresh secret may be had."""
        return self.kind != CredentialKind.NONE and not isinstance(self.source, str)

    async def parameters(self) -> SecurityParameters:
        """Ask for the secret. Raises SECURITY_ERROR (2063) for a file that is of no use, TypeError for what is no text,
        and what the function raises.
        """
        if self.kind == CredentialKind.NONE:
            return SecurityParameters(self.channel)
        if isinstance(self.source, Path):
            return SecurityParameters(self.channel, self.kind, _read(self.source, self.kind))
        secret: Any = self.source() if callable(self.source) else self.source
        if inspect.isawaitable(secret):
            secret = await secret
        if not isinstance(secret, str):
            raise TypeError(f"the {self.kind.name.lower()} of {self.user} is a {type(secret).__name__}, not a text")
        try:
            return SecurityParameters(self.channel, self.kind, secret.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:
            raise TypeError(f"the {self.kind.name.lower()} of {self.user} has a character that is none") from None


def identity_of(
    address: Address,
    *,
    user: str = "",
    password: Secret | None = None,
    token: Secret | None = None,
    channel: str = "",
    tls: TLS | None = None,
) -> ClientIdentity:
    """The identity that these arguments, the URL and the environment come to. Raises ValueError for a password with a
    token, and TLS at an address without.
    """
    if password is not None and token is not None:
        raise ValueError("connect takes a password or a token, not both")
    if tls is not None and not address.tls:
        raise ValueError(f"tls= is for mqs://, and {address} is no address of it")
    kind, source = _source(password, token, os.environ)
    return ClientIdentity(
        user=user or address.user or os.environ.get("EVERMQ_USER") or process_user(),
        channel=channel or address.channel,
        kind=kind,
        source=source,
        tls=_tls(address, tls, os.environ) if address.tls else None,
    )


def _source(password: Secret | None, token: Secret | None, environ: Mapping[str, str]) -> tuple[CredentialKind, Secret]:
    if password is not None:
        return CredentialKind.PASSWORD, password
    if token is not None:
        return CredentialKind.TOKEN, token
    if secret := environ.get("EVERMQ_PASSWORD"):
        return CredentialKind.PASSWORD, secret
    if file := environ.get("EVERMQ_PASSWORD_FILE"):
        return CredentialKind.PASSWORD, Path(file)
    if file := environ.get("EVERMQ_TOKEN_FILE"):
        return CredentialKind.TOKEN, Path(file)
    return CredentialKind.NONE, ""


def _tls(address: Address, given: TLS | None, environ: Mapping[str, str]) -> TLS:
    """The certificate and its key are from one place."""
    from broker.client.tls import TLS

    tls = given or TLS()
    if not tls.ca:
        tls = replace(tls, ca=address.ca or environ.get("EVERMQ_CA") or None)
    if not tls.certificate:
        certificate, key = address.cert, address.key
        if not certificate:
            certificate, key = environ.get("EVERMQ_CERT", ""), key or environ.get("EVERMQ_KEY", "")
        tls = replace(tls, certificate=certificate or None, key=key or None)
    return tls


def _read(file: Path, kind: CredentialKind) -> bytes:
    """Return the secret in a file, without the end of its line. Raises SECURITY_ERROR (2063)."""
    try:
        secret = read_secret(file)
    except SecretFileError as error:
        raise MQError(MQRC.SECURITY_ERROR, f"cannot take the {kind.name.lower()} in {file}: {error}") from None
    except OSError as error:
        why = f"cannot read the {kind.name.lower()} in {file}: {error.strerror}"
        raise MQError(MQRC.SECURITY_ERROR, why) from error
    if not secret:
        raise MQError(MQRC.SECURITY_ERROR, f"there is no {kind.name.lower()} in {file}: it is empty")
    return secret


def is_loopback(host: str) -> bool:
    """True for an address of this machine that no other one can have, False also for names."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
