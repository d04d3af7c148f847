"""`evermq run`: the daemon in the foreground, with the trigger monitor beside the queue manager."""

from __future__ import annotations

import gc
import logging
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from broker import StoreUnusableError
from broker.cli import current_folder
from broker.cli.program import CannotRunError
from broker.cli.terminal import logs, streams
from broker.cli.terminal.recent_log import RecentLog
from broker.config import load
from broker.config.kinds import DatabaseAddress
from broker.engine.shared_queues import GroupError
from broker.server import StartError, daemon
from broker.server.errors import StoreLostError
from broker.server.service.reload import ConfigurationReload
from broker.storage import StoreFailedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker import QueueManager
    from broker.config import Config, TriggerMonitorConfig
    from broker.server.daemon import Service
    from broker.server.service.reload import Preparation
    from triggers import TriggerMonitor

logger = logging.getLogger(__name__)

_DSN = "EVERMQ_QUEUE_SHARING_GROUP_DSN"

COLLECTIONS = (2_000, 2, 25_000)
"""The thresholds at which the collector looks for cycles of references. The daemon makes few, and many objects that
stay: with Python's defaults it looks through all queued messages again and again, for up to a third of the time of a
put. Each object is looked at twice soon after it was made, never more than some 6,000 at a time, which takes
milliseconds; a look through all of them comes once in 150 million objects at most.
"""

SWITCH_SECONDS = 0.0001
"""The time for which the event loop goes on while the thread of the store waits for its turn at the interpreter. A
transaction takes some ten such turns: with Python's default of 5 ms a put takes seconds while the loop is busy with
a long script.
"""


@click.command()
@click.option("--config", "file", metavar="FILE", help="The configuration, a broker.toml. Without it: the defaults.")
def run(file: str | None) -> None:
    """Run a queue manager, here in the foreground.

    SIGTERM or Ctrl-C end it in order: connections have some seconds to finish. SIGHUP reads the configuration again, as
    evermq reload does.

    It logs to standard error; the ready line there tells where it listens. Modules with handlers are searched in the
    current folder first.
    """
    if streams.output_is_closed():
        streams.throw_output_away()  # handlers may print, and need not fail for it
    read = partial(load, Path(file) if file else None)
    config = read()
    recent = RecentLog(config.logging.recent)
    logs.set_up(config.logging, recent)
    _warn_of_password(config.queue_sharing_group.dsn, file)
    reload = ConfigurationReload(config, read)
    reload.followers.append(log_follower(recent))
    monitor = config.trigger_monitor
    serves = monitor.enabled and monitor.handlers  # without handlers there is nothing to start
    services = [trigger_monitor(monitor, config.queue_manager.quiesce_timeout, reload)] if serves else []
    gc.set_threshold(*COLLECTIONS)
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        daemon.main(config, services, ready=_announce, recent_log=recent.after, reload=reload)
    except (GroupError, StartError, StoreLostError, StoreFailedError, StoreUnusableError) as error:
        raise CannotRunError(str(error)) from error


def _warn_of_password(dsn: str, file: str | None) -> None:
    """Warn of a password in the file of the configuration, which is no secret file."""
    if DatabaseAddress.has_password(dsn) and _DSN not in os.environ:
        logger.warning(
            "password_in_configuration file=%s place=[queue_sharing_group] dsn: move it to a file, dsn_password_file, "
            "to PGPASSWORD, or to ~/.pgpass",
            file,
            extra={"event": "password_in_configuration"},
        )


def log_follower(recent: RecentLog) -> Preparation:
    """Return the follower that sets up the log anew at a reload. The lines in memory stay."""

    async def prepare(config: Config) -> Callable[[], None]:
        def take() -> None:
            recent.resize(config.logging.recent)
            logs.set_up(config.logging, recent)

        return take

    return prepare


def trigger_monitor(config: TriggerMonitorConfig, stop_timeout: float, reload: ConfigurationReload) -> Service:
    """The service that starts handlers. Making it imports them, before the daemon is ready."""
    from triggers import TriggerMonitor  # a daemon without handlers does not load them

    def service(manager: QueueManager) -> TriggerMonitor:
        current_folder.search()
        try:
            monitor = TriggerMonitor(
                manager, config.handlers, stop_timeout=stop_timeout, user=config.user, **_figures(config)
            )
        except (ImportError, ValueError) as error:
            raise StartError(str(error)) from error

        async def prepare(wanted: Config) -> Callable[[], None]:
            return partial(monitor.adjust, **_figures(wanted.trigger_monitor))

        reload.followers.append(prepare)
        return monitor

    return service


class _Figures(TypedDict):
    """The figures by which a trigger monitor works, which can change while it does."""

    batch_size: int
    throttle_delay: float
    generation_interval: float
    sweep_interval: float
    max_tasks: int
    max_handlers: int


def _figures(config: TriggerMonitorConfig) -> _Figures:
    return {
        "batch_size": config.batch_size,
        "throttle_delay": config.throttle_delay,
        "generation_interval": config.generation_interval,
        "sweep_interval": config.sweep_interval,
        "max_tasks": config.max_tasks,
        "max_handlers": config.max_handlers,
    }


def _announce(line: str) -> None:
    """Tell that the daemon is ready where the log is too terse to have told it."""
    if not logging.getLogger(daemon.__name__).isEnabledFor(logging.INFO):
        print(line, file=sys.stderr, flush=True)
