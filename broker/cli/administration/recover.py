"""`evermq recover`: go on with what is left of a queue manager's damaged data."""

from __future__ import annotations

import sqlite3
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgpack

from broker.cli.program import DONE, SOME_FAILED, CannotRunError
from broker.cli.terminal.terminal import say
from broker.commands.table.attributes import create
from broker.storage.store import StoreUnusableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.storage.tools.recover import Recovery


@click.command()
@click.argument("directory", metavar="DIR")
@click.option("--accept-loss", is_flag=True, help="Do it. Without this, only tell what would be kept and what is lost.")
def recover(directory: str, *, accept_loss: bool) -> int:
    """Make data that starts of what is left in DIR, the data of a stopped queue manager that does not start.

    A backup is better: what is lost here is lost for good, and messages whose get was lost are there again. All that
    can be read is kept, and what is replaced is put into a folder damaged-TIME in DIR. Where nothing is damaged nothing
    is changed. The exit code is 10 when something is damaged and --accept-loss was not given, 20 when nothing could be
    done.
    """
    from broker.storage.disk.system_disk import SystemDisk
    from broker.storage.tools.recover import recover

    now = time.time()
    attributes: bytes = msgpack.packb(create("QLOCAL", "RECOVERED", datetime.fromtimestamp(now, UTC)).attributes)
    try:
        found = recover(SystemDisk(Path(directory)), now, attributes, accept_loss=accept_loss)
    except (StoreUnusableError, sqlite3.Error) as error:
        raise CannotRunError(str(error)) from error
    for line in _in_words(directory, found):
        say(line)
    return SOME_FAILED if found.findings and not accept_loss else DONE


def _in_words(directory: str, found: Recovery) -> Iterator[str]:
    if not found.findings:
        yield f"{directory} is whole: there is nothing to recover, and nothing was changed"
        return
    yield from found.findings
    yield from (f"note: {note}" for note in found.notes)
    kept = "kept" if found.folder else "to keep"
    yield f"{kept}: {found.messages} messages, {found.definitions} definitions"
    if found.snapshot_lost:
        yield "lost: the database, and all that the log does not have"
    for first, last in found.missing:
        yield f"lost: batch {first}" if first == last else f"lost: batches {first} to {last} ({last - first + 1})"
    yield from (f"lost: {each}" for each in found.lost)
    if found.missing or found.snapshot_lost:
        yield "messages that were got in what is lost may be there again"
    if found.folder:
        yield f"what was replaced is in {Path(directory) / found.folder}; start the queue manager"
    else:
        yield f"nothing was changed; restore a backup, or: evermq recover {directory} --accept-loss"
