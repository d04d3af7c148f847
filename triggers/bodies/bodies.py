"""Bodies: the data of a message as an object of the program, and back (handlers rules 8.2 to 8.4)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeAlias, TypeVar, get_args, get_origin

import msgpack

from broker import Message
from broker.mqi import MQFMT, characters
from triggers.bodies.annotations import bare, is_model, union_of
from triggers.bodies.converters import converter
from triggers.bodies.misfits import Misfit
from triggers.bodies.models import model_of_json
from triggers.bodies.plain_json import plain_json

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")
Reader: TypeAlias = Callable[[Message], Any]

CONTENT_TYPE: Final = "content_type"
TYPE: Final = "type"
"""The properties that tell what a body is."""

JSON: Final = "application/json"
ERRORS_REPORTED: Final = 3
"""The number of errors in a body that are reported."""

_STRING: Final = str(MQFMT.STRING)
_UTF_8: Final = 1208
_MSGPACK: Final = ("application/msgpack", "application/x-msgpack", "application/vnd.msgpack")


class Group(list[T]):
    """The bodies of a whole message group, in its order: `Group[Order]` as the annotation of a handler's body."""


class UnreadableError(Exception):
    """A body is not what the handler's annotation says. The text has the first errors with their paths, no values."""


class EncodedBody(NamedTuple):
    """A body as a message has it."""

    data: bytes
    format: str = ""
    ccsid: int = 0
    properties: Mapping[str, str] | None = None


_JSON_ALONE: Final[Mapping[str, str]] = {CONTENT_TYPE: JSON}


def written(body: object) -> EncodedBody:
    """A body to put: bytes as they are, text as MQSTR in UTF-8, all else as JSON with `content_type` and, where its
    class is the program's own, `type`.

    Raises TypeError for a number, None and a set, at the top or inside what JSON has no form for; ValueError for NaN.
    """
    if isinstance(body, bytes | bytearray | memoryview):
        return EncodedBody(bytes(body))
    if isinstance(body, str):
        return EncodedBody(body.encode(), _STRING, _UTF_8)
    own = type(body)
    if is_dataclass(own) or is_model(own):
        properties: Mapping[str, str] = {CONTENT_TYPE: JSON, TYPE: own.__name__}
    elif isinstance(body, dict | list | tuple):
        properties = _JSON_ALONE
    else:
        raise TypeError(
            f"a body is bytes, str, dict, list, a dataclass or a pydantic model, not {own.__name__}: "
            "put a number or None into a dict"
        )
    return EncodedBody(plain_json(body).encode(), _STRING, _UTF_8, properties)


def reader(annotation: Any) -> Reader:
    """Return a reader of the body of a message, by an annotation; it raises UnreadableError.

    Raises TypeError for an annotation that has no form, NameError for one that names what is not defined yet.
    """
    members = union_of(annotation)
    if members == (bytes,):
        return _data
    if members == (str,):
        return _text
    if members == (Message,):
        return _message
    structures = [each for each in members if each not in (bytes, str)]
    return _BodyReader(
        takes_bytes=bytes in members,
        takes_text=str in members,
        convert=converter(reduce(or_, structures)),
        by_name={each.__name__: each for each in structures if isinstance(each, type)} if len(structures) > 1 else {},
        model=structures[0] if len(structures) == 1 and is_model(structures[0]) else None,
    ).read


def value_reader(annotation: Any) -> Callable[[Any], Any]:
    """Return a reader of plain values, as JSON has them, by an annotation; it raises UnreadableError.

    Raises TypeError for an annotation that has no form, NameError for one that names what is not defined yet.
    """
    convert = converter(annotation)

    def read(value: Any) -> Any:
        try:
            return convert(value)
        except Misfit as misfit:
            raise _unreadable(misfit) from None

    return read


def listed(annotation: Any) -> Any | None:
    """The T of `list[T]`; None for another annotation."""
    annotation = bare(annotation)
    return get_args(annotation)[0] if get_origin(annotation) is list else None


def grouped(annotation: Any) -> Any | None:
    """The T of `Group[T]`, Any of `Group`; None for another annotation."""
    annotation = bare(annotation)
    if annotation is Group:
        return Any
    return get_args(annotation)[0] if get_origin(annotation) is Group else None


class _BodyReader:
    """Reads what has a structure, and in unions of it bytes and text besides."""

    def __init__(
        self,
        *,
        takes_bytes: bool,
        takes_text: bool,
        convert: Callable[[Any], Any],
        by_name: Mapping[str, type],
        model: type | None,
    ) -> None:
        self._takes_bytes = takes_bytes
        self._takes_text = takes_text
        self._convert = convert
        self._by_name = {name: converter(kind) for name, kind in by_name.items()}
        self._model = model

    def read(self, message: Message) -> object:
        properties = message.properties
        given = properties.get(CONTENT_TYPE)
        if given is None:
            return self._undeclared(message)
        content = str(given).partition(";")[0].strip().lower()
        if content == JSON or content.endswith("+json"):
            return self._json(_text(message), str(properties.get(TYPE, "")))
        if content in _MSGPACK:
            return self._converted(_unpacked(message.data), str(properties.get(TYPE, "")))
        if self._takes_text and content.startswith("text/"):
            return _text(message)
        if self._takes_bytes:
            return message.data
        raise UnreadableError(f"content_type {content[:80]!r} is neither JSON nor msgpack")

    def _undeclared(self, message: Message) -> object:
        """The body of a message without a content type: MQSTR is JSON, all else is bytes."""
        if message.md.format != _STRING:
            if self._takes_bytes:
                return message.data
            raise UnreadableError(
                f"format {message.md.format!r} and no property content_type: these are bytes, neither JSON nor msgpack"
            )
        text = _text(message)
        if not self._takes_text:
            return self._json(text, "")
        try:
            return self._json(text, "")
        except UnreadableError:
            return text

    def _json(self, text: str, named: str) -> object:
        if self._model is not None:
            try:
                return model_of_json(self._model, text)
            except Misfit as misfit:
                raise _unreadable(misfit) from None
        try:
            value = _decode(text)
        except (ValueError, RecursionError) as error:
            at = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            raise UnreadableError(f"the body is no JSON{at}") from None
        return self._converted(value, named)

    def _converted(self, value: object, named: str) -> object:
        convert = self._by_name.get(named, self._convert) if named else self._convert
        try:
            return convert(value)
        except Misfit as misfit:
            raise _unreadable(misfit) from None
        except RecursionError:
            raise UnreadableError("the body is nested too deeply") from None


def _data(message: Message) -> bytes:
    return message.data


def _message(message: Message) -> Message:
    return message


def _text(message: Message) -> str:
    md = message.md
    try:
        return characters(message.data, md.coded_char_set_id, md.encoding)
    except LookupError as error:
        raise UnreadableError(str(error)) from None
    except UnicodeDecodeError as error:
        raise UnreadableError(
            f"the body is not in coded character set {md.coded_char_set_id}, from byte {error.start} on"
        ) from None


def _unpacked(data: bytes) -> object:
    try:
        return msgpack.unpackb(data, timestamp=3, strict_map_key=False)
    except (ValueError, RecursionError, msgpack.UnpackException) as error:
        raise UnreadableError(f"the body is no msgpack ({type(error).__name__})") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_decode: Final[Callable[[str], Any]] = json.JSONDecoder(parse_constant=_refuse).decode


def _unreadable(misfit: Misfit) -> UnreadableError:
    reported = [f"{path.removeprefix('.') or 'the body'} {text}" for path, text in misfit.errors[:ERRORS_REPORTED]]
    more = len(misfit.errors) - len(reported)
    return UnreadableError("; ".join([*reported, f"and {more} more"] if more > 0 else reported))
