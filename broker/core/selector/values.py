"""Values in a selector: how they compare, and what comes of arithmetic. None is SQL's NULL, and of a condition UNKNOWN.

Only like compares with like: numbers, whole or not, with each other; of texts, truth values and byte strings only
whether they are equal. Any other comparison is false. Byte strings are equal to the text of their hexadecimal digits,
`0x414D51`, in upper or lower case.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeGuard

    from broker.mqi.layouts.folders import Value

ORDERS: Final[dict[str, Callable[[float, float], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_LONG_MAX: Final = 2**63


def truth(value: Value) -> bool | None:
    """The value as a condition: what is no truth value is unknown."""
    return value if isinstance(value, bool) else None


def is_number(value: Value) -> TypeGuard[int | float]:
    """True if it is a number; a truth value is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def compare(order: str, left: Value, right: Value) -> bool | None:
    """`left` compared with `right`."""
    if left is None or right is None:
        return None
    if is_number(left) and is_number(right):
        return ORDERS[order](left, right)
    if order not in ("=", "<>"):
        return False
    if isinstance(left, bytes) != isinstance(right, bytes):
        left, right = _digits(left), _digits(right)
    if type(left) is not type(right):
        return False
    return (left == right) == (order == "=")


def _digits(value: Value) -> Value:
    """A byte string as its digits, and a text as what it would be if it were digits."""
    if isinstance(value, bytes):
        return "0X" + value.hex().upper()
    return value.upper() if isinstance(value, str) else value


def reckon(sign: str, left: Value, right: Value) -> Value:
    """Arithmetic; NULL where an operand is no number, the divisor 0, or a whole result needs more than 64 bits.

    The quotient of whole numbers is whole, rounded towards 0.
    """
    if not (is_number(left) and is_number(right)):
        return None
    if sign == "/":
        return _quotient(left, right)
    result = left + right if sign == "+" else left - right if sign == "-" else left * right
    return None if isinstance(result, int) and not -_LONG_MAX <= result < _LONG_MAX else result


def _quotient(left: float, right: float) -> Value:
    if not right:
        return None
    if isinstance(left, int) and isinstance(right, int):
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    return left / right


def pattern(text: str, escape: str) -> list[re.Pattern[str]]:
    """The pattern of a LIKE in the pieces between its `%`: `_` is any character, after `escape` a character is itself.

    Raises ValueError for an escape at the end.
    """
    pieces = [""]
    characters = iter(text)
    for character in characters:
        if character == escape:
            pieces[-1] += re.escape(_escaped(characters))
        elif character == "%":
            pieces.append("")
        else:
            pieces[-1] += "." if character == "_" else re.escape(character)
    return [re.compile(piece, re.DOTALL) for piece in pieces]


def _escaped(characters: Iterator[str]) -> str:
    try:
        return next(characters)
    except StopIteration:
        raise ValueError("the pattern ends with its escape character") from None


def like(pieces: list[re.Pattern[str]], value: Value) -> bool | None:
    """True if the text fits the pattern. Each piece is looked for once, leftmost first, so no text takes long."""
    if value is None:
        return None
    if not isinstance(value, str):
        return False
    if len(pieces) == 1:
        return pieces[0].fullmatch(value) is not None
    first, *inner, last = pieces
    found = first.match(value)
    for piece in inner:
        found = found and piece.search(value, found.end())
    if found is None:
        return False
    tail = len(value) - _length(last)
    return tail >= found.end() and last.fullmatch(value, tail) is not None


def _length(piece: re.Pattern[str]) -> int:
    """Return the number of characters that a piece stands for: it has no repetitions."""
    return len(re.sub(r"\\(.)", r"\1", piece.pattern, flags=re.DOTALL))
