"""Both accounts, one after the other: the app with `database=`, then the one that commits by hand."""

from __future__ import annotations

import logging
import secrets
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import click

from broker.cli.conversation import NO_QUEUE_MANAGER, run
from broker.cli.demo.transactions.death import DeathPlace
from broker.cli.demo.transactions.trial import KillTrial, TrialPlan
from broker.cli.program import DONE, SOME_FAILED, CannotRunError, lone
from broker.cli.program_database import address_of, is_postgresql, source_of_address
from broker.cli.signals import handle_signals
from broker.databases.errors import ProgramDatabaseError
from broker.mqi import MQError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.cli.demo.transactions.account import TransactionAccount

ORDERS: Final = 200
KILLS: Final = 60
PROGRAM: Final = "broker.cli.demo.transactions.program"
_SEED_MAX: Final = 1_000_000


def show(dsn: str, dsn_file: str | None, *, kills: int, seed: int | None) -> int:
    """Print both accounts. Return the exit code: 0 if that with `database=` is exact. Raises CannotRunError."""
    address = address_of(dsn or None, dsn_file)
    seed = secrets.randbelow(_SEED_MAX) if seed is None else seed
    if address is not None:
        source_of_address(address)
        address = address if is_postgresql(address) else str(Path(address).absolute())  # workers have other folders
    logging.getLogger("broker.client").setLevel(logging.ERROR)  # the line is lost on purpose
    kind = "PostgreSQL" if address is not None and is_postgresql(address) else "SQLite"
    where = "in a temporary folder" if address is None else "as told, in tables of its own"
    print(f"evermq demo: {ORDERS} orders, each a row in {kind} ({where}) and two messages")
    print(f"two workers, of which {kills} are killed with kill -9, at places drawn from seed {seed}\n")
    exact = _tried("exact", address, kills=kills, seed=seed)
    by_hand = _tried("by_hand", address, kills=kills, seed=seed)
    print("\n".join(_conclusion(exact, by_hand)))
    return DONE if exact.exact else SOME_FAILED


def _tried(app: str, address: str | None, *, kills: int, seed: int) -> TransactionAccount:
    exact = app == "exact"
    print("@app.handler(..., database=db)" if exact else "the same by hand: COMMIT, then the message is settled")
    sys.stdout.flush()
    account = run(lambda: _trial(f"{PROGRAM}:{app}", address, kills=kills, seed=seed, has_units=exact))
    print("\n".join([*account.report(), *(account.report_units() if exact else ()), ""]))
    sys.stdout.flush()
    return account


async def _trial(target: str, address: str | None, *, kills: int, seed: int, has_units: bool) -> TransactionAccount:
    with tempfile.TemporaryDirectory(prefix="evermq-demo-") as name:
        folder = Path(name)
        plan = TrialPlan(
            target=target,
            address=address or str(folder / "orders.db"),
            orders=ORDERS,
            kills=kills,
            seed=seed,
            has_units=has_units,
        )
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(handle_signals, name="signals")
                account = await KillTrial(plan).run(folder)
                tasks.cancel_scope.cancel()
        except Exception as error:
            cause = lone(error)
            if isinstance(cause, MQError) and cause.reason in NO_QUEUE_MANAGER:
                raise CannotRunError(f"the daemon broke off: {cause}") from error
            if isinstance(cause, ProgramDatabaseError):
                raise CannotRunError(str(cause)) from error
            raise
        return account


def _conclusion(exact: TransactionAccount, by_hand: TransactionAccount) -> Iterator[str]:
    if exact.exact:
        yield f"with database= each of {exact.orders} orders is one row and two messages"
    else:
        yield "with database= the account is NOT exact: please report it, with the seed"
    if by_hand.doubled or by_hand.lost:
        yield f"by hand, of {by_hand.orders} orders: {len(by_hand.doubled)} doubled, {len(by_hand.lost)} lost"
    elif by_hand.died.total() >= len(DeathPlace):
        yield "by hand nothing is doubled this time, which is luck: no worker died between COMMIT and the settle"
    else:
        yield f"by hand nothing is doubled: {by_hand.died.total()} deaths are too few to meet the place where it is"


def check_alone(*, file: str | None, keep: str | None, dsn_file: str | None, database: str | None) -> None:
    """Raises click.UsageError for options that are not for both demonstrations."""
    if database is None and dsn_file is not None:
        raise click.UsageError("--dsn-file is for --database")
    if database is not None and (file is not None or keep is not None):
        raise click.UsageError("--database takes no FILE, and keeps nothing")
