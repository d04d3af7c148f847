"""The start of a queue manager: its core with what the store holds, and the objects that it has from the beginning."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from anyio import CancelScope

from broker.commands.table.attributes import create
from broker.commands.table.default_objects import default_objects
from broker.config import DURABLE
from broker.core.identifiers import INSTANCE_BITS
from broker.core.manager import INSTANCE, Manager
from broker.core.message.rows import Rows
from broker.core.moment import Moment
from broker.core.names.definitions import SECURITY_SPACES, Define
from broker.engine.journal.loading import load_messages
from broker.storage.store import StoreFailedError, StoreFullError, StoreUnusableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.clock import Clock
    from broker.config import Config, LimitsConfig
    from broker.core.names.definitions import Change
    from broker.storage.store import Store

TOLERATE: Final = 1
"""CFCONLOS of a queue manager that goes on without its queue-sharing group."""

logger = logging.getLogger(__name__)


async def load_core(store: Store, config: Config, clock: Clock, random_bits: Callable[[int], int]) -> Manager:
    """Return the core with what the store holds. Raises StoreUnusableError where that is another queue manager's."""
    name = config.queue_manager.name
    objects, high_water = await store.load_objects()
    now = clock.time()
    kept = next((row for row in objects if row.kind == "QMGR"), None)
    definition = create("QMGR", name, _in_utc(now), QMID=f"{name}_{_in_utc(now):%Y-%m-%d_%H.%M.%S}")
    if kept is None and config.queue_manager.defaults == DURABLE:
        definition.attributes["CFCONLOS"] = TOLERATE
    if not high_water:  # nothing was ever made here: later it would change identifiers that are known already
        definition.attributes[INSTANCE] = random_bits(INSTANCE_BITS)
    core = Manager(definition, now, high_water)
    limit(core, config.limits)
    if kept is not None and kept.name != name:
        raise StoreUnusableError.of_another(kept.name, name)
    for row in objects:
        core.load_object(row)
    count = await load_messages(store, core, Moment(now, clock.monotonic()))
    logger.info("messages loaded name=%s messages=%d", name, count)
    core.start_triggers(clock.monotonic())
    return core


def limit(core: Manager, limits: LimitsConfig) -> None:
    """Let the core hold as much as the limits say. What it holds already stays."""
    core.unit_bytes_max = limits.unit_of_work_bytes
    core.sinks.bytes_max = limits.prepared_bytes
    core.branches.maximum = limits.in_doubt_units
    core.keys.maximum = limits.keys
    core.deliveries.step_budget.maximum = limits.steps_bytes


async def create_objects(store: Store, core: Manager, config: Config, now: float) -> None:
    """Define what the store does not have: everything when the queue manager is new, else what an earlier version did
    not create. What is there stays as it is.
    """
    durable = config.queue_manager.defaults == DURABLE
    objects = core.objects
    wanted = (objects.definition, *default_objects(_in_utc(now), durable=durable))
    secured = any(space in SECURITY_SPACES for space, _ in objects.definitions)  # rules that were removed stay away
    missing = [
        Define(each)
        for each in wanted
        if (each.space, each.name) not in objects.definitions and not (secured and each.space == "CHLAUTH")
    ]
    if await define(store, core, missing, "default objects", needed=not objects.definitions):
        logger.info("default objects created name=%s objects=%d", core.name, len(missing))
    serves_others = bool(config.tls.host) or config.http.serves_others
    if core.begins_to_check or (serves_others and not core.checked):  # then nobody is believed any more, for good
        await define(store, core, [core.as_checked()], "check of users")


async def define(store: Store, core: Manager, wanted: Sequence[Change], what: str, *, needed: bool = False) -> bool:
    """Make changes of definitions before anybody connects; return True if there was anything to do and room for it.
    Raises StoreUnusableError where there is no room for what is `needed`, or the store has failed.
    """
    if not wanted:
        return False
    changed = Rows(high_water=core.ids.reserve())
    changes = []
    for each in wanted:
        change, rows = core.freeze(each)
        changes.append(change)
        changed.extend(rows)
    try:
        await store.write(changed)
    except (StoreFullError, StoreFailedError) as error:
        if needed or isinstance(error, StoreFailedError):
            raise StoreUnusableError(f"the objects of {core.name} cannot be written: {error}") from error
        logger.warning(
            "%s not created name=%s objects=%d: %s",
            what,
            core.name,
            len(wanted),
            error,
            extra={"event": "objects_not_created"},
        )
        return False
    for change in changes:
        core.apply(change)
    return True


async def keep_nonpersistent(store: Store, core: Manager) -> None:
    """An orderly stop keeps the nonpersistent messages of queues with NPMCLASS(HIGH) for the next start."""
    rows = core.nonpersistent_rows()
    if not rows:
        return
    with CancelScope(shield=True):
        try:
            await store.write(rows)
        except StoreFullError as full:
            logger.warning("nonpersistent messages lost messages=%d: %s", len(rows.inserts), full)


def _in_utc(now: float) -> datetime:
    return datetime.fromtimestamp(now, UTC)
