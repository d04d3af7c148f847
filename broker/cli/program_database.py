"""The program's own database, as a command is told of it: a DSN, which has no password where others can read it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

import click

from broker.cli.program import CannotRunError
from broker.config.kinds import DatabaseAddress
from broker.databases.errors import DatabaseAwayError, DatabaseUnusableError
from broker.databases.failures import told
from broker.secret_files import SecretFileError, read_secret

VARIABLE: Final = "EVERMQ_DATABASE"
_POSTGRESQL: Final = ("postgresql://", "postgres://")
_WITH_DRIVER: Final = ("postgresql+", "postgres+")


def address_of(dsn: str | None, dsn_file: str | None) -> str | None:
    """Return the DSN: the argument's, that of a file, or that of EVERMQ_DATABASE; None where nothing says one. Raises
    CannotRunError for one with a password among the arguments, which is not shown.
    """
    if dsn and (DatabaseAddress.has_password(dsn) or re.search(r"password\s*=", dsn, re.IGNORECASE)):
        raise CannotRunError(
            "a password in DSN is seen by everybody who lists the processes of this machine: have the DSN in "
            f"--dsn-file or in {VARIABLE}, or the password in PGPASSWORD or in ~/.pgpass"
        )
    if dsn and dsn_file:
        raise click.UsageError("DSN and --dsn-file: give one of them")
    if dsn_file:
        try:
            return read_secret(Path(dsn_file)).decode("utf-8", "surrogateescape").strip()
        except SecretFileError as error:
            raise CannotRunError(str(error)) from None
    return dsn or os.environ.get(VARIABLE) or None


def is_postgresql(address: str) -> bool:
    """True for the address of a PostgreSQL database, and not of an SQLite file."""
    return address.startswith(_POSTGRESQL)


def source_of_address(address: str, *, places: int = 1) -> Any:
    """Return what opens a database, in PostgreSQL a pool of so many places. Raises CannotRunError."""
    if not is_postgresql(address):
        if "://" in address:
            advice = ": leave out the driver, as postgresql://" if address.startswith(_WITH_DRIVER) else ""
            raise CannotRunError(
                f"the DSN is no postgresql://user@host/database, and no path of an SQLite file{advice}"
            )
        if Path(address).is_dir():
            raise CannotRunError(f"{address} is a folder, and an SQLite database is a file")
        if not Path(address).is_file():
            raise CannotRunError(f"{address}: there is no such file")
        return Path(address)
    try:
        import asyncpg
    except ImportError as error:
        raise CannotRunError("PostgreSQL needs asyncpg: pip install 'evermq[postgres]'") from error

    async def pool() -> Any:
        try:
            return await asyncpg.create_pool(address, min_size=1, max_size=places)
        except (OSError, asyncpg.PostgresError) as error:
            raise DatabaseAwayError(
                f"PostgreSQL gives no session at {_place(address)}: {told(error)}; is it running, and is the DSN right?"
            ) from error
        except asyncpg.InterfaceError:  # some are a ValueError
            raise
        except ValueError:  # whose text may have a part of a password
            raise DatabaseUnusableError(
                "the DSN cannot be read: characters of a password that mean something in URLs are written as %40"
            ) from None

    return pool


def _place(address: str) -> str:
    """The host, the port and the database of a DSN, and no more of it."""
    return address.partition("://")[2].rpartition("@")[2].partition("?")[0] or "the place that the environment says"
