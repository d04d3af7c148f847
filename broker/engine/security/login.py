"""The request of a program to come in, and the login that it is given (security 4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from broker.mqi.security_parameters import CredentialKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.core.queues.handles import Hconn
    from broker.core.security.caller import Caller
    from broker.engine.security.authentication import Authentication


Names: TypeAlias = tuple[tuple[str, str], ...]
"""A distinguished name: pairs of attribute and value, in the order of the certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A certificate: that of the listener, or that of a program, which an issuer of `[tls] ca` has signed.

    `subject` and `issuer` have the attributes by the names that `ssl` gives them, `serial` is in hexadecimal digits,
    `ends` in seconds since 1970 UTC.
    """

    subject: Names
    issuer: Names
    serial: str
    ends: float


class Login(NamedTuple):
    """Somebody has come in as `user`. The login ends at the instant `ends`, in seconds since 1970 UTC; infinity: not by
    itself. `stamp` changes with the password, the status or the groups of the user: one who keeps a login compares it.

    `owner`: it is the one of the queue manager's own process, or its line is trusted, and its calls are not judged.
    """

    user: str
    ends: float = inf
    stamp: str = ""
    owner: bool = False
    trusted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRequest:
    """A program that wants to come in: by which channel, "" for the default one, from which address, and what it brings
    to prove that it is `user`, which without a proof is only said.

    `protocol` and `cipher` are those of TLS, empty without. One by the Unix socket has no address; `uid` is the number
    of its user. `unavailable` returns why its channel takes no more, empty if it does. `must_prove`: it is not believed
    what it says, though the queue manager trusts programs of its own machine.
    """

    channel: str = ""
    address: str = ""
    user: str = ""
    appl_name: str = ""
    kind: int = CredentialKind.NONE
    secret: bytes = field(default=b"", repr=False)
    certificate: Certificate | None = None
    protocol: str = ""
    cipher: str = ""
    uid: int | None = None
    unavailable: Callable[[], str] = str
    must_prove: bool = False

    @property
    def local(self) -> bool:
        """True if it comes by the Unix socket."""
        return not self.address


class LoggedIn(Protocol):
    """A conversation that lives by a proof (`broker.engine.conversation`)."""

    hconn: Hconn
    proof: LoginProof | None
    of_delivery: bool

    def expel(self, why: str) -> None:
        """Its user may not be here any more: break it, and tell the program."""


class LoginProof:
    """The proof that a program has brought: its login, and the conversations that live by it. Their calls are judged as
    those of `caller`, if there is one.
    """

    __slots__ = ("__weakref__", "caller", "conversations", "login", "over", "renewing", "request")

    def __init__(self, login: Login, caller: Caller | None, request: LoginRequest | None = None) -> None:
        self.login = login
        self.caller = caller
        self.request = request
        self.conversations: dict[LoggedIn, None] = {}
        self.over = False
        self.renewing = False


class Door(Protocol):
    """A queue manager, as whoever lets users in needs it."""

    authentication: Authentication


async def login(  # noqa: PLR0913  # all by keyword
    manager: Door,
    *,
    channel: str = "",
    address: str = "127.0.0.1",
    user: str = "",
    password: str | bytes | None = None,
    token: str | bytes | None = None,
    certificate: Certificate | None = None,
    must_prove: bool = False,
) -> Login:
    """Let a user of a door of its own in, as the listener lets programs in: by a channel, from a network address, with
    a password, a token or the certificate of its line with TLS. `connect(as_user=)` takes the login. With `must_prove`
    nobody comes in without one of these, though the queue manager trusts programs of its own machine.

    Raises NOT_AUTHORIZED (2035), late where a password or token was wrong; UNKNOWN_CHANNEL_NAME (2540),
    CHANNEL_NOT_AVAILABLE (2537), SSL_INITIALIZATION_ERROR (2393) and their kin; ValueError for a password with a token,
    and for an address that is none.
    """
    if password is not None and token is not None:
        raise ValueError("a login takes a password or a token, not both")
    kind, secret = (CredentialKind.TOKEN, token) if password is None else (CredentialKind.PASSWORD, password)
    request = LoginRequest(
        channel=channel,
        address=str(ip_address(address)),
        user=user,
        kind=CredentialKind.NONE if secret is None else kind,
        secret=secret.encode("utf-8", "surrogatepass") if isinstance(secret, str) else secret or b"",
        certificate=certificate,
        protocol="" if certificate is None else "TLS",
        must_prove=must_prove,
    )
    return await manager.authentication.admit(request)


def holds(manager: Door, login: Login) -> bool:
    """True while `connect(as_user=login)` lets in: the login has not ended, and its user is as it was."""
    return manager.authentication.holds(login)
