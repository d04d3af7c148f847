"""A session as runmqsc prints it: header, source lines with numbers, replies, summary, exit code. Nothing is sent here.

Whoever runs a session prints `header()`, gives each source line to `feed`, prints what it echoes, sends the commands it
completes, prints `reply()` of each answer; at the end of the input, or once `ended`, sends what `finish()` still gives
and prints `summary()`. An interactive session echoes nothing, as the user has typed the lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.commands.errors import without_secrets
from broker.commands.language.script import ScriptReader

if TYPE_CHECKING:
    from broker.mqi.replies import CommandReply

EXIT_DONE = 0
EXIT_SOME_FAILED = 10
EXIT_NOT_RUN = 20

NO_SUCH_QUEUE_MANAGER = "AMQ8118E: IBM MQ queue manager does not exist."
QUEUE_MANAGER_NOT_AVAILABLE = "AMQ8146E: IBM MQ queue manager not available."


class Turn(NamedTuple):
    """The outcome of one source line: text to print, and commands to send."""

    echo: str
    commands: list[str]


class ScriptSession:
    """One session with one queue manager. All texts returned end with a line end, or are empty."""

    def __init__(self, q_mgr_name: str, version: str, *, echo: bool = True) -> None:
        self._q_mgr_name = q_mgr_name
        self._version = version
        self._echo = echo
        self._reader = ScriptReader()
        self._read = 0
        self._syntax_errors = 0
        self._failures = 0
        self._warned: set[str] = set()
        self._run = True

    @property
    def ended(self) -> bool:
        """True if END, EXIT or QUIT was read."""
        return self._reader.ended

    @property
    def pending(self) -> bool:
        """True if the next line continues a command: for the prompt."""
        return self._reader.pending

    @property
    def exit_code(self) -> int:
        """0 when all went well, 10 when some command failed, 20 when none could run."""
        if not self._run:
            return EXIT_NOT_RUN
        return EXIT_SOME_FAILED if self._syntax_errors or self._failures else EXIT_DONE

    def header(self) -> str:
        """The lines before everything else."""
        return f"EverMQ {self._version}\nStarting MQSC for queue manager {self._q_mgr_name}.\n\n\n"

    def feed(self, line: str) -> Turn:
        """Take one source line, with or without its line end."""
        line = line.rstrip("\r\n")
        numbered = not self._reader.pending and not self._reader.ignores(line)
        commands = self._reader.feed(line)
        number = f"{self._read + 1:6} " if numbered else " " * 7
        self._read += len(commands)
        return Turn(f"{number}: {without_secrets(line)}\n" if self._echo else "", commands)

    def finish(self) -> list[str]:
        """The command that the end of the input completes, if the last line was to be continued."""
        commands = self._reader.finish()
        self._read += len(commands)
        return commands

    def reply(self, reply: CommandReply) -> str:
        """Count the answer to a command, and print it."""
        self._syntax_errors += not reply.ok and reply.syntax_error
        self._failures += not reply.ok and not reply.syntax_error
        repeated = self._warned.intersection(
            reply.warnings
        )  # its commands were sent one by one, as scripts of their own
        self._warned.update(reply.warnings)
        return "".join(f"{line}\n" for line in reply.text.split("\n") if line not in repeated)

    def not_run(self, message: str) -> str:
        """The whole output, after the header, of a session whose queue manager cannot be reached (exit code 20)."""
        self._run = False
        return f"{message}\n" if message == NO_SUCH_QUEUE_MANAGER else f"{message}\n{self.summary()}"

    def summary(self) -> str:
        """The three lines after everything else."""
        read = {0: "No MQSC commands read.", 1: "One MQSC command read."}
        wrong = {0: "No commands have a syntax error.", 1: "One command has a syntax error."}
        failed = {
            0: "All valid MQSC commands were processed.",
            1: "One valid MQSC command could not be processed.",
        }
        return "\n".join(
            (
                read.get(self._read, f"{self._read} MQSC commands read."),
                wrong.get(self._syntax_errors, f"{self._syntax_errors} commands have a syntax error."),
                failed.get(self._failures, f"{self._failures} valid MQSC commands could not be processed."),
                "",
            )
        )
