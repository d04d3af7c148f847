"""The verification of what programs bring to prove their users: passwords and tokens (security 4.6, 4.7)."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.core.names.definitions import Define, Definition
from broker.core.security.partner import Proof
from broker.engine.jobs.awaits import Changed
from broker.interface.port import Call
from broker.mqi.errors import MQError
from broker.mqi.security_parameters import CredentialKind

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from broker.clock import Clock
    from broker.config import Config
    from broker.core.manager import Manager
    from broker.core.security.facts import User
    from broker.engine.admin.security_log import SecurityLog
    from broker.engine.security.login import LoginRequest
    from broker.engine.security.tokens import Tokens
    from broker.engine.security.verifier import PasswordVerifier

logger = logging.getLogger(__name__)


class CredentialOutcome(NamedTuple):
    """The outcome of a verification: the user, how it was proved, and until when that holds."""

    user: str
    proof: Proof
    ends: float = inf


class Credentials:
    """Verifies passwords and tokens. `change` takes the steps of a change of definitions."""

    def __init__(
        self,
        config: Config,
        core: Manager,
        clock: Clock,
        change: Callable[[Coroutine[Any, Any, int], Call[int]], None],
        log: SecurityLog,
    ) -> None:
        self._config = config
        self._core = core
        self._authority = core.objects.authority
        self._clock = clock
        self._change = change
        self._log = log
        self._tokens = tokens_of(config, clock)
        self._passwords: PasswordVerifier | None = None

    @property
    def takes_tokens(self) -> bool:
        """True if there is an issuer whose tokens are believed."""
        return self._tokens is not None

    def figures(self) -> dict[str, int]:
        """Return how many passwords were verified since the start, and how many wait for their turn."""
        made = self._passwords
        return {
            "passwords_verified": 0 if made is None else made.verifications,
            "passwords_waiting": 0 if made is None else made.waiting,
        }

    async def run(self) -> None:
        """Keep the keys of tokens fresh, until cancelled."""
        if self._tokens is not None:
            await self._tokens.run()

    def end(self) -> None:
        """Nothing is verified any more."""
        if self._passwords is not None:
            self._passwords.close()

    async def verified(self, request: LoginRequest) -> CredentialOutcome:
        """Verify a password or a token; no await stands between the last look at the user and the return. Raises
        Q_MGR_STOPPING (2162) when the queue manager ends.
        """
        if request.kind == CredentialKind.TOKEN:
            return await self._by_token(request)
        verified = await self.verifier().verify(request.user, request.secret, request.address)
        if verified is not None and verified.renewal:
            await self._renew_hash(verified.user, verified.renewal)
            now = self._authority.users.get(request.user)
            if now is None or not now.enabled or now.password not in (verified.user.password, verified.renewal):
                verified = None
        return CredentialOutcome(request.user, Proof.FAILED if verified is None else Proof.PASSWORD)

    async def _by_token(self, request: LoginRequest) -> CredentialOutcome:
        if self._tokens is None:
            return CredentialOutcome(request.user, Proof.FAILED)
        from broker.engine.security.tokens import TokenRefusedError

        try:
            user, ends = await self._tokens.verify(request.secret)
        except TokenRefusedError as error:
            self._log.token_refused(request.address, str(error))
            return CredentialOutcome(request.user, Proof.FAILED)
        return CredentialOutcome(user, Proof.TOKEN, ends)

    def verifier(self) -> PasswordVerifier:
        """Return the verifier of passwords, which is made for the first one."""
        if self._passwords is None:
            from broker.engine.security.verifier import PasswordVerifier

            threads = verification_threads(self._config.security.verifications, _processors())
            self._passwords = PasswordVerifier(self._authority.users.get, self._clock, threads)
        return self._passwords

    async def _renew_hash(self, user: User, renewal: str) -> None:
        """Store a stronger hash of a password; without room for it the weaker one stays."""
        call: Call[int] = Call()
        self._change(self._renewing(user, renewal), call)
        with suppress(MQError):
            await call

    async def _renewing(self, user: User, renewal: str) -> int:
        """As a job: while it looks no other change is being made."""
        definition = self._core.objects.holding("USER", user.name)
        if definition is not None and definition.attributes.get("PASSWORD") == user.password:
            await Changed(Define(Definition("USER", user.name, {**definition.attributes, "PASSWORD": renewal})))
        return 0


def verification_threads(most: int, processors: int) -> int:
    """Return how many passwords are verified at a time. Threads that hash take a processor each, and are not put off
    for one who has little to do: with all processors taken, each step of the event loop would wait for them.
    """
    return max(min(most, processors - 1), 1)


def _processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def tokens_of(config: Config, clock: Clock) -> Tokens | None:
    """Return the tokens of the issuer that the configuration names, None without one. Raises ValueError for settings
    that cannot be, RuntimeError without the extra that they need.
    """
    own = config.tokens
    if not own.issuer:
        return None
    from broker.engine.security.token_settings import TokenSettings
    from broker.engine.security.tokens import Tokens

    settings = TokenSettings(
        issuer=own.issuer, audience=own.audience, jwks=own.jwks, user_claim=own.user_claim, algorithms=own.algorithms,
        key_file="" if own.key_file is None else str(own.key_file),
    )  # fmt: skip
    return Tokens(settings, clock)
