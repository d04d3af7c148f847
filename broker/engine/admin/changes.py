"""Changes of definitions: each is made durable, then applied."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.core.names.definitions import Clear, Define, Delete, Together, of_group, single_changes
from broker.engine.admin.clearing import RUN_LENGTH, Clearing
from broker.engine.mistakes import mistake

if TYPE_CHECKING:
    from broker.core.names.definitions import Change
    from broker.core.queues.queue import LocalQueue
    from broker.engine.context import EngineContext
    from broker.storage.store import Done


class Changes:
    """Makes changes of definitions. Whoever asks for one sees to it that no other is being made."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._core = context.core

    def make(self, change: Change, then: Done) -> None:
        """Make a change of definitions durable, apply it, then call `then`."""
        sharing = self._context.sharing
        if sharing is not None and of_group(single_changes(change)[0]):
            sharing.repository.change(change, then)
        elif isinstance(change, Together):
            self._submit(change, then)
        elif isinstance(change, Clear):
            self._clear(self._core.objects.queues[change.name], partial(self._apply, change, then))
        elif isinstance(change, Delete) and change.space == "QUEUE" and change.name in self._core.objects.queues:
            self._delete(self._core.objects.queues[change.name], change, then)
        else:
            self._submit(change, then)

    def _submit(self, change: Change, then: Done) -> None:
        change, rows = self._core.freeze(change)
        self._context.journal.submit(rows, partial(self._apply, change, then))

    def _apply(self, change: Change, then: Done, error: Exception | None) -> None:
        """A change of definitions is durable, or could not be made so."""
        then(self._take_effect(change) if error is None else error)

    def _take_effect(self, change: Change) -> Exception | None:
        """Apply a change of definitions; the mistake that kept it from taking effect."""
        try:
            self._core.apply(change, self._context.clock.monotonic())
            self._context.perform()
            if isinstance(change, Define) and change.definition.kind == "QMGR":
                self._context.mark_expiry.rearm()
                if self._context.sharing is not None:
                    self._context.sharing.agent.altered()
            self._context.tell_followers(change)
        except Exception as wrong:
            return mistake(wrong, "a change of definitions")
        return None

    def _clear(self, queue: LocalQueue, done: Done) -> None:
        """Remove the messages of a queue. Nothing of it waits for a trigger monitor meanwhile."""
        self._core.triggers.count(queue, 0)

        def cleared(error: Exception | None) -> None:
            if error is not None:
                self._core.triggers.recount(queue, self._context.clock.monotonic())
            done(error)

        Clearing(self._context, queue, cleared).begin()

    def _delete(self, queue: LocalQueue, change: Delete, then: Done) -> None:
        """Delete a local queue with its messages; with many, these go first."""
        queue.deleted = True  # from now on: a message acknowledged meanwhile would go with the queue

        def cleared(error: Exception | None) -> None:
            if error is not None:
                deleted(error)
                return
            try:
                rows = self._core.freeze(change)[1]
            except Exception as wrong:
                deleted(mistake(wrong, "a change of definitions"))
            else:
                self._context.journal.submit(rows, deleted)

        def deleted(error: Exception | None) -> None:
            if error is None:
                error = self._take_effect(change)
                for entry in queue.shelf.entries.values():
                    self._context.bodies.gone(entry)
            else:
                queue.deleted = False
            then(error)

        if len(queue.shelf.available) > RUN_LENGTH:
            self._clear(queue, cleared)
        else:
            cleared(None)
