"""The numbered cases of a subject, and which of them no test tells yet: those are written down in a file, which a test
holds to be exact, so that a case that is told now has to be taken off.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.scripts import script

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class CaseList:
    """The numbers of cases, in their order, and where those are written down that no test tells."""

    numbers: list[str]
    missing: Path

    def untold(self) -> list[str]:
        """Return the numbers that no test tells."""
        cases_page = script("cases_page")
        citations = map(cases_page.citations, cases_page.sources(cases_page.TESTS))
        reported = {number for each in citations for test in each.by_test.values() for number in test}
        return [number for number in self.numbers if number not in reported]

    def admitted(self) -> list[str]:
        """Return the numbers that are written down as told by no test."""
        return self.missing.read_text("utf-8").splitlines() if self.missing.exists() else []

    def main(self) -> None:
        """List what no test tells, or with `--write` write it down."""
        untold = self.untold()
        if "--write" not in sys.argv[1:]:
            sys.stdout.write(f"{len(untold)} told by no test: {', '.join(untold)}\n")
        elif untold:
            self.missing.write_text("".join(f"{number}\n" for number in untold), "utf-8")
        else:
            self.missing.unlink(missing_ok=True)
