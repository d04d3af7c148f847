"""Every rule number leads to its heading, and the page of cases back to the tests and the code that cite it.

How rules are cited in comments, in docstrings and in what a test says when it fails:

| | where the number is a heading or a row |
|---|---|
| semantics 5.7, semantics 5.2 and 5.4, table 3.2, semantics 3.2 rows 1 to 7 | `docs/rules/semantics.md` |
| T6.1 (a case), S3 (a scenario), B9 (an open point) | `docs/rules/semantics.md` |
| S-12, R-6 (the fast path), C4, E3 (conditions, events; "trigger condition C4" in files that are not about triggers) | `docs/rules/triggers.md` |
| journal rule 7, invariant 2 | `docs/explanation/durability.md` |
| log rule 4.1, log case 12, invariant L3 | `docs/rules/log.md` |
| claims rule 2.5, K33 (a case) | `docs/rules/claims.md` |
| handlers rule 2.5, H2.3 (a case) | `docs/rules/handlers.md` |
| transactions rule 2.5, D2.3 (a case) | `docs/rules/transactions.md` |
| queue-sharing 9.4, queue-sharing rule 10.2.2, queue-sharing trap 4, Q3.1 (a case) | `docs/rules/queue-sharing.md` |
| security 5.2, security rule 5.2, X5.2 (a case) | `docs/rules/security.md` |
| O3.1 (a case) | `docs/rules/operations.md` |
| N2.1 (a case) | `docs/rules/console.md` |
| L8 (how commands are written; also at the beginning of a test's id) | `docs/reference/commands.md` |

The name of a test begins with what it tells, dots and hyphens as underscores: `test_t6_1_`, `test_s3_trap_b_`,
`test_s3_trap_b_and_t15_3_`, `test_h2_3_`, `test_o3_1_`, `test_x5_2_`, `test_table_5_2_`, `test_s_12_` (not `test_s12_`, a scenario), `test_c4_`, `test_rule_7_` (of
the journal), `test_s3_1_` (Q3.1, of queue sharing: with two numbers), `test_trap_4_`. "Rule 7", "section 5" and other numbers of no page are not cited. A new rule takes a number that is free, on
the page where it belongs.
"""  # noqa: E501

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.scripts import script
from tests.security import cases as security_cases

cases_page = script("cases_page")

ROOT = Path(__file__).parent.parent

SOURCES = cases_page.sources(*cases_page.CODE, cases_page.TESTS)
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "tests" / "README.md"])

NOT_TAKEN = {"T14.2", "T14.3"}
"""Cases about verbs that are not there: the page says so."""

ELSEWHERE = {"H1.9", "K68"}
"""A case that `tests/handlers/missing.txt` has, and one that is told by the cases of queue sharing."""

CASE = re.compile(r"[DHQTX]\d+\.\d+|[KS]\d+|queue-sharing trap \d+")
"""The numbers that need a test."""

PART = re.compile(r" (?:row|trap|variant|segmented variant)\b")
"""Parts of a table or a scenario, which are cited by number but have no row of their own on the page of cases."""


def test_each_number_in_the_sources_leads_somewhere() -> None:
    astray = [
        f"{path.relative_to(ROOT)}:{line} cites {number}"
        for path in SOURCES
        for line, number in cases_page.citations(path).everywhere
        if number not in cases_page.entries()
    ]
    assert not astray, "no page has these: see the head of tests/test_rule_numbers.py"


def test_each_number_in_the_pages_leads_somewhere() -> None:
    astray = [
        f"{path.relative_to(ROOT)} cites {number}"
        for path in PAGES
        for number in cases_page.cited_in_page(path.read_text("utf-8"))
        if number not in cases_page.entries()
    ]
    assert not astray


def test_each_case_and_each_scenario_is_told_by_a_test() -> None:
    reported = {number for path in SOURCES for test in cases_page.citations(path).by_test.values() for number in test}
    cases = {number for number in cases_page.entries() if re.fullmatch(r"T\d+\.\d+|S\d+", number)}
    assert cases - reported == NOT_TAKEN


def test_the_page_of_cases_leads_from_each_number_to_its_tests() -> None:
    rows = dict(re.findall(r"^\| (\[.+?\]\(.+?\)) \| .* \| (.+) \|$", cases_page.page(), re.MULTILINE))
    tests = {number: rows.get(cases_page.link(number)) for number in cases_page.entries()}
    assert [number for number, row in tests.items() if row is None and not PART.search(number)] == []
    cases = {number for number in tests if CASE.fullmatch(number)}
    untold = NOT_TAKEN | ELSEWHERE | set(security_cases.LIST.admitted())
    assert {number for number in cases if "::test_" not in str(tests[number])} == untold


def test_the_journal_and_its_page_have_the_same_rules() -> None:
    listed = re.findall(r"^(\d+)\. ", (ROOT / "broker/engine/journal/journal.py").read_text("utf-8"), re.MULTILINE)
    on_the_page = [each for each in cases_page.entries() if each.startswith("journal rule")]
    assert [f"journal rule {number}" for number in listed] == on_the_page


def test_nothing_speaks_of_a_book_that_is_not_there() -> None:
    book = re.compile(r"rule ?book|\bthe spec(ification)?\b", re.IGNORECASE)
    speaking = [path for path in [*SOURCES, *PAGES] if book.search(path.read_text("utf-8"))]
    assert speaking == []


@pytest.mark.parametrize(
    ("source", "numbers"),
    [
        ('"""Locks (semantics 5.5)."""', ["semantics 5.5"]),
        ('"""Of semantics 3, 5.4 to 5.7,\nand 6."""', ["semantics 3", "semantics 5.4", "semantics 5.7", "semantics 6"]),
        ('"""Semantics 3.2 rows 1 to 2."""', ["semantics 3.2", "semantics 3.2 row 1", "semantics 3.2 row 2"]),
        ("# Table 3.2", ["semantics 3.2"]),
        ('"""Claims rules 2.5 and 3.4, claims rule 2 (K33)."""', ["K33", *(f"claims rule {n}" for n in (2, 2.5, 3.4))]),
        ('"""Journal rules 11 and 12, invariant 3."""', ["invariant 3", "journal rule 11", "journal rule 12"]),
        ('"""Handlers rules 1.3 and 2 (H1.4)."""', ["H1.4", "handlers rule 1.3", "handlers rule 2"]),
        (
            '"""Transactions rules 2.4 and 3, transactions rule 2.1 (D2.4)."""',
            ["D2.4", *(f"transactions rule {n}" for n in (2.1, 2.4, 3))],
        ),
        ('raise Violation(f"journal rule 7: {call}")', ["journal rule 7"]),
        (
            '"""Queue-sharing 3 (Q3.1), queue-sharing rule 10.2.2."""',
            ["Q3.1", "queue-sharing 10.2.2", "queue-sharing 3"],
        ),
        ('"""Queue-sharing traps 4 and 7."""', ["queue-sharing trap 4", "queue-sharing trap 7"]),
        ('"""A queue-sharing group."""', []),
        ('"""Security 2 to 5.3, security rule 7 (X5.1)."""', ["X5.1", "security 2", "security 5.3", "security 7"]),
        ('"""REFRESH SECURITY, and the security of a line."""', []),
        ("x = 1  # T6.1, S3, B9, R-6 and S-12", ["B9", "R-6", "S-12", "S3", "T6.1"]),
        ('x = "T6.1, S3 and 8.1"', []),
        ('x = "L8 minus goes on"', ["L8"]),
        ('"""The C1 characters, and trigger condition C4."""', ["C4"]),
        ('raise Violation("rule 7: no")', ["rule 7"]),
        ('"""Gets (sections 5.4 to 5.7)."""', ["sections 5.4"]),
        ("def test_t6_1_gets(): ...", ["T6.1"]),
        ("def test_s3_trap_b_and_t15_3_it(): ...", ["S3", "S3 trap b", "T15.3"]),
        ("def test_s3_segmented_variant_it(): ...", ["S3", "S3 segmented variant"]),
        ("def test_s7_trap_the_browse(): ...", ["S7", "S7 trap"]),
        ("def test_k17_and_k18_each(): ...", ["K17", "K18"]),
        ("def test_d1_10_and_d2_1_each(): ...", ["D1.10", "D2.1"]),
        ("def test_h12_4_and_h2_14_each(): ...", ["H12.4", "H2.14"]),
        ("def test_s3_1_and_s10_2_each(): ...", ["Q10.2", "Q3.1"]),
        ("def test_x5_1_and_x10_3_each(): ...", ["X10.3", "X5.1"]),
        ("def test_o3_1_and_o3_2_each(): ...", ["O3.1", "O3.2"]),
        ("def test_d7_1_each(): ...", ["D7.1"]),
        (
            '"""Transactions rule 7.1 (D7.1), transactions rules 7.2 and 7.3."""',
            ["D7.1", *(f"transactions rule 7.{n}" for n in (1, 2, 3))],
        ),
        ("def test_trap_4_it(): ...", ["queue-sharing trap 4"]),
        ("def test_s_12_each(): ...", ["S-12"]),
        ("def test_r_7_and_c2_only(): ...", ["C2", "R-7"]),
        ("def test_r7_only(): ...", ["R7"]),
        ("def test_table_5_2_and_rule_7_it(): ...", ["journal rule 7", "semantics 5.2"]),
        ("def test_table_7_gets(): ...", ["semantics 7"]),
        ("def test_a_table_of_7_gets(): ...", []),
    ],
)
def test_citations_are_found(source: str, numbers: list[str]) -> None:
    assert sorted(cases_page.cited(source).numbers) == numbers


def test_in_files_about_triggers_a_letter_is_enough() -> None:
    assert cases_page.cited("# C4, E3", triggers=True).numbers == {"C4", "E3"}
    assert not cases_page.cited("# C4, E3").numbers


def test_a_test_cites_what_stands_in_it() -> None:
    source = "# B1\n@mark  # T7.2\ndef test_s1_it():  # B9\n    '''Semantics 6.1.'''\n"
    assert cases_page.cited(source).by_test == {"test_s1_it": ["S1", "T7.2", "B9", "semantics 6.1"]}
