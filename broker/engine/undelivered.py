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
    from collections.abc import Sequence

    from broker.core.entry import Entry
    from broker.core.unit import Unit
    from broker.engine.conversation import Conversation

logger = logging.getLogger(__name__)


def put_back(conversation: Conversation, got: Sequence[tuple[Entry, Unit]]) -> None:
    """Nobody took the answer to the gets with which these units got these messages.

    Where the unit of work is still open, the message leaves it. Where it has been committed since, or was the implicit
    one of a get outside syncpoint, the message is put again. Where it was backed out, the message is back already.
    """
    leave_unit(conversation, [entry for entry, unit in got if unit.state == units.ACTIVE])
    for entry, unit in got:
        _put_again(conversation, entry, unit)


def _put_again(conversation: Conversation, entry: Entry, unit: Unit) -> None:
    call_order, manager = conversation.call_order, conversation.manager
    if unit.state == units.COMMITTED:
        again = manager.core.put_again(entry)
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
