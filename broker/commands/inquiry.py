"""DISPLAY: which objects are meant, which of their attributes are asked for, and the reply that shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from broker.commands import errors, judging
from broker.commands.display import dictionary, layout, mqsc_token, zmqsc_token
from broker.commands.requests import DisplayRequest, RecordChoice
from broker.commands.security import records, rules
from broker.commands.selection import generic_match
from broker.commands.table.attributes import TABLE, rows_of, type_of, value_of
from broker.commands.table.channel_rules import BRIEF, WHICH
from broker.commands.table.dispositions import check_group, meets, of_name
from broker.commands.table.kinds import KINDS, SHOWN
from broker.commands.table.row import Origin
from broker.commands.table.statuses import STATUSES
from broker.mqi.replies import CommandReply

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from broker.commands.catalog import Catalog
    from broker.commands.requests import RuleChoice, StatusRequest
    from broker.commands.table.forms import Value
    from broker.commands.table.row import Attribute
    from broker.core.names.definitions import Definition
    from broker.core.security.caller import Caller

AskedRows: TypeAlias = "dict[tuple[str, int], list[Attribute]]"
"""The attributes that a DISPLAY asks for, by the kind and type of the objects."""


def display(request: DisplayRequest, catalog: Catalog, caller: Caller | None = None) -> Iterator[CommandReply | None]:
    """The reply in parts: each object under a heading of its own, and None for an object that is not meant, or that the
    caller may not see. Raises CommandError (AMQ8147E) when none fits.
    """
    noun = SHOWN[request.noun]
    token = zmqsc_token if request.tpf else mqsc_token
    none_fits = True
    rows: AskedRows = {}
    for definition in _definitions(request, catalog):
        seen = definition is not None and judging.may_see(caller, definition)
        shown = _shown(request, definition, catalog, rows) if definition is not None and seen else None
        if shown is None:
            yield None
            continue
        none_fits = False
        printed = (token(row, value) for row, value in shown if _is_printed(request, row, value))
        text = layout(f"{noun.code}: {noun.heading}", printed)
        yield CommandReply(code=noun.code, text=text, attributes=(dictionary(shown),))
    if none_fits:
        raise errors.not_found(request.pattern)


def display_checked(definition: Definition | None, lines: Iterable[str], catalog: Catalog) -> CommandReply:
    """The reply to DISPLAY CHLAUTH MATCH(RUNCHECK): the record that counts, if there is one, and below it these lines
    that explain it.
    """
    noun = SHOWN["CHLAUTH"]
    shown: list[tuple[Attribute, Value]] = []
    if definition is not None:
        request = DisplayRequest("CHLAUTH", definition.name, ("CHLAUTH",))
        shown = _shown(request, definition, catalog, {}) or []
    text = layout(f"{noun.code}: {noun.heading}", (mqsc_token(row, value) for row, value in shown))
    attributes = (dictionary(shown),) if shown else ()
    return CommandReply(code=noun.code, text="\n".join([text, *lines]), attributes=attributes)


def display_status(
    request: StatusRequest, catalog: Catalog, caller: Caller | None = None
) -> Iterator[CommandReply | None]:
    """As `display`, of a status."""
    status = STATUSES[request.noun, request.type]
    name, *others = status.figures.values()
    named = {"TYPE", *request.keywords, *([request.condition.keyword] if request.condition else ())}
    asked = [name, *(each for each in others if not request.keywords or each.keyword in named)]
    token = zmqsc_token if request.tpf else mqsc_token
    none_fits = True
    for values in catalog.statuses(request.noun, request.type):
        if values is None or not (_is_meant(request, values, name.keyword) and judging.may_see_row(caller, values)):
            yield None
            continue
        none_fits = False
        shown = [(figure, values[figure.keyword]) for figure in asked]
        text = layout(f"{status.code}: {status.heading}", (token(figure, value) for figure, value in shown))
        yield CommandReply(code=status.code, text=text, attributes=(dictionary(shown),))
    if none_fits:
        raise errors.not_found(request.pattern)


def _is_meant(request: StatusRequest, values: Mapping[str, Value], name: str) -> bool:
    """True if the row with these figures is asked for; `name` is the figure that names it."""
    condition = request.condition
    fits = generic_match(request.pattern, str(values[name]))
    return fits and (condition is None or condition.holds(values[condition.keyword]))


def _definitions(request: DisplayRequest, catalog: Catalog) -> Iterator[Definition | None]:
    """The objects in order of their names; None for each whose name or kind does not fit."""
    if request.noun == "QMGR":
        yield catalog.queue_manager
        return
    check_group(request.noun, request.disposition, catalog)
    if request.chosen is not None:
        yield from _chosen(request, request.chosen, catalog)
        return
    for space in SHOWN[request.noun].spaces:
        yield from _named_in(space, request, catalog)


def _chosen(
    request: DisplayRequest, choice: RecordChoice | RuleChoice, catalog: Catalog
) -> Iterator[Definition | None]:
    """The authority records, or the channel authentication records, that are meant; None for each of the others."""
    for name in catalog.names(request.noun):
        for definition in of_name(request.noun, name, catalog):
            if isinstance(choice, RecordChoice):
                meant = records.is_meant(choice, definition, catalog)
            else:
                meant = rules.is_meant(choice, request.pattern, definition)
            yield definition if meant and meets(request.disposition, definition.disposition) else None


def _named_in(space: str, request: DisplayRequest, catalog: Catalog) -> Iterator[Definition | None]:
    """Those of a name space."""
    names = catalog.names(space) if request.pattern.endswith("*") else (request.pattern,)
    for name in names:
        if generic_match(request.pattern, name):
            for definition in of_name(space, name, catalog):
                meant = definition.kind == "CFSTRUCT" or meets(request.disposition, definition.disposition)
                yield definition if meant and definition.kind in request.kinds else None
        yield None


def _shown(
    request: DisplayRequest, definition: Definition, catalog: Catalog, asked: AskedRows
) -> list[tuple[Attribute, Value]] | None:
    """The attributes asked for that this kind of object has, with their values; None if the condition does not hold.
    `asked` are those of objects that this request has met before.
    """
    rows = TABLE[definition.kind]
    type = type_of(definition.kind, definition.attributes)
    if request.types and type not in request.types:
        return None
    status = catalog.status(definition)
    condition = request.condition
    if condition is not None:
        row = rows.get(condition.keyword)
        if row is None or not row.is_of(type) or not condition.holds(value_of(row, definition, status)):
            return None
    key = definition.kind, type
    found = asked.get(key)
    if found is None or definition.kind == "CHLAUTH":
        named = _named(request)
        all_rows = rows_of(definition.kind, type)
        found = asked[key] = [row for row in all_rows if _is_shown(request, definition, row, named)]
    return [(row, value_of(row, definition, status)) for row in found]


def _is_shown(request: DisplayRequest, definition: Definition, row: Attribute, named: set[str]) -> bool:
    """True if the attribute is one of those asked for, or tells which object this is: for all objects of a kind and
    type alike, but for channel authentication records.
    """
    if definition.kind == "CHLAUTH":
        briefly = not (request.everything or request.keywords)
        if row.keyword == "QSGDISP" and definition.shared and briefly:
            return True
        wanted = request.everything or row.keyword in (*WHICH, *named) or (briefly and row.keyword in BRIEF)
        return wanted and rules.is_shown(row.keyword, definition, briefly=briefly)
    if definition.kind == "AUTHREC":
        return request.everything or not request.keywords or row.keyword in named
    if row.origin in (Origin.NAME, Origin.KIND) or row.keyword == KINDS[definition.kind].type:
        return True
    return row.keyword in named or _asks_for_all(request)


def _named(request: DisplayRequest) -> set[str]:
    """The attributes that the command names; that of WHERE is one of them."""
    return {*request.keywords, request.condition.keyword} if request.condition else set(request.keywords)


def _asks_for_all(request: DisplayRequest) -> bool:
    """ALL says so; so does naming no attribute of the queue manager, or of an object by its whole name."""
    return request.everything or not (request.keywords or request.pattern.endswith("*"))


def _is_printed(request: DisplayRequest, row: Attribute, value: Value) -> bool:
    """Quiet attributes are printed when named or when they differ from their default; the reply's data has them all."""
    return not row.quiet or row.keyword in _named(request) or value != row.default
