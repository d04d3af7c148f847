r"""Distinguished names of certificates, and the patterns that SSLPEER and SSLCERTI have for them (security 3.4).

A pattern lists attributes with values, separated by commas or semicolons: `CN=app*, OU=Sales, OU="Europe, North"`. It
fits a name that has each of them; what it does not list may be anything. Letter case does not matter. A `*` at the
beginning or the end of a value stands for any characters there; `\` before a character takes it as it is. OU and DC
may be listed several times: the first is compared with the first of the name, which is the highest, and so on.

A name is a sequence of attributes and values, `(("CN", "app1"), ("OU", "Sales"))`, those of higher units first.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Name: TypeAlias = "tuple[tuple[str, str], ...]"

SERIAL: Final = "SERIALNUMBER"
"""The number of the certificate itself, in hexadecimal digits."""

ATTRIBUTES: Final = (
    SERIAL, "MAIL", "UID", "CN", "T", "OU", "DC", "O", "STREET", "L", "ST", "PC", "C",
    "UNSTRUCTUREDNAME", "UNSTRUCTUREDADDRESS", "DNQ",
)  # fmt: skip
"""The attributes that a pattern can ask for, the one that says most first."""

_SEVERAL: Final = ("OU", "DC")
_SAME: Final = {"E": "MAIL", "USERID": "UID", "SP": "ST", "S": "ST"}
_OF_CERTIFICATES: Final = {
    "emailAddress": "MAIL", "userId": "UID", "commonName": "CN", "title": "T", "organizationalUnitName": "OU",
    "domainComponent": "DC", "organizationName": "O", "streetAddress": "STREET", "localityName": "L",
    "stateOrProvinceName": "ST", "postalCode": "PC", "countryName": "C", "unstructuredName": "UNSTRUCTUREDNAME",
    "unstructuredAddress": "UNSTRUCTUREDADDRESS", "dnQualifier": "DNQ",
}  # fmt: skip
"""The attributes by the names that `ssl` gives them. Its serialNumber is another one: that of the subject."""

_REMEMBERED: Final = 4096
_SEPARATORS: Final = ",;"


class NamePart(NamedTuple):
    """The pattern of one value: its text in one letter case, and at which ends there may be more."""

    attribute: str
    text: str
    begins: bool = True
    ends: bool = True

    def fits(self, value: str) -> bool:
        """True if the pattern fits a value."""
        text, given = self.text, _plain(self.attribute, value)
        if self.begins and self.ends:
            return given == text
        if self.begins:
            return given.startswith(text)
        return given.endswith(text) if self.ends else text in given

    @property
    def rank(self) -> tuple[int, str]:
        """The key by which patterns that fit one value are sorted: one without wildcards, then from the left."""
        wild = not (self.begins and self.ends)
        return (int(wild), "2" * (not self.begins) + "0" * len(self.text) + "2" * (not self.ends) + "4")


class _NoNameError(ValueError):
    """The text is no distinguished name; the exception says why."""


def check(text: str) -> str | None:
    """Return the error in a pattern, as a text; None if it has none. The empty one asks for nothing."""
    try:
        _parts(text)
    except _NoNameError as error:
        return f"{text!r} is no pattern of a distinguished name, {error}: give one as CN=app*, OU=Sales, O=Example"
    return None


def matches(pattern: str, name: Name) -> bool:
    """True if the pattern fits a name. One with an error fits none, the empty one all."""
    try:
        parts = _parts(pattern)
    except _NoNameError:
        return False
    return all(_fit(wanted, [value for kind, value in name if kind == each]) for each, wanted in parts.items())


@lru_cache(_REMEMBERED)
def rank(pattern: str) -> tuple[tuple[tuple[int, str], ...], ...]:
    """Return a key by which patterns that fit one name are sorted, the most specific first.

    They are compared attribute by attribute, in the order of `ATTRIBUTES`: one that asks for the attribute comes before
    one that does not, the more specific value before the other.
    """
    try:
        parts = _parts(pattern)
    except _NoNameError:
        parts = {}
    return tuple((*(part.rank for part in parts.get(each, ())), (2, "")) for each in ATTRIBUTES)


def parse(text: str) -> Name:
    """Take a name apart that somebody wrote; `ValueError` says why it is none. It has no wildcards."""
    return tuple((kind, _text(piece)) for kind, piece in _values(text))


def of_certificate(subject: Iterable[Iterable[tuple[str, str]]], serial: str = "") -> Name:
    """Return a name as `ssl.SSLSocket.getpeercert` gives it. `serial` is the number of the certificate."""
    own = ((SERIAL, serial),) if serial else ()
    named = ((_OF_CERTIFICATES.get(kind), value) for each in subject for kind, value in each)
    return own + tuple((kind, value) for kind, value in named if kind is not None)


def pattern_of(name: Name) -> str | None:
    """Return the pattern that fits this name and as few others as a pattern can; None if none fits it."""
    pattern = written(name)
    return pattern if pattern and matches(pattern, name) else None


def written(name: Name) -> str:
    """Return a name as a text."""
    return ",".join(f'{kind}="{_escaped(value)}"' for kind, value in name)


def _fit(wanted: tuple[NamePart, ...], values: list[str]) -> bool:
    """True if the values of an attribute are those that are wanted; of most attributes a name has one value."""
    several = wanted[0].attribute in _SEVERAL
    enough = len(values) >= len(wanted) if several else len(values) == 1
    return enough and all(part.fits(value) for part, value in zip(wanted, values, strict=False))


@lru_cache(_REMEMBERED)
def _parts(text: str) -> Mapping[str, tuple[NamePart, ...]]:
    """The patterns of values, by their attributes."""
    parts: dict[str, tuple[NamePart, ...]] = {}
    for kind, piece in _values(text):
        if kind in parts and kind not in _SEVERAL:
            raise _NoNameError(f"it has {kind} twice")
        begins, ends = piece[:1] != ["*"], piece[-1:] != ["*"]
        inner = piece[not begins : len(piece) - (not ends)] if piece != ["*"] else []
        part = NamePart(kind, _plain(kind, _text(inner), trimmed=begins), begins, ends)
        parts[kind] = (*parts.get(kind, ()), part)
    return parts


def _values(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the attributes of a text, and the characters of their values: of an escaped one both."""
    at = 0
    while text[at:].strip():
        equals = text.find("=", at)
        word = text[at:equals].lstrip().upper() if equals >= 0 else text[at:].strip()
        kind = _SAME.get(word, word)
        if equals < 0 or kind not in ATTRIBUTES:
            raise _NoNameError(f"{word!r} is none of {' '.join(ATTRIBUTES)} with = behind it")
        piece, at = _value(text, equals + 1)
        if not piece:
            raise _NoNameError(f"{kind} has no value")
        yield kind, piece


def _value(text: str, at: int) -> tuple[list[str], int]:
    """The characters of the value that begins here, without spaces around and quotation marks, and where the next
    attribute begins.
    """
    piece: list[str] = []
    kept = 0  # characters that belong to the value even if they are spaces
    quoted = False
    while at < len(text) and (quoted or text[at] not in _SEPARATORS):
        each = text[at]
        at += 1
        if each == "\\" and at < len(text):
            piece.append(each + text[at])
            at += 1
            kept = len(piece)
        elif each == '"':
            quoted = not quoted
            kept = len(piece)
        elif quoted or piece or each != " ":
            piece.append(each)
            kept = kept if each == " " and not quoted else len(piece)
    if quoted:
        raise _NoNameError("a quotation mark is not closed")
    return piece[:kept], at + 1


def _text(piece: Iterable[str]) -> str:
    return "".join(each[-1] for each in piece)


def _plain(attribute: str, value: str, *, trimmed: bool = True) -> str:
    """A value as it is compared: in one letter case, serial numbers without colons and leading zeros."""
    if attribute == SERIAL:
        value = value.replace(":", "")
        value = value.lstrip("0") if trimmed else value
    return value.casefold()


def _escaped(value: str) -> str:
    return "".join(f"\\{each}" if each in '\\"*' else each for each in value)
