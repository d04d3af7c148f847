"""`evermq transactions`: the table of markers in a program's own database."""

from __future__ import annotations

import secrets
import uuid
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from broker.cli.administration.status import table
from broker.cli.conversation import connected, run, with_url
from broker.cli.program import CannotRunError, SomeFailedError
from broker.cli.program_database import VARIABLE, address_of, is_postgresql, source_of_address
from broker.cli.terminal.terminal import say, warn
from broker.databases.database import Database
from broker.databases.errors import DatabaseAwayError, DatabaseUnusableError, ProgramDatabaseError
from broker.databases.markers import ID_OUTCOME, ID_UNIT, Markers, TableName
from broker.mqi.external_units import digits_of
from broker.presentation.moments import in_utc

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker import Connection
    from broker.databases.opened import OpenDatabase

_NOT_FOUND: Final = "AMQ8147E"

Command = TypeVar("Command", bound="Callable[..., Any]")
Result = TypeVar("Result")

CLEANED_SECONDS: Final = 3600.0
"""The age from which a marker is looked at: younger ones are deleted by who has committed them."""

_STEP: Final = 1000


@click.group()
def transactions() -> None:
    """Look after the table of markers that decides transactions in a program's own database.

    The database is DSN, the path of an SQLite file or postgresql://user@host/database; else that in --dsn-file, or in
    EVERMQ_DATABASE. A password is in one of these two, in PGPASSWORD or in ~/.pgpass, and never in DSN.
    """


_table = click.option(
    "--table",
    "table_name",
    metavar="NAME",
    default="evermq_unit",
    show_default=True,
    help="The table, as Database(table=) has it.",
)
_SOURCES: Final = (
    click.argument("dsn", required=False),
    click.option("--dsn-file", metavar="FILE", help="The DSN is in FILE, a password in it too."),
)


def _about_database(command: Command) -> Command:
    """The options that name a database and its table."""
    for option in (*_SOURCES, _table):
        command = option(command)
    return command


@transactions.command()
@click.option("--dialect", type=click.Choice(["postgresql", "sqlite"]), help="The SQL; else that of DSN.")
@_about_database
def ddl(dialect: str | None, dsn: str | None, dsn_file: str | None, *, table_name: str) -> None:
    """Print the statement that makes the table, for who may run it."""
    kind = dialect or ("postgresql" if is_postgresql(_address(dsn, dsn_file)) else "sqlite")
    say(f"{Markers(_named(table_name), 'postgresql' if kind == 'postgresql' else 'sqlite').ddl()};")


@transactions.command()
@_about_database
@with_url
def status(dsn: str | None, dsn_file: str | None, *, table_name: str, url: str) -> None:
    """Show the markers, by queue manager's instance and outcome, and which units are in doubt.

    Only the queue manager knows what is in doubt: it is asked for the units that this database decides.
    """

    async def work(opened: OpenDatabase) -> None:
        say(f"database {opened.label}, table {opened.markers.name}")
        if opened.weakness:
            warn(f"a COMMIT may be lost, which durable=False takes: {opened.weakness}")
        rows = [[str(each) for each in row] for row in await opened.rows(opened.markers.count())]
        if rows:
            shown = [[q_mgr, outcome, count, in_utc(float(oldest))] for q_mgr, outcome, count, oldest in rows]
            say("\n".join(table([["q_mgr", "outcome", "markers", "oldest"], *shown])))
        else:
            say("no markers")
        async with AsyncExitStack() as stack:
            try:
                connection = await connected(stack, url, commands=True)
                units = await units_in_doubt(opened, connection)
            except CannotRunError as error:
                say(f"what is in doubt is not known: {error}")
                return
            others = {str(q_mgr) for q_mgr, *_ in rows} - {connection.q_mgr_instance}
            say(f"in doubt at {connection.q_mgr_instance}: {len(units)}")
            for unit in units:
                say(f"  {unit}")
            if others:
                say(f"of units of {', '.join(sorted(others))} only that queue manager knows: give its --url")

    _with_database(dsn, dsn_file, table_name, work)


@transactions.command()
@_about_database
@with_url
def clean(dsn: str | None, dsn_file: str | None, *, table_name: str, url: str) -> None:
    """Delete markers older than an hour that decide nothing any more.

    Only those of the instance of the queue manager at --url, which is asked which units are in doubt. Markers of
    aborted units stay for a day. A running app does this hourly.
    """

    async def work(opened: OpenDatabase) -> None:
        async with AsyncExitStack() as stack:
            connection = await connected(stack, url, commands=True)
            count = await cleaned(opened, connection)
        say(f"{count} markers deleted from {opened.markers.name}")

    _with_database(dsn, dsn_file, table_name, work)


@transactions.command("new-id")
@_about_database
@click.option("--yes", is_flag=True, help="Do not ask.")
def new_id(dsn: str | None, dsn_file: str | None, *, table_name: str, yes: bool) -> None:
    """Give a copy of a database an id of its own, so that it decides no units of the one it was copied from.

    Never for that one itself: its units in doubt would be decided by nobody.
    """
    if not yes:
        click.confirm("Is this the copy? Units in doubt of this database would be decided by nobody", abort=True)

    async def work(opened: OpenDatabase) -> None:
        await give_new_id(opened)
        say(f"the database in {opened.markers.name} is another one from now on")

    _with_database(dsn, dsn_file, table_name, work)


async def units_in_doubt(opened: OpenDatabase, connection: Connection) -> list[str]:
    """Return the units of this database that the queue manager has prepared and not ended, in words. The markers do not
    tell: that of a transaction which has not committed cannot be seen. Raises CannotRunError.
    """
    [reply] = await connection.mqsc("DISPLAY THREAD(*) TYPE(INDOUBT)")
    if not reply.ok and reply.code != _NOT_FOUND:
        raise CannotRunError(reply.text)
    units = [each for each in reply.attributes if str(each["DATABASE"]).endswith(digits_of(opened.id))]
    return [f"{each['THREAD']} {each['UOWSTATE']} for {each['AGE']} s; {each['RESOLVER']}" for each in units]


async def cleaned(opened: OpenDatabase, connection: Connection) -> int:
    """Delete what is old and not in doubt, of the connection's queue manager alone; how many that were.

    Markers are read first and the queue manager is asked then: a unit that is prepared in between has a younger marker.
    """
    q_mgr = connection.q_mgr_instance
    if not q_mgr:
        raise SomeFailedError("the queue manager is of an older release, which has no units of a database")
    count, passed = 0, 0
    before = opened.clock.time() - CLEANED_SECONDS
    while True:
        units = (await opened.old_markers(q_mgr, before, passed + _STEP))[passed:]
        kept = set(await connection.in_doubt(opened.id, units)) if units else set()
        done = [unit for unit in units if unit not in kept]
        await opened.delete(done)
        count += len(done)
        passed += len(kept)
        if len(units) < _STEP:
            return count


async def give_new_id(opened: OpenDatabase) -> None:
    """Write another id into the table."""
    delete, insert = opened.markers.delete(1), opened.markers.insert(ID_OUTCOME, 0)
    fresh = str(uuid.UUID(bytes=secrets.token_bytes(16)))
    await opened.rows(f"{delete}; {insert}", ID_UNIT, ID_UNIT, fresh)


def _with_database(
    dsn: str | None, dsn_file: str | None, table_name: str, work: Callable[[OpenDatabase], Awaitable[Result]]
) -> Result:
    """Do something with a database, which is not changed by that it is opened."""
    name = _named(table_name)
    source = source_of_address(_address(dsn, dsn_file))

    async def worked() -> Result:
        opened = await Database(source, table=str(name), create=False, durable=False).open()
        try:
            return await work(opened)
        finally:
            await opened.close()

    try:
        return run(worked)
    except (DatabaseAwayError, DatabaseUnusableError) as error:
        raise CannotRunError(str(error)) from error
    except ProgramDatabaseError as error:
        raise SomeFailedError(str(error)) from error


def _named(text: str) -> TableName:
    try:
        return TableName.parsed(text)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _address(dsn: str | None, dsn_file: str | None) -> str:
    """Return the DSN. Raises CannotRunError as `address_of`."""
    if found := address_of(dsn, dsn_file):
        return found
    raise click.UsageError(f"which database? Give DSN, --dsn-file or {VARIABLE}")
