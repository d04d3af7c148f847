"""The admission: who may come to the daemon, and the ways in which they can prove who they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from broker.config import TlsConfig, tls_lines
from broker.server.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.engine import QueueManager

_WAYS = """\
# A user with a password: evermq user add NAME --groups mqm --data DIR
# Certificates of programs:
[tls]
ca = "ca.pem"
# Tokens:
[tokens]
issuer = "https://login.example.com"
audience = "evermq"
jwks = "https://login.example.com/keys\""""


def _nobody(address: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPolicy:
    """Who may come. Without arguments: programs of this machine, and they are believed.

    `can_authenticate` is true when there is a user with a password, issuers of certificates, or one of tokens.
    `must_log_in` is asked for each line without TLS, by its address; on a line with TLS one always must. `blocked` is
    true for addresses that may not come at all.
    """

    tls: TlsConfig = field(default_factory=TlsConfig)
    can_authenticate: Callable[[], bool] = bool
    must_log_in: Callable[[str], bool] = _nobody
    blocked: Callable[[str], bool] = _nobody

    @classmethod
    def by(cls, manager: QueueManager, tls: TlsConfig | None = None) -> Self:
        """The admission by the users and rules that a queue manager has at each moment."""
        return cls(
            tls=tls or TlsConfig(),
            can_authenticate=lambda: manager.authentication.can_authenticate,
            must_log_in=lambda address: not manager.authentication.trusts,
            blocked=lambda address: manager.authentication.blocks(address),
        )

    def check(self) -> None:
        """Raise StartError where other machines are to be served and are not protected."""
        if not self.tls.host:
            return
        if self.tls.certificate is None:
            raise StartError(
                "[tls] host is set, and there is no certificate. Write, with the paths of yours:",
                tls_lines(self.tls.host),
            )
        self.check_users("[tls] host")

    def check_users(self, setting: str) -> None:
        """Raise StartError where this setting serves other machines, and nobody could prove who they are."""
        if not self.can_authenticate():
            raise StartError(f"{setting} is set, and nobody could prove who they are. Give one of these:", _WAYS)
