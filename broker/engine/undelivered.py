"""Messages that were got by a call whose answer nobody took: back to their queues (journal rules 11 and 12)."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from broker.core import unit as units
from broker.core.rows import Rows
from broker.engine.returns import leave_unit
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from broker.core.entry import Entry
    from broker.core.unit import Unit
    from broker.engine.conversation import Conversation

logger = logging.getLogger(__name__)


def put_back(conversation: Conversation, entry: Entry, unit: Unit) -> None:
    """Nobody took the answer to the get with which `unit` got this message.

    If its unit of work is still open, the message leaves it. If that has been committed since, or was the implicit one
    of a get outside syncpoint, the message is put again. If it was backed out, the message is back already.
    """
    turns, manager = conversation.turns, conversation.manager
    meanwhile = partial(_settled_meanwhile, conversation, entry, unit)
    if unit.state == units.COMMITTED:
        again = manager.core.put_again(entry)
        if again is not None:
            turns.commit(again, partial(_tell_loss, entry))
    elif unit.state == units.COMMITTING:
        turns.write(Rows(), meanwhile, reveals=True)
    elif unit.state == units.ACTIVE:
        leave_unit(conversation, [entry])


def _settled_meanwhile(conversation: Conversation, entry: Entry, unit: Unit, error: Exception | None) -> None:
    if error is None or isinstance(error, StoreFullError):
        put_back(conversation, entry, unit)


def _tell_loss(entry: Entry, error: Exception | None) -> None:
    if error is not None:
        logger.error("message lost id=%s queue=%s: %s", entry.msg_id.hex(), entry.queue.name, error)
