"""The command line: `evermq`, or `python -m broker`. The composition root, which may import everything.

It is thin: what a command does for the queue manager is the queue manager's, and a program in Python can do the same.

A command is loaded when it is run: what the others need would cost each of them more than its own work.
"""

from __future__ import annotations

import click

from broker.cli.program import ListedCommand, Program
from broker.cli.version import show_version

COMMANDS = (
    ListedCommand(
        "backup",
        "broker.cli.administration.backup",
        "Copy a queue manager's data to DIR, a directory that is new or empty.",
    ),
    ListedCommand("bench", "broker.cli.bench", "Measure the queue manager, and the limits of the machine beside it."),
    ListedCommand("browse", "broker.cli.messages.get", "Print the messages of QUEUE and leave them there."),
    ListedCommand(
        "config",
        "broker.cli.service.config",
        "Print the configuration, with the file or the variable that each value comes from.",
    ),
    ListedCommand(
        "dead-letters",
        "broker.cli.messages.dead_letters",
        "List and show dead letters, put them back to where they came from, or discard them.",
    ),
    ListedCommand(
        "delayed",
        "broker.cli.messages.delayed",
        "List delayed messages, cancel them, release them before their time.",
    ),
    ListedCommand("demo", "broker.cli.demo", "Kill a worker, and have every line of FILE handled; account for all."),
    ListedCommand(
        "explain",
        "broker.cli.messages.explain",
        "Tell why messages of QUEUE are not delivered, or what a user may do, and why.",
    ),
    ListedCommand("get", "broker.cli.messages.get", "Get a message from QUEUE and print it."),
    ListedCommand(
        "group",
        "broker.cli.administration.group",
        "Make a queue-sharing group, look at it, recover what a failed member has left.",
    ),
    ListedCommand(
        "health",
        "broker.cli.health",
        "Tell if a queue manager is alive, or ready: exit code 0, or 20 with the checks that fail on standard error.",
    ),
    ListedCommand(
        "history",
        "broker.cli.messages.history",
        "Show what has become of the messages of QUEUE, whose handler has history=, in the order in which they ended.",
    ),
    ListedCommand(
        "http",
        "broker.cli.http",
        "Serve health and figures of a queue manager by HTTP, from a process of its own.",
    ),
    ListedCommand(
        "init",
        "broker.cli.administration.init",
        "Make a queue manager in DIR: its broker.toml, its data, and the first administrator.",
    ),
    ListedCommand(
        "mcp", "broker.cli.mcp", "Serve an assistant by the Model Context Protocol, on standard input and output."
    ),
    ListedCommand(
        "monitor",
        "broker.cli.monitor",
        "Start what the trigger messages of an initiation queue name, one after the other.",
    ),
    ListedCommand(
        "mqsc", "broker.cli.administration.mqsc", "Run MQSC or ZMQSC commands of FILE, or of standard input."
    ),
    ListedCommand(
        "pause",
        "broker.cli.messages.pause",
        "Start no more handlers for QUEUE until it is resumed, whoever serves it and whatever is started again.",
    ),
    ListedCommand(
        "pipeline", "broker.cli.pipeline", "Archive queues, report on them, put archived messages back: jobs on Spark."
    ),
    ListedCommand(
        "put", "broker.cli.messages.put", "Put a message on QUEUE: TEXT, or standard input as it is; print its MsgId."
    ),
    ListedCommand(
        "recover",
        "broker.cli.administration.recover",
        "Make data that starts of what is left in DIR, the data of a stopped queue manager that does not start.",
    ),
    ListedCommand(
        "reload",
        "broker.cli.service.reload",
        "Have a daemon read its broker.toml again, and print what has changed.",
    ),
    ListedCommand(
        "resume",
        "broker.cli.messages.pause",
        "Start handlers for QUEUE again: for all messages that wait there, ALTER QLOCAL(QUEUE) TRIGGER.",
    ),
    ListedCommand("run", "broker.cli.run", "Run a queue manager, here in the foreground."),
    ListedCommand(
        "schedules",
        "broker.cli.administration.schedules",
        "List schedules of periodic work, pause and resume them, run them at once, remove them.",
    ),
    ListedCommand(
        "status",
        "broker.cli.administration.status",
        "Show the queue manager in figures, or QUEUE alone: all of its figures, and its handlers and consumers.",
    ),
    ListedCommand(
        "support",
        "broker.cli.support",
        "Gather in FILE.tar.gz what somebody needs who is to find out what is wrong with a queue manager.",
    ),
    ListedCommand(
        "top",
        "broker.cli.top",
        "Show the queue manager at work, twice a second: queues by the age of their oldest message, by rate or by "
        "depth; handlers with their rates and failures; units of work and who holds them.",
    ),
    ListedCommand(
        "transactions",
        "broker.cli.administration.transactions",
        "Look after the table of markers that decides transactions in a program's own database.",
    ),
    ListedCommand("unit", "broker.cli.service.unit", "Print a hardened unit of systemd that runs this installation."),
    ListedCommand("user", "broker.cli.administration.users", "Define users, change and remove them, and list them."),
    ListedCommand(
        "verify",
        "broker.cli.administration.verify",
        "Look at every byte that counts of the data in DIR: of a queue manager that is stopped, or a backup.",
    ),
    ListedCommand(
        "worker", "broker.cli.worker", "Serve the handlers of apps and of modules with @process, over the wire."
    ),
)


@click.group(
    "evermq",
    cls=Program,
    listed=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
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
