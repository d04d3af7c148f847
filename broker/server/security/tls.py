"""The TLS of the listener: a context made of the files of `[tls]`, and tried before anybody comes.

A context is made for each generation of the files and never changed, and swapped in no callback: a session of an
earlier one cannot be resumed. It gives no tickets. Blocking: it reads files, and belongs into a thread.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from broker.engine.security.login import Certificate, Names
from broker.secret_files import SecretFileError, read_secret
from broker.server.security.lines import LineSecurity

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path
    from typing import Any

    from broker.config import TlsConfig

CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""The suites of TLS 1.2: forward secrecy and authenticated encryption. Those of 1.3 have both."""

_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_ROUNDS: Final = 3  # of both ends, until a handshake is over


class CertificateError(Exception):
    """The certificate, its key or another file of `[tls]` cannot be used; the text names the setting and the file."""


def context_of(config: TlsConfig) -> tuple[ssl.SSLContext, Certificate]:
    """Make a context for the sockets that are accepted from now on, and shake hands with it once. Raises
    CertificateError.
    """
    assert config.certificate is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[config.minimum]
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0
    _load_certificate(context, config.certificate, config.key, config.key_password_file)
    if config.ca is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        _load_issuers(context, "ca", config.ca)
    if config.crl is not None:
        _load_issuers(context, "crl", config.crl)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context, _tried(context, config.certificate)


def line_security(address: str, transport: asyncio.BaseTransport) -> LineSecurity:
    """Return what the handshake of a line has proved."""
    tls = transport.get_extra_info("ssl_object")
    return LineSecurity(
        address=address, protocol=tls.version(), cipher=tls.cipher()[0], certificate=_certificate(tls.getpeercert())
    )


def _certificate(shown: dict[str, Any] | None) -> Certificate | None:
    if not shown:
        return None
    return Certificate(
        subject=_names(shown["subject"]),
        issuer=_names(shown["issuer"]),
        serial=shown["serialNumber"],
        ends=float(ssl.cert_time_to_seconds(shown["notAfter"])),
    )


def _names(name: tuple[tuple[tuple[str, str], ...], ...]) -> Names:
    return tuple(pair for pairs in name for pair in pairs)


def _load_certificate(context: ssl.SSLContext, certificate: Path, key: Path | None, password_file: Path | None) -> None:
    for setting, path in (("certificate", certificate), ("key", key), ("key_password_file", password_file)):
        if path is not None:
            _check_readable(setting, path)
    try:
        secret = None if password_file is None else read_secret(password_file)
    except SecretFileError as error:
        raise CertificateError(f"[tls] key_password_file: {error}") from None
    key = key or certificate
    asked = False

    def password() -> bytes:
        nonlocal asked
        asked = True
        if secret is None:
            raise CertificateError(f"[tls] key: {key} has a password: name its file, key_password_file")
        return secret

    try:
        context.load_cert_chain(certificate, key, password)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None)
        if reason == "KEY_VALUES_MISMATCH":
            problem = f"{key} is not the key of {certificate}"
        elif asked:
            problem = f"the password in {password_file} does not open {key}"
        else:
            problem = f"{certificate} and {key} are not a certificate and its key in PEM{_because(reason)}"
        raise CertificateError(f"[tls] certificate, key: {problem}") from None


def _load_issuers(context: ssl.SSLContext, setting: str, path: Path) -> None:
    _check_readable(setting, path)
    try:
        context.load_verify_locations(path)
    except OSError as error:
        reason = _because(getattr(error, "reason", None))
        raise CertificateError(f"[tls] {setting}: {path} has no certificates in PEM{reason}") from error


def _check_readable(setting: str, path: Path) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise CertificateError(f"[tls] {setting}: cannot read {path}: {error.strerror}") from error


def _because(reason: str | None) -> str:
    return f" ({reason.replace('_', ' ').lower()})" if reason else ""


def _tried(context: ssl.SSLContext, path: Path) -> Certificate:
    """Shake hands as a client that trusts exactly this certificate: it finds what is expired or of no use."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(path)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    shaken = client.wrap_bio(to_client, to_server), context.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(_ROUNDS):
            for end in shaken:
                with suppress(ssl.SSLWantReadError):
                    end.do_handshake()
        own = _certificate(shaken[0].getpeercert())
    except ssl.SSLCertVerificationError as error:
        raise CertificateError(f"[tls] certificate: {path}: {error.verify_message}") from error
    except ssl.SSLError as error:
        raise CertificateError(f"[tls] certificate: {path} serves nobody{_because(error.reason)}") from error
    assert own is not None, "a client that trusts it alone has taken another"
    return own
