"""Cases of security; `python -m tests.security.cases` lists those that no test tells yet."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.case_list import CaseList

CASES: Final = {1: 6, 2: 5, 3: 6, 4: 9, 5: 5, 6: 3, 7: 3, 8: 3, 9: 3, 10: 3, 11: 2}
"""The number of cases of each section: X1.1, X1.2, and so on."""

LIST: Final = CaseList(
    [f"X{section}.{case}" for section, count in CASES.items() for case in range(1, count + 1)],
    missing=Path(__file__).parent / "missing.txt",
)

if __name__ == "__main__":
    LIST.main()
