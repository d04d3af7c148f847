"""The objects of a queue manager by their names: the definitions, the queues made of them, and where a name leads.

How they come, change and go is in `broker.core.calls.defining`; how they are opened, and dynamic queues made, in
`broker.core.names.opening`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.names.resolution import check_options, conventional, resolve
from broker.core.names.routes import Route
from broker.core.names.sharing_group import TRANSMISSION_QUEUE
from broker.core.queues.counts.queue_counts import QueueCounts
from broker.core.queues.structure import Structure
from broker.core.security.authority import Authority, GroupAuthority
from broker.mqi.constants.objects import MQOT
from broker.mqi.constants.options import MQOO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.identifiers import Identifiers
    from broker.core.names.definitions import Definition
    from broker.core.names.indirect_queue import IndirectQueue
    from broker.core.names.sharing_group import SharingGroup
    from broker.core.queues.effects import Effects
    from broker.core.queues.handles import Handle
    from broker.core.queues.queue import LocalQueue
    from broker.core.queues.shared_queue import SharedQueue
    from broker.mqi.structures import ObjectDescriptor

_QUEUE = MQOT.Q.value
_OUTPUT = MQOO.OUTPUT.value

COUNTS_KEPT_MAX: Final = 10_000
"""Of so many deleted queues the counts are kept."""


class Objects:
    """The objects of one queue manager, and the definition of the queue manager itself.

    `ids` numbers new objects and completes the names of dynamic queues. `effects` are those of the
    manager, for queues to note what they bring to light.
    """

    def __init__(self, definition: Definition, ids: Identifiers, effects: Effects) -> None:
        self.definition = definition  # of the queue manager
        self.definitions: dict[tuple[str, str], Definition] = {}  # in the store, all but temporary dynamic queues
        self.queues: dict[str, LocalQueue] = {}
        self.shared_queues: dict[str, SharedQueue] = {}  # in `queues` too, but where the name is one of its own objects
        self.group_definitions: dict[tuple[str, str], Definition] = {}  # QSGDISP(GROUP): none of them can be opened
        self.structures: dict[str, Structure] = {}
        self.indirect_queues: dict[str, IndirectQueue] = {}
        self.processes: dict[str, Definition] = {}
        self.authority = Authority(self.shared_queues, GroupAuthority())
        self.shared_security: dict[tuple[str, str], Definition] = {}  # QSGDISP(SHARED): it holds before its own
        self.records: dict[tuple[int, int, str], dict[str, Definition]] = {}  # by disposition, type and profile
        self.stopped_channels: set[str] = set()  # by STOP CHANNEL: nobody comes in by them
        self.group: SharingGroup | None = None  # of a queue manager that is a member of one
        self.changes = 0  # of definitions: what was found out about one may not hold any more
        self.ids = ids
        self.effects = effects
        self._known_routes: dict[tuple[str, str], Route] = {}  # of MQPUT1s, by the names of MQOD
        self._known_at = 0  # `changes` when they were found
        self._counts: dict[str, QueueCounts] = {}  # of deleted queues that may be defined again, the latest last
        self._leaving: dict[str, LocalQueue] = {}  # deleted dynamic queues that are still open or have open units

    @property
    def max_handles(self) -> int:
        """MAXHANDS: how many handles a connection may have open."""
        return int(self.definition.attributes["MAXHANDS"])

    def route(self, q_name: str, q_mgr_name: str, options: int) -> Route:
        """The way that these two names of MQOD lead, to be opened with these options.

        Raises UNKNOWN_OBJECT_NAME (2085), UNKNOWN_REMOTE_Q_MGR (2087) and their kin (semantics 9.3), Q_TYPE_ERROR
        (2057), OPTION_NOT_VALID_FOR_TYPE (2045).
        """
        if self.shared_queues and q_mgr_name in ("", self.definition.name):
            self._check_unique((q_name,))
        found = resolve(self.definitions, self.definition, q_name, q_mgr_name, self.group)
        if self.shared_queues:
            self._check_unique(found.path)
        check_options(q_name, found, options)
        levels = [self.indirect_queues.get(name) or self.queues[name] for name in found.path]
        return Route(levels, found, self.group)

    def known_route(self, od: ObjectDescriptor) -> Route | None:
        """The way that an MQPUT1 by these names took before, if it is the same still; None when one must be opened."""
        if self._known_at != self.changes:
            self._known_at = self.changes
            self._known_routes.clear()
        route = self._known_routes.get((od.object_name, od.object_q_mgr_name))
        if route is None or route.queue.deleted or route.queue.clearing or not _names_queue_alone(od):
            return None
        return route

    def know_route(self, od: ObjectDescriptor, route: Route) -> None:
        """Remember the way of an MQPUT1 until a definition changes. One that other members of a group may change is not
        kept.
        """
        if not (route.remote or route.queue.shared) and _names_queue_alone(od):
            self._known_routes[od.object_name, od.object_q_mgr_name] = route

    def structure(self, name: str) -> Structure:
        """The structure of this name, of which nothing need be known yet."""
        return self.structures.setdefault(name, Structure(name))

    def define_structure(self, definition: Definition, *, failed: bool, backed_up: float | None = None) -> None:
        """Take in the definition of a structure, and how it stands."""
        structure = self.structure(definition.name)
        structure.definition, structure.failed, structure.backed_up = definition, failed, backed_up
        self.group_definitions[definition.space, definition.name] = definition
        for queue in self.shared_queues.values():
            if queue.structure is structure:
                queue.stand_in(structure)

    def forget_structure(self, name: str) -> None:
        """A structure is deleted; no queue is in it."""
        self.structures.pop(name, None)
        self.group_definitions.pop(("CFSTRUCT", name), None)

    def own(self, space: str, name: str) -> Definition | None:
        """The object of this name that is the queue manager's alone, or its copy of one of the group."""
        found = self.definitions.get((space, name))
        return None if found is not None and found.shared else found

    def holding(self, space: str, name: str) -> Definition | None:
        """The object of this name by which is judged who may do what: a shared one before the queue manager's own."""
        return self.shared_security.get((space, name)) or self.definitions.get((space, name))

    def own_queue(self, name: str) -> LocalQueue | None:
        """The local queue of this name that is the queue manager's alone."""
        queue = self.queues.get(name)
        return None if queue is not None and queue.shared else queue

    def _check_unique(self, names: Iterable[str]) -> None:
        """Raise OBJECT_NOT_UNIQUE (2343) where one of the names is that of a shared queue and of one more object."""
        for name in names:
            if name in self.shared_queues and not self.definitions["QUEUE", name].shared:
                raise MQError(
                    MQRC.OBJECT_NOT_UNIQUE,
                    f"{name} is a shared queue of the group, and an object of {self.definition.name}: "
                    f"delete one of the two",
                )

    def destination(self, q_name: str, q_mgr_name: str) -> Route:
        """The way that a message of the queue manager's own for this queue takes; raises what `route` does."""
        return self.route(q_name, q_mgr_name, _OUTPUT)

    def route_of_long(self, route: Route, length: int, *, may_cut: bool = False) -> Route:
        """The way of a message that is too long for `route`, which is by intra-group queuing: a conventional one
        (queue-sharing 9.4). Raises MSG_TOO_BIG_FOR_Q (2030) where there is none, unless the message may be cut.
        """
        try:
            name = conventional(self.definitions, self.definition, route.q_mgr_name, route.transmission)
            if name != TRANSMISSION_QUEUE:
                return route.conventional(self.queues[name])
            why = f"{name}, which it is too long for, is named as that"
        except MQError as error:
            why = error.detail
        if may_cut:
            return route
        raise MQError(
            MQRC.MSG_TOO_BIG_FOR_Q,
            f"{length} bytes for {route.q_mgr_name}: intra-group queuing takes {route.igq_length_max()}, "
            f"and there is no other transmission queue: {why}",
        )

    def routes_between_members(self) -> list[Handle]:
        """The open handles whose messages go to other members of the group, by whichever way."""
        members = self.group.members if self.group is not None else frozenset[str]()
        return [
            handle
            for queue in self.queues.values()
            for handle in queue.handles
            if handle.route is not None and handle.route.remote and handle.route.q_mgr_name in members
        ]

    def default_routes(self) -> list[Handle]:
        """The open handles whose messages go by the default transmission queue."""
        queue = self.queues.get(str(self.definition.attributes["DEFXMITQ"]))
        handles = queue.handles if queue is not None else ()
        return [handle for handle in handles if handle.route is not None and handle.route.by_default]

    def opens_model(self, od: ObjectDescriptor) -> bool:
        """True if this is the name of a model queue, so that MQOPEN makes a dynamic queue first
        (`Manager.make_dynamic`).
        """
        here = od.object_q_mgr_name in ("", self.definition.name) and not od.records
        return (
            here
            and int(od.object_type) == _QUEUE
            and self.model(od.object_name) is not None
            and od.object_name not in self.shared_queues
        )

    def model(self, name: str) -> Definition | None:
        """The definition of the model queue of that name; None when there is none."""
        found = self.definitions.get(("QUEUE", name))
        return found if found is not None and found.kind == "QMODEL" else None

    def keep_counts_of(self, queue: LocalQueue) -> None:
        """A queue was deleted: one that gets its name goes on with its counts, unless very many are deleted before."""
        if not queue.temporary:
            self._counts[queue.name] = queue.counts
            if len(self._counts) > COUNTS_KEPT_MAX:
                del self._counts[next(iter(self._counts))]

    def counts_for(self, q_name: str) -> QueueCounts:
        """The counts for a new queue: those of the last one of its name, if it was deleted."""
        left = self._counts.pop(q_name, None)
        return QueueCounts() if left is None else left.begin_again()

    def keep_name_of(self, queue: LocalQueue) -> None:
        """A queue was deleted: while it is open or units of work on it are unfinished, no dynamic queue takes its
        name.
        """
        if _in_use(queue):
            self._leaving = {name: left for name, left in self._leaving.items() if _in_use(left)}
            self._leaving[queue.name] = queue

    def keeps_name(self, name: str) -> bool:
        """True if a deleted queue still keeps this name from dynamic queues."""
        left = self._leaving.get(name)
        return left is not None and _in_use(left)

    def check_invariants(self) -> None:
        """Raise AssertionError when a structure is broken. For tests."""
        for indirect in self.indirect_queues.values():
            assert all(handle.route and indirect in handle.route.levels for handle in indirect.handles)
        for queue in self.queues.values():
            queue.check_invariants()
            assert all(handle.route and handle.route.queue is queue for handle in queue.handles)
            assert queue.input_count == sum(handle.removes for handle in queue.handles)
            assert queue.output_count == sum(handle.puts for handle in queue.handles)


def _names_queue_alone(od: ObjectDescriptor) -> bool:
    """True if this is the name of a queue, and no more."""
    return int(od.object_type) == _QUEUE and not (od.records or od.selection_string)


def _in_use(queue: LocalQueue) -> bool:
    return bool(queue.handles or queue.uncommitted)
