"""Another configuration for a queue manager that runs: the limits, and what is trusted of `[tls]`, take effect."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from broker.engine import starting

if TYPE_CHECKING:
    from broker.config import Config
    from broker.engine.manager import QueueManager

logger = logging.getLogger(__name__)


def reconfigure(manager: QueueManager, config: Config) -> None:
    """Take over the limits of another configuration. What is held already beyond a lower one stays, but for bodies in
    memory. Those who run the queue manager see to the rest.
    """
    limits = config.limits
    manager.config = manager.authentication.config = config
    starting.limit(manager.core, limits)
    manager.commands.script_bytes = limits.script_bytes
    manager.claim_watch.claim_age = limits.claim_age
    manager.expiry_scan.tidy = partial(manager.sinks.tidy, limits.prepared_age)
    manager.bodies.budget = limits.body_bytes
    manager.slices.run(manager.bodies.shrink(), _shrunk)


def _shrunk(error: Exception | None) -> None:
    if error is not None:
        logger.error("bodies not let go", exc_info=error)
