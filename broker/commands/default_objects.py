"""The objects that a queue manager creates when it is new: the default objects, from which DEFINE takes what it is not
given, and the queue that is offered for undelivered messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.commands.attributes import create
from broker.commands.kinds import KINDS

if TYPE_CHECKING:
    from datetime import datetime

    from broker.core.definitions import Definition

DEAD_LETTER_QUEUE = "SYSTEM.DEAD.LETTER.QUEUE"


def default_objects(now: datetime) -> list[Definition]:
    """Their definitions, created `now`."""
    defaults = [create(kind.noun, kind.template, now) for kind in KINDS.values() if kind.template]
    return [*defaults, create("QLOCAL", DEAD_LETTER_QUEUE, now)]
