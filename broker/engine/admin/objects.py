"""The objects of a queue manager as commands, MQINQ and MQSET see them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from broker.commands.table.attributes import altered, by_selector, validate, value_of
from broker.core.explain.holders import held_by
from broker.core.names.definitions import GROUP, OWN, SHARED, Define, Definition
from broker.core.queues.handles import deleted
from broker.engine.admin.handles import handle_status
from broker.engine.claims.holdings import claim_status, handler_status, structure_status, thread_status
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from broker.clock import Clock
    from broker.commands.catalog import Catalog
    from broker.core.manager import Manager
    from broker.core.queues.handles import Handle
    from broker.core.security.facts import User

_SET_ERRORS = {
    "TRIGGER": MQRC.TRIGGER_CONTROL_ERROR,
    "TRIGDPTH": MQRC.TRIGGER_DEPTH_ERROR,
    "TRIGMPRI": MQRC.TRIGGER_MSG_PRIORITY_ERR,
    "TRIGTYPE": MQRC.TRIGGER_TYPE_ERROR,
    "PUT": MQRC.INHIBIT_VALUE_ERROR,
    "GET": MQRC.INHIBIT_VALUE_ERROR,
}


_STATUSES = {
    ("CFSTATUS", "SUMMARY"): structure_status,
    ("QSTATUS", "CLAIM"): claim_status,
    ("QSTATUS", "HANDLE"): handle_status,
    ("QSTATUS", "HANDLER"): handler_status,
    ("THREAD", "INDOUBT"): thread_status,
}


class LiveCatalog:
    """The catalog of a running queue manager."""

    def __init__(self, core: Manager, clock: Clock) -> None:
        self._core = core
        self._objects = core.objects
        self._clock = clock

    @property
    def queue_manager(self) -> Definition:
        return self._objects.definition

    @property
    def group_name(self) -> str:
        return "" if self._objects.group is None else self._objects.group.name

    def find(self, space: str, name: str, place: int = OWN) -> Definition | None:
        if place == GROUP:
            return self._objects.group_definitions.get((space, name))
        if place != SHARED:
            return self._objects.own(space, name)
        if space != "QUEUE":
            return self._objects.shared_security.get((space, name))
        queue = self._objects.shared_queues.get(name)
        return None if queue is None else queue.definition

    def names(self, space: str) -> Iterable[str]:
        objects = self._objects
        known = {**objects.definitions, **objects.group_definitions, **objects.shared_security}
        names = [name for held, name in known if held == space]
        return sorted(names)

    @property
    def users(self) -> Mapping[str, User]:
        return self._objects.authority.users

    def records(self, object_type: int, profile: str, place: int = OWN) -> Mapping[str, Definition]:
        return self._objects.records.get((place, object_type, profile), {})

    def status(self, definition: Definition) -> Mapping[str, int | str]:
        if definition.space == "QMGR":
            return {"HANDLES": len(self._objects.default_routes()), "QSGNAME": self.group_name}
        if definition.space != "QUEUE" or definition.disposition == GROUP:
            return {}
        shared = self._objects.shared_queues.get(definition.name) if definition.shared else None
        queue = shared or self._objects.own_queue(definition.name)
        if queue is None:
            indirect = self._objects.indirect_queues.get(definition.name)
            return {"HANDLES": len(indirect.handles)} if indirect else {}
        return {
            "CURDEPTH": queue.depth,
            "IPPROCS": queue.input_count,
            "OPPROCS": queue.output_count,
            "HANDLES": len(queue.handles),
            "UNCOM": int(queue.uncommitted > 0),
        }

    def held(self, q_name: str) -> str:
        queue = self._objects.own_queue(q_name)
        return "" if queue is None else held_by(self._core, queue, self._clock.time())

    def statuses(self, noun: str, type: str) -> Iterator[Mapping[str, int | str] | None]:
        return _STATUSES[noun, type](self._core, self._clock)


def inquire(catalog: Catalog, handle: Handle, selectors: Sequence[int]) -> dict[int, int | str]:
    """MQINQ. Raises SELECTOR_ERROR (2067), SELECTOR_NOT_FOR_TYPE (2068)."""
    definition = _definition(catalog, handle)
    status = catalog.status(definition)
    values = {}
    for selector in selectors:
        row = by_selector(definition.kind, int(selector))
        if row is None:
            raise MQError(
                MQRC.SELECTOR_NOT_FOR_TYPE, f"{definition.kind} {handle.name} has no attribute with selector {selector}"
            )
        values[int(selector)] = value_of(row, definition, status)
    return values


def settings(catalog: Catalog, handle: Handle, values: Mapping[int, int | str], now: float) -> Define:
    """MQSET: the change that gives attributes new values. Raises SELECTOR_NOT_FOR_TYPE (2068) and, for values out of
    range, TRIGGER_TYPE_ERROR (2078) and its kin.
    """
    definition = _definition(catalog, handle)
    given = {}
    for selector, value in values.items():
        row = by_selector(definition.kind, int(selector))
        if row is None or not row.settable:
            raise MQError(
                MQRC.SELECTOR_NOT_FOR_TYPE,
                f"MQSET cannot change selector {selector} of {definition.kind} {handle.name}",
            )
        plain = value if isinstance(value, str) else int(value)
        if not validate(definition.kind, row.keyword, plain):
            wrong = MQRC.CHAR_ATTR_LENGTH_ERROR if isinstance(plain, str) else MQRC.INT_ATTRS_ARRAY_ERROR
            reason = _SET_ERRORS.get(row.keyword, wrong)
            raise MQError(reason, f"{row.keyword} of {handle.name} cannot be {value!r}")
        given[row.keyword] = plain
    return Define(altered(definition, given, datetime.fromtimestamp(now, UTC)))


def _definition(catalog: Catalog, handle: Handle) -> Definition:
    place = SHARED if handle.queue is not None and handle.queue.shared and handle.name == handle.queue.name else OWN
    definition = catalog.queue_manager if handle.space == "QMGR" else catalog.find(handle.space, handle.name, place)
    if definition is None:
        raise deleted(handle.name)
    return definition
