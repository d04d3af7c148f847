"""Files of `[tls]` that are no good: ways to spoil them, and what is said of each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import trustme

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.server.security.conftest import Files


def another_key(files: Files) -> None:
    files.write("server.key", trustme.CA().issue_cert("localhost").private_key_pem.bytes())


def truncated(files: Files) -> None:
    whole = (files.folder / "server.pem").read_bytes()
    files.write("server.pem", whole[: len(whole) // 2])


def expired(files: Files) -> None:
    files.renew(not_after=datetime.now(UTC) - timedelta(days=1))


def gone(files: Files) -> None:
    (files.folder / "server.pem").unlink()


def without_issuer(files: Files) -> None:
    files.write("ca.pem", b"no certificate\n")


def of_a_password(files: Files) -> None:
    files.write("server.key", encrypted(files, b"secret of the key"))


def encrypted(files: Files, password: bytes) -> bytes:
    """The key of the listener, as a file that asks for a password."""
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key((files.folder / "server.key").read_bytes(), None)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(password)
    )


BAD_FILES: Final[list[tuple[Callable[[Files], None], str]]] = [
    (another_key, "[tls] certificate, key: {folder}/server.key is not the key of {folder}/server.pem"),
    (
        truncated,
        "[tls] certificate, key: {folder}/server.pem and {folder}/server.key are not a certificate and",
    ),
    (expired, "[tls] certificate: {folder}/server.pem: certificate has expired"),
    (gone, "[tls] certificate: cannot read {folder}/server.pem: No such file or directory"),
    (without_issuer, "[tls] ca: {folder}/ca.pem has no certificates in PEM"),
    (of_a_password, "[tls] key: {folder}/server.key has a password: name its file, key_password_file"),
]
"""The faults of files, and the texts about them."""
