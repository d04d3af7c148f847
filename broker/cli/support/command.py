"""The command `evermq support`."""

from __future__ import annotations

import sqlite3
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

import broker
from broker.cli.administration.verify import summary
from broker.cli.conversation import connected, run, with_url
from broker.cli.program import DONE, SOME_FAILED, CannotRunError
from broker.cli.support import machine, manager
from broker.cli.support.bundle import Bundle
from broker.cli.terminal.terminal import say, warn
from broker.config import load_with_origins
from broker.config.printing import printed
from broker.storage.store import StoreUnusableError

if TYPE_CHECKING:
    from broker.config import LoadedConfig


@click.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE.tar.gz")
@click.option("--config", "configuration", metavar="FILE", help="The broker.toml of the queue manager.")
@with_url
def support(file: Path, *, configuration: str | None, url: str) -> int:
    """Gather in FILE.tar.gz what somebody needs who is to find out what is wrong with a queue manager.

    Its configuration (with --config), `status --json`, DISPLAY of all objects, `explain` of the twenty queues with the
    oldest messages, the last lines of its log, versions, the kernel, the file system of its data, the limits of its
    process; where it is stopped, what `evermq verify` says.

    It has no data of messages, no password and no token; names of objects, users and addresses are in it. An
    administrator is told all. The exit code is 10 when a part is missing: `missing.txt` says why.
    """
    if file.exists():
        raise CannotRunError(f"{file} is there already")
    loaded = load_with_origins(Path(configuration)) if configuration else None
    data = None if loaded is None else loaded.config.queue_manager.data
    bundle = Bundle()
    bundle.add("versions.txt", f"evermq {broker.__version__}\n{machine.versions()}")
    bundle.make("kernel.txt", machine.kernel)
    _ask(bundle, url, data)
    if loaded is not None:
        bundle.add("broker.toml", "".join(f"{line}\n" for line in printed(loaded, defaults=True)))
    if data is not None:
        bundle.make("file_system.txt", partial(machine.file_system, data))
    bundle.make("limits.txt", partial(machine.limits, data))
    try:
        bundle.write(file, _folder(loaded))
    except OSError as error:
        raise CannotRunError(f"{file}: {error.strerror}") from error
    say(f"{file}: {', '.join(sorted(bundle.parts))}")
    for name, why in bundle.missing.items():
        warn(f"without {name}: {why}")
    return SOME_FAILED if bundle.missing else DONE


def _ask(bundle: Bundle, url: str, data: Path | None) -> None:
    """Take in what the queue manager tells; where there is none, the state of its data."""

    async def conversation() -> None:
        async with AsyncExitStack() as stack:
            await manager.ask(await connected(stack, url), bundle)

    try:
        run(conversation)
    except CannotRunError as error:
        bundle.leave_out("status.json, objects.txt, explain.txt, log.txt", error)
        if data is not None:
            bundle.make("verify.txt", partial(_verified, data))


def _verified(data: Path) -> str:
    from broker.storage.disk.system_disk import SystemDisk
    from broker.storage.tools.verify import verify

    try:
        return "".join(f"{line}\n" for line in summary(data, verify(SystemDisk(data))))
    except (StoreUnusableError, sqlite3.Error) as error:
        raise ValueError(str(error)) from error


def _folder(loaded: LoadedConfig | None) -> str:
    name = "evermq" if loaded is None else loaded.config.queue_manager.name
    return f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
