"""Find available messages that consumers of whole groups do not claim (claims rule 2.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.claims.claiming import GROUP_MAX
from broker.core.explain.findings import finding, in_steps
from broker.core.explain.incomplete import GROUPS_MAX
from broker.mqi.explanations import Cause

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.claims.consumers import Consumers
    from broker.core.explain.findings import Steps
    from broker.core.queues.queue import LocalQueue
    from broker.core.queues.shelf.shelf import Shelf
    from broker.mqi.explanations import Finding


def passed_over(shelf: Shelf, queue: LocalQueue, ids: Iterable[bytes], consumers: Consumers, group_bytes: int) -> Steps:
    """Of the groups with these identifiers those that are too large to be claimed as a whole, for instance of more than
    `group_bytes`, and those of which something stays behind; nothing where nobody claims from the queue.
    """
    if not any(consumers.names(each, queue) for each in consumers.all()):
        return
    left = GROUPS_MAX
    for id in ids:
        for found in _of(shelf, id, group_bytes):
            yield found
            left -= found is not None
        if left <= 0:
            return
        yield None


def _of(shelf: Shelf, id: bytes, group_bytes: int) -> Steps:
    keys = list(shelf.groups.after(id, 0))
    if not keys or not shelf.groups.group_complete(shelf.entries[keys[0]]):
        return
    name = id.hex()
    if len(keys) > GROUP_MAX:
        yield _too_large(name, f"{len(keys)} messages, and {GROUP_MAX} is the most", messages=len(keys))
        return
    taken = set(shelf.groups.in_order(shelf.entries[keys[0]]))
    size = 0
    for entry in in_steps([shelf.entries[key] for key in keys]):
        if entry is None:
            yield None
        elif entry.key in taken:
            size += entry.length
    if size > group_bytes:
        yield _too_large(name, f"{size} bytes, and claim_bytes is {group_bytes}", messages=len(keys), bytes=size)
    elif len(keys) > len(taken):
        yield finding(
            Cause.GROUP_LEFT_BEHIND,
            f"{len(keys) - len(taken)} of the messages of group {name} are beyond its last, or in the place of "
            "another: a consumer that takes whole groups leaves them",
            messages=len(keys) - len(taken),
            group_id=name,
        )


def _too_large(group_id: str, why: str, **figures: int) -> Finding:
    text = f"group {group_id} has {why}: a consumer that takes whole groups passes it over"
    return finding(Cause.GROUP_TOO_LARGE, text, group_id=group_id, **figures)
