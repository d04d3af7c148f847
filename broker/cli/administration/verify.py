"""`evermq verify`: whether the data of a stopped queue manager, or a backup, is whole."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import click

from broker.cli.program import DONE, SOME_FAILED, CannotRunError
from broker.cli.terminal.terminal import say
from broker.storage.store import StoreUnusableError


@click.command()
@click.argument("directory", metavar="DIR")
def verify(directory: str) -> int:
    """Look at every byte that counts of the data in DIR: of a queue manager that is stopped, or a backup.

    It tells how many messages a start would find there. A store of an older release is looked at too.

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
    held = f"a start finds {_many(found.messages, 'message')} and {_many(found.definitions, 'definition')}"
    say(f"{directory} is whole: {held}" + (f", batches up to {found.batches}" if found.batches else ""))
    return DONE


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
