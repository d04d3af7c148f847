"""`evermq init`: a queue manager of one's own, with its first administrator, to be served to other machines."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from broker.cli.administration.passwords import asked_hash
from broker.cli.administration.users import as_owner, entity
from broker.cli.program import CannotRunError, SomeFailedError
from broker.cli.service import openssl
from broker.cli.terminal.terminal import say, warn_lines
from broker.mqi.errors import CommandFailedError
from broker.mqi.names import is_name

if TYPE_CHECKING:
    from broker import Connection

_CONFIGURATION: Final = """\
[queue_manager]
name = "{name}"
data = "data"

"""

_NO_TLS: Final = """\
# Other machines are served over TLS, when this has a certificate:
#
# [tls]
# host = "0.0.0.0"
# port = 1415
# certificate = "server.pem"
# key = "server.key"
"""

_TLS: Final = f"""\
[tls]
host = "0.0.0.0"
port = 1415
certificate = "tls/{openssl.CERTIFICATE}"
key = "tls/{openssl.KEY}"
"""

DEVELOPMENT: Final = """\
DEFINE QLOCAL(DEV.QUEUE.1)
DEFINE QLOCAL(DEV.QUEUE.2)
DEFINE QLOCAL(DEV.QUEUE.3)
DEFINE QLOCAL(DEV.DEAD.LETTER.QUEUE)
ALTER QMGR DEADQ(DEV.DEAD.LETTER.QUEUE)
* Applications come by DEV.APP.SVRCONN, as the users that they prove to be, and have the queues DEV.*
DEFINE CHANNEL(DEV.APP.SVRCONN) CHLTYPE(SVRCONN)
SET CHLAUTH(DEV.APP.SVRCONN) TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(CHANNEL) CHCKCLNT(REQUIRED)
SET AUTHREC OBJTYPE(QMGR) GROUP('dev') AUTHADD(CONNECT, INQ, DSP)
SET AUTHREC PROFILE(DEV.**) OBJTYPE(QUEUE) GROUP('dev') AUTHADD(BROWSE, GET, INQ, PASSALL, PUT, DSP)
* Administrators come by DEV.ADMIN.SVRCONN, by which the rules as delivered would let none in
DEFINE CHANNEL(DEV.ADMIN.SVRCONN) CHLTYPE(SVRCONN)
SET CHLAUTH(DEV.ADMIN.SVRCONN) TYPE(BLOCKUSER) USERLIST('nobody') ACTION(REPLACE)
SET CHLAUTH(DEV.ADMIN.SVRCONN) TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(CHANNEL) CHCKCLNT(REQUIRED)
"""
"""The objects of a queue manager for development, as IBM MQ's image has them."""


@click.command()
@click.argument("directory", metavar="DIR")
@click.option("--name", default="QM1", show_default=True, help="The name of the queue manager.")
@click.option("--admin", default="admin", show_default=True, metavar="NAME", help="The first administrator.")
@click.option("--password-file", metavar="FILE", help="The password is the first line of FILE.")
@click.option("--dev", is_flag=True, help="Make the queues DEV.QUEUE.1 to .3 and the channels of IBM MQ's image, too.")
@click.option("--app-password-file", metavar="FILE", help="With --dev: the password of a user app, who may use them.")
@click.option("--tls", metavar="NAME,...", help="Make a certificate for these names and addresses of the host.")
@click.option("--once", is_flag=True, help="Where there is a queue manager in DIR already, that is it.")
def init(  # noqa: PLR0913  # each an option
    directory: str,
    *,
    name: str,
    admin: str,
    password_file: str | None,
    dev: bool,
    app_password_file: str | None,
    tls: str | None,
    once: bool,
) -> None:
    """Make a queue manager in DIR: its broker.toml, its data, and the first administrator.

    The password of the administrator is asked for. From then on everybody who connects has to prove who he is; evermq
    user add defines others.

    With --tls the openssl program makes an authority (tls/ca.pem, which programs trust) and a certificate, and other
    machines are served. Where there is no such program, the lines that make them are printed, and the exit code is 10.
    """
    if not is_name(name):
        raise click.UsageError(f"{name!r} is no name of a queue manager: 1 to 48 characters from A-Z a-z 0-9 . / _ %")
    if app_password_file and not dev:
        raise click.UsageError("--app-password-file is for --dev")
    hosts = [] if tls is None else openssl.hosts_of(tls)
    folder = Path(directory).absolute()
    file, data = folder / "broker.toml", folder / "data"
    run = f"evermq run --config {file}"
    if file.exists() or data.exists():
        if once and file.exists():
            say(f"there is a queue manager in {folder} already: {run}")
            return
        raise CannotRunError(f"there is a queue manager in {folder} already: {run}")
    commands = [_user(admin, "mqm", password_file)]
    if app_password_file:
        commands.append(_user("app", "dev", app_password_file))
    if dev:
        commands.append(DEVELOPMENT)
    folder.mkdir(parents=True, exist_ok=True)
    lines = openssl.issue(folder / "tls", name, hosts) if hosts else ""
    as_owner(data, partial(_define, "\n".join(commands)), name)
    text = _CONFIGURATION.format(name=name)
    file.write_text(text + (_TLS if hosts and not lines else _NO_TLS), encoding="utf-8")
    say(f"queue manager {name} in {folder}: {run}")
    if lines:
        warn_lines(f"{lines}\n\n{_TLS}")
        raise SomeFailedError(
            "there is no openssl program, so there is no certificate: run the lines above where there is one, and "
            f"write those behind them into {file}"
        )


def _user(name: str, group: str, password_file: str | None) -> str:
    """Return the command that defines a user."""
    return f"DEFINE USER('{entity(name)}') GROUPS('{group}') PASSWORD('{asked_hash(name, password_file)}')"


async def _define(commands: str, connection: Connection) -> str:
    """Run commands, the first of which defines the first user. Raises SomeFailedError at the first that fails."""
    try:
        return (await connection.mqsc(commands, check=True))[-1].text
    except CommandFailedError as failed:
        raise SomeFailedError(failed.reply.text) from None
