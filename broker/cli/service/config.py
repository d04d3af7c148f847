"""`evermq config`: the configuration that holds, and where each value comes from."""

from __future__ import annotations

from pathlib import Path

import click

from broker.cli.terminal.terminal import say
from broker.config import load_with_origins
from broker.config.printing import printed


@click.command()
@click.option("--config", "file", metavar="FILE", help="The configuration, a broker.toml. Without it: the defaults.")
@click.option("--effective", is_flag=True, help="Print the defaults that hold, too.")
def config(file: str | None, *, effective: bool) -> None:
    """Print the configuration, with the file or the variable that each value comes from.

    It is read as evermq run would read it now, the environment of this shell laid over the file. Passwords are ***.
    """
    loaded = load_with_origins(Path(file) if file else None)
    say("\n".join(printed(loaded, defaults=effective)))
