"""The command group: loads the command that is run, and turns everything that can go wrong into one line on standard
error and an exit code.

0: done. 10: some command failed, or the queue was empty. 20: it could not run at all (usage, configuration, no queue
manager). 130 and 141 are what a shell reports for Ctrl-C and for a reader that went away; both are silent.
"""

from __future__ import annotations

import errno
import gc
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import click

from broker.cli.terminal import streams
from broker.cli.terminal.terminal import warn, warn_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

DONE: Final = 0
SOME_FAILED: Final = 10
COULD_NOT_RUN: Final = 20
INTERRUPTED: Final = 130
READER_GONE: Final = 141


class CannotRunError(Exception):
    """The program cannot do what it was asked; the message is one line that says what to do about it. Exit code 20."""


class SomeFailedError(Exception):
    """A part of what was asked could not be done; the message says which. Exit code 10."""


class ListedCommand(NamedTuple):
    """A command before it is loaded: its name, the module that has it, and the first sentence of its help."""

    name: str
    module: str
    help: str

    def load(self) -> click.Command:
        """The command itself, which the module has under its name."""
        found = getattr(import_module(self.module), self.name.replace("-", "_"))
        assert isinstance(found, click.Command)
        return found


class Program(click.Group):
    """The group of all commands. Its `main` never lets a mistake out as a traceback."""

    def __init__(self, *arguments: Any, listed: Iterable[ListedCommand], **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._listed = {each.name: each for each in listed}
        self._alone = False

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run it as a process of its own. No garbage is looked for among the modules, now or ever: there is none, and
        a look takes a tenth of the start.
        """
        self._alone = True
        gc.disable()
        return super().__call__(*arguments, **keywords)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in order."""
        return sorted(self._listed)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command, loaded now; None when there is none of that name."""
        found = self._listed.get(cmd_name)
        command = found and found.load()
        if self._alone:
            gc.freeze()
            gc.enable()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for the help, of what is known of them unloaded."""
        limit = formatter.width - 6 - max(map(len, self._listed))
        rows = [
            (name, click.Command(name, help=self._listed[name].help).get_short_help_str(limit))
            for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def main(self, args: Any = None, prog_name: Any = None, *others: Any, **extra: Any) -> NoReturn:
        """Run a command and exit; without arguments, show the help."""
        streams.open_closed()
        words = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        try:
            code = super().main(words or ["--help"], prog_name or "evermq", *others, **extra)
            sys.stdout.flush()
        except BaseException as error:
            code = _reported(lone(error))
        sys.exit(code or DONE)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command in a context; its exit code. Click has ways of its own for some errors, so they end here."""
        try:
            return super().invoke(ctx)
        except BaseException as error:
            return _reported(lone(error))


def _reported(error: BaseException) -> int:
    """Say what went wrong; the exit code for it. A mistake of our own is raised again, with its traceback."""
    match error:
        case BrokenPipeError():
            _give_up_output()
            return READER_GONE
        case KeyboardInterrupt() | click.Abort():
            return INTERRUPTED
        case SystemExit():
            raise error
        case click.UsageError():
            return _failed(f"{error.format_message()}{_help(error)}", COULD_NOT_RUN)
        case click.ClickException():
            return _failed(error.format_message(), COULD_NOT_RUN)
        case CannotRunError():
            return _failed(str(error), COULD_NOT_RUN, error.__cause__)
        case SomeFailedError():
            return _failed(str(error), SOME_FAILED)
        case OSError():
            _give_up_output()
            if error.errno == errno.EBADF and not error.filename:
                return _failed("standard input or output is closed, which this command needs", COULD_NOT_RUN)
            place = f"{error.filename}: " if error.filename else ""
            return _failed(f"{place}{error.strerror or error}", COULD_NOT_RUN)
        case _:
            return _failed(str(error), _code_of(error), error)


def _code_of(error: BaseException) -> int:
    """The exit code for an error of the packages below, which are loaded here at the latest."""
    from broker.cli.conversation import NO_QUEUE_MANAGER
    from broker.config import ConfigError
    from broker.mqi import MQError

    match error:
        case ConfigError():
            return COULD_NOT_RUN
        case MQError():
            return COULD_NOT_RUN if error.reason in NO_QUEUE_MANAGER else SOME_FAILED
        case _:
            raise error


def _give_up_output() -> None:
    """Throw output away where it cannot be written: what is left in the buffer would fail again when the interpreter
    flushes it at its end.
    """
    try:
        sys.stdout.flush()
    except OSError:
        streams.throw_output_away()


def _failed(message: str, code: int, error: BaseException | None = None) -> int:
    """Say what went wrong, and below it the lines that its notes advise to write."""
    warn(f"evermq: {message}")
    for lines in getattr(error, "__notes__", ()):
        warn_lines(lines)
    return code


def _help(error: click.UsageError) -> str:
    return f" (see {error.ctx.command_path} --help)" if error.ctx else ""


def lone(error: BaseException) -> BaseException:
    """The first exception of a group: task groups are nobody's business out here."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
