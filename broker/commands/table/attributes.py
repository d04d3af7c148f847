"""The one table of attributes. The parser, DEFINE, ALTER, DISPLAY, MQINQ, MQSET and the reference in docs all read it.

A kind of object is named by its MQSC noun. Its rows stand in the order in which DISPLAY prints them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from broker.commands.table.authority_records import AUTHREC
from broker.commands.table.channel_rules import CHLAUTH
from broker.commands.table.channels import CHANNEL, CLNTCONN
from broker.commands.table.forms import WordChoice
from broker.commands.table.kinds import KINDS
from broker.commands.table.processes import PROCESS
from broker.commands.table.queue_managers import QMGR
from broker.commands.table.queues import QALIAS, QLOCAL, QMODEL, QREMOTE, QUEUE_TYPES
from broker.commands.table.row import Acts, Attribute, Origin
from broker.commands.table.structures import CFSTRUCT
from broker.commands.table.users import AUTHINFO, USER
from broker.core.names.definitions import Definition

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from broker.commands.table.forms import Value
    from broker.core.names.definitions import Attributes

TABLE: dict[str, dict[str, Attribute]] = {
    kind: {row.keyword: row for row in rows}
    for kind, rows in {
        "QLOCAL": QLOCAL,
        "QALIAS": QALIAS,
        "QREMOTE": QREMOTE,
        "QMODEL": QMODEL,
        "PROCESS": PROCESS,
        "CFSTRUCT": CFSTRUCT,
        "USER": USER,
        "AUTHINFO": AUTHINFO,
        "CHANNEL": CHANNEL,
        "CLNTCONN": CLNTCONN,
        "CHLAUTH": CHLAUTH,
        "AUTHREC": AUTHREC,
        "QMGR": QMGR,
    }.items()
}

SELECTORS: dict[str, dict[int, Attribute]] = {
    kind: {int(row.selector): row for row in rows.values() if row.selector is not None} for kind, rows in TABLE.items()
}


def by_selector(kind: str, selector: int) -> Attribute | None:
    """The row that MQINQ and MQSET mean by this selector (MQIA or MQCA); None when the kind has no such attribute."""
    return SELECTORS[kind].get(selector)


_KEPT = (Origin.GIVEN, Origin.KEPT)


def type_of(kind: str, attributes: Mapping[str, Value]) -> int:
    """The type of an object with these attributes, of a kind that has types (`ObjectKind.type`); 0 of others."""
    keyword = KINDS[kind].type
    return int(attributes.get(keyword, TABLE[kind][keyword].default)) if keyword else 0


def rows_of(kind: str, type: int) -> list[Attribute]:
    """The attributes of objects of a kind and a type, in their order."""
    return _ROWS[kind, type]


def defaults(kind: str, type: int | None = None) -> Attributes:
    """The attributes that a definition keeps, with the values they have when nothing is said; `type` is the default one
    unless it is given.
    """
    return dict(_DEFAULTS[kind, type_of(kind, {}) if type is None else type])


def _types(kind: str) -> tuple[int, ...]:
    keyword = KINDS[kind].type
    form = TABLE[kind][keyword].form if keyword else None
    return tuple(form.words.values()) if isinstance(form, WordChoice) else (0,)


_ROWS: dict[tuple[str, int], list[Attribute]] = {
    (kind, type): [row for row in rows.values() if row.is_of(type)]
    for kind, rows in TABLE.items()
    for type in _types(kind)
}
_DEFAULTS: dict[tuple[str, int], Attributes] = {
    (kind, type): {row.keyword: row.default_of(type) for row in rows if row.origin in _KEPT}
    for (kind, type), rows in _ROWS.items()
}


def validate(kind: str, keyword: str, value: Value) -> bool:
    """True if the attribute may have this value: right type, in range, short enough."""
    return TABLE[kind][keyword].form.accepts(value)


def not_acted_on(kind: str, given: Mapping[str, Value]) -> list[str]:
    """A line for each attribute that is given a value which asks for something that is not done."""
    rows = (TABLE[kind][keyword] for keyword in given)
    return [_warning(row, given[row.keyword]) for row in rows if row.ignores(given[row.keyword])]


def _warning(row: Attribute, value: Value) -> str:
    """One line for all values of an attribute that never acts: so it is told once, whatever a script sets."""
    what = row.keyword if row.acts is Acts.NO else f"{row.keyword}({row.form.plain(value)})"
    follows = f": {row.instead}" if row.instead else ""
    return f"EMQ0002W: {what} is kept and shown, but EverMQ does not act on it{follows}."


def value_of(row: Attribute, definition: Definition, status: Mapping[str, Value]) -> Value:
    """The value of an attribute of this object; `status` gives those that are counted while the queue manager runs.

    A definition kept by an earlier version may lack a keyword: the attribute then has its default.
    """
    if row.origin is Origin.NAME:
        return definition.name
    if row.origin is Origin.KIND:
        return QUEUE_TYPES[definition.kind]
    source = status if row.origin is Origin.LIVE else definition.attributes
    if row.keyword in source:
        return source[row.keyword]
    return row.default_of(type_of(definition.kind, definition.attributes)) if row.defaults else row.default


def create(kind: str, name: str, now: datetime, **given: Value) -> Definition:
    """A definition with the defaults of the table and what is `given`; for what the queue manager creates, too."""
    type = type_of(kind, given)
    typed: Attributes = {KINDS[kind].type: type} if type else {}
    attributes = defaults(kind, type) | given | typed | _stamps(kind, now, "CR") | _stamps(kind, now, "ALT")
    return Definition(kind, name, attributes)


def altered(definition: Definition, given: Mapping[str, Value], now: datetime) -> Definition:
    """The definition with these attributes changed, and its time of alteration."""
    kind = definition.kind
    return Definition(kind, definition.name, {**definition.attributes, **given, **_stamps(kind, now, "ALT")})


def _stamps(kind: str, now: datetime, prefix: str) -> Attributes:
    """The date and time of creation ("CR") or alteration ("ALT"), where the kind has them."""
    date, time = _date_and_time(now)
    stamps: Attributes = {f"{prefix}DATE": date, f"{prefix}TIME": time}
    return {keyword: value for keyword, value in stamps.items() if keyword in TABLE[kind]}


@lru_cache(maxsize=1)  # the seventy objects of a new queue manager are made at one instant
def _date_and_time(now: datetime) -> tuple[str, str]:
    return now.strftime("%Y-%m-%d"), now.strftime("%H.%M.%S")
