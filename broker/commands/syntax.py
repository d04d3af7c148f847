"""The text of one command to its syntax tree. The grammars are `mqsc.lark` and `zmqsc.lark`, both LALR(1).

A tree says what was written, word by word, and where; it does not know whether such a verb or keyword exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken


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
    return _parse("mqsc.lark", text)


def parse_zmqsc(text: str) -> Command:
    """The tree of a ZMQSC command; raises SyntaxFailure. Each value is the single item of its keyword."""
    return _parse("zmqsc.lark", text)


@cache
def _grammar(name: str) -> Lark:
    return Lark.open(name, rel_to=__file__, parser="lalr")


def _parse(grammar: str, text: str) -> Command:
    try:
        tree = _grammar(grammar).parse(text)
    except UnexpectedInput as error:
        raise SyntaxFailure(_failure_end(error, text)) from None
    verb, command_object, *parameters = (_parameter(part) for part in tree.children if isinstance(part, Tree))
    return Command(text, verb, command_object, tuple(parameters))


def _failure_end(error: UnexpectedInput, text: str) -> int:
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        return error.token.end_pos or len(text)
    if isinstance(error, UnexpectedCharacters):
        return (error.pos_in_stream or 0) + 1
    return len(text)


def _parameter(tree: Tree[Token]) -> Parameter:
    word, *tokens = (child for child in tree.children if isinstance(child, Token))
    items = tuple(_item(token) for token in tokens if token.type != "CLOSE")
    last = tokens[-1] if tokens else word
    return Parameter(word.upper(), items or None, last.end_pos or 0)


def _item(token: Token) -> Item:
    if token.type == "BARE":
        return Item(str(token), quoted=False)
    quote = token[0]
    return Item(token[1:-1].replace(quote * 2, quote), quoted=True)
