"""The user of a conversation: from what is known of a line to a user or a refusal (security 4.3 to 4.5).

`admit` is asked before a password or token is verified, and again with the outcome. The first time it may say that
nobody comes in this way, so that nothing need be verified. The steps that it returns are those that it took; `explain`
shows them.

Later wins: the user that the channel names, the user that was verified, the user that the rule names which counts.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from broker.core.security import addresses, channel_rules, distinguished_names
from broker.core.security.ciphers import agrees
from broker.core.security.facts import AuthInfo, Check, RuleType, UserSource
from broker.core.security.partner import Proof
from broker.mqi.access import AccessStep
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.core.security.authority import Authority
    from broker.core.security.facts import Channel, Rule
    from broker.core.security.partner import Partner, Posture


class Lacking(Enum):
    """The step at which a partner was refused; its value is the reason code that it is told."""

    ADDRESS = "blocked address", MQRC.NOT_AUTHORIZED
    CHANNEL_UNKNOWN = "unknown channel", MQRC.UNKNOWN_CHANNEL_NAME
    CHANNEL_TYPE = "channel type", MQRC.CHANNEL_CONFIG_ERROR
    CHANNEL_AVAILABLE = "channel not available", MQRC.CHANNEL_NOT_AVAILABLE
    TRANSPORT = "transport", MQRC.SSL_INITIALIZATION_ERROR
    CERTIFICATE = "certificate", MQRC.SSL_PEER_NAME_ERROR
    ACCESS = "no access", MQRC.NOT_AUTHORIZED
    CHECKER = "nobody checks", MQRC.NOT_AUTHORIZED
    CREDENTIAL = "wrong credential", MQRC.NOT_AUTHORIZED
    PROOF = "no proof", MQRC.NOT_AUTHORIZED
    USER = "no user", MQRC.NOT_AUTHORIZED
    STATUS = "disabled user", MQRC.NOT_AUTHORIZED
    BLOCKED = "blocked user", MQRC.NOT_AUTHORIZED

    @property
    def reason(self) -> MQRC:
        """The reason code of the refusal."""
        return self.value[1]


class Admission(NamedTuple):
    """The answer of `admit`.

    `lacking` says why the partner was refused; None: it was not. `verify`: its password or token has to be verified
    first, and `admit` be asked again. `user` is the user of the conversation, or the one that was refused.
    `administrator`: it has every right, whatever users and records there are. `rule` is the rule that counted or
    blocked, `warned` those that would have refused it, did they not only warn (event 2578).
    """

    user: str
    steps: tuple[AccessStep, ...]
    lacking: Lacking | None = None
    verify: bool = False
    administrator: bool = False
    rule: Rule | None = None
    warned: tuple[Rule, ...] = ()

    @property
    def admitted(self) -> bool:
        """True if the partner is in."""
        return self.lacking is None and not self.verify


def admit(authority: Authority, partner: Partner, posture: Posture) -> Admission:
    """Return the user of a conversation, or the step at which its partner is refused."""
    return _Admitting(authority, partner, posture).run()


def is_trusted(partner: Partner, posture: Posture) -> bool:
    """True if a partner is believed all it says: it is on this machine, and the queue manager trusts that."""
    return posture.trusts and (partner.local or (addresses.is_loopback(partner.address) and not partner.protocol))


class _Admitting:
    """One partner on its way. Each method is a step: it returns the refusal, or None to go on."""

    def __init__(self, authority: Authority, partner: Partner, posture: Posture) -> None:
        self.authority = authority
        self.partner = partner
        self.posture = posture
        self.verified = partner.verified
        self.user = ""
        self.channel: Channel | None = None
        self.fitting: list[Rule] = []
        self.rule: Rule | None = None
        self.steps: list[AccessStep] = []
        self.warned: list[Rule] = []
        named = posture.conn_auth.strip()
        self.checker: AuthInfo = authority.auth_infos.get(named) or _no_checker(named)

    def run(self) -> Admission:
        if self.partner.local:
            return (
                self._trusted()
                or self._verifying(local=True)
                or self._local_user()
                or self._no_user()
                or self._status()
                or self._in()
            )
        return (
            self._address()
            or self._trusted()
            or self._channel()
            or self._transport()
            or self._closed()
            or self._verifying(local=False)
            or self._rule()
            or self._proof()
            or self._no_user()
            or self._status()
            or self._blocked()
            or self._in()
        )

    # On all lines

    def _trusted(self) -> Admission | None:
        """A line of its own machine is believed all it says, while the queue manager has no users (security 1.3)."""
        partner = self.partner
        if not is_trusted(partner, self.posture):
            return None
        self.user = partner.asserted or partner.peer
        self.steps.append(AccessStep("[security] loopback", self._line(), f"trusted: user {self.user or 'none'}"))
        return self._end(administrator=True)

    def _verifying(self, *, local: bool) -> Admission | None:
        """Passwords are verified where they count; where nobody can do so they are refused. Tokens always are."""
        proof = self.partner.proof
        asked = f"{self.partner.user} with {proof.value}"
        if proof == Proof.FAILED:
            return self._refuse(Lacking.CREDENTIAL, "USER", asked, "refused")
        if proof == Proof.TOKEN_GIVEN or (proof == Proof.PASSWORD_GIVEN and self._counts(local=local)):
            if proof == Proof.PASSWORD_GIVEN and not self._can_check():
                return self._refuse(Lacking.CHECKER, self._conn_auth(), asked, self._unusable())
            self.steps.append(AccessStep(self._conn_auth(), asked, "to be verified"))
            return self._end(verify=True)
        if proof != Proof.NONE:
            verdict = "is that user" if self.verified else "not looked at: no password is asked for"
            self.steps.append(AccessStep(self._conn_auth(), asked, verdict))
        return None

    def _status(self) -> Admission | None:
        for name in filter(None, {self.verified: 0, self.user: 0}):
            known = self.authority.users.get(name)
            if known is not None and not known.enabled:
                return self._refuse(Lacking.STATUS, f"USER({name})", "STATUS(DISABLED)", "refused", user=name)
        return None

    # By the Unix socket: no rules of channels, CHCKLOCL

    def _local_user(self) -> Admission | None:
        partner, checker = self.partner, self.checker
        peer = self.authority.user_of(partner.peer)
        self.user = peer or (partner.peer if partner.owner else "")
        self.steps.append(AccessStep("peer credentials", self._line(), f"user {self.user or 'none'}"))
        self._adopt()
        owner = partner.owner and not (self.verified and checker.adopts)
        administrator = owner or self.authority.is_administrator(self.user)
        if _asks(checker.check_local, administrator=administrator) and not self.verified:
            word = channel_rules.CHECK_WORDS[checker.check_local]
            refused = "refused: a password is required" if self._can_check() else self._unusable()
            return self._refuse(Lacking.PROOF, f"{self._conn_auth()} CHCKLOCL({word})", partner.proof.value, refused)
        if owner:
            self.steps.append(AccessStep("peer credentials", f"{self.user} owns the queue manager", "administrator"))
            return self._end(administrator=True)
        return None

    # By a channel

    def _address(self) -> Admission | None:
        partner = self.partner
        found = channel_rules.address_block(self.authority.rules, partner.address)
        if found is None or not self.posture.rules:
            return None
        return self._by_rule(found[0], Lacking.ADDRESS, f"address {partner.address} fits {found[1]}")

    def _channel(self) -> Admission | None:
        name = self.partner.channel
        channel = self.channel = self.authority.channels.get(name)
        about = f"CHANNEL({name})"
        if channel is None:
            return self._refuse(Lacking.CHANNEL_UNKNOWN, about, f"channel {name}", "refused: there is none")
        if not channel.serves_clients:
            return self._refuse(Lacking.CHANNEL_TYPE, about, "a client", "refused: its type is not SVRCONN")
        if self.partner.unavailable:
            unavailable = f"refused: {self.partner.unavailable}"
            return self._refuse(Lacking.CHANNEL_AVAILABLE, about, f"channel {name}", unavailable)
        if channel.user:
            self._becomes(channel.user, f"{about} MCAUSER({channel.user})", f"channel {name}")
        if self.posture.rules:
            self.fitting = [each for each in self.authority.rules_for(name) if channel_rules.fits(each, self.partner)]
        return None

    def _transport(self) -> Admission | None:
        channel, partner = self._svrconn(), self.partner
        line = f"{partner.protocol} {partner.suite}".strip() or "a plain line"
        about = f"CHANNEL({channel.name})"
        if not agrees(channel.cipher, partner.protocol, partner.suite):
            return self._refuse(Lacking.TRANSPORT, f"{about} SSLCIPH({channel.cipher})", line, "refused")
        if channel.cipher.strip() and channel.needs_certificate and not partner.subject:
            return self._refuse(Lacking.TRANSPORT, f"{about} SSLCAUTH(REQUIRED)", "no certificate", "refused")
        if channel.peer and not (partner.subject and distinguished_names.matches(channel.peer, partner.subject)):
            return self._refuse(Lacking.CERTIFICATE, f"{about} SSLPEER({channel.peer})", self._subject(), "refused")
        return None

    def _closed(self) -> Admission | None:
        """Nothing is verified where no user could come in."""
        if channel_rules.is_closed(self.fitting):
            self.rule = channel_rules.counting(self.fitting, "")
            return self._no_access()
        return None

    def _rule(self) -> Admission | None:
        rule = self.rule = channel_rules.counting(self.fitting, self.verified)
        if rule is None:
            if self.posture.rules:
                self.steps.append(AccessStep("CHLAUTH", self._line(), "no rule fits"))
        elif rule.source == UserSource.NOACCESS:
            refusal = self._no_access()
            if refusal is not None:
                return refusal
        self._adopt()
        if rule is not None and rule.source == UserSource.MAP:
            self._becomes(rule.user, channel_rules.text_of(rule), self._line())
        elif rule is not None and rule.source == UserSource.CHANNEL:
            self.steps.append(AccessStep(channel_rules.text_of(rule), self._line(), "let in as it is"))
        return None

    def _no_access(self) -> Admission | None:
        assert self.rule is not None
        return self._by_rule(self.rule, Lacking.ACCESS, self._line())

    def _adopt(self) -> None:
        if self.verified and self.checker.adopts:
            self._becomes(self.verified, f"{self._conn_auth()} ADOPTCTX(YES)", f"verified user {self.verified}")

    def _proof(self) -> Admission | None:
        own = Check.AS_Q_MGR if self.rule is None else self.rule.check_clients
        check = self.checker.check_clients if own == Check.AS_Q_MGR else own
        if not _asks(check, administrator=self.authority.is_administrator(self.user)) or self.verified:
            return None
        if own == Check.AS_Q_MGR and self._is_mapped_by_certificate():
            return None
        word = f"CHCKCLNT({channel_rules.CHECK_WORDS[check]})"
        if own == Check.AS_Q_MGR or self.rule is None:
            asked = f"{self._conn_auth()} {word}"
        else:
            asked = channel_rules.text_of(self.rule)
        refused = "refused: a password or token is required" if self._can_check() else self._unusable()
        return self._refuse(Lacking.PROOF, asked, f"{self._line()}, {self.partner.proof.value}", refused)

    def _no_user(self) -> Admission | None:
        if self.user:
            return None
        return self._refuse(
            Lacking.USER, "user", self._line(), "refused: no password, certificate or rule names a user"
        )

    def _blocked(self) -> Admission | None:
        if not self.posture.rules:
            return None
        rule = channel_rules.user_block(self.authority.rules_for(self.partner.channel))
        administrator = self.authority.is_administrator(self.user)
        if rule is None or not channel_rules.blocks(rule, self.user, administrator=administrator):
            return None
        return self._by_rule(rule, Lacking.BLOCKED, f"user {self.user}{', an administrator' if administrator else ''}")

    # What the steps share

    def _counts(self, *, local: bool) -> bool:
        """True if a password that a client gives is looked at: somebody may ask for it."""
        checks = [self.checker.check_local] if local else [self.checker.check_clients]
        checks += [each.check_clients for each in self.fitting if each.check_clients != Check.AS_Q_MGR]
        return any(each != Check.NONE for each in checks)

    def _can_check(self) -> bool:
        return self.checker.own_users and bool(self.checker.name)

    def _conn_auth(self) -> str:
        return f"CONNAUTH({self.checker.name})" if self.checker.name else "CONNAUTH(' ')"

    def _unusable(self) -> str:
        if not self.checker.name:
            return "refused: CONNAUTH is blank, so nobody checks passwords"
        if self.checker.name not in self.authority.auth_infos:
            return "refused: CONNAUTH names no AUTHINFO that exists, so nobody checks passwords"
        return "refused: it is not of AUTHTYPE(IDPWOS), so nobody checks passwords"

    def _is_mapped_by_certificate(self) -> bool:
        rule = self.rule
        return rule is not None and rule.type == RuleType.SSLPEERMAP and rule.source == UserSource.MAP

    def _svrconn(self) -> Channel:
        assert self.channel is not None
        return self.channel

    def _subject(self) -> str:
        written = ",".join(f"{kind}={value}" for kind, value in self.partner.subject)
        return f"certificate of {written}" if written else "no certificate"

    def _line(self) -> str:
        partner = self.partner
        if partner.local:
            return f"socket, process of {partner.peer or 'no user'}"
        parts = [f"channel {partner.channel}", f"address {partner.address}"]
        parts += [self._subject()] if partner.subject else []
        parts += [f"user {self.verified}"] if self.verified else []
        return ", ".join(parts)

    def _becomes(self, user: str, rule: str, compared: str) -> None:
        self.user = user
        self.steps.append(AccessStep(rule, compared, f"user {user or 'none'}"))

    def _by_rule(self, rule: Rule, lacking: Lacking, compared: str) -> Admission | None:
        """Refuse by a rule, or only warn if it says so."""
        if rule.warns:
            self.warned.append(rule)
            self.steps.append(AccessStep(channel_rules.text_of(rule), compared, "let in, with a warning"))
            return None
        self.rule = rule
        return self._refuse(lacking, channel_rules.text_of(rule), compared, "refused")

    def _refuse(self, lacking: Lacking, rule: str, compared: str, verdict: str, *, user: str = "") -> Admission:
        self.steps.append(AccessStep(rule, compared, verdict))
        return self._end(lacking, user=user or self.user or self.verified)

    def _in(self) -> Admission:
        return self._end()

    def _end(
        self,
        lacking: Lacking | None = None,
        *,
        user: str = "",
        verify: bool = False,
        administrator: bool = False,
    ) -> Admission:
        return Admission(
            user or self.user,
            tuple(self.steps),
            lacking,
            verify,
            administrator or self.authority.is_administrator(user or self.user),
            self.rule,
            tuple(self.warned),
        )


def _no_checker(named: str) -> AuthInfo:
    """Authentication information that is not there. A blank CONNAUTH asks for nothing; a name of nothing asks clients
    for what nobody can check.
    """
    if not named:
        return AuthInfo("", check_clients=Check.NONE, check_local=Check.NONE)
    return AuthInfo(named, own_users=False)


def _asks(check: Check, *, administrator: bool) -> bool:
    """True if a check wants the user to be verified."""
    return check == Check.REQUIRED or (check == Check.REQUIRED_ADMIN and administrator)
