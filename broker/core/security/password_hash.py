"""The hash of a password, as a definition of a user keeps it: `$scrypt$ln=15,r=8,p=1$salt$hash` (security 2.3).

Salt and hash are in base64 without padding, as in other programs that keep scrypt so. `ln` is the binary logarithm of
scrypt's cost: a hash that would take gigabytes or next to nothing to verify is none. No error text repeats what it is
about, which may be a password that somebody wrote in the place of its hash.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Final

LN_MIN: Final = 14
LN_MAX: Final = 20
BLOCK_SIZE: Final = 8
PARALLEL_MAX: Final = 4
SALT_BYTES_MIN: Final = 8
SALT_BYTES_MAX: Final = 64
DIGEST_BYTES_MIN: Final = 16
DIGEST_BYTES_MAX: Final = 64

PASSWORD_BYTES_MAX: Final = 1024

_FORM: Final = re.compile(
    r"\$scrypt\$ln=(?P<ln>[1-9][0-9]?),r=(?P<r>[1-9][0-9]?),p=(?P<p>[1-9][0-9]?)"
    r"\$(?P<salt>[A-Za-z0-9+/]+)\$(?P<digest>[A-Za-z0-9+/]+)"
)
_NO_HASH: Final = (
    "PASSWORD takes a hash of the form $scrypt$ln=15,r=8,p=1$salt$hash, never a password itself: "
    "`evermq user password NAME` asks for the password and sets its hash"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordHash:
    """A hash with the parameters it was made with: `ln` and `p` of scrypt, whose `r` is always 8."""

    ln: int
    p: int
    salt: bytes = field(repr=False)
    digest: bytes = field(repr=False)

    def __str__(self) -> str:
        return f"$scrypt$ln={self.ln},r={BLOCK_SIZE},p={self.p}${_base64(self.salt)}${_base64(self.digest)}"

    @property
    def memory_bytes(self) -> int:
        """The memory that scrypt takes for it."""
        return 128 * BLOCK_SIZE * ((1 << self.ln) + self.p + 2)


def check(text: str) -> str | None:
    """None for the hash of a password; for anything else an error text that says what it should be."""
    found = _FORM.fullmatch(text)
    if found is None or len(found["salt"]) % 4 == 1 or len(found["digest"]) % 4 == 1:
        return _NO_HASH
    ln, r, p = (int(found[each]) for each in ("ln", "r", "p"))
    if not LN_MIN <= ln <= LN_MAX:
        return f"a hash of ln={ln} is refused: its ln is {LN_MIN} to {LN_MAX}, which takes {2**LN_MIN} KiB to 1 GiB"
    if r != BLOCK_SIZE:
        return f"a hash of r={r} is refused: its r is {BLOCK_SIZE}"
    if p > PARALLEL_MAX:
        return f"a hash of p={p} is refused: its p is 1 to {PARALLEL_MAX}"
    if not SALT_BYTES_MIN <= len(_decoded(found["salt"])) <= SALT_BYTES_MAX:
        return f"the salt of the hash is not {SALT_BYTES_MIN} to {SALT_BYTES_MAX} bytes long"
    if not DIGEST_BYTES_MIN <= len(_decoded(found["digest"])) <= DIGEST_BYTES_MAX:
        return f"the hash itself is not {DIGEST_BYTES_MIN} to {DIGEST_BYTES_MAX} bytes long"
    return None


def parse(text: str) -> PasswordHash:
    """The hash that a text is. Raises ValueError, with the text of `check`, for what is none."""
    fault = check(text)
    if fault is not None:
        raise ValueError(fault)
    found = _FORM.fullmatch(text)
    assert found is not None
    salt, digest = _decoded(found["salt"]), _decoded(found["digest"])
    return PasswordHash(ln=int(found["ln"]), p=int(found["p"]), salt=salt, digest=digest)


def check_password(password: str | bytes) -> str | None:
    """None for what can be a password: UTF-8, not empty, at most 1 KiB; for anything else an error text."""
    try:
        data = encoded(password)
        data.decode()
    except UnicodeError:
        return "a password is text in UTF-8"
    if not data:
        return "a password is not empty"
    if len(data) > PASSWORD_BYTES_MAX:
        return f"a password of {len(data)} bytes is too long: it has at most {PASSWORD_BYTES_MAX} in UTF-8"
    return None


def encoded(password: str | bytes) -> bytes:
    """The bytes that are hashed of a password."""
    return password.encode() if isinstance(password, str) else password


def _base64(data: bytes) -> str:
    return b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return b64decode(text + "=" * (-len(text) % 4))
