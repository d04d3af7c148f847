"""JSON web tokens of one issuer: a token says who somebody is, and until when (security 4.7)."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64decode
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio

from broker.config.security import PUBLIC_KEY_ALGORITHMS
from broker.core.security.entities import ENTITY_LENGTH, is_entity
from broker.engine.security.key_fetch import KeysOutOfReachError, fetch, shown
from broker.engine.security.token_keys import TokenKeys
from broker.secret_files import SecretFileError, check_secret_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from broker.clock import Clock
    from broker.engine.security.signatures import TokenKey
    from broker.engine.security.token_settings import TokenSettings

TOKEN_BYTES_MAX: Final = 16 * 1024
LEEWAY_SECONDS: Final = 30.0
"""So much may the clocks of the issuer and of this machine differ where a token says since when it holds."""

NEEDS_EXTRA: Final = "[tokens] needs joserfc: pip install 'evermq[tokens]'"

_INSTANT_MAX: Final = 1e12


class TokenRefusedError(Exception):
    """A token that says nothing here. The text says why, for the log: whoever brought it is not told."""


class TokenUser(NamedTuple):
    """The user that a token names, and the instant at which the token ends, in seconds since 1970 UTC."""

    user: str
    ends: float


class Tokens:
    """Verifies tokens as `settings` say; `run` is the task that fetches keys. Raises RuntimeError, with the extra to
    install, where joserfc is not there.
    """

    def __init__(self, settings: TokenSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._signatures = _signatures()
        self._public = TokenKeys(self._public_keys, clock)
        self._secret = TokenKeys(self._secret_key, clock)

    async def run(self) -> None:
        """Fetch keys now, and whenever that is due, until cancelled."""
        async with anyio.create_task_group() as tasks:
            if self._settings.uses_public_keys:
                tasks.start_soon(self._public.run, name="keys of tokens")
            if self._settings.uses_secret:
                tasks.start_soon(self._secret.run, name="secret of tokens")

    async def verify(self, token: str | bytes) -> TokenUser:
        """The user of a token that is good now; that user may not be there. Raises TokenRefusedError."""
        text = _text(token)
        header = _header(text)
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in self._settings.algorithms:
            raise TokenRefusedError(f"its algorithm is {_shown(algorithm)}, none of {list(self._settings.algorithms)}")
        if "crit" in header:
            raise TokenRefusedError("it has extensions that must be understood (crit), and none is")
        if kid is not None and not isinstance(kid, str):
            raise TokenRefusedError("the name of its key (kid) is no text")
        by_public_key = algorithm in PUBLIC_KEY_ALGORITHMS
        key = await (self._public.find(algorithm, kid) if by_public_key else self._secret.find(algorithm, None))
        if key is None:
            raise TokenRefusedError(f"its key {_shown(kid)} is none of the issuer's for {algorithm}")
        return self._user(self._claims(text, algorithm, key))

    def _claims(self, text: str, algorithm: str, key: TokenKey) -> dict[str, Any]:
        try:
            claims = json.loads(self._signatures.payload(text, algorithm, key))
        except Exception as error:  # strangers choose the bytes: whatever the libraries raise refuses them
            raise TokenRefusedError(f"it is not signed by its issuer ({type(error).__name__})") from None
        if not isinstance(claims, dict):
            raise TokenRefusedError("its content is no object of JSON")
        return claims

    def _user(self, claims: dict[str, Any]) -> TokenUser:
        """The user of claims whose signature is good, if they hold now and here."""
        settings, now = self._settings, self._clock.time()
        if claims.get("iss") != settings.issuer:
            raise TokenRefusedError(f"its issuer is {_shown(claims.get('iss'))}, not {settings.issuer!r}")
        audience = claims.get("aud")
        if settings.audience not in (audience if isinstance(audience, list) else [audience]):
            raise TokenRefusedError(f"its audience is {_shown(audience)}, not {settings.audience!r}")
        ends = _instant(claims, "exp")
        if ends is None:
            raise TokenRefusedError("it has no end (exp)")
        if ends <= now:
            raise TokenRefusedError(f"it has ended {now - ends:.0f} seconds ago (exp)")
        for name in ("nbf", "iat"):
            since = _instant(claims, name)
            if since is not None and since > now + LEEWAY_SECONDS:
                raise TokenRefusedError(f"it holds only in {since - now:.0f} seconds ({name})")
        user = claims.get(settings.user_claim)
        if not isinstance(user, str) or not is_entity(user):
            raise TokenRefusedError(
                f"its {settings.user_claim} is {_shown(user)}, no name of a user: 1 to {ENTITY_LENGTH} letters, "
                "digits, dots, hyphens and underscores"
            )
        return TokenUser(user, ends)

    async def _public_keys(self) -> list[TokenKey]:
        return await self._fetched(self._settings.jwks, self._signatures.public_keys)

    async def _secret_key(self) -> list[TokenKey]:
        file = self._settings.key_file
        try:
            await asyncio.to_thread(check_secret_file, Path(file))
        except SecretFileError as error:
            raise KeysOutOfReachError(f"{file} has no key for tokens: {error}") from None
        return await self._fetched(file, self._signatures.secret_key)

    async def _fetched(self, place: str, keys: Callable[[bytes], list[TokenKey]]) -> list[TokenKey]:
        data = await fetch(place, self._settings.ca)
        try:
            return keys(data)
        except ValueError as error:
            raise KeysOutOfReachError(f"{shown(place)} has no key for tokens: {error}") from None


def _signatures() -> ModuleType:
    try:
        from broker.engine.security import signatures
    except ModuleNotFoundError as error:
        raise RuntimeError(NEEDS_EXTRA) from error
    return signatures


def _text(token: str | bytes) -> str:
    """The token as text: ASCII, and not too long."""
    if len(token) > TOKEN_BYTES_MAX:
        raise TokenRefusedError(f"it is longer than {TOKEN_BYTES_MAX // 1024} KiB")
    if not token.isascii():
        raise TokenRefusedError("it has characters that no token has")
    return token if isinstance(token, str) else token.decode()


def _header(text: str) -> dict[str, Any]:
    """The header of a token, which nobody has vouched for yet."""
    first = text.partition(".")[0]
    try:
        header = json.loads(urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise TokenRefusedError("it is no JSON web token: header.content.signature")
    return header


def _instant(claims: dict[str, Any], name: str) -> float | None:
    """A claim that is an instant; None where it is not there."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _INSTANT_MAX:
        raise TokenRefusedError(f"its {name} is {_shown(value)}, no instant in seconds since 1970")
    return float(value)


def _shown(value: object) -> str:
    """A value that a stranger has chosen, as the log shows it."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
