"""Rules of channels: which of them are about a line, which of these counts, and whom they block (security 4.5).

Of the rules that map, the first of those that fit counts: one for a channel by its name before those for several, then
SSLPEERMAP before USERMAP before ADDRESSMAP, then the one that is more specific, then the older. QMGRMAP is about queue
managers, and fits no client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.core.security import addresses, distinguished_names
from broker.core.security.facts import Check, Rule, RuleType, UserSource, rule_key
from broker.core.security.profiles import glob, rank

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from broker.core.security.partner import Partner

ADMINISTRATORS_WORD: Final = "*MQADMIN"
"""The word of USERLIST for all administrators."""

ADDRESSES_KEY: Final = rule_key(Rule("*", RuleType.BLOCKADDR))
"""The name of the rule that blocks addresses."""

_MAPS: Final = (RuleType.SSLPEERMAP, RuleType.USERMAP, RuleType.ADDRESSMAP)


def for_channel(rules: Iterable[Rule], channel: str) -> tuple[Rule, ...]:
    """Return the rules that are about a channel, the one that counts before others first. BLOCKADDR is about none."""
    about = (each for each in rules if each.type != RuleType.BLOCKADDR and is_about(each, channel))
    return tuple(sorted(about, key=_order))


def is_about(rule: Rule, channel: str) -> bool:
    """True if the profile of a rule fits the name of a channel: `*` stands for any characters, also periods."""
    return "?" not in rule.profile and glob(rule.profile, channel)


def fits(rule: Rule, partner: Partner) -> bool:
    """True if a rule that maps fits a partner, whatever user it may turn out to be."""
    if rule.type not in _MAPS or (rule.address and not addresses.matches(rule.address, partner.address)):
        return False
    if rule.type != RuleType.SSLPEERMAP:
        return True
    return (
        bool(partner.subject)
        and distinguished_names.matches(rule.peer, partner.subject)
        and distinguished_names.matches(rule.issuer, partner.issuer)
    )


def counting(fitting: Iterable[Rule], user: str) -> Rule | None:
    """Return the rule that counts for a verified user, of those that fit its line, in their order; "" is nobody."""
    return next((each for each in fitting if _is_for(each, user)), None)


def is_closed(fitting: Iterable[Rule]) -> bool:
    """True if these rules refuse every user that might come by the line: none need be verified."""
    for rule in fitting:
        if rule.source != UserSource.NOACCESS or rule.warns:
            return False
        if rule.type != RuleType.USERMAP:
            return True
    return False


def address_block(rules: Mapping[str, Rule], address: str) -> tuple[Rule, str] | None:
    """Return the rule that blocks an address from all channels, and its pattern that fits; None if it does not.

    There is one such rule, for all channels: so whoever accepts lines asks at each without looking at others.
    """
    rule = rules.get(ADDRESSES_KEY)
    if rule is None:
        return None
    return next(((rule, each) for each in rule.addresses if addresses.matches(each, address)), None)


def user_block(rules: Iterable[Rule]) -> Rule | None:
    """Return the rule that says whom a channel blocks, of the rules for it in their order: the most specific alone."""
    return next((each for each in rules if each.type == RuleType.BLOCKUSER), None)


def blocks(rule: Rule, user: str, *, administrator: bool) -> bool:
    """True if a rule that blocks users blocks this one."""
    return user in rule.users or (administrator and ADMINISTRATORS_WORD in rule.users)


def text_of(rule: Rule) -> str:
    """Return the rule as SET CHLAUTH writes it."""
    words = [f"CHLAUTH({quoted(rule.profile)}) TYPE({rule.type.name})"]
    about = {
        "SSLPEER": rule.peer, "SSLCERTI": rule.issuer, "CLNTUSER": rule.client_user, "QMNAME": rule.q_mgr_name,
        "ADDRESS": rule.address,
    }  # fmt: skip
    words += [f"{word}({quoted(text)})" for word, text in about.items() if text]
    lists = {"USERLIST": rule.users, "ADDRLIST": rule.addresses}
    words += [f"{word}({','.join(map(quoted, texts))})" for word, texts in lists.items() if texts]
    if rule.type not in (RuleType.BLOCKUSER, RuleType.BLOCKADDR):
        words.append(f"USERSRC({rule.source.name})")
        if rule.source == UserSource.MAP:
            words.append(f"MCAUSER({quoted(rule.user)})")
        if rule.check_clients != Check.AS_Q_MGR:
            words.append(f"CHCKCLNT({CHECK_WORDS[rule.check_clients]})")
    return " ".join([*words, "WARN(YES)"] if rule.warns else words)


CHECK_WORDS: Final = {
    Check.NONE: "NONE",
    Check.OPTIONAL: "OPTIONAL",
    Check.REQUIRED_ADMIN: "REQDADM",
    Check.REQUIRED: "REQUIRED",
    Check.AS_Q_MGR: "ASQMGR",
}
"""The words of CHCKCLNT and CHCKLOCL."""


def quoted(text: str) -> str:
    """Return a text as MQSC commands write it, in single quotation marks."""
    return "'" + text.replace("'", "''") + "'"


def _is_for(rule: Rule, user: str) -> bool:
    return rule.type != RuleType.USERMAP or (bool(user) and rule.client_user == user)


def _order(rule: Rule) -> tuple[Any, ...]:
    maps = rule.type in _MAPS
    return (
        "*" in rule.profile,
        _MAPS.index(rule.type) if maps else len(_MAPS),
        rank(rule.profile),
        *((distinguished_names.rank(rule.peer), distinguished_names.rank(rule.issuer)) if maps else ()),
        *((addresses.rank(rule.address),) if maps else ()),
        rule.order,
    )
