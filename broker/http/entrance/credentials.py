"""The credentials of a request: a user and a password, a token, or the certificate of its line (security 4)."""

from __future__ import annotations

import binascii
import secrets
from base64 import b64decode
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from starlette.requests import Request

_KEY: Final = secrets.token_bytes(32)
"""With which this process makes digests, so that nobody who reads one can try passwords."""


class CallerCredentials(NamedTuple):
    """The address that a request comes from, and what it brings to prove who asks: a user and a password, a token, the
    certificate of its line, or nothing.
    """

    address: str
    user: str = ""
    password: bytes | None = None
    token: bytes | None = None
    certificate: Any = None

    def __repr__(self) -> str:
        return f"CallerCredentials(address={self.address!r}, user={self.user!r})"  # and no secret

    @property
    def empty(self) -> bool:
        """True if nothing is brought that could prove anything."""
        return self.password is None and self.token is None and self.certificate is None

    @property
    def digest(self) -> bytes:
        """A text that is the same for the same credentials while this process lives, from which nobody can tell
        them.
        """
        return blake2b(repr(tuple(self)).encode(), digest_size=32, key=_KEY).digest()


class NotAdmittedError(Exception):
    """A request brings no credentials that let anybody in, or none at all. `session_over`: it brings the cookie of a
    session that is over, or never was.
    """

    def __init__(self, *, session_over: bool = False) -> None:
        super().__init__("not authorized")
        self.session_over = session_over


def form_token(digest: bytes) -> str:
    """Return what the forms of a caller bring back who brings credentials of this digest with each request."""
    return blake2b(digest, digest_size=18, key=_KEY, person=b"form").hexdigest()


def credentials_of(request: Request) -> CallerCredentials:
    """Return the credentials of a request, beside cookies. Raises NotAdmittedError for an Authorization header that is
    none of Basic and Bearer.
    """
    state = request.scope["state"]
    bare = CallerCredentials(state["address"], certificate=state.get("certificate"))
    headers = request.headers.getlist("authorization")
    if not headers:
        return bare
    scheme, _, value = headers[0].partition(" ")
    value = value.strip()
    if len(headers) > 1 or not value:
        raise NotAdmittedError
    match scheme.lower():
        case "basic":
            user, password = _basic(value)
            return bare._replace(user=user, password=password)
        case "bearer":
            return bare._replace(token=value.encode("latin-1"))
        case _:
            raise NotAdmittedError


def _basic(value: str) -> tuple[str, bytes]:
    try:
        user, colon, password = b64decode(value, validate=True).partition(b":")
        if colon:
            return user.decode(), password
    except (binascii.Error, ValueError):
        pass
    raise NotAdmittedError
