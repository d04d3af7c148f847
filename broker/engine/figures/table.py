"""The table of all figures: the one place where each has its name. The reference and the tests are made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.engine.figures.claim_families import CONSUMER, SINK
from broker.engine.figures.group_families import GROUP, STRUCTURE
from broker.engine.figures.handler_families import HANDLER
from broker.engine.figures.ibm_names import IBM_Q_MGR, IBM_QUEUE
from broker.engine.figures.manager_families import INFO, MANAGER, SCRAPE
from broker.engine.figures.queue_families import QUEUE
from broker.engine.figures.store_families import DAMAGE, STORE

if TYPE_CHECKING:
    from broker.engine.figures.families import Section

EVERMQ: Final[tuple[Section[Any], ...]] = (
    INFO, MANAGER, QUEUE, HANDLER, CONSUMER, SINK, STORE, DAMAGE, GROUP, STRUCTURE, SCRAPE,
)  # fmt: skip

IBMMQ: Final[tuple[Section[Any], ...]] = (IBM_Q_MGR, IBM_QUEUE)


def sections(names: str) -> tuple[Section[Any], ...]:
    """The sections of a scrape by these names."""
    return IBMMQ if names == "ibmmq" else EVERMQ
