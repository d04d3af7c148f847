"""Users, authority records, channels and their rules, authentication information: what definitions of objects say.

A definition has its attributes under their MQSC keywords. One of a kind that has several names is kept under a key that
`broker.core.security` alone makes (`record_key`, `rule_key`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from broker.core.security.rights import Right

if TYPE_CHECKING:
    from collections.abc import Mapping

    Attributes: TypeAlias = Mapping[str, int | str]

ADMINISTRATORS: Final = "mqm"
"""The group, and the user, that has every right without records."""

SELF: Final = "self"
"""The profile of the queue manager itself, by which all other words for it are kept."""


class Principal(IntEnum):
    """The kind of entity of an authority record (MQZAET)."""

    USER = 1
    GROUP = 2


class RuleType(IntEnum):
    """The type of a channel authentication record (MQCAUT)."""

    BLOCKUSER = 1
    BLOCKADDR = 2
    SSLPEERMAP = 3
    ADDRESSMAP = 4
    USERMAP = 5
    QMGRMAP = 6


class UserSource(IntEnum):
    """Where a rule takes the user from: USERSRC (MQUSRC)."""

    MAP = 0
    NOACCESS = 1
    CHANNEL = 2


class Check(IntEnum):
    """The check that a client has to pass: CHCKCLNT and CHCKLOCL (MQCHK)."""

    OPTIONAL = 0
    NONE = 1
    REQUIRED_ADMIN = 2
    REQUIRED = 3
    AS_Q_MGR = 4


class User(NamedTuple):
    """A user. `password` is a hash, empty without one. Limits are 0 where there are none; `max_calls` and `max_bytes`
    are a second.
    """

    name: str
    groups: tuple[str, ...] = ()
    enabled: bool = True
    password: str = ""
    os_user: str = ""
    max_connections: int = 0
    max_calls: int = 0
    max_bytes: int = 0
    max_unit_bytes: int = 0

    @property
    def administrator(self) -> bool:
        """True if no right has to be given to it."""
        return self.name == ADMINISTRATORS or ADMINISTRATORS in self.groups

    @classmethod
    def of(cls, name: str, attributes: Attributes) -> User:
        """The user of a definition."""
        return cls(
            name,
            words(attributes, "GROUPS"),
            attributes.get("STATUS", 1) == 1,
            str(attributes.get("PASSWORD", "")),
            str(attributes.get("OSUSER", "")),
            *(int(attributes.get(each, 0)) for each in ("MAXCONNS", "MAXCALLS", "MAXBYTES", "MAXUOW")),
        )


class AuthorityRecord(NamedTuple):
    """An authority record: the rights that one entity has on the objects of a type whose names fit a profile."""

    profile: str
    object_type: int
    kind: Principal
    entity: str
    rights: Right

    @classmethod
    def of(cls, attributes: Attributes) -> AuthorityRecord:
        """The record of a definition."""
        return cls(
            str(attributes["PROFILE"]),
            int(attributes["OBJTYPE"]),
            Principal(int(attributes["ENTTYPE"])),
            str(attributes["ENTITY"]),
            Right(int(attributes["AUTHLIST"])),
        )


class Channel(NamedTuple):
    """A channel to which clients connect (SVRCONN), or one of another type, which is only kept."""

    name: str
    serves_clients: bool = True
    user: str = ""
    max_instances: int = 999999999
    max_instances_per_client: int = 999999999
    shared_conversations: int = 10
    max_length: int = 4194304
    heartbeat: int = 300
    cipher: str = ""
    peer: str = ""
    needs_certificate: bool = True

    @classmethod
    def of(cls, name: str, attributes: Attributes) -> Channel:
        """The channel of a definition."""
        return cls(
            name,
            attributes["CHLTYPE"] == SERVER_CONNECTION,
            str(attributes.get("MCAUSER", "")),
            int(attributes.get("MAXINST", 999999999)),
            int(attributes.get("MAXINSTC", 999999999)),
            int(attributes.get("SHARECNV", 10)),
            int(attributes.get("MAXMSGL", 4194304)),
            int(attributes.get("HBINT", 300)),
            str(attributes.get("SSLCIPH", "")),
            str(attributes.get("SSLPEER", "")),
            attributes.get("SSLCAUTH", 0) == 0,
        )


SERVER_CONNECTION: Final = 7
"""CHLTYPE(SVRCONN) (MQCHT)."""


class AuthInfo(NamedTuple):
    """Authentication information; `own_users`: AUTHTYPE(IDPWOS), which asks the users of the queue manager."""

    name: str
    own_users: bool = True
    check_clients: Check = Check.REQUIRED
    check_local: Check = Check.OPTIONAL
    adopts: bool = True
    fail_delay: int = 1

    @classmethod
    def of(cls, name: str, attributes: Attributes) -> AuthInfo:
        """The authentication information of a definition."""
        return cls(
            name,
            attributes["AUTHTYPE"] == OWN_USERS,
            Check(int(attributes.get("CHCKCLNT", Check.REQUIRED))),
            Check(int(attributes.get("CHCKLOCL", Check.OPTIONAL))),
            bool(attributes.get("ADOPTCTX", 1)),
            int(attributes.get("FAILDLAY", 1)),
        )


OWN_USERS: Final = 3
"""AUTHTYPE(IDPWOS) (MQAIT)."""


class Rule(NamedTuple):
    """A channel authentication record. `order` tells the older of two: the lower one."""

    profile: str
    type: RuleType
    address: str = ""
    peer: str = ""
    issuer: str = ""
    client_user: str = ""
    q_mgr_name: str = ""
    users: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    source: UserSource = UserSource.MAP
    user: str = ""
    check_clients: Check = Check.AS_Q_MGR
    warns: bool = False
    order: int = 0

    @classmethod
    def of(cls, attributes: Attributes) -> Rule:
        """The rule of a definition."""
        return cls(
            str(attributes["CHLAUTH"]),
            RuleType(int(attributes["TYPE"])),
            str(attributes.get("ADDRESS", "")),
            str(attributes.get("SSLPEER", "")),
            str(attributes.get("SSLCERTI", "")),
            str(attributes.get("CLNTUSER", "")),
            str(attributes.get("QMNAME", "")),
            words(attributes, "USERLIST"),
            words(attributes, "ADDRLIST"),
            UserSource(int(attributes.get("USERSRC", UserSource.MAP))),
            str(attributes.get("MCAUSER", "")),
            Check(int(attributes.get("CHCKCLNT", Check.AS_Q_MGR))),
            bool(attributes.get("WARN", 0)),
            int(attributes.get("ORDER", 0)),
        )


def words(attributes: Attributes, keyword: str) -> tuple[str, ...]:
    """The words of an attribute that is a list, which is kept as one text with commas."""
    text = str(attributes.get(keyword, ""))
    return tuple(text.split(",")) if text else ()


def record_key(profile: str, object_type: int, kind: Principal, entity: str) -> str:
    """The name under which an authority record is kept."""
    return f"{object_type} {profile} {kind.name.lower()} {entity}"


def rule_key(rule: Rule) -> str:
    """The name under which a channel authentication record is kept: what tells it from all others (security 2).

    Of BLOCKUSER and BLOCKADDR a profile has one; of the others one for each that it is about.
    """
    about = (rule.address, rule.peer, rule.issuer, rule.client_user, rule.q_mgr_name)
    return f"{rule.profile} {rule.type.name} {_joined(about)}".rstrip()


def _joined(about: tuple[str, ...]) -> str:
    """The parts of a key, without those that are empty at its end."""
    return "|".join(about).rstrip("|")
