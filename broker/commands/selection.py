"""Choose the objects for DISPLAY: generic names, and the one condition of WHERE."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.commands import errors
from broker.commands.table.authority_records import RightSet
from broker.commands.table.forms import Flag, Integer, ListOf, WordChoice

if TYPE_CHECKING:
    from collections.abc import Callable

from broker.commands.table.forms import Value, ValueForm


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
    """WHERE(keyword operator operand); the operand is a value of the attribute, with LK and NL a generic text, and
    with CT and EX one of its values.
    """

    keyword: str
    operator: str
    operand: Value
    form: ValueForm | None = None

    def holds(self, value: Value) -> bool:
        """True if an object whose attribute has this value is meant."""
        if self.operator in LIST_OPERATORS:
            fits = generic_match if self.operator.endswith("G") else operator.eq
            words = str(value if self.form is None else self.form.plain(value)).split(",")
            return any(fits(str(self.operand), word) for word in words) == self.operator.startswith("CT")
        if self.operator in LIKENESS:
            return generic_match(str(self.operand), str(value)) == (self.operator == "LK")
        return COMPARISONS[self.operator](value, self.operand)


def condition(form: ValueForm, keyword: str, comparison: str, operand: str) -> Condition:
    """The condition; raises CommandError (AMQ8425E) when the attribute has no such comparison or no such value."""
    possible = _operators(form)
    if comparison not in possible:
        raise errors.bad_value("WHERE", f"{keyword} {comparison}", " | ".join(possible))
    if comparison in (*LIKENESS, *LIST_OPERATORS):
        return Condition(keyword, comparison, operand, form)
    return Condition(keyword, comparison, form.read(keyword, operand))


def _operators(form: ValueForm) -> tuple[str, ...]:
    match form:
        case WordChoice() | Flag():
            return ("EQ", "NE")
        case Integer():
            return tuple(COMPARISONS)
        case ListOf() | RightSet():
            return LIST_OPERATORS
        case _:
            return (*COMPARISONS, *LIKENESS)
