"""`evermq backup`: a copy of a queue manager's data, while it works or when it is stopped."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker.cli.conversation import converse, run, with_url
from broker.cli.program import CannotRunError
from broker.cli.terminal.terminal import say
from broker.config import load
from broker.mqi import MQRC, MQError
from broker.storage.store import BackupFailedError, StoreFailedError, StoreFullError, StoreUnusableError

if TYPE_CHECKING:
    from broker import Connection

_NO_BACKUP = (MQRC.FILE_SYSTEM_ERROR, MQRC.STORAGE_MEDIUM_FULL)


@click.command()
@click.argument("directory", metavar="DIR")
@click.option("--config", "file", metavar="FILE", help="The queue manager is stopped; its configuration.")
@click.option("--data", metavar="DATA", help="The queue manager is stopped; its data directory.")
@with_url
def backup(directory: str, *, file: str | None, data: str | None, url: str) -> None:
    """Copy a queue manager's data to DIR, a directory that is new or empty.

    The running queue manager is asked, which goes on with its work meanwhile; with --config or --data that of a stopped
    one is copied. The copy holds all that was acknowledged before. It is read back before the command ends with exit
    code 0; after 20 nothing is left of it. To restore, stop the queue manager and put the copy in the place of its data
    directory.
    """
    if file is None and data is None:
        _ask(url, os.path.abspath(directory))
    elif file is None:
        _copy(Path(str(data)), Path(directory), None)
    else:
        own = load(Path(file)).queue_manager
        kept = own.data if data is None else Path(data)
        if kept is None:
            raise CannotRunError(f"the queue manager of {file} keeps no data")
        _copy(kept, Path(directory), own.name)
    say(f"backup of the queue manager in {directory}")


def _ask(url: str, directory: str) -> None:
    async def asked(connection: Connection) -> None:
        await connection.backup(directory)

    try:
        converse(url, asked)
    except MQError as error:
        if error.reason in _NO_BACKUP:
            raise CannotRunError(str(error)) from error
        raise


def _copy(data: Path, to: Path, name: str | None) -> None:
    from broker.storage.tools.stopped import back_up

    try:
        run(partial(back_up, data, to, name))
    except (StoreUnusableError, StoreFullError, StoreFailedError, BackupFailedError) as error:
        raise CannotRunError(str(error)) from error
