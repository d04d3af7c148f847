"""The command line: `evermq`, or `python -m broker`. The composition root, which may import everything.

It is thin: what a command does for the queue manager is the queue manager's, and a program in Python can do the same.
"""

from __future__ import annotations

import click

from broker.cli.backup import backup
from broker.cli.bench import bench
from broker.cli.dead_letters import dead_letters
from broker.cli.delayed import delayed
from broker.cli.demo import demo
from broker.cli.explain import explain
from broker.cli.get import browse, get
from broker.cli.group import group
from broker.cli.monitor import monitor
from broker.cli.mqsc import mqsc
from broker.cli.pause import pause, resume
from broker.cli.pipeline import pipeline
from broker.cli.program import Program
from broker.cli.put import put
from broker.cli.recover import recover
from broker.cli.run import run
from broker.cli.schedules import schedules
from broker.cli.status import status
from broker.cli.verify import verify
from broker.cli.version import show_version
from broker.cli.worker import worker


@click.group("evermq", cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=show_version,
    help="Show the version and exit.",
)
def main() -> None:
    """EverMQ: a durable queue manager with IBM MQ's message queue interface.

    Start one with `evermq run`, or see everything at work with `evermq demo`.

    Exit codes: 0 done, 10 some command failed or the queue was empty, 20 could not run.
    """


for _command in (
    run,
    mqsc,
    put,
    get,
    browse,
    status,
    explain,
    monitor,
    pause,
    resume,
    schedules,
    dead_letters,
    delayed,
    backup,
    verify,
    recover,
    group,
    demo,
    pipeline,
    bench,
    worker,
):
    main.add_command(_command)
