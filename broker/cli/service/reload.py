"""`evermq reload`: a daemon reads its configuration again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from broker.cli.conversation import converse, with_url
from broker.cli.program import SomeFailedError
from broker.cli.terminal.terminal import say

if TYPE_CHECKING:
    from broker import Connection


@click.command()
@with_url
def reload(url: str) -> None:
    """Have a daemon read its broker.toml again, and print what has changed.

    What can change while it runs takes effect at once. What cannot is named, and waits for the next start. A file with
    a mistake changes nothing, and the exit code is 10.
    """

    async def refresh(connection: Connection) -> str:
        (reply,) = await connection.mqsc("REFRESH CONFIG")
        text = reply.text.partition(": ")[2]
        if not reply.ok:
            raise SomeFailedError(text)
        return text

    say(converse(url, refresh, commands=True))
