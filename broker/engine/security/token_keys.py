"""The keys of an issuer, as they are known: fetched hourly, for an unknown name at most every 30 seconds, and kept for
a day while they are out of reach (security 4.7).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from broker.engine.security.key_fetch import KeysOutOfReachError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from broker.clock import Clock
    from broker.engine.security.signatures import TokenKey

logger = logging.getLogger(__name__)

FETCHED_EVERY: Final = 3600.0
RETRIED_EVERY: Final = 60.0
ASKED_EVERY: Final = 30.0
KEPT_SECONDS: Final = 86400.0


class TokenKeys:
    """The keys that `fetch` returns, or none while it raises KeysOutOfReachError. `run` is its task."""

    def __init__(self, fetch: Callable[[], Awaitable[Sequence[TokenKey]]], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: Sequence[TokenKey] = ()
        self._fetched_at = 0.0
        self._failed = False
        self._ended = False
        self._asked = asyncio.Event()
        self._under_way: asyncio.Event | None = None  # set when the fetch is over
        self._begin()  # the first one, for which all tokens wait

    async def run(self) -> None:
        """Fetch the keys now, and whenever that is due."""
        try:
            while True:
                await self._fetch_now()
                timer = self._clock.call_later(RETRIED_EVERY if self._failed else FETCHED_EVERY, self._asked.set)
                try:
                    await self._asked.wait()
                finally:
                    timer.cancel()
        finally:
            self._ended = True
            self._over()

    async def find(self, algorithm: str, kid: str | None) -> TokenKey | None:
        """The key of that name, or, where none is named, the only one, that verifies the algorithm; None where there is
        none, after the keys were fetched anew if that is due.
        """
        key = self._known(algorithm, kid)
        if key is None and await self._fetched_anew():
            key = self._known(algorithm, kid)
        return key

    def _known(self, algorithm: str, kid: str | None) -> TokenKey | None:
        if self._clock.monotonic() - self._fetched_at > KEPT_SECONDS:
            self._keys = ()
        fitting = [each for each in self._keys if algorithm in each.algorithms]
        if kid is None:
            return fitting[0] if len(fitting) == 1 else None
        return next((each for each in fitting if each.kid == kid), None)

    async def _fetched_anew(self) -> bool:
        """Wait for the fetch that is under way, or for one that is due now; False if none is."""
        if self._under_way is None:
            if self._ended or self._clock.monotonic() - self._tried_at < ASKED_EVERY:
                return False
            self._begin()
            self._asked.set()
        assert self._under_way is not None
        await self._under_way.wait()
        return True

    async def _fetch_now(self) -> None:
        self._begin()
        self._asked.clear()
        try:
            self._keys = await self._fetch()
            self._fetched_at = self._clock.monotonic()
            if self._failed:
                logger.info("keys of tokens fetched again keys=%d", len(self._keys))
            self._failed = False
        except KeysOutOfReachError as error:
            level = logging.DEBUG if self._failed else logging.WARNING
            logger.log(
                level,
                "keys of tokens not fetched, known ones stay a day keys=%d: %s",
                len(self._keys),
                error,
                extra={"event": "keys_of_tokens_not_fetched"},
            )
            self._failed = True
        finally:
            self._over()

    def _begin(self) -> None:
        if self._under_way is None:
            self._under_way = asyncio.Event()
            self._tried_at = self._clock.monotonic()

    def _over(self) -> None:
        if self._under_way is not None:
            self._under_way.set()
            self._under_way = None
