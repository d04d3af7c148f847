"""The user of a conversation: from a line, its proof and the channel's rules to a user or a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.security.admission import Admission, Lacking, admit
from broker.core.security.ciphers import agrees
from broker.core.security.facts import Check, UserSource
from broker.core.security.partner import Partner, Posture, Proof
from broker.mqi.reasons import MQRC
from tests.core.security.definitions import AUTH_INFO, Definitions

CHANNEL = "APP.SVRCONN"
SUBJECT = (("OU", "Sales"), ("CN", "app1"))
PASSWORD = Partner(CHANNEL, "192.0.2.7", "bob", Proof.PASSWORD)
CERTIFICATE = Partner(CHANNEL, "192.0.2.7", subject=SUBJECT, protocol="TLSv1.3", suite="TLS_AES_256_GCM_SHA384")
NOACCESS, FROM_CHANNEL = UserSource.NOACCESS.value, UserSource.CHANNEL.value


def world(check: Check = Check.REQUIRED, adopts: int = 1, local: Check = Check.OPTIONAL, **channel: Any) -> Definitions:
    made = Definitions()
    made.auth_info(CHCKCLNT=check.value, CHCKLOCL=local.value, ADOPTCTX=adopts)
    made.channel(CHANNEL, **channel)
    made.user("bob")
    made.user("root", "mqm")
    return made


def asked(made: Definitions, partner: Partner, **posture: Any) -> Admission:
    return admit(made.authority, partner, Posture(**posture))


def outcome(admission: Admission) -> str | Lacking | None:
    """The user that is in, or why it is not; None where something is to be verified first."""
    return None if admission.verify else admission.lacking or admission.user


def test_the_user_that_is_named_later_wins() -> None:
    made = world(MCAUSER="app")
    assert asked(made, PASSWORD).user == "bob"
    made.rule(CHANNEL, "ADDRESSMAP", ADDRESS="*", USERSRC=FROM_CHANNEL)
    assert asked(made, PASSWORD).user == "bob"
    made.rule(CHANNEL, "ADDRESSMAP", ADDRESS="*", MCAUSER="mapped")
    assert asked(made, PASSWORD).user == "mapped"
    assert asked(made, PASSWORD, rules=False).user == "bob"
    made = world(adopts=0, MCAUSER="app")
    assert asked(made, PASSWORD).user == "app"
    made.rule(CHANNEL, "USERMAP", CLNTUSER="bob", MCAUSER="mapped")
    assert asked(made, PASSWORD).user == "mapped"


def test_without_any_name_there_is_no_user() -> None:
    refused = asked(world(Check.OPTIONAL), Partner(CHANNEL, "192.0.2.7", asserted="root"))
    assert (refused.lacking, refused.user) == (Lacking.USER, "")
    assert asked(world(adopts=0), PASSWORD).lacking == Lacking.USER


@pytest.mark.parametrize(
    ("channel", "change", "lacking", "reason"),
    [
        ("NO.SUCH", {}, Lacking.CHANNEL_UNKNOWN, MQRC.UNKNOWN_CHANNEL_NAME),
        (CHANNEL, {"CHLTYPE": 1}, Lacking.CHANNEL_TYPE, MQRC.CHANNEL_CONFIG_ERROR),
        (CHANNEL, {"SSLCIPH": "ANY_TLS12_OR_HIGHER"}, Lacking.TRANSPORT, MQRC.SSL_INITIALIZATION_ERROR),
        (CHANNEL, {"SSLPEER": "CN=app1"}, Lacking.CERTIFICATE, MQRC.SSL_PEER_NAME_ERROR),
    ],
)
def test_a_channel_refuses_with_the_reason_of_its_own(
    channel: str, change: dict[str, Any], lacking: Lacking, reason: MQRC
) -> None:
    refused = asked(world(**change), PASSWORD._replace(channel=channel))
    assert (refused.lacking, lacking.reason) == (lacking, reason)


def test_a_channel_that_takes_no_more_says_why() -> None:
    refused = asked(world(), PASSWORD._replace(unavailable="MAXINST(2) is reached"))
    assert refused.lacking is Lacking.CHANNEL_AVAILABLE
    assert refused.lacking.reason == MQRC.CHANNEL_NOT_AVAILABLE
    assert "MAXINST(2) is reached" in str(refused.steps[-1])


def test_a_channel_of_tls_wants_a_certificate_unless_it_says_otherwise() -> None:
    bare = CERTIFICATE._replace(subject=(), user="bob", proof=Proof.PASSWORD)
    assert asked(world(SSLCIPH="ANY_TLS13"), bare).lacking == Lacking.TRANSPORT
    assert asked(world(SSLCIPH="ANY_TLS13", SSLCAUTH=1), bare).user == "bob"
    assert asked(world(), bare).user == "bob"
    assert asked(world(SSLPEER="CN=app2"), CERTIFICATE).lacking == Lacking.CERTIFICATE
    assert asked(world(SSLPEER="CN=app*"), CERTIFICATE).lacking == Lacking.PROOF


@pytest.mark.parametrize(
    ("wanted", "protocol", "suite", "agreed"),
    [
        ("", "", "", True),
        (" ", "TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384", True),
        ("ANY_TLS12", "TLSv1.3", "TLS_AES_256_GCM_SHA384", False),
        ("ANY_TLS12_OR_HIGHER", "TLSv1.3", "TLS_AES_256_GCM_SHA384", True),
        ("ANY_TLS13_OR_HIGHER", "TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384", False),
        ("ANY", "", "", False),
        ("ECDHE_RSA_AES_256_GCM_SHA384", "TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384", True),
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384", True),
        ("ECDHE_RSA_AES_128_GCM_SHA256", "TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384", False),
        ("TLS_AES_256_GCM_SHA384", "TLSv1.3", "TLS_AES_256_GCM_SHA384", True),
        ("TLS_AES_256_GCM_SHA384", "", "", False),
    ],
)
def test_what_was_agreed_has_to_be_what_sslciph_asks_for(wanted: str, protocol: str, suite: str, agreed: bool) -> None:
    assert agrees(wanted, protocol, suite) is agreed


@pytest.mark.parametrize(
    ("check", "of_rule", "partner", "expected"),
    [
        (Check.REQUIRED, None, Partner(CHANNEL, "192.0.2.7"), Lacking.PROOF),
        (Check.REQUIRED, None, PASSWORD, "bob"),
        (Check.REQUIRED, None, PASSWORD._replace(proof=Proof.TOKEN), "bob"),
        (Check.OPTIONAL, None, Partner(CHANNEL, "192.0.2.7"), "app"),
        (Check.OPTIONAL, None, PASSWORD, "bob"),
        (Check.NONE, None, PASSWORD._replace(proof=Proof.PASSWORD_GIVEN), "app"),
        (Check.REQUIRED_ADMIN, None, Partner(CHANNEL, "192.0.2.7"), "app"),
        (Check.OPTIONAL, Check.REQUIRED, Partner(CHANNEL, "192.0.2.7"), Lacking.PROOF),
        (Check.OPTIONAL, Check.REQUIRED, PASSWORD, "bob"),
        (Check.NONE, Check.REQUIRED, PASSWORD._replace(proof=Proof.PASSWORD_GIVEN), None),
        (Check.NONE, Check.REQUIRED_ADMIN, Partner(CHANNEL, "192.0.2.7"), "app"),
        (Check.REQUIRED, Check.REQUIRED_ADMIN, Partner(CHANNEL, "192.0.2.7"), "app"),
    ],
)
def test_how_much_has_to_be_proved(
    check: Check, of_rule: Check | None, partner: Partner, expected: str | Lacking | None
) -> None:
    made = world(check, MCAUSER="app")
    if of_rule is not None:
        made.rule(CHANNEL, "ADDRESSMAP", ADDRESS="*", USERSRC=FROM_CHANNEL, CHCKCLNT=of_rule.value)
    assert outcome(asked(made, partner)) == expected


def test_administrators_have_to_prove_it_where_only_they_have_to() -> None:
    made = world(Check.REQUIRED_ADMIN, MCAUSER="root")
    assert asked(made, Partner(CHANNEL, "192.0.2.7")).lacking == Lacking.PROOF
    assert asked(made, PASSWORD._replace(user="root")).administrator


def test_a_certificate_that_a_rule_maps_is_proof_for_the_queue_manager_but_not_for_a_rule_that_asks_for_more() -> None:
    made = world(Check.REQUIRED)
    made.rule(CHANNEL, "SSLPEERMAP", SSLPEER="CN=app1", MCAUSER="bob")
    assert asked(made, CERTIFICATE).user == "bob"
    made.rule(CHANNEL, "SSLPEERMAP", SSLPEER="CN=app1", MCAUSER="bob", CHCKCLNT=Check.REQUIRED.value)
    assert asked(made, CERTIFICATE).lacking == Lacking.PROOF
    assert asked(made, CERTIFICATE._replace(user="carol", proof=Proof.PASSWORD)).user == "bob"
    made.rule(CHANNEL, "SSLPEERMAP", SSLPEER="CN=app1", USERSRC=FROM_CHANNEL)
    assert asked(made, CERTIFICATE).lacking == Lacking.PROOF


GIVEN = PASSWORD._replace(proof=Proof.PASSWORD_GIVEN)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], None),
        ([("ADDRESSMAP", {"ADDRESS": "*", "USERSRC": NOACCESS})], Lacking.ACCESS),
        ([("ADDRESSMAP", {"ADDRESS": "*", "USERSRC": NOACCESS, "WARN": 1})], None),
        (
            [("ADDRESSMAP", {"ADDRESS": "*", "USERSRC": NOACCESS}), ("USERMAP", {"CLNTUSER": "carol", "MCAUSER": "c"})],
            None,
        ),
        (
            [
                ("ADDRESSMAP", {"ADDRESS": "*", "USERSRC": NOACCESS}),
                ("USERMAP", {"CLNTUSER": "carol", "USERSRC": NOACCESS}),
            ],
            Lacking.ACCESS,
        ),
        ([("USERMAP", {"CLNTUSER": "bob", "USERSRC": NOACCESS})], None),
        (
            [
                ("ADDRESSMAP", {"ADDRESS": "*", "USERSRC": NOACCESS}),
                ("USERMAP", {"CLNTUSER": "carol", "MCAUSER": "c", "ADDRESS": "10.*"}),
            ],
            Lacking.ACCESS,
        ),
    ],
)
def test_nothing_is_verified_where_no_user_could_come_in(
    rules: list[tuple[str, dict[str, Any]]], expected: Lacking | None
) -> None:
    """So the time that a refusal takes does not tell which users a rule maps: it is about all of them."""
    made = world()
    for type, attributes in rules:
        made.rule(CHANNEL, type, **attributes)
    assert outcome(asked(made, GIVEN)) == expected
    assert outcome(asked(made, GIVEN._replace(user="nobody.knows"))) == expected


def test_what_is_not_good_is_refused() -> None:
    assert asked(world(), PASSWORD._replace(proof=Proof.FAILED)).lacking == Lacking.CREDENTIAL


def test_a_password_that_nobody_checks_is_refused_where_one_is_asked_for_and_else_not_looked_at() -> None:
    made = world(MCAUSER="app")
    made.auth_info("LDAP", AUTHTYPE=4, CHCKCLNT=Check.OPTIONAL.value)
    for name in ("LDAP", "NO.SUCH"):
        refused = asked(made, GIVEN, conn_auth=name)
        assert refused.lacking == Lacking.CHECKER
        assert name in str(refused.steps[-1])
    assert asked(made, GIVEN, conn_auth=" ").user == "app"
    assert asked(made, Partner(CHANNEL, "192.0.2.7"), conn_auth="NO.SUCH").lacking == Lacking.PROOF
    made.rule(CHANNEL, "ADDRESSMAP", ADDRESS="*", USERSRC=FROM_CHANNEL, CHCKCLNT=Check.REQUIRED.value)
    assert asked(made, GIVEN, conn_auth=" ").lacking == Lacking.CHECKER
    assert asked(made, GIVEN._replace(proof=Proof.TOKEN_GIVEN), conn_auth="LDAP").verify


def test_a_disabled_user_stays_out_whoever_names_it() -> None:
    made = world()
    made.user("bob", enabled=False)
    assert asked(made, PASSWORD).lacking == Lacking.STATUS
    made.rule(CHANNEL, "USERMAP", CLNTUSER="bob", MCAUSER="app")
    assert asked(made, PASSWORD).lacking == Lacking.STATUS
    made.rule(CHANNEL, "USERMAP", CLNTUSER="carol", MCAUSER="bob")
    assert asked(made, PASSWORD._replace(user="carol")).lacking == Lacking.STATUS


def test_lines_of_the_machine_are_trusted_only_while_they_are() -> None:
    made = world()
    line = Partner("NO.SUCH", "127.0.0.1", asserted="anybody")
    trusted = asked(made, line, trusts=True)
    assert (trusted.user, trusted.administrator, trusted.admitted) == ("anybody", True, True)
    assert asked(made, line).lacking == Lacking.CHANNEL_UNKNOWN
    assert not asked(made, line._replace(address="192.0.2.7"), trusts=True).admitted
    assert not asked(made, line._replace(protocol="TLSv1.3"), trusts=True).admitted
    assert asked(made, Partner(local=True, peer="12345", asserted="root"), trusts=True).user == "root"


SOCKET = Partner(local=True, peer="12345", asserted="root")


@pytest.mark.parametrize(
    ("check", "partner", "expected"),
    [
        (Check.OPTIONAL, SOCKET, "12345"),
        (Check.OPTIONAL, SOCKET._replace(peer=""), Lacking.USER),
        (Check.OPTIONAL, SOCKET._replace(user="bob", proof=Proof.PASSWORD_GIVEN), None),
        (Check.OPTIONAL, SOCKET._replace(user="bob", proof=Proof.PASSWORD), "bob"),
        (Check.OPTIONAL, SOCKET._replace(user="bob", proof=Proof.FAILED), Lacking.CREDENTIAL),
        (Check.NONE, SOCKET._replace(user="bob", proof=Proof.PASSWORD_GIVEN), "12345"),
        (Check.REQUIRED, SOCKET, Lacking.PROOF),
        (Check.REQUIRED, SOCKET._replace(owner=True), Lacking.PROOF),
        (Check.REQUIRED_ADMIN, SOCKET, "12345"),
        (Check.REQUIRED_ADMIN, SOCKET._replace(peer="root"), Lacking.PROOF),
        (Check.REQUIRED_ADMIN, SOCKET._replace(owner=True), Lacking.PROOF),
    ],
)
def test_by_the_socket_the_user_is_that_of_the_process_unless_it_proves_another(
    check: Check, partner: Partner, expected: str | Lacking | None
) -> None:
    made = world(local=check)
    made.rule("*", "BLOCKUSER", USERLIST="12345,bob,*MQADMIN")
    admission = asked(made, partner)
    assert outcome(admission) == expected
    assert not admission.administrator or partner.owner or partner.peer == "root"


def test_the_owner_of_the_daemon_is_an_administrator_also_where_passwords_are_checked_elsewhere() -> None:
    made = world()
    made.auth_info("LDAP", AUTHTYPE=4)
    owner = Partner(local=True, peer="operator", owner=True)
    for name in ("LDAP", "NO.SUCH", " ", AUTH_INFO):
        admission = asked(made, owner, conn_auth=name)
        assert (admission.user, admission.administrator, admission.admitted) == ("operator", True, True)
    other = asked(made, owner._replace(user="bob", proof=Proof.PASSWORD))
    assert (other.user, other.administrator) == ("bob", False)


def test_a_user_of_the_system_is_the_one_of_its_name_unless_another_has_it_as_osuser() -> None:
    made = world()
    long = Partner(local=True, peer="svc-application-1")
    assert asked(made, long).lacking == Lacking.USER
    assert asked(made, long._replace(owner=True)).administrator
    made.user("app", OSUSER="svc-application-1")
    assert asked(made, long).user == "app"
    made.user("other", OSUSER="svc-application-1")
    assert asked(made, long).user == "other"
    made.user("other")
    assert asked(made, long).lacking == Lacking.USER
    made.user("app", OSUSER="12345")
    assert asked(made, SOCKET).user == "app"
    made.delete("USER", "app")
    assert asked(made, SOCKET).user == "12345"
