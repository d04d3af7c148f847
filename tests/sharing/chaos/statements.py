"""The statements of a session, by name, as they pass on the line to the database.

A statement is named by the function that it calls, else by its first word.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

_CALLED: Final = re.compile(r"\s*SELECT (?:\* FROM )?(\w+)\(")

_HEAD_BYTES: Final = 4
"""The length of a message, itself included. A type of one byte is before it, but for the first message."""
_PARSE, _BIND, _QUERY = b"P", b"B", b"Q"


def name_of(statement: str) -> str:
    """Return the name of a statement."""
    called = _CALLED.match(statement)
    if called:
        return called[1]
    words = statement.split(None, 1)
    return words[0].rstrip(";").upper() if words else "NOTHING"


class Statements:
    """What one session asks the database to do, read from the bytes of its protocol."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._has_begun = False
        self._prepared: dict[bytes, str] = {}

    def feed(self, piece: bytes) -> list[str]:
        """Return the names of the statements that are to be executed and whose last byte of the call is in `piece`."""
        self._bytes += piece
        names: list[str] = []
        while (message := self._next()) is not None:
            kind, body = message
            if kind == _PARSE:
                prepared, text, *_ = body.split(b"\0", 2)
                self._prepared[prepared] = name_of(text.decode())
            elif kind == _BIND:
                _, prepared, *_ = body.split(b"\0", 2)
                names.append(self._prepared[prepared])
            elif kind == _QUERY:
                names.append(name_of(body.rstrip(b"\0").decode()))
        return names

    def _next(self) -> tuple[bytes, bytes] | None:
        """Return the type and the content of the next message, when all of it is there."""
        typed = int(self._has_begun)
        head = typed + _HEAD_BYTES
        if len(self._bytes) < head:
            return None
        end = typed + int.from_bytes(self._bytes[typed:head])
        if len(self._bytes) < end:
            return None
        kind, body = bytes(self._bytes[:typed]), bytes(self._bytes[head:end])
        del self._bytes[:end]
        self._has_begun = True
        return kind, body


@dataclass
class Losses:
    """What all lines of a group lose of one statement, when it comes next, with its session: the statement itself
    (`before`), or the answer. Nobody who made the statement can tell which. `seen` counts statements, `lost` what was
    lost of each.
    """

    seen: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    name: str | None = None
    before: bool = False

    def lose(self, name: str, *, before: bool) -> None:
        """Lose this, once."""
        self.name, self.before = name, before

    def spare(self) -> None:
        """Lose nothing more."""
        self.name = None

    def judge(self) -> LossJudge:
        """Return a judge of a new line."""
        return LossJudge(self)


class LossJudge:
    """Judges what passes on one line."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._statements = Statements()
        self._loses_answer = False

    def to_server(self, piece: bytes) -> bytes | None:
        names, losses = self._statements.feed(piece), self._losses
        losses.seen.update(names)
        if losses.name not in names or losses.name is None:
            return piece
        losses.lost[f"{'statement' if losses.before else 'answer'} {losses.name}"] += 1
        losses.name = None
        if losses.before:
            return None
        self._loses_answer = True
        return piece

    def to_client(self, piece: bytes) -> bytes | None:
        return None if self._loses_answer else piece
