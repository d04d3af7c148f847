"""Models of pydantic 2, made from JSON. Nothing here imports it: a program that has a model has done so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from triggers.bodies.misfits import Misfit
from triggers.bodies.plain_json import plain_json

if TYPE_CHECKING:
    from collections.abc import Sequence

_OWN_TEXT: Final = ("value_error", "assertion_error")
"""The errors of pydantic whose text is the program's own, and may tell values."""


def model_of_json(kind: Any, text: str | bytes) -> object:
    """A pydantic model of its JSON, by its own configuration. Raises Misfit."""
    try:
        return kind.model_validate_json(text)
    except ValueError as error:
        raise _misfit_of(error) from None


def model(kind: Any, value: object) -> object:
    """A pydantic model of a plain value. Raises Misfit."""
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
