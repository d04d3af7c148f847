"""Folders: the text in an MQRFH2 that holds message properties, one folder of names and typed values each.

    <usr><colour>red</colour><n dt='i4'>5</n></usr>

The text looks like XML and is not: there are no declarations, comments, entities beyond the usual five or sections of
data, and so nothing here expands, fetches or nests without end. Property `colour` stands in the folder `usr`,
`wmq.colour` in the folder `wmq`, `wmq.paint.colour` there in the group `paint`.

    a value     in a folder               a value       in a folder
    str         no dt, or 'string'        float         'r8'; read from 'r4' too
    bool        'boolean', 1 or 0         bytes         'bin.hex'
    int         'i4', or 'i8' where it    None          xsi:nil='true'
                needs it; 'i1', 'i2' read
"""

from __future__ import annotations

import re
from binascii import unhexlify
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

Value: TypeAlias = "bool | int | float | str | bytes | None"

NAME_LENGTH_MAX: Final = 4095
"""The most characters in the name of a property (MQ_MAX_PROPERTY_NAME_LENGTH)."""

_DEPTH_MAX: Final = 64  # of groups in groups
_FLOAT_LENGTH_MAX: Final = 1000  # a number of so many digits takes no time to read
_SHOWN: Final = 40  # characters of what is wrong, in the text of an error

_PROPERTY_FOLDERS: Final = frozenset(
    ("ibm", "jms", "mcd", "mq", "mq_svc", "mq_usr", "mqema", "mqext", "mqps", "mqtt", "sib", "sib_context", "sib_usr",
     "usr")
)  # fmt: skip
"""The folders that hold properties without saying so; others say content='properties'."""

_RESERVED_WORDS: Final = frozenset(
    ("NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE")
)
_RESERVED_FOLDERS: Final = frozenset(("Root", "mq", "psc", "pscr"))

_NAME: Final = re.compile(r"(?:[^\W\d]|\$)[\w$]*+(?:\.(?:[^\W\d]|\$)[\w$]*+)*+")
_ATTRIBUTES: Final = r"""((?:\s++[^\s<>/="'&]++\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+')){0,16}+)"""
_TAG: Final = re.compile(rf"""<(?P<end>/?)(?P<name>[^\s<>/="'&]++)(?P<attributes>{_ATTRIBUTES})\s*+(?P<empty>/?)>""")
_ELEMENT: Final = re.compile(rf"""\s*+<([^\s<>/="'&]++){_ATTRIBUTES}\s*+>([^<]*+)</\1\s*+>""")
_ATTRIBUTE: Final = re.compile(r"""([^\s=]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")
_ENTITIES: Final = {"&lt;": "<", "&gt;": ">", "&apos;": "'", "&quot;": '"'}  # and, when these are done, &amp;

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]{1,4})?|-?INF|NaN")


class TypedValue(NamedTuple):
    """A value together with its type as a folder has it: `string`, `boolean`, `i1`, `r4`, ... ."""

    type: str
    value: Value


class Folder(NamedTuple):
    """A folder: its text as it was written, its name, and whether it holds properties (others, such as `psc`, hold
    commands).
    """

    text: str
    name: str
    holds_properties: bool


def read(text: str) -> Folder:
    """The folder that begins `text`, without the padding behind it. Raises RFH_FORMAT_ERROR (2421)."""
    text = text.rstrip(" \0")
    tag = _TAG.match(text)
    if tag is None or tag["end"]:
        raise _bad("a folder begins with its name in angle brackets", text)
    name = tag["name"]
    listed = name in _PROPERTY_FOLDERS or _attributes(tag["attributes"]).get("content") == "properties"
    return Folder(text, name, listed)


def decode(folders: Iterable[str], most: int | None = None) -> dict[str, Value]:
    """The properties in folders. Of several with one name the first counts. Raises RFH_FORMAT_ERROR (2421) and, where
    there are more than `most` properties, groups and attributes (but for `dt`), PROPERTIES_TOO_BIG (2478).
    """
    found: dict[str, Value] = {}
    reader = _Reader(most)
    for text in folders:
        for name, value in reader.elements(text):
            found.setdefault(name, value)
    return found


def decode_typed(folders: Iterable[str]) -> dict[str, TypedValue]:
    """The properties in folders with the types that they are written with, as `decode` finds them."""
    found: dict[str, TypedValue] = {}
    reader = _TypedReader(None)
    for text in folders:
        for name, value in reader.typed_elements(text):
            found.setdefault(name, value)
    return found


def encode(properties: Mapping[str, Value | TypedValue]) -> list[str]:
    """The folders for these properties; a `TypedValue` has its own type. Raises PROPERTY_NAME_ERROR (2442), also where
    two names mean one property (`a` and `usr.a`), PROPERTY_NAME_LENGTH_ERR (2513) and, for values of another type or
    integers of more than 64 bits, PROPERTY_TYPE_ERROR (2473).
    """
    folders: dict[str, list[str]] = {}
    named: dict[tuple[str, ...], str] = {}
    for name, value in properties.items():
        folder, *path = _path(name)
        other = named.setdefault((folder, *path), name)
        if other != name:
            raise MQError(MQRC.PROPERTY_NAME_ERROR, f"{other!r} and {name!r} are one property: name it once")
        folders.setdefault(folder, []).append(_element(path, name, value))
    return [_folder(name, "".join(elements)) for name, elements in folders.items()]


# From text.


class _Reader:
    """Reads the elements of folders: at most `most` of them in all, with those attributes that are not just a type."""

    def __init__(self, most: int | None) -> None:
        self._left = most
        self._most = most

    def elements(self, text: str) -> Iterator[tuple[str, Value]]:
        """Every name and value in a folder."""
        open_names: list[str] = []
        prefixes: list[str] = []  # of the names in each of them
        attributes = ""
        position = value_start = 0
        leaf = False  # whether the last tag opened an element, so that what follows may be its value
        while position < len(text):
            element = _ELEMENT.match(text, position) if open_names else None
            if element is not None:  # most are this: a name, a value and the name again
                name, written, value = element.groups()
                self._count(len(open_names) + 1)
                yield _joined(prefixes[-1], name), self._value(written, value)
                leaf, position = False, element.end()
                continue
            start = text.find("<", position)
            tag = _TAG.match(text, start) if start >= 0 else None
            closes_leaf = leaf and len(open_names) > 1 and tag is not None and tag["end"]
            if tag is None or (text[position:start].strip() and not closes_leaf):
                raise _bad("neither a name nor a value stands there", text[position : position + _SHOWN])
            name = tag["name"]
            if not tag["end"]:
                if open_names:
                    self._count(len(open_names) + 1)
                elif position:
                    raise _bad("there is something after the end of the folder", text[position : position + _SHOWN])
                prefixes.append(_prefix(prefixes, name))
                open_names.append(name)
                attributes = tag["attributes"]
                leaf, value_start = True, tag.end()
            if tag["end"] or tag["empty"]:
                if not open_names or open_names[-1] != name:
                    raise _bad("the end of an element does not fit its beginning", tag[0])
                if leaf and len(open_names) > 1:
                    value = "" if tag["empty"] else text[value_start:start]
                    yield _joined(prefixes[-2], name), self._value(attributes, value)
                open_names.pop()
                prefixes.pop()
                leaf = False
            position = tag.end()
        if open_names:
            raise _bad("the folder has no end", text[-_SHOWN:])

    def _value(self, written: str, text: str) -> Value:
        """The value of an element with these attributes, as they are written."""
        reader = _USUAL.get(written)
        if reader is None:
            attributes = _attributes(written)
            self._spend(written.count("="))
            if attributes.get("xsi:nil") == "true":
                return None
            reader = _READERS.get(attributes.get("dt", "string"))
        value = None if reader is None else reader(text)
        if value is None:
            raise _bad(f"not a value of the type in {written!r:.80}", text)
        return value

    def _count(self, depth: int) -> None:
        """One more element, so deep in groups."""
        if depth > _DEPTH_MAX:
            raise _bad(f"groups are nested more than {_DEPTH_MAX} deep", "")
        self._spend(1)

    def _spend(self, count: int) -> None:
        if self._left is not None:
            self._left -= count
            if self._left < 0:
                raise MQError(
                    MQRC.PROPERTIES_TOO_BIG,
                    f"a message has at most {self._most} properties, groups of them, and attributes other than dt",
                )


class _TypedReader(_Reader):
    """Reads the types of elements too."""

    def __init__(self, most: int | None) -> None:
        super().__init__(most)
        self._type = ""

    def typed_elements(self, text: str) -> Iterator[tuple[str, TypedValue]]:
        """Every name and value in a folder, with the type of the value."""
        for name, value in self.elements(text):
            yield name, TypedValue(self._type, value)

    def _value(self, written: str, text: str) -> Value:
        self._type = _attributes(written).get("dt", "string")
        return super()._value(written, text)


def _prefix(prefixes: list[str], name: str) -> str:
    """Return the prefix of the names of properties in a folder or group; nothing for those right in `usr`."""
    if not prefixes:
        return "" if name == "usr" else f"{name}."
    if not prefixes[-1]:
        return f"usr.{name}."
    return _joined(prefixes[-1], name) + "."


def _joined(prefix: str, name: str) -> str:
    if len(prefix) + len(name) > NAME_LENGTH_MAX:
        raise _bad(f"a name has more than {NAME_LENGTH_MAX} characters", name)
    return prefix + name


def _attributes(text: str) -> dict[str, str]:
    return {name: first or second for name, first, second in _ATTRIBUTE.findall(text)}


def _plain(text: str) -> str:
    if "&" not in text:
        return text
    for entity, character in _ENTITIES.items():
        text = text.replace(entity, character)
    if text.count("&") != text.count("&amp;"):
        raise _bad("only &lt; &gt; &amp; &apos; and &quot; stand for characters", text[text.find("&") :])
    return text.replace("&amp;", "&")


def _boolean(text: str) -> bool | None:
    return {"1": True, "0": False}.get(text.strip())


def _bytes(text: str) -> bytes | None:
    try:
        return unhexlify(text.strip())
    except ValueError:  # also where a character is not ASCII
        return None


def _integer(bits: int) -> Callable[[str], int | None]:
    highest = 1 << (bits - 1)

    def read(text: str) -> int | None:
        digits = text.strip()
        number = int(digits) if _INTEGER.fullmatch(digits) else highest
        return number if -highest <= number < highest else None

    return read


def _float(text: str) -> float | None:
    digits = text.strip()
    return float(digits) if len(digits) <= _FLOAT_LENGTH_MAX and _FLOAT.fullmatch(digits) else None


_READERS: Final[dict[str, Callable[[str], Value]]] = {
    "string": _plain,
    "char": _plain,
    "boolean": _boolean,
    "bin.hex": _bytes,
    "i1": _integer(8),
    "i2": _integer(16),
    "i4": _integer(32),
    "int": _integer(32),
    "i8": _integer(64),
    "r4": _float,
    "r8": _float,
}
_USUAL: Final = {"": _plain} | {f" dt='{name}'": reader for name, reader in _READERS.items()}
"""By all the attributes that an element mostly has, as they are written."""


def _bad(why: str, text: str) -> MQError:
    return MQError(MQRC.RFH_FORMAT_ERROR, f"{why}: {text[:_SHOWN]!r}")


def _fits(number: int, bits: int) -> bool:
    return -(1 << (bits - 1)) <= number < 1 << (bits - 1)


# To text.


def _path(name: str) -> list[str]:
    """The folder, groups and element of a property."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.upper() in _RESERVED_WORDS:
        raise MQError(MQRC.PROPERTY_NAME_ERROR, f"{name!r}: letters, digits, _ and $, parted by dots, no word of SQL")
    if len(name) > NAME_LENGTH_MAX:
        raise MQError(MQRC.PROPERTY_NAME_LENGTH_ERR, f"a name of {len(name)} characters: at most {NAME_LENGTH_MAX}")
    parts = name.split(".")
    if len(parts) == 1:
        parts.insert(0, "usr")
    if parts[0] in _RESERVED_FOLDERS or name.removeprefix("usr.").startswith("JMS") or len(parts) > _DEPTH_MAX:
        raise MQError(MQRC.PROPERTY_NAME_ERROR, f"{name!r} is reserved, or has too many parts")
    return parts


def _element(path: list[str], name: str, value: Value | TypedValue) -> str:
    attributes, text = _written(name, value)
    element = f"<{path[-1]}{attributes}>{text}</{path[-1]}>"
    for group in reversed(path[:-1]):
        element = f"<{group}>{element}</{group}>"
    return element


def _written(name: str, value: Value | TypedValue) -> tuple[str, str]:
    """The attributes and the text for a value."""
    if isinstance(value, TypedValue):
        return _written_as(name, value)
    if isinstance(value, str):
        return "", _escaped(name, value)
    if value is None:
        return " xsi:nil='true'", ""
    if isinstance(value, bool):
        return " dt='boolean'", str(int(value))
    if isinstance(value, int) and _fits(value, 64):
        return f" dt='{'i4' if _fits(value, 32) else 'i8'}'", str(int(value))
    if isinstance(value, float):
        return " dt='r8'", _WORDS.get(str(value)) or repr(float(value))
    if isinstance(value, bytes):
        return " dt='bin.hex'", value.hex().upper()
    raise MQError(
        MQRC.PROPERTY_TYPE_ERROR,
        f"{name} is {value!r:.80}: a property is a bool, int of 64 bits, float, str, bytes or None",
    )


def _written_as(name: str, typed: TypedValue) -> tuple[str, str]:
    """The attributes and the text for a value of this type."""
    type, value = typed
    _, text = _written(name, value)
    if type == "string" and isinstance(value, str):
        return "", text
    reader = _READERS.get(type)
    if reader is None or isinstance(value, str) or reader(text) is None:
        raise MQError(MQRC.PROPERTY_TYPE_ERROR, f"{name} is {value!r:.80}, which is no value of the type {type}")
    return f" dt='{type}'", text


_WORDS: Final = {"inf": "INF", "-inf": "-INF", "nan": "NaN"}


def _escaped(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise MQError(MQRC.PROPERTY_TYPE_ERROR, f"{name} holds half of a character: {error}") from error
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _folder(name: str, elements: str) -> str:
    attributes = "" if name in _PROPERTY_FOLDERS else " content='properties'"
    if " xsi:nil=" in elements:
        attributes += " xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance'"
    return f"<{name}{attributes}>{elements}</{name}>"
