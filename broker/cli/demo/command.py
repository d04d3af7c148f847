"""The demonstration as it runs: start, define, put, collect, report."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import click

from broker.cli.conversation import NO_QUEUE_MANAGER, connected, run
from broker.cli.demo.account import Account
from broker.cli.demo.daemon import DemoDaemon
from broker.cli.demo.exchange import KEPT, Exchange
from broker.cli.demo.working import work
from broker.cli.messages.lines import LINE_BYTES_MAX, Lines
from broker.cli.program import DONE, SOME_FAILED, CannotRunError, lone
from broker.cli.signals import handle_signals
from broker.mqi import MQDLH, MQError

if TYPE_CHECKING:
    from broker import Connection

SAMPLE: Final = Path(__file__).with_name("reservations.jsonl")

# A dead letter is its header longer than the line; so lines end a header before MAXMSGL does.
_LINE_BYTES_MAX: Final = LINE_BYTES_MAX - MQDLH.SIZE

_DEFINITIONS: Final = f"""\
ALTER QMGR MAXMSGL({LINE_BYTES_MAX}) DEADQ(DEMO.DEAD.LETTER.QUEUE)
DEFINE QLOCAL(DEMO.DEAD.LETTER.QUEUE) MAXDEPTH(999999999) MAXMSGL({LINE_BYTES_MAX})
DEFINE QLOCAL(DEMO.REPLY) MAXDEPTH(999999999)
DEFINE QLOCAL(DEMO.RESERVATIONS) MAXDEPTH(999999999) MAXMSGL({LINE_BYTES_MAX})
ZMQSC DEF PROCESS-DEMO APPLICID-RESV ENVRDATA-DEMO USERDATA-RESERVATIONS
ZMQSC ALTER QL-DEMO.RESERVATIONS PROCESS-DEMO TRIGGER TRIGTYPE-EVERY TRIGDATA-RESV
"""

_KEPT_DEFINITIONS: Final = "".join(
    f"DEFINE QLOCAL({name}) MAXDEPTH(999999999) MAXMSGL({LINE_BYTES_MAX})\n" for name in KEPT.values()
)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True), required=False)
@click.option(
    "--keep", metavar="DIR", type=click.Path(file_okay=False), help="Keep the queue manager, in a new directory."
)
@click.option(
    "--database",
    metavar="[DSN]",
    is_flag=False,
    flag_value="",
    help="Kill workers in transactions with a database: SQLite in the temporary folder, or that of DSN.",
)
@click.option("--dsn-file", metavar="FILE", help="The DSN of --database is in FILE, a password in it too.")
@click.option("--kills", type=click.IntRange(0), default=60, show_default=True, help="With --database: workers killed.")
@click.option(
    "--seed", type=int, help="With --database: where they die is drawn from it; else it is another each time."
)
def demo(
    file: str | None, keep: str | None, database: str | None, dsn_file: str | None, *, kills: int, seed: int | None
) -> int:
    """Kill a worker, and have every line of FILE handled; account for all.

    First a worker has tasks, and is killed half-way: each is done once, by it or by another; what fails is tried again,
    and what always fails is a dead letter. Then every line becomes a message on a triggered queue; a handler answers
    it, or rejects it to a dead-letter queue. FILE is any file at all ("-": standard input); without it, a sample of
    airline reservations. A daemon of its own is started on a free port with a temporary folder, and stopped at the end.
    With --keep its data stay in DIR, and what came back stays on the queues DEMO.REPLY.KEPT and
    DEMO.DEAD.LETTER.QUEUE.KEPT: for a pipeline, or a daemon.

    With --database, orders are handled instead, each to be a row in a database and two messages, while workers are
    killed at each step of their transactions, and the daemon twice: by a handler with `database=`, then by one that
    commits by hand. Both are accounted for. DSN is the path of an SQLite file or postgresql://user@host/database; else
    it is in --dsn-file or in EVERMQ_DATABASE. A password is in one of these two, in PGPASSWORD or in ~/.pgpass, and
    never in DSN. The tables have names of their own, and are removed at the end.
    """
    if database is not None or dsn_file is not None:
        from broker.cli.demo.transactions.showing import check_alone, show

        check_alone(file=file, keep=keep, dsn_file=dsn_file, database=database)
        return show(database or "", dsn_file, kills=kills, seed=seed)
    data = None if keep is None else _new(Path(keep))
    name = file or str(SAMPLE)
    descriptor = sys.stdin.fileno() if name == "-" else os.open(name, os.O_RDONLY)
    try:
        print(f"evermq demo: {'standard input' if name == '-' else name}")
        account = run(lambda: _demonstrated(Lines(descriptor, _LINE_BYTES_MAX), data))
    finally:
        if name != "-":
            os.close(descriptor)
    print("\n".join(["", *account.report()]))
    if account.complete:
        print("\nevery line is accounted for")
        return DONE
    return SOME_FAILED


def _new(folder: Path) -> Path:
    """A directory that is new or empty. Raises CannotRunError."""
    if folder.exists() and any(folder.iterdir()):
        raise CannotRunError(f"{folder} is not empty: --keep needs a new directory")
    return folder


async def _demonstrated(lines: Lines, data: Path | None) -> Account:
    """Run the lines through a queue manager made for them."""
    account = Account()
    with tempfile.TemporaryDirectory(prefix="evermq-demo-") as folder:
        daemon = DemoDaemon(Path(folder), data)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(handle_signals, name="signals")
            await daemon.start(tasks)
            try:
                await _exchange(daemon.url, Path(folder), lines, account, data)
            except Exception as error:
                cause = lone(error)
                if isinstance(cause, MQError) and cause.reason in NO_QUEUE_MANAGER:
                    raise CannotRunError(f"the daemon broke off: {cause}; it said: {daemon.last_words()}") from error
                raise
            tasks.cancel_scope.cancel()
    return account


async def _exchange(url: str, folder: Path, lines: Lines, account: Account, data: Path | None) -> None:
    async with AsyncExitStack() as stack:
        connection = await connected(stack, url)
        where = "a temporary folder" if data is None else "the folder given"
        print(f"queue manager {connection.q_mgr_name} at {url}, its data in {where}\n")
        await _define(connection, _DEFINITIONS if data is None else _DEFINITIONS + _KEPT_DEFINITIONS)
        account.worked = await work(connection, url, folder)
        print("\n".join(account.worked.report()))
        sys.stdout.flush()
        await Exchange(connection, account, keep=data is not None).run(lines)


async def _define(connection: Connection, definitions: str) -> None:
    """Define the queues and the process, the last two with the commands of TPF; show each with its reply."""
    for command in definitions.splitlines():
        for reply in await connection.mqsc(command):
            if not reply.ok:
                raise CannotRunError(f"{command}: {reply.text}")
            print(f"  {reply.code}  {command}")
