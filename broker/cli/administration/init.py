"""`evermq init`: a queue manager of one's own, with its first administrator, to be served to other machines."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import click

from broker.cli.administration.passwords import asked_hash
from broker.cli.administration.users import as_owner, define, entity
from broker.cli.program import CannotRunError
from broker.cli.terminal.terminal import say
from broker.mqi.names import is_name

_CONFIGURATION: Final = """\
[queue_manager]
name = "{name}"
data = "data"

# Other machines are served over TLS, when this has a certificate:
#
# [tls]
# host = "0.0.0.0"
# port = 1415
# certificate = "server.pem"
# key = "server.key"
"""


@click.command()
@click.argument("directory", metavar="DIR")
@click.option("--name", default="QM1", show_default=True, help="The name of the queue manager.")
@click.option("--admin", default="admin", show_default=True, metavar="NAME", help="The first administrator.")
@click.option("--password-file", metavar="FILE", help="The password is the first line of FILE.")
def init(directory: str, *, name: str, admin: str, password_file: str | None) -> None:
    """Make a queue manager in DIR: its broker.toml, its data, and the first administrator.

    The password of the administrator is asked for. From then on everybody who connects has to prove who he is; evermq
    user add defines others.
    """
    if not is_name(name):
        raise click.UsageError(f"{name!r} is no name of a queue manager: 1 to 48 characters from A-Z a-z 0-9 . / _ %")
    entity(admin)
    folder = Path(directory).absolute()
    file, data = folder / "broker.toml", folder / "data"
    if file.exists() or data.exists():
        raise CannotRunError(f"there is a queue manager in {folder} already: evermq run --config {file}")
    hashed = asked_hash(admin, password_file)
    folder.mkdir(parents=True, exist_ok=True)
    as_owner(data, partial(define, admin, f" GROUPS('mqm') PASSWORD('{hashed}')"), name)
    file.write_text(_CONFIGURATION.format(name=name), encoding="utf-8")
    say(f"queue manager {name} in {folder}: evermq run --config {file}")
