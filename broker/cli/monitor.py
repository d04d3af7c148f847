"""`evermq monitor`: the monitor of an initiation queue, in the manner of runmqtrm."""

from __future__ import annotations

import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import click

from broker.cli import current_folder
from broker.cli.conversation import connected, run, with_url
from broker.cli.program import DONE, CannotRunError, SomeFailedError
from broker.cli.terminal import logs, streams
from broker.config import load
from broker.mqi import MQError
from triggers import Commands, InitiationMonitor
from triggers.initiation.monitor import first_error

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from broker.config import TriggerMonitorConfig


@click.command()
@click.argument("modules", metavar="[MODULE]...", nargs=-1)
@click.option(
    "--queue",
    default="SYSTEM.DEFAULT.INITIATION.QUEUE",
    show_default=True,
    metavar="INITQ",
    help="The initiation queue to serve.",
)
@click.option("--concurrency", type=click.IntRange(1, 1000), default=1, show_default=True, help="How many at a time.")
@click.option("--commands", is_flag=True, help="Start the commands of processes with APPLTYPE(UNIX).")
@click.option("--config", "file", metavar="FILE", help="A broker.toml, whose [trigger_monitor] says what is allowed.")
@with_url
def monitor(
    modules: tuple[str, ...], *, queue: str, concurrency: int, commands: bool, file: str | None, url: str
) -> int:
    """Start what the trigger messages of an initiation queue name, one after the other.

    Processes with APPLTYPE(DEF) are served by the handlers of each MODULE (functions tagged @process; the current
    folder is searched first), those with APPLTYPE(UNIX) by commands, with --commands or where the configuration says
    so. What is not served goes to the dead-letter queue.

    SIGTERM or Ctrl-C end it in order: what runs has 10 seconds to end. The exit code is 0 when it was told to end or
    its queue manager has ended, 10 when an error ended it, 20 when it could not begin.
    """
    if streams.output_is_closed():
        streams.throw_output_away()  # handlers may print, and need not fail for it
    config = load(Path(file) if file else None)
    logs.set_up(config.logging)
    current_folder.search()
    settings = config.trigger_monitor
    allowed = _commands(settings) if commands or settings.commands else None

    async def work() -> int:
        async with AsyncExitStack() as stack:
            connection = await connected(stack, url)
            try:
                serving = InitiationMonitor(
                    connection,
                    queue,
                    modules,
                    commands=allowed,
                    concurrency=concurrency,
                    generation_interval=settings.generation_interval,
                )
            except (ImportError, ValueError) as error:
                raise CannotRunError(str(error)) from error
            await _serve(serving)
        return DONE

    return run(work)


def _commands(settings: TriggerMonitorConfig) -> Commands:
    return Commands(timeout=settings.command_timeout, max_background=settings.background_commands)


async def _serve(serving: InitiationMonitor) -> None:
    """Serve until the queue manager ends or a signal comes."""
    began = False
    try:
        async with anyio.create_task_group() as tasks:
            reported = anyio.Event()
            await tasks.start(_handle_signals, reported)
            async with serving:
                began = True
                tasks.start_soon(_tell, serving, reported)
                await reported.wait()
            tasks.cancel_scope.cancel()
    except* MQError as group:
        error = first_error(group)
        if not began:
            raise CannotRunError(f"cannot serve {serving.q_name}: {error}") from error
        raise SomeFailedError(f"the monitor of {serving.q_name} was ended: {error}") from error


async def _handle_signals(reported: anyio.Event, *, task_status: TaskStatus[None]) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        await anext(signals)
        reported.set()


async def _tell(serving: InitiationMonitor, reported: anyio.Event) -> None:
    await serving.wait()
    reported.set()
