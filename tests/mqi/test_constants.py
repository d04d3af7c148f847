"""The vocabulary against the table of MQ's constants: nothing wrong, nothing missing, nothing invented.

`constants.csv` lists name, value and group as MQ's headers have them: numbers in decimal, bytes as 0x.., characters
quoted with their padding.
"""

from __future__ import annotations

import csv
import re
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker.mqi import reasons
from broker.mqi.constants import (
    attribute_values,
    attributes,
    connections,
    consumers,
    descriptor,
    identifiers,
    objects,
    options,
    properties,
    subscriptions,
)

if TYPE_CHECKING:
    from types import ModuleType

MODULES = [
    attribute_values,
    attributes,
    connections,
    consumers,
    descriptor,
    identifiers,
    objects,
    options,
    properties,
    reasons,
    subscriptions,
]

LEFT_OUT = {
    "structures know their own identifiers": r"MQ[A-Z0-9]+_STRUC_ID",
    "structures know their own versions": r"MQ[A-Z0-9]+_(VERSION_\d|CURRENT_VERSION)",
    "structures know their own lengths": r"MQ[A-Z0-9]+_(LENGTH_\d|CURRENT_LENGTH|STRUC_LENGTH_FIXED(_\d)?)",
    "layouts and checks know the lengths of fields": r"MQ_\w+_LENGTH",
    "masks are no members, some are constants": r"MQ[A-Z]+_\w+_MASK",
    "ranges are no members, some are constants": r"MQ(RC|MT|FB|AT)_\w+_(FIRST|LAST)|MQ(IA|CA)_(FIRST|LAST|LAST_USED)",
}


def value_of(text: str) -> int | str | bytes:
    """Return Python's value for one of the table: characters without padding, a lone byte as its number."""
    if text.startswith("'"):
        characters = text[1:-1]
        return characters if len(characters) == 1 else characters.rstrip()
    if text.startswith("0x"):
        data = bytes.fromhex(text[2:])
        return data[0] if len(data) == 1 else data
    return int(text)


def read_table() -> dict[str, int | str | bytes]:
    with (Path(__file__).parent / "constants.csv").open(newline="") as file:
        return {row["name"]: value_of(row["value"]) for row in csv.DictReader(file)}


def enums_of(module: ModuleType) -> list[type[Enum]]:
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Enum) and value.__module__ == module.__name__
    ]


def members() -> dict[str, Any]:
    """Every member under the name that MQ's headers give it; `_8K` is `MQDSB_8K` there."""
    return {
        f"{enum.__name__}_{name.removeprefix('_')}": member.value
        for module in MODULES
        for enum in enums_of(module)
        for name, member in enum.__members__.items()
    }


def constants() -> dict[str, Any]:
    return {
        name: value for module in MODULES for name, value in vars(module).items() if re.fullmatch(r"MQ[A-Z]+_\w+", name)
    }


def is_left_out(name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in LEFT_OUT.values())


TABLE = read_table()


def test_every_member_has_the_value_of_its_row() -> None:
    assert members() == {name: TABLE.get(name) for name in members()}


def test_every_plain_constant_has_the_value_of_its_row() -> None:
    assert constants() == {name: TABLE.get(name) for name in constants()}


def test_every_row_is_represented_unless_a_rule_leaves_it_out() -> None:
    represented = members().keys() | constants().keys()
    assert [name for name in TABLE if name not in represented and not is_left_out(name)] == []


def test_no_member_is_one_that_a_rule_leaves_out() -> None:
    assert [name for name in members() if is_left_out(name)] == []


@pytest.mark.parametrize("pattern", LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_every_rule_leaves_something_out(pattern: str) -> None:
    assert any(re.fullmatch(pattern, name) for name in TABLE)


def test_every_family_lives_in_one_module() -> None:
    names = [enum.__name__ for module in MODULES for enum in enums_of(module)]
    assert len(names) == len(set(names))


def test_every_family_says_what_it_is() -> None:
    assert [enum for module in MODULES for enum in enums_of(module) if not enum.__doc__] == []
