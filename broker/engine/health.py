"""The health of a queue manager: the checks by which a probe or a watchdog tells if it works.

- *Alive*: no batch of the journal has been under way for more than 30 s. Only a restart helps where one has.
- *Ready*: it is alive, has started, listens, has room for what grows, does not end, and is in its queue-sharing group
  where it has one. A full disk makes it unready, not dead.

A check looks at what is in memory, and waits for nothing. That the event loop turns is told by the answer itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import anyio

    from broker.clock import Clock
    from broker.core.manager import Manager
    from broker.engine.journal.journal import Journal
    from broker.storage.store import Store

BATCH_SECONDS: Final = 30.0
"""The longest time for which a batch of the journal may be under way."""

STARTING: Final = "starting"
LISTENER: Final = "listener"


class GroupMembership(Protocol):
    """What says if a queue manager is in its queue-sharing group now (`broker.engine.shared_queues`)."""

    @property
    def in_group(self) -> bool: ...

    @property
    def waits_for(self) -> str: ...


class Checked(Protocol):
    """A queue manager, as its checks look at it."""

    name: str
    clock: Clock
    store: Store
    missing: dict[str, str]
    stopping: anyio.Event

    @property
    def sharing(self) -> GroupMembership | None: ...

    @property
    def core(self) -> Manager: ...

    @property
    def journal(self) -> Journal: ...


def failing_checks(manager: Checked, *, ready: bool = False) -> dict[str, str]:
    """Return the checks that fail, by their names, each with its reason in words: empty where all is well.

    Without `ready` it is `journal`, of a queue manager that is alive; with it those of one that is ready as well:
    `starting`, `listener`, `store_full`, `quiescing`, `group`. Before it is open, `starting` is all there is to say.
    """
    if not hasattr(manager, "journal"):
        return {STARTING: f"{manager.name} is being opened"} if ready else {}
    return {name: why for name, why in (_ready(manager) if ready else _alive(manager)).items() if why}


def _alive(manager: Checked) -> dict[str, str]:
    began = manager.journal.batch_began
    seconds = 0.0 if began is None else manager.clock.monotonic() - began
    stuck = seconds > BATCH_SECONDS
    return {"journal": f"a batch has been under way for {seconds:.0f} s, more than {BATCH_SECONDS:g}" if stuck else ""}


def _ready(manager: Checked) -> dict[str, str]:
    return {
        **_alive(manager),
        **manager.missing,
        "store_full": _unwritable(manager),
        "quiescing": _ending(manager),
        "group": _away(manager),
    }


def _unwritable(manager: Checked) -> str:
    if manager.journal.error is not None:
        return f"the store has failed: {manager.journal.error}"
    return "there is no room: what grows is refused, what removes goes through" if manager.store.full else ""


def _ending(manager: Checked) -> str:
    if manager.stopping.is_set():
        return f"{manager.name} is stopping"
    return f"{manager.name} is quiescing" if manager.core.quiescing else ""


def _away(manager: Checked) -> str:
    sharing = manager.sharing
    if sharing is None or sharing.in_group:
        return ""
    return f"{manager.name} has no lease in its queue-sharing group: {sharing.waits_for}"
