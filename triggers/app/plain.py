"""Objects and plain values: what JSON and msgpack have words for, checked against the annotation of a handler.

A converter is made of an annotation once, when the handler is declared. It tells what does not fit by its path, and
never by its value: that may be anybody's secret. Fields that an annotation does not know are ignored, missing ones take
their default: old messages must outlive new code (handlers rule 8.2).
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import json
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NoReturn,
    NotRequired,
    Required,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

Converter: TypeAlias = Callable[[Any], Any]

FORMS: Final = (
    "str, int, float, bool, None, bytes, datetime, date, time, timedelta, UUID, Decimal, Enum, Literal, dataclass, "
    "TypedDict, pydantic model, list, tuple and dict of these, unions of these, Any"
)
"""The forms of a body, for the texts of errors."""

_NONE: Final = type(None)
_KINDS: Final = {
    _NONE: "null", bool: "a bool", int: "an integer", float: "a number", str: "text", bytes: "bytes", list: "a list",
    dict: "an object",
}  # fmt: skip


class Misfit(Exception):
    """A value is not what an annotation says. `errors` are paths, such as `.lines[2].price`, each with what is wrong
    there.
    """

    def __init__(self, *errors: tuple[str, str]) -> None:
        super().__init__(*errors)
        self.errors = errors

    def under(self, step: str) -> list[tuple[str, str]]:
        """Its errors as seen from one step above."""
        return [(step + path, text) for path, text in self.errors]


def plain_json(value: object) -> str:
    """The JSON of a body. Raises TypeError for what JSON and this project have no form for, such as a set; ValueError
    for NaN, for infinity, and for what contains itself.
    """
    return _ENCODER.encode(value)


def _plain(value: object) -> object:
    """A form for what the encoder does not know."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if is_model(type(value)):
        return value.model_dump(mode="json", by_alias=True)  # type: ignore[attr-defined]
    for kinds, form in _WRITTEN:
        if isinstance(value, kinds):
            return form(value)
    raise TypeError(f"a body has no form for {type(value).__name__}; what it may be made of: {FORMS}")


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError(f"a body has no form for Decimal({str(value)!r})")
    return str(value)


_WRITTEN: Final[tuple[tuple[Any, Callable[[Any], object]], ...]] = (
    (enum.Enum, lambda value: value.value),
    (datetime | date | time, lambda value: value.isoformat()),
    (UUID, str),
    (Decimal, _decimal),
    (timedelta, timedelta.total_seconds),
    (bytes | bytearray | memoryview, lambda value: base64.b64encode(value).decode()),
    (Mapping, dict),
)

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)


def is_model(kind: object) -> bool:
    """True if a class is a model of pydantic 2; found out without importing that."""
    return isinstance(kind, type) and hasattr(kind, "__pydantic_core_schema__") and hasattr(kind, "model_validate_json")


def union_of(annotation: object) -> tuple[Any, ...]:
    """The members of a union; of anything else the annotation itself."""
    annotation = bare(annotation)
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(bare(each) for each in get_args(annotation))
    return (annotation,)


def bare(annotation: Any) -> Any:
    """An annotation without the names and remarks that are round it."""
    while True:
        if get_origin(annotation) in (Annotated, NotRequired, Required):
            annotation = get_args(annotation)[0]
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return annotation


def converter(annotation: Any) -> Converter:
    """Return a converter from plain values to those of the annotation; it raises Misfit.

    Raises TypeError, which names the part of the annotation that has no form, and NameError for a name that is not
    defined yet.
    """
    return _Compiler().converter(annotation)


class _Compiler:
    """Makes converters; one for a class, which may contain itself."""

    def __init__(self) -> None:
        self._classes: dict[type, Converter] = {}

    def converter(self, annotation: Any) -> Converter:
        annotation = bare(annotation)
        if annotation in (Any, object):
            return _as_it_is
        if annotation is None:
            annotation = _NONE
        members = union_of(annotation)
        if len(members) > 1:
            return self._union(members)
        origin = get_origin(annotation)
        if origin is Literal:
            return _literal(get_args(annotation))
        if origin is not None or annotation in (list, tuple, dict, Mapping, Sequence):
            return self._collection(origin or annotation, get_args(annotation))
        if isinstance(annotation, type) and annotation in _SCALARS:
            return _SCALARS[annotation]
        if isinstance(annotation, type):
            return self._class(annotation)
        raise _formless(annotation)

    def _class(self, kind: type) -> Converter:
        if kind in self._classes:
            return lambda value: self._classes[kind](value)
        if issubclass(kind, enum.Enum):
            return _enum(kind)
        if is_model(kind):
            return partial(_model, kind)
        if not dataclasses.is_dataclass(kind) and not typing.is_typeddict(kind):
            raise _formless(kind)
        self._classes[kind] = _as_it_is  # until it is there: a class that contains itself asks later
        made = self._typed_dict(kind) if typing.is_typeddict(kind) else self._dataclass(kind)
        self._classes[kind] = made
        return made

    def _dataclass(self, kind: type) -> Converter:
        hints = get_type_hints(kind, include_extras=True)
        fields = [field for field in dataclasses.fields(kind) if field.init]
        converters = {field.name: self.converter(hints[field.name]) for field in fields}
        missing = dataclasses.MISSING
        required = [field.name for field in fields if field.default is missing and field.default_factory is missing]

        def make(value: object) -> object:
            found = _fields(value, converters, required)
            try:
                return kind(**found)
            except Misfit:
                raise
            except (TypeError, ValueError) as error:  # its __post_init__, whose text may tell values
                raise Misfit(("", f"{kind.__name__} does not take it ({type(error).__name__})")) from None

        return make

    def _typed_dict(self, kind: type) -> Converter:
        hints = get_type_hints(kind, include_extras=True)
        converters = {name: self.converter(hint) for name, hint in hints.items()}
        required = [name for name, hint in hints.items() if _is_required(kind, name, hint)]
        return partial(_fields, converters=converters, required=required)

    def _union(self, members: Sequence[Any]) -> Converter:
        exact = {each for each in members if isinstance(each, type) and each in _SCALARS}
        converters = [self.converter(each) for each in members]
        structured = [each for each in members if each not in (None, _NONE)]
        text = f"none of {', '.join(_name(each) for each in structured)}"

        def choose(value: object) -> object:
            if type(value) in exact:
                return value
            misfits = []
            for convert in converters:
                try:
                    return convert(value)
                except Misfit as misfit:
                    misfits.append(misfit)
            if len(structured) == 1:  # Optional: what is wrong with what it may be
                raise misfits[members.index(structured[0])]
            raise Misfit(("", text))

        return choose

    def _collection(self, origin: Any, arguments: Sequence[Any]) -> Converter:
        if isinstance(origin, type) and origin in (dict, Mapping, typing.get_origin(typing.Mapping[str, int])):
            keys, values = arguments or (str, Any)
            if bare(keys) not in (str, int, Any):
                raise TypeError(f"the keys of {_name(origin)} are str or int, not {_name(keys)}")
            return partial(_mapping, key=_KEYS[bare(keys)], convert=self.converter(values))
        if origin is tuple and arguments and arguments[-1] is not Ellipsis:
            return partial(_tuple, converters=[self.converter(each) for each in arguments if each != ()])
        if origin in (list, tuple, Sequence):
            kind = tuple if origin is tuple else list
            return partial(_sequence, kind=kind, convert=self.converter(arguments[0] if arguments else Any))
        raise _formless(origin)


def _is_required(kind: Any, name: str, hint: object) -> bool:
    """True if a TypedDict must have this field; it cannot tell itself where its annotations were text."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    said = get_origin(hint)
    return said is Required or (said is not NotRequired and name in kind.__required_keys__)


def _as_it_is(value: object) -> object:
    return value


def _wrong(wanted: str, value: object) -> NoReturn:
    raise Misfit(("", f"is {_KINDS.get(type(value), type(value).__name__)}, not {wanted}"))


def _exactly(kind: type, value: object) -> object:
    if type(value) is not kind:
        _wrong(_KINDS[kind], value)
    return value


def _float(value: object) -> object:
    if type(value) is float:
        return value
    if type(value) is not int:
        _wrong("a number", value)
    try:
        return float(value)
    except OverflowError:
        raise Misfit(("", "is too large for a float")) from None


def _bytes(value: object) -> object:
    if type(value) is bytes:
        return value
    if type(value) is not str:
        _wrong("bytes, as base64", value)
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise Misfit(("", "is no base64")) from None


def _read_by(read: Callable[[Any], object], kinds: tuple[type, ...], what: str, value: object) -> object:
    """Convert text, or a value of the other kinds, by `read`."""
    if type(value) not in kinds:
        _wrong(what, value)
    try:
        return read(value)
    except (ValueError, InvalidOperation, OverflowError):
        raise Misfit(("", f"is not {what}")) from None


def _instant(value: object) -> object:
    """A datetime, as msgpack has it too."""
    if isinstance(value, datetime):
        return value
    return _read_by(datetime.fromisoformat, (str,), "a date and time in ISO 8601", value)


def _seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


_SCALARS: Final[dict[type, Converter]] = {
    **{kind: partial(_exactly, kind) for kind in (_NONE, bool, int, str)},
    float: _float,
    bytes: _bytes,
    datetime: _instant,
    date: partial(_read_by, date.fromisoformat, (str,), "a date in ISO 8601"),
    time: partial(_read_by, time.fromisoformat, (str,), "a time in ISO 8601"),
    timedelta: partial(_read_by, _seconds, (int, float), "a number of seconds"),
    UUID: partial(_read_by, UUID, (str,), "a UUID"),
    Decimal: partial(_read_by, lambda value: Decimal(str(value)), (str, int, float), "a decimal number"),
}

_KEYS: Final[dict[Any, Converter]] = {
    str: partial(_exactly, str),
    int: partial(_read_by, int, (str, int), "an integer"),
    Any: _as_it_is,
}


def _fields(value: object, converters: Mapping[str, Converter], required: Sequence[str]) -> dict[str, Any]:
    """The fields of an object, each as its annotation says."""
    if not isinstance(value, dict):
        _wrong("an object", value)
    found = {}
    errors: list[tuple[str, str]] = []
    for name, convert in converters.items():
        if name in value:
            try:
                found[name] = convert(value[name])
            except Misfit as misfit:
                errors += misfit.under(f".{name}")
    errors += [(f".{name}", "is missing") for name in required if name not in value]
    if errors:
        raise Misfit(*errors)
    return found


def _items(pairs: Sequence[tuple[Converter, object]]) -> list[Any]:
    made = []
    errors: list[tuple[str, str]] = []
    for number, (convert, item) in enumerate(pairs):
        try:
            made.append(convert(item))
        except Misfit as misfit:
            errors += misfit.under(f"[{number}]")
    if errors:
        raise Misfit(*errors)
    return made


def _sequence(value: object, kind: type, convert: Converter) -> object:
    if not isinstance(value, list):
        _wrong("a list", value)
    if convert is _as_it_is:
        return kind(value)
    return kind(_items([(convert, item) for item in value]))


def _tuple(value: object, converters: Sequence[Converter]) -> object:
    if not isinstance(value, list):
        _wrong("a list", value)
    if len(value) != len(converters):
        raise Misfit(("", f"has {len(value)} items, not {len(converters)}"))
    return tuple(_items(list(zip(converters, value, strict=True))))


def _mapping(value: object, key: Converter, convert: Converter) -> object:
    if not isinstance(value, dict):
        _wrong("an object", value)
    made = {}
    errors: list[tuple[str, str]] = []
    for name, item in value.items():
        try:
            made[key(name)] = convert(item)
        except Misfit as misfit:
            errors += misfit.under("[*]")  # not its name, which is as much a value as what it names
    if errors:
        raise Misfit(*errors)
    return made


def _literal(values: Sequence[Any]) -> Converter:
    known = {(type(each), each): each for each in values}
    for each in values:
        if isinstance(each, enum.Enum):
            known[type(each.value), each.value] = each

    def check(value: object) -> object:
        try:
            return known[type(value), value]
        except (KeyError, TypeError):
            raise Misfit(("", f"is none of {', '.join(map(repr, values))}")) from None

    return check


def _enum(kind: type[enum.Enum]) -> Converter:
    by_form = {plain_json(member.value): member for member in kind}

    def find(value: object) -> object:
        try:
            return by_form[plain_json(value)]
        except (KeyError, TypeError, ValueError):
            raise Misfit(("", f"is no value of {kind.__name__}")) from None

    return find


_OWN_TEXT: Final = ("value_error", "assertion_error")
"""The errors of pydantic whose text is the program's own, and may tell values."""


def model_of_json(kind: Any, text: str | bytes) -> object:
    """A pydantic model of its JSON, by its own configuration. Raises Misfit."""
    try:
        return kind.model_validate_json(text)
    except ValueError as error:
        raise _misfit_of(error) from None


def _model(kind: Any, value: object) -> object:
    return model_of_json(kind, plain_json(value))  # as JSON, which a strict model reads in another way


def _misfit_of(error: Any) -> Misfit:
    if not hasattr(error, "errors"):
        return Misfit(("", f"the model does not take it ({type(error).__name__})"))
    reported = error.errors(include_url=False, include_context=False, include_input=False)
    return Misfit(
        *((_path(each["loc"]), each["type"] if each["type"] in _OWN_TEXT else each["msg"]) for each in reported)
    )


def _path(steps: Sequence[int | str]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _formless(annotation: object) -> TypeError:
    return TypeError(f"{_name(annotation)} has no form in a body; what it may be made of: {FORMS}")


def _name(annotation: Any) -> str:
    name = getattr(annotation, "__qualname__", None)
    module = getattr(annotation, "__module__", "")
    if not isinstance(annotation, type) or get_origin(annotation) is not None or name is None:
        return str(annotation).removeprefix("typing.")
    return str(name) if module in ("builtins", "__main__") or module not in sys.modules else f"{module}.{name}"
