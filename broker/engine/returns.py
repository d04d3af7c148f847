"""Messages that leave an open unit of work: the program does not have them after all."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.core import granting
from broker.core.unit import Unit
from broker.engine.hardening import softened
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.entry import Entry
    from broker.core.queue import LocalQueue
    from broker.engine.conversation import Conversation


def give_back(conversation: Conversation, hobj: int, tokens: Sequence[bytes], last: bytes) -> None:
    """What the handle has got under syncpoint after the message with the token `last` goes back.

    Tokens of other messages are not looked at: nobody waits for an answer that could say so.
    """
    handle = conversation.hconn.handles.get(hobj)
    unit = conversation.hconn.unit
    if handle is None or handle.queue is None or unit is None:
        return
    found = map(partial(_entry, handle.queue), tokens)
    entries = [entry for entry in found if entry is not None and entry in unit.gets]
    kept = _entry(handle.queue, last)
    if entries and kept is not None:
        granting.step_back(handle, entries[-1], kept)
    leave_unit(conversation, entries)


def leave_unit(conversation: Conversation, entries: Sequence[Entry]) -> None:
    """Messages got leave their open unit of work for their places, their backout counts as they were.

    Whatever becomes of the unit later is nothing to them. One that is hardened stays out of sight until the store knows
    that it went back.
    """
    manager = conversation.manager
    hardened = [entry for entry in entries if entry.hardened]
    others = [entry for entry in entries if not entry.hardened]
    if hardened:
        _soften(conversation, hardened)
    for entry in others:
        manager.perform(manager.core.give_back(entry, manager.clock.time()))


def _soften(conversation: Conversation, hardened: Sequence[Entry]) -> None:
    manager = conversation.manager
    aside = Unit()
    for entry in hardened:
        if entry.unit is not None:
            entry.unit.pass_on(entry, aside)

    rows = softened(hardened)

    def written(error: Exception | None) -> None:
        if error is None or isinstance(error, StoreFullError):
            for entry in hardened:
                manager.perform(manager.core.give_back(entry, manager.clock.time()))

    conversation.call_order.write(rows, written, reveals=True)


def _entry(queue: LocalQueue, token: bytes) -> Entry | None:
    return queue.entries.get(int.from_bytes(token, "big"))
