"""A daemon in this process, whose file a test writes again."""

from __future__ import annotations

import json
import os
import signal
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from broker import QueueManager
from broker.config import load
from broker.config.printing import toml
from broker.server import Server, daemon
from broker.server.service.reload import ConfigurationReload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from anyio.abc import TaskStatus

    from broker.config import Config
    from broker.server.http_serving import HttpServing

Tables = dict[str, dict[str, object]]


def _written(value: object) -> str:
    """A value as TOML has it, whole: with a password that is in it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_written, value))}]"
    return json.dumps(str(value)) if isinstance(value, str | Path) else toml(value)


def write(path: Path, tables: Mapping[str, Mapping[str, object]]) -> None:
    """Write the file of a configuration."""
    sections = (
        "\n".join([f"[{section}]", *(f"{key} = {_written(value)}" for key, value in table.items())])
        for section, table in tables.items()
    )
    path.write_text("\n".join(sections), "utf-8")


class Running:
    """A daemon that runs: its parts, and its file."""

    manager: QueueManager
    server: Server
    http: HttpServing

    def __init__(self, path: Path, tables: Tables) -> None:
        self.path = path
        self.tables = tables
        write(path, tables)
        read = partial(load, path, {})
        self.first: Config = read()
        self.reload = ConfigurationReload(self.first, read)

    @property
    def url(self) -> str:
        return f"mq://{self.server.addresses[0]}"

    def change(self, section: str, key: str, value: object) -> None:
        """Write the file as at the start, but for this value."""
        write(self.path, {**self.tables, section: {**self.tables.get(section, {}), key: value}})

    async def run(self, *services: daemon.Service, task_status: TaskStatus[None]) -> None:
        @asynccontextmanager
        async def seen(manager: QueueManager) -> AsyncIterator[None]:
            self.manager = manager
            _, prepare_server, prepare_http = self.reload.followers[:3]
            self.server, self.http = prepare_server.__self__, prepare_http.__self__  # type: ignore[attr-defined]
            yield

        await daemon.run(self.first, [seen, *services], ready=lambda line: task_status.started(), reload=self.reload)


@asynccontextmanager
async def running(folder: Path, tables: Tables | None = None, *services: Any) -> AsyncIterator[Running]:
    """A daemon, from its ready line to SIGTERM."""
    own: Tables = {
        "queue_manager": {"data": "data", "quiesce_timeout": 0.2},
        "listener": {"port": 0},
        "journal": {"file_bytes": 65536},
    }
    tables = own | (tables or {})
    found = Running(folder / "broker.toml", tables)
    async with anyio.create_task_group() as tasks:
        await tasks.start(found.run, *services)
        yield found
        os.kill(os.getpid(), signal.SIGTERM)
