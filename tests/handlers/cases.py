"""Cases of handlers and rules of triggers; `python -m tests.handlers.cases` lists those that no test tells yet."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.case_list import CaseList

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


LIST: Final = CaseList([*handlers(), *triggers()], missing=Path(__file__).parent / "missing.txt")

if __name__ == "__main__":
    LIST.main()
