"""The option `--version`."""

from __future__ import annotations

import click

import broker


def show_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    """The callback of `--version`."""
    if wanted:
        click.echo(f"evermq {broker.__version__}")
        context.exit()
