"""The objects of a queue manager by their names: the definitions, the queues made of them, and where a name leads.

How they come, change and go is in `broker.core.calls.defining`; how they are opened, and dynamic queues made, in
`broker.core.names.opening`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.names.resolution import check_options, resolve
from broker.core.names.routes import Route
from broker.mqi.objects import MQOT
from broker.mqi.options import MQOO

if TYPE_CHECKING:
    from broker.core.identifiers import Identifiers
    from broker.core.names.definitions import Definition
    from broker.core.names.indirect_queue import IndirectQueue
    from broker.core.queues.effects import Effects
    from broker.core.queues.handles import Handle
    from broker.core.queues.queue import LocalQueue
    from broker.mqi.structures import ObjectDescriptor

_QUEUE = MQOT.Q.value
_OUTPUT = MQOO.OUTPUT.value


class Objects:
    """The objects of one queue manager, and the definition of the queue manager itself.

    `ids` numbers new objects and completes the names of dynamic queues. `effects` are those of the
    manager, for queues to note what they bring to light.
    """

    def __init__(self, definition: Definition, ids: Identifiers, effects: Effects) -> None:
        self.definition = definition  # of the queue manager
        self.definitions: dict[tuple[str, str], Definition] = {}  # in the store, all but temporary dynamic queues
        self.queues: dict[str, LocalQueue] = {}
        self.indirect_queues: dict[str, IndirectQueue] = {}
        self.processes: dict[str, Definition] = {}
        self.changes = 0  # of definitions: what was found out about one may not hold any more
        self.ids = ids
        self.effects = effects
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
        found = resolve(self.definitions, self.definition, q_name, q_mgr_name)
        check_options(q_name, found, options)
        return Route([self.indirect_queues.get(name) or self.queues[name] for name in found.path], found)

    def destination(self, q_name: str, q_mgr_name: str) -> Route:
        """The way that a message of the queue manager's own for this queue takes; raises what `route` does."""
        return self.route(q_name, q_mgr_name, _OUTPUT)

    def default_routes(self) -> list[Handle]:
        """The open handles whose messages go by the default transmission queue."""
        queue = self.queues.get(str(self.definition.attributes["DEFXMITQ"]))
        handles = queue.handles if queue is not None else ()
        return [handle for handle in handles if handle.route is not None and handle.route.by_default]

    def opens_model(self, od: ObjectDescriptor) -> bool:
        """Whether this is the name of a model queue, so that MQOPEN makes a dynamic queue first
        (`Manager.make_dynamic`).
        """
        here = od.object_q_mgr_name in ("", self.definition.name) and not od.records
        return here and int(od.object_type) == _QUEUE and self.model(od.object_name) is not None

    def model(self, name: str) -> Definition | None:
        """The definition of the model queue of that name; None when there is none."""
        found = self.definitions.get(("QUEUE", name))
        return found if found is not None and found.kind == "QMODEL" else None

    def keep_name_of(self, queue: LocalQueue) -> None:
        """A queue was deleted: while it is open or units of work on it are unfinished, no dynamic queue takes its
        name.
        """
        if _in_use(queue):
            self._leaving = {name: left for name, left in self._leaving.items() if _in_use(left)}
            self._leaving[queue.name] = queue

    def keeps_name(self, name: str) -> bool:
        """Whether a deleted queue still keeps this name from dynamic queues."""
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


def _in_use(queue: LocalQueue) -> bool:
    return bool(queue.handles or queue.uncommitted)
