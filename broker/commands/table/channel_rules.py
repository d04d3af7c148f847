"""The attributes of channel authentication records (CHLAUTH), in the order in which DISPLAY prints them (security 2).

A record is kept under a key (`broker.core.security.facts.rule_key`); its attribute CHLAUTH says for
which channels it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from broker.commands.table.channels import CHANNEL_NAME, DISTINGUISHED_NAME
from broker.commands.table.forms import ListOf, Name, OwnName, Pattern, Text, WordChoice
from broker.commands.table.queues import QSGDISP_OF_SECURITY, YES_NO
from broker.commands.table.row import Acts, Attribute, Origin
from broker.commands.table.users import CHECKS, EntityName
from broker.core.security import addresses
from broker.core.security.facts import Check, RuleType, UserSource
from broker.mqi.names import is_name

if TYPE_CHECKING:
    from broker.commands.table.forms import Value

ORDER: Final = "ORDER"
"""The attribute by which the older of two records is known. No command knows it."""


@dataclass(frozen=True, slots=True)
class ChannelProfile(OwnName):
    """The name of a channel, with asterisks for any characters."""

    def accepts(self, value: Value) -> bool:
        stem = str(value).replace("*", "")
        return len(str(value)) <= CHANNEL_NAME.length and (not stem or is_name(stem))

    @property
    def syntax(self) -> str:
        return f"the name of a channel, up to {CHANNEL_NAME.length} characters, with asterisks for any"


CHANNEL_PROFILE: Final = ChannelProfile()
ADDRESS: Final = Pattern(264, addresses.check, "an address, with an asterisk or a range in place of its parts, or *")

RULE_TYPES: Final = {each.name: each.value for each in RuleType}
_MAPS: Final = (
    RuleType.SSLPEERMAP.value, RuleType.ADDRESSMAP.value, RuleType.USERMAP.value, RuleType.QMGRMAP.value,
)  # fmt: skip
_USERS: Final = EntityName(words=True)
_LIST_MAX: Final = 256

CHLAUTH = (
    Attribute("CHLAUTH", None, CHANNEL_PROFILE, origin=Origin.KEPT),
    Attribute(
        "TYPE",
        None,
        WordChoice(RULE_TYPES),
        RuleType.ADDRESSMAP.value,
        ignored=(RuleType.QMGRMAP.value,),
        instead="no queue manager connects by a channel",
    ),
    Attribute("DESCR", None, Text(64), acts=Acts.PROGRAMS),
    Attribute("CUSTOM", None, Text(128), acts=Acts.NO),
    Attribute("ADDRESS", None, ADDRESS, types=(*_MAPS,), instead="a host name never matches"),
    Attribute("SSLPEER", None, DISTINGUISHED_NAME, types=(RuleType.SSLPEERMAP.value,)),
    Attribute("SSLCERTI", None, DISTINGUISHED_NAME, types=(RuleType.SSLPEERMAP.value,)),
    Attribute("CLNTUSER", None, Text(64), types=(RuleType.USERMAP.value,)),
    Attribute("QMNAME", None, Name(generic=True), types=(RuleType.QMGRMAP.value,)),
    Attribute("USERLIST", None, ListOf(_USERS, _LIST_MAX), types=(RuleType.BLOCKUSER.value,)),
    Attribute("ADDRLIST", None, ListOf(ADDRESS, _LIST_MAX), types=(RuleType.BLOCKADDR.value,)),
    Attribute(
        "USERSRC",
        None,
        WordChoice({each.name: each.value for each in UserSource}),
        UserSource.MAP.value,
        types=_MAPS,
    ),
    Attribute("MCAUSER", None, _USERS, types=_MAPS),
    Attribute(
        "CHCKCLNT",
        None,
        WordChoice({word: CHECKS[word] for word in ("ASQMGR", "REQUIRED", "REQDADM")}),
        Check.AS_Q_MGR.value,
        types=_MAPS,
    ),
    Attribute("WARN", None, YES_NO, 0),
    QSGDISP_OF_SECURITY,
    Attribute("ALTDATE", None, Text(12), origin=Origin.KEPT),
    Attribute("ALTTIME", None, Text(8), origin=Origin.KEPT),
)

KEY_ATTRIBUTES: Final = ("ADDRESS", "SSLPEER", "SSLCERTI", "CLNTUSER", "QMNAME")
"""The attributes that tell the records of a profile and a type from one another."""

LISTS: Final = {RuleType.BLOCKUSER: "USERLIST", RuleType.BLOCKADDR: "ADDRLIST"}

ABOUT: Final = {
    RuleType.SSLPEERMAP: "SSLPEER",
    RuleType.ADDRESSMAP: "ADDRESS",
    RuleType.USERMAP: "CLNTUSER",
    RuleType.QMGRMAP: "QMNAME",
}
"""The attribute that a record of the type must have."""

WHICH: Final = ("CHLAUTH", "TYPE")

BRIEF: Final = (*WHICH, *KEY_ATTRIBUTES, *LISTS.values(), "USERSRC", "MCAUSER")
"""The attributes that DISPLAY shows of a record unless it is asked for more."""
