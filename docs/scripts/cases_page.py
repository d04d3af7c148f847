"""Makes the page of cases: from each rule number to the tests and the code that cite it.

`mkdocs build` has it in the site, `python docs/scripts/site_pages.py cases` prints it. It knows no file of the
code: they may move. `tests/test_rule_numbers.py` says how rules are cited, and uses the functions here that find
citations.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass, field
from functools import cache
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = "rules"
"""Of the page of cases."""
CODE: Final = ("broker", "triggers", "examples")
TESTS: Final = "tests"
EXAMPLES: Final = "test_rule_numbers.py"
"""The file that says how rules are cited: its numbers are examples."""

PAGES: Final = (
    "rules/semantics.md", "rules/triggers.md", "reference/commands.md", "explanation/durability.md", "rules/log.md",
    "rules/claims.md", "rules/handlers.md", "rules/queue-sharing.md", "rules/security.md",
    "rules/operations.md", "rules/transactions.md", "rules/console.md",
)  # fmt: skip
"""The pages that have numbers."""

# What there is to cite


class Entry(NamedTuple):
    """The entry of a number: the page it is on, the words there, and the anchor that leads to it."""

    page: str
    words: str
    anchor: str


_HEADING: Final = re.compile(
    r"#+ (?P<title>(?P<number>\d+(?:\.\d+)?|S\d+|(?:Journal|Log|Claims|Handlers|Transactions) rule \d+"
    r"|Queue-sharing \d+(?:\.\d+)?|Security \d+)[.:]? (?P<words>.+))"
)
_ROW: Final = re.compile(r'\| <a id="(?P<anchor>[^"]+)"></a>(?P<number>\S+) \| (?P<words>.*?) \|')
_PART: Final = re.compile(r"\| (?P<number>\d+|trap|trap \w|variant \w|segmented variant) \| (?P<words>.*?) \|")
_INVARIANT: Final = re.compile(r"(?P<number>\d+)\. \*\*(?P<words>.+?)\*\*")
_LISTED: Final = re.compile(r"- \*\*(?P<number>L?[\d.]+)\*\* (?P<words>[^.:]+)")
_LISTING: Final = {
    "rules/log.md": "log rule",
    "rules/claims.md": "claims rule",
    "rules/handlers.md": "handlers rule",
    "rules/queue-sharing.md": "queue-sharing",
    "rules/security.md": "security",
    "rules/transactions.md": "transactions rule",
}
"""What the rules in the lists of these pages are cited as."""
_CASE: Final = re.compile(r'\| <a id="(?P<anchor>log-case-\d+)"></a>(?P<number>\d+) \| (?P<words>.*?) \|')
_TRAP: Final = re.compile(r'\| <a id="(?P<anchor>sharing-trap-\d+)"></a>(?P<number>trap \d+) \| (?P<words>.*?) \|')


@cache
def entries() -> dict[str, Entry]:
    """Each number that may be cited, as `cited` gives it, in the order of the pages."""
    found = {}
    for page in PAGES:
        heading = anchor = ""
        for line in (ROOT / "docs" / page).read_text("utf-8").splitlines():
            if match := _HEADING.fullmatch(line):
                heading, anchor = _as_cited(match["number"]), slug(match["title"])
                found[heading] = Entry(page, match["words"], anchor)
            elif line.startswith("#"):
                heading, anchor = "", slug(line.lstrip("# "))
            elif page == "rules/log.md" and (match := _CASE.match(line)):
                found[f"log case {match['number']}"] = Entry(page, match["words"], match["anchor"])
            elif match := _TRAP.match(line):
                found[f"queue-sharing {match['number']}"] = Entry(page, match["words"], match["anchor"])
            elif page in _LISTING and (match := _LISTED.match(line)):
                kind = "invariant" if match["number"][0] == "L" else _LISTING[page]
                found[f"{kind} {match['number']}"] = Entry(page, match["words"], anchor)
            elif match := _ROW.match(line):
                found[match["number"]] = Entry(page, match["words"], match["anchor"])
            elif heading and (match := _PART.match(line)):
                part = f"row {match['number']}" if match["number"].isdigit() else match["number"]
                found[f"{heading} {part}"] = Entry(page, match["words"], anchor)
            elif page == "explanation/durability.md" and (match := _INVARIANT.match(line)):
                found[f"invariant {match['number']}"] = Entry(page, match["words"], anchor)
    return found


def _as_cited(number: str) -> str:
    return f"semantics {number}" if number[0].isdigit() else number.lower() if " " in number else number


def slug(title: str) -> str:
    """The anchor that Markdown gives a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


# What is cited

_N: Final = r"L?\d+(?:\.\d+){0,2}"
_SEVERAL: Final = rf"{_N}(?:(?:,| and|, and| to) {_N})*"
_IN_WORDS: Final = re.compile(
    rf"\b(?P<kind>semantics|tables?|(?:journal|log|claims|handlers|queue-sharing|security|transactions) rules?|"
    rf"queue-sharing(?: traps?)?|security|log cases?|invariants?) "
    rf"(?P<numbers>{_SEVERAL})",
    re.IGNORECASE,
)
_KINDS: Final = {
    "table": "semantics", "tables": "semantics", "journal rules": "journal rule", "invariants": "invariant",
    "log rules": "log rule", "log cases": "log case", "claims rules": "claims rule",
    "handlers rules": "handlers rule", "transactions rules": "transactions rule",
    "queue-sharing rule": "queue-sharing", "queue-sharing rules": "queue-sharing",
    "queue-sharing traps": "queue-sharing trap", "security rule": "security", "security rules": "security",
}  # fmt: skip
_ROWS: Final = re.compile(
    r"\bsemantics (?P<heading>\d+\.\d+) rows? (?P<first>\d+)(?: to (?P<last>\d+))?", re.IGNORECASE
)
_CONDITION: Final = re.compile(r"\btrigger (?:conditions?|events?) ([CE]\d{1,2})\b")
_NOWHERE: Final = re.compile(
    r"(?<!journal )(?<!log )(?<!claims )(?<!handlers )(?<!transactions )(?<!queue-sharing )(?<!security )"
    r"\b(?:rules?|sections?) [A-Z]?\d[\d.]*",
    re.IGNORECASE,
)
_LETTERED: Final = re.compile(r"\b(?:[DHNOQTX]\d+\.\d+|[BKLS]\d{1,2}|[RS]-\d{1,2})\b")
_OF_TRIGGERS: Final = re.compile(r"\b[CE]\d{1,2}\b")
_LABEL: Final = re.compile(r"L\d{1,2}\b")
_IN_NAME: Final = re.compile(
    r"(?:and_)?(?:(?P<kind>[dhnostx])(?P<section>\d+)_(?P<case>\d+)|trap_(?P<sharing_trap>\d+)|(?P<letter>[a-z])(?P<dash>_?)(?P<number>\d+)"
    r"|rule_(?P<rule>\d+)|log_case_(?P<log_case>\d+)|table_(?P<table>\d+(?:_\d+)?))"
    r"(?P<part>_segmented_variant|_(?:trap|variant)(?:_[a-z](?=_))?)?_"
)


def cited_in_words(text: str) -> list[str]:
    """The numbers that a text cites in words: "semantics 5.2 and 5.4", "table 3.2", "journal rule 7", "invariant 3",
    "queue-sharing trap 4". What is called a rule or a section and is on no page is among them: it leads nowhere.
    """
    text = re.sub(r"\s+", " ", text)
    found = []
    for match in _IN_WORDS.finditer(text):
        kind = match["kind"].lower()
        found += [f"{_KINDS.get(kind, kind)} {number}" for number in re.findall(_N, match["numbers"])]
    for match in _ROWS.finditer(text):
        rows = range(int(match["first"]), int(match["last"] or match["first"]) + 1)
        found += [f"semantics {match['heading']} row {row}" for row in rows]
    return [*found, *_CONDITION.findall(text), *_NOWHERE.findall(text)]


def cited_in_page(text: str) -> list[str]:
    """The numbers that a page cites in words. A section is one of its own, and its rules are its own affair."""
    return [number for number in cited_in_words(text) if not _NOWHERE.fullmatch(number)]


def cited_by_letter(text: str, *, triggers: bool) -> list[str]:
    """The numbers that a comment or a docstring cites by a letter: T6.1, D7.1, H2.3, N2.1, O3.1, Q3.1, X5.1, S3, B9,
    K7, L8, R-6, S-12; C4 and E3 where it is about triggers.
    """
    text = _IN_WORDS.sub("", text)  # invariant L3 is not L3
    return _LETTERED.findall(text) + (_OF_TRIGGERS.findall(text) if triggers else [])


def cited_by_name(name: str) -> list[str]:
    """The numbers with which the name of a test begins: `test_t6_1_...`, `test_table_5_2_...`, `test_rule_7_...`,
    `test_s3_trap_b_and_t15_3_...`, `test_h2_3_...`, `test_o3_1_...`, `test_x5_1_...`; of queue sharing
    `test_s3_1_...` (Q3.1) and `test_trap_4_...`.
    """
    found = []
    at = len("test_")
    while match := _IN_NAME.match(name, at):
        if match["rule"]:
            number = f"journal rule {match['rule']}"
        elif match["log_case"]:
            number = f"log case {match['log_case']}"
        elif match["sharing_trap"]:
            number = f"queue-sharing trap {match['sharing_trap']}"
        elif match["table"]:
            number = f"semantics {match['table'].replace('_', '.')}"
        elif match["section"]:
            kind = "Q" if match["kind"] == "s" else match["kind"].upper()
            number = f"{kind}{match['section']}.{match['case']}"
        else:
            number = f"{match['letter'].upper()}{match['dash'] and '-'}{match['number']}"
        found.append(number)
        if match["part"]:
            found.append(number + match["part"].replace("_", " "))
        at = match.end()
    return found


@dataclass
class Citations:
    """The numbers that a file cites: all of them with their lines, and those of each test that it has."""

    everywhere: list[tuple[int, str]] = field(default_factory=list)
    by_test: dict[str, list[str]] = field(default_factory=dict)

    @property
    def numbers(self) -> set[str]:
        return {number for _, number in self.everywhere}


@cache
def citations(path: Path) -> Citations:
    """Return the citations in a Python file."""
    return cited(path.read_text("utf-8"), triggers="trigger" in path.relative_to(ROOT).as_posix())


def cited(source: str, *, triggers: bool = False) -> Citations:
    """Return the citations in a Python source: in comments, docstrings, other texts and the names of its tests."""
    nodes = list(ast.walk(ast.parse(source)))
    found = [*_in_comments(source, triggers=triggers), *_in_strings(nodes, triggers=triggers)]
    by_test: dict[str, list[str]] = {}
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            named = cited_by_name(node.name)
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            inside = [number for line, number in found if first <= line <= (node.end_lineno or first)]
            by_test[node.name] = list(dict.fromkeys(named + inside))
            found += [(node.lineno, number) for number in named]
    return Citations(sorted(found), by_test)


def _in_comments(source: str, *, triggers: bool) -> Iterator[tuple[int, str]]:
    if not re.search(r"#.*\d", source):  # each has a digit, and to take a source apart takes long
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            for number in cited_in_words(token.string) + cited_by_letter(token.string, triggers=triggers):
                yield token.start[0], number


def _in_strings(nodes: list[ast.AST], *, triggers: bool) -> Iterator[tuple[int, str]]:
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # docstrings, of attributes too
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            numbers = cited_in_words(node.value)
            if id(node) in prose:
                numbers += cited_by_letter(node.value, triggers=triggers)
            elif match := _LABEL.match(node.value):
                numbers.append(match[0])
            for number in numbers:
                yield node.lineno, number


def sources(*folders: str) -> list[Path]:
    """The Python files in these folders of the project."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py") if path.name != EXAMPLES)


# The page

_INTRODUCTION: Final = """\
# From the rules to the tests and the code

Each number of [the semantics](semantics.md), [triggering](triggers.md), [commands](../reference/commands.md),
[durability](../explanation/durability.md), [the log](log.md), [claims](claims.md), [handlers](handlers.md),
[transactions](transactions.md), [queue sharing](queue-sharing.md) and [security](security.md), with its tests, which
cite it by their names or in a comment, and the files that cite it. `pytest <test>` runs one.

This page is made from the tests and the code when the site is built.
"""


@dataclass
class Citing:
    """The files that cite a number: tests, other files among the tests, files of the code."""

    tests: list[str] = field(default_factory=list)
    test_files: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)


def citing() -> dict[str, Citing]:
    """Return the files that cite each number."""
    found: dict[str, Citing] = {}

    def of(number: str) -> Citing:
        return found.setdefault(number, Citing())

    for path in sources(TESTS):
        name, cites = path.relative_to(ROOT).as_posix(), citations(path)
        for test, numbers in cites.by_test.items():
            for number in numbers:
                of(number).tests.append(f"{name}::{test}")
        for number in sorted(cites.numbers):
            of(number).test_files.append(name)
    for path in sources(*CODE):
        for number in sorted(citations(path).numbers):
            of(number).code.append(path.relative_to(ROOT).as_posix())
    return found


def page() -> str:
    """The page, in Markdown."""
    known = entries()
    found = citing()

    def those(pattern: str) -> list[str]:
        return [number for number in known if re.fullmatch(pattern, number)]

    parts = [_INTRODUCTION, "## Headings of the semantics\n", _files(those(r"semantics [\d.]+"), found)]
    for number in those(r"semantics \d+"):
        section = number.removeprefix("semantics ")
        if cases := those(rf"T{section}\.\d+"):
            parts += [f"## Cases of section {section}: {known[number].words}\n", _tests(cases, found)]
    scenarios = [number for number in known if re.match(r"S\d+\b", number)]
    parts += ["## Scenarios\n", _tests(scenarios, found)]
    parts += ["## Open points\n", _tests(those(r"B\d+"), found)]
    parts += ["## Triggering: conditions, events, fast path\n", _tests(those(r"[CE]\d+|[SR]-\d+"), found)]
    parts += ["## How commands are written\n", _files(those(r"L\d+"), found)]
    parts += ["## Rules of the journal, and invariants\n", _files(those(r"(?:journal rule|invariant) \d+"), found)]
    parts += ["## The log: rules, and invariants\n", _files(those(r"log rule [\d.]+|invariant L\d+"), found)]
    parts += ["## Cases of the log\n", _tests(those(r"log case \d+"), found)]
    parts += ["## Claims and prepared units: rules\n", _files(those(r"claims rule [\d.]+"), found)]
    parts += ["## Cases of claims and prepared units\n", _tests(those(r"K\d+"), found)]
    parts += ["## Handlers: rules\n", _files(those(r"handlers rule [\d.]+"), found)]
    parts += ["## Cases of handlers\n", _tests(those(r"H\d+\.\d+"), found)]
    parts += ["## Transactions: rules\n", _files(those(r"transactions rule [\d.]+"), found)]
    parts += ["## Cases of transactions\n", _tests(those(r"D\d+\.\d+"), found)]
    parts += ["## Queue sharing: rules\n", _files(those(r"queue-sharing [\d.]+"), found)]
    parts += ["## Cases of queue sharing\n", _tests(those(r"Q\d+\.\d+"), found)]
    parts += ["## Traps of queue sharing\n", _tests(those(r"queue-sharing trap \d+"), found)]
    parts += ["## Security: rules\n", _files(those(r"security [\d.]+"), found)]
    parts += ["## Cases of security\n", _tests(those(r"X\d+\.\d+"), found)]
    parts += ["## Cases of operations\n", _tests(those(r"O\d+\.\d+"), found)]
    parts += ["## Cases of the console\n", _tests(those(r"N\d+\.\d+"), found)]
    return "\n".join(parts)


def _tests(numbers: Iterable[str], found: dict[str, Citing]) -> str:
    lines = ["| | | tests |", "|---|---|---|"]
    for number in numbers:
        tests = "<br>".join(f"`{test}`" for test in found.get(number, Citing()).tests)
        lines.append(f"| {link(number)} | {entries()[number].words} | {tests or '-'} |")
    return "\n".join(lines) + "\n"


def _files(numbers: Iterable[str], found: dict[str, Citing]) -> str:
    lines = ["| | | code | tests |", "|---|---|---|---|"]
    for number in numbers:
        citing = found.get(number, Citing())
        code, tests = ("<br>".join(f"`{file}`" for file in files) or "-" for files in (citing.code, citing.test_files))
        lines.append(f"| {link(number)} | {entries()[number].words} | {code} | {tests} |")
    return "\n".join(lines) + "\n"


_SHORT: Final = re.compile(r"^(?:semantics|queue-sharing|security) ")


def link(number: str) -> str:
    """The link to a number's place on its page."""
    entry = entries()[number]
    return f"[{_SHORT.sub('', number)}]({relpath(entry.page, FOLDER)}#{entry.anchor})"
