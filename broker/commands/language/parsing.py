"""The parser of commands. The grammars are `mqsc.lark` and `zmqsc.lark`, both LALR(1).

Lark is imported here and in `broker.core.selector.compiling` alone: programs that never parse do without it.
"""

from __future__ import annotations

from functools import cache

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from broker.commands.language.syntax import Command, Item, Parameter, SyntaxFailure


@cache
def _grammar(name: str) -> Lark:
    return Lark.open(name, rel_to=__file__, parser="lalr")


def parse(grammar: str, text: str) -> Command:
    """The tree of a command in one of the grammars; raises SyntaxFailure."""
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
