"""`evermq verify`: whether the data of a stopped queue manager, or a backup, is whole."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker.cli.program import DONE, SOME_FAILED, CannotRunError
from broker.cli.terminal.terminal import say
from broker.storage.store import StoreUnusableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.storage.tools.verify import Verdict


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
    for line in summary(directory, found):
        say(line)
    return SOME_FAILED if found.findings else DONE


def summary(directory: str | Path, found: Verdict) -> Iterator[str]:
    """Yield what was found, a line for each thing, or that all is whole."""
    yield from found.findings
    for note in found.notes:
        yield f"note: {note}"
    if not found.findings:
        held = f"a start finds {_many(found.messages, 'message')} and {_many(found.definitions, 'definition')}"
        yield f"{directory} is whole: {held}" + (f", batches up to {found.batches}" if found.batches else "")


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
