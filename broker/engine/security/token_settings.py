"""The section `[tokens]`: whose tokens are believed, and which."""

from __future__ import annotations

from dataclasses import dataclass

from broker.config.security import PUBLIC_KEY_ALGORITHMS, SECRET_KEY_ALGORITHMS, TOKEN_ALGORITHMS
from broker.engine.security.key_fetch import check_place


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    """The issuer of tokens and where its keys are. `jwks` is a URL of https or a file; `key_file` has the secret of
    HS256 and its like; `ca` is a file of the certificates to trust in place of the system's.

    Raises ValueError for what cannot be, with the setting and what to write.
    """

    issuer: str
    audience: str
    jwks: str = ""
    user_claim: str = "sub"
    algorithms: tuple[str, ...] = PUBLIC_KEY_ALGORITHMS
    key_file: str = ""
    ca: str = ""

    def __post_init__(self) -> None:
        for name in ("issuer", "audience", "user_claim"):
            if not getattr(self, name):
                raise ValueError(f"[tokens] {name} is empty, and it is needed: tokens of anybody would be believed")
        if not self.algorithms:
            raise ValueError(f"[tokens] algorithms is empty: name some of {', '.join(PUBLIC_KEY_ALGORITHMS)}")
        for name in self.algorithms:
            if name not in TOKEN_ALGORITHMS:
                raise ValueError(
                    f"[tokens] algorithms names {name!r}: there are {', '.join(PUBLIC_KEY_ALGORITHMS)}, "
                    f"and with key_file {', '.join(SECRET_KEY_ALGORITHMS)}"
                )
        if self.uses_secret and not self.key_file:
            raise ValueError("[tokens] algorithms names HS256 or its like: set key_file to the file of its secret")
        fault = check_place(self.jwks) if self.uses_public_keys else None
        if fault is not None:
            raise ValueError(f"[tokens] jwks is the URL of https, or the file, of the issuer's keys: {fault}")

    @property
    def uses_secret(self) -> bool:
        """True if a secret verifies tokens."""
        return not set(self.algorithms).isdisjoint(SECRET_KEY_ALGORITHMS)

    @property
    def uses_public_keys(self) -> bool:
        """True if keys of the issuer verify tokens."""
        return not set(self.algorithms).isdisjoint(PUBLIC_KEY_ALGORITHMS)
