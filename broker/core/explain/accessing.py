"""Explain what a user may open, and whether it may connect (security 9.1).

The judgement is that of the calls themselves: an open is judged by `broker.core.names.judging` for a user who is
refused nothing, and who notes what was asked; what was asked is then explained record by record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.names import judging, opening
from broker.core.security import access
from broker.core.security.caller import Caller
from broker.core.security.facts import SELF, rule_key
from broker.core.security.partner import DEFAULT_CHANNEL, Partner, Proof
from broker.core.security.rights import Q_MGR, TYPE_WORDS, Q, Right
from broker.mqi.access import Access, AccessStep
from broker.mqi.constants.objects import MQOT
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.structures import ObjectDescriptor

if TYPE_CHECKING:
    from broker.core.names.definitions import Definition
    from broker.core.names.objects import Objects
    from broker.core.security.authority import Authority
    from broker.core.security.distinguished_names import Name
    from broker.core.security.facts import Channel
    from broker.core.security.partner import Posture

_SPACES: Final = {Q_MGR: "QMGR", MQOT.PROCESS.value: "PROCESS"}
_TLS: Final = ("TLSv1.3", "TLS_AES_256_GCM_SHA384")
"""The line that a client makes where the channel does not ask for another."""

_TLS12: Final = ("TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384")


class _Noting(Caller):
    """A user who notes what is asked of it, and is refused nothing: rights on objects, by their types and names."""

    __slots__ = ("asked",)

    def __init__(self, authority: Authority, user: str) -> None:
        super().__init__(authority, user)
        self.asked: dict[tuple[int, str], Right] = {}

    def require(self, wanted: Right, name: str, object_type: int = Q, step: str = "") -> None:
        self.asked[object_type, name] = self.asked.get((object_type, name), Right.NONE) | wanted

    def require_manager(self, wanted: Right, step: str = "") -> None:
        self.require(wanted, SELF, Q_MGR)


class AskedObject(NamedTuple):
    """The object that somebody would open or administer: its names in the MQOD, and its type (MQOT)."""

    name: str
    q_mgr_name: str = ""
    object_type: int = Q


def explain_open(objects: Objects, user: str, asked: AskedObject, wanted: Right) -> Access:
    """Explain whether a user may open an object for these rights, or do to it what needs them. Raises what the open
    would for a user who has the rights, such as UNKNOWN_OBJECT_NAME (2085); OBJECT_TYPE_ERROR (2043) for a type that
    nobody has rights on.
    """
    if asked.object_type not in TYPE_WORDS:
        raise MQError(MQRC.OBJECT_TYPE_ERROR, f"object_type={asked.object_type}: nobody has rights on such objects")
    noting = _Noting(objects.authority, user)
    options, others = judging.options_for(wanted)
    failed = _open(objects, noting, asked, options) if options else None
    if others:
        noting.require(others, SELF if asked.object_type == Q_MGR else asked.name, asked.object_type)
    on_q_mgr = noting.asked.pop((Q_MGR, SELF), Right.NONE)
    (object_type, name), rights = next(iter(noting.asked.items()), ((Q_MGR, SELF), Right.NONE))
    found = access.explain_open(objects.authority, user, object_type, name, rights, on_q_mgr)
    if found.allowed and failed is not None:
        raise failed
    led = () if name in (asked.name, SELF) else (_led(asked, object_type, name),)
    made = () if found.steps else (AccessStep(f"QUEUE {asked.name}", f"user {user}", "allowed: it has made the queue"),)
    return found._replace(steps=led + found.steps + made)


def _open(objects: Objects, noting: _Noting, asked: AskedObject, options: int) -> MQError | None:
    """Note what an open asks; the error of one that fails for whoever may open it."""
    name, q_mgr_name, object_type = asked
    try:
        od = ObjectDescriptor(object_name=name, object_q_mgr_name=q_mgr_name, object_type=object_type)
        if objects.opens_model(od):
            judging.judge_model(noting, name, judging.AUTOMATIC_PREFIX, options, "")
        elif object_type == Q:
            judging.route(objects, noting, (name, q_mgr_name), options, "")
        elif object_type in _SPACES:
            opening.check_other(objects, noting, _SPACES[object_type], name, options, "")
        else:
            raise MQError(MQRC.OBJECT_TYPE_ERROR, f"nothing opens a {TYPE_WORDS[object_type]}")
    except MQError as error:
        if not noting.asked:
            raise
        return error
    return None


def _led(asked: AskedObject, object_type: int, name: str) -> AccessStep:
    where = f"{asked.name} at {asked.q_mgr_name}" if asked.q_mgr_name else asked.name
    return AccessStep("name", where, f"judged is {TYPE_WORDS[object_type]} {name}")


class AskedLine(NamedTuple):
    """A line by which a user would come: from an address, by a channel, with the certificate of a subject, `plain` or
    with TLS.
    """

    user: str
    address: str
    channel: str = ""
    subject: Name = ()
    issuer: Name = ()
    plain: bool = False


def explain_connect(objects: Objects, posture: Posture, line: AskedLine, *, tokens: bool = False) -> Access:
    """Explain whether a user may connect by a line. It is taken to know its password, or to have a token where the
    queue manager takes `tokens` and the user has no password.
    """
    return access.explain_connect(objects.authority, posture, _partner(objects, line, tokens=tokens))


def rule_for(objects: Objects, posture: Posture, line: AskedLine) -> Definition | None:
    """Return the record of channels that counts for a line, or blocks it (RUNCHECK); None without one."""
    rule = access.counting_rule(objects.authority, posture, _partner(objects, line))
    return None if rule is None else objects.definitions.get(("CHLAUTH", rule_key(rule)))


def _partner(objects: Objects, line: AskedLine, *, tokens: bool = False) -> Partner:
    channel = line.channel or DEFAULT_CHANNEL
    known = objects.authority.users.get(line.user)
    by_token = tokens and not (known is not None and known.password)
    proof = Proof.NONE if not line.user else Proof.TOKEN_GIVEN if by_token else Proof.PASSWORD_GIVEN
    protocol, suite = ("", "") if line.plain else _agreed(objects.authority.channels.get(channel))
    stopped = "it is stopped" if channel in objects.stopped_channels else ""
    return Partner(
        channel, line.address, line.user, proof, line.user, line.subject, line.issuer, protocol, suite,
        unavailable=stopped,
    )  # fmt: skip


def _agreed(channel: Channel | None) -> tuple[str, str]:
    """The protocol and suite of a client that has been set up for the channel."""
    wanted = "" if channel is None else channel.cipher.strip().upper()
    if not wanted or wanted.startswith("ANY"):
        return _TLS12 if wanted == "ANY_TLS12" else _TLS
    return "TLSv1.2" if "WITH" in wanted or "-" in wanted else "TLSv1.3", wanted
