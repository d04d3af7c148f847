"""The parameters of a command: its options and attributes, and the values that they are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.commands import errors
from broker.commands.errors import did_you_mean
from broker.commands.language.options import OPTIONS
from broker.commands.language.words import KEYWORDS, NOUNS, keyword_error, syntax_error
from broker.commands.selection import OPERATORS, condition
from broker.commands.table.attributes import TABLE
from broker.commands.table.channel_rules import CHANNEL_PROFILE
from broker.commands.table.channels import CHANNEL_NAME
from broker.commands.table.forms import Flag, ListOf
from broker.commands.table.row import Attribute, Origin
from broker.commands.table.statuses import UNIT_NAME_LENGTH
from broker.commands.table.structures import STRUCTURE_NAME
from broker.commands.table.users import EntityName
from broker.mqi.names import NAME_LENGTH, is_name

if TYPE_CHECKING:
    from broker.commands.language import syntax
    from broker.commands.language.options import CommandOption
    from broker.commands.selection import Condition
    from broker.commands.table.forms import Value, ValueForm
    from broker.core.names.definitions import Attributes

NOT_FOR_WHERE = ("TYPE", "QSGDISP", "PASSWORD", "LDAPPWD")
_FREE_NAMES = {"INDOUBT": UNIT_NAME_LENGTH, "SINK": NAME_LENGTH, "THREAD": UNIT_NAME_LENGTH}
"""Nouns whose names may have any printable characters, and how many."""
_SHORT_NAMES = {
    "CFSTATUS": STRUCTURE_NAME.length, "CFSTRUCT": STRUCTURE_NAME.length, "CHANNEL": CHANNEL_NAME.length,
}  # fmt: skip
_OWN_FORMS: dict[str, ValueForm] = {"USER": EntityName(), "CHLAUTH": CHANNEL_PROFILE}
"""Of nouns whose names are not those of objects."""


def object_name(command: syntax.Command, parameter: syntax.Parameter, *, generic: bool = False) -> str:
    """The name of an object, with `generic` with an asterisk at its end, or one alone. Raises CommandError."""
    name = single(command, parameter).folded.rstrip(" ")
    noun = NOUNS.get(parameter.keyword, parameter.keyword)
    stem = name.removesuffix("*") if generic or noun == "CHLAUTH" else name
    longest = _FREE_NAMES.get(noun)
    if longest is not None:
        valid = len(stem) <= longest and stem.isprintable()
    elif noun in _OWN_FORMS:
        _OWN_FORMS[noun].check(parameter.keyword, stem)
        valid = True
    else:
        valid = not stem or is_name(stem, _SHORT_NAMES.get(noun, NAME_LENGTH))
    if not name or not valid:
        raise errors.bad_name(parameter.keyword, name)
    return name


def single(command: syntax.Command, parameter: syntax.Parameter) -> syntax.Item:
    """The value of a keyword that takes exactly one."""
    if parameter.items is None or len(parameter.items) != 1:
        raise syntax_error(command.text, parameter.end)
    return parameter.items[0]


def alone(command: syntax.Command, parameter: syntax.Parameter) -> None:
    """Insist that the keyword has no value."""
    if parameter.items is not None:
        raise syntax_error(command.text, parameter.end)


def parameters(command: syntax.Command, verb: str, noun: str) -> tuple[dict[str, Value], Attributes]:
    """The options of the command, and the attributes that it gives."""
    options: dict[str, Value] = {}
    given: Attributes = {}
    for parameter in command.parameters:
        option = OPTIONS[verb, noun].get(parameter.keyword)
        if option is not None:
            add(options, option.setting, option_value(command, parameter, option))
            continue
        gives = verb in ("DEFINE", "ALTER") or (verb, noun) == ("SET", "CHLAUTH")
        row = _row_given(noun, parameter.keyword) if gives else None
        if row is None:
            raise keyword_error(command.text, parameter, (noun,) if gives else (), OPTIONS[verb, noun])
        add(given, row.keyword, _value(command, parameter, row))
    _check_together(given)
    return options, given


def add(values: dict[str, Value], keyword: str, value: Value) -> None:
    if keyword in values:
        raise errors.duplicate_keyword(keyword)
    values[keyword] = value


def option_value(command: syntax.Command, parameter: syntax.Parameter, option: CommandOption) -> Value:
    if option.value is not None:
        alone(command, parameter)
        return option.value
    if option.form is not None:
        return read_value(command, parameter, option.form, parameter.keyword)
    return object_name(command, parameter)


def _row_given(kind: str, keyword: str) -> Attribute | None:
    """The attribute that the keyword sets; NO before a flag's keyword clears it."""
    row = TABLE[kind].get(KEYWORDS.get(keyword, keyword))
    if row is None and keyword.startswith("NO"):
        row = TABLE[kind].get(keyword.removeprefix("NO"))
        row = row if row is not None and isinstance(row.form, Flag) else None
    return row if row is not None and row.origin is Origin.GIVEN else None


def _value(command: syntax.Command, parameter: syntax.Parameter, row: Attribute) -> Value:
    if isinstance(row.form, Flag):
        alone(command, parameter)
        return int(parameter.keyword == row.keyword)
    return read_value(command, parameter, row.form, row.keyword)


def read_value(command: syntax.Command, parameter: syntax.Parameter, form: ValueForm, keyword: str) -> Value:
    """The value of a keyword, which only a list may have several of. Raises CommandError."""
    if isinstance(form, ListOf) and parameter.items:
        text = ",".join(item.folded for item in parameter.items)
    else:
        text = single(command, parameter).folded
    value = form.read(keyword, text)
    form.check(keyword, value)
    return value


def _check_together(given: Attributes) -> None:
    """QDEPTHHI >= QDEPTHLO where a command gives both; alone each may have any value, as the other may follow."""
    if "QDEPTHHI" in given and "QDEPTHLO" in given and int(given["QDEPTHHI"]) < int(given["QDEPTHLO"]):
        raise errors.conflict("QDEPTHHI is less than QDEPTHLO", syntax_error=True)


def where(command: syntax.Command, parameter: syntax.Parameter, forms: dict[str, ValueForm]) -> Condition:
    if parameter.items is None or len(parameter.items) != 3:
        raise syntax_error(command.text, parameter.end)
    keyword, comparison, operand = parameter.items
    word = KEYWORDS.get(keyword.text.upper(), keyword.text.upper())
    if word not in forms:
        raise syntax_error(command.text, parameter.end, did_you_mean(keyword.text.upper(), forms))
    if word in NOT_FOR_WHERE or comparison.text.upper() not in OPERATORS:
        raise syntax_error(command.text, parameter.end)
    return condition(forms[word], word, comparison.text.upper(), operand.folded)
