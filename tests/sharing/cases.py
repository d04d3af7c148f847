"""Cases and traps of queue sharing; `python -m tests.sharing.cases` lists those that no test tells yet."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.case_list import CaseList

CASES: Final = {1: 2, 2: 5, 3: 3, 4: 2, 5: 2, 6: 4, 7: 3, 8: 2, 9: 9, 10: 7}
"""How many cases each section has: Q1.1, Q1.2, and so on."""

TRAPS: Final = 10

LIST: Final = CaseList(
    [
        *(f"Q{section}.{case}" for section, count in CASES.items() for case in range(1, count + 1)),
        *(f"queue-sharing trap {number}" for number in range(1, TRAPS + 1)),
    ],
    missing=Path(__file__).parent / "missing.txt",
)

if __name__ == "__main__":
    LIST.main()
