"""`evermq mqsc`: a session as runmqsc has it, from a file, standard input or a terminal.

The terminal blocks, so it keeps the main thread, where Ctrl-C arrives; the connection lives in a thread beside it.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click
from anyio.from_thread import start_blocking_portal

import broker
from broker.cli.conversation import left_in_peace, no_queue_manager, with_url
from broker.cli.program import CannotRunError
from broker.cli.terminal.terminal import write
from broker.client import connect
from broker.commands.language.session import QUEUE_MANAGER_NOT_AVAILABLE, ScriptSession
from broker.mqi import MQError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from broker.mqi.replies import CommandReply


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True), default="-")
@with_url
def mqsc(file: str, *, url: str) -> int:
    """Run MQSC or ZMQSC commands of FILE, or of standard input.

    The exit code is 0 when all of them were processed, 10 when some failed, 20 when there was no queue manager.
    """
    with contextlib.ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal(backend_options={"use_uvloop": True}))
        try:
            connecting = left_in_peace(connect(url, appl_name="evermq mqsc"))
            connection = stack.enter_context(portal.wrap_async_context_manager(connecting))
        except MQError as error:
            refused = ScriptSession(url, broker.__version__)
            write(refused.header() + refused.not_run(QUEUE_MANAGER_NOT_AVAILABLE))
            raise no_queue_manager(url, error) from error
        except ValueError as error:
            raise CannotRunError(str(error)) from error

        def send(command: str) -> list[CommandReply]:
            return portal.call(connection.mqsc, command)

        if file == "-" and sys.stdin.isatty():
            session = ScriptSession(connection.q_mgr_name, broker.__version__, echo=False)
            _run(session, _typed(session, connection.q_mgr_name), send)
        else:
            session = ScriptSession(connection.q_mgr_name, broker.__version__)
            _run(session, stack.enter_context(_source(file)), send)
        return session.exit_code


def _run(session: ScriptSession, lines: Iterable[str], send: Callable[[str], list[CommandReply]]) -> None:
    """Feed the session with lines and print what it says, up to its summary."""

    def answer(commands: list[str]) -> None:
        for command in commands:
            write("".join(map(session.reply, send(command))))

    write(session.header())
    for line in lines:
        echo, commands = session.feed(line)
        write(echo)
        answer(commands)
        if session.ended:
            break
    answer(session.finish())
    write(session.summary())


def _source(file: str) -> contextlib.AbstractContextManager[TextIO]:
    """The lines of a file. What is not UTF-8 in it cannot be sent: it becomes a replacement character."""
    if file == "-":
        sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]  # standard input is a TextIOWrapper
        return contextlib.nullcontext(sys.stdin)
    return Path(file).open(encoding="utf-8-sig", errors="replace")


def _typed(session: ScriptSession, q_mgr_name: str) -> Iterator[str]:
    """The lines that somebody types, with line editing where Python has it, until Ctrl-D."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # importing it is what gives `input` its line editing
    prompt, more = f"{q_mgr_name}> ", " " * len(q_mgr_name) + "> "
    while True:
        try:
            yield input(more if session.pending else prompt)
        except EOFError:
            print()
            return
