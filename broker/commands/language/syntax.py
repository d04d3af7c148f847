"""The text of one command to its syntax tree.

A tree says what was written, word by word, and where; it does not know whether such a verb or keyword exists. The
parser is loaded with the first command (`broker.commands.language.parsing`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class SyntaxFailure(Exception):
    """The text is not a command; `end` is where the first token that does not fit ends."""

    def __init__(self, end: int) -> None:
        super().__init__(f"at {end}")
        self.end = end


class Item(NamedTuple):
    """One value: its text without quotes, doubled quotes made single, and whether it was in quotes."""

    text: str
    quoted: bool

    @property
    def folded(self) -> str:
        """The text that a name or string takes: upper case unless it was in quotes (L4)."""
        return self.text if self.quoted else self.text.upper()


@dataclass(frozen=True, slots=True)
class Parameter:
    """A keyword with the values in its parentheses, None when it had none. `end`: where it ends in the text."""

    keyword: str
    items: tuple[Item, ...] | None
    end: int


@dataclass(frozen=True, slots=True)
class Command:
    """A verb, an object (the noun with the name as its value), and the keywords that follow; words in upper case."""

    text: str
    verb: Parameter
    object: Parameter
    parameters: tuple[Parameter, ...]


def parse(text: str) -> Command:
    """The tree of an MQSC command; raises SyntaxFailure."""
    from broker.commands.language import parsing

    return parsing.parse("mqsc.lark", text)


def parse_zmqsc(text: str) -> Command:
    """The tree of a ZMQSC command; raises SyntaxFailure. Each value is the single item of its keyword."""
    from broker.commands.language import parsing

    return parsing.parse("zmqsc.lark", text)
