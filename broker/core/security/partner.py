"""The other side of a line, as it is known when it wants to be a conversation, and what it is asked for."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from broker.core.security.distinguished_names import Name
    from broker.core.security.facts import Attributes

DEFAULT_CHANNEL = "EVERMQ.SVRCONN"
"""The channel of clients that name none."""


class Proof(Enum):
    """The proof that a partner is the user that it says it is."""

    NONE = "nothing"
    PASSWORD_GIVEN = "a password, not verified yet"
    TOKEN_GIVEN = "a token, not verified yet"
    PASSWORD = "its password"
    TOKEN = "a token"
    FAILED = "a password or token that is not good"


class Partner(NamedTuple):
    """The other side of a line.

    `user` is the user that it proves to be, of which `proof` says how; `asserted` only says so, which nobody believes
    but a queue manager that trusts its own machine. `subject` and `issuer` are those of its certificate, empty without
    one, and `protocol` ("TLSv1.3") and `suite` what was agreed, empty on a plain line. `local`: it came by the Unix
    socket, where `peer` is the name of its process's user, and `owner` is true for that of the queue manager and for
    root. `unavailable` says why the channel takes no more, where it takes none.
    """

    channel: str = DEFAULT_CHANNEL
    address: str = ""
    user: str = ""
    proof: Proof = Proof.NONE
    asserted: str = ""
    subject: Name = ()
    issuer: Name = ()
    protocol: str = ""
    suite: str = ""
    local: bool = False
    peer: str = ""
    owner: bool = False
    unavailable: str = ""

    @property
    def verified(self) -> str:
        """The user that it has proved to be; empty if it has not."""
        return self.user if self.proof in (Proof.PASSWORD, Proof.TOKEN) else ""


class Posture(NamedTuple):
    """The settings of the queue manager about who comes in: CONNAUTH; CHLAUTH, true if rules of channels count; and
    whether lines of its own machine are trusted (security 1.3).
    """

    conn_auth: str = "SYSTEM.DEFAULT.AUTHINFO.IDPWOS"
    rules: bool = True
    trusts: bool = False

    @classmethod
    def of(cls, attributes: Attributes, *, trusts: bool) -> Posture:
        """The settings of a queue manager with these attributes."""
        return cls(str(attributes["CONNAUTH"]), bool(attributes["CHLAUTH"]), trusts)
