"""A script to its commands: lines, continuations, comments, blank lines, semicolons and END (L8 to L13).

What a command says is not looked at. A line may be of any length. Commands of both languages follow the same rules.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        """True if the last line said that its command goes on in the next."""
        return bool(self._continuation)

    def ignores(self, line: str) -> bool:
        """True if the line is blank or a comment (L10). Within a string an asterisk counts only in the first column."""
        stripped = line.strip(BLANKS)
        return not stripped or line.startswith("*") or (not self._quote and stripped.startswith("*"))

    def feed(self, line: str) -> list[str]:
        """The commands that this line, given without its line end, completes: mostly none or one."""
        return list(self.commands(line))

    def commands(self, line: str) -> Iterator[str]:
        """As `feed`, one command at a time: a line may hold very many."""
        if self.ended or self.ignores(line):
            return
        line = line.rstrip(BLANKS)
        if self._continuation == "+":
            line = line.lstrip(BLANKS)
        self._continuation = line[-1] if line.endswith(CONTINUATIONS) else ""
        for text in self._take(line.removesuffix(self._continuation)):
            if self._ends(text):
                return
            if text:
                yield text
        if not self._continuation:
            yield from self.finish()

    def finish(self) -> list[str]:
        """The command that the end of the script completes, if one was still going on."""
        text = "" if self.ended else self._completed()
        return [text] if text and not self._ends(text) else []

    def _take(self, line: str) -> Iterator[str]:
        """Add the line to the command begun; the commands that semicolons outside quotes end in it (L12)."""
        start = 0
        for mark in _MARKS.finditer(line):
            if self._quote:
                self._quote = "" if mark[0] == self._quote else self._quote
            elif mark[0] == ";":
                self._pieces.append(line[start : mark.start()])
                yield self._completed()
                start = mark.end()
            else:
                self._quote = mark[0]
        self._pieces.append(line[start:])

    def _completed(self) -> str:
        text = "".join(self._pieces).strip(BLANKS)
        self._pieces.clear()
        self._quote = ""
        return text

    def _ends(self, text: str) -> bool:
        """True if this command ends the script (L13)."""
        if text.upper() in END_WORDS:
            self.ended = True
            self._continuation = ""
        return self.ended


def commands_of(text: str) -> list[str]:
    """The commands of a whole script."""
    return list(filter(None, steps(text)))


def steps(text: str) -> Iterator[str]:
    """The commands of a whole script, one at a time, and an empty text at each line: a script may have very many of
    either, and whoever reads it something else to do.
    """
    reader = ScriptReader()
    start = 0
    while start <= len(text) and not reader.ended:
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield from reader.commands(text[start:end])
        yield ""
        start = end + 1
    yield from reader.finish()


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
