"""Rules of channels: which one counts, and whom a channel blocks."""

from __future__ import annotations

from itertools import permutations, product
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from broker.core.security.admission import Lacking, admit
from broker.core.security.channel_rules import address_block
from broker.core.security.facts import Check, UserSource
from broker.core.security.partner import Partner, Posture, Proof
from tests.core.security.definitions import Definitions

if TYPE_CHECKING:
    from collections.abc import Callable

CHANNEL = "APP.SVRCONN"
PARTNER = Partner(
    CHANNEL, "192.0.2.7", "bob", Proof.PASSWORD, subject=(("OU", "Sales"), ("CN", "app1")), issuer=(("CN", "CA"),)
)
PROFILES = (CHANNEL, "APP.*", "*")
TYPES = ("SSLPEERMAP", "USERMAP", "ADDRESSMAP")
PATTERNS: dict[str, list[dict[str, str]]] = {
    "SSLPEERMAP": [{"SSLPEER": "CN=app1"}, {"SSLPEER": "CN=app*"}, {"SSLPEER": "OU=Sales", "SSLCERTI": "CN=CA"}],
    "USERMAP": [{"ADDRESS": each, "CLNTUSER": "bob"} for each in ("192.0.2.7", "192.0.2.*", "*")],
    "ADDRESSMAP": [{"ADDRESS": each} for each in ("192.0.2.7", "192.0.2.1-9", "*")],
}
"""Of each type, the more specific first. All fit the partner."""


class Candidate(NamedTuple):
    """A rule by its places: which profile, type and pattern it has, 0 being what counts before the others."""

    profile: int
    type: int
    pattern: int

    @property
    def attributes(self) -> dict[str, str]:
        return PATTERNS[TYPES[self.type]][self.pattern]


def brute_force(first: Candidate, second: Candidate) -> Candidate:
    """The one that counts, the first being the older: criterion by criterion, as 4.5 lists them."""
    criteria: list[Callable[[Candidate], int]] = [
        lambda rule: rule.profile != 0,  # a channel name without wildcards
        lambda rule: rule.type,
        lambda rule: rule.profile,
        lambda rule: rule.pattern,
    ]
    for criterion in criteria:
        if criterion(first) != criterion(second):
            return min(first, second, key=criterion)
    return first


CANDIDATES = [Candidate(*places) for places in product(range(3), repeat=3)]


@pytest.mark.parametrize(
    "first", CANDIDATES, ids=lambda each: f"{PROFILES[each.profile]}-{TYPES[each.type]}-{each.pattern}"
)
def test_x4_1_of_two_rules_the_one_counts_that_a_brute_force_judge_chooses(first: Candidate) -> None:
    for second in CANDIDATES:
        if first == second:
            continue
        made = Definitions()
        made.auth_info()
        made.channel(CHANNEL)
        for user, each in (("first", first), ("second", second)):
            made.rule(PROFILES[each.profile], TYPES[each.type], MCAUSER=user, **each.attributes)
        wanted = "first" if brute_force(first, second) == first else "second"
        assert admit(made.authority, PARTNER, Posture()).user == wanted, second


def test_x4_1_of_two_that_are_equally_specific_the_older_counts() -> None:
    for older, younger in permutations(({"SSLPEER": "CN=app*"}, {"SSLPEER": "CN=APP*"})):
        made = Definitions()
        made.auth_info()
        made.channel(CHANNEL)
        names = [
            made.rule(CHANNEL, "SSLPEERMAP", MCAUSER=user, **about)
            for user, about in (("older", older), ("younger", younger))
        ]
        assert admit(made.authority, PARTNER, Posture()).user == "older"
        for name in reversed(names):  # a restart reads them in any order
            made.delete("CHLAUTH", name)
        for name, user, about, order in zip(names[::-1], ("younger", "older"), (younger, older), (2, 1), strict=True):
            made.define("CHLAUTH", name, CHLAUTH=CHANNEL, TYPE=3, MCAUSER=user, ORDER=order, **about)
        assert admit(made.authority, PARTNER, Posture()).user == "older"


@pytest.mark.parametrize(
    ("type", "attributes"),
    [
        ("ADDRESSMAP", {"ADDRESS": "192.0.2.8"}),
        ("ADDRESSMAP", {"ADDRESS": "client.example.com"}),
        ("USERMAP", {"CLNTUSER": "BOB"}),
        ("USERMAP", {"CLNTUSER": "bob", "ADDRESS": "192.0.3.*"}),
        ("SSLPEERMAP", {"SSLPEER": "CN=app2"}),
        ("SSLPEERMAP", {"SSLPEER": "CN=app1", "SSLCERTI": "CN=Other"}),
        ("SSLPEERMAP", {"SSLPEER": "CN=app1", "ADDRESS": "192.0.3.*"}),
        ("QMGRMAP", {"QMNAME": "QM1"}),
        ("ADDRESSMAP", {"ADDRESS": "*", "CHLAUTH": "APP.SVRCON?"}),
    ],
)
def test_a_rule_that_does_not_fit_does_not_count(type: str, attributes: dict[str, Any]) -> None:
    made = Definitions()
    made.auth_info()
    made.channel(CHANNEL)
    made.rule(attributes.pop("CHLAUTH", CHANNEL), type, USERSRC=UserSource.NOACCESS.value, **attributes)
    assert admit(made.authority, PARTNER, Posture()).admitted


def _default_world() -> Definitions:
    made = Definitions()
    made.defaults()
    made.channel(CHANNEL)
    made.user("bob")
    made.user("root", "mqm")
    return made


@pytest.mark.parametrize(
    ("channel", "user", "lacking"),
    [
        (CHANNEL, "bob", None),
        (CHANNEL, "root", Lacking.BLOCKED),
        (CHANNEL, "mqm", Lacking.BLOCKED),
        ("SYSTEM.DEF.SVRCONN", "bob", Lacking.ACCESS),
        ("SYSTEM.DEF.SVRCONN", "root", Lacking.ACCESS),
        ("SYSTEM.ADMIN.SVRCONN", "bob", None),
        ("SYSTEM.ADMIN.SVRCONN", "root", Lacking.BLOCKED),
        ("EVERMQ.SVRCONN", "bob", None),
        ("EVERMQ.SVRCONN", "root", None),
        ("EVERMQ.SVRCONN", "nobody", Lacking.BLOCKED),
    ],
)
def test_x4_2_the_default_rules(channel: str, user: str, lacking: Lacking | None) -> None:
    partner = Partner(channel, "192.0.2.7", user, Proof.PASSWORD)
    assert admit(_default_world().authority, partner, Posture()).lacking == lacking


def test_x4_2_a_list_with_nobody_lets_administrators_in_on_one_channel() -> None:
    made = _default_world()
    made.channel("OTHER.SVRCONN")
    made.rule(CHANNEL, "BLOCKUSER", USERLIST="nobody")
    at = {name: admit(made.authority, Partner(name, "192.0.2.7", "root", Proof.PASSWORD), Posture()) for name in
          (CHANNEL, "OTHER.SVRCONN")}  # fmt: skip
    assert (at[CHANNEL].admitted, at["OTHER.SVRCONN"].lacking) == (True, Lacking.BLOCKED)


def test_of_lists_of_blocked_users_the_most_specific_alone_counts() -> None:
    made = _default_world()
    made.rule("APP.*", "BLOCKUSER", USERLIST="alice,bob")
    partner = Partner(CHANNEL, "192.0.2.7", "root", Proof.PASSWORD)
    assert admit(made.authority, partner, Posture()).admitted
    blocked = admit(made.authority, partner._replace(user="bob"), Posture())
    assert (blocked.lacking, blocked.rule and blocked.rule.profile) == (Lacking.BLOCKED, "APP.*")


def test_the_user_that_came_out_is_the_one_that_may_be_blocked() -> None:
    made = _default_world()
    made.rule(CHANNEL, "USERMAP", CLNTUSER="bob", MCAUSER="root")
    made.rule(CHANNEL, "BLOCKUSER", USERLIST="root")
    refused = admit(made.authority, Partner(CHANNEL, "192.0.2.7", "bob", Proof.PASSWORD), Posture())
    assert (refused.user, refused.lacking) == ("root", Lacking.BLOCKED)


def test_addresses_are_blocked_before_all_else() -> None:
    made = _default_world()
    made.rule("*", "BLOCKADDR", ADDRLIST="192.0.2.1-8,10.*")
    partner = Partner("NO.SUCH.CHANNEL", "192.0.2.7", "bob", Proof.PASSWORD_GIVEN)
    assert admit(made.authority, partner, Posture()).lacking == Lacking.ADDRESS
    assert admit(made.authority, partner, Posture(rules=False)).lacking == Lacking.CHANNEL_UNKNOWN
    found = address_block(made.authority.rules, "::ffff:10.1.2.3")
    assert found is not None
    assert found[1] == "10.*"
    assert address_block(made.authority.rules, "192.0.2.9") is None


@pytest.mark.parametrize(
    ("profile", "type", "attributes"),
    [
        ("*", "BLOCKADDR", {"ADDRLIST": "192.0.2.7"}),
        (CHANNEL, "BLOCKUSER", {"USERLIST": "bob"}),
        (CHANNEL, "ADDRESSMAP", {"ADDRESS": "*", "USERSRC": UserSource.NOACCESS.value}),
    ],
)
def test_a_rule_that_warns_lets_in_and_is_named(profile: str, type: str, attributes: dict[str, Any]) -> None:
    made = _default_world()
    name = made.rule(profile, type, **attributes, WARN=1)
    let_in = admit(made.authority, Partner(CHANNEL, "192.0.2.7", "bob", Proof.PASSWORD), Posture())
    assert (let_in.admitted, let_in.user, let_in.warned) == (True, "bob", (made.authority.rules[name],))
    made.rule(profile, type, **attributes, WARN=0)
    refused = admit(made.authority, Partner(CHANNEL, "192.0.2.7", "bob", Proof.PASSWORD), Posture())
    assert (refused.admitted, refused.warned) == (False, ())


def test_rules_are_in_order_again_when_one_has_changed() -> None:
    made = _default_world()
    name = made.rule(CHANNEL, "ADDRESSMAP", ADDRESS="*", USERSRC=UserSource.NOACCESS.value)
    partner = Partner(CHANNEL, "192.0.2.7", "bob", Proof.PASSWORD)
    assert admit(made.authority, partner, Posture()).lacking == Lacking.ACCESS
    made.rule(
        CHANNEL, "ADDRESSMAP", ADDRESS="192.0.2.7", USERSRC=UserSource.CHANNEL.value, CHCKCLNT=Check.REQUIRED.value
    )
    assert admit(made.authority, partner, Posture()).admitted
    made.rule(CHANNEL, "ADDRESSMAP", ADDRESS="192.0.2.7", USERSRC=UserSource.NOACCESS.value)
    assert not admit(made.authority, partner, Posture()).admitted
    made.delete("CHLAUTH", name)
    made.delete("CHLAUTH", f"{CHANNEL} ADDRESSMAP 192.0.2.7")
    assert admit(made.authority, partner, Posture()).admitted
