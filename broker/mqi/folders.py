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
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

Value: TypeAlias = "bool | int | float | str | bytes | None"

NAME_LENGTH_MAX: Final = 4095
"""The most characters in the name of a property (MQ_MAX_PROPERTY_NAME_LENGTH)."""

_DEPTH_MAX: Final = 64  # of groups in groups

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
_TAG: Final = re.compile(
    r"""<(?P<end>/?)(?P<name>[^\s<>/="'&]++)
    (?P<attributes>(?:\s++[^\s<>/="'&]++\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'))*+)
    \s*+(?P<empty>/?)>""",
    re.VERBOSE,
)
_ATTRIBUTE: Final = re.compile(r"""([^\s=]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")
_ENTITY: Final = re.compile(r"&([a-z]*+;)?+")
_ENTITIES: Final = {"lt;": "<", "gt;": ">", "amp;": "&", "apos;": "'", "quot;": '"'}

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]{1,4})?|-?INF|NaN")
_HEX: Final = re.compile(r"(?:[0-9A-Fa-f]{2})*+")


class Folder(NamedTuple):
    """A folder: its text as it was written, and whether it holds properties (others, such as `psc`, hold commands)."""

    text: str
    holds_properties: bool


def read(text: str) -> Folder:
    """The folder that begins `text`, without the padding behind it. Raises RFH_FORMAT_ERROR (2421)."""
    text = text.rstrip(" \0")
    tag = _TAG.match(text)
    if tag is None or tag["end"]:
        raise _bad("a folder begins with its name in angle brackets", text)
    listed = tag["name"] in _PROPERTY_FOLDERS or _attributes(tag).get("content") == "properties"
    return Folder(text, listed)


def decode(folders: Iterable[str]) -> dict[str, Value]:
    """The properties in folders. Of several with one name the first counts. Raises RFH_FORMAT_ERROR (2421)."""
    found: dict[str, Value] = {}
    for text in folders:
        for name, value in _elements(text):
            found.setdefault(name, value)
    return found


def encode(properties: Mapping[str, Value]) -> list[str]:
    """The folders for these properties. Raises PROPERTY_NAME_ERROR (2442), PROPERTY_NAME_LENGTH_ERR (2513) and, for
    values of another type or integers of more than 64 bits, PROPERTY_TYPE_ERROR (2473).
    """
    folders: dict[str, list[str]] = {}
    for name, value in properties.items():
        folder, *path = _path(name)
        folders.setdefault(folder, []).append(_element(path, name, value))
    return [_folder(name, "".join(elements)) for name, elements in folders.items()]


# From text.


def _elements(text: str) -> Iterator[tuple[str, Value]]:
    """Every name and value in a folder."""
    open_tags: list[re.Match[str]] = []
    position = value_start = 0
    leaf = False  # whether the last tag opened an element, so that what follows may be its value
    while position < len(text):
        start = text.find("<", position)
        tag = _TAG.match(text, start) if start >= 0 else None
        closes_leaf = leaf and len(open_tags) > 1 and tag is not None and tag["end"]
        if tag is None or (text[position:start].strip() and not closes_leaf):
            raise _bad("neither a name nor a value stands there", text[position:])
        if not tag["end"]:
            if not open_tags and position:
                raise _bad("there is something after the end of the folder", text[position:])
            open_tags.append(tag)
            if len(open_tags) > _DEPTH_MAX:
                raise _bad(f"groups are nested more than {_DEPTH_MAX} deep", "")
            leaf, value_start = True, tag.end()
        if tag["end"] or tag["empty"]:
            if not open_tags or open_tags[-1]["name"] != tag["name"]:
                raise _bad("the end of an element does not fit its beginning", tag[0])
            if leaf and len(open_tags) > 1:
                value = "" if tag["empty"] else text[value_start:start]
                yield _name(open_tags), _value(open_tags[-1], value)
            open_tags.pop()
            leaf = False
        position = tag.end()
    if open_tags:
        raise _bad("the folder has no end", text[-40:])


def _name(tags: list[re.Match[str]]) -> str:
    names = [tag["name"] for tag in tags]
    return names[1] if len(names) == 2 and names[0] == "usr" else ".".join(names)


def _attributes(tag: re.Match[str]) -> dict[str, str]:
    return {name: first or second for name, first, second in _ATTRIBUTE.findall(tag["attributes"])}


def _value(tag: re.Match[str], text: str) -> Value:
    if not tag["attributes"]:
        return _plain(text)
    attributes = _attributes(tag)
    if attributes.get("xsi:nil") == "true":
        return None
    reader = _READERS.get(attributes.get("dt", "string"))
    value = None if reader is None else reader(text)
    if value is None:
        raise _bad(f"not a value of type {attributes['dt']!r}", text)
    return value


def _plain(text: str) -> str:
    return _ENTITY.sub(_character, text) if "&" in text else text


def _character(entity: re.Match[str]) -> str:
    character = _ENTITIES.get(entity[1])
    if character is None:
        raise _bad("only &lt; &gt; &amp; &apos; and &quot; stand for characters", entity[0])
    return character


def _boolean(text: str) -> bool | None:
    return {"1": True, "0": False}.get(text.strip())


def _bytes(text: str) -> bytes | None:
    digits = text.strip()
    return bytes.fromhex(digits) if _HEX.fullmatch(digits) else None


def _integer(bits: int) -> Callable[[str], int | None]:
    def read(text: str) -> int | None:
        digits = text.strip()
        number = int(digits) if _INTEGER.fullmatch(digits) else None
        return number if number is not None and _fits(number, bits) else None

    return read


def _float(text: str) -> float | None:
    digits = text.strip()
    return float(digits) if _FLOAT.fullmatch(digits) else None


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


def _bad(why: str, text: str) -> MQError:
    return MQError(MQRC.RFH_FORMAT_ERROR, f"{why}: {text[:40]!r}")


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


def _element(path: list[str], name: str, value: Value) -> str:
    attributes, text = _written(name, value)
    element = f"<{path[-1]}{attributes}>{text}</{path[-1]}>"
    for group in reversed(path[:-1]):
        element = f"<{group}>{element}</{group}>"
    return element


def _written(name: str, value: Value) -> tuple[str, str]:
    """The attributes and the text for a value."""
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
