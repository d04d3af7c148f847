"""Files with a secret: a password, a token, a key. One that others may write is refused, since they could choose it."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

SECRET_BYTES_MAX: Final = 64 * 1024
"""The longest secret."""

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class SecretFileError(ValueError):
    """A file of a secret that is refused. The text names the file and its mode, and says what to do."""


def read_secret(path: Path) -> bytes:
    """Return the secret in a file, without the end of its line. Raises OSError, SecretFileError."""
    with path.open("rb") as file:
        _check_mode(path, os.fstat(file.fileno()))
        secret = file.read(SECRET_BYTES_MAX + 1)
    if len(secret) > SECRET_BYTES_MAX:
        raise SecretFileError(f"{path} has more than {SECRET_BYTES_MAX // 1024} KiB: that is no password, token or key")
    return secret.rstrip(b"\r\n")


def check_secret_file(path: Path) -> None:
    """Raise SecretFileError for a file that others may write. One that cannot be looked at is for who reads it."""
    try:
        found = path.stat()
    except OSError:
        return
    _check_mode(path, found)


def _check_mode(path: Path, found: os.stat_result) -> None:
    if stat.S_ISREG(found.st_mode) and found.st_mode & _OTHERS_WRITE:
        mode = stat.S_IMODE(found.st_mode)
        raise SecretFileError(f"others may write {path} (mode {mode:04o}), and choose the secret: chmod go-w {path}")
