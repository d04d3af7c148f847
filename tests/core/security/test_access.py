"""Explanations: they say what happens, and their commands allow exactly what was refused (security 9.1)."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest

from broker.core.security.access import explain_connect, explain_open
from broker.core.security.admission import admit
from broker.core.security.facts import Check, UserSource
from broker.core.security.partner import Partner, Posture, Proof
from broker.core.security.rights import Q_MGR, Q, Right, all_of
from broker.mqi.access import Access, AccessStep
from tests.core.security.definitions import AUTH_INFO, Definitions

USERS = ("alice", "bob", "carol", "root")
CHANNELS = ("APP.SVRCONN", "APP.OTHER", "NO.SUCH")
ADDRESSES = ("192.0.2.7", "192.0.2.8", "10.1.1.1")
QUEUES = ("A", "A.B", "A.B.C", "B")


def certificate_of(user: str) -> tuple[tuple[str, str], ...]:
    """Each user has a certificate of its own, and shows it or does not."""
    return (("O", "Example"), ("CN", user))


PARTNERS = [
    Partner(channel, address, user, proof, subject=subject, issuer=(("CN", "CA"),) if subject else ())
    for channel, address, user, proof in product(CHANNELS, ADDRESSES, USERS, (Proof.NONE, Proof.PASSWORD_GIVEN))
    for subject in ((), certificate_of(user))
]


def entered(made: Definitions, posture: Posture, partner: Partner) -> str | None:
    """Return the user that is in after a login, None if it is refused."""
    user = made.made.get(("USER", partner.user), {})
    if not user.get("PASSWORD"):
        partner = partner._replace(proof=Proof.NONE)
    admission = admit(made.authority, partner, posture)
    if admission.verify:
        shown = Proof.PASSWORD if user["STATUS"] else Proof.FAILED
        admission = admit(made.authority, partner._replace(proof=shown), posture)
        assert not admission.verify
    if not admission.admitted:
        return None
    may = admission.administrator or not made.authority.missing(admission.user, Q_MGR, "QM1", Right.CONNECT)
    return admission.user if may else None


def rights_of_all(made: Definitions) -> dict[tuple[str, int, str], Right]:
    places = [(user, Q, name) for user in USERS for name in QUEUES] + [(user, Q_MGR, "self") for user in USERS]
    return {place: made.authority.rights(*place) for place in places}


def with_random_rights(made: Definitions, random: Random) -> None:
    for user in USERS[:-1]:
        if random.random() < 0.85:
            groups = random.sample(["app", "ops"], k=random.randint(0, 2))
            made.user(user, *groups, password=random.random() < 0.8, enabled=random.random() < 0.85)
    made.user("root", "mqm")
    for _ in range(random.randint(0, 8)):
        kind, entity = random.choice([("USER", random.choice(USERS)), ("GROUP", random.choice(["app", "ops"]))])
        profile = random.choice(["A", "A.B", "A.*", "A.**", "**", "B", "A.?"])
        rights = Right(random.choice([0, *map(int, (Right.PUT, Right.GET, Right.PUT | Right.BROWSE, all_of(Q)))]))
        made.record(profile, entity, rights, kind)
    for entity, kind in (*((user, "USER") for user in USERS), ("app", "GROUP")):
        if random.random() < 0.4:
            made.record("self", entity, random.choice([Right.CONNECT, Right.DSP]), kind, Q_MGR)


def with_random_rules(made: Definitions, random: Random) -> None:
    made.auth_info(CHCKCLNT=random.choice([2, 3, 3, 0, 1]), ADOPTCTX=int(random.random() < 0.8))
    for name in CHANNELS[:2]:
        peer = random.choice(["", "", "", "O=Example"])
        made.channel(name, MCAUSER=random.choice(["", "", "carol"]), SSLPEER=peer, CHLTYPE=random.choice([7] * 9 + [1]))
    for _ in range(random.randint(0, 6)):
        profile = random.choice(["*", "APP.*", *CHANNELS])
        warns = int(random.random() < 0.1)
        address = random.choice(["*", "192.0.2.*", *ADDRESSES])
        source = random.choice([UserSource.NOACCESS, UserSource.NOACCESS, UserSource.CHANNEL, UserSource.MAP]).value
        check = random.choice([Check.AS_Q_MGR] * 3 + [Check.REQUIRED, Check.REQUIRED_ADMIN]).value
        rest = {"USERSRC": source, "MCAUSER": random.choice(USERS), "CHCKCLNT": check, "WARN": warns}
        match random.randrange(6):
            case 0:
                users = ",".join(random.sample(["nobody", "*MQADMIN", *USERS], k=random.randint(1, 2)))
                made.rule(profile, "BLOCKUSER", USERLIST=users, WARN=warns)
            case 1:
                made.rule("*", "BLOCKADDR", ADDRLIST=random.choice(ADDRESSES), WARN=warns)
            case 2:
                peer = random.choice(["CN=bob", "CN=*", "O=Example", "CN=alice,O=Example"])
                issuer = random.choice(["", "CN=CA"])
                made.rule(
                    profile, "SSLPEERMAP", SSLPEER=peer, SSLCERTI=issuer, ADDRESS=random.choice(["", address]), **rest
                )
            case 3:
                made.rule(
                    profile, "USERMAP", CLNTUSER=random.choice(USERS), ADDRESS=random.choice(["", address]), **rest
                )
            case _:
                made.rule(profile, "ADDRESSMAP", ADDRESS=address, **rest)


def run_and_check(made: Definitions, posture: Posture, partner: Partner, command: str) -> None:
    """Run a command of a grant, and see who comes in that did not, or as another.

    A rule that maps does so for the user on its line alone. By the other commands only the user comes in that they are
    about, by the lines that led to it before; one that is enabled, also where rules take it for another.
    """
    before = {each: entered(made, posture, each) for each in PARTNERS}
    made.run(command)
    for each in PARTNERS:
        user = entered(made, posture, each)
        if user == before[each]:
            continue
        if "MAP)" in command:
            assert each[:3] == partner[:3], (command, each)
            continue
        assert before[each] is None, (command, each)
        match command.split()[1][:7]:
            case "AUTHREC":
                assert f"PRINCIPAL('{user}')" in command, (command, each)
            case "CHLAUTH":
                assert (user, each.channel) == (partner.user, partner.channel), (command, each)
            case _:
                assert partner.user in (user, each.user), (command, each)


@pytest.mark.parametrize("seed", range(20))
def test_x9_1_connections_are_explained_as_they_are_and_granted_alone(seed: int) -> None:
    """250 random worlds each."""
    random = Random(seed)
    granted = 0
    for _ in range(250):
        made = Definitions()
        with_random_rights(made, random)
        with_random_rules(made, random)
        posture = Posture(random.choice([AUTH_INFO] * 8 + [" ", "NO.SUCH"]), rules=random.random() < 0.9)
        partner = random.choice(PARTNERS)
        access = explain_connect(made.authority, posture, partner)
        user = entered(made, posture, partner)
        assert access.allowed == (user is not None), (seed, access)
        assert user in (None, access.user)
        assert access.steps
        assert not (access.allowed and access.grant)
        if access.grant:
            granted += 1
            rights = rights_of_all(made)
            for command in access.grant.splitlines():
                run_and_check(made, posture, partner, command)
            user = entered(made, posture, partner)
            assert user is not None, (seed, access)
            assert explain_connect(made.authority, posture, partner).allowed
            given = {(user, Q_MGR, "self"): Right.CONNECT} if "AUTHREC" in access.grant else {}
            assert rights_of_all(made) == {at: held | given.get(at, Right.NONE) for at, held in rights.items()}
    assert granted > 20


@pytest.mark.parametrize("seed", range(20))
def test_x9_1_opens_are_explained_as_they_are_and_granted_alone(seed: int) -> None:
    """250 random worlds each."""
    random = Random(seed)
    for _ in range(250):
        made = Definitions()
        with_random_rights(made, random)
        user, name = random.choice([*USERS, "stranger"]), random.choice(QUEUES)
        wanted = random.choice([Right.PUT, Right.GET | Right.INQ, Right.SETALL | Right.PUT])
        on_q_mgr = random.choice([Right.NONE, Right.NONE, Right.SETALL])
        access = explain_open(made.authority, user, Q, name, wanted, on_q_mgr)
        missing = made.authority.missing(user, Q, name, wanted), made.authority.missing(user, Q_MGR, "", on_q_mgr)
        assert access.allowed == (missing == (Right.NONE, Right.NONE))
        assert access.allowed == (access.grant == "")
        before = rights_of_all(made)
        for command in access.grant.splitlines():
            made.run(command)
        given = {(user, Q, name): missing[0], (user, Q_MGR, "self"): missing[1]}
        assert rights_of_all(made) == {at: held | given.get(at, Right.NONE) for at, held in before.items()}
        assert explain_open(made.authority, user, Q, name, wanted, on_q_mgr).allowed


def test_an_open_is_explained_rule_by_rule() -> None:
    made = Definitions()
    made.user("bob", "app")
    made.record("A.*", "bob", Right.GET | Right.BROWSE)
    made.record("**", "app", Right.INQ, "GROUP")
    assert explain_open(made.authority, "bob", Q, "A.B", Right.GET | Right.PUT) == Access(
        allowed=False,
        user="bob",
        steps=(
            AccessStep("AUTHREC PROFILE(A.*) OBJTYPE(QUEUE) PRINCIPAL(bob)", "QUEUE A.B", "gives BROWSE,GET"),
            AccessStep("AUTHREC PROFILE(**) OBJTYPE(QUEUE) GROUP(app)", "QUEUE A.B", "gives INQ"),
            AccessStep("rights", "GET,PUT on QUEUE A.B", "refused: PUT is missing"),
        ),
        grant="SET AUTHREC PROFILE('A.B') OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(BROWSE,GET,PUT)",
    )
    allowed = explain_open(made.authority, "mqm", Q, "A.B", Right.PUT)
    assert (allowed.allowed, str(allowed.steps[0])) == (True, "USER(mqm): group mqm: administrator: has every right")


def test_rights_that_objects_of_the_type_have_not_are_given_by_no_command() -> None:
    made = Definitions()
    assert explain_open(made.authority, "bob", Q, "A", Right.CONNECT).grant == ""
    assert explain_open(made.authority, "bob", Q, "A*", Right.PUT).grant == ""


def _bob(made: Definitions, **partner: Any) -> Access:
    line = Partner("APP.SVRCONN", "192.0.2.7", "bob", Proof.PASSWORD_GIVEN)._replace(**partner)
    return explain_connect(made.authority, Posture(), line)


def _world_with_bob() -> Definitions:
    made = Definitions()
    made.defaults()
    made.channel("APP.SVRCONN")
    made.user("bob")
    return made


def test_x9_1_a_user_without_connect_gets_the_line_that_gives_it() -> None:
    made = _world_with_bob()
    access = _bob(made)
    assert (access.allowed, access.grant) == (False, "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT)")
    made.run(access.grant)
    assert _bob(made).allowed
    assert [step.verdict for step in _bob(made).steps] == [
        "is that user",
        "no rule fits",
        "user bob",
        "gives CONNECT",
        "allowed",
    ]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            ("APP.SVRCONN", "ADDRESSMAP", {"ADDRESS": "*", "USERSRC": 1}),
            "SET CHLAUTH('APP.SVRCONN') TYPE(USERMAP) CLNTUSER('bob') ADDRESS('192.0.2.7') USERSRC(MAP) MCAUSER('bob')",
        ),
        (
            ("APP.SVRCONN", "USERMAP", {"CLNTUSER": "bob", "ADDRESS": "192.0.2.7", "USERSRC": 1}),
            "SET CHLAUTH('APP.SVRCONN') TYPE(USERMAP) CLNTUSER('bob') ADDRESS('192.0.2.7') USERSRC(MAP) MCAUSER('bob')"
            " ACTION(REPLACE)",
        ),
        (
            ("*", "BLOCKUSER", {"USERLIST": "*MQADMIN,bob"}),
            "SET CHLAUTH('APP.SVRCONN') TYPE(BLOCKUSER) USERLIST('*MQADMIN')",
        ),
        (
            ("APP.SVRCONN", "BLOCKUSER", {"USERLIST": "bob"}),
            "SET CHLAUTH('APP.SVRCONN') TYPE(BLOCKUSER) USERLIST('nobody') ACTION(REPLACE)",
        ),
        (("*", "BLOCKADDR", {"ADDRLIST": "192.0.2.7"}), None),
    ],
)
def test_a_rule_that_refuses_is_lifted_for_that_user_alone(
    rule: tuple[str, str, dict[str, str]], expected: str
) -> None:
    made = _world_with_bob()
    made.rule(rule[0], rule[1], **rule[2])
    connect = "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT)"
    assert _bob(made).grant == (f"{expected}\n{connect}" if expected else "")


def test_each_of_several_refusals_has_its_command() -> None:
    made = _world_with_bob()
    made.user("bob", enabled=False)
    made.rule("APP.SVRCONN", "ADDRESSMAP", ADDRESS="*", USERSRC=UserSource.NOACCESS.value)
    made.rule("APP.SVRCONN", "BLOCKUSER", USERLIST="bob")
    commands = _bob(made).grant.splitlines()
    assert [" ".join(each.split()[:2]).partition("(")[0] for each in commands] == [
        "SET CHLAUTH", "ALTER USER", "SET CHLAUTH", "SET AUTHREC"
    ]  # fmt: skip
    for command in commands:
        assert not _bob(made).allowed
        made.run(command)
    assert _bob(made).allowed


def test_nobody_is_let_in_who_is_blocked_as_another_or_as_an_administrator() -> None:
    made = _world_with_bob()
    made.rule("APP.SVRCONN", "USERMAP", CLNTUSER="bob", MCAUSER="app")
    made.rule("APP.SVRCONN", "BLOCKUSER", USERLIST="app")
    assert (_bob(made).user, _bob(made).grant) == ("app", "")
    made.user("bob", "mqm")
    made.rule("APP.SVRCONN", "USERMAP", CLNTUSER="bob", MCAUSER="bob")
    made.rule("APP.SVRCONN", "BLOCKUSER", USERLIST="bob,*MQADMIN")
    assert (_bob(made).user, _bob(made).grant) == ("bob", "")
    made.rule("APP.SVRCONN", "BLOCKUSER", USERLIST="bob")
    assert _bob(made).grant == "SET CHLAUTH('APP.SVRCONN') TYPE(BLOCKUSER) USERLIST('nobody') ACTION(REPLACE)"


def test_a_certificate_that_no_rule_maps_gets_the_rule_that_does() -> None:
    made = _world_with_bob()
    subject = (("OU", "Sales, North"), ("CN", "O'Reilly*"))
    access = _bob(made, proof=Proof.NONE, subject=subject, issuer=(("CN", "CA"),))
    assert access.grant.splitlines()[0] == (
        "SET CHLAUTH('APP.SVRCONN') TYPE(SSLPEERMAP) SSLPEER('OU=\"Sales, North\",CN=\"O''Reilly\\*\"')"
        " SSLCERTI('CN=\"CA\"') ADDRESS('192.0.2.7') USERSRC(MAP) MCAUSER('bob')"
    )
    for command in access.grant.splitlines():
        made.run(command)
    assert _bob(made, proof=Proof.NONE, subject=subject, issuer=(("CN", "CA"),)).allowed
    assert not _bob(made, proof=Proof.NONE, subject=subject, issuer=(("CN", "Other"),)).allowed


def test_a_disabled_user_gets_the_line_that_enables_it_and_one_without_password_none() -> None:
    made = _world_with_bob()
    made.user("bob", enabled=False)
    assert _bob(made).grant.splitlines()[0] == "ALTER USER('bob') STATUS(ENABLED)"
    made.user("bob", password=False)
    access = _bob(made)
    assert (access.grant, str(access.steps[0])) == ("", "USER(bob): PASSWORD(NONE): has no password to give")


def test_an_explanation_has_no_secret() -> None:
    made = _world_with_bob()
    assert "scrypt" not in repr(_bob(made))
