"""The annotations of bodies, and the forms that they may have."""

from __future__ import annotations

import sys
import types
import typing
from typing import Annotated, Any, Final, NotRequired, Required, Union, get_args, get_origin

FORMS: Final = (
    "str, int, float, bool, None, bytes, datetime, date, time, timedelta, UUID, Decimal, Enum, Literal, dataclass, "
    "TypedDict, pydantic model, list, tuple and dict of these, unions of these, Any"
)
"""The forms of a body, for the texts of errors."""


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


def formless(annotation: object) -> TypeError:
    """Return the error for an annotation that no body can have."""
    return TypeError(f"{name_of(annotation)} has no form in a body; what it may be made of: {FORMS}")


def name_of(annotation: Any) -> str:
    """Return the name of an annotation as a program writes it, for the texts of errors."""
    name = getattr(annotation, "__qualname__", None)
    module = getattr(annotation, "__module__", "")
    if not isinstance(annotation, type) or get_origin(annotation) is not None or name is None:
        return str(annotation).removeprefix("typing.")
    return str(name) if module in ("builtins", "__main__") or module not in sys.modules else f"{module}.{name}"
