"""Ways to take one rule of handlers out of the queue manager, by name: schedules must find each."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from broker.core.calls import releasing
from broker.core.deliveries import ending
from broker.core.deliveries.order import Order
from broker.core.triggers import Triggers
from broker.storage.memory import MemoryStore
from broker.storage.store import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager


@contextmanager
def _patched(*changes: tuple[object, str, Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name, value in changes:
            stack.enter_context(patch.object(owner, name, value))
        yield


def _without(name: str) -> AbstractContextManager[None]:
    """The store does not keep some rows."""
    take = MemoryStore._take

    def forgetting(self: MemoryStore, rows: Rows) -> None:
        kept = getattr(rows, name).copy()
        getattr(rows, name).clear()
        take(self, rows)
        getattr(rows, name).extend(kept)

    return _patched((MemoryStore, "_take", forgetting))


def counts_in_memory_alone() -> AbstractContextManager[None]:
    """What a failed attempt leaves is not on the disk."""
    return _without("handled")


def keys_in_memory_alone() -> AbstractContextManager[None]:
    """A key is not on the disk."""
    return _without("keys")


def no_start_after_a_failure() -> AbstractContextManager[None]:
    """A message that has waited after an attempt asks for no start."""
    return _patched((Triggers, "again", lambda *_: None))


def no_order_of_retries() -> AbstractContextManager[None]:
    """A message that waits after an attempt does not hold what has the same key."""
    return _patched((Order, "hold_retried", lambda *_: None))


def marks_stay() -> AbstractContextManager[None]:
    """What was given back has its mark still."""
    return _patched((ending, "softened", lambda _: Rows()))


def early_releases() -> AbstractContextManager[None]:
    """What waits is released a second before its instant."""
    due = releasing.release_due

    def early(manager: Any, moment: Any, count: int) -> int:
        return due(manager, moment._replace(wall=moment.wall + 1.0, tick=moment.tick + 1.0), count)

    return _patched((releasing, "release_due", early))


MUTATIONS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        counts_in_memory_alone,
        keys_in_memory_alone,
        no_start_after_a_failure,
        no_order_of_retries,
        marks_stay,
        early_releases,
    )
}
