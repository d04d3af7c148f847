"""The arguments with which a queue manager is opened: its configuration, and the store and the group that it names."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from broker.config import DEFAULTS, Config, load
from broker.mqi.names import is_name
from broker.storage.creation import LogSettings
from broker.storage.log_store import LogStore
from broker.storage.memory import MemoryStore

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.engine.manager import QueueManager
    from broker.engine.shared_queues import SharedQueues
    from broker.storage.store import Store


class JoinableGroup(Protocol):
    """A queue-sharing group that a queue manager is to join (`broker.QueueSharingGroup`)."""

    @property
    def name(self) -> str:
        """Its name, of up to four characters."""

    def member(self, manager: QueueManager) -> SharedQueues:
        """The queue manager as a member of the group; it has not joined yet."""


def configuration(
    config: str | Path | Config | None, name: str | None, data: str | Path | None, defaults: str | None
) -> Config:
    """Return the configuration that a file has, or that the other arguments make. Raises ValueError for arguments that
    do not go together.
    """
    if config is not None and (name, data, defaults) != (None, None, None):
        raise ValueError("name=, data= and defaults= are for a queue manager without a file, which has them all")
    if defaults is not None and defaults not in DEFAULTS:
        raise ValueError(f"defaults={defaults!r}: one of {', '.join(DEFAULTS)}")
    if isinstance(config, str) and _names_no_file(config) and not Path(config).exists():
        raise ValueError(
            f"there is no file {config}: the first argument is the path of a broker.toml; "
            f"a queue manager without one is QueueManager.open(name={config!r}, data=...)"
        )
    if isinstance(config, Config):
        return config
    if config is not None:
        return load(Path(config), os.environ)
    own = Config().queue_manager
    kept = None if data is None else Path(data)
    return Config(queue_manager=replace(own, name=name or own.name, data=kept, defaults=defaults or own.defaults))


def store_for(config: Config, clock: Clock) -> Store:
    """Return the store of a queue manager with this configuration."""
    own, journal = config.queue_manager, config.journal
    if own.data is None:
        return MemoryStore()
    settings = LogSettings(journal.files, journal.file_bytes, journal.inline)
    return LogStore(own.data, name=own.name, clock=clock, settings=settings)


def group_for(config: Config) -> JoinableGroup | None:
    """The queue-sharing group that the configuration names. Its module is above the engine: found by its name."""
    own = config.queue_sharing_group
    if not own.name:
        return None
    group: JoinableGroup = import_module("broker.sharing.members.group").QueueSharingGroup(
        own.name, own.dsn, own.lease, own.dsn_password_file
    )
    return group


def _names_no_file(text: str) -> bool:
    """True if this looks like the name of a queue manager, not like the path of a configuration."""
    return is_name(text) and "/" not in text and not text.endswith(".toml")
