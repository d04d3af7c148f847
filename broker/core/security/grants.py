"""The commands that allow what was refused, each as narrow as it can be (security 9.1).

A command is about one user: rights on one object for it alone; a rule of one channel for it from one address, or for
its certificate. Nobody is let in who shares no more with it than a channel or an address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.security.admission import Lacking
from broker.core.security.channel_rules import quoted, text_of
from broker.core.security.distinguished_names import pattern_of
from broker.core.security.facts import Check, Principal, Rule, RuleType, User, UserSource, rule_key
from broker.core.security.rights import Q_MGR, TYPE_WORDS, Right, all_of, words_of
from broker.mqi.names import is_name

if TYPE_CHECKING:
    from broker.core.security.admission import Admission
    from broker.core.security.authority import Authority
    from broker.core.security.partner import Partner, Posture

NOBODY = "nobody"
"""The user that a rule blocks which is there to block nobody."""


class ProposedChange(NamedTuple):
    """A command, and the user or rule as it is when the command has been done."""

    command: str
    change: User | Rule


def of_rights(authority: Authority, user: str, object_type: int, name: str, wanted: Right) -> str | None:
    """Return the command that gives a user the wanted rights on an object; None if objects of the type have none such.

    A record for the very object takes the place of a generic one of the same user: so it repeats what that one gives.
    """
    about_q_mgr = object_type == Q_MGR
    if wanted & ~(all_of(object_type) | Right.CRT) or not (about_q_mgr or is_name(name)):
        return None
    given = authority.missing(user, object_type, name, wanted)
    own = authority.record_for(Principal.USER, user, object_type, name)
    if own is not None and not about_q_mgr and own.profile != name:
        given |= own.rights
    profile = "" if about_q_mgr else f"PROFILE({quoted(name)}) "
    of_type = f"OBJTYPE({TYPE_WORDS[object_type]})"
    shared = " QSGDISP(SHARED)" if authority.shared else ""
    return f"SET AUTHREC {profile}{of_type} PRINCIPAL({quoted(user)}) AUTHADD({words_of(given)}){shared}"


def of_entry(authority: Authority, partner: Partner, posture: Posture, admission: Admission) -> ProposedChange | None:
    """Return the change that lifts the refusal of a partner; None if any would let in others as well."""
    match admission.lacking:
        case Lacking.STATUS:
            return _enabled(authority, partner, admission)
        case Lacking.BLOCKED:
            return _not_blocked(authority, partner, admission)
        case Lacking.ACCESS | Lacking.USER | Lacking.PROOF if posture.rules and not partner.local:
            return _mapped(authority, partner, admission)
    return None


def _enabled(authority: Authority, partner: Partner, admission: Admission) -> ProposedChange | None:
    user = authority.users.get(admission.user)
    if user is None or user.name != partner.user:
        return None
    return ProposedChange(f"ALTER USER({quoted(user.name)}) STATUS(ENABLED)", user._replace(enabled=True))


def _not_blocked(authority: Authority, partner: Partner, admission: Admission) -> ProposedChange | None:
    """The same rule for the channel alone, without the user. Who is blocked as an administrator stays so: no rule lets
    in one of them alone.
    """
    blocking, user = admission.rule, admission.user
    if blocking is None or user != partner.user or user not in blocking.users:
        return None
    others = tuple(each for each in blocking.users if each != user) or (NOBODY,)
    return _set(authority, blocking._replace(profile=partner.channel, users=others))


def _mapped(authority: Authority, partner: Partner, admission: Admission) -> ProposedChange | None:
    """A rule that takes the verified user from this address, or the certificate, to be the user. A rule that asks for a
    password beside the certificate is not gone round.
    """
    rule = admission.rule
    if admission.lacking == Lacking.PROOF and rule is not None and rule.check_clients != Check.AS_Q_MGR:
        return None
    if not partner.user or not partner.address:
        return None
    mapping = Rule(partner.channel, RuleType.USERMAP, partner.address, user=partner.user, source=UserSource.MAP)
    if partner.verified:
        return _set(authority, mapping._replace(client_user=partner.verified))
    peer = pattern_of(partner.subject)
    if peer is None:
        return None
    issuer = pattern_of(partner.issuer) or ""
    return _set(authority, mapping._replace(type=RuleType.SSLPEERMAP, peer=peer, issuer=issuer))


def _set(authority: Authority, rule: Rule) -> ProposedChange:
    """The command that makes a rule, the youngest of all, or changes the one that is kept under its key."""
    existing = authority.rules.get(rule_key(rule))
    youngest = max((each.order for each in authority.rules.values()), default=0) + 1
    rule = rule._replace(order=youngest if existing is None else existing.order)
    replace = "" if existing is None else " ACTION(REPLACE)"
    return ProposedChange(f"SET {text_of(rule)}{replace}", rule)
