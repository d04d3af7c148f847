"""The daemon: a queue manager with its startup commands, its listener and its services, until a signal ends it.

What a service is, it does not know: a callable that takes the manager and gives an async context manager, such as the
trigger monitor. The command line composes them.

SIGTERM and SIGINT quiesce it: idle connections end at once, those with a unit of work, a delivery or a trigger start
have `quiesce_timeout` to end by themselves. While it starts they give the start up (`broker.server.signals`). SIGHUP
reads the configuration again (`broker.server.service.reload`). What does not end with the services, be it that it
swallows its cancellation or blocks the event loop, is left behind (`broker.server.watch`).
"""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import contextmanager
from functools import partial
from textwrap import shorten
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio

from broker.clock import Clock
from broker.commands.errors import without_secrets
from broker.commands.language.script import located
from broker.engine import QueueManager
from broker.engine.health import LISTENER, STARTING
from broker.engine.reconfiguring import reconfigure
from broker.engine.security.credentials import tokens_of
from broker.engine.shared_queues import GroupError
from broker.mqi.errors import CommandFailedError
from broker.server.errors import StartError, StoreLostError
from broker.server.http_serving import http_serving
from broker.server.open_files import allow_open_files
from broker.server.security.entry_policy import EntryPolicy
from broker.server.server import Server
from broker.server.service.activation import activated_sockets
from broker.server.service.notices import ServiceNotices
from broker.server.service.reload import ConfigurationReload
from broker.server.signals import EndSignals
from broker.server.watch import DaemonWatch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path
    from typing import Any

    from anyio.abc import TaskStatus

    from broker.config import Config
    from broker.interface.answers import LogPiece
    from broker.server.http_serving import HttpServing

logger = logging.getLogger(__name__)

Service: TypeAlias = "Callable[[QueueManager], AbstractAsyncContextManager[Any]]"
"""Runs beside the listener, between entering and leaving its context."""

COMMAND_SHOWN_MAX: Final = 120
"""Characters of a startup command that an error shows."""

END_GRACE: Final = 5.0
"""Seconds for what was cancelled to end: after `quiesce_timeout`, and after everything else has ended."""


def main(
    config: Config,
    services: Sequence[Service] = (),
    *,
    ready: Callable[[str], None] | None = None,
    recent_log: Callable[[int, int], LogPiece] | None = None,
    reload: ConfigurationReload | None = None,
) -> None:
    """Run the daemon on uvloop until SIGTERM or SIGINT. Raises what `run` raises, and KeyboardInterrupt for a start
    that SIGINT has ended.

    Services and handlers that have not ended `quiesce_timeout` and 5 seconds after the signal are named in the log, and
    the process ends with exit code 20.
    """
    allow_open_files(config.limits.connections)
    watch = DaemonWatch()
    try:
        work = partial(run, config, services, ready=ready, recent_log=recent_log, reload=reload, watch=watch)
        given_up = anyio.run(_run, work, watch, backend_options={"use_uvloop": True})
    finally:
        watch.stop()
    if given_up == signal.SIGINT:
        raise KeyboardInterrupt


async def _run(work: Callable[[], Awaitable[signal.Signals | None]], watch: DaemonWatch) -> signal.Signals | None:
    watch.start()
    try:
        return await work()
    finally:
        watch.end_within(END_GRACE)  # tasks of a handler's own, which the event loop cancels when it closes


async def run(
    config: Config,
    services: Sequence[Service] = (),
    *,
    ready: Callable[[str], None] | None = None,
    recent_log: Callable[[int, int], LogPiece] | None = None,
    reload: ConfigurationReload | None = None,
    watch: DaemonWatch | None = None,
) -> signal.Signals | None:
    """Run the daemon until SIGTERM or SIGINT, which quiesce it: it returns when the connections have gone, or after
    `quiesce_timeout` seconds. Where the signal came before it was ready, it returns that signal.

    `ready` is called with the ready line once clients can connect. `recent_log` returns lines of the log behind one,
    about so many bytes. `reload` reads the configuration again. `watch` is told when services have to end. Raises
    StartError when it cannot start, StoreUnusableError when the data cannot be used, StoreLostError when the store
    fails while it runs, GroupError when the queue-sharing group cannot be joined or is lost, and what a service raises.
    """
    watch = watch or DaemonWatch()
    reload = reload or ConfigurationReload(config)
    sockets = activated_sockets()
    serve_http = http_serving(config, sockets)
    signals = EndSignals(watch, config.queue_manager.quiesce_timeout, END_GRACE)
    with _hangups_ignored(), signals.handled(), ServiceNotices.of() as notices:
        async with _open(config) as manager, serve_http(manager) as http:
            manager.recent_log = recent_log or manager.recent_log
            done = 0
            for path in startup_files(config.queue_manager.startup):
                done += await _run_commands(manager, path, done)
            http.check_users()
            admission = EntryPolicy.by(manager, config.tls)
            async with Server(manager, config.listener, config.limits, admission, sockets) as server:
                http.share(server.reserve)

                def told(line: str) -> None:
                    notices.ready(manager)
                    signals.ready().add_done_callback(lambda _: notices.stopping())
                    if ready is not None:
                        ready(line)

                try:
                    with _reloading(manager, server, http, reload, notices):
                        await _serve(manager, server, http, services, told, watch, signals)
                except BaseExceptionGroup as group:
                    raise _lone(group) from None
                finally:
                    watch.has_ended()
    return signals.given_up


def _open(config: Config) -> QueueManager:
    try:
        tokens_of(config, Clock())  # which are made again when it opens
        manager = QueueManager.open(config)
    except (ImportError, RuntimeError, ValueError) as error:
        raise StartError(str(error)) from error  # it names the setting, or the extra
    manager.missing = {STARTING: "the startup commands run", LISTENER: "nothing listens yet"}
    return manager


def startup_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files of startup commands. A name with an asterisk stands for those that match, by their names."""
    for path in paths:
        if "*" in path.name:
            yield from sorted(path.parent.glob(path.name))
        else:
            yield path


async def _run_commands(manager: QueueManager, path: Path, before: int) -> int:
    """Run a startup file; how many commands it has. The first that fails ends the start: what was run until then, with
    the `before` commands of earlier files, stays done, and the error says so.
    """
    try:
        text = await anyio.Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"cannot read the startup commands in {path}: {error}") from error
    async with manager.connect(appl_name="startup") as connection:
        try:
            replies = await connection.mqsc(text, check=True)
        except CommandFailedError as failed:
            done = len(failed.replies) - 1
            line, command = located(text)[done]
            logger.error("startup command failed file=%s line=%d reply=%s", path, line, failed.reply.text)
            shown = shorten(without_secrets(command), COMMAND_SHOWN_MAX)
            raise StartError(
                f"{path}, line {line}: the startup command {shown} failed; {_stays(before + done)}. {failed.reply.text}"
            ) from failed
    for reply in replies:
        for warning in reply.warnings:
            logger.warning("startup command file=%s: %s", path, warning, extra={"event": "startup_command_warning"})
    logger.info("startup commands complete file=%s commands=%d", path, len(replies))
    return len(replies)


def _stays(commands: int) -> str:
    many = {0: "nothing was run before it", 1: "the startup command before it took effect and stays"}
    return many.get(commands, f"the {commands} startup commands before it took effect and stay")


async def _serve(
    manager: QueueManager,
    server: Server,
    http: HttpServing,
    services: Sequence[Service],
    ready: Callable[[str], None],
    watch: DaemonWatch,
    signals: EndSignals,
) -> None:
    """Run the services, say that all is ready, wait for a signal and quiesce; a store that fails ends all this."""
    timeout = manager.config.queue_manager.quiesce_timeout
    async with anyio.create_task_group() as store_watch:
        store_watch.start_soon(_watch_store, manager, watch, name=f"store watch of {manager.name}")
        async with anyio.create_task_group() as tasks:
            stop = anyio.Event()
            for number, service in enumerate(services, 1):
                await tasks.start(_host, service, manager, stop, watch, name=f"service {number} of {manager.name}")
            ordered = signals.ready()
            manager.missing.pop(STARTING, None)
            http.started()
            addresses = (*server.addresses, *http.addresses)
            line = f"EverMQ {manager.name} ready on {', '.join(addresses)}"
            logger.info("%s", line, extra={"event": "ready", "queue_manager": manager.name, "addresses": addresses})
            ready(line)
            await ordered
            tasks.cancel_scope.deadline = anyio.current_time() + timeout
            stop.set()  # the services end while the connections do, theirs among them
            asyncio.get_running_loop().call_soon(server.end_idle)  # when their waits have been told of it
            await manager.quiesce(timeout)
        store_watch.cancel_scope.cancel()


@contextmanager
def _hangups_ignored() -> Iterator[None]:
    """While the daemon starts and ends, an order to read the configuration again changes nothing."""
    loop = asyncio.get_running_loop()
    _ignore_hangups(loop)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


def _ignore_hangups(loop: asyncio.AbstractEventLoop) -> None:
    loop.add_signal_handler(
        signal.SIGHUP, lambda: logger.info("signal ignored signal=%s: the daemon starts or ends", "SIGHUP")
    )


@contextmanager
def _reloading(
    manager: QueueManager, server: Server, http: HttpServing, reload: ConfigurationReload, notices: ServiceNotices
) -> Iterator[None]:
    """Read the configuration again at SIGHUP and at REFRESH CONFIG. The terminal that goes away is no other order."""

    async def take_limits(config: Config) -> Callable[[], None]:
        return partial(reconfigure, manager, config)

    loop = asyncio.get_running_loop()
    reload.followers[:0] = take_limits, server.prepare, http.prepare
    reload.began, reload.ended = notices.reloading, notices.reloaded
    loop.add_signal_handler(signal.SIGHUP, lambda: manager.start_soon(reload.on_hangup))
    manager.commands.reload = partial(manager.start_soon, reload.on_command)
    try:
        yield
    finally:
        manager.commands.reload = None
        _ignore_hangups(loop)


async def _host(
    service: Service,
    manager: QueueManager,
    stop: anyio.Event,
    watch: DaemonWatch,
    *,
    task_status: TaskStatus[None],
) -> None:
    try:
        async with service(manager):
            task_status.started()
            await stop.wait()
    except BaseException:
        watch.end_within(END_GRACE)
        raise


async def _watch_store(manager: QueueManager, watch: DaemonWatch) -> None:
    error = await manager.stopped()
    watch.end_within(END_GRACE)
    if isinstance(error, GroupError):
        raise error
    raise StoreLostError(f"the store of {manager.name} has failed: {error}") from error


def _lone(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The only exception in a group, however deep, so that `except` clauses find it; else the group."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    return found
