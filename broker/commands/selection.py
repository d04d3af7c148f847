"""Choose the objects for DISPLAY: generic names, and the one condition of WHERE."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.commands import errors
from broker.commands.table.forms import Flag, Integer, WordChoice

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.commands.table.forms import Form, Value


def generic_match(pattern: str, name: str) -> bool:
    """True if the name fits: a trailing asterisk stands for any characters, anything else only for itself."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


COMPARISONS: dict[str, Callable[..., bool]] = {
    "LT": operator.lt,
    "GT": operator.gt,
    "EQ": operator.eq,
    "NE": operator.ne,
    "LE": operator.le,
    "GE": operator.ge,
}
LIKENESS = ("LK", "NL")
LIST_OPERATORS = ("CT", "EX", "CTG", "EXG")
OPERATORS = (*COMPARISONS, *LIKENESS, *LIST_OPERATORS)


@dataclass(frozen=True, slots=True)
class Condition:
    """WHERE(keyword operator operand); the operand is a value of the attribute, or with LK and NL a generic text."""

    keyword: str
    operator: str
    operand: Value

    def holds(self, value: Value) -> bool:
        """True if an object whose attribute has this value is meant."""
        if self.operator in LIKENESS:
            return generic_match(str(self.operand), str(value)) == (self.operator == "LK")
        return COMPARISONS[self.operator](value, self.operand)


def condition(form: Form, keyword: str, comparison: str, operand: str) -> Condition:
    """The condition; raises CommandError (AMQ8425E) when the attribute has no such comparison or no such value."""
    possible = _operators(form)
    if comparison not in possible:
        raise errors.bad_value("WHERE", f"{keyword} {comparison}", " | ".join(possible))
    if comparison in LIKENESS:
        return Condition(keyword, comparison, operand)
    return Condition(keyword, comparison, form.read(keyword, operand))


def _operators(form: Form) -> tuple[str, ...]:
    match form:
        case WordChoice() | Flag():
            return ("EQ", "NE")
        case Integer():
            return tuple(COMPARISONS)
        case _:
            return (*COMPARISONS, *LIKENESS)
