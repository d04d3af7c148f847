"""EverMQ: a durable queue manager with IBM MQ's message queue interface, for asyncio.

async with QueueManager.open(name="QM1", data="qm1-data") as manager:  # embedded
    async with manager.connect() as connection: ...

async with connect("mq://127.0.0.1:1414") as connection: ...  # a client of the daemon

A name is loaded when it is first used, so that a client does not load the queue manager. `__version__` is asked of what
was installed, in the same way.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.client import connect as connect
    from broker.client import connect_sync as connect_sync
    from broker.client.tls import TLS as TLS
    from broker.clock import Clock as Clock
    from broker.databases.database import Database as Database
    from broker.engine import QueueManager as QueueManager
    from broker.engine.security.login import Login as Login
    from broker.interface import ClaimedBatch as ClaimedBatch
    from broker.interface import ColumnMessage as ColumnMessage
    from broker.interface import Connection as Connection
    from broker.interface import Consumer as Consumer
    from broker.interface import Delivered as Delivered
    from broker.interface import Deliveries as Deliveries
    from broker.interface import DeliveryConnection as DeliveryConnection
    from broker.interface import Message as Message
    from broker.interface import PendingQueue as PendingQueue
    from broker.interface import Portal as Portal
    from broker.interface import PutResult as PutResult
    from broker.interface import Queue as Queue
    from broker.interface import Sink as Sink
    from broker.interface import SinkBatch as SinkBatch
    from broker.interface import SyncConnection as SyncConnection
    from broker.interface import SyncQueue as SyncQueue
    from broker.interface import TriggerStart as TriggerStart
    from broker.interface import TriggerStarts as TriggerStarts
    from broker.interface import portal_here as portal_here
    from broker.jobs import JobState as JobState
    from broker.jobs import JobStatus as JobStatus
    from broker.jobs import job_status as job_status
    from broker.mqi import CommandFailedError as CommandFailedError
    from broker.mqi import MQError as MQError
    from broker.sharing.members.group import QueueSharingGroup as QueueSharingGroup
    from broker.storage.store import StoreUnusableError as StoreUnusableError

    __version__: str

_MODULES = {
    "ClaimedBatch": "interface",
    "Clock": "clock",
    "ColumnMessage": "interface",
    "CommandFailedError": "mqi",
    "Connection": "interface",
    "Consumer": "interface",
    "Database": "databases.database",
    "Deliveries": "interface",
    "Delivered": "interface",
    "DeliveryConnection": "interface",
    "JobState": "jobs",
    "JobStatus": "jobs",
    "Login": "engine.security.login",
    "MQError": "mqi",
    "Message": "interface",
    "PendingQueue": "interface",
    "Portal": "interface",
    "PutResult": "interface",
    "Queue": "interface",
    "QueueManager": "engine",
    "QueueSharingGroup": "sharing.members.group",
    "Sink": "interface",
    "SinkBatch": "interface",
    "StoreUnusableError": "storage.store",
    "SyncConnection": "interface",
    "SyncQueue": "interface",
    "TLS": "client.tls",
    "TriggerStart": "interface",
    "TriggerStarts": "interface",
    "connect": "client",
    "connect_sync": "client",
    "job_status": "jobs",
    "portal_here": "interface",
}

__all__ = sorted(_MODULES)


if not TYPE_CHECKING:  # type checkers would take it that any name is there

    def __getattr__(name: str) -> object:
        if name == "__version__":
            value: object = _version()
        elif name in _MODULES:
            value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, "__version__"})


def _version() -> str:
    """The version as the installer knows it; sources that were never installed have none."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import, and few programs ask

    try:
        return version("evermq")
    except PackageNotFoundError:
        return "(not installed)"
