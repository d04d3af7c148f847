"""The fields of a log record, for those who write it as data: its event, and the values that it names.

A record's text is made by a template such as `line dropped peer=%s: %s`. Its fields are read off the template and its
values, never off the text, where a value that a client has chosen could pass for another field. What the call gives as
`extra` is a field too, and goes before what the template says.

The event of a record of ours is a word that stays the same, one of `log_events`: that of `extra`, or else the words of
the template joined (`line_dropped`). Records of other packages have one only by `extra`.
"""

from __future__ import annotations

import logging
import math
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

OURS: Final = ("broker", "triggers")
"""The packages whose records have events."""

_VALUE: Final = re.compile(r"(?:\b(?P<name>[A-Za-z_]\w*)=)?(?P<form>%[-+ #0]*\d*(?:\.\d+)?[a-zA-Z]|%%)")
_NO_WORD: Final = re.compile(r"[^a-z0-9]+")
_OF_EVERY_RECORD: Final = frozenset([*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"])
_OWN: Final = frozenset({"time", "level", "logger", "message", "exception"})
"""The fields of every line: no other field may hide them."""

_ORIGINS: Final = (
    "user", "queue", "handler", "msg_id", "id", "name", "consumer", "unit", "member", "file", "path", "setting",
)  # fmt: skip
"""The fields that tell what a record is about, if it has no address."""


class _Place(NamedTuple):
    """A value in a template: the name before it, how it is written, where it begins and where it ends."""

    name: str
    form: str
    begin: int
    end: int


def is_ours(record: logging.LogRecord) -> bool:
    """True if a record was logged by this package or `triggers`."""
    return record.name.partition(".")[0] in OURS


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return `event`, if the record has one, and the values that it names, as numbers where they are numbers.

    What follows a colon at the end is `reason` where it is an exception, otherwise `detail`.
    """
    given = {name: _plain(value) for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}
    fields = {**_event(record), **dict(_named(record)), **given}
    return {name: value for name, value in fields.items() if name not in _OWN}


def origin_of(fields: dict[str, Any]) -> tuple[str, ...]:
    """Return who or what a record with these fields is about: an address without its port, if it has one."""
    if address := fields.get("peer") or fields.get("address"):
        return (_host(str(address)),)
    return tuple(str(fields[name]) for name in _ORIGINS if name in fields)


def event_word(template: str) -> str:
    """Return the event that a template of ours says: its words before the first name and before the colon."""
    end = min([place.begin for place in _places(template) if place.name], default=len(template))
    words = template[:end].partition(": ")[0]
    return _NO_WORD.sub("_", _VALUE.sub(" ", words).lower()).strip("_")


def names_in(template: str) -> list[str]:
    """Return the names of the values in a template, in order."""
    return [place.name for place in _places(template) if place.name]


def _event(record: logging.LogRecord) -> dict[str, str]:
    word = event_word(record.msg) if is_ours(record) and isinstance(record.msg, str) else ""
    return {"event": word} if word else {}


def _named(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    template = record.msg if isinstance(record.msg, str) else "%s"
    arguments = record.args if isinstance(record.args, tuple) else ()
    for place, value in zip(_places(template), arguments, strict=False):
        if place.name:
            yield place.name, _plain(value, place.form)
        elif place.end == len(template) and template[: place.begin].endswith(": "):
            yield "reason" if isinstance(value, BaseException) else "detail", _plain(value, place.form)


def _places(template: str) -> list[_Place]:
    return [
        _Place(found["name"] or "", found["form"], *found.span())
        for found in _VALUE.finditer(template)
        if found["form"] != "%%"
    ]


def _host(address: str) -> str:
    """An address without its port: `[::1]:99`, `127.0.0.1:99`, or one that has none."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0] if address.count(":") == 1 else address


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
