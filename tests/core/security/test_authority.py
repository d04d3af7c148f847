"""The authority service: rights by the most specific records of a user and its groups, kept until something changes."""

from __future__ import annotations

import pickle
import re
from random import Random
from typing import TYPE_CHECKING

import pytest

from broker.core.security import authority as authority_module
from broker.core.security.authority import Authority, GroupAuthority, NotAuthorizedError
from broker.core.security.facts import AuthorityRecord
from broker.core.security.profiles import fits
from broker.core.security.rights import ALL_MQI, Q_MGR, Q, Right, all_of, words_of
from broker.mqi.constants.objects import MQOT
from broker.mqi.reasons import MQRC
from tests.core.security.definitions import Definitions

if TYPE_CHECKING:
    from collections.abc import Callable

RANKS = {"?": 2, "*": 1, "**": 0}


def naive_fits(profile: list[str], name: list[str]) -> bool:
    """The rules of 6.2 as they are written, a qualifier after the other."""
    if not profile:
        return not name
    if profile[0] == "**":
        return any(naive_fits(profile[1:], name[taken:]) for taken in range(len(name) + 1))
    pattern = re.escape(profile[0]).replace(r"\*", ".*").replace(r"\?", ".")
    return bool(name) and re.fullmatch(pattern, name[0]) is not None and naive_fits(profile[1:], name[1:])


def naive_winner(one: AuthorityRecord, other: AuthorityRecord) -> AuthorityRecord:
    """The more specific record, by 6.3: no wildcards, else from the left, then the longer, then by the alphabet."""
    exact = [each for each in (one, other) if "*" not in each.profile and "?" not in each.profile]
    if exact:
        return exact[0]
    tokens = [re.findall(r"\*\*|.", each.profile) for each in (one, other)]
    for left, right in zip(*tokens, strict=False):
        if RANKS.get(left, 3) != RANKS.get(right, 3):
            return one if RANKS.get(left, 3) > RANKS.get(right, 3) else other
    if len(tokens[0]) != len(tokens[1]):
        return one if len(tokens[0]) > len(tokens[1]) else other
    return min(one, other)


def naive_rights(made: Definitions, user: str, object_type: int, name: str) -> Right:
    """Every record is looked at, for every entity."""
    groups = str(made.made.get(("USER", user), {"GROUPS": ""})["GROUPS"]).split(",")
    if user == "mqm" or "mqm" in groups:
        return ~Right.NONE
    rights = Right.NONE
    for kind, entity in [(1, user), *((2, group) for group in groups)]:
        best = None
        for (space, _), attributes in made.made.items():
            if space != "AUTHREC":
                continue
            record = AuthorityRecord.of(attributes)
            if (record.kind, record.entity, record.object_type) == (kind, entity, object_type) and naive_fits(
                record.profile.split("."), name.split(".")
            ):
                best = record if best is None else naive_winner(best, record)
        rights |= Right.NONE if best is None else best.rights
    return rights


def random_name(random: Random, wildcards: bool = False) -> str:
    qualifiers = ["".join(random.choices("AB", k=random.randint(0, 2))) for _ in range(random.randint(1, 3))]
    if wildcards:
        pieces = ("A", "B", "?", "*", "")
        qualifiers = ["".join(random.choices(pieces, k=random.randint(1, 3))) for _ in qualifiers]
        qualifiers = [each.replace("**", "*").replace("**", "*") for each in qualifiers]
        if random.random() < 0.4:
            qualifiers[random.randrange(len(qualifiers))] = "**"
    return ".".join(qualifiers) or "A"


@pytest.mark.parametrize("seed", range(20))
def test_x6_1_random_records_give_the_rights_that_a_naive_judge_gives(seed: int) -> None:
    """500 sets each; records come and go between judgements, so what is kept has to follow."""
    random = Random(seed)
    for _ in range(500):
        made = Definitions()
        for user in ("alice", "bob"):
            made.user(user, *random.sample(["app", "ops", "mqm"], k=random.choice([0, 1, 1, 2])))
        for step in range(random.randint(1, 12)):
            kind, entity = random.choice([("USER", "alice"), ("USER", "carol"), ("GROUP", "app"), ("GROUP", "ops")])
            right = random.choice([Right.PUT, Right.GET, Right.BROWSE | Right.PUT, Right.NONE])
            made.record(random_name(random, wildcards=True), entity, right, kind, random.choice([Q, Q, Q, 3]))
            present = [name for space, name in made.made if space == "AUTHREC"]
            if random.random() < 0.2:
                made.delete("AUTHREC", random.choice(present))
            if step % 4 == 0:
                name, user = random_name(random), random.choice(["alice", "bob", "carol", "mqm"])
                assert made.authority.rights(user, Q, name) == naive_rights(made, user, Q, name), (
                    seed,
                    made.made,
                    name,
                )


def test_x6_2_the_most_specific_record_alone_counts() -> None:
    made = Definitions()
    made.record("AB.*", "fred", Right.PUT)
    made.record("AB.C*", "fred", Right.GET)
    assert made.authority.rights("fred", Q, "AB.CD") == Right.GET
    assert made.authority.rights("fred", Q, "AB.DE") == Right.PUT
    assert made.authority.rights("fred", Q, "AB") == Right.NONE


def test_rights_of_groups_and_of_the_user_add_up() -> None:
    made = Definitions()
    made.user("fred", "app", "ops")
    made.record("A.*", "fred", Right.PUT)
    made.record("A.B", "app", Right.GET, "GROUP")
    made.record("**", "ops", Right.BROWSE, "GROUP")
    made.record("**", "other", Right.SET, "GROUP")
    assert made.authority.rights("fred", Q, "A.B") == Right.PUT | Right.GET | Right.BROWSE


def test_a_user_without_an_object_has_its_own_records_and_no_groups() -> None:
    made = Definitions()
    made.record("A", "fred", Right.PUT)
    made.record("A", "fred", Right.GET, "GROUP")
    assert made.authority.rights("fred", Q, "A") == Right.PUT


def test_administrators_need_no_records() -> None:
    made = Definitions()
    made.user("root", "mqm")
    assert [made.authority.missing(each, Q, "A", all_of(Q)) for each in ("root", "mqm")] == [Right.NONE] * 2
    made.authority.delete("USER", "root")
    assert made.authority.missing("root", Q, "A", Right.GET) == Right.GET


@pytest.mark.parametrize(
    ("name", "user", "expected"),
    [
        ("OURS", "fred", Right.GET),  # by what is shared alone
        ("MINE", "fred", Right.PUT),
        ("OURS", "root", Right.NONE),  # an administrator of the member
        ("OURS", "mqm", Right.NONE),
        ("OURS", "boss", ~Right.NONE),
    ],
)
def test_shared_queues_are_judged_by_what_is_shared(name: str, user: str, expected: Right) -> None:
    group, own = Definitions(), Definitions()
    group.authority = GroupAuthority()
    own.authority = Authority({"OURS"}, group.authority)
    group.user("boss", "mqm")
    group.record("OURS", "fred", Right.GET)
    own.user("root", "mqm")
    own.record("OURS", "fred", Right.PUT)
    own.record("MINE", "fred", Right.PUT)
    assert own.authority.rights(user, Q, name) == expected
    assert own.authority.judge_of(Q, name) is (group.authority if name == "OURS" else own.authority)


def test_a_refresh_is_one_of_what_the_group_shares_too() -> None:
    group = GroupAuthority()
    before = group.generation
    Authority({"OURS"}, group).refresh()
    assert group.generation == before + 1


def test_the_queue_manager_has_one_profile() -> None:
    made = Definitions()
    made.record("self", "fred", Right.CONNECT, object_type=Q_MGR)
    made.record("**", "fred", Right.DSP, object_type=Q)
    assert {made.authority.rights("fred", Q_MGR, name) for name in ("QM1", "", "self")} == {Right.CONNECT}


def test_a_refusal_tells_the_log_the_rule_and_the_program_nothing() -> None:
    made = Definitions()
    made.authority.check("mqm", Q, "A", Right.GET)
    texts = set()
    for user, name, right in (("fred", "A", Right.GET | Right.PUT), ("bob", "NO.SUCH.Q", Right.SETALL)):
        with pytest.raises(NotAuthorizedError) as caught:
            made.authority.check(user, Q, name, right, "put1")
        texts.add(str(caught.value))
        again = pickle.loads(pickle.dumps(caught.value))
        assert (again.reason, again.step, again.rule) == (MQRC.NOT_AUTHORIZED, "put1", caught.value.rule)
    assert texts == {"MQRC_NOT_AUTHORIZED (2035): not authorized"}
    assert caught.value.rule == "bob has no SETALL on QUEUE NO.SUCH.Q"


def test_crt_comes_from_the_class_and_from_profiles_of_names() -> None:
    made = Definitions()
    made.user("fred", "app")
    made.record("@class", "app", Right.CRT, "GROUP")
    made.record("TEMP.*", "bob", Right.CRT | Right.DSP)
    made.record("**", "carol", Right.CRT)
    judge = made.authority
    assert Right.CRT in judge.class_rights("fred", Q, "A")
    assert judge.class_rights("fred", 3, "A") == Right.NONE
    assert Right.CRT in judge.class_rights("bob", Q, "TEMP.1")
    assert judge.class_rights("bob", Q, "A") == Right.NONE
    assert judge.rights("fred", Q, "A") == Right.NONE
    assert Right.CRT in judge.class_rights("mqm", Q, "A")


def test_what_is_kept_follows_each_change() -> None:
    made = Definitions()
    made.user("fred")
    judge = made.authority
    generations = [judge.generation]
    changes: list[Callable[[], object]] = [
        lambda: made.record("A", "fred", Right.PUT),
        lambda: made.record("A", "fred", Right.GET),
        lambda: made.record("A", "app", Right.BROWSE, "GROUP"),
        lambda: made.user("fred", "app"),
        lambda: made.delete("AUTHREC", "1 A user fred"),
        lambda: made.delete("USER", "fred"),
    ]
    rights = []
    for change in changes:
        change()
        rights.append(judge.rights("fred", Q, "A"))
        generations.append(judge.generation)
    assert rights == [Right.PUT, Right.GET, Right.GET, Right.GET | Right.BROWSE, Right.BROWSE, Right.NONE]
    assert generations == sorted(set(generations))
    before = judge.generation
    judge.refresh()
    made.channel("A.SVRCONN")
    made.define("QUEUE", "A")
    judge.delete("QUEUE", "A")
    assert judge.generation == before + 1


def judged_anew(judge: Authority, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The users and names that are judged from now on, not found among what is kept."""
    seen: list[tuple[str, str]] = []
    judging = judge._judged

    def counted(user: str, object_type: int, name: str) -> Right:
        seen.append((user, name))
        return judging(user, object_type, name)

    monkeypatch.setattr(judge, "_judged", counted)
    return seen


def test_x6_3_few_of_many_records_are_looked_at_and_none_the_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Definitions()
    made.user("fred", *(f"group{number}" for number in range(32)))
    for number in range(9000):
        made.record(f"APP{number % 100}.Q{number}", f"group{number % 64}", Right.GET, "GROUP")
    for number in range(1000):
        made.record(f"APP{number % 100}.Q{number}.*", f"group{number % 64}", Right.PUT, "GROUP")
    looked_at = []

    def counted(profile: str, name: str) -> bool:
        looked_at.append(profile)
        return fits(profile, name)

    monkeypatch.setattr("broker.core.security.records.fits", counted)
    assert made.authority.rights("fred", Q, "APP77.Q577.X") == Right.PUT
    assert looked_at == ["APP77.Q577.*"]
    anew = judged_anew(made.authority, monkeypatch)
    assert made.authority.missing("fred", Q, "APP77.Q577.X", Right.PUT | Right.GET) == Right.GET
    assert anew == []


def test_temporary_names_leave_what_is_kept_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authority_module, "JUDGEMENTS_MAX", 10)
    judge = Authority()
    anew = judged_anew(judge, monkeypatch)
    for user in ("alice", "bob"):
        judge.rights(user, Q, "LASTING")
    for number in range(100):
        for user in ("alice", "bob"):
            judge.rights(user, Q, f"AMQ.{number}")
        judge.forget(Q, f"AMQ.{number}")
        judge.forget(Q, "UNKNOWN")
    anew.clear()
    judge.rights("alice", Q, "LASTING")
    assert anew == []
    judge.forget(Q, "LASTING")
    judge.rights("bob", Q, "LASTING")
    assert anew == [("bob", "LASTING")]


def test_at_most_so_many_judgements_are_kept_and_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authority_module, "JUDGEMENTS_MAX", 10)
    judge = Authority()
    anew = judged_anew(judge, monkeypatch)
    for number in range(30):
        judge.rights("bob", Q, f"A{number}")
    anew.clear()
    for number in reversed(range(20, 30)):
        judge.rights("bob", Q, f"A{number}")
    assert anew == []
    assert sum(map(len, judge._judgements.values())) == judge._kept == 10


def test_words_of_rights() -> None:
    assert words_of(Right.PUT | Right.GET) == "GET,PUT"
    assert words_of(Right.NONE) == "NONE"
    assert all_of(MQOT.Q.value) > ALL_MQI[Q]
