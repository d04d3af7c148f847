"""The command line of `evermq worker`."""

from __future__ import annotations

from typing import Any

import click

from broker.cli import current_folder
from broker.cli.conversation import run, with_identity
from broker.cli.terminal import logs, streams
from broker.cli.worker import processes, serving
from broker.cli.worker.loading import load_all
from broker.config import load


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="MODULE[:app]...")
@click.option("--url", envvar="EVERMQ_URL", show_envvar=True, help="The queue manager, instead of what the app names.")
@with_identity
@click.option("--queues", metavar="Q[,Q...]", help="Serve these alone of the queues of the apps.")
@click.option("--concurrency", type=click.IntRange(1), help="Handlers of one queue at a time, in each process.")
@click.option("--processes", "count", type=click.IntRange(1), default=1, show_default=True, help="How many processes.")
@click.option("--reload", is_flag=True, help="Serve with new code whenever a file of it changes.")
@click.option("--grace", type=click.FloatRange(0), default=25.0, show_default=True, help="Seconds to end, at a signal.")
@click.option("--max-tasks", type=click.IntRange(1), help="Replace a process after so many deliveries.")
@click.option("--child", type=int, hidden=True)
@click.pass_context
def worker(ctx: click.Context, /, *, count: int, reload: bool, **options: Any) -> None:
    """Serve the handlers of apps and of modules with @process, over the wire.

    MODULE is a module as Python imports it, searched in the current folder first; its app is found by itself where it
    has only one. A queue manager that is not there is waited for, for ever.

    SIGTERM or Ctrl-C end it in order: nothing more is taken, handlers have --grace seconds to end, then they are
    cancelled, and their messages are given to others, uncharged. A second signal cancels them at once, a third ends the
    process. Exit code 10: some were cancelled.
    """
    if streams.output_is_closed():
        streams.throw_output_away()  # handlers may print, and need not fail for it
    logs.set_up(load(None).logging)
    settings = serving.Settings(**options)
    if settings.child is None and (count > 1 or reload or settings.max_tasks):
        ctx.exit(run(lambda: processes.Parent(settings, count, reload=reload).run()))
    current_folder.search()
    loaded = load_all(settings.targets, settings.url, settings.concurrency, settings.identity)
    if settings.queues is not None:
        loaded.serve_only(settings.queues.split(","))
    ctx.exit(serving.serve(loaded, settings))
