"""The password of a user, as a command asks for it: on the terminal, twice and without an echo, or in a file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from broker.cli.program import CannotRunError
from broker.engine.security.passwords import hash_of
from broker.secret_files import read_secret


def asked_hash(user: str, file: str | None) -> str:
    """Return the hash of the password that is typed, or that is the first line of the file."""
    try:
        return hash_of(_typed(user) if file is None else read_secret(Path(file)).partition(b"\n")[0].rstrip(b"\r"))
    except ValueError as error:
        raise CannotRunError(f"this cannot be the password of {user}: {error}") from None


def _typed(user: str) -> str:
    if not _on_terminal():
        raise CannotRunError(f"the password of {user} is asked for on a terminal: or give --password-file FILE")
    typed: str = click.prompt(f"Password of {user}", hide_input=True, confirmation_prompt="Once more", err=True)
    return typed


def _on_terminal() -> bool:
    return sys.stdin.isatty()
