"""From the text of a selector to a function. The grammar is `selector.lark`, LALR(1).

Each rule of the grammar becomes a `Node` as soon as it is parsed: a function of a lookup, the kind of its values as
far as the text tells it, and how deep functions are nested in it. The depth is bounded, the parser keeps its own stack:
no text can exhaust Python's.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedInput

from broker.core.selector.values import compare, like, pattern, reckon, truth
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.mqi.layouts.folders import Value

    Lookup: TypeAlias = Callable[[str], Value]
    Function: TypeAlias = Callable[[Lookup], Value]

LENGTH_MAX: Final = 10_240
"""The most characters in a selector (MQ_SELECTOR_LENGTH)."""

DEPTH_MAX: Final = 100
"""The depth to which conditions and expressions may be nested."""

CONDITION, NUMBER, TEXT, ANY = range(4)
_KINDS: Final = ("a condition", "a number", "a text", "anything")
_INTEGER_MAX: Final = 2**63
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Comparison(NamedTuple):
    """A name compared with a literal."""

    name: str
    order: str
    value: Value


class Node(NamedTuple):
    """A part of a selector. `names` are those it looks up; `name` is there when it is nothing but a name, and `value`
    when it is a literal. It cannot be true unless all of `conjuncts` are.
    """

    kind: int
    evaluate: Function
    names: frozenset[str]
    depth: int
    name: str = ""
    value: Value = None
    conjuncts: tuple[Comparison, ...] = ()


def compile_text(text: str) -> Node:
    """The condition that the text states. Raises SELECTOR_SYNTAX_ERROR (2459), SELECTION_STRING_ERROR (2519)."""
    if len(text) > LENGTH_MAX:
        raise MQError(MQRC.SELECTION_STRING_ERROR, f"{len(text)} characters: at most {LENGTH_MAX}")
    try:
        node: Node = _grammar().parse(text)  # type: ignore[assignment]  # what the transformer made of the whole
    except UnexpectedInput as error:
        position = error.pos_in_stream or 0
        raise _bad(f"character {position + 1}: {text[position : position + 20]!r} does not fit there") from None
    return _expect(node, CONDITION)


@cache
def _grammar() -> Lark:
    return Lark.open("selector.lark", rel_to=__file__, parser="lalr", lexer="basic", transformer=_Nodes())


def _bad(why: str) -> MQError:
    return MQError(MQRC.SELECTOR_SYNTAX_ERROR, why)


def _expect(node: Node, kind: int) -> Node:
    if node.kind not in (kind, ANY):
        raise _bad(f"{_KINDS[node.kind]} stands where {_KINDS[kind]} is needed")
    return node


def _node(kind: int, evaluate: Function, *parts: Node) -> Node:
    depth = 1 + max((part.depth for part in parts), default=0)
    if depth > DEPTH_MAX:
        raise _bad(f"conditions are nested more than {DEPTH_MAX} deep")
    return Node(kind, evaluate, frozenset().union(*(part.names for part in parts)), depth)


def _literal(kind: int, value: Value) -> Node:
    return _node(kind, lambda lookup: value)._replace(value=value)


def _inverse(node: Node) -> Node:
    evaluate = node.evaluate

    def inverse(lookup: Lookup) -> bool | None:
        value = truth(evaluate(lookup))
        return None if value is None else not value

    return _node(CONDITION, inverse, node)


def _junction(nodes: tuple[Node, ...], decisive: bool) -> Node:
    """AND, which False decides, or OR, which True decides; unknown where nothing does and something is unknown."""
    functions = [_expect(node, CONDITION).evaluate for node in nodes]

    def junction(lookup: Lookup) -> bool | None:
        result: bool | None = not decisive
        for evaluate in functions:
            value = truth(evaluate(lookup))
            if value is decisive:
                return decisive
            if value is None:
                result = None
        return result

    conjuncts = () if decisive else tuple(each for node in nodes for each in node.conjuncts)
    return _node(CONDITION, junction, *nodes)._replace(conjuncts=conjuncts)


def _comparison(left: Node, order: str, right: Node) -> Node:
    if order not in ("=", "<>"):
        left, right = _expect(left, NUMBER), _expect(right, NUMBER)
    first, second = left.evaluate, right.evaluate
    conjuncts: tuple[Comparison, ...] = ()
    if left.name and right.value is not None:
        conjuncts = (Comparison(left.name, order, right.value),)
    elif right.name and left.value is not None:
        conjuncts = (Comparison(right.name, _MIRRORED.get(order, order), left.value),)
    node = _node(CONDITION, lambda lookup: compare(order, first(lookup), second(lookup)), left, right)
    return node._replace(conjuncts=conjuncts)


def _chain(first: Node, *rest: Token | Node) -> Node:
    """Sums and products, from left to right."""
    start = _expect(first, NUMBER).evaluate
    nodes = [node for node in rest if isinstance(node, Node)]
    signs = [str(sign) for sign in rest if not isinstance(sign, Node)]
    steps = [(sign, _expect(node, NUMBER).evaluate) for sign, node in zip(signs, nodes, strict=True)]

    def chain(lookup: Lookup) -> Value:
        value = start(lookup)
        for sign, evaluate in steps:
            value = reckon(sign, value, evaluate(lookup))
        return value

    return _node(NUMBER, chain, first, *nodes)


def _name_only(node: Node, what: str) -> Node:
    if not node.name:
        raise _bad(f"{what} is for a property, not for an expression")
    return node


def _text(token: Token) -> str:
    return token[1:-1].replace("''", "'")


@v_args(inline=True)
class _Nodes(Transformer[Token, Node]):
    """The rules of the grammar by name."""

    def any(self, *nodes: Node) -> Node:
        return _junction(nodes, decisive=True)

    def all(self, *nodes: Node) -> Node:
        return _junction(nodes, decisive=False)

    def inverse(self, node: Node) -> Node:
        return _inverse(_expect(node, CONDITION))

    def comparison(self, left: Node, order: Token, right: Node) -> Node:
        return _comparison(left, str(order), right)

    def between(self, node: Node, low: Node, high: Node) -> Node:
        return _junction((_comparison(node, ">=", low), _comparison(node, "<=", high)), decisive=False)

    def not_between(self, node: Node, low: Node, high: Node) -> Node:
        return _inverse(self.between(node, low, high))

    def among(self, node: Node, *texts: Token) -> Node:
        evaluate = _name_only(node, "IN").evaluate
        listed = frozenset(_text(token) for token in texts)

        def among(lookup: Lookup) -> bool | None:
            value = evaluate(lookup)
            if isinstance(value, bytes):
                return any(compare("=", value, text) for text in listed)
            return None if value is None else isinstance(value, str) and value in listed

        return _node(CONDITION, among, node)

    def not_among(self, node: Node, *texts: Token) -> Node:
        return _inverse(self.among(node, *texts))

    def like(self, node: Node, text: Token, escape: Token | None = None) -> Node:
        evaluate = _name_only(node, "LIKE").evaluate
        by = "" if escape is None else _text(escape)
        if escape is not None and len(by) != 1:
            raise _bad(f"ESCAPE {escape}: a single character")
        try:
            pieces = pattern(_text(text), by)
        except ValueError as error:
            raise _bad(f"LIKE {text}: {error}") from None
        return _node(CONDITION, lambda lookup: like(pieces, evaluate(lookup)), node)

    def not_like(self, node: Node, text: Token, escape: Token | None = None) -> Node:
        return _inverse(self.like(node, text, escape))

    def is_null(self, node: Node) -> Node:
        evaluate = _name_only(node, "IS NULL").evaluate
        return _node(CONDITION, lambda lookup: evaluate(lookup) is None, node)

    def is_not_null(self, node: Node) -> Node:
        return _inverse(self.is_null(node))

    def sum(self, first: Node, *rest: Token | Node) -> Node:
        return _chain(first, *rest)

    def product(self, first: Node, *rest: Token | Node) -> Node:
        return _chain(first, *rest)

    def signed(self, sign: Token, node: Node) -> Node:
        evaluate = _expect(node, NUMBER).evaluate
        value = None if node.value is None else reckon(str(sign), 0, node.value)
        return _node(NUMBER, lambda lookup: reckon(str(sign), 0, evaluate(lookup)), node)._replace(value=value)

    def identifier(self, token: Token) -> Node:
        name = str(token)
        return Node(ANY, lambda lookup: lookup(name), frozenset((name,)), 1, name)

    def string(self, token: Token) -> Node:
        return _literal(TEXT, _text(token))

    def byte_string(self, token: Token) -> Node:
        return _literal(TEXT, bytes.fromhex(token[3:-1]))

    def integer(self, token: Token) -> Node:
        if len(token) > 20 or int(token) > _INTEGER_MAX:
            raise _bad(f"{token[:30]} needs more than 64 bits")
        return _literal(NUMBER, int(token))

    def float(self, token: Token) -> Node:
        return _literal(NUMBER, float(token))

    def true(self) -> Node:
        return _literal(CONDITION, value=True)

    def false(self) -> Node:
        return _literal(CONDITION, value=False)
