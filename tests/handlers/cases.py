"""Which cases of handlers and which rules of triggers no test tells yet.

`python -m tests.handlers.cases` lists them; with `--write` it writes them down in `missing.txt`, which a test holds to
be exact: a case that is told now has to be taken off.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.scripts import script

MISSING: Final = Path(__file__).parent / "missing.txt"

CASES: Final = {1: 16, 2: 14, 3: 12, 4: 10, 5: 10, 6: 10, 7: 11, 8: 10, 9: 8, 10: 7, 11: 7, 12: 7, 13: 6}
"""How many cases each section of handlers has: H1.1 to H1.16, and so on."""

RULES: Final = {"C{}": 10, "E{}": 7, "R-{}": 15, "S-{}": 28}
"""The conditions, the events, the rules of the fast path and what TPF does, each from 1 on."""

NOTHING_TO_TEST: Final = {
    "S-1": "the number of a fix",
    "S-2": "what it is for",
    "S-8": "what other platforms do",
    "S-9": "why there is no initiation queue",
    "S-16": "why there is a delay",
    "S-24": "the steps of setting it up",
}


def handlers() -> list[str]:
    """The cases of handlers, in their order."""
    return [f"H{section}.{case}" for section, count in CASES.items() for case in range(1, count + 1)]


def triggers() -> list[str]:
    """The rules of triggers that can be tested, in their order."""
    numbers = [kind.format(number) for kind, count in RULES.items() for number in range(1, count + 1)]
    return [number for number in numbers if number not in NOTHING_TO_TEST]


def told() -> set[str]:
    """The numbers that tests cite, by their names or in what stands in them."""
    cases_page = script("cases_page")
    citations = map(cases_page.citations, cases_page.sources(cases_page.TESTS))
    return {number for each in citations for test in each.by_test.values() for number in test}


def untold() -> list[str]:
    """What no test tells, in the order of the pages."""
    known = told()
    return [number for number in [*handlers(), *triggers()] if number not in known]


def admitted() -> list[str]:
    """What is written down as told by no test."""
    return MISSING.read_text("utf-8").split() if MISSING.exists() else []


def main() -> None:
    """List them, or write them down."""
    missing = untold()
    if "--write" not in sys.argv[1:]:
        sys.stdout.write(f"{len(missing)} told by no test: {' '.join(missing)}\n")
    elif missing:
        MISSING.write_text("".join(f"{number}\n" for number in missing), "utf-8")
    else:
        MISSING.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
