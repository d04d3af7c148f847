"""Profiles of authority records: their form, the names that they fit, and which of two is more specific."""

from __future__ import annotations

from random import Random

import pytest

from broker.core.security.profiles import check, fits, glob, literal_part, rank


@pytest.mark.parametrize(
    ("profile", "fitting", "other"),
    [
        ("AB.CD", "AB.CD", "AB.C ab.cd AB.CDE AB AB.CD.E"),
        ("AB.?D", "AB.CD AB.ED AB.FD", "AB.D AB.CCD AB..D AB.CD.E"),
        ("?", "A", "AB A.B ."),
        ("ABC.*.JKL", "ABC.DEF.JKL ABC.G.JKL ABC..JKL", "ABC.JKL ABC.D.E.JKL ABC.DEF.JK"),
        ("ABC.DE*.JKL", "ABC.DE.JKL ABC.DEF.JKL ABC.DEGH.JKL", "ABC.D.JKL ABC.DE.F.JKL"),
        ("*", "A ABC", "A.B ."),
        ("A*B*C", "ABC AXBXC ABBCC ABCBC", "ABCB AB AC XABC"),
        ("**", "A A.B A.B.C", ""),
        ("A.**", "A A.B A.B.C", "AB B.A"),
        ("**.C", "C A.C A.B.C", "AC C.A"),
        ("A.**.C", "A.C A.B.C A.B.B.C", "A AC A.B C A.B.CD"),
        ("A.*.**", "A.B A.B.C", "A"),
        ("?*", "A AB", "A.B"),
    ],
)
def test_a_profile_fits_these_names_and_not_those(profile: str, fitting: str, other: str) -> None:
    assert [name for name in fitting.split() if not fits(profile, name)] == []
    assert [name for name in other.split() if fits(profile, name)] == []
    assert check(profile) is None


def test_a_glob_of_many_asterisks_is_decided_at_once() -> None:
    assert not glob("*a" * 24, "a" * 23 + "b" * 25)
    assert glob("*a" * 24, "a" * 48)
    assert glob("SYSTEM.*", "SYSTEM.ADMIN.SVRCONN")


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        ("", "@class"),
        ("A B", "A B"),
        ("A" * 49, "1 to 48"),
        ("A.B**", "beside other characters"),
        ("***", "beside other characters"),
        ("A.**.B.**", "more than once"),
        ("@q", "@q"),
        ("Ä", "Ä"),
    ],
)
def test_the_form_of_a_profile_is_checked(profile: str, said: str) -> None:
    assert said in str(check(profile))


@pytest.mark.parametrize("profile", ["A", "a%b/c_d.9", "@class", "A.**", "**", "self", "?" * 48])
def test_a_profile_in_order_has_no_error(profile: str) -> None:
    assert check(profile) is None


def test_the_more_specific_profile_comes_first() -> None:
    ordered = ["AB.C?", "AB.C*", "AB.?*D", "AB.?*", "AB.*.**", "AB.*D", "AB.*", "AB.**", "A*.**", "?B.**", "*", "**"]
    assert sorted(Random(1).sample(ordered, len(ordered)), key=rank) == ordered


@pytest.mark.parametrize(
    ("profile", "beginning"),
    [
        ("A.B", "A.B"),
        ("A.**", "A"),
        ("A.**.B", "A"),
        ("**", ""),
        ("A.*", "A."),
        ("A?.**", "A"),
        ("A..**", "A."),
        ("*", ""),
    ],
)
def test_all_names_of_a_profile_begin_with_its_literal_part(profile: str, beginning: str) -> None:
    assert literal_part(profile) == beginning
