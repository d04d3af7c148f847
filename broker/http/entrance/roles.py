"""The roles of users: IBM MQ's, by groups of a USER with their names. A role opens a door, and grants nothing behind
it: each call and each command is judged as its user.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.mqi.access import OwnUser


class WebRole(StrEnum):
    """A role, by the name of the group of USER that gives it."""

    ADMIN = "MQWebAdmin"
    """Administration by REST."""

    READ_ONLY = "MQWebAdminRO"
    """Administration by REST that displays, and changes nothing."""

    USER = "MQWebUser"
    """Messaging by REST; administration too."""


def roles_of(user: OwnUser) -> frozenset[WebRole]:
    """Return the roles of a user. An administrator has MQWebAdmin and MQWebUser, whatever its groups; a user with none
    of the three groups has MQWebUser.
    """
    roles = {role for role in WebRole if role.value in user.groups}
    if user.administrator:
        roles |= {WebRole.ADMIN, WebRole.USER}
    return frozenset(roles or {WebRole.USER})
