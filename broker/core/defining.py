"""Changes of definitions take effect: objects come, are altered and go, and with them what is open or waits.

By then a change is durable, or need not be. Whether it is allowed has been decided by the command or the call that
asked for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.indirect_queue import INDIRECT_KINDS, IndirectQueue
from broker.core.queue import LocalQueue
from broker.core.routes import leads_elsewhere
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.definitions import Define, Definition, Delete
    from broker.core.effects import Effects
    from broker.core.handles import Handle
    from broker.core.manager import Manager


def define(manager: Manager, change: Define, effects: Effects) -> None:
    """Take in a definition, new or altered."""
    definition = change.definition
    if definition.kind == "QMGR":
        manager.definitions[definition.space, definition.name] = definition
        _configure(manager, definition, effects)
        return
    queue = manager.queues.get(definition.name) if definition.kind == "QLOCAL" else None
    if change.alters and (queue is None or queue.number != change.number):
        return  # the temporary dynamic queue has gone while its alteration was on its way
    manager.definitions[definition.space, definition.name] = definition
    if definition.kind == "PROCESS":
        manager.processes[definition.name] = definition
        manager.triggers.post()
    elif definition.kind in INDIRECT_KINDS:
        _define_indirect(manager, definition, effects)
    elif queue is not None:
        _alter_queue(manager, queue, definition, effects)
    elif definition.kind == "QLOCAL":
        queue = manager.queues[definition.name] = LocalQueue(definition, change.number, manager.ids)
        queue.to_offer = manager.to_offer


def delete(manager: Manager, change: Delete, effects: Effects) -> None:
    """Forget an object. Handles that are still open on a queue find it deleted (Q_DELETED, 2052)."""
    manager.definitions.pop((change.space, change.name), None)
    if change.space == "PROCESS":
        manager.processes.pop(change.name, None)
        return
    manager.indirect_queues.pop(change.name, None)
    queue = manager.queues.pop(change.name, None)
    if queue is not None:
        queue.deleted = True
        manager.triggers.count(queue, 0)
        manager.end_waits(queue.waiters, MQRC.Q_DELETED, effects)
        manager.keep_name_of(queue)


def _configure(manager: Manager, definition: Definition, effects: Effects) -> None:
    before, by_default = manager.definition, manager.default_routes()
    manager.configure(definition)
    if leads_elsewhere(before, definition):
        _invalidate(manager, by_default, effects)


def _define_indirect(manager: Manager, definition: Definition, effects: Effects) -> None:
    indirect = manager.indirect_queues.get(definition.name)
    if indirect is None:
        manager.indirect_queues[definition.name] = IndirectQueue(definition)
        return
    before = indirect.definition
    indirect.configure(definition)
    if leads_elsewhere(before, definition):
        _invalidate(manager, indirect.handles, effects)
    if indirect.get_inhibited:
        for handle in indirect.handles:
            manager.end_waits(handle.waiting, MQRC.GET_INHIBITED, effects)


def _alter_queue(manager: Manager, queue: LocalQueue, definition: Definition, effects: Effects) -> None:
    before = queue.definition
    triggering = _trigger_attributes(queue)
    was_inhibited, was_shareable = queue.get_inhibited, queue.shareable
    queue.configure(definition)
    if _trigger_attributes(queue) != triggering:
        manager.triggers.recount(queue)
    if leads_elsewhere(before, definition):
        _invalidate(manager, queue.handles, effects)
    elif was_shareable and not queue.shareable and queue.input_count > 1:
        _invalidate(manager, [handle for handle in queue.handles if handle.removes], effects)
    if queue.get_inhibited and not was_inhibited:
        manager.end_waits(queue.waiters, MQRC.GET_INHIBITED, effects)
    if was_inhibited and not queue.get_inhibited:
        manager.triggers.post()


def _invalidate(manager: Manager, handles: Iterable[Handle], effects: Effects) -> None:
    """What these handles were opened for is no longer so: all that is left is to close them (OBJECT_CHANGED, 2041)."""
    for handle in handles:
        handle.changed = True
        manager.end_waits(handle.waiting, MQRC.OBJECT_CHANGED, effects)


def _trigger_attributes(queue: LocalQueue) -> tuple[object, ...]:
    return (
        queue.trigger_on, queue.trigger_type, queue.trigger_priority, queue.process_name, queue.initiation_q_name,
    )  # fmt: skip
