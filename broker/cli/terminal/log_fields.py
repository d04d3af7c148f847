"""The fields of a log record, for those who write it as data: what happened, and the values that it names.

A record's text is made by a template such as `line dropped peer=%s: %s`. Its fields are read off the template and its
values, never off the text, where a value that a client has chosen could pass for another field. What the call gives as
`extra` is a field too, and goes before what the template says.
"""

from __future__ import annotations

import logging
import math
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_VALUE: Final = re.compile(r"(?:\b(?P<name>[A-Za-z_]\w*)=)?(?P<form>%[-+ #0]*\d*(?:\.\d+)?[a-zA-Z]|%%)")
_OF_EVERY_RECORD: Final = frozenset([*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"])
_OWN: Final = frozenset({"time", "level", "logger", "message", "exception"})
"""The fields of every line: no other field may hide them."""


class _Place(NamedTuple):
    """A value in a template: the name before it, how it is written, where it begins and where it ends."""

    name: str
    form: str
    begin: int
    end: int


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """`event`, in the words of the code, and the values that the record names, as numbers where they are numbers.

    What follows a colon at the end is `reason` where it is an exception, otherwise `detail`.
    """
    given = {name: _plain(value) for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}
    fields = {"event": None, **dict(_named(record)), **given}
    return {name: value for name, value in fields.items() if name not in _OWN and (name, value) != ("event", None)}


def _named(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    template = record.msg if isinstance(record.msg, str) else "%s"
    arguments = record.args if isinstance(record.args, tuple) else ()
    places = [
        _Place(found["name"] or "", found["form"], *found.span())
        for found in _VALUE.finditer(template)
        if found["form"] != "%%"
    ]
    if event := _event(template if arguments else template.replace("%", "%%"), places if arguments else []):
        yield "event", event
    for place, value in zip(places, arguments, strict=False):
        if place.name:
            yield place.name, _plain(value, place.form)
        elif place.end == len(template) and template[: place.begin].endswith(": "):
            yield "reason" if isinstance(value, BaseException) else "detail", _plain(value, place.form)


def _event(template: str, places: list[_Place]) -> str:
    """The words before the first name, or before the colon; what is filled in there is `...`."""
    end = min([place.begin for place in places if place.name], default=len(template))
    words = template[:end].partition(": ")[0]
    return _VALUE.sub(lambda found: "%" if found["form"] == "%%" else "...", words).strip().rstrip(" :,.(")


def _plain(value: object, form: str = "%s") -> Any:
    """A value as JSON has it: a number as a number, anything else as its text."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return int(value)
        case float() if math.isfinite(value):
            return float(value)
        case list() | tuple():
            return [_plain(each) for each in value]
        case _:
            return str(form % (value,))
