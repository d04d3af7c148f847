"""The reload of the configuration, by SIGHUP or by REFRESH CONFIG, which `evermq reload` sends.

1. The file and the environment are read again and checked whole; then each follower prepares what it has to do, such
   as the loading of certificates. Where any of this fails, nothing has changed, and the log says why.
2. Then all followers take their new values in one step of the event loop. There is no await between them.
3. A key that cannot change while the daemon runs (`Setting.live`) keeps its value. It is named each time, until the
   file says again what holds.
4. One reload is made at a time.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import anyio
import anyio.to_thread

from broker.config import ConfigError, changes, with_live_values
from broker.config.printing import toml
from broker.engine.mistakes import contained
from broker.mqi.replies import CommandReply
from broker.server.errors import ReloadError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.config import Config, SettingChange

logger = logging.getLogger(__name__)

Preparation: TypeAlias = "Callable[[Config], Awaitable[Callable[[], None]]]"
"""Checks the values of a configuration that can change, and returns what takes them over, which must not fail. Raises
ReloadError.
"""


class ReloadOutcome(NamedTuple):
    """The keys whose new values hold now, and those whose new values wait for the next start."""

    taken: list[SettingChange]
    waiting: list[SettingChange]


class ConfigurationReload:
    """The configuration of a daemon, which `read` reads again. Those who have to follow a change are in `followers`;
    `began` and `ended` are called around each reload.
    """

    def __init__(self, config: Config, read: Callable[[], Config] | None = None) -> None:
        self.config = config
        """The values that hold now."""
        self.followers: list[Preparation] = []
        self.began: Callable[[], None] | None = None
        self.ended: Callable[[], None] | None = None
        self._read = read or (lambda: config)
        self._one = anyio.Lock()

    async def reload(self) -> ReloadOutcome:
        """Read the configuration again and take over what can change. Raises ReloadError, when nothing has changed."""
        async with self._one:
            if self.began is not None:
                self.began()
            try:
                return await self._reload()
            except ReloadError as error:
                logger.error("configuration not reloaded: %s", error)
                raise
            finally:
                if self.ended is not None:
                    self.ended()

    async def _reload(self) -> ReloadOutcome:
        try:
            wanted = await anyio.to_thread.run_sync(self._read)
        except ConfigError as error:
            raise ReloadError(str(error)) from error
        found = changes(self.config, wanted)
        config = with_live_values(self.config, wanted)
        prepared = [await prepare(config) for prepare in list(self.followers)]
        outcome = ReloadOutcome([each for each in found if each.live], [each for each in found if not each.live])
        _log(outcome)  # before the level of the log is another one
        self.config = config
        for take in prepared:
            contained(take)
        logger.info("configuration reloaded changed=%d waiting=%d", *map(len, outcome))
        return outcome

    async def on_hangup(self) -> None:
        """Reload at SIGHUP. The log has what came of it."""
        try:
            await self.reload()
        except ReloadError:
            pass

    async def on_command(self, answered: Callable[[CommandReply], None]) -> None:
        """Reload at REFRESH CONFIG, and call `answered` with the reply."""
        try:
            answered(reply_of(await self.reload()))
        except ReloadError as error:
            text = f"EMQ0029E: The configuration was not reloaded, and nothing has changed: {error}."
            answered(CommandReply(code="EMQ0029E", text=text, ok=False))


def reply_of(outcome: ReloadOutcome) -> CommandReply:
    """Return the reply to REFRESH CONFIG, with a line for each key."""
    taken, waiting = outcome
    if not taken and not waiting:
        head = "Configuration reloaded: no key has changed."
    else:
        head = f"Configuration reloaded: changed {len(taken)}, waiting for the next start {len(waiting)}."
    lines = [
        f"EMQ0028I: {head}",
        *(f"   changed: {each}" for each in taken),
        *(f"   waiting: {each}" for each in waiting),
    ]
    return CommandReply(code="EMQ0028I", text="\n".join(lines))


def _log(outcome: ReloadOutcome) -> None:
    """Log a line a key."""
    for each in outcome.taken:
        logger.info("setting changed setting=%s before=%s after=%s", *_told(each))
    for each in outcome.waiting:
        logger.warning("setting waits setting=%s before=%s after=%s: it holds from the next start on", *_told(each))


def _told(change: SettingChange) -> tuple[str, str, str]:
    return f"[{change.section}] {change.key}", toml(change.before), toml(change.after)
