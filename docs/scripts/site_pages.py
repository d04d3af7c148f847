"""The pages of the site that are no files in `docs/`: those that are made from the code, and those that lead on from
old addresses. `mkdocs build` adds them (`docs/site/hooks.py`); `python docs/scripts/site_pages.py cases` prints one.
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

MOVED: Final = {
    "handlers-reload.md": "workers.md#replace-its-handlers-while-they-run",
    "intra-group-queuing.md": "queue-sharing.md#intra-group-queuing",
    "pipeline-archive.md": "pipelines.md#archive-queues",
    "pipeline-reassemble.md": "pipelines.md#put-groups-and-segments-together",
    "pipeline-replay.md": "pipelines.md#put-archived-messages-back",
    "pipeline-report.md": "pipelines.md#report-on-queues",
    "queue-sharing-groups.md": "queue-sharing.md",
}
"""Old pages, and the pages and sections that have their text now."""

_LEADS_ON: Final = """\
<!doctype html>
<meta charset="utf-8">
<title>Moved</title>
<link rel="canonical" href="{page}">
<script>location.replace("{page}" + (location.hash || "{section}"))</script>
<noscript><meta http-equiv="refresh" content="0; url={page}{section}"></noscript>
<p>This page is now <a href="{page}{section}">{page}</a>.</p>
"""


def leading_on() -> dict[str, str]:
    """The file of each old address in the site, and its text. An address within an old page keeps its section."""
    found = {}
    for old, new in MOVED.items():
        page, mark, section = new.replace(".md", ".html").partition("#")
        found[old.replace(".md", ".html")] = _LEADS_ON.format(page=page, section=mark + section)
    return found


if __name__ == "__main__":
    print("\n".join(MADE[f"{name}.md"]() for name in sys.argv[1:]), end="")
