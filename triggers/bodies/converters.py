"""Objects of plain values: what JSON and msgpack have words for, checked against the annotation of a handler.

A converter is made of an annotation once, when the handler is declared. Fields that an annotation does not know are
ignored, missing ones take their default: old messages must outlive new code (handlers rule 8.2).
"""

from __future__ import annotations

import dataclasses
import enum
import typing
from collections.abc import Mapping, Sequence
from functools import partial
from types import NoneType
from typing import Annotated, Any, Literal, NotRequired, Required, get_args, get_origin, get_type_hints

from triggers.bodies.annotations import bare, formless, is_model, name_of, union_of
from triggers.bodies.misfits import Misfit, wrong
from triggers.bodies.models import model
from triggers.bodies.scalars import KEYS, SCALARS, Converter, as_it_is, enumerated, literal


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
            return as_it_is
        if annotation is None:
            annotation = NoneType
        members = union_of(annotation)
        if len(members) > 1:
            return self._union(members)
        origin = get_origin(annotation)
        if origin is Literal:
            return literal(get_args(annotation))
        if origin is not None or annotation in (list, tuple, dict, Mapping, Sequence):
            return self._collection(origin or annotation, get_args(annotation))
        if isinstance(annotation, type) and annotation in SCALARS:
            return SCALARS[annotation]
        if isinstance(annotation, type):
            return self._class(annotation)
        raise formless(annotation)

    def _class(self, kind: type) -> Converter:
        if kind in self._classes:
            return lambda value: self._classes[kind](value)
        if issubclass(kind, enum.Enum):
            return enumerated(kind)
        if is_model(kind):
            return partial(model, kind)
        if not dataclasses.is_dataclass(kind) and not typing.is_typeddict(kind):
            raise formless(kind)
        self._classes[kind] = as_it_is  # until it is there: a class that contains itself asks later
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
        exact = {each for each in members if isinstance(each, type) and each in SCALARS}
        converters = [self.converter(each) for each in members]
        structured = [each for each in members if each not in (None, NoneType)]
        text = f"none of {', '.join(name_of(each) for each in structured)}"

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
                raise TypeError(f"the keys of {name_of(origin)} are str or int, not {name_of(keys)}")
            return partial(_mapping, key=KEYS[bare(keys)], convert=self.converter(values))
        if origin is tuple and arguments and arguments[-1] is not Ellipsis:
            return partial(_tuple, converters=[self.converter(each) for each in arguments if each != ()])
        if origin in (list, tuple, Sequence):
            kind = tuple if origin is tuple else list
            return partial(_sequence, kind=kind, convert=self.converter(arguments[0] if arguments else Any))
        raise formless(origin)


def _is_required(kind: Any, name: str, hint: object) -> bool:
    """True if a TypedDict must have this field; it cannot tell itself where its annotations were text."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    said = get_origin(hint)
    return said is Required or (said is not NotRequired and name in kind.__required_keys__)


def _fields(value: object, converters: Mapping[str, Converter], required: Sequence[str]) -> dict[str, Any]:
    """The fields of an object, each as its annotation says."""
    if not isinstance(value, dict):
        wrong("an object", value)
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
        wrong("a list", value)
    if convert is as_it_is:
        return kind(value)
    return kind(_items([(convert, item) for item in value]))


def _tuple(value: object, converters: Sequence[Converter]) -> object:
    if not isinstance(value, list):
        wrong("a list", value)
    if len(value) != len(converters):
        raise Misfit(("", f"has {len(value)} items, not {len(converters)}"))
    return tuple(_items(list(zip(converters, value, strict=True))))


def _mapping(value: object, key: Converter, convert: Converter) -> object:
    if not isinstance(value, dict):
        wrong("an object", value)
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
