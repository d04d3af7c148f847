"""`evermq config`: the configuration that holds, and where each value comes from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker.cli.terminal.terminal import say
from broker.config import SECTIONS, load_with_origins, settings
from broker.config.printing import toml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.config import LoadedConfig


@click.command()
@click.option("--config", "file", metavar="FILE", help="The configuration, a broker.toml. Without it: the defaults.")
@click.option("--effective", is_flag=True, help="Print the defaults that hold, too.")
def config(file: str | None, *, effective: bool) -> None:
    """Print the configuration, with the file or the variable that each value comes from.

    It is read as evermq run would read it now, the environment of this shell laid over the file. Passwords are ***.
    """
    loaded = load_with_origins(Path(file) if file else None)
    say("\n".join(_lines(loaded, defaults=effective)))


def _lines(loaded: LoadedConfig, *, defaults: bool) -> Iterator[str]:
    """Return the lines of a file that says the same, each with its origin behind it."""
    first = True
    for section in SECTIONS:
        values = getattr(loaded.config, section)
        rows = [
            (f"{key} = {toml(getattr(values, key))}", loaded.origins.get((section, key), "default"))
            for key in settings(section)
            if defaults or (section, key) in loaded.origins
        ]
        if rows:
            yield f"[{section}]" if first else f"\n[{section}]"
            first = False
        width = max((len(text) for text, _ in rows), default=0)
        for text, origin in rows:
            yield f"{text.ljust(width)}  # {origin}"
