"""The pages of the site that are no files in `docs/`, since they are made from the code.

`mkdocs build` adds them (`docs/site/hooks.py`); `python docs/scripts/site_pages.py cases` prints one.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import cases_page
import reasons_page

if TYPE_CHECKING:
    from collections.abc import Callable

MADE: Final[dict[str, Callable[[], str]]] = {
    "cases.md": cases_page.page,
    "constants.md": reasons_page.constants,
    "reasons.md": reasons_page.reasons,
}
"""Pages that change with the code and the tests, so they are not committed, and the functions that make them."""


if __name__ == "__main__":
    print("\n".join(MADE[f"{name}.md"]() for name in sys.argv[1:]), end="")
