"""runCommandJSON: a command of MQSC as an object of JSON. It is written as MQSC, by the one table of attributes, and
run as any other: what a value means, and if it is allowed, is decided there alone.

Each value is quoted, so that what is text stays as it is, and no value can be anything but a value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from broker.commands.language.options import OPTIONS
from broker.commands.language.words import (
    COMMANDS,
    DISPLAY_OPTIONS,
    KEYWORDS,
    KEYWORDS_NOT_SUPPORTED,
    NAMELESS,
    NOUNS,
    NOUNS_NOT_SUPPORTED,
    VERBS,
    VERBS_NOT_SUPPORTED,
)
from broker.commands.table.attributes import TABLE
from broker.commands.table.forms import Flag
from broker.commands.table.statuses import STATUSES
from broker.http.rest.administration.run_command import not_valid

if TYPE_CHECKING:
    from collections.abc import Iterable

FIELDS: Final = ("type", "command", "qualifier", "name", "parameters", "responseParameters")
NAMED: Final = ("DEFINE", "ALTER", "DELETE", "DISPLAY", "CLEAR", "MOVE")
"""The verbs whose nouns have a name, but for those of which there is one."""

SHOWN_CHARACTERS: Final = 48

_CONTROL: Final = re.compile(r"[\0-\x1f\x7f]")
_WHERE: Final = re.compile(r"\s*([A-Za-z0-9]+)\s+([A-Za-z]+)\s+(.*?)\s*")
_YES_NO: Final = {"YES": True, "NO": False}

_ATTRIBUTES: Final = frozenset(keyword for rows in TABLE.values() for keyword in rows)
_FLAGS: Final = frozenset(
    keyword for rows in TABLE.values() for keyword, row in rows.items() if isinstance(row.form, Flag)
)
_FIGURES: Final = frozenset(keyword for status in STATUSES.values() for keyword in status.figures)
_OPTIONS: Final = frozenset(keyword for options in OPTIONS.values() for keyword in options)
_DISPLAY_OPTIONS: Final = frozenset(keyword for options in DISPLAY_OPTIONS.values() for keyword in options)
_KNOWN: Final = _ATTRIBUTES | _FIGURES | _OPTIONS | _DISPLAY_OPTIONS | {*KEYWORDS, *KEYWORDS_NOT_SUPPORTED}


class JsonCommand:
    """A command as JSON has it. `text` is the same in MQSC. Raises RestError (400) for what is none."""

    def __init__(self, body: dict[str, Any]) -> None:
        unknown = body.keys() - set(FIELDS)
        if unknown:
            raise not_valid(
                f"{min(unknown)[:SHOWN_CHARACTERS]!r} is no field of runCommandJSON: {', '.join(FIELDS)} are."
            )
        self.verb = _word(body, "command", VERBS | VERBS_NOT_SUPPORTED)
        self.noun = _word(body, "qualifier", NOUNS | NOUNS_NOT_SUPPORTED)
        self._name = _name_of(body, self.verb, self.noun)
        parameters = body.get("parameters", {})
        if not isinstance(parameters, dict):
            raise not_valid("'parameters' is no object.")
        self._parameters = parameters
        self._shown = body.get("responseParameters", [])
        if not isinstance(self._shown, list) or not all(isinstance(each, str) for each in self._shown):
            raise not_valid("'responseParameters' is no array of texts.")
        if self._shown and self.verb != "DISPLAY":
            raise not_valid(f"{self.verb} has no 'responseParameters': DISPLAY has.")
        self.text = " ".join(self._words())

    @property
    def displays(self) -> bool:
        """True if it displays something, and changes nothing."""
        return self.verb == "DISPLAY"

    def _words(self) -> Iterable[str]:
        yield self.verb
        yield self.noun if self._name is None else f"{self.noun}({_quoted('name', self._name)})"
        if self.noun not in COMMANDS.get(self.verb, ()):
            return  # the whole command is refused, whatever it says
        given = set()
        for key, value in self._parameters.items():
            keyword = _keyword(key)
            if keyword in given:
                raise not_valid(f"The parameter {key!r} is given twice.")
            given.add(keyword)
            yield from self._parameter(key, keyword, value)
        for key in self._shown:
            yield _keyword(key)

    def _parameter(self, key: str, keyword: str, value: object) -> Iterable[str]:
        options = OPTIONS.get((self.verb, self.noun), {})
        option = options.get(keyword)
        if keyword == "WHERE":
            yield _where(value)
        elif keyword == "ALL" and self.displays:
            if _flag(key, value):
                yield "ALL"
        elif (option is not None and option.value is not None) or (option is None and keyword in _FLAGS):
            if _flag(key, value):
                yield keyword
            elif option is None or f"NO{keyword}" in options:
                yield f"NO{keyword}"
        else:
            yield f"{keyword}({_values(key, value)})"


def _word(body: dict[str, Any], field: str, words: dict[str, str]) -> str:
    word = body.get(field)
    if not isinstance(word, str):
        raise not_valid(f"The required '{field}' is missing, or is no text.")
    if word.upper() not in words:
        raise not_valid(f"{word[:SHOWN_CHARACTERS]!r} is no {field} of MQSC.")
    return words[word.upper()]


def _name_of(body: dict[str, Any], verb: str, noun: str) -> str | None:
    name = body.get("name")
    if name is not None and not isinstance(name, str):
        raise not_valid("'name' is no text.")
    if noun in NAMELESS and name is not None:
        raise not_valid(f"{noun} has no 'name': there is one.")
    if name is None and verb in NAMED and noun not in NAMELESS and noun not in NOUNS_NOT_SUPPORTED:
        raise not_valid(f"The required 'name' of the {noun} is missing.")
    return name


def _keyword(key: str) -> str:
    """The keyword of a parameter. A flag has one name: the value says if it is on."""
    keyword = KEYWORDS.get(key.upper(), key.upper())
    negative = keyword.startswith("NO") and keyword.removeprefix("NO") in _FLAGS | _OPTIONS
    if keyword not in _KNOWN or (negative and keyword not in _ATTRIBUTES):
        says = f": {key[2:]!r} takes yes and no" if negative else ""
        raise not_valid(f"{key[:SHOWN_CHARACTERS]!r} is no parameter of MQSC{says}.")
    return keyword


def _flag(key: str, value: object) -> bool:
    known = value if isinstance(value, bool) else _YES_NO.get(value.upper()) if isinstance(value, str) else None
    if known is None:
        raise not_valid(f"The parameter {key!r} takes 'yes' or 'no'.")
    return known


def _values(key: str, value: object) -> str:
    if isinstance(value, list):
        return ",".join(_quoted(key, each) for each in value) or "' '"
    return _quoted(key, value)


def _quoted(key: str, value: object) -> str:
    """Return one value in quotes. Raises RestError (400) for what no value of MQSC can be."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise not_valid(f"The parameter {key!r} takes a text or a number, or an array of these.")
    text = str(value)
    if _CONTROL.search(text):
        raise not_valid(f"The parameter {key!r} has a control character, which MQSC cannot have.")
    return "'" + (text.replace("'", "''") or " ") + "'"


def _where(value: object) -> str:
    found = _WHERE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise not_valid("The parameter 'where' is a text of a keyword, an operator and a value: 'curdepth gt 0'.")
    keyword, operator, given = found.groups()
    if len(given) > 1 and given[0] == given[-1] == "'":
        given = given[1:-1].replace("''", "'")
    return f"WHERE({keyword} {operator} {_quoted('where', given)})"
