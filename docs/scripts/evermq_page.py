"""Writes `docs/reference/evermq.md`, the reference of the command `evermq`: `python docs/scripts/evermq_page.py`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker.cli import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE = Path(__file__).parents[1] / "reference" / "evermq.md"

_HEAD = """\
# The command evermq

`python -m broker` is the same program. Commands that talk to a queue manager find it by `--url`, by the variable
`EVERMQ_URL`, or else at `mq://127.0.0.1:1414`; a Unix socket is `mq+unix:///path/to.sock`.

| exit code | |
| --- | --- |
| 0 | done |
| 10 | some command failed, or the queue was empty |
| 20 | it could not run at all: usage, configuration, no queue manager |
| 130, 141 | it was ended by Ctrl-C; the reader of its output went away |
"""


def page() -> str:
    """The whole page, in Markdown."""
    return _HEAD + "".join(_command(each.name, each.load()) for each in COMMANDS)


def _command(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name)
    usage = " ".join(["evermq", name, *command.collect_usage_pieces(context)])
    options = [each for each in command.params if isinstance(each, click.Option)]
    rows = "".join(f"| `{_syntax(each)}` | {_reported(each)} |\n" for each in options)
    table = f"\n| option | |\n| --- | --- |\n{rows}" if rows else ""
    reported = inspect.cleandoc(command.help or "")
    return f"\n## {name}\n\n```sh\n{usage}\n```\n\n{reported}\n{table}{_parts(name, command)}"


def _parts(name: str, command: click.Command) -> str:
    """Return the parts of a group of commands, a line each."""
    if not isinstance(command, click.Group):
        return ""
    rows = ""
    for part, each in command.commands.items():
        usage = " ".join(["evermq", name, part, *each.collect_usage_pieces(click.Context(each, info_name=part))])
        first = " ".join(inspect.cleandoc(each.help or "").split("\n\n")[0].split())
        rows += f"| `{usage}` | {first} |\n"
    return f"\n| command | |\n| --- | --- |\n{rows}"


def _syntax(option: click.Option) -> str:
    value = "" if option.is_flag else f" {option.metavar or option.type.name.upper().removesuffix(' RANGE')}"
    return f"{', '.join(option.opts)}{value}"


def _reported(option: click.Option) -> str:
    return " ".join([option.help or "", *_bounds(option)])


def _bounds(option: click.Option) -> Iterable[str]:
    if isinstance(option.type, click.IntRange | click.FloatRange):
        low, high = option.type.min, option.type.max
        yield f"{low:g} or more." if high is None else f"From {low:g} to {high:g}."


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
