"""`evermq user`: define, change and list users, without a secret in a command, a log or the list of processes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from broker.cli.administration.passwords import asked_hash
from broker.cli.administration.status import table
from broker.cli.conversation import converse, run, with_url
from broker.cli.program import CannotRunError, SomeFailedError
from broker.cli.terminal.terminal import say
from broker.commands.table.users import EntityName
from broker.storage.store import StoreUnusableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from broker import Connection
    from broker.mqi.replies import CommandReply

    Work = Callable[[Connection], Awaitable[str]]

Command = TypeVar("Command", bound="Callable[..., Any]")

_ENTITY: Final = EntityName()
_LISTED: Final = ("USER", "STATUS", "PASSWORD", "GROUPS")

_name = click.argument("name", callback=lambda _context, _parameter, value: entity(value))
_data = click.option(
    "--data",
    metavar="DIR",
    help="The queue manager is stopped; its data directory. Its owner may do everything: the way back in.",
)
_file = click.option("--password-file", metavar="FILE", help="The password is the first line of FILE.")


@click.group()
def user() -> None:
    """Define users, change and remove them, and list them.

    Each asks the running queue manager, or with --data works on the data of a stopped one. The first user has to be an
    administrator with a password: evermq user add NAME --groups mqm.
    """


def _about(command: Command) -> Command:
    """The options of all commands: where the queue manager is."""
    return _data(with_url(command))


@user.command()
@_name
@click.option("--groups", default="", metavar="G,...", help="The groups that it is in; mqm: an administrator.")
@click.option("--no-password", is_flag=True, help="It proves itself otherwise: by a certificate, a token, the socket.")
@click.option("--shared", is_flag=True, help="It is a user at each member of the queue-sharing group.")
@_file
@_about
def add(
    name: str, *, groups: str, no_password: bool, shared: bool, password_file: str | None, url: str, data: str | None
) -> None:
    """Define the user NAME, with a password that is asked for."""
    given = f" GROUPS({_quoted(groups.split(','))})" if groups else ""
    given += " QSGDISP(SHARED)" if shared else ""
    if not no_password:
        given += f" PASSWORD('{asked_hash(name, password_file)}')"
    _do(url, data, partial(define, name, given))


@user.command()
@_name
@_file
@_about
def password(name: str, *, password_file: str | None, url: str, data: str | None) -> None:
    """Give the user NAME another password."""
    _do(url, data, partial(_command, f"ALTER USER('{name}') PASSWORD('{asked_hash(name, password_file)}')"))


@user.command("hash")
@_name
@_file
def print_hash(name: str, *, password_file: str | None) -> None:
    """Print the hash of a password of the user NAME, for DEFINE USER in a file of commands."""
    say(asked_hash(name, password_file))


@user.command(context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})
@_name
@click.argument("changes", nargs=-1, type=click.UNPROCESSED, metavar="[+G] [-G]...")
@_about
def groups(name: str, *, changes: tuple[str, ...], url: str, data: str | None) -> None:
    """Put the user NAME into groups (+G), take it out of others (-G), and print those that it is in."""
    for change in changes:
        if change[:1] not in ("+", "-"):
            raise click.UsageError(f"{change}: +{change} puts {name} into the group, -{change} takes it out")
        entity(change[1:])

    async def work(connection: Connection) -> str:
        (reply,) = await connection.mqsc(f"DISPLAY USER('{name}') GROUPS")
        there = [each for each in str(_checked(reply).attributes[0]["GROUPS"]).split(",") if each.strip()]
        for change in changes:
            there = [each for each in there if each != change[1:]] + [change[1:]] * (change[0] == "+")
        if changes:
            await _command(f"ALTER USER('{name}') GROUPS({_quoted(there)})", connection)
        return ",".join(there) or f"{name} is in no group"

    _do(url, data, work)


@user.command()
@_name
@_about
def enable(name: str, *, url: str, data: str | None) -> None:
    """Let the user NAME connect again."""
    _do(url, data, partial(_command, f"ALTER USER('{name}') STATUS(ENABLED)"))


@user.command()
@_name
@_about
def disable(name: str, *, url: str, data: str | None) -> None:
    """Let the user NAME connect no more; its connections end."""
    _do(url, data, partial(_command, f"ALTER USER('{name}') STATUS(DISABLED)"))


@user.command()
@_name
@_about
def remove(name: str, *, url: str, data: str | None) -> None:
    """Delete the user NAME; its connections end. Its authority records stay."""
    _do(url, data, partial(_command, f"DELETE USER('{name}')"))


@user.command("list")
@_about
def list_users(*, url: str, data: str | None) -> None:
    """List the users: their status, if they have a password, and their groups."""

    async def work(connection: Connection) -> str:
        (reply,) = await connection.mqsc(f"DISPLAY USER(*) {' '.join(_LISTED[1:])}")
        if reply.code == "AMQ8147E":
            return "there are no users"
        rows = [[str(row[word]) for word in _LISTED] for row in _checked(reply).attributes]
        return "\n".join(table([[word.lower() for word in _LISTED], *rows]))

    _do(url, data, work)


def _do(url: str, data: str | None, work: Work) -> None:
    """Do it with a connection, and say what came of it."""
    say(converse(url, work, commands=True) if data is None else as_owner(Path(data), work))


def as_owner(data: Path, work: Work, name: str | None = None) -> str:
    """Do it as the owner of the queue manager that has its data here, which is stopped; with a name it may be new."""
    from broker import QueueManager  # which a client does not load
    from broker.storage.tools.stopped import owner_of

    async def owned() -> str:
        async with (
            QueueManager.open(name=name or owner_of(data), data=data) as manager,
            manager.connect("evermq") as connection,
        ):
            return await work(connection)

    try:
        return run(owned)
    except StoreUnusableError as error:
        raise CannotRunError(str(error)) from error


async def define(name: str, given: str, connection: Connection) -> str:
    """Define a user with the attributes that the text has; the text of the reply."""
    return await _command(f"DEFINE USER('{name}'){given}", connection)


async def _command(text: str, connection: Connection) -> str:
    (reply,) = await connection.mqsc(text)
    return _checked(reply).text


def _checked(reply: CommandReply) -> CommandReply:
    if not reply.ok:
        raise SomeFailedError(reply.text)
    return reply


def entity(name: str) -> str:
    """Return the name of a user or group. Raises UsageError for what is none."""
    if not name or not _ENTITY.accepts(name):
        raise click.UsageError(f"{name!r} is no name of a user or group: it takes {_ENTITY.syntax}")
    return name


def _quoted(names: Sequence[str]) -> str:
    """The names of groups for a command."""
    return ",".join(f"'{entity(each.strip())}'" for each in names) or "' '"
