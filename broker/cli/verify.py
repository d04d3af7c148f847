"""`evermq verify`: whether the data of a stopped queue manager, or a backup, is whole."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import click

from broker.cli.program import DONE, SOME_FAILED, CannotRunError
from broker.cli.terminal import say
from broker.storage.store import StoreUnusableError


@click.command()
@click.argument("directory", metavar="DIR")
def verify(directory: str) -> int:
    """Look at every byte that counts of the data in DIR: of a queue manager that is stopped, or a backup.

    Nothing is changed. A database that was not closed in order is read in a copy, in the folder for temporary files
    (TMPDIR). The exit code is 0 when all is whole, 10 when something is damaged, with a line for each thing found, 20
    when it could not be looked at.
    """
    from broker.storage.disk.system_disk import SystemDisk
    from broker.storage.tools.verify import verify

    try:
        found = verify(SystemDisk(Path(directory)))
    except (StoreUnusableError, sqlite3.Error) as error:
        raise CannotRunError(str(error)) from error
    for finding in found.findings:
        say(finding)
    for note in found.notes:
        say(f"note: {note}")
    if found.findings:
        return SOME_FAILED
    held = f"{found.messages} messages and {found.definitions} definitions in the database"
    say(f"{directory} is whole: {held}, batches up to {found.batches} there and in the log")
    return DONE
