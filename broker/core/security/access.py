"""May this user do that, by which rules, and which command would allow it (security 9.1).

The decisions are those of `admission` and `authority` themselves. A command is only given if it lets in nobody else and
changes no other right: it is tried on a copy of the rules before it is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.security import grants
from broker.core.security.admission import admit
from broker.core.security.authority import kind_and_name
from broker.core.security.facts import ADMINISTRATORS, SELF, Principal
from broker.core.security.partner import Proof
from broker.core.security.rights import Q_MGR, TYPE_WORDS, Right, words_of
from broker.mqi.access import Access, AccessStep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.security.admission import Admission
    from broker.core.security.authority import Authority
    from broker.core.security.facts import Rule
    from broker.core.security.partner import Partner, Posture

_CHANGES_MAX: Final = 4
"""The most commands of a grant that lead past rules of channels."""


def explain_open(
    authority: Authority,
    user: str,
    object_type: int,
    name: str,
    wanted: Right,
    on_q_mgr: Right = Right.NONE,
) -> Access:
    """Explain an open: `wanted` are the rights that it takes on the object, `on_q_mgr` those on the queue manager."""
    steps: list[AccessStep] = []
    commands: list[str | None] = []
    for kind, about, rights in ((object_type, name, wanted), (Q_MGR, SELF, on_q_mgr)):
        judge = authority.judge_of(kind, about)
        if judge.is_administrator(user):
            steps.append(AccessStep(f"USER({user})", f"group {ADMINISTRATORS}", "administrator: has every right"))
        elif rights:
            steps += _steps(judge, user, kind, about, rights)
            if judge.missing(user, kind, about, rights):
                commands.append(grants.of_rights(judge, user, kind, about, rights))
    steps = list(dict.fromkeys(steps))
    return Access(not commands, user, tuple(steps), "" if None in commands else "\n".join(filter(None, commands)))


def explain_connect(authority: Authority, posture: Posture, partner: Partner) -> Access:
    """Explain a connection. A password or token that the partner is said to give is taken to be good; a user without a
    password gives none.
    """
    partner, steps = _able(authority, partner)
    admission = _admitted(authority, posture, partner)
    if not admission.admitted:
        grant = _grant(authority, posture, partner, admission)
        return Access(allowed=False, user=admission.user, steps=steps + admission.steps, grant=grant)
    if admission.administrator:
        return Access(allowed=True, user=admission.user, steps=steps + admission.steps)
    opened = explain_open(authority, admission.user, Q_MGR, SELF, Right.CONNECT)
    return opened._replace(steps=steps + admission.steps + opened.steps)


def counting_rule(authority: Authority, posture: Posture, partner: Partner) -> Rule | None:
    """Return the rule of channels that counts for a partner who gives what `explain_connect` takes it to give, or the
    one that blocks it.
    """
    return _admitted(authority, posture, _able(authority, partner)[0]).rule


def _able(authority: Authority, partner: Partner) -> tuple[Partner, tuple[AccessStep, ...]]:
    """The partner with what it can show, and the step that says why it shows nothing."""
    user = authority.users.get(partner.user)
    if partner.proof != Proof.PASSWORD_GIVEN or (user is not None and user.password):
        return partner, ()
    lacks = "no such user" if user is None else "PASSWORD(NONE)"
    step = AccessStep(f"USER({partner.user})", lacks, "has no password to give")
    return partner._replace(proof=Proof.NONE), (step,)


def _admitted(authority: Authority, posture: Posture, partner: Partner) -> Admission:
    """Who the partner is when its password or token has been verified, where that is due."""
    admission = admit(authority, partner, posture)
    return admit(authority, _shown(partner), posture) if admission.verify else admission


def _shown(partner: Partner) -> Partner:
    proof = {Proof.PASSWORD_GIVEN: Proof.PASSWORD, Proof.TOKEN_GIVEN: Proof.TOKEN}.get(partner.proof, partner.proof)
    return partner._replace(proof=proof)


def _grant(authority: Authority, posture: Posture, partner: Partner, refused: Admission) -> str:
    """The commands that let the partner in, tried one after the other; none where they do not."""
    commands: list[str] = []
    tried, admission = authority, refused
    while not admission.admitted and len(commands) < _CHANGES_MAX:
        proposed = grants.of_entry(tried, _shown(partner), posture, admission)
        if proposed is None:
            return ""
        commands.append(proposed.command)
        tried = tried.changed(proposed.change)
        admission = _admitted(tried, posture, partner)
    if not admission.admitted:
        return ""
    if not admission.administrator and authority.missing(admission.user, Q_MGR, SELF, Right.CONNECT):
        commands.append(grants.of_rights(authority, admission.user, Q_MGR, SELF, Right.CONNECT) or "")
    return "\n".join(commands)


def _steps(authority: Authority, user: str, object_type: int, name: str, wanted: Right) -> Iterator[AccessStep]:
    """Yield a step for the user and each of its groups, and the one that decides."""
    about = kind_and_name(object_type, name)
    if user not in authority.users:
        yield AccessStep(f"USER({user})", "no such user", "in no group")
    for kind, entity in authority.entities(user):
        record = authority.record_for(kind, entity, object_type, name)
        whose = f"{'PRINCIPAL' if kind == Principal.USER else 'GROUP'}({entity})"
        if record is None:
            yield AccessStep(f"AUTHREC {whose}", about, "no record fits")
        else:
            profile = f"AUTHREC PROFILE({record.profile}) OBJTYPE({TYPE_WORDS[object_type]}) {whose}"
            yield AccessStep(profile, about, f"gives {words_of(record.rights)}")
    missing = authority.missing(user, object_type, name, wanted)
    verdict = f"refused: {words_of(missing)} is missing" if missing else "allowed"
    yield AccessStep("rights", f"{words_of(wanted)} on {about}", verdict)
