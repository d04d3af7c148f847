"""User properties in headers: `ibm-mq-usr: name;value;type, name;value;type`.

Strings stand in double quotes and are written as in JSON, so a quotation mark, a line end or a character beyond ASCII
is an escape, and no property can end a header. The types are `boolean`, `i1`, `i2`, `i4`, `i8`, `r4`, `r8`, `string`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, NoReturn

from broker.http.rest.messaging.versions import InvalidValueError, shown, twice
from broker.mqi import MQError
from broker.mqi.layouts.folders import TypedValue, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from broker.mqi.layouts.folders import Value

HEADER: Final = "ibm-mq-usr"

_NAME: Final = re.compile(r"(?:[^\W\d]|\$)[\w$]*")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_PLAIN: Final = re.compile(r'[^;,"]*')
_TYPE: Final = re.compile(r"[a-z0-9]*")
_ESCAPED_NAME: Final = re.compile(r"[^\x21-\x7e]|[;,\"\\]")
_JSON: Final = json.JSONDecoder(strict=False)
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?|-?INF|NaN")
_FLOAT_WORDS: Final = {"inf": "INF", "-inf": "-INF", "nan": "NaN"}


def properties_in(text: str) -> dict[str, TypedValue]:
    """Return the properties that a header says. Raises InvalidValueError."""
    found: dict[str, TypedValue] = {}
    reading = _PropertiesReading(text)
    while True:
        name = reading.name()
        reading.expect(";")
        written, quoted = reading.value()
        reading.expect(";")
        type = reading.word(_TYPE)
        if name in found:
            raise twice(HEADER, name)
        found[name] = typed(name, written, type, quoted=quoted)
        if reading.ended():
            return found
        reading.expect(",")


def properties_out(properties: Mapping[str, TypedValue]) -> str:
    """Return the header for properties; those that have no text in it, bytes and nulls, are left out."""
    return ", ".join(
        f"{_ESCAPED_NAME.sub(_escape, name)};{_text(each.value)};{_type(each)}"
        for name, each in properties.items()
        if each.value is not None and not isinstance(each.value, bytes)
    )


def typed(name: str, written: str, type: str, *, quoted: bool) -> TypedValue:
    """Return the value of a property as its folder has it. Raises InvalidValueError."""
    reader = _TYPES.get(type)
    if reader is None:
        raise InvalidValueError(HEADER, f"{shown(name)} has the type {shown(type)}; there are {', '.join(_TYPES)}")
    if quoted != (type == "string"):
        raise InvalidValueError(HEADER, f"{shown(name)}: a string, and nothing else, stands in double quotes")
    try:
        value = TypedValue(type, reader(written))
        encode({name: value})
    except (MQError, ValueError) as error:
        why = error.detail if isinstance(error, MQError) else f"{shown(written)} is no value of the type {type}"
        raise InvalidValueError(HEADER, f"{shown(name)}: {why}") from None
    return value


class _PropertiesReading:
    """A header that is being read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def ended(self) -> bool:
        self._skip()
        return self._at == len(self._text)

    def name(self) -> str:
        name = self.word(_NAME)
        if not name:
            self._fail("a name")
        return name

    def value(self) -> tuple[str, bool]:
        """The value, and True for one in double quotes."""
        self._skip()
        string = _STRING.match(self._text, self._at)
        if string is None:
            return self.word(_PLAIN).rstrip(), False
        self._at = string.end()
        try:
            return _JSON.decode(string[0]), True
        except ValueError:
            self._at = string.start()
            self._fail("a string with the escapes of JSON")

    def word(self, pattern: re.Pattern[str]) -> str:
        self._skip()
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[0]

    def expect(self, sign: str) -> None:
        self._skip()
        if not self._text.startswith(sign, self._at):
            self._fail(repr(sign))
        self._at += 1

    def _skip(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in " \t":
            self._at += 1

    def _fail(self, wanted: str) -> NoReturn:
        rest = self._text[self._at :]
        where = f"before {shown(rest)}" if rest else "at its end"
        raise InvalidValueError(HEADER, f"{wanted} is missing {where}; a property is name;value;type")


def _integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        raise ValueError(text)
    return int(text)


def _number(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise ValueError(text)
    return float(text)


def _boolean(text: str) -> bool:
    try:
        return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
    except KeyError:
        raise ValueError(text) from None


_TYPES: Final[dict[str, Callable[[str], Value]]] = {
    "boolean": _boolean,
    "i1": _integer,
    "i2": _integer,
    "i4": _integer,
    "i8": _integer,
    "r4": _number,
    "r8": _number,
    "string": str,
}


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value).replace("\x7f", "\\u007f")
    return _FLOAT_WORDS.get(str(value)) or repr(value)


def _type(each: TypedValue) -> str:
    """The type that a header names for one of a folder: the folder knows two more words."""
    return {"int": "i4", "char": "string"}.get(each.type, each.type)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return f"\\u{ord(character):04x}" if character < "\x80" else json.dumps(character)[1:-1]


def joined(values: Iterable[str]) -> str:
    """Return the text of a header that is repeated."""
    return ", ".join(values)
