"""Whose calls these are: the user of a connection whose calls are judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.security.authority import NotAuthorizedError, kind_and_name
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
        caller = cls(authority, user)
        caller.require_enabled("connect")
        caller.require_manager(Right.CONNECT, step="connect")
        return caller

    def other(self, user: str) -> Caller:
        """The same question about another user."""
        return Caller(self._authority, user)

    @property
    def of_group(self) -> Caller:
        """The same user, judged by what its queue-sharing group shares alone: so is what belongs to the group."""
        return Caller(self._authority.group, self.user)

    @property
    def administrator(self) -> bool:
        """True if it has every right."""
        return self._authority.is_administrator(self.user)

    def require_enabled(self, step: str) -> None:
        """Raise NOT_AUTHORIZED (2035) for a user that is disabled."""
        known = self._authority.users.get(self.user)
        if known is not None and not known.enabled:
            raise NotAuthorizedError(step, f"USER({self.user}) STATUS(DISABLED)")

    def require_administrator(self) -> None:
        """Raise NOT_AUTHORIZED (2035) for a user who is no administrator."""
        if not self.administrator:
            raise NotAuthorizedError("administration", f"only {ADMINISTRATORS} and its members may", self.user)

    def may(self, wanted: Right, name: str, object_type: int = Q) -> bool:
        """True if it has these rights on the object of this name, a queue unless another type is given."""
        return not self._authority.missing(self.user, object_type, name, wanted)

    def may_manager(self, wanted: Right) -> bool:
        """True if it has these rights on the queue manager itself."""
        return not self._authority.missing(self.user, Q_MGR, SELF, wanted)

    def require(self, wanted: Right, name: str, object_type: int = Q, step: str = "open") -> None:
        """Raise NOT_AUTHORIZED (2035) for rights that it lacks on an object, a queue unless another type is given."""
        self._authority.check(self.user, object_type, name, wanted, step)

    def require_manager(self, wanted: Right, step: str = "call") -> None:
        """Raise NOT_AUTHORIZED (2035) for rights that it lacks on the queue manager itself."""
        self._authority.check(self.user, Q_MGR, SELF, wanted, step)

    def require_creation(self, name: str, object_type: int, step: str) -> None:
        """Raise NOT_AUTHORIZED (2035) for a user who may not create an object of this type under this name."""
        if Right.CRT not in self._authority.class_rights(self.user, object_type, name):
            raise NotAuthorizedError(step, f"{self.user} has no CRT for {kind_and_name(object_type, name)}")
