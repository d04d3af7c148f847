"""Return messages that were got to their queue: the program does not have them after all (journal rules 11 and 12).

Messages leave an open unit of work (`leave_unit`), be it that a loop was not given them (`give_back`) or that nobody
took the answer to the call that got them (`put_back`).
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from broker.core.calls.gets import granting
from broker.core.calls.settling import softened
from broker.core.message.rows import Rows
from broker.core.queues import unit as units
from broker.core.queues.unit import Unit
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.core.message.entry import Entry
    from broker.core.queues.queue import LocalQueue
    from broker.engine.conversation import Conversation

logger = logging.getLogger(__name__)


def give_back(conversation: Conversation, hobj: int, tokens: Sequence[bytes], last: bytes) -> None:
    """Give back what the handle has got under syncpoint after the message with the token `last`.

    Tokens of other messages are not looked at: nobody waits for an answer that could say so.
    """
    handle = conversation.hconn.handles.get(hobj)
    unit = conversation.hconn.unit
    if handle is None or handle.queue is None or unit is None:
        return
    queue = handle.queue
    entry_of: Callable[[bytes], Entry | None] = partial(_entry, queue)
    if queue.shared:
        got = {entry.token: entry for entry in unit.gets if entry.queue is queue}
        entry_of = got.get
    found = map(entry_of, tokens)
    entries = [entry for entry in found if entry is not None and entry in unit.gets]
    kept = entry_of(last)
    if entries and kept is not None:
        granting.step_back(handle, entries[-1], kept)
    leave_unit(conversation, entries)


def leave_unit(conversation: Conversation, entries: Sequence[Entry]) -> None:
    """Messages got leave their open unit of work for their places, their backout counts as they were.

    Whatever becomes of the unit later is nothing to them. One that is hardened stays out of sight until the store knows
    that it went back.
    """
    context = conversation.context
    shared = [entry for entry in entries if entry.queue.shared]
    if shared:
        context.member.returned.give_back(conversation.call_order, shared)
        entries = [entry for entry in entries if not entry.queue.shared]
    hardened = [entry for entry in entries if entry.hardened]
    others = [entry for entry in entries if not entry.hardened]
    if hardened:
        _soften(conversation, hardened)
    for entry in others:
        context.core.give_back(entry, context.clock.time())
        context.perform()


def _soften(conversation: Conversation, hardened: Sequence[Entry]) -> None:
    context = conversation.context
    aside = Unit()
    for entry in hardened:
        if entry.unit is not None:
            entry.unit.pass_on(entry, aside)

    rows = softened(hardened)

    def softening_written(error: Exception | None) -> None:
        if error is None or isinstance(error, StoreFullError):
            for entry in hardened:
                context.core.give_back(entry, context.clock.time())
                context.perform()

    conversation.call_order.write(rows, softening_written, reveals=True)


def _entry(queue: LocalQueue, token: bytes) -> Entry | None:
    return queue.shelf.entries.get(int.from_bytes(token, "big"))


def put_back(conversation: Conversation, got: Sequence[tuple[Entry, Unit]]) -> None:
    """Nobody took the answer to the gets with which these units got these messages.

    Where the unit of work is still open, the message leaves it. Where it has been committed since, or was the implicit
    one of a get outside syncpoint, the message is put again. Where it was backed out, the message is back already.
    """
    leave_unit(conversation, [entry for entry, unit in got if unit.state == units.ACTIVE])
    for entry, unit in got:
        _put_again(conversation, entry, unit)


def _put_again(conversation: Conversation, entry: Entry, unit: Unit) -> None:
    call_order, context = conversation.call_order, conversation.context
    if unit.state == units.COMMITTED and entry.queue.shared:
        context.member.returned.put_again(entry)
    elif unit.state == units.COMMITTED:
        again = context.core.put_again(entry)
        if again is not None:
            call_order.commit(again, partial(_tell_loss, entry))
    elif unit.state == units.COMMITTING:
        call_order.write(Rows(), partial(_settled_meanwhile, conversation, entry, unit), reveals=True)


def _settled_meanwhile(conversation: Conversation, entry: Entry, unit: Unit, error: Exception | None) -> None:
    if error is None or isinstance(error, StoreFullError):
        _put_again(conversation, entry, unit)


def _tell_loss(entry: Entry, error: Exception | None) -> None:
    if error is not None:
        logger.error("message lost id=%s queue=%s: %s", entry.msg_id.hex(), entry.queue.name, error)
