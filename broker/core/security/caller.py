"""Whose calls these are: the user of a connection whose calls are judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.security.authority import NotAuthorizedError
from broker.core.security.facts import ADMINISTRATORS, SELF
from broker.core.security.rights import Q_MGR, Q, Right

if TYPE_CHECKING:
    from broker.core.security.authority import Authority


class Caller:
    """A user, and what is asked about the rights that it has at this moment. The owner of the queue manager has none,
    and is not judged (security 1.6).
    """

    __slots__ = ("_authority", "user")

    def __init__(self, authority: Authority, user: str) -> None:
        self._authority = authority
        self.user = user

    @classmethod
    def connecting(cls, authority: Authority, user: str) -> Caller:
        """The user of a new connection. Raises NOT_AUTHORIZED (2035) for one that is disabled, or may not connect."""
        known = authority.users.get(user)
        if known is not None and not known.enabled:
            raise NotAuthorizedError("connect", f"USER({user}) STATUS(DISABLED)", user)
        authority.check(user, Q_MGR, SELF, Right.CONNECT, "connect")
        return cls(authority, user)

    def other(self, user: str) -> Caller:
        """The same question about another user."""
        return Caller(self._authority, user)

    @property
    def administrator(self) -> bool:
        """True if it has every right."""
        return self._authority.is_administrator(self.user)

    def require_administrator(self) -> None:
        """Raise NOT_AUTHORIZED (2035) for a user who is no administrator."""
        if not self.administrator:
            raise NotAuthorizedError("administration", f"only {ADMINISTRATORS} and its members may", self.user)

    def may(self, wanted: Right, q_name: str) -> bool:
        """True if it has these rights on the queue of this name."""
        return not self._authority.missing(self.user, Q, q_name, wanted)

    def may_manager(self, wanted: Right) -> bool:
        """True if it has these rights on the queue manager itself."""
        return not self._authority.missing(self.user, Q_MGR, SELF, wanted)

    def require(self, wanted: Right, name: str, object_type: int = Q) -> None:
        """Raise NOT_AUTHORIZED (2035) for rights that it lacks on an object, a queue unless another type is given."""
        self._authority.check(self.user, object_type, name, wanted)

    def require_manager(self, wanted: Right) -> None:
        """Raise NOT_AUTHORIZED (2035) for rights that it lacks on the queue manager itself."""
        self._authority.check(self.user, Q_MGR, SELF, wanted)
