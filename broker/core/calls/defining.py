"""Changes of definitions: what they write, and how they take effect on objects, and on what is open or waits.

A change is frozen, made durable, or need not be, and applied. Whether it is allowed has been decided by the command or
the call that asked for it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgpack

from broker.core.calls import postponing
from broker.core.message.entry import DAMAGED
from broker.core.message.rows import ObjectRow, Rows
from broker.core.names.definitions import OWN, SECURITY_SPACES, SHARED, Define, Definition, Delete, Together
from broker.core.names.dynamic import is_temporary
from broker.core.names.indirect_queue import INDIRECT_KINDS, IndirectQueue
from broker.core.names.routes import leads_elsewhere
from broker.core.names.sharing_group import uses_igq
from broker.core.queues.queue import LocalQueue
from broker.core.queues.shared_queue import SharedQueue
from broker.core.queues.unit import Unit
from broker.core.queues.unit_extras import UnitExtras
from broker.core.queues.waiting import end_waits
from broker.mqi.constants.attribute_values import MQTT
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.manager import Manager
    from broker.core.names.definitions import Change
    from broker.core.names.objects import Objects
    from broker.core.queues.handles import Handle
    from broker.core.triggers import Triggers

_DEPTH = MQTT.DEPTH.value
RECORDS: Final = "AUTHREC"


def freeze(objects: Objects, change: Change) -> tuple[Change, Rows]:
    """Return the rows of a definition change, and the change to apply once they are durable. (CLEAR is a unit.)"""
    if isinstance(change, Together):
        return _freeze_together(objects, change)
    if isinstance(change, Delete):
        queue = objects.own_queue(change.name) if change.space == "QUEUE" else None
        gone = [entry.id for entry in queue.shelf.entries.values() if entry.persistence] if queue else []
        freed = queue.keys.stored() if queue is not None and queue.keys is not None else []
        dropped = [(change.space, change.name), *((RECORDS, key) for key in change.records)]
        return change, Rows(removals=gone, dropped=dropped, freed=freed)
    assert isinstance(change, Define)
    definition = change.definition
    queue = objects.own_queue(definition.name) if definition.space == "QUEUE" else None
    if queue is None:
        change = replace(change, number=objects.ids.next(), alters=False)
    else:
        change = replace(change, number=queue.number, alters=True, switch_offs=queue.switch_offs)
    if is_temporary(definition):
        return change, Rows()
    before = objects.own(definition.space, definition.name)
    unwritten = queue is not None and queue.unwritten_switch_off
    if before is not None and before.same_as(definition) and not unwritten:  # as at each start with the same script
        return replace(change, definition=before), Rows()
    attributes: bytes = msgpack.packb(definition.attributes)
    row = ObjectRow(definition.space, definition.name, change.number, definition.kind, attributes)
    return change, Rows(objects=[row])


def _freeze_together(objects: Objects, change: Together) -> tuple[Together, Rows]:
    """The rows of all changes of one transaction."""
    frozen = []
    written = Rows()
    for each in change.changes:
        one, rows = freeze(objects, each)
        assert isinstance(one, Define | Delete)
        frozen.append(one)
        written.extend(rows)
    return Together(tuple(frozen)), written


def apply(objects: Objects, triggers: Triggers, change: Change, tick: float = 0.0) -> None:
    """Let a change of definitions take effect, now that it is durable."""
    if isinstance(change, Together):
        for each in change.changes:
            apply(objects, triggers, each, tick)
        return
    objects.changes += 1
    if isinstance(change, Define):
        _define(objects, triggers, change, tick)
    elif isinstance(change, Delete):
        delete(objects, triggers, change)
    else:
        shared = change.disposition == SHARED
        triggers.count((objects.shared_queues if shared else objects.queues)[change.name], 0)


def load_object(objects: Objects, triggers: Triggers, row: ObjectRow) -> None:
    """A definition as the store kept it."""
    attributes = msgpack.unpackb(row.attributes)
    _define(objects, triggers, Define(Definition(row.kind, row.name, attributes), row.number))


def clear(manager: Manager, queue: LocalQueue, count: int) -> Unit:
    """A unit, not frozen yet, that removes the first available messages of a queue, before Clear is applied; delayed
    ones, then damaged ones, when no other is left. Their keys are free with that.
    """
    unit = Unit()
    shelf = queue.shelf
    if not shelf.available:
        for key in list(islice(shelf.delayed, count)):
            postponing.take(manager, shelf.entries[key], unit)
    if not shelf.available:
        for entry in [shelf.entries[key] for key in shelf.damaged if shelf.entries[key].state == DAMAGED][:count]:
            queue.readmit(entry)
    for entry in shelf.heads(count):
        queue.take(entry, unit)
        unit.gets[entry] = True
        if queue.keys is not None and not entry.delayed:
            unit.extras = unit.extras or UnitExtras()
            unit.extras.cancel(entry)
    return unit


def delete(objects: Objects, triggers: Triggers, change: Delete) -> None:
    """Forget an object, with its authority records. Handles that are still open on a queue find it deleted (Q_DELETED,
    2052).
    """
    for key in change.records:
        _forget(objects, RECORDS, key)
    if change.space in SECURITY_SPACES:
        _forget(objects, change.space, change.name, change.disposition)
        return
    queue = _taken_out(objects, change)
    if queue is not None:
        queue.deleted = True
        triggers.count(queue, 0)
        triggers.forget(queue)
        triggers.post()  # who waits for deliveries of it is told
        end_waits(queue.waiters, MQRC.Q_DELETED, objects.effects)
        objects.keep_name_of(queue)
        objects.keep_counts_of(queue)


def _taken_out(objects: Objects, change: Delete) -> LocalQueue | None:
    """The queue that is deleted, no longer known by its name; a shared queue behind it is found by that again."""
    key = (change.space, change.name)
    if change.disposition == SHARED:
        queue: LocalQueue | None = objects.shared_queues.pop(change.name, None)
        if objects.queues.get(change.name) is queue:
            objects.queues.pop(change.name, None)
            objects.definitions.pop(key, None)
        return queue
    objects.definitions.pop(key, None)
    if change.space == "PROCESS":
        objects.processes.pop(change.name, None)
    if change.space != "QUEUE":
        return None
    objects.indirect_queues.pop(change.name, None)
    queue = objects.queues.pop(change.name, None)
    behind = objects.shared_queues.get(change.name)
    if behind is not None:
        objects.definitions[key], objects.queues[change.name] = behind.definition, behind
    return queue


def _define_shared(objects: Objects, triggers: Triggers, change: Define, tick: float) -> None:
    """Take in the definition of a shared queue, if it is newer than the one that is known. Its handles stay behind an
    object of the queue manager's own.
    """
    definition = change.definition
    name = definition.name
    queue = objects.shared_queues.get(name)
    if queue is not None and change.number <= queue.version:
        return
    if queue is not None:
        queue.version = change.number
        _alter_queue(objects, triggers, queue, definition, tick)
    else:
        queue = SharedQueue(definition, change.number, objects.ids, objects.effects)
        queue.counts = objects.counts_for(name)
        objects.shared_queues[name] = queue
        triggers.define(queue)
    queue.stand_in(objects.structure(str(definition.attributes.get("CFSTRUCT", ""))))
    if objects.own("QUEUE", name) is None:
        objects.definitions["QUEUE", name], objects.queues[name] = definition, queue


def _step_behind(objects: Objects, name: str) -> None:
    """An object of the queue manager's own takes the name of a shared queue, which cannot be opened by it any more."""
    queue = objects.shared_queues.get(name)
    if queue is not None and objects.queues.get(name) is queue:
        del objects.queues[name]
        _invalidate(objects, queue.handles)


def _define(objects: Objects, triggers: Triggers, change: Define, tick: float = 0.0) -> None:
    """Take in a definition, new or altered."""
    definition = change.definition
    if definition.space in SECURITY_SPACES:
        _know(objects, definition)
        return
    if definition.shared:
        _define_shared(objects, triggers, change, tick)
        return
    queue = objects.own_queue(definition.name) if definition.kind == "QLOCAL" else None
    if change.alters and (queue is None or queue.number != change.number):
        return  # the temporary dynamic queue has gone while its alteration was on its way
    if queue is not None:
        definition = triggers.keep_off(queue, definition, change.switch_offs)
    if definition.space == "QUEUE":
        _step_behind(objects, definition.name)
    objects.definitions[definition.space, definition.name] = definition
    if definition.kind == "QMGR":
        _define_manager(objects, definition)
    elif definition.kind == "PROCESS":
        objects.processes[definition.name] = definition
        triggers.post()
    elif definition.kind in INDIRECT_KINDS:
        _define_indirect(objects, definition)
    elif queue is not None:
        _alter_queue(objects, triggers, queue, definition, tick)
    elif definition.kind == "QLOCAL":
        queue = LocalQueue(definition, change.number, objects.ids, objects.effects)
        queue.counts = objects.counts_for(definition.name)
        objects.queues[definition.name] = queue
        triggers.define(queue)


def _know(objects: Objects, definition: Definition) -> None:
    """Take in the definition of a user, a record, a channel, a rule or authentication information. One that the group
    shares holds before the queue manager's own of the same name.
    """
    space, name = definition.space, definition.name
    if space == RECORDS:
        objects.records.setdefault(_subject(definition), {})[name] = definition
    if definition.shared:
        objects.shared_security[space, name] = definition
        objects.authority.group.define(space, name, definition.attributes)
    else:
        objects.definitions[space, name] = definition
    if objects.holding(space, name) is definition:
        objects.authority.define(space, name, definition.attributes)


def _forget(objects: Objects, space: str, name: str, disposition: int = OWN) -> None:
    """One of these is gone; what it stood before holds again."""
    shared = disposition == SHARED
    definition = (objects.shared_security if shared else objects.definitions).pop((space, name), None)
    if definition is not None and space == RECORDS:
        subject = _subject(definition)
        objects.records[subject].pop(name, None)
        if not objects.records[subject]:
            del objects.records[subject]
    if shared:
        objects.authority.group.delete(space, name)
    left = objects.holding(space, name)
    if left is not None:
        objects.authority.define(space, name, left.attributes)
        return
    objects.authority.delete(space, name)
    if space == "CHANNEL":
        objects.stopped_channels.discard(name)


def _subject(record: Definition) -> tuple[int, int, str]:
    """The disposition of an authority record, and the type of object and the profile that it is about."""
    return record.disposition, int(record.attributes["OBJTYPE"]), str(record.attributes["PROFILE"])


def _define_manager(objects: Objects, definition: Definition) -> None:
    """The queue manager's own definition; its other attributes are taken over by `Manager.configure`."""
    before, by_default = objects.definition, objects.default_routes()
    objects.definition = definition
    if leads_elsewhere(before, definition):
        _invalidate(objects, by_default)
    if uses_igq(before) != uses_igq(definition):
        _invalidate(objects, objects.routes_between_members())


def _define_indirect(objects: Objects, definition: Definition) -> None:
    indirect = objects.indirect_queues.get(definition.name)
    if indirect is None:
        objects.indirect_queues[definition.name] = IndirectQueue(definition)
        return
    before = indirect.definition
    indirect.configure(definition)
    if leads_elsewhere(before, definition):
        _invalidate(objects, indirect.handles)
    if indirect.get_inhibited:
        for handle in indirect.handles:
            end_waits(handle.waiting, MQRC.GET_INHIBITED, objects.effects)


def _alter_queue(objects: Objects, triggers: Triggers, queue: LocalQueue, definition: Definition, tick: float) -> None:
    before = queue.definition
    triggering = _trigger_attributes(queue)
    was_inhibited, was_put_inhibited, was_shareable = queue.get_inhibited, queue.put_inhibited, queue.shareable
    judged = False
    triggers.forget(queue)
    queue.configure(definition)
    triggers.define(queue)
    if _trigger_attributes(queue) != triggering:
        triggers.recount(queue, tick)
        judged = True
    if leads_elsewhere(before, definition):
        _invalidate(objects, queue.handles)
    elif was_shareable and not queue.shareable and queue.input_count > 1:
        _invalidate(objects, [handle for handle in queue.handles if handle.removes])
    if not before.same_as(definition):
        _invalidate(objects, [handle for handle in queue.handles if handle.route and handle.route.group])
    if queue.get_inhibited and not was_inhibited:
        end_waits(queue.waiters, MQRC.GET_INHIBITED, objects.effects)
    if was_inhibited and not queue.get_inhibited:
        triggers.gets_allowed(queue, tick, judged=judged)
    if was_put_inhibited and not queue.put_inhibited:
        triggers.puts_allowed(queue, tick)


def _invalidate(objects: Objects, handles: Iterable[Handle]) -> None:
    """Mark handles as changed: they can only be closed now (OBJECT_CHANGED, 2041)."""
    for handle in handles:
        handle.changed = True
        end_waits(handle.waiting, MQRC.OBJECT_CHANGED, objects.effects)


def _trigger_attributes(queue: LocalQueue) -> tuple[object, ...]:
    """The attributes that E4 is about. With an initiation queue another process changes only what a trigger message
    says.
    """
    depth = queue.trigger_depth if queue.trigger_type == _DEPTH else 0
    process_name = "" if queue.initiation_q_name else queue.process_name
    return (
        queue.trigger_on, queue.trigger_type, queue.trigger_priority, depth, process_name, queue.initiation_q_name,
    )  # fmt: skip
