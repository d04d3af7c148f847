"""TLS at the client's end of a line: its settings, the context of a dial, and errors in words.

The chain and the name of the host are verified always. Files are read at each dial, so one that is replaced counts from
the next line on.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from broker.client.line import HANDSHAKE_SECONDS, Line
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    import os

    from broker.client.address import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class TLS:
    """The files in PEM with which `connect("mqs://...")` verifies the queue manager, and proves itself.

    `ca` has the certificates of the authorities that are trusted; without it those of the system are. `certificate` is
    that of the client, with its chain, `key` its private key, which may be in the same file and has no passphrase.
    `server_name` is the name that the certificate of the queue manager must have, the host of the URL unless it is
    given.
    """

    ca: str | os.PathLike[str] | None = None
    certificate: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = field(default=None, repr=False)
    server_name: str | None = None

    def __post_init__(self) -> None:
        if self.key and not self.certificate:
            raise ValueError("TLS has a key and no certificate: give the certificate that the key is of")


def context(tls: TLS) -> ssl.SSLContext:
    """Return a context that verifies the queue manager. KEY_REPOSITORY_ERROR (2381) for a file that cannot be used."""
    try:
        made = ssl.create_default_context(cafile=tls.ca or None)
    except (OSError, ValueError) as error:
        raise _unusable(f"ca = {tls.ca}", error) from error
    if tls.certificate:
        try:
            made.load_cert_chain(tls.certificate, tls.key or None, password=_no_passphrase)
        except (OSError, ValueError) as error:
            raise _unusable(f"certificate = {tls.certificate}, with its key", error) from error
    return made


def _no_passphrase() -> str:
    """Instead of OpenSSL, which would ask at the terminal."""
    raise ValueError("the key has a passphrase: give one without, in a file that nobody else may read")


def _unusable(file: str, error: Exception) -> MQError:
    why = words(error) if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None) or str(error)
    return MQError(MQRC.KEY_REPOSITORY_ERROR, f"TLS cannot use {file}: {why}")


async def open_line(address: Address, line: Line, tls: TLS) -> asyncio.Transport:
    """Open the socket of a line and agree on TLS. Raises SSL_INITIALIZATION_ERROR (2393) where that fails,
    KEY_REPOSITORY_ERROR (2381), or OSError where nobody answers.
    """
    made = await asyncio.to_thread(context, tls)  # which may read the store of the system
    name = tls.server_name or address.host
    try:
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: line, address.host, address.port,
            ssl=made, server_hostname=name, ssl_handshake_timeout=HANDSHAKE_SECONDS,
        )  # fmt: skip
    except (ssl.SSLError, ConnectionResetError, ConnectionAbortedError) as error:
        raise MQError(MQRC.SSL_INITIALIZATION_ERROR, f"{address}: {words(error)}") from error
    return transport


class SecuredLine(Line):
    """A line over TLS. In TLS 1.3 a client hears at its first read that its certificate was refused: when the line ends
    before WELCOME that is SSL_INITIALIZATION_ERROR (2393), with the word of the alert.
    """

    def connection_lost(self, exc: Exception | None) -> None:
        if self.welcomed.done():
            super().connection_lost(exc)
        else:
            self.lose(MQRC.SSL_INITIALIZATION_ERROR, words(exc))

    def _hang_up(self) -> None:
        """Say goodbye, and do not wait for that of the other end: the event loop may be closed before it comes."""
        super()._hang_up()
        if self._transport is not None:
            self.loop.call_soon(self._transport.abort)


_UNTRUSTED: Final = frozenset((18, 19, 20, 21))  # X509_V_ERR: self-signed, or its issuer is not among those trusted
_NO_TLS: Final = "it speaks neither TLS 1.2 nor 1.3: perhaps it is a port for mq://"
_HUNG_UP: Final = (
    "it has hung up before it let the client in; perhaps it refuses the client's certificate, or wants one"
)


def words(error: Exception | None) -> str:
    """Return why TLS was not agreed on, in words."""
    match error:
        case ssl.SSLCertVerificationError():
            hint = "; is its authority in ca= or EVERMQ_CA?" if error.verify_code in _UNTRUSTED else ""
            return f"the certificate of the queue manager is not accepted: {error.verify_message}{hint}"
        case ssl.SSLError(reason=str(reason)) if "_ALERT_" in reason:
            alert = reason.partition("_ALERT_")[2].lower().replace("_", " ")
            hint = f"; {_NO_TLS}" if alert == "protocol version" else ""
            return f"it has refused the line, with the alert: {alert}{hint}"
        case ssl.SSLError(reason=str("WRONG_VERSION_NUMBER" | "HTTP_REQUEST" | "RECORD_LAYER_FAILURE")):
            return _NO_TLS
        case ssl.SSLError(reason=str(reason)) if reason:
            return reason.lower().replace("_", " ")
    return _HUNG_UP
