"""A script to its commands: lines, continuations, comments, blank lines, semicolons and END (rules L8 to L13).

What a command says is not looked at. A line may be of any length. Commands of both languages follow the same rules.
"""

from __future__ import annotations

import re

BLANKS = " \t\r"
CONTINUATIONS = ("+", "-")
END_WORDS = ("END", "EXIT", "QUIT")
_MARKS = re.compile(r"['\";]")


class ScriptReader:
    """Takes a script line by line and gives its commands as they become complete.

    `ended` is true once END, EXIT or QUIT was read: what follows is ignored.
    """

    def __init__(self) -> None:
        self.ended = False
        self._pieces: list[str] = []
        self._quote = ""  # the quote that is open, as strings may go on over lines
        self._continuation = ""

    @property
    def pending(self) -> bool:
        """Whether the last line said that its command goes on in the next."""
        return bool(self._continuation)

    def ignores(self, line: str) -> bool:
        """Whether the line is blank or a comment (L10). Within a string an asterisk counts only in the first column."""
        stripped = line.strip(BLANKS)
        return not stripped or line.startswith("*") or (not self._quote and stripped.startswith("*"))

    def feed(self, line: str) -> list[str]:
        """The commands that this line, given without its line end, completes: mostly none or one."""
        if self.ended or self.ignores(line):
            return []
        line = line.rstrip(BLANKS)
        if self._continuation == "+":
            line = line.lstrip(BLANKS)
        self._continuation = line[-1] if line.endswith(CONTINUATIONS) else ""
        commands = self._take(line.removesuffix(self._continuation))
        if not self._continuation:
            commands.append(self._completed())
        return self._until_end(commands)

    def finish(self) -> list[str]:
        """The command that the end of the script completes, if one was still going on."""
        return [] if self.ended else self._until_end([self._completed()])

    def _take(self, line: str) -> list[str]:
        """Add the line to the command begun; the commands that semicolons outside quotes end in it (L12)."""
        commands = []
        start = 0
        for mark in _MARKS.finditer(line):
            if self._quote:
                self._quote = "" if mark[0] == self._quote else self._quote
            elif mark[0] == ";":
                self._pieces.append(line[start : mark.start()])
                commands.append(self._completed())
                start = mark.end()
            else:
                self._quote = mark[0]
        self._pieces.append(line[start:])
        return commands

    def _completed(self) -> str:
        text = "".join(self._pieces).strip(BLANKS)
        self._pieces.clear()
        self._quote = ""
        return text

    def _until_end(self, commands: list[str]) -> list[str]:
        """The commands before END (L13), without empty ones."""
        for position, text in enumerate(commands):
            if text.upper() in END_WORDS:
                self.ended = True
                self._continuation = ""
                return list(filter(None, commands[:position]))
        return list(filter(None, commands))


def commands_of(text: str) -> list[str]:
    """The commands of a whole script."""
    reader = ScriptReader()
    return [command for line in text.split("\n") for command in reader.feed(line)] + reader.finish()


def located(text: str) -> list[tuple[int, str]]:
    """The commands of a whole script, each with the number of the line on which it begins."""
    reader = ScriptReader()
    found = []
    begun = 1
    for number, line in enumerate(text.split("\n"), 1):
        if not reader.pending:
            begun = number
        for command in reader.feed(line):
            found.append((begun, command))
            begun = number
    return [*found, *((begun, command) for command in reader.finish())]
