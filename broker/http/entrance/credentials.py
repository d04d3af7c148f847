"""The credentials of a request: a user and a password, a token, or the certificate of its line (security 4)."""

from __future__ import annotations

import binascii
import secrets
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from starlette.requests import cookie_parser

from broker.http.entrance.headers import header_values

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def credentials_of(request: Mapping[str, Any]) -> CallerCredentials:
    """Return the credentials of a request, of which its scope tells, beside cookies. Raises NotAdmittedError for an
    Authorization header that is none of Basic and Bearer.
    """
    state = request["state"]
    address, certificate = state["address"], state.get("certificate")
    headers = header_values(request, b"authorization")
    if not headers:
        return CallerCredentials(address, "", None, None, certificate)
    if len(headers) > 1:
        raise NotAdmittedError
    scheme, _, secret = headers[0].partition(b" ")
    match scheme.lower(), secret.strip():
        case b"basic", given if given:
            user, password = _basic(given)
            return CallerCredentials(address, user, password, None, certificate)
        case b"bearer", given if given:
            return CallerCredentials(address, "", None, given, certificate)
        case _:
            raise NotAdmittedError


def cookie_of(request: Mapping[str, Any], name: str) -> str:
    """Return the value of a cookie of a request, empty where it brings none of this name."""
    headers = header_values(request, b"cookie")
    found: str = cookie_parser(headers[0].decode("latin-1")).get(name, "") if headers else ""
    return found


def _basic(value: bytes) -> tuple[str, bytes]:
    try:
        user, colon, password = binascii.a2b_base64(value, strict_mode=True).partition(b":")
        if colon:
            return user.decode(), password
    except ValueError:
        pass
    raise NotAdmittedError
