"""The version of the installed distribution."""

from __future__ import annotations

import click


def evermq_version() -> str:
    """The version as the installer knows it; sources that were never installed have none."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import, and few commands ask

    try:
        return version("evermq")
    except PackageNotFoundError:
        return "(not installed)"


def show_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    """The callback of `--version`."""
    if wanted:
        click.echo(f"evermq {evermq_version()}")
        context.exit()
