"""Passwords and their hashes: scrypt of the standard library, with our parameters (security 4.6)."""

from __future__ import annotations

import secrets
from dataclasses import replace
from hashlib import scrypt
from hmac import compare_digest
from typing import Final

from broker.core.security.password_hash import BLOCK_SIZE, PasswordHash, check_password, encoded

LN: Final = 15
PARALLEL: Final = 1
SALT_BYTES: Final = 16
DIGEST_BYTES: Final = 32


def hash_of(password: str | bytes) -> str:
    """A new hash of a password, for PASSWORD of a user: 0.13 seconds of a processor. Raises ValueError for what cannot
    be a password.
    """
    fault = check_password(password)
    if fault is not None:
        raise ValueError(fault)
    blank = PasswordHash(ln=LN, p=PARALLEL, salt=secrets.token_bytes(SALT_BYTES), digest=bytes(DIGEST_BYTES))
    return str(replace(blank, digest=_digest(encoded(password), blank)))


def matches(password: bytes, stored: PasswordHash) -> bool:
    """True if it is the password that was hashed; for how long it looks does not depend on where they differ."""
    return compare_digest(_digest(password, stored), stored.digest)


def needs_renewal(stored: PasswordHash) -> bool:
    """True for a hash that is weaker than new ones are. A stronger one stays."""
    cheaper = stored.p << stored.ln < PARALLEL << LN
    return cheaper or len(stored.salt) < SALT_BYTES or len(stored.digest) < DIGEST_BYTES


def dummy() -> PasswordHash:
    """A hash of no password: to verify one against it takes as long as against one of ours."""
    return PasswordHash(
        ln=LN, p=PARALLEL, salt=secrets.token_bytes(SALT_BYTES), digest=secrets.token_bytes(DIGEST_BYTES)
    )


def _digest(password: bytes, like: PasswordHash) -> bytes:
    return scrypt(
        password,
        salt=like.salt,
        n=1 << like.ln,
        r=BLOCK_SIZE,
        p=like.p,
        maxmem=like.memory_bytes,
        dklen=len(like.digest),
    )
